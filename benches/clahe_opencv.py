#!/usr/bin/env python3
"""One picture in memory: histeqd's library in turns with OpenCV, on as many threads each. Prints the tables of docs/benchmarks.md: the least time of
several runs of every number of threads, which take turns, and how many times as fast several threads are as one.

cargo build --release -p histeqd-equalize --example clahe && benches/clahe_opencv.py [--threads 1,2,4] [--runs 9] [--only TEXT]
needs: numpy, opencv-python-headless
"""
import argparse
import os
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
    """Yields name, picture, tiles across and down (none: global equalization), clip limit."""
    for megapixels, width, height in (('12.6', 4096, 3072), ('100', 11520, 8704)):
        for bits in (8, 16):
            yield f'{megapixels} MP, {bits} bit, global', lambda: photograph(width, height, bits), (0, 0), 2.0
    for bits in (8, 16):
        yield f'100 MP, {bits} bit, 8x8 tiles', lambda: photograph(11520, 8704, bits), (8, 8), 2.0
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


def opencv(picture, grid, limit, threads):
    """Returns the seconds that OpenCV takes, or infinity if it cannot, or has no memory for the tables of all tiles."""
    cv2.setNumThreads(threads)
    clahe = cv2.createCLAHE(limit, grid) if any(grid) else None
    start = time.perf_counter()
    try:
        clahe.apply(picture) if clahe else cv2.equalizeHist(picture)
    except cv2.error:
        return float('inf')
    return time.perf_counter() - start


def start(options, file, grid, limit, threads):
    command = [options.example, file, *map(str, grid), str(limit), str(threads)]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def histeqd(process):
    process.stdin.write('\n')
    process.stdin.flush()
    return float(process.stdout.readline())


def measure(options, file, picture, grid, limit):
    """Returns the least seconds of histeqd and of OpenCV, for each number of threads."""
    processes = [start(options, file, grid, limit, threads) for threads in options.threads]
    times = [([], []) for _ in options.threads]
    # The first of each touches its memory for the first time.
    for run in range(options.runs + 1):
        for threads, process, (own, other) in zip(options.threads, processes, times):
            own.append(histeqd(process))
            if len(other) < 2 or other[-1] < 2:
                other.append(opencv(picture, grid, limit, threads))
    for process in processes:
        process.communicate()
    return [(min(own[1:]), min(other[1:])) for own, other in times]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--threads', type=lambda text: [int(number) for number in text.split(',')], default=[1, 2])
    parser.add_argument('--runs', type=int, default=9)
    parser.add_argument('--only', default='')
    parser.add_argument('--example', default=EXAMPLE)
    options = parser.parse_args()
    print('| ms a picture | ' + ' | '.join(f'histeqd, {threads} | OpenCV | speedup' for threads in options.threads) + ' |')
    print('| --- |' + ' --: |' * (3 * len(options.threads)))
    for name, make, grid, limit in cases():
        if options.only not in name:
            continue
        picture = make()
        with tempfile.NamedTemporaryFile(suffix='.pgm') as file:
            cv2.imwrite(file.name, picture)
            found = measure(options, file.name, picture, grid, limit)
        row, alone = [name], found[0]
        for mine, theirs in found:
            times = [f'{mine * 1000:.1f} ({alone[0] / mine:.2f}x)', f'{theirs * 1000:.1f} ({alone[1] / theirs:.2f}x)', f'{theirs / mine:.2f}']
            row += times if theirs < float('inf') else [times[0], '', '']
        print('| ' + ' | '.join(row) + ' |', flush=True)


if __name__ == '__main__':
    main()
