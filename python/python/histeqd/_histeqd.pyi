from typing import Optional

import numpy as np
from numpy.typing import NDArray

__version__: str

class Operation:
    @staticmethod
    def equalize(per_channel: bool, strength: int) -> Operation: ...
    @staticmethod
    def stretch(low: int, high: int, per_channel: bool, strength: int) -> Operation: ...
    @staticmethod
    def match(per_channel: bool, strength: int) -> Operation: ...
    @staticmethod
    def clahe(
        clip_limit: Optional[float], grid: tuple[int, int], side: Optional[int], per_channel: bool, strength: int
    ) -> Operation: ...

def equalize_pictures(
    source: Optional[NDArray[np.integer]],
    out: NDArray[np.integer],
    operation: Operation,
    mask: Optional[NDArray[np.uint8]],
    reference: Optional[NDArray[np.uint64]],
    threads: int,
) -> None: ...
def histograms(
    array: NDArray[np.integer], mask: Optional[NDArray[np.uint8]], per_channel: Optional[bool], threads: int
) -> NDArray[np.uint64]: ...
def luts(
    counts: NDArray[np.uint64], operation: Operation, reference: Optional[NDArray[np.uint64]]
) -> NDArray[np.integer]: ...
def apply_luts(
    source: Optional[NDArray[np.integer]],
    out: NDArray[np.integer],
    luts: NDArray[np.integer],
    per_channel: bool,
    threads: int,
) -> None: ...
