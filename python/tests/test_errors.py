"""Errors name the argument and the remedy, and leave everything as it was."""

import re
import warnings

import numpy as np
import pytest
from pictures import noise
from PIL import Image

import histeqd

GRAY = noise((20, 30), np.uint8)
RGB = noise((20, 30, 3), np.uint8)
READ_ONLY = GRAY.copy()
READ_ONLY.flags.writeable = False
UNALIGNED = np.frombuffer(bytes(2 * 600 + 1), np.uint8)[1:].view(np.uint16).reshape(20, 30)
WINDOWS = np.lib.stride_tricks.as_strided(np.zeros(64, np.uint8), (20, 30), (1, 1))


@pytest.mark.parametrize(
    "call, kind, words",
    [
        (lambda: histeqd.equalize([[1, 2]]), TypeError, "array: is list, not an array; pass numpy.asarray(array, numpy.uint8)"),
        (lambda: histeqd.equalize(GRAY.astype(float)), TypeError, "array: is float64, not uint8 or uint16; scale it first, as with numpy.round((array - array.min()"),
        (lambda: histeqd.equalize(GRAY != 0), TypeError, "convert it with array.astype(numpy.uint8)"),
        (lambda: histeqd.clahe(GRAY.astype(">u2")), TypeError, "array: is >u2, not uint8 or uint16; swap its bytes with array.astype(numpy.uint16)"),
        (lambda: histeqd.equalize(np.ma.array(GRAY)), TypeError, "array: is a masked array; pass array.data, and mask="),
        (lambda: histeqd.equalize(Image.fromarray(GRAY).convert("P")), TypeError, 'array: is a picture of the mode P; convert it with array.convert("RGB")'),
        (lambda: histeqd.equalize(Image.fromarray(RGB).convert("CMYK")), TypeError, "array: is a picture of the mode CMYK"),
        (lambda: histeqd.equalize(GRAY[0]), ValueError, "array: has the shape (30,); pass HW, HWC, NHW or NHWC"),
        (lambda: histeqd.equalize(GRAY[:0]), ValueError, "array: has the shape (0, 30), without pixels"),
        (lambda: histeqd.equalize(RGB[None, ..., :0]), ValueError, "whose last axis should be 1 to 4 channels"),
        (lambda: histeqd.equalize(np.zeros((2, 3, 20, 30), np.uint8)), ValueError, "move them there with numpy.moveaxis"),
        (lambda: histeqd.equalize(np.zeros((2, 20, 30), np.uint8), batch=False), ValueError, "or pass batch=True"),
        (lambda: histeqd.equalize(GRAY, batch=True), ValueError, "array: has two axes, but batch=True; pass array[None]"),
        (lambda: histeqd.equalize(RGB[None], batch=False), ValueError, "array: has four axes, but batch=False"),
        (lambda: histeqd.equalize(UNALIGNED), ValueError, "array: its samples do not lie at even addresses; pass a copy, array.copy()"),
        (lambda: histeqd.equalize(GRAY, color="gray"), ValueError, "color: is 'gray'; pass 'luma' or 'hue' or 'lab' or 'per-channel' or 'linked'"),
        (lambda: histeqd.clahe(RGB, color="linked"), ValueError, 'color: "linked" is one table for a whole picture'),
        (lambda: histeqd.equalize(GRAY, plateau=0), ValueError, "plateau: is 0, not a number of percent above 0"),
        (lambda: histeqd.equalize(GRAY, plateau=100), ValueError, "plateau: is 100, not a number of percent below 100"),
        (lambda: histeqd.lut(np.ones(256, int), "stretch", plateau=1), ValueError, 'plateau: belongs to method="equalize"'),
        (lambda: histeqd.clahe(RGB.astype(np.uint16), color="lab"), ValueError, 'color: "lab" is for uint8 with all its levels; pass "hue"'),
        (lambda: histeqd.equalize(RGB, color="lab", levels=200), ValueError, 'color: "lab" is for uint8'),
        (lambda: histeqd.equalize(GRAY, strength=1.5), ValueError, "strength: is 1.5, not a number from 0 to 1"),
        (lambda: histeqd.equalize(GRAY, strength=float("nan")), ValueError, "strength: is nan"),
        (lambda: histeqd.equalize(GRAY, strength="half"), TypeError, "strength: is 'half', not a number"),
        (lambda: histeqd.equalize(GRAY, strength=0.1234), ValueError, "has at most three decimals; pass 0.123"),
        (lambda: histeqd.equalize(GRAY, exposure=-0.1), ValueError, "exposure: is -0.1, not a number from 0 to 1"),
        (lambda: histeqd.clahe(GRAY, noise=256), ValueError, "noise: is 256, not a whole number from 0 to 255"),
        (lambda: histeqd.equalize(GRAY, threads=0), ValueError, "threads: is 0, not a whole number from 1 to 65536 or None"),
        (lambda: histeqd.equalize(GRAY, threads=1.5), TypeError, "threads: is 1.5, not a whole number"),
        (lambda: histeqd.equalize(GRAY, mask=GRAY), TypeError, "mask: is uint8, not bool; pass mask != 0"),
        (lambda: histeqd.equalize(GRAY, mask=GRAY[1:] > 0), ValueError, "mask: has the shape (19, 30); one value a pixel is needed, (20, 30)"),
        (lambda: histeqd.equalize(GRAY, out=np.empty((20, 31), np.uint8)), ValueError, "out: is uint8 of (20, 31), but array uint8 of (20, 30); pass numpy.empty_like(array)"),
        (lambda: histeqd.equalize(GRAY, out=np.empty((20, 30), np.uint16)), ValueError, "out: is uint16"),
        (lambda: histeqd.equalize(GRAY, out=READ_ONLY), ValueError, "out: is read-only; pass an array that can be written"),
        (lambda: histeqd.equalize(GRAY, out=bytes(600)), ValueError, "out: is uint8 of (600,)"),
        (lambda: histeqd.equalize(GRAY[:-1], out=GRAY[1:]), ValueError, "out: overlaps array; pass out=array itself"),
        (lambda: histeqd.equalize(GRAY, out=GRAY[::-1]), ValueError, "out: overlaps array"),
        (lambda: histeqd.equalize(GRAY, out=WINDOWS), ValueError, "out: its own samples overlap; pass a copy"),
        (lambda: histeqd.equalize(GRAY, out=GRAY, mask=GRAY.view(bool)), ValueError, "out: is in use by another call, or as another argument; pass an array of its own"),
        (lambda: histeqd.clahe(GRAY, -1), ValueError, 'clip_limit: is -1, not a number from 0 to 1000000 or "auto"'),
        (lambda: histeqd.clahe(GRAY, "high"), TypeError, "clip_limit: is 'high'"),
        (lambda: histeqd.clahe(GRAY, tiles=8), TypeError, "tiles: is 8, not a pair of tiles across and down; pass (8, 8)"),
        (lambda: histeqd.clahe(GRAY, tiles=(0, 8)), ValueError, "tiles: is 0, not a whole number from 1 to 1024"),
        (lambda: histeqd.clahe(GRAY, tile_size=3), ValueError, "tile_size: is 3, not a whole number from 4 to"),
        (lambda: histeqd.stretch(GRAY, low=100), ValueError, "low: is 100, not a number of percent below 100"),
        (lambda: histeqd.stretch(GRAY, high=-1), ValueError, "high: is -1, not a number from 0 to 100"),
        (lambda: histeqd.match(GRAY, GRAY.astype(np.uint16)), ValueError, "reference: does not have the depth and channels of array"),
        (lambda: histeqd.match(RGB, GRAY, color="per-channel"), ValueError, 'use color="luma"'),
        (lambda: histeqd.match(GRAY, GRAY[0]), ValueError, "reference: has the shape (30,)"),
        (lambda: histeqd.histogram(GRAY, 257), ValueError, "bins: is 257, not a whole number from 1 to 256"),
        (lambda: histeqd.lut(np.zeros(255, int)), ValueError, "counts: has the shape (255,); 256 or 65536 counts along its last axis are needed, so count without bins"),
        (lambda: histeqd.lut(np.zeros(256)), TypeError, "counts: is float64, not integers; convert it with counts.astype(numpy.uint64)"),
        (lambda: histeqd.lut(np.full(256, -1)), ValueError, "counts: has negative numbers"),
        (lambda: histeqd.lut(np.full(256, 2**60)), ValueError, "counts: counts 2**47 samples or more; divide all counts"),
        (lambda: histeqd.lut(np.ones(256, int), "clahe"), ValueError, "method: is 'clahe'; pass 'equalize' or 'stretch' or 'match'"),
        (lambda: histeqd.lut(np.ones(256, int), "match"), ValueError, 'reference: belongs to method="match"'),
        (lambda: histeqd.lut(np.ones(256, int), "match", reference=np.ones((2, 256), int)), ValueError, "reference: has the shape (2, 256), but counts (256,)"),
        (lambda: histeqd.apply(GRAY, np.arange(256)), ValueError, "lut: is int64 of the shape (256,); uint8 of (256,) is needed, as lut() makes"),
        (lambda: histeqd.apply(RGB, np.zeros((2, 256), np.uint8), color="per-channel"), ValueError, "uint8 of (256,) or (3, 256) is needed"),
    ],
)
def test_words(call, kind, words):
    before = GRAY.copy()
    with pytest.raises(kind, match=re.escape(words)):
        call()
    np.testing.assert_array_equal(GRAY, before)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int8, np.int16, np.int32, np.int64, np.uint32])
def test_the_advice_keeps_the_proportions_of_differences(dtype):
    lowest = 3 if np.dtype(dtype).kind == "u" else -100
    array = np.linspace(lowest, 100, 42).reshape(6, 7).astype(dtype)
    with pytest.raises(TypeError) as error:
        histeqd.equalize(array)
    scaled = eval(str(error.value).split("as with ")[1], {"numpy": np, "array": array})
    histeqd.equalize(scaled)
    assert scaled.min() == 0 and scaled.max() in (int(np.ptp(array.astype(float))), 65535)
    shares = (array.astype(float) - float(array.min())) / np.ptp(array.astype(float))
    np.testing.assert_allclose(scaled / scaled.max(), shares, atol=1e-5)


def test_colours_that_come_first_are_asked_about():
    with pytest.warns(UserWarning, match=re.escape("numpy.moveaxis(array, 0, -1), and if not, pass batch=True")):
        histeqd.equalize(np.moveaxis(RGB, -1, 0))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        histeqd.equalize(np.moveaxis(RGB, -1, 0), batch=True)
        histeqd.equalize(np.zeros((4, 20, 30), np.uint8))
