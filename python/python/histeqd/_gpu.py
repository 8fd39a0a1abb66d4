"""Arrays in the memory of a GPU, through DLPack: the work goes into the caller's stream, and results are arrays of the same library."""

from __future__ import annotations

import sys

import numpy as np

from . import _histeqd
from ._arrays import has_channels, number, refuse_lab

_CUDA = (2, 13)  # kDLCUDA, kDLCUDAManaged
_LEGACY = 1  # the legacy default stream, as DLPack numbers it
_NAMES = {"u8": "uint8", "u16": "uint16", "i64": "int64"}


def is_on_gpu(given):
    """Return whether an argument is an array in the memory of a CUDA GPU."""
    if type(given) is np.ndarray:
        return False
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(given, torch.Tensor):
        return given.is_cuda
    device = getattr(given, "__dlpack_device__", None)
    return device is not None and device()[0] in _CUDA


def refuse_levels(levels):
    """Fail if there are to be other levels than a sample has room for."""
    if levels is not None:
        raise ValueError(
            "levels: is not for arrays in the memory of a GPU, which have all levels there; leave it out, or pass the array in the CPU's memory"
        )


def refuse_volume(is_volume):
    """Fail if tiles are boxes, which no kernel knows."""
    if is_volume:
        raise ValueError("tiles: three numbers are not for arrays in the memory of a GPU; pass the array in the CPU's memory")


class Library:
    """What an array comes from: where new arrays are made, and in which stream the caller works."""

    __slots__ = ("array", "device", "stream", "torch", "cupy")

    def __init__(self, array):
        self.array = array
        self.torch = self._owner("torch", "Tensor")
        self.cupy = None if self.torch else self._owner("cupy", "ndarray")
        self.device = array.get_device() if self.torch else array.__dlpack_device__()[1]
        if self.torch:
            self.stream = self.torch.cuda.current_stream(self.device).cuda_stream or _LEGACY
        elif self.cupy:
            with self.cupy.cuda.Device(self.device):
                self.stream = self.cupy.cuda.get_current_stream().ptr or _LEGACY
        else:
            self.stream = _LEGACY

    def _owner(self, name, kind):
        module = sys.modules.get(name)
        return module if module is not None and isinstance(self.array, getattr(module, kind)) else None

    def borrow(self, given, name):
        """Return what DLPack says of an argument."""
        if self.torch and type(given) is self.torch.Tensor and given.is_cuda:
            # It is in the current stream, so there is nothing to wait for, and this is the shortest way.
            return _histeqd.Borrowed(self.torch.utils.dlpack.to_dlpack(given))
        if not is_on_gpu(given):
            raise TypeError(f"{name}: is not in the memory of the GPU, as array is; move it there")
        try:
            capsule = given.__dlpack__(stream=self.stream, max_version=(1, 0))
        except TypeError:  # from before version 1
            capsule = given.__dlpack__(stream=self.stream)
        return _histeqd.Borrowed(capsule)

    def empty(self, shape, dtype):
        """Return a new array, and what DLPack says of it."""
        name = _NAMES[dtype]
        if self.torch:
            array = self.torch.empty(shape, dtype=getattr(self.torch, name), device=self.array.device)
        elif self.cupy:
            with self.cupy.cuda.Device(self.device):
                array = self.cupy.empty(shape, name)
        else:
            array = _histeqd.gpu_empty(self.device, self.stream, list(shape), dtype)
            return array, _histeqd.Borrowed(array.__dlpack__(stream=self.stream))
        return array, self.borrow(array, "out")

    def finished(self, made):
        """Return a new array as one of the library's own."""
        if not isinstance(made, _histeqd.Exported):
            return made
        namespace = getattr(self.array, "__array_namespace__", None)
        return namespace().from_dlpack(made) if namespace else made


