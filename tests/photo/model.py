"""`--preset photo` in NumPy, by its definition (docs/methods.md): exposure, CLAHE whose flat tiles
gain less, strength, and a new luma that keeps the hue.

Pictures are arrays (H, W) or (H, W, C), C = 3 (RGB) or 4 (RGBA), uint8 or uint16, of `number`
levels: 256, 65536 or fewer. All but CLAHE's scale and blend, in float32 as in OpenCV, is in
integers. Fast enough for pictures of some megapixels in 8 bits.
"""

import numpy as np

FULL = 1000  # thousandths of a whole
BRIGHTER = 3  # how many times brighter the exposure may make a picture
CHROMA = 4  # how many times a colour may be drawn from gray
# Levels of 256 that both lumas are raised by for the colour of a pixel that becomes brighter.
OFFSET = 4
WEIGHTS = np.array([19595, 38470, 7471])
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


def luma(picture):
    return ((picture[..., :3].astype(np.int64) @ WEIGHTS + 32768) >> 16).astype(picture.dtype)


def ends(counts, low, high):
    """The levels between which a stretch would spread the samples: the least and the greatest after
    the shares that are passed over."""
    total = int(counts.sum())
    upto = np.cumsum(counts)
    from_here = total - upto + counts
    return int(np.argmax(upto * 1_000_000 > total * low)), int(
        len(counts) - 1 - np.argmax((from_here * 1_000_000 > total * high)[::-1])
    )


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


def mirrored(length, extra):
    """The indices of a padded axis: reflected without repeating the end, back and forth if need be."""
    at = np.arange(length + extra) % max(2 * length - 2, 1)
    return np.where(at < length, at, 2 * length - 2 - at)


def between(size, side, tiles):
    """For each place along an axis the weight of the second of its two tiles, and both."""
    at = np.arange(size, dtype=FLOAT) * FLOAT(FLOAT(1) / FLOAT(side)) - FLOAT(0.5)
    low = np.floor(at)
    return (at - low).astype(FLOAT), low.astype(int).clip(0, tiles - 1), (low.astype(int) + 1).clip(0, tiles - 1)


def clahe_table(counts, clip, first, last):
    """The table of a tile. Peaks are cut at `clip`, and what is cut is spread over the levels from
    `first` to `last`."""
    number = len(counts)
    area = FLOAT(counts.sum())
    if clip:
        excess = int(np.maximum(counts - clip, 0).sum())
        counts = np.minimum(counts, clip)
        places = last - first + 1
        each, rest = divmod(excess, places)
        counts[first : last + 1] += each
        if rest:
            counts[np.arange(first, last + 1, max(places // rest, 1))[:rest]] += 1
    return np.clip(np.rint(np.cumsum(counts).astype(FLOAT) * FLOAT(FLOAT(number - 1) / area)), 0, number - 1).astype(
        np.int64
    )


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
    tables = np.empty((y, x, number), FLOAT)
    for j, i in np.ndindex(y, x):
        tile = padded[j * rows : (j + 1) * rows, i * columns : (i + 1) * columns]
        counts = np.bincount(tile.ravel(), minlength=number).astype(np.int64)
        table = clahe_table(counts, clip, first, last)
        if noise:
            table = weaken(own, table, FULL * min(spread(counts), full) // full)
        tables[j, i] = table
    (xa, x1, x2), (ya, y1, y2) = between(width, columns, x), between(height, rows, y)
    at = lambda j, i: tables[j[:, None], i[None, :], plane]
    upper, lower = (at(j, x1) * (FLOAT(1) - xa) + at(j, x2) * xa for j in (y1, y2))
    value = upper * (FLOAT(1) - ya)[:, None] + lower * ya[:, None]
    return np.clip(np.rint(value), 0, number - 1).astype(np.int64)


def keep_hue(rgb, old, new, top, offset):
    """What colours differ from the exact luma by (here in 65536ths), scaled by the least of: new /
    old luma, the same with `offset` added to both, what the range has room for, and CHROMA.
    Unchanged where luma stays."""
    rgb = rgb.astype(np.int64)
    exact = rgb @ WEIGHTS
    room = 65536 * rgb.max(axis=-1) - exact
    up, down = np.full_like(exact, CHROMA), np.full_like(exact, 65536)
    for n, d in ((new, exact), (new + offset, exact + 65536 * offset), (top - new, room)):
        less = (d > 0) & (n * down < up * d)
        up, down = np.where(less, n, up), np.where(less, d, down)
    up, down = up[..., None], down[..., None]
    kept = new[..., None] + (2 * (65536 * rgb - exact[..., None]) * up + down) // (2 * down)
    assert kept.min() >= 0 and kept.max() <= top
    return np.where((old == new)[..., None], rgb, kept)


def keep_hue_planes(old, new, cb, cr, across, down, offset=OFFSET):
    """The same rule in a JPEG's own planes (8 bits): each chroma sample stands for the `across` by
    `down` luma samples that it covers, fewer at the right and the lower edge, and is scaled by the
    ratio of the sums of their lumas."""
    (height, width), (rows, columns) = old.shape, cb.shape

    def over(plane):
        whole = np.zeros((rows * down, columns * across), np.int64)
        whole[:height, :width] = plane
        return whole.reshape(rows, down, columns, across).sum((1, 3))

    samples, before, after = over(np.ones_like(old, np.int64)), over(old), over(new)
    b, r = cb.astype(np.int64) - 128, cr.astype(np.int64) - 128
    most = np.maximum(np.maximum(91881 * r, 116130 * b), -22554 * b - 46802 * r)
    up, under = np.full_like(before, CHROMA), np.ones_like(before)
    for n, d in (
        (after, before),
        (after + offset * samples, before + offset * samples),
        (65536 * (255 * samples - after), samples * most),
    ):
        less = (d > 0) & (n * under < up * d)
        up, under = np.where(less, n, up), np.where(less, d, under)
    kept = (np.clip(128 + (2 * v * up + under) // (2 * under), 0, 255) for v in (b, r))
    return tuple(np.where(before == after, plane, v).astype(np.uint8) for plane, v in zip((cb, cr), kept))


def lumas(
    picture,
    number=None,
    exposure=0,
    clip_low=1750,
    clip_high=1750,
    tiles=(8, 8),
    clip_limit=None,
    noise=0,
    strength=FULL,
):
    """The old and the new luma of a picture, or its gray plane. The exposure is of the counts of
    all samples that are not transparent."""
    number = number or np.iinfo(picture.dtype).max + 1
    old = picture if picture.ndim == 2 else luma(picture)
    seen = picture[..., 3] > 0 if picture.ndim == 3 and picture.shape[2] == 4 else np.ones(old.shape, bool)
    exposed = exposure_table(np.bincount(old[seen], minlength=number), exposure, clip_low, clip_high)[old]
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
