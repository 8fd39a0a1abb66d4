"""Arguments: what is taken as an array, how its axes are told apart, and the words of errors."""

from __future__ import annotations

import operator
import warnings
from typing import Any, Protocol, Union

import numpy as np
from numpy.typing import NDArray


class SupportsDLPack(Protocol):
    """What lends its memory through DLPack."""

    def __dlpack__(self, *args: Any, **kwargs: Any) -> Any: ...
    def __dlpack_device__(self) -> tuple[int, int]: ...


class SupportsArrayInterface(Protocol):
    """What lends its memory through ``__array_interface__``."""

    @property
    def __array_interface__(self) -> dict[str, Any]: ...


Lent = Union[
    NDArray[np.uint8], NDArray[np.uint16], memoryview, bytearray, bytes, SupportsDLPack, SupportsArrayInterface
]

_DTYPES = (np.dtype(np.uint8), np.dtype(np.uint16))
_CPU = 1  # kDLCPU
_PILLOW_MODES = ("L", "LA", "RGB", "RGBA", "I;16", "I;16L", "I;16N")


def as_array(given, name):
    """Return the memory that was given as an array of NumPy, without a copy."""
    array = given if type(given) is np.ndarray else _lend(given, name)
    if array.dtype not in _DTYPES:
        raise TypeError(f"{name}: is {array.dtype}, not uint8 or uint16; {_conversion(array.dtype, name)}")
    return array


def _conversion(dtype, name):
    """Return how samples of another type become levels, in words."""
    if dtype.newbyteorder("=") in _DTYPES:
        return f"swap its bytes with {name}.astype(numpy.uint16)"
    if dtype.kind == "b":
        return f"convert it with {name}.astype(numpy.uint8)"
    if dtype.kind == "i" and dtype.itemsize <= 2:
        wider, wanted = ("int16", "uint8") if dtype.itemsize == 1 else ("int32", "uint16")
        return f"move it up first, as with ({name}.astype(numpy.{wider}) - {name}.min()).astype(numpy.{wanted})"
    if dtype.kind in "fiu":
        scaled = f"({name} - {name}.min().astype(float)) * (65535 / numpy.ptp({name}.astype(float)))"
        return f"scale it first, as with numpy.round({scaled}).astype(numpy.uint16)"
    return "pass an array of one of these"


def _lend(given, name):
    if isinstance(given, np.ma.MaskedArray):
        raise TypeError(f"{name}: is a masked array; pass {name}.data, and mask=~numpy.ma.getmaskarray({name})")
    if isinstance(given, np.ndarray):
        return given.view(np.ndarray)
    try:
        return np.asarray(memoryview(given))
    except TypeError:
        pass
    if hasattr(given, "__dlpack_device__"):
        if given.__dlpack_device__()[0] != _CPU:
            raise TypeError(f"{name}: is not in the CPU's memory; copy it there first, as with {name}.cpu()")
        return np.from_dlpack(given)
    if hasattr(given, "__array_interface__"):
        # Pillow's pictures have one, and their samples may be no levels, but entries of a palette, say.
        mode = getattr(given, "mode", "L")
        if mode not in _PILLOW_MODES:
            raise TypeError(f'{name}: is a picture of the mode {mode}; convert it with {name}.convert("RGB")')
        return np.asarray(given)
    raise TypeError(f"{name}: is {type(given).__name__}, not an array; pass numpy.asarray({name}, numpy.uint8)")


def has_channels(array, batch, name):
    """Return whether the last axis of an array is its channels."""
    if array.ndim == 2:
        if batch:
            raise ValueError(f"{name}: has two axes, but batch=True; pass {name}[None], or leave batch out")
        return False
    if array.ndim == 3:
        channels = 1 <= array.shape[2] <= 4 if batch is None else not batch
        if batch is None and not channels and array.shape[0] == 3:
            warnings.warn(
                f"{name}: has the shape {tuple(array.shape)}, which is taken as 3 gray pictures; if these are colours, move them last with "
                f"numpy.moveaxis({name}, 0, -1), and if not, pass batch=True",
                stacklevel=5,
            )
    elif array.ndim == 4:
        if batch is False:
            raise ValueError(f"{name}: has four axes, but batch=False; leave batch out")
        channels = True
    else:
        raise ValueError(f"{name}: has the shape {array.shape}; pass HW, HWC, NHW or NHWC")
    if channels and not 1 <= array.shape[-1] <= 4:
        raise ValueError(
            f"{name}: has the shape {array.shape}, whose last axis should be 1 to 4 channels; move them there with "
            f"numpy.moveaxis, which copies nothing, or pass batch=True for a batch of gray pictures"
        )
    return channels


def refuse_lab(most, levels=None):
    """Fail if colours have no place in L*a*b*: `most` levels that there is room for, and those that there are."""
    if levels is not None or most > 256:
        raise ValueError('color: "lab" is for uint8 with all its levels; pass "hue", which is for all')


