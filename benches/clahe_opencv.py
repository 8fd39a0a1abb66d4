#!/usr/bin/env python3
"""CLAHE in memory: histeqd's library in turns with OpenCV, on one core and on two. Prints the table of docs/benchmarks.md.

cargo build --release -p histeqd-equalize --example clahe && benches/clahe_opencv.py [--runs 9] [--only TEXT]
needs: numpy, opencv-python-headless; taskset
"""
import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time

import cv2
import numpy as np

EXAMPLE = os.path.join(os.path.dirname(__file__), '../target/release/examples/clahe')


def photograph(width, height, bits, shift=0):
    """Smooth shapes, edges and a camera's noise, over the whole range of `bits` bits."""
    random = np.random.default_rng(1)
    y, x = np.mgrid[:height, :width].astype(np.float32)
    waves = sum(np.sin(x / random.uniform(40, 900) + random.uniform(0, 6)) * np.cos(y / random.uniform(40, 900)) for _ in range(8))
    waves += (np.sin(x / 97) * np.sin(y / 133) > 0.6) * 1.5
    waves += random.normal(0, 0.05, waves.shape)
    waves -= waves.min()
    top = (1 << bits) - 1
    return (np.rint(waves / waves.max() * top).astype(np.uint16) << shift).astype(np.uint8 if bits == 8 else np.uint16)


def small_tiles(width, height):
    ramp = np.add.outer(np.arange(height) * 7, np.arange(width) * 5) % 20000
    return (ramp + np.random.default_rng(1).integers(0, 500, ramp.shape)).astype(np.uint16)


def noise(width, height, kind):
    return np.random.default_rng(2).integers(0, np.iinfo(kind).max, (height, width), kind, endpoint=True)


def cases():
    """Yields name, picture, tiles across and down, clip limit."""
    for bits, shift, name in [(16, 0, '16 bit'), (12, 0, '12 bit'), (12, 4, '12 bit in the upper bits'), (8, 0, '8 bit')]:
        yield f'12.6 MP, {name}, 8x8 tiles', lambda: photograph(4096, 3072, bits, shift), (8, 8), 2.0
    yield '12.6 MP, 16 bit, noise, 8x8 tiles', lambda: noise(4096, 3072, np.uint16), (8, 8), 2.0
    yield '12.6 MP, 12 bit, noise, 8x8 tiles', lambda: noise(4096, 3072, np.uint16) >> 4, (8, 8), 2.0
    for bits, name in [(16, '16 bit'), (12, '12 bit')]:
        for side in (128, 64, 32):
            yield f'12.6 MP, {name}, tiles of {side} pixels', lambda: photograph(4096, 3072, bits), (4096 // side, 3072 // side), 100.0
    yield '4.2 MP, 16 bit, ramp, tiles of 32 pixels', lambda: small_tiles(2048, 2048), (64, 64), 100.0
    for kind, name in [(np.uint16, '16 bit, noise'), (np.uint8, '8 bit, noise')]:
        for grid in (32, 256, 1024):
            yield f'1 MP, {name}, {grid}x{grid} tiles', lambda: noise(1024, 1024, kind), (grid, grid), 2.0


def opencv(picture, grid, limit):
    """Returns the seconds that OpenCV takes, or infinity if the tables of all tiles do not fit into memory."""
    start = time.perf_counter()
    try:
        cv2.createCLAHE(limit, grid).apply(picture)
    except cv2.error:
        return float('inf')
    return time.perf_counter() - start


def cores(number):
    os.sched_setaffinity(0, range(number))
    cv2.setNumThreads(number)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--runs', type=int, default=9)
    parser.add_argument('--only', default='')
    parser.add_argument('--example', default=EXAMPLE)
    options = parser.parse_args()
    print('| ms a picture | histeqd, one core | OpenCV | speedup | histeqd, two | OpenCV | speedup |')
    print('| --- | --: | --: | --: | --: | --: | --: |')
    for name, make, (columns, rows), limit in cases():
        if options.only not in name:
            continue
        picture = make()
        row = [name]
        with tempfile.NamedTemporaryFile(suffix='.pgm') as file:
            cv2.imwrite(file.name, picture)
            for number in (1, 2):
                cores(number)
                command = [options.example, file.name, str(columns), str(rows), str(limit), str(number)]
                own, other = [], []
                with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
                    for _ in range(options.runs + 1):
                        process.stdin.write('\n')
                        process.stdin.flush()
                        own.append(float(process.stdout.readline()))
                        if len(other) < 2 or other[-1] < 2:
                            other.append(opencv(picture, (columns, rows), limit))
                    process.stdin.close()
                # The first of each touches its memory for the first time.
                mine, theirs = (statistics.median(times[1:]) * 1000 for times in (own, other))
                fits = theirs < float('inf')
                row += [f'{mine:.1f}', f'{theirs:.1f}' if fits else '', f'{theirs / mine:.2f}' if fits else '']
        print('| ' + ' | '.join(row) + ' |')
        sys.stdout.flush()


if __name__ == '__main__':
    main()
