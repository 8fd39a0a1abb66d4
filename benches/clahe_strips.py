#!/usr/bin/env python3
"""Times CLAHE of a single picture, from pinned memory to pinned memory: uploaded whole before its tiles are counted, and uploaded in
strips, one per row of tiles, each counted on a second stream while the next strip is uploaded.

usage, from the project's folder: clahe_strips.py        needs: numpy, cupy
"""
import pathlib
import statistics
import sys
import time

import cupy
import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import kernels_gpu as kernels

UP, DOWN = 1, 2
TILES = 8


def pinned(samples):
    memory = cupy.cuda.alloc_pinned_memory(samples.nbytes)
    array = np.frombuffer(memory, np.uint8, samples.nbytes)
    array[:] = samples.ravel()
    return memory, array


class Picture:
    """A gray picture that divides into tiles without padding, and a lane to equalize it on."""

    def __init__(self, width, height):
        self.width, self.height, self.size = width, height, width * height
        y, x = np.mgrid[:height, :width].astype(np.float32)
        noise = np.random.default_rng(1).integers(0, 8, (height, width), np.uint8)
        natural = (90 + 50 * np.sin(x / 97) * np.cos(y / 61)).astype(np.uint8) + noise
        (self.source, _), (self.result, self.out) = pinned(natural), pinned(natural)
        self.plane = cupy.zeros(self.size, np.uint8)
        self.lane = kernels.Lane(kernels.Module(kernels.PREBUILT))
        self.upload = cupy.cuda.Stream(non_blocking=True)
        self.tiling = kernels.tiling(width, height, TILES, TILES, 2.0, 8)
        self.lane.clahe(self.plane.data.ptr, self.tiling, 8)  # allocates the lane's buffers
        cupy.cuda.Device().synchronize()

    def copy(self, to, source, size, way, stream):
        kernels.runtime.memcpyAsync(to, source, size, way, stream.ptr)

    def finish(self):
        self.lane.clahe(self.plane.data.ptr, self.tiling, 8, steps="cells")
        self.copy(self.result.ptr, self.plane.data.ptr, self.size, DOWN, self.lane.stream)
        self.lane.stream.synchronize()

    def whole(self):
        self.copy(self.plane.data.ptr, self.source.ptr, self.size, UP, self.lane.stream)
        self.lane.clahe(self.plane.data.ptr, self.tiling, 8, steps="tiles")
        self.finish()

    def strips(self):
        rows = self.height // TILES
        strip, luts = rows * self.width, self.lane.tile_luts
        one_row = kernels.tiling(self.width, rows, TILES, 1, 2.0, 8)
        for row in range(TILES):
            self.copy(self.plane.data.ptr + row * strip, self.source.ptr + row * strip, strip, UP, self.upload)
            arrived = cupy.cuda.Event(disable_timing=True)
            arrived.record(self.upload)
            self.lane.stream.wait_event(arrived)
            self.lane.tile_luts = luts[row * TILES * 256:]
            self.lane.clahe(self.plane.data.ptr + row * strip, one_row, 8, steps="tiles")
        self.lane.tile_luts = luts
        self.finish()


def seconds(work):
    begin = time.perf_counter()
    work()
    return time.perf_counter() - begin


def main():
    print("| picture | whole, ms | in strips, ms | |\n| --- | --: | --: | --: |")
    for width, height in (4096, 3072), (16384, 16384):
        picture = Picture(width, height)
        picture.whole()
        expected = picture.out.copy()
        picture.out[:] = 0
        picture.strips()
        assert np.array_equal(picture.out, expected), "strips gave other bytes"
        times = [(seconds(picture.whole), seconds(picture.strips)) for _ in range(31)]
        whole, strips = (statistics.median(column) * 1e3 for column in zip(*times))
        print(f"| {width}x{height} | {whole:.3f} | {strips:.3f} | {whole / strips:.2f} |", flush=True)


if __name__ == "__main__":
    main()
