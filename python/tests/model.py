"""The methods written down a second time, in NumPy, from their definitions (docs/methods.md)."""

import numpy as np


def levels(dtype):
    return np.iinfo(dtype).max + 1


def table_equalize(counts):
    total = counts.astype(object).sum()
    occurring = np.flatnonzero(counts)
    top = len(counts) - 1
    if len(occurring) < 2:
        return np.arange(top + 1)
    darkest = occurring[0]
    running = np.cumsum(counts.astype(np.int64)) - int(counts[darkest])
    above = int(total) - int(counts[darkest])
    table = (2 * running * top + above) // (2 * above)
    table[: darkest + 1] = 0
    return table


def table_plateau(counts, share):
    """Equalization of counts that are cut to a share of the samples, in parts per million."""
    return table_equalize(np.minimum(counts, max(1, int(counts.sum()) * share // 1_000_000)))


def ends(counts, low, high):
    """The least and the greatest level after the shares, in parts per million, that are passed over."""
    total = int(counts.sum())
    running = np.cumsum(counts.astype(np.int64))
    above = total - np.concatenate([[0], running[:-1]])
    beyond = np.flatnonzero(running * 1_000_000 > total * low), np.flatnonzero(above * 1_000_000 > total * high)
    return int(beyond[0][0]), int(beyond[1][-1])


def table_stretch(counts, low, high):
    top, (a, b) = len(counts) - 1, ends(counts, low, high)
    if a >= b:
        return np.arange(top + 1)
    return (2 * (np.arange(top + 1).clip(a, b) - a) * top + (b - a)) // (2 * (b - a))


def table_match(counts, reference):
    c, r = np.cumsum(counts.astype(np.int64)), np.cumsum(reference.astype(np.int64))
    table = np.searchsorted(r * c[-1], c * r[-1])
    darkest = np.flatnonzero(counts)[:1]
    table[: darkest[0]] = table[darkest]
    return table


def weaken(table, strength):
    own = np.arange(len(table))
    return own + ((table - own) * round(strength * 1000) + 500) // 1000


def luma(picture):
    r, g, b = (picture[..., c].astype(np.int64) for c in range(3))
    return (19595 * r + 38470 * g + 7471 * b + 32768) >> 16


def visible(picture, mask=None):
    """Which pixels count."""
    found = np.ones(picture.shape[:2], bool) if mask is None else mask.copy()
    if picture.ndim == 3 and picture.shape[2] in (2, 4):
        found &= picture[..., -1] != 0
    return found


def planes(picture, color):
    """The planes that are equalized."""
    if picture.ndim == 2:
        return [picture]
    if picture.shape[2] < 3:
        return [picture[..., 0]]
    return [picture[..., c] for c in range(3)] if color in ("per-channel", "linked") else [luma(picture)]


def counts(picture, color, mask=None, number=None):
    """The counts of each plane, of `number` levels."""
    seen, number = visible(picture, mask), number or levels(picture.dtype)
    counted = [np.bincount(plane[seen], minlength=number) for plane in planes(picture, color)]
    return [sum(counted)] if color == "linked" else counted


def send(picture, tables, color, number=None):
    """The picture, of `number` levels, through a table for each plane."""
    top = (number or levels(picture.dtype)) - 1
    out = picture.copy()
    if color == "linked":
        tables = list(tables) * len(planes(picture, color))
    if picture.ndim == 3 and picture.shape[2] >= 3 and color not in ("per-channel", "linked"):
        old = luma(picture)
        if color == "hue":
            out[..., :3] = keep_hue(picture[..., :3], old, tables[0][old], top, max(1, 4 * top // 255))
            return out
        change = tables[0][old] - old
        out[..., :3] = (picture[..., :3].astype(np.int64) + change[..., None]).clip(0, top)
    elif picture.ndim == 2:
        out[:] = tables[0][picture]
    else:
        for channel, table in enumerate(tables):
            out[..., channel] = table[picture[..., channel]]
    return out


def keep_hue(rgb, old, new, top, offset):
    """What colours differ from the exact luma by (here in 65536ths), scaled by the least of four factors; unchanged where luma stays."""
    rgb = rgb.astype(np.int64)
    exact = rgb @ np.array([19595, 38470, 7471])
    room = 65536 * rgb.max(axis=-1) - exact
    # Factors as quotients; one of 0 / 0 is of gray, for which any does.
    up, down = np.full_like(exact, 4), np.full_like(exact, 65536)
    for n, d in ((new, exact), (new + offset, exact + 65536 * offset), (top - new, room)):
        less = (d > 0) & (n * down < up * d)
        up, down = np.where(less, n, up), np.where(less, d, down)
    up, down = up[..., None], down[..., None]
    kept = new[..., None] + (2 * (65536 * rgb - exact[..., None]) * up + down) // (2 * down)
    assert kept.min() >= 0 and kept.max() <= top
    return np.where((old == new)[..., None], rgb, kept)


def part_of_the_way(old, new, strength):
    return (old * (1000 - round(strength * 1000)) + new.astype(int) * round(strength * 1000) + 500) // 1000


def expose(picture, thousandths):
    """A gray picture whose brightest samples reach a share of the range."""
    top, values = np.iinfo(picture.dtype).max, np.sort(picture, axis=None).astype(int)
    passed = len(values) * 1750 // 1_000_000
    low, high = values[passed], values[-1 - passed]
    if low >= high:
        return picture.astype(int)
    black, white = low // 2, max(high, min(top * thousandths // 1000, 3 * high))
    return ((2 * (picture.astype(int) - black) * white + high - black) // (2 * (high - black))).clip(0, top)


def through(picture, rule, color="luma", strength=1.0, mask=None, number=None):
    """A picture of `number` levels sent through the tables that `rule` makes of its counts."""
    tables = [weaken(rule(c), strength) for c in counts(picture, color, mask, number)]
    return send(picture, tables, color, number)


def mirrored(length, extra):
    """The indices of a padded axis: reflected without repeating the end, back and forth if need be."""
    at = np.arange(length + extra) % max(2 * length - 2, 1)
    return np.where(at < length, at, 2 * length - 2 - at)


def table_clahe(counts, clip, scale, first=0, last=None):
    """The table of a tile: peaks cut, what is cut off spread over all levels, or those from first to last, in one pass, and summed up."""
    top, last = len(counts), len(counts) - 1 if last is None else last
    if clip:
        excess, places = int(np.maximum(counts - clip, 0).sum()), last - first + 1
        counts = np.minimum(counts, clip)
        counts[first : last + 1] += excess // places
        residual = excess % places
        if residual:
            counts[np.arange(first, last + 1, max(places // residual, 1))[:residual]] += 1
    return np.clip(np.rint(np.cumsum(counts).astype(np.float32) * scale), 0, top - 1)


def between(size, side, tiles):
    """For each place along an axis the weight of the second of its two tiles, and both."""
    at = np.arange(size, dtype=np.float32) * np.float32(np.float32(1) / np.float32(side)) - np.float32(0.5)
    low = np.floor(at)
    return (at - low).astype(np.float32), low.astype(int).clip(0, tiles - 1), (low.astype(int) + 1).clip(0, tiles - 1)


def clahe_volume(volume, clip_limit, x, y, z):
    """CLAHE of a stack (pages, height, width): tiles are boxes; neighbours are blended along the stack last."""
    top, one = levels(volume.dtype), np.float32(1)
    pages, height, width = volume.shape
    fits = width % x == 0 and height % y == 0
    extra = [0 if pages % z == 0 else z - pages % z, 0 if fits else y - height % y, 0 if fits else x - width % x]
    padded = volume[np.ix_(*(mirrored(length, more) for length, more in zip(volume.shape, extra)))]
    depth, rows, columns = padded.shape[0] // z, padded.shape[1] // y, padded.shape[2] // x
    area = depth * rows * columns
    clip = max(1, int(float(clip_limit) * area / top)) if clip_limit > 0 else 0
    scale = np.float32(np.float32(top - 1) / np.float32(area))
    tables = np.zeros((z, y, x, top), volume.dtype)
    for k, j, i in np.ndindex(z, y, x):
        box = padded[k * depth : (k + 1) * depth, j * rows : (j + 1) * rows, i * columns : (i + 1) * columns]
        tables[k, j, i] = table_clahe(np.bincount(box.ravel(), minlength=top).astype(np.int64), clip, scale)
    (xa, x1, x2), (ya, y1, y2) = between(width, columns, x), between(height, rows, y)
    out = np.empty_like(volume)
    for page, (za, z1, z2) in enumerate(zip(*between(pages, depth, z))):

        def plane(k):
            at = lambda j, i: tables[k, j[:, None], i[None, :], volume[page]].astype(np.float32)
            upper, lower = (at(j, x1) * (one - xa) + at(j, x2) * xa for j in (y1, y2))
            return upper * (one - ya)[:, None] + lower * ya[:, None]

        value = plane(z1) if z1 == z2 else plane(z1) * (one - za) + plane(z2) * za
        out[page] = np.clip(np.rint(value), 0, top - 1)
    return out
