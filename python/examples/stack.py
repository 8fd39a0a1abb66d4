#!/usr/bin/env python3
"""A stack of gray pictures equalized chunk by chunk with dask: python/examples/stack.py IN.npy OUT.npy

Needs dask. The stack may be larger than memory: it is mapped, and only some chunks are in memory at a time. All pictures get one table, so that they
can be compared with each other afterwards.
"""

import sys

import dask.array
import numpy as np

import histeqd


def counted(chunk):
    """The counts of all pictures of a chunk, as a stack of one."""
    return histeqd.histogram(chunk, batch=True, threads=1).sum(axis=0, keepdims=True)


def main(source, target):
    stack = np.load(source, mmap_mode="r")
    result = np.lib.format.open_memmap(target, "w+", stack.dtype, stack.shape)
    chunks = dask.array.from_array(stack, chunks=(8, *stack.shape[1:]))
    levels = np.iinfo(stack.dtype).max + 1
    counts = chunks.map_blocks(counted, dtype=np.uint64, chunks=(1, levels), drop_axis=2)
    table = histeqd.lut(counts.sum(axis=0).compute())
    alike = chunks.map_blocks(histeqd.apply, table, batch=True, threads=1, dtype=stack.dtype)
    dask.array.store(alike, result)


if __name__ == "__main__":
    main(*sys.argv[1:])
