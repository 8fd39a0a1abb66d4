#!/usr/bin/env python3
"""histeqd on very many very small pictures, beside cp -r of them. Prints a Markdown table.

usage: benches/small.py SCRATCH [--pictures N] [--runs N] [--histeqd BINARY]
needs: pip install opencv-python-headless. SCRATCH best lies in memory (/dev/shm).

Gray PGMs of 64x64, RGB PNGs of 64x64 and RGB JPEGs of 128x128, a thousand in a folder. All take turns; medians.
"""
import argparse, os, shutil, statistics, subprocess, time
from pathlib import Path

SIDES = {'pgm': 64, 'png': 64, 'jpg': 128}


def make(folder, kind, count):
    import cv2, numpy
    random = numpy.random.default_rng(7)
    for number in range(count):
        path = folder / str(number // 1000) / f'{number}.{kind}'
        path.parent.mkdir(parents=True, exist_ok=True)
        coarse = random.integers(40, 160, (8, 8), dtype=numpy.uint8)
        gray = cv2.resize(coarse, (SIDES[kind], SIDES[kind]), interpolation=cv2.INTER_CUBIC)
        cv2.imwrite(str(path), gray if kind == 'pgm' else cv2.merge([gray, gray[::-1], gray.T]))


def seconds(command, out):
    shutil.rmtree(out, ignore_errors=True)
    os.sync()
    start = time.perf_counter()
    subprocess.run(command, check=True)
    return time.perf_counter() - start


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('scratch', type=Path)
    parser.add_argument('--pictures', type=int, default=100_000)
    parser.add_argument('--runs', type=int, default=3)
    parser.add_argument('--histeqd', default='target/release/histeqd')
    given = parser.parse_args()
    out = given.scratch / 'out'
    print(f'{given.pictures} files, {os.cpu_count()} cores, median of {given.runs} runs, files a second\n')
    print('| | `cp -r` | histeqd `--durability fast` | histeqd |\n| --- | --: | --: | --: |')
    for kind, side in SIDES.items():
        folder = given.scratch / kind
        make(folder, kind, given.pictures)
        histeqd = [given.histeqd, folder, '--out', out, '--no-config', '--quiet', '--devices', 'cpu']
        ways = [['cp', '-r', folder, out], [*histeqd, '--durability', 'fast'], histeqd]
        times = zip(*([seconds(way, out) for way in ways] for _ in range(given.runs)))
        rates = ' | '.join(f'{given.pictures / statistics.median(each):.0f}' for each in times)
        print(f'| {kind.upper()}, {side}x{side} | {rates} |', flush=True)
        shutil.rmtree(folder)
    shutil.rmtree(out, ignore_errors=True)


if __name__ == '__main__':
    main()