class Pictures:
    """An argument with pictures in a GPU, and what its axes mean."""

    __slots__ = ("library", "lent", "has_channels")

    def __init__(self, given, batch, name, library=None):
        self.library = library or Library(given)
        self.lent = self.library.borrow(given, name)
        if self.lent.dtype not in ("u8", "u16"):
            raise TypeError(f"{name}: has samples of {self.lent.dtype}, not uint8 or uint16; convert it")
        self.has_channels = has_channels(self.lent, batch, name)
        if self.lent.ndim > 1 and 0 in self._nhwc()[1:3]:
            raise ValueError(f"{name}: has the shape {self.lent.shape}, without pixels; leave empty pictures out")

    def _nhwc(self):
        shape = self.lent.shape if self.has_channels else (*self.lent.shape, 1)
        return shape if len(shape) == 4 else (1, *shape)

    @property
    def levels(self):
        return 256 if self.lent.dtype == "u8" else 65536

    def check(self, color):
        """Fail if colours have no place in what is equalized."""
        if color == "lab" and self._nhwc()[3] >= 3:
            refuse_lab(self.levels)

    def into(self, out):
        """Return where results go, as DLPack says and as the array to return."""
        if out is None:
            made, lent = self.library.empty(self.lent.shape, self.lent.dtype)
            return lent, made
        lent = self.library.borrow(out, "out")
        if lent.shape != self.lent.shape or lent.dtype != self.lent.dtype:
            wanted = f"{self.lent.dtype} of {self.lent.shape}"
            raise ValueError(f"out: is {lent.dtype} of {lent.shape}, but array {wanted}; leave it out")
        return lent, out


def _mask(mask, library):
    return None if mask is None else library.borrow(mask, "mask")


def equalize(array, operation, color, reference, mask, out, batch):
    """Enhance the contrast of pictures. `reference`: an array, or None."""
    pictures = Pictures(array, batch, "array")
    pictures.check(color)
    library = pictures.library
    if reference is not None:
        reference = Pictures(reference, None, "reference", library)
    mask = _mask(mask, library)
    target, result = pictures.into(out)
    _histeqd.gpu_equalize(pictures, target, operation, mask, reference, library.stream)
    return library.finished(result)


def histogram(array, bins, color, mask, batch):
    """Count levels, in `bins` bins or one for each."""
    pictures = Pictures(array, batch, "array")
    pictures.check(color)
    library, nhwc = pictures.library, pictures._nhwc()
    bins = pictures.levels if bins is None else number(bins, 1, pictures.levels, "bins", whole=True)
    if color is None:
        planes = nhwc[3]
    else:
        planes = 3 if color == "per-channel" and nhwc[3] >= 3 else 1
    shape = pictures.lent.shape
    is_batch = len(shape) == 4 or len(shape) == 3 and not pictures.has_channels
    has_planes = pictures.has_channels and color in (None, "per-channel")
    counts_shape = (*nhwc[: 1 if is_batch else 0], *([planes] if has_planes else []), bins)
    made, target = library.empty(counts_shape, "i64")
    mask = _mask(mask, library)
    _histeqd.gpu_histograms(pictures, target, mask, color, bins, library.stream)
    return library.finished(made)


def lut(counts, operation, reference):
    """Make the tables that follow from counts."""
    library = Library(counts)
    lent = library.borrow(counts, "counts")
    if lent.ndim == 0 or lent.shape[-1] not in (256, 65536):
        shape = f"has the shape {lent.shape}; 256 or 65536 counts along its last axis are needed"
        raise ValueError(f"counts: {shape}, so count without bins")
    reference = None if reference is None else library.borrow(reference, "reference")
    made, target = library.empty(lent.shape, "u8" if lent.shape[-1] == 256 else "u16")
    _histeqd.gpu_luts(lent, target, operation, reference, library.stream)
    return library.finished(made)


def apply(array, table, color, out, batch):
    """Send pictures through tables."""
    pictures = Pictures(array, batch, "array")
    pictures.check(color)
    library = pictures.library
    table = library.borrow(table, "lut")
    target, result = pictures.into(out)
    operation = _histeqd.Operation.equalize(None, color, 1000, None)
    _histeqd.gpu_apply(pictures, target, table, operation, library.stream)
    return library.finished(result)
