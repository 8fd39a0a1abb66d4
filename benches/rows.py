#!/usr/bin/env python3
"""Times the settings that people run beside OpenCV's usual recipe, on one core: processor time, formats by settings.

usage: benches/rows.py PHOTOGRAPHS SCRATCH [--runs 5] [--histeqd target/release/histeqd]
needs: pip install numpy opencv-python-headless; PHOTOGRAPHS is a folder of JPEGs, SCRATCH a folder in memory

The recipe is CLAHE of L in L*a*b* (limit 2, 8x8 tiles), of Y in YCrCb for 16 bits, read and written by OpenCV in the format of the row. All take turns; figures are medians,
in nanoseconds a pixel, and how many times as long the recipe takes.
"""
import argparse, resource, shutil, statistics, subprocess
from pathlib import Path

import cv2
import numpy as np

ROOT = Path(__file__).resolve().parent.parent
SETTINGS = ['--preset photo', '--color hue', '--method clahe --color hue', '--method clahe', '--color luma', '--method clahe --color lab', '--color per-channel',
            '--preset scan', '--color gray']
FORMATS = {'JPEG': ('jpg', [cv2.IMWRITE_JPEG_QUALITY, 90], ['--quality', '90']), 'PNG': ('png', [], []), 'TIFF, 16 bit': ('tif', [], [])}


def recipe(picture):
    """The picture with its brightness equalized, as most programs do it."""
    wide = picture.dtype == np.uint16
    to, back = (cv2.COLOR_BGR2YCrCb, cv2.COLOR_YCrCb2BGR) if wide else (cv2.COLOR_BGR2LAB, cv2.COLOR_LAB2BGR)
    planes = cv2.cvtColor(picture, to)
    planes[..., 0] = cv2.createCLAHE(2.0, (8, 8)).apply(np.ascontiguousarray(planes[..., 0]))
    return cv2.cvtColor(planes, back)


def spent(who):
    usage = resource.getrusage(who)
    return usage.ru_utime + usage.ru_stime


def time_recipe(files, out, flags):
    before = spent(resource.RUSAGE_SELF)
    for file in files:
        cv2.imwrite(str(out / file.name), recipe(cv2.imread(str(file), cv2.IMREAD_UNCHANGED)), flags)
    return spent(resource.RUSAGE_SELF) - before


def time_histeqd(binary, folder, out, flags):
    shutil.rmtree(out, ignore_errors=True)
    command = ['taskset', '-c', '0', binary, folder, '--out', out, '--devices', 'cpu', '--no-config', '--quiet', *flags]
    before = spent(resource.RUSAGE_CHILDREN)
    subprocess.run(list(map(str, command)), check=True)
    return spent(resource.RUSAGE_CHILDREN) - before


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument('photographs', type=Path)
    parser.add_argument('scratch', type=Path)
    parser.add_argument('--runs', type=int, default=5)
    parser.add_argument('--histeqd', default=ROOT / 'target/release/histeqd')
    given = parser.parse_args()
    cv2.setNumThreads(1)
    pictures = {path.stem: cv2.imread(str(path)) for path in sorted(given.photographs.glob('*.jpg'))}
    pixels = sum(picture.shape[0] * picture.shape[1] for picture in pictures.values())
    print(f'{len(pictures)} pictures, {pixels / 1e6:.0f} MP\n')
    print('| | ' + ' | '.join(f'{name}, ns | times' for name in FORMATS) + ' |')
    print('| --- |' + ' --: | --: |' * len(FORMATS))
    rows = {flags: [] for flags in SETTINGS}
    for suffix, written, flags in FORMATS.values():
        folder, out = given.scratch / suffix, given.scratch / f'{suffix}-out'
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        for name, picture in pictures.items():
            samples = picture.astype(np.uint16) * 257 if suffix == 'tif' else picture
            cv2.imwrite(str(folder / f'{name}.{suffix}'), samples, written)
        files, peer = sorted(folder.iterdir()), given.scratch / f'{suffix}-peer'
        peer.mkdir(exist_ok=True)
        usable = [setting for setting in SETTINGS if suffix != 'tif' or 'lab' not in setting]
        times = {setting: [] for setting in [*usable, 'recipe']}
        for _ in range(given.runs):
            times['recipe'].append(time_recipe(files, peer, written))
            for setting in usable:
                times[setting].append(time_histeqd(given.histeqd, folder, out, [*setting.split(), *flags]))
        of_recipe = statistics.median(times['recipe'])
        for setting in SETTINGS:
            own = statistics.median(times[setting]) if setting in times else None
            rows[setting] += [f'{own / pixels * 1e9:.1f}', f'{of_recipe / own:.2f}'] if own else ['', '']
    for setting, cells in rows.items():
        print(f'| `{setting}` | ' + ' | '.join(cells) + ' |')


if __name__ == '__main__':
    main()
