#!/usr/bin/env python3
"""Equalizes every page of an OME-TIFF stack, with histeqd and as it is usually done with tifffile, numpy and scikit-image; says how the times
compare. usage: stack.py HISTEQD [--pages N] [--folder DIR] [--compression lzw|zlib] [--runs N]

The stack is made in DIR (default /dev/shm) and removed again: pages of 2048 x 2048 pixels of 16 bits, 256 of which are 2 GB. The numpy way reads
in one thread and computes in as many as there are cores. Both write the same kind of file: stored, or compressed alike.

needs: pip install tifffile numpy scikit-image imagecodecs
"""
import argparse, collections, os, shutil, subprocess, sys, tempfile, time
from concurrent.futures import ThreadPoolExecutor
import numpy as np
import tifffile

SIDE = 2048


def pages(count):
    ramp = np.linspace(0, 1500, SIDE, dtype=np.float32)
    scene = np.add.outer(ramp, ramp).astype(np.uint16)
    noise = np.random.default_rng(1).integers(0, 200, (SIDE, SIDE), dtype=np.uint16)
    for number in range(count):
        yield scene + np.roll(noise, 17 * number) + np.uint16(number)


def equalized(page):
    counts = np.bincount(page.ravel(), minlength=65536)
    first = counts.nonzero()[0][0]
    above = counts.cumsum() - counts[first]
    lut = np.round(above / above[-1] * 65535).clip(0, 65535).astype(np.uint16)
    return lut[page]


def with_numpy(source, target, compression):
    def results(series):
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            waiting = collections.deque()
            for page in series.pages:
                waiting.append(pool.submit(equalized, page.asarray()))
                if len(waiting) > 2 * os.cpu_count():
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()

    with tifffile.TiffFile(source) as file:
        series = file.series[0]
        tifffile.imwrite(target, results(series), shape=series.shape, dtype=series.dtype, bigtiff=True, metadata=None,
                         description=file.pages[0].description.encode(), compression=compression)


def with_skimage(source, target, compression):
    from skimage import exposure
    stack = tifffile.imread(source)
    out = np.stack([(exposure.equalize_hist(page, nbins=65536) * 65535).astype(np.uint16) for page in stack])
    tifffile.imwrite(target, out, bigtiff=True, compression=compression)


def timed(action):
    start = time.monotonic()
    action()
    return time.monotonic() - start


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument('histeqd')
    arguments.add_argument('--pages', type=int, default=256)
    arguments.add_argument('--folder', default='/dev/shm')
    arguments.add_argument('--compression', choices=['lzw', 'zlib'])
    arguments.add_argument('--runs', type=int, default=3)
    given = arguments.parse_args()
    folder = tempfile.mkdtemp(dir=given.folder)
    source, out = os.path.join(folder, 'stack.ome.tif'), os.path.join(folder, 'out')
    try:
        tifffile.imwrite(source, pages(given.pages), shape=(given.pages, SIDE, SIDE), dtype=np.uint16, bigtiff=True,
                         metadata={'axes': 'ZYX', 'PhysicalSizeX': 0.1}, compression=given.compression)
        ours = [given.histeqd, source, '--out', out, '--durability', 'fast', '--memory', '256MiB', '--quiet']
        ways = {
            'histeqd': lambda: subprocess.run(ours, check=True),
            'tifffile + numpy': lambda: with_numpy(source, os.path.join(out, 'numpy.tif'), given.compression),
            'scikit-image': lambda: with_skimage(source, os.path.join(out, 'skimage.tif'), given.compression),
        }
        times = collections.defaultdict(list)
        for _ in range(given.runs):
            for name, way in ways.items():
                os.makedirs(out, exist_ok=True)
                times[name].append(timed(way))
                if name == 'tifffile + numpy' and given.runs == len(times[name]):
                    subprocess.run(ours, check=True)
                    with tifffile.TiffFile(os.path.join(out, 'stack.ome.tif')) as a, \
                            tifffile.TiffFile(os.path.join(out, 'numpy.tif')) as b:
                        same = all(np.abs(x.asarray().astype(int) - y.asarray()).max() <= 1 for x, y in zip(a.pages, b.pages))
                        print(f'{len(a.pages)} pages, OME: {a.is_ome}, as numpy makes them: {same}')
                shutil.rmtree(out)
        median = {name: sorted(all)[len(all) // 2] for name, all in times.items()}
        for name, seconds in median.items():
            print(f'{name}: {seconds:.2f} s, {seconds / median["histeqd"]:.1f} times histeqd')
    finally:
        shutil.rmtree(folder)


main()
