#!/usr/bin/env python3
"""Makes the golden files beside this script: `make.py SOURCES`, where SOURCES is a folder with the pictures that README.md names.
`make.py SOURCES OUT` makes such files in the folder OUT, of every whole picture in SOURCES that OpenCV can read.

Inputs are small PGM, PPM and PAM files. For each input and operation, cases.tsv holds the expected result: the 64-bit FNV-1a hash of
the samples in little-endian order, without a header. CLAHE of every plane comes from OpenCV's createCLAHE itself, everything else from
models in NumPy, below and (CLAHE where the clip limit is "auto") in tests/differential/photo_model.py, which are written from the
documented formulas and independent of the Rust code. NAME.opencv.pgm is the result of OpenCV's equalizeHist, whose float32 LUT may
differ by one level.

needs: numpy, opencv-python-headless (x86-64 wheel; made with 5.0.0)
"""
import glob
import math
import os
import random
import sys
from fractions import Fraction

import cv2
import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, '../differential'))
from photo_model import clahe as model_clahe, luma  # noqa: E402
from volumes import fnv  # noqa: E402


def levels(a):
    return 65536 if a.dtype == np.uint16 else 256


def lut(counts):
    """Textbook equalization in Python's integers, rounding halves up."""
    counts = [int(n) for n in counts]
    total, first = sum(counts), next((i for i, n in enumerate(counts) if n), 0)
    above = total - counts[first]
    if above == 0:
        return np.arange(len(counts))
    out, running = [0] * len(counts), 0
    for i in range(first, len(counts)):
        running += counts[i]
        out[i] = (2 * (running - counts[first]) * (len(counts) - 1) + above) // (2 * above)
    return np.array(out)


def relight(a, before, after):
    out = a.copy()
    moved = a[..., :3].astype(np.int64) + (after.astype(np.int64) - before)[..., None]
    out[..., :3] = np.clip(moved, 0, levels(a) - 1)
    return out


def keep_hue(a, before, after):
    """What a channel differs from luma by is scaled by the least of four factors; where luma stays, so does colour. In exact fractions, halves up."""
    out, top = a.copy(), levels(a) - 1
    offset = 4 * top // 255
    for at in np.ndindex(a.shape[:2]):
        k = int(after[at])
        if k == before[at]:
            continue
        rgb = [Fraction(int(c)) for c in a[at][:3]]
        y = (19595 * rgb[0] + 38470 * rgb[1] + 7471 * rgb[2]) / 65536
        factors = [Fraction(4), (k + offset) / (y + offset)] + ([k / y] if y else []) + ([(top - k) / (max(rgb) - y)] if max(rgb) > y else [])
        out[at][:3] = [math.floor(k + (c - y) * min(factors) + Fraction(1, 2)) for c in rgb]
    return out


def by_planes(a, colour, one):
    """Applies `one`, from plane to plane, to those planes of a picture (H, W, channels) that are equalized."""
    if a.shape[2] >= 3 and colour != 'per-channel':
        y = luma(a).astype(a.dtype)
        return (keep_hue if colour == 'hue' else relight)(a, y, one(y))
    out = a.copy()
    for c in range(1 if a.shape[2] < 3 else 3):
        out[..., c] = one(a[..., c])
    return out


def equalize(a, colour, strength):
    visible = a[..., -1] > 0 if a.shape[2] in (2, 4) else np.ones(a.shape[:2], bool)
    one = lambda p: lut(np.bincount(p[visible], minlength=levels(a)))[p].astype(a.dtype)
    return by_planes(a, colour, lambda p: weakened(strength)(p, one(p)))


def clahe(a, colour, clip, grid, strength):
    # One CLAHE object per plane, as OpenCV's users run it. Planes must be contiguous in memory.
    def one(p):
        p = np.ascontiguousarray(p)
        return weakened(strength)(p, clahe_auto(p, grid) if clip == 'auto' else cv2.createCLAHE(clip, grid).apply(p))
    return by_planes(a, colour, one)


def clahe_auto(p, grid):
    """Clip limit "auto": 2 at 8 bit; at 16 bit that of the model, which agrees with OpenCV where the limit is a number."""
    if p.dtype == np.uint8:
        return cv2.createCLAHE(2, grid).apply(p)
    assert (model_clahe(p, 65536, grid, 40, 0) == cv2.createCLAHE(40, grid).apply(p)).all()
    return model_clahe(p, 65536, grid, None, 0).astype(p.dtype)


