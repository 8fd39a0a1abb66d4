#!/usr/bin/env python3
"""Checks what the program in $HISTEQD makes of channels that are samples of a page: packed in 12 bits, and compressed as JPEG.

Files are made and read by tifffile; what becomes of each channel is its definition in NumPy (python/tests/model.py).
needs: pip install numpy tifffile imagecodecs
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import imagecodecs  # noqa: F401
import numpy as np
import tifffile

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE / "../../python/tests"))
from model import table_equalize  # noqa: E402

HISTEQD = os.environ["HISTEQD"]
SIZE = (45, 51)


def noise(pages, channels, top):
    """Channels that differ in brightness and contrast, from page to page too."""
    random = np.random.default_rng(57)
    page, y, x, channel = np.indices((pages, *SIZE, channels), dtype=float)
    value = (y / SIZE[0] + x / SIZE[1] + page / pages) / 3 * (channel + 1) / channels
    return ((value * 0.8 + random.random(value.shape) * 0.1) * top).astype(np.uint16)


def equalized(samples):
    counts = np.bincount(samples.ravel(), minlength=np.iinfo(samples.dtype).max + 1)
    return table_equalize(counts)[samples]


def spread(samples):
    """Levels of 12 bits over 16, halves up."""
    return ((2 * samples.astype(np.int64) * 65535 + 4095) // (2 * 4095)).astype(np.uint16)


def main():
    faults = 0
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        (place / "in").mkdir()
        for channels in (2, 3, 5):
            how = dict(photometric="minisblack", planarconfig="contig", metadata={"axes": "ZYXC"})
            for name, more in (("strips", dict(rowsperstrip=7)), ("tiles", dict(tile=(16, 32)))):
                data = noise(3, channels, 4095)
                tifffile.imwrite(place / "in" / f"12-{name}-{channels}.tif", data, bitspersample=12, **how, **more)
        # Three would be converted to YCbCr, and no tag says so.
        for channels in (2, 4):
            data = noise(3, channels, 255).astype(np.uint8)
            path = place / "in" / f"jpeg-{channels}.tif"
            tifffile.imwrite(path, data, compression="jpeg", rowsperstrip=16, **how)
        for together in ("page", "channel"):
            out = place / together
            command = [HISTEQD, place / "in", "--out", out, "--together", together, "--devices", "cpu"]
            ran = subprocess.run(command, capture_output=True, text=True)
            faults += ran.returncode != 0
            print(ran.stderr, end="")
            for path in sorted((place / "in").iterdir()):
                with tifffile.TiffFile(path) as before, tifffile.TiffFile(out / path.name) as after:
                    data, found = before.asarray(), after.asarray()
                    levels = spread(data) if path.name.startswith("12") else data
                    axes = (before.series[0].axes, after.series[0].axes)
                expected = np.empty_like(levels)
                for channel in range(data.shape[-1]):
                    if together == "channel":
                        expected[..., channel] = equalized(levels[..., channel])
                    else:
                        for page in range(len(data)):
                            expected[page, ..., channel] = equalized(levels[page, ..., channel])
                if axes[0] != axes[1] or not np.array_equal(found, expected):
                    faults += 1
                    print("FAIL", together, path.name, axes)
    print(faults, "faults")
    sys.exit(bool(faults))


if __name__ == "__main__":
    main()
