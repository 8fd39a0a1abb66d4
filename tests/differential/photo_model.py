"""`--preset photo` in NumPy, by its definition (docs/methods.md): exposure, CLAHE whose flat tiles
gain less, strength, and a new luma that keeps the hue.

Pictures are arrays (H, W) or (H, W, C), C = 3 (RGB) or 4 (RGBA), uint8 or uint16, of `number`
levels: 256, 65536 or fewer. All but CLAHE's scale and blend, in float32 as in OpenCV, is in
integers. Fast enough for pictures of some megapixels in 8 bits.
"""

import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "python/tests"))
from model import between, ends, keep_hue, luma, mirrored, table_clahe, visible  # noqa: E402

FULL = 1000  # thousandths of a whole
BRIGHTER = 3  # how many times brighter the exposure may make a picture
# Levels of 256 that both lumas are raised by for the colour of a pixel that becomes brighter.
OFFSET = 4
FLOAT = np.float32

PHOTO = {
    "exposure": 800,  # thousandths of the range that the brightest samples reach at least; or 0
    "clip_low": 1750,  # millionths of the samples that are passed over at the dark end
    "clip_high": 1750,  # and at the bright end
    "tiles": (12, 12),  # across and down
    "clip_limit": None,  # a number is OpenCV's; None is auto
    "noise": 96,  # levels of 256 from which on a tile gains all of its contrast; 0 is all tiles
    "strength": 500,  # thousandths of the way from the exposed picture to the equalized one
}


def scaled(levels, number):
    """So many levels of 256 as levels of `number`, rounded down, at least 1."""
    return max(1, levels * (number - 1) // 255)


def exposure_table(counts, exposure, low, high):
    """The table of a picture with these counts. Half of the darkest level `a` is taken away, and
    the brightest one, `b`, becomes `exposure` of the range unless it is above that already or would
    be more than BRIGHTER times as bright."""
    number = len(counts)
    own = np.arange(number)
    if exposure == 0 or not counts.any():
        return own
    a, b = ends(counts.astype(np.int64), low, high)
    if a >= b:
        return own
    black = a // 2
    white = max(b, min((number - 1) * exposure // FULL, BRIGHTER * b))
    width = b - black
    return ((2 * (own - black) * white + width) // (2 * width)).clip(0, number - 1)


def weaken(old, new, strength):
    return (old * (FULL - strength) + new * strength + FULL // 2) // FULL


def spread(counts):
    """How many levels the middle four fifths of a tile's samples span."""
    area, upto = int(counts.sum()), np.cumsum(counts)
    return int(np.argmax(10 * upto >= 9 * area)) - int(np.argmax(10 * upto > area))


def clahe(plane, number, tiles, clip_limit, noise):
    """CLAHE of a plane; OpenCV's with a number as clip limit and `noise` 0. A tile that spans fewer
    levels than `noise` gains in proportion less."""
    (height, width), (x, y) = plane.shape, tiles
    fits = width % x == 0 and height % y == 0
    padded = plane if fits else plane[np.ix_(mirrored(height, y - height % y), mirrored(width, x - width % x))]
    rows, columns = padded.shape[0] // y, padded.shape[1] // x
    area = rows * columns
    first, last = 0, number - 1
    if clip_limit is not None:
        clip = max(1, int(float(clip_limit) * area / number)) if clip_limit > 0 else 0
    elif number > 256:
        occurring = np.unique(plane)
        if len(occurring) < 2:
            return plane.astype(np.int64)
        clip = max(1, 2 * area // max(len(occurring), 256))
        first, last = int(occurring[0]) + 1, int(occurring[-1])
    else:
        clip = max(1, 2 * area // number)
    own, full = np.arange(number), scaled(noise, number)
    scale = FLOAT(FLOAT(number - 1) / FLOAT(area))
    tables = np.empty((y, x, number), FLOAT)
    for j, i in np.ndindex(y, x):
        tile = padded[j * rows : (j + 1) * rows, i * columns : (i + 1) * columns]
        counts = np.bincount(tile.ravel(), minlength=number).astype(np.int64)
        table = table_clahe(counts, clip, scale, first, last).astype(np.int64)
        if noise:
            table = weaken(own, table, FULL * min(spread(counts), full) // full)
        tables[j, i] = table
    (xa, x1, x2), (ya, y1, y2) = between(width, columns, x), between(height, rows, y)
    at = lambda j, i: tables[j[:, None], i[None, :], plane]
    upper, lower = (at(j, x1) * (FLOAT(1) - xa) + at(j, x2) * xa for j in (y1, y2))
    value = upper * (FLOAT(1) - ya)[:, None] + lower * ya[:, None]
    return np.clip(np.rint(value), 0, number - 1).astype(np.int64)


def lumas(picture, number=None, exposure=0, clip_low=1750, clip_high=1750, tiles=(8, 8), clip_limit=None, noise=0, strength=FULL):
    """The old and the new luma of a picture, or its gray plane. The exposure is of the counts of
    all samples that are not transparent."""
    number = number or np.iinfo(picture.dtype).max + 1
    old = picture if picture.ndim == 2 else luma(picture)
    exposed = exposure_table(np.bincount(old[visible(picture)], minlength=number), exposure, clip_low, clip_high)[old]
    return old.astype(np.int64), weaken(exposed, clahe(exposed, number, tiles, clip_limit, noise), strength)


def photo(picture, number=None, **settings):
    """The picture as `--preset photo` makes it, with other settings where given."""
    number = number or np.iinfo(picture.dtype).max + 1
    old, new = lumas(picture, number, **{**PHOTO, **settings})
    if picture.ndim == 2:
        return new.astype(picture.dtype)
    out = picture.copy()
    out[..., :3] = keep_hue(picture[..., :3], old, new, number - 1, scaled(OFFSET, number))
    return out
