"""Histogram equalization and CLAHE of arrays in memory, 8 and 16 bit, in exact arithmetic.

The same bytes as the command ``histeqd`` on every processor, and, for CLAHE, as OpenCV. The GIL is free while pictures are processed.

**Arrays.** A picture is a NumPy array of ``uint8`` or ``uint16``, or anything that lends its memory as one: the buffer protocol (``bytearray``,
``memoryview``), ``__array_interface__`` (Pillow) or DLPack on the CPU (PyTorch, JAX). Results are NumPy arrays.

Arrays in the memory of an NVIDIA GPU are taken through DLPack (PyTorch, CuPy, JAX): the work goes into the caller's stream, without waiting, and the
result is an array of the same library on the same GPU. There each picture must lie without gaps, and other arguments must be on that GPU.

=========  ============================================================================================
``HW``     gray
``HWC``    1 channel: gray; 2: gray, alpha; 3: red, green, blue; 4: red, green, blue, alpha
``NHW``    a batch of gray pictures
``NHWC``   a batch of pictures
=========  ============================================================================================

Data of fewer levels than there is room for, such as 12 bits in ``uint16``, are described by ``levels=4096``; GPUs take all levels. Where they lie in the
upper bits, as cameras write them, shift them: ``equalize(array >> 4, levels=4096) << 4``.

With three axes, an array is ``HWC`` if its last axis has 1 to 4 entries and ``NHW`` otherwise; ``batch=True`` or ``batch=False`` says it instead.
Pixels whose alpha is 0 do not count, and alpha is never changed.

**Memory.** Arrays may have any strides (crops, flipped and transposed views, channels first by ``moveaxis``) and are read where they are. Only
:func:`clahe` needs a picture without gaps: it copies one picture at a time if the *result* has gaps (``out=`` is a crop, say).

**Threads.** ``threads=None`` means as many as there are cores, and fewer for little work: one for each 256 Ki samples at most. A batch is spread
picture by picture, and a single picture by its rows, except for CLAHE of 16 bits with ``clip_limit="auto"``. Threads end with the call, so the
module may be used before and after ``fork``.

**Errors.** ``TypeError`` for what is not an array of a supported dtype, ``ValueError`` for everything else; the message begins with the name of the
argument and says what to do. Nothing has been written then.
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from . import _gpu, _histeqd
from ._arrays import Lent, Pictures, as_counts, as_mask, number, one_of
from ._histeqd import __version__

__all__ = ["apply", "clahe", "equalize", "histogram", "lut", "match", "stretch"]

Color = Literal["luma", "hue", "lab", "per-channel", "linked"]
_COLORS = ("luma", "hue", "lab", "per-channel", "linked")
# The samples that exposure passes over at both ends, in parts per million, where nobody says how many.
_ENDS = (1750, 1750)


def equalize(
    array: Lent,
    *,
    plateau: float | None = None,
    color: Color = "luma",
    exposure: float = 0.0,
    strength: float = 1.0,
    levels: int | None = None,
    mask: NDArray[np.bool_] | None = None,
    out: Lent | None = None,
    threads: int | None = None,
    batch: bool | None = None,
) -> NDArray[Any]:
    """Spread the levels of each picture so that they occur about equally often: one table for the whole picture.

    Parameters
    ----------
    array : uint8 or uint16, HW, HWC, NHW or NHWC
        The pictures; see the module's documentation for what else is taken.
    plateau : float, optional
        Percent of the samples to which the count of a level is cut, above 0 and below 100, so that large flat areas take no more of the range than
        they need.
    color : "luma", "hue", "lab", "per-channel" or "linked"
        What is equalized in colour pictures: their brightness, with which red, green and blue change by as much; their brightness, so that hues
        stay, colours grow with it and nothing clips; the L of L*a*b*, for ``uint8``, to the bytes of OpenCV's ``COLOR_RGB2LAB`` and back; each
        channel for itself; or red, green and blue by one table, of the sum of their counts. For one channel alone pass it: ``array[..., 1]``.
    exposure : float
        The share of the range, 0 to 1 with at most three decimals, that the brightest samples reach before the method: dark pictures are lifted, at
        most three times as bright. At both ends 0.175 % of the samples are passed over. 0 leaves pictures as they are.
    strength : float
        How far levels go from their own (with `exposure`, from the lifted ones) to the equalized ones, 0 to 1 with at most three decimals.
    levels : int, optional
        How many levels samples have, from 0 on, if these are fewer than there is room for: 4096 for data of 12 bits in ``uint16``. They are
        counted, and spread over as many. It is an error if a sample is above them.
    mask : bool, HW or NHW, optional
        Which pixels count. The table that follows from them is applied to all pixels, as in scikit-image.
    out : array of the shape and dtype of `array`, optional
        Where the result goes. ``out=array`` works in place; other arrays must not overlap.
    threads : int, optional
        At most so many threads.
    batch : bool, optional
        Whether an array with three axes is a batch of gray pictures.

    Returns
    -------
    numpy.ndarray
        `out`, or a new array of the shape and dtype of `array`.

    Raises
    ------
    TypeError
        If an argument is of another type, or has another dtype.
    ValueError
        If shapes do not fit together, an argument is out of range, a sample is above `levels`, or `out` overlaps `array` without being it.

    Examples
    --------
    >>> import numpy as np, histeqd
    >>> histeqd.equalize(np.array([[100, 101, 102, 103]], np.uint8))
    array([[  0,  85, 170, 255]], dtype=uint8)
    """
    operation = _histeqd.Operation.equalize(_plateau(plateau), _color(color), _thousandths(strength), _levels(levels))
    operation = operation.exposed(_thousandths(exposure, "exposure"), *_ENDS)
    return _run(array, operation, None, color, levels, mask, out, threads, batch)


def stretch(
    array: Lent,
    low: float = 0.175,
    high: float = 0.175,
    *,
    color: Color = "luma",
    exposure: float = 0.0,
    strength: float = 1.0,
    levels: int | None = None,
    mask: NDArray[np.bool_] | None = None,
    out: Lent | None = None,
    threads: int | None = None,
    batch: bool | None = None,
) -> NDArray[Any]:
    """Spread the levels between two percentiles of each picture over the whole range, in a straight line.

    Parameters
    ----------
    array : uint8 or uint16, HW, HWC, NHW or NHWC
    low, high : float
        How many percent of the samples may be lost at the dark and at the bright end, 0 to below 100.
    color, exposure, strength, levels, mask, out, threads, batch
        As in :func:`equalize`; `exposure` passes over `low` and `high`.

    Returns
    -------
    numpy.ndarray
        As :func:`equalize` does, and with the same errors.
    """
    ends = _millionths(low, "low"), _millionths(high, "high")
    operation = _histeqd.Operation.stretch(*ends, _color(color), _thousandths(strength), _levels(levels))
    operation = operation.exposed(_thousandths(exposure, "exposure"), *ends)
    return _run(array, operation, None, color, levels, mask, out, threads, batch)


def match(
    array: Lent,
    reference: Lent,
    *,
    color: Color = "luma",
    exposure: float = 0.0,
    strength: float = 1.0,
    levels: int | None = None,
    mask: NDArray[np.bool_] | None = None,
    out: Lent | None = None,
    threads: int | None = None,
    batch: bool | None = None,
) -> NDArray[Any]:
    """Make the histogram of each picture like that of a reference.

    Parameters
    ----------
    array : uint8 or uint16, HW, HWC, NHW or NHWC
    reference : of the dtype of `array`, HW, HWC, NHW or NHWC
        Of a batch, all pictures count. With ``color="per-channel"`` it must have as many colours as `array`.
    color, exposure, strength, levels, mask, out, threads, batch
        As in :func:`equalize`. `mask` is about `array`, `levels` also about `reference`.

    Returns
    -------
    numpy.ndarray
        As :func:`equalize` does, and with the same errors.
    """
    operation = _histeqd.Operation.match(_color(color), _thousandths(strength), _levels(levels))
    operation = operation.exposed(_thousandths(exposure, "exposure"), *_ENDS)
    if _gpu.is_on_gpu(array):
        return _run(array, operation, reference, color, levels, mask, out, threads, batch)
    pictures = Pictures(reference, None, "reference")
    pictures.check(levels, color)
    how = (None, color, levels, _threads(threads))
    counts = _histeqd.histograms(pictures.nhwc, "reference", *how).sum(axis=0)
    return _run(array, operation, counts, color, levels, mask, out, threads, batch)


def clahe(
    array: Lent,
    clip_limit: float | Literal["auto"] = "auto",
    tiles: tuple[int, int] | tuple[int, int, int] = (8, 8),
    *,
    tile_size: int | None = None,
    noise: int = 0,
    color: Color = "luma",
    exposure: float = 0.0,
    strength: float = 1.0,
    levels: int | None = None,
    out: Lent | None = None,
    threads: int | None = None,
    batch: bool | None = None,
) -> NDArray[Any]:
    """Equalize adaptively: a table for each tile, limited in contrast and interpolated between tiles. Byte for byte as OpenCV.

    Parameters
    ----------
    array : uint8 or uint16, HW, HWC, NHW or NHWC
    clip_limit : float or "auto"
        How high a peak of a tile's histogram may be, as a multiple of the mean over all levels: OpenCV's ``clipLimit``; 0 for no limit. "auto" is 2 for
        ``uint8``, and for ``uint16`` what 2 means there for the levels that occur, as in the command (a number leaves 12-bit samples dark).
    tiles : (int, int) or (int, int, int)
        Tiles across and down, 1 to 1024: OpenCV's ``tileGridSize``. With a third number a batch is a volume, whose slices its pictures are, and
        tiles are boxes: so many along the first axis, between which tables are blended too.
    tile_size : int, optional
        The side of about square tiles in pixels, at least 4. It replaces `tiles`.
    noise : int
        How many levels, of 256, the middle four fifths of a tile's samples have to span for the tile to gain all of its contrast, 0 to 255. A tile of
        sky or skin that spans fewer gains in proportion less. 0 is OpenCV's.
    color, exposure, strength, levels, out, threads, batch
        As in :func:`equalize`. There is no mask. With fewer `levels`, a number as clip limit means the same as for ``uint8``.

    Returns
    -------
    numpy.ndarray
        As :func:`equalize` does, and with the same errors.
    """
    auto = isinstance(clip_limit, str) and clip_limit == "auto"
    limit = None if auto else number(clip_limit, 0, 1e6, "clip_limit", 'or "auto"')
    grid = _grid(tiles)
    if color == "linked":
        raise ValueError('color: "linked" is one table for a whole picture, and clahe makes one for each tile; pass "hue", or use equalize()')
    side = None if tile_size is None else number(tile_size, 4, 2**32 - 1, "tile_size", whole=True)
    spared = number(noise, 0, 255, "noise", whole=True)
    operation = _histeqd.Operation.clahe(limit, grid, side, spared, _color(color), _thousandths(strength), _levels(levels))
    operation = operation.exposed(_thousandths(exposure, "exposure"), *_ENDS)
    is_volume = grid[2] is not None and side is None
    return _run(array, operation, None, color, levels, None, out, threads, batch, is_volume)


def histogram(
    array: Lent,
    bins: int | None = None,
    *,
    color: Color | None = None,
    levels: int | None = None,
    mask: NDArray[np.bool_] | None = None,
    threads: int | None = None,
    batch: bool | None = None,
) -> NDArray[np.uint64]:
    """Count how often each level occurs.

    Parameters
    ----------
    array : uint8 or uint16, HW, HWC, NHW or NHWC
    bins : int, optional
        Share the levels among so many bins, as evenly as integers allow; all levels have their own if it is left out.
    color : "luma", "hue", "lab", "per-channel" or "linked", optional
        Count only what :func:`equalize` would look at: the luma, for "hue" too, the L of L*a*b*, the colours without alpha, or their sum. Otherwise each
        channel is counted.
    levels : int, optional
        As in :func:`equalize`: there are at most so many bins then.
    mask : bool, HW or NHW, optional
        Which pixels count.
    threads, batch
        As in :func:`equalize`.

    Returns
    -------
    numpy.ndarray of uint64
        The shape of `array` without height and width, and the bins last: ``(bins,)`` for HW, ``(C, bins)`` for HWC, with N before them for a
        batch. With ``color="luma"``, "hue", "lab" or "linked" there is no C.

    Notes
    -----
    Without alpha and with a power of two as `bins`, channel ``c`` is ``numpy.histogram(array[..., c], bins, (0, 256))[0]``, with 65536 for
    ``uint16``. Of pixels whose alpha is 0 only the alpha is counted.
    """
    if color is not None:
        _color(color)
    if _gpu.is_on_gpu(array):
        _gpu.refuse_levels(levels)
        return _gpu.histogram(array, bins, color, mask, batch)
    pictures = Pictures(array, batch, "array")
    pictures.check(levels, color)
    most = pictures.levels if levels is None else levels
    bins = most if bins is None else number(bins, 1, most, "bins", whole=True)
    how = (as_mask(mask, pictures), color, levels, _threads(threads))
    counts = _histeqd.histograms(pictures.nhwc, "array", *how)
    if most < pictures.levels:
        counts = counts[..., :most].copy()
    if bins < most:
        counts = _rebin(counts, bins)
    if color in ("luma", "hue", "lab", "linked") or not pictures.has_channels:
        counts = counts[:, 0]
    return counts if pictures.is_batch else counts[0]


def lut(
    counts: NDArray[np.integer],
    method: Literal["equalize", "stretch", "match"] = "equalize",
    *,
    plateau: float | None = None,
    low: float = 0.175,
    high: float = 0.175,
    reference: NDArray[np.integer] | None = None,
    exposure: float = 0.0,
    strength: float = 1.0,
    levels: int | None = None,
) -> NDArray[Any]:
    """Make the tables that follow from counts, such as the sum over a series of pictures.

    Parameters
    ----------
    counts : integers, (..., 256) or (..., 65536), or (..., levels)
        How often each level occurs, as :func:`histogram` counts.
    method : "equalize", "stretch" or "match"
    plateau : float, optional
        For "equalize", as in :func:`equalize`.
    low, high : float
        For "stretch", as in :func:`stretch`.
    reference : integers, of the shape of `counts`
        For "match": how often each level occurs in the reference.
    exposure, strength : float
        As in :func:`equalize`, or for "stretch" in :func:`stretch`.
    levels : int, optional
        How many levels there are, as they were counted, if not 256 or 65536.

    Returns
    -------
    numpy.ndarray of uint8 or uint16
        The shape of `counts`: a table from each level to its new one. Up to 256 levels it is of ``uint8``.

    Examples
    --------
    One table for all pictures of a stack:

    >>> import numpy as np, histeqd
    >>> stack = np.random.default_rng(1).integers(0, 99, (5, 64, 48), np.uint8)
    >>> counts = histeqd.histogram(stack, color="luma").sum(axis=0)
    >>> alike = histeqd.apply(stack, histeqd.lut(counts))
    """
    thousandths = _thousandths(strength)
    on_gpu = _gpu.is_on_gpu(counts)
    levels = _levels(levels)
    if on_gpu:
        _gpu.refuse_levels(levels)
    else:
        counts, planes = as_counts(counts, "counts", levels)
    one_of(method, ("equalize", "stretch", "match"), "method")
    if plateau is not None and method != "equalize":
        raise ValueError('plateau: belongs to method="equalize"; leave one of them out')
    if (reference is None) == (method == "match"):
        raise ValueError('reference: belongs to method="match"; pass both, or neither')
    if method == "stretch":
        operation = _histeqd.Operation.stretch(_millionths(low, "low"), _millionths(high, "high"), "luma", thousandths, levels)
    elif method == "match":
        operation = _histeqd.Operation.match("luma", thousandths, levels)
    else:
        operation = _histeqd.Operation.equalize(_plateau(plateau), "luma", thousandths, levels)
    ends = (_millionths(low, "low"), _millionths(high, "high")) if method == "stretch" else _ENDS
    operation = operation.exposed(_thousandths(exposure, "exposure"), *ends)
    if on_gpu:
        return _gpu.lut(counts, operation, reference)
    if reference is None:
        return _tables(planes, operation, None).reshape(counts.shape)
    reference, reference_planes = as_counts(reference, "reference", levels)
    if reference.shape != counts.shape:
        shapes = f"has the shape {reference.shape}, but counts {counts.shape}"
        raise ValueError(f"reference: {shapes}; pass counts of the same kind")
    return _tables(planes, operation, reference_planes).reshape(counts.shape)


def apply(
    array: Lent,
    lut: NDArray[Any],
    *,
    color: Color = "luma",
    levels: int | None = None,
    out: Lent | None = None,
    threads: int | None = None,
    batch: bool | None = None,
) -> NDArray[Any]:
    """Send pictures through tables.

    Parameters
    ----------
    array : uint8 or uint16, HW, HWC, NHW or NHWC
    lut : of the dtype of `array`, (256,) or (65536,)
        A table from each level to its new one: of luma, for colour. With ``color="per-channel"`` it may also be ``(3, 256)`` or ``(3, 65536)``.
    color, levels, out, threads, batch
        As in :func:`equalize`. With `levels`, `lut` has as many entries, as :func:`lut` makes them.

    Returns
    -------
    numpy.ndarray
        As :func:`equalize` does, and with the same errors.
    """
    per_channel = _per_channel(color)
    if _gpu.is_on_gpu(array):
        _gpu.refuse_levels(levels)
        return _gpu.apply(array, lut, color, out, batch)
    pictures = Pictures(array, batch, "array")
    levels = _levels(levels)
    pictures.check(levels, color)
    table = np.asarray(lut)
    planes = 3 if per_channel and pictures.nhwc.shape[3] >= 3 else 1
    entries, dtype = levels or pictures.levels, pictures.array.dtype
    wanted = np.dtype(np.uint8) if levels is not None and levels <= 256 else dtype
    if table.dtype not in (dtype, wanted) or table.shape not in {(entries,), (planes, entries)}:
        shapes = f"({entries},)" if planes == 1 else f"({entries},) or ({planes}, {entries})"
        what = f"is {table.dtype} of the shape {table.shape}"
        raise ValueError(f"lut: {what}; {wanted} of {shapes} is needed, as lut() makes")
    table = np.broadcast_to(table, (planes, entries))
    if entries < pictures.levels:
        above = np.arange(entries, pictures.levels, dtype=dtype)
        table = np.concatenate([table, np.broadcast_to(above, (planes, len(above)))], axis=1, dtype=dtype)
    source, target, result = pictures.into(out)
    operation = _histeqd.Operation.equalize(None, color, 1000, levels)
    _histeqd.apply_luts(source, target, np.ascontiguousarray(table), operation, _threads(threads))
    return result


def _run(array, operation, reference, color, levels, mask, out, threads, batch, is_volume=False):
    if _gpu.is_on_gpu(array):
        _gpu.refuse_volume(is_volume)
        _gpu.refuse_levels(levels)
        return _gpu.equalize(array, operation, color, reference, mask, out, batch)
    pictures = Pictures(array, batch, "array")
    pictures.check(levels, color)
    if is_volume and not pictures.is_batch:
        raise ValueError("tiles: three numbers are for a volume, NHW or NHWC, and this is one picture; pass two")
    mask = as_mask(mask, pictures)
    threads = _threads(threads)
    source, target, result = pictures.into(out)
    _histeqd.equalize_pictures(source, target, operation, mask, reference, threads)
    return result


def _grid(tiles):
    """Return the tiles across and down, and along a volume if they are boxes."""
    try:
        across, down, *along = tiles
    except (TypeError, ValueError):
        along = [None, None]
    if len(along) > 1:
        raise TypeError(f"tiles: is {tiles!r}, not a pair of tiles across and down; pass (8, 8), for example, or (8, 8, 4) for a volume")
    sides = [number(side, 1, 1024, "tiles", whole=True) for side in (across, down, *along)]
    return (*sides, None)[:3]


def _color(color):
    return one_of(color, _COLORS, "color")


def _per_channel(color):
    return _color(color) == "per-channel"


def _levels(levels):
    return None if levels is None else number(levels, 2, 65536, "levels", "or None", whole=True)


def _thousandths(share, name="strength"):
    scaled = number(share, 0, 1, name) * 1000
    if abs(scaled - round(scaled)) > 1e-3:
        raise ValueError(f"{name}: is {share!r}, but has at most three decimals; pass {round(scaled) / 1000}")
    return round(scaled)


def _millionths(percent, name):
    scaled = number(percent, 0, 100, name) * 10_000
    if scaled >= 1_000_000 or abs(scaled - round(scaled)) > 1e-3:
        raise ValueError(f"{name}: is {percent!r}, not a number of percent below 100 with at most four decimals")
    return round(scaled)


def _plateau(percent):
    share = None if percent is None else _millionths(percent, "plateau")
    if share == 0:
        raise ValueError(f"plateau: is {percent!r}, not a number of percent above 0; pass None for no plateau")
    return share


def _threads(threads):
    return 0 if threads is None else number(threads, 1, 2**16, "threads", "or None", whole=True)


def _tables(planes, operation, reference):
    """Make a table of each plane of counts, which may be of fewer levels than the module's own."""
    levels = planes.shape[1]
    missing = (256 if levels <= 256 else 65536) - levels
    if missing:
        planes = np.pad(planes, ((0, 0), (0, missing)))
        reference = None if reference is None else np.pad(reference, ((0, 0), (0, missing)))
    return _histeqd.luts(planes, operation, reference)[:, :levels]


def _rebin(counts, bins):
    levels = counts.shape[-1]
    starts = -(-np.arange(bins, dtype=np.int64) * levels // bins)
    return np.add.reduceat(counts, starts, axis=-1)
