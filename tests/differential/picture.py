"""Pictures as every reader gives them, and how they are compared."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np


@dataclass
class Picture:
    """Frames or pages of (height, width, channels): gray or red, green and blue; then alpha, if there is one; then channels that are neither."""

    frames: list
    colours: int
    alpha: bool = False

    @classmethod
    def of(cls, frames):
        """Frames of one to four channels, of which an even number has alpha."""
        frames = [frame.reshape(*frame.shape[:2], -1) for frame in frames]
        channels = frames[0].shape[2]
        return cls(frames, 3 if channels > 2 else 1, channels % 2 == 0)

    def is_levels(self):
        return all(frame.dtype in (np.uint8, np.uint16) for frame in self.frames)

    def opaque(self):
        """The frames without alpha and other channels."""
        return [frame[..., : self.colours] for frame in self.frames]

    @cached_property
    def shown(self):
        """Frames of levels as RGBA of 16 bits, zeros where they are transparent; of other samples as they are."""
        return [self.as_rgba(frame) for frame in self.frames] if self.is_levels() else self.opaque()

    def as_rgba(self, frame):
        frame = frame.astype(np.uint16) * (257 if frame.dtype == np.uint8 else 1)
        out = np.full((*frame.shape[:2], 4), 65535, np.uint16)
        out[..., :3] = frame[..., : self.colours]
        if self.alpha:
            out[..., 3] = frame[..., self.colours]
            out[out[..., 3] == 0] = 0
        return out


def to_whole_bytes(samples, bits):
    """Samples of 1 to 16 bits, spread over 8 or 16, halves up."""
    return samples if bits in (8, 16) else spread_over_bytes(samples, 2**bits - 1)


def spread_over_bytes(samples, most):
    all_ones = 255 if most <= 255 else 65535
    return ((2 * samples.astype(np.int64) * all_ones + most) // (2 * most)).astype(np.uint8 if most <= 255 else np.uint16)


def difference(one, other, tolerance=0):
    """What differs between two pictures, in words; None if nothing does."""
    # Samples are equal in less time than it takes to show them.
    types = [(picture.colours, picture.alpha, [frame.dtype for frame in picture.frames]) for picture in (one, other)]
    if types[0] == types[1] and all(map(np.array_equal, one.frames, other.frames)):
        return None
    one, other = one.shown, other.shown
    if len(one) != len(other):
        return f'{len(one)} and {len(other)} frames'
    for number, (a, b) in enumerate(zip(one, other)):
        if a.shape != b.shape:
            return f'frame {number} of {a.shape} and {b.shape}'
        if a.dtype.kind != b.dtype.kind:
            return f'frame {number} of {a.dtype} and {b.dtype}'
        if np.array_equal(a, b):
            continue
        a, b = a.astype(np.float64), b.astype(np.float64)
        apart = np.abs(a - b)
        differ = ~((apart <= tolerance) | (a == b) | (np.isnan(a) & np.isnan(b)))
        if differ.any():
            return f'frame {number}: {differ.any(-1).mean():.1%} of the pixels, by up to {np.nanmax(apart):g}'
    return None