def weakened(strength):
    """Returns a function from old and new levels to those at this share, in thousandths, of the way; halves go up."""
    return lambda old, new: (old + ((new.astype(int) - old) * strength + 500) // 1000).astype(old.dtype)


def write_pnm(path, a):
    h, w, c = a.shape
    kind = {1: ('pgm', 'P5'), 3: ('ppm', 'P6'), 2: ('pam', 'P7'), 4: ('pam', 'P7')}[c]
    if kind[1] == 'P7':
        tuple_type = 'GRAYSCALE_ALPHA' if c == 2 else 'RGB_ALPHA'
        head = f'P7\nWIDTH {w}\nHEIGHT {h}\nDEPTH {c}\nMAXVAL {levels(a) - 1}\nTUPLTYPE {tuple_type}\nENDHDR\n'
    else:
        head = f'{kind[1]}\n{w} {h}\n{levels(a) - 1}\n'
    with open(f'{path}.{kind[0]}', 'wb') as f:
        f.write(head.encode() + a.astype(a.dtype.newbyteorder('>')).tobytes())
    return f'{os.path.basename(path)}.{kind[0]}'


def every_picture(sources):
    """The same as `pictures`, for every file below 4 million samples that OpenCV reads as 8- or 16-bit samples."""
    for path in sorted(glob.glob(os.path.join(sources, '*'))):
        a = cv2.imread(path, cv2.IMREAD_UNCHANGED)
        if a is not None and a.dtype in (np.uint8, np.uint16) and a.size < 4_000_000:
            yield os.path.basename(path), a[..., None] if a.ndim == 2 else a[..., [2, 1, 0, 3][:a.shape[2]]]


def pictures(sources):
    """Yields name and samples (H, W, channels) of every input."""
    def real(pattern, y, x, h, w):
        path, = glob.glob(os.path.join(sources, pattern))
        a = cv2.imread(path, cv2.IMREAD_UNCHANGED)[y:y + h, x:x + w]
        return a[..., None] if a.ndim == 2 else a[..., [2, 1, 0, 3][:a.shape[2]]]
    yield 'cell', real('*scikit-image*cell.png', 250, 150, 120, 161)
    yield 'page', real('*scikit-image*page.png', 40, 100, 97, 129)
    yield 'rocket', real('*scikit-image*rocket.jpg', 60, 300, 95, 127)
    yield 'hopper16', real('*Pillow*hopper_16bit.pgm', 10, 10, 101, 96)
    yield 'monkey16', real('*libjpeg-turbo*monkey16.png', 60, 30, 53, 75)
    yield 'pngsuite-rgba16', real('*pngsuite*basi6a16.png', 0, 0, 32, 31)
    rng = np.random.default_rng(20261121)
    for h, w in [(1, 1), (1, 9), (7, 1), (3, 5), (16, 13), (17, 31), (64, 64), (61, 97)]:
        for dtype in (np.uint8, np.uint16):
            # A ramp with noise: neighbouring tiles differ, and no level range is empty everywhere.
            top = levels(np.empty(0, dtype)) - 1
            ramp = np.add.outer(np.linspace(0, .5, h), np.linspace(0, .5, w))
            a = (np.clip(ramp + rng.normal(0, .12, (h, w)), 0, 1) * top).astype(dtype)[..., None]
            yield f'noise-{w}x{h}-{8 * a.itemsize}', a
    for channels, dtype in [(2, np.uint8), (4, np.uint8), (2, np.uint16), (3, np.uint16)]:
        a = rng.integers(0, levels(np.empty(0, dtype)), (23, 37, channels)).astype(dtype)
        if channels != 3:
            a[..., -1] = np.where(rng.random((23, 37)) < .3, 0, a[..., -1])
        yield f'noise-37x23x{channels}-{8 * a.itemsize}', a
    yield 'constant', np.full((9, 14, 1), 200, np.uint8)


def operations(a, rng):
    """Yields colour, clip limit (None: global), grid and strength in thousandths of each case."""
    ways = ['luma', 'hue', 'per-channel'] if a.shape[2] >= 3 else ['luma']
    for colour in ways:
        yield colour, None, (0, 0), 1000
    combinations = [(clip, grid) for clip in (0., 1., 2., 2.5, 4., 40.)
                    for grid in ((1, 1), (2, 3), (5, 7), (8, 8), (16, 16), (3, 1))]
    for clip, grid in [(2., (8, 8))] + rng.sample(combinations, 10 if a.shape[2] == 1 and a.itemsize == 1 else 3):
        for colour in ways:
            yield colour, clip, grid, 1000
    for colour in ways:
        for strength in (0, 250, 999):
            yield colour, None, (0, 0), strength
        yield colour, 2., (3, 2), 500
        yield colour, 'auto', (8, 8), 1000
        yield colour, 'auto', (2, 3), 375


def main():
    rng = random.Random(1)
    folder, inputs = (sys.argv[2], every_picture) if len(sys.argv) > 2 else (HERE, pictures)
    with open(os.path.join(folder, 'cases.tsv'), 'w') as cases:
        cases.write('picture\tcolour\tclip_limit\tgrid_x\tgrid_y\tstrength\tfnv1a\n')
        for name, a in inputs(sys.argv[1]):
            file = write_pnm(os.path.join(folder, name), a)
            if a.dtype == np.uint8 and a.shape[2] == 1 and a.size > 1:
                write_pnm(os.path.join(folder, f'{name}.opencv'), cv2.equalizeHist(a[..., 0])[..., None])
            for colour, clip, grid, strength in operations(a, rng):
                out = equalize(a, colour, strength) if clip is None else clahe(a, colour, clip, grid, strength)
                digest = fnv(out.astype(out.dtype.newbyteorder('<')).tobytes())
                limit = 'global' if clip is None else clip
                cases.write(f'{file}\t{colour}\t{limit}\t{grid[0]}\t{grid[1]}\t{strength}\t{digest}\n')


if __name__ == '__main__':
    main()
