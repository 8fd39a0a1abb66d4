#!/usr/bin/env python3
"""Checks the bytes that the program in $HISTEQD makes by `--preset photo`, and by each of its steps
alone, against their definition in NumPy (model.py). $HISTEQD_DEVICES says on which devices: cpu
unless it is set.

Pictures are made here: gray and colour, with and without alpha, of 8 and 16 bits; dark ones, flat
ones, and such as no grid divides. needs: pip install numpy
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent))
from model import PHOTO, photo

HISTEQD, DEVICES = os.environ["HISTEQD"], os.environ.get("HISTEQD_DEVICES", "cpu")
STEPS = {
    "preset": (["--preset", "photo"], PHOTO),
    "exposure": (["--preset", "photo", "--strength", "0"], {**PHOTO, "strength": 0}),
    "brighter": (
        ["--preset", "photo", "--exposure", "1", "--clip-low", "1", "--clip-high", "2"],
        {**PHOTO, "exposure": 1000, "clip_low": 10_000, "clip_high": 20_000},
    ),
    "noise": (
        ["--preset", "photo", "--exposure", "0", "--noise", "200", "--clip-limit", "3"],
        {**PHOTO, "exposure": 0, "noise": 200, "clip_limit": 3.0},
    ),
    "neither": (
        ["--preset", "photo", "--exposure", "0", "--noise", "0", "--tiles", "3x5"],
        {**PHOTO, "exposure": 0, "noise": 0, "tiles": (3, 5)},
    ),
}
faults = 0


def picture(random, height, width, channels, dtype, share):
    """Smooth areas beside noise, in `share` of the range."""
    top = np.iinfo(dtype).max
    across, down = np.meshgrid(np.linspace(0, 1, width), np.linspace(0, 1, height))
    base = 0.15 + 0.5 * across * down + 0.3 * random.random((height, width)) * (across > 0.5)
    tints = 0.6 + 0.4 * random.random(3) if channels > 1 else np.ones(1)
    values = (base[..., None] * tints * share * top).clip(0, top).astype(dtype)
    if channels == 4:
        alpha = np.where(random.random((height, width)) < 0.2, 0, top).astype(dtype)
        values = np.dstack([values, alpha])
    return values[..., 0] if channels == 1 else values


def write(path, values):
    """As PAM, whose samples are big-endian."""
    channels = 1 if values.ndim == 2 else values.shape[2]
    kind = {1: "GRAYSCALE", 3: "RGB", 4: "RGB_ALPHA"}[channels]
    header = f"P7\nWIDTH {values.shape[1]}\nHEIGHT {values.shape[0]}\nDEPTH {channels}\nMAXVAL {np.iinfo(values.dtype).max}\nTUPLTYPE {kind}\nENDHDR\n"
    path.write_bytes(header.encode() + values.astype(values.dtype.newbyteorder(">")).tobytes())


def read(path, like):
    body = path.read_bytes().split(b"ENDHDR\n", 1)[1]
    return np.frombuffer(body, like.dtype.newbyteorder(">")).reshape(like.shape)


def main():
    global faults
    random = np.random.default_rng(66)
    sizes = [(96, 132), (75, 101), (13, 12), (7, 9)]
    pictures = {
        f"{height}x{width}-{channels}-{np.dtype(dtype).itemsize * 8}-{share}": picture(
            random, height, width, channels, dtype, share
        )
        for height, width in sizes
        for channels in (1, 3, 4)
        for dtype in (np.uint8, np.uint16)
        for share in (0.1, 0.3, 1)
    }
    pictures["constant-8"] = np.full((40, 50, 3), 90, np.uint8)
    pictures["black-8"] = np.zeros((40, 50), np.uint8)
    with tempfile.TemporaryDirectory() as scratch:
        scratch = Path(scratch)
        (scratch / "in").mkdir()
        for name, values in pictures.items():
            write(scratch / "in" / f"{name}.pam", values)
        for step, (flags, settings) in STEPS.items():
            out = scratch / step
            subprocess.run(
                [HISTEQD, scratch / "in", "--out", out, "--devices", DEVICES, *flags], check=True, capture_output=True
            )
            for name, values in pictures.items():
                if not np.array_equal(read(out / f"{name}.pam", values), photo(values, **settings)):
                    faults += 1
                    print("FAIL", step, name)
    print(f"{len(STEPS) * len(pictures)} results compared, {faults} faults")
    sys.exit(faults > 0)


if __name__ == "__main__":
    main()
