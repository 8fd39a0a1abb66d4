"""What the global method makes of a picture, by the definition in NumPy that the Python module is tested with (python/tests/model.py)."""

import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / 'python/tests'))
import model  # noqa: E402
from picture import Picture  # noqa: E402


def equalized(picture, together, inverted=False, spread=False, limits=None, absent=None, hidden=False):
    """The picture with its frames equalized each by itself, or together. Samples that are no levels, and those to be spread (over what there is, or between
    limits), become levels and samples again; `inverted` ones have white as 0. `absent` are the least and the greatest
    value of samples that are none; `hidden` ones, by a mask, do not count and keep their levels."""
    frames = [np.concatenate(picture.frames)] if together else picture.frames
    done = [of_frame(frame, picture, inverted, spread, limits, absent, hidden) for frame in frames]
    return Picture(np.split(done[0], len(picture.frames)) if together else done, picture.colours, picture.alpha)


def of_samples(samples, rule=model.table_equalize, limits=None):
    """What becomes of samples of any shape and type that have one histogram."""
    frame = samples.astype(samples.dtype.newbyteorder('=')).reshape(-1, 1, 1)
    return of_frame(frame, Picture([frame], 1), limits=limits, rule=rule).reshape(samples.shape)


def each(array, axes, apart, function):
    """What a function makes of each part of an array, whose parts differ in their places along the axes `apart`."""
    out = np.empty_like(array)
    for at in np.ndindex(*(size if axis in apart else 1 for axis, size in zip(axes, array.shape))):
        part = tuple(place if axis in apart else slice(None) for axis, place in zip(axes, at))
        out[part] = function(array[part])
    return out


def of_frame(frame, picture, inverted=False, spread=False, limits=None, absent=None, hidden=False, rule=model.table_equalize):
    colours = frame[..., : picture.colours]
    seen = frame[..., picture.colours] != 0 if picture.alpha else np.ones(frame.shape[:2], bool)
    finite = np.isfinite(colours).all(-1)
    is_levels = colours.dtype in (np.uint8, np.uint16) and not spread
    if absent is not None:
        none = is_absent(colours, absent)
        gap = none.all(-1) if is_levels else none.any(-1)
        finite &= ~gap
    seen &= finite & np.logical_not(hidden)
    if not seen.any():
        return frame
    levels, back = as_levels(colours, finite, is_levels, spread, limits)
    out = frame.copy()
    done = np.where(np.expand_dims(hidden, -1), levels, through(levels, seen, inverted, rule))
    if absent is not None:
        done = avoid(done, finite, absent, back, every=is_levels)
    out[..., : picture.colours] = np.where(finite[..., None], back(done), colours)
    return out


def as_levels(colours, finite, is_levels, spread, limits):
    """Levels from 0 up, and what makes samples of them again (docs/formats.md)."""
    kind, top = colours.dtype, 255 if colours.dtype.itemsize == 1 else 65535
    if is_levels:
        return colours, lambda levels: levels
    if kind in (np.int8, np.int16) and not spread:
        half = -int(np.iinfo(kind).min)
        return (colours.astype(np.int64) + half).astype(f'u{kind.itemsize}'), lambda levels: levels.astype(np.int64) - half
    values = colours.astype(np.float64)
    low, high = limits or (values[finite].min(), values[finite].max())
    values = np.clip(values, low, high)
    if low == high:
        return np.zeros(colours.shape, np.uint16), lambda levels: colours
    levels = np.floor((np.where(finite[..., None], values, low) - low) / (high - low) * top + 0.5)
    levels = levels.astype(np.uint8 if top == 255 else np.uint16)

    def back(levels):
        samples = low + levels / top * (high - low)
        return samples.astype(kind) if kind.kind == 'f' else np.floor(np.maximum(samples, np.iinfo(kind).min) + 0.5).astype(kind)

    return levels, back


def through(levels, seen, inverted, rule):
    top = np.iinfo(levels.dtype).max
    levels = top - levels if inverted else levels
    flat = levels[..., 0] if levels.shape[2] == 1 else levels
    done = model.through(flat, rule, mask=seen).reshape(levels.shape)
    return top - done if inverted else done


def is_absent(samples, absent):
    least, greatest = absent
    return (samples >= least) & (samples <= greatest)


def avoid(levels, has_data, absent, back, every):
    """No pixel with data may look as if it had none: in `every` colour where these are levels, else in any."""
    step = -1 if is_absent(back(np.full_like(levels[:1, :1], np.iinfo(levels.dtype).max)), absent).all() else 1
    while True:
        none = is_absent(back(levels), absent)
        lost = has_data[..., None] & (none.all(-1, keepdims=True) if every else none)
        if not lost.any():
            return levels
        levels = np.where(lost, levels + step, levels).astype(levels.dtype)