class Pictures:
    """An argument with pictures: its array, what its axes mean, and a view of it with the axes NHWC."""

    __slots__ = ("array", "has_channels", "nhwc")

    def __init__(self, given, batch, name):
        self.array = as_array(given, name)
        self.has_channels = has_channels(self.array, batch, name)
        self.nhwc = _four_axes(self.array, self.has_channels)
        if 0 in self.nhwc.shape[1:3]:
            raise ValueError(f"{name}: has the shape {self.array.shape}, without pixels; leave empty pictures out")

    @property
    def is_batch(self):
        return self.array.ndim == 4 or self.array.ndim == 3 and not self.has_channels

    @property
    def levels(self):
        return 256 if self.array.dtype.itemsize == 1 else 65536

    def check(self, levels, color):
        """Fail if there are to be more levels than there is room for, or colours have no place in what is equalized."""
        if levels is not None:
            number(levels, 2, self.levels, "levels", f"or None, for {self.array.dtype}", whole=True)
        if color == "lab" and self.nhwc.shape[3] >= 3:
            refuse_lab(self.levels, levels)

    def into(self, out):
        """Return the pictures (None if they are changed in place) and where they go, both NHWC, and the array to return."""
        array = self.array
        if out is None:
            out = np.empty(array.shape, array.dtype)
            return self.nhwc, _four_axes(out, self.has_channels), out
        target = as_array(out, "out")
        if target.shape != array.shape or target.dtype != array.dtype:
            wanted = f"{array.dtype} of {array.shape}"
            raise ValueError(
                f"out: is {target.dtype} of {target.shape}, but array {wanted}; pass numpy.empty_like(array)"
            )
        if not target.flags.writeable:
            raise ValueError(
                "out: is read-only; pass an array that can be written (a tensor of PyTorch as out.numpy())"
            )
        source = self.nhwc
        if np.may_share_memory(array, target):
            if _place(array) == _place(target):
                source = None
            elif np.shares_memory(array, target):
                raise ValueError("out: overlaps array; pass out=array itself, or an array with memory of its own")
        return source, _four_axes(target, self.has_channels), out if isinstance(out, np.ndarray) else target


def _four_axes(array, has_channels):
    if array.ndim == 2:
        return array[None, :, :, None]
    if array.ndim == 4:
        return array
    return array[None] if has_channels else array[..., None]


def as_mask(mask, pictures):
    """Return a mask as NHW of bytes."""
    if mask is None:
        return None
    mask = np.asarray(mask)
    if mask.dtype != np.bool_:
        raise TypeError(f"mask: is {mask.dtype}, not bool; pass mask != 0, for example")
    shape = pictures.nhwc.shape[:3]
    if mask.shape not in {shape, shape[1:]}:
        raise ValueError(f"mask: has the shape {mask.shape}; one value a pixel is needed, {shape[1:]} or {shape}")
    return np.broadcast_to(mask.view(np.uint8), shape)


def as_counts(counts, name, levels):
    """Return counts as they are, and as planes of levels: of so many, or of all."""
    counts = np.asarray(counts)
    if counts.dtype.kind not in "ui":
        raise TypeError(f"{name}: is {counts.dtype}, not integers; convert it with {name}.astype(numpy.uint64)")
    if counts.ndim == 0 or counts.shape[-1] not in ((256, 65536) if levels is None else (levels,)):
        needed = "256 or 65536" if levels is None else levels
        shape = f"has the shape {counts.shape}; {needed} counts along its last axis are needed"
        raise ValueError(f"{name}: {shape}, so count without bins, and with the same levels")
    if counts.dtype.kind == "i" and counts.size and counts.min() < 0:
        raise ValueError(f"{name}: has negative numbers; pass how often each level occurs")
    return counts, np.ascontiguousarray(counts.reshape(-1, counts.shape[-1]), np.uint64)


def _place(array):
    return array.__array_interface__["data"][0], array.strides


def number(given, least, most, name, other="", whole=False):
    """Return a number within limits."""
    words = f"{'a whole number' if whole else 'a number'} from {least} to {most:.0f}{' ' if other else ''}{other}"
    if isinstance(given, (bool, str)):
        raise TypeError(f"{name}: is {given!r}, not {words}")
    try:
        value = operator.index(given) if whole else float(given)
    except TypeError:
        raise TypeError(f"{name}: is {given!r}, not {words}") from None
    if not least <= value <= most:
        raise ValueError(f"{name}: is {given!r}, not {words}")
    return value


def one_of(given, choices, name):
    """Return what was given if it is among the choices."""
    if given not in choices:
        raise ValueError(f"{name}: is {given!r}; pass " + " or ".join(repr(choice) for choice in choices))
    return given
