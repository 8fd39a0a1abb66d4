#!/usr/bin/env python3
"""CLAHE of a volume in memory: histeqd's library in turns with scikit-image's equalize_adapthist, which has the same boxes and clip limit. Prints the
table of docs/benchmarks.md: the least time of several runs, and how far the results are apart in levels of 8 bits.

cargo build --release -p histeqd-equalize --example volume && benches/volumes.py [--runs 3] [--threads 2]
needs: numpy, scikit-image
"""
import argparse
import os
import subprocess
import tempfile
import time

import numpy as np
from skimage.exposure import equalize_adapthist

EXAMPLE = os.path.join(os.path.dirname(__file__), '../target/release/examples/volume')
BOXES, LIMIT = (8, 8, 4), 2  # across, down, along; at 16 bits the automatic limit, which is the same for the levels that occur


def cells(width, height, pages, kind):
    """Balls of many sizes and brightnesses in uneven light, with noise, as in a z-stack of a microscope."""
    random = np.random.default_rng(1)
    z, y, x = np.ogrid[:pages, :height, :width]
    volume = 0.1 + 0.25 * x / width + 0.1 * y / height + np.zeros((pages, height, width), np.float32)
    for _ in range(60):
        at, radius = random.uniform(0, 1, 3) * (pages, height, width), random.uniform(6, 40)
        volume += random.uniform(0.1, 0.5) * np.exp(-(((z - at[0]) * 3) ** 2 + (y - at[1]) ** 2 + (x - at[2]) ** 2) / radius**2)
    volume += random.normal(0, 0.02, volume.shape)
    return (volume.clip(0, 1.2) / 1.2 * np.iinfo(kind).max).astype(kind)


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument('--runs', type=int, default=3)
    arguments.add_argument('--threads', type=int, default=2)
    options = arguments.parse_args()
    print(f'| {options.threads} threads | histeqd, s | scikit-image, s | times | levels apart: mean | 99 % | most |\n| --- | --: | --: | --: | --: | --: | --: |')
    for width, height, pages, kind in ((512, 512, 32, np.uint8), (512, 512, 64, np.uint8), (512, 512, 64, np.uint16)):
        volume = cells(width, height, pages, kind)
        with tempfile.NamedTemporaryFile(dir='/dev/shm') as file:
            volume.tofile(file.name)
            numbers = [volume.itemsize * 8, width, height, pages, LIMIT if kind == np.uint8 else 0, *BOXES, options.threads]
            ours = subprocess.Popen([EXAMPLE, file.name, *map(str, numbers)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1)
            times = ([], [])
            for _ in range(options.runs):
                ours.stdin.write('\n')
                times[0].append(float(ours.stdout.readline()))
                start = time.perf_counter()
                kernel = (pages // BOXES[2], height // BOXES[1], width // BOXES[0])
                theirs = equalize_adapthist(volume, kernel_size=kernel, clip_limit=LIMIT / 256, nbins=256)
                times[1].append(time.perf_counter() - start)
            ours.stdin.close()
            ours.wait()
            result = np.fromfile(file.name, kind).reshape(volume.shape) / np.iinfo(kind).max * 255
        apart = np.abs(result - theirs * 255)
        mine, other = map(min, times)
        name = f'{width}x{height}x{pages}, {volume.itemsize * 8} bit'
        print(f'| {name} | {mine:.3f} | {other:.2f} | {other / mine:.0f} | {apart.mean():.2f} | {np.percentile(apart, 99):.1f} | {apart.max():.1f} |', flush=True)


if __name__ == '__main__':
    main()
