from typing import Optional

import numpy as np
from numpy.typing import NDArray

from ._gpu import Pictures

__version__: str

class Operation:
    @staticmethod
    def equalize(plateau: Optional[int], color: str, strength: int, levels: Optional[int]) -> Operation: ...
    @staticmethod
    def stretch(low: int, high: int, color: str, strength: int, levels: Optional[int]) -> Operation: ...
    @staticmethod
    def match(color: str, strength: int, levels: Optional[int]) -> Operation: ...
    @staticmethod
    def clahe(
        clip_limit: Optional[float],
        grid: tuple[int, int, Optional[int]],
        side: Optional[int],
        noise: int,
        color: str,
        strength: int,
        levels: Optional[int],
    ) -> Operation: ...
    def exposed(self, share: int, low: int, high: int) -> Operation: ...

def equalize_pictures(
    source: Optional[NDArray[np.integer]],
    out: NDArray[np.integer],
    operation: Operation,
    mask: Optional[NDArray[np.uint8]],
    reference: Optional[NDArray[np.uint64]],
    threads: int,
) -> None: ...
def histograms(
    array: NDArray[np.integer],
    name: str,
    mask: Optional[NDArray[np.uint8]],
    color: Optional[str],
    levels: Optional[int],
    threads: int,
) -> NDArray[np.uint64]: ...
def luts(
    counts: NDArray[np.uint64], operation: Operation, reference: Optional[NDArray[np.uint64]]
) -> NDArray[np.integer]: ...
def apply_luts(
    source: Optional[NDArray[np.integer]],
    out: NDArray[np.integer],
    luts: NDArray[np.integer],
    operation: Operation,
    threads: int,
) -> None: ...

class Borrowed:
    def __init__(self, capsule: object) -> None: ...
    @property
    def device(self) -> int: ...
    @property
    def shape(self) -> tuple[int, ...]: ...
    @property
    def ndim(self) -> int: ...
    @property
    def dtype(self) -> str: ...

class Exported:
    def __dlpack__(
        self,
        *,
        stream: Optional[int] = None,
        max_version: Optional[tuple[int, int]] = None,
        dl_device: Optional[tuple[int, int]] = None,
        copy: Optional[bool] = None,
    ) -> object: ...
    def __dlpack_device__(self) -> tuple[int, int]: ...

def gpu_equalize(
    array: Pictures,
    out: Borrowed,
    operation: Operation,
    mask: Optional[Borrowed],
    reference: Optional[Pictures],
    stream: int,
) -> None: ...
def gpu_histograms(
    array: Pictures,
    out: Borrowed,
    mask: Optional[Borrowed],
    color: Optional[str],
    bins: int,
    stream: int,
) -> None: ...
def gpu_luts(
    counts: Borrowed, out: Borrowed, operation: Operation, reference: Optional[Borrowed], stream: int
) -> None: ...
def gpu_apply(
    array: Pictures, out: Borrowed, luts: Borrowed, operation: Operation, stream: int
) -> None: ...
def gpu_empty(device: int, stream: int, shape: list[int], dtype: str) -> Exported: ...
