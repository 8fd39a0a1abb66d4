#!/usr/bin/env python3
"""Makes volumes.tsv beside this script: CLAHE of stacks of pictures, by its definition in NumPy (docs/methods.md), which is independent of the Rust code.
Voxels are computed; the last column is the 64-bit FNV-1a hash of the result in little-endian order. needs: numpy
"""
import os
import sys

import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "../../python/tests"))
from model import clahe_volume  # noqa: E402

# Width, height, pages, bits, clip limit, tiles across, down and along.
CASES = [
    (24, 16, 8, 8, 2.0, 3, 2, 2),
    (24, 16, 9, 8, 2.0, 3, 2, 2),
    (25, 17, 7, 8, 3.5, 4, 3, 3),
    (25, 17, 7, 16, 3.5, 4, 3, 3),
    (31, 1, 5, 8, 0.0, 2, 2, 5),
    (1, 40, 3, 16, 40.0, 1, 4, 2),
    (13, 11, 1, 8, 2.0, 2, 3, 4),
    (13, 11, 2, 8, 2.0, 2, 3, 4),
    (64, 48, 12, 16, 2.0, 8, 8, 4),
    (64, 48, 12, 8, 2.0, 8, 8, 4),
    (20, 20, 30, 8, 1.0, 1, 1, 1),
    (20, 20, 30, 8, 4.0, 2, 2, 7),
    (9, 5, 4, 16, 0.0, 20, 20, 20),
]


def voxels(width, height, pages, bits):
    at = np.arange(pages * height * width, dtype=np.uint64)
    noise = (at * 2654435761 % (1 << 32)) >> 16
    plane = width * height
    value = (noise // 4 + at % plane * 40000 // plane + at // plane * 500) % 65536
    value = value if bits == 16 else value >> 8
    return value.astype(np.uint16 if bits == 16 else np.uint8).reshape(pages, height, width)


def fnv(data):
    found = 0xCBF29CE484222325
    for byte in data:
        found = (found ^ byte) * 0x100000001B3 % (1 << 64)
    return f"{found:016x}"


def main():
    lines = ["width\theight\tpages\tbits\tclip_limit\tx\ty\tz\tfnv1a"]
    for case in CASES:
        width, height, pages, bits, limit, x, y, z = case
        volume = voxels(width, height, pages, bits)
        result = clahe_volume(volume, limit, x, y, z)
        little = result.astype(result.dtype.newbyteorder("<")).tobytes()
        lines.append("\t".join(map(str, case)) + "\t" + fnv(little))
    with open(os.path.join(HERE, "volumes.tsv"), "w") as out:
        out.write("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
