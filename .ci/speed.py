#!/usr/bin/env python3
"""Fails if the release takes much more of a processor for a JPEG than libjpeg-turbo does (by Pillow): then its loops are not compiled as they
should be.

usage: speed.py HISTEQD
Compares the least of several tries of each, which take turns.
"""

import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy
from PIL import Image, ImageFilter

TRIES = 7
# With loops that were not inlined it took 3.5 times as long.
MOST = 1.5


def of_pillow(path, to):
    before = time.process_time()
    picture = Image.open(path)
    picture.load()
    picture.save(to, quality=90)
    return time.process_time() - before


def of_program(program, path, to):
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(
        [program, path, "--out", to, "--no-config", "--overwrite", "--quiet", "--quality", "90", "--devices", "cpu"], check=True
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime


def main():
    program = Path(sys.argv[1]).resolve()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "picture.jpg")
        noise = numpy.random.default_rng(1).integers(0, 256, (3000, 4000, 3), numpy.uint8)
        Image.fromarray(noise).filter(ImageFilter.GaussianBlur(2)).save(path, quality=90)
        tries = [(of_program(program, path, f"{folder}/ours.jpg"), of_pillow(path, f"{folder}/theirs.jpg")) for _ in range(TRIES)]
    ours, theirs = (min(column) for column in zip(*tries))
    print(f"a JPEG of 12 MP: {ours:.3f} s of a processor, {ours / theirs:.2f} of Pillow's {theirs:.3f}")
    if ours > MOST * theirs:
        sys.exit("the release is too slow: are its loops compiled in one unit and for this processor?")


main()
