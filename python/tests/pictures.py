"""Pictures to try things with."""

import numpy as np
from hypothesis import strategies as st

DTYPES = (np.uint8, np.uint16)


def noise(shape, dtype, seed=0, low=0, high=None):
    top = np.iinfo(dtype).max if high is None else high
    return np.random.default_rng(seed).integers(low, top, shape, dtype, endpoint=True)


@st.composite
def pictures(draw, channels=(None, 1, 2, 3, 4), side=40):
    """Pictures of few and many levels; some of their pixels are transparent."""
    dtype = draw(st.sampled_from(DTYPES))
    height, width = draw(st.integers(1, side)), draw(st.integers(1, side))
    number = draw(st.sampled_from(channels))
    top = np.iinfo(dtype).max
    low = draw(st.integers(0, top))
    high = draw(st.integers(low, top))
    picture = noise((height, width, number or 1), dtype, draw(st.integers(0, 2**32)), low, high)
    if number in (2, 4):
        picture[..., -1] *= noise((height, width), dtype, 1, 0, 1)
    return picture[..., 0] if number is None else picture


@st.composite
def views(draw, picture):
    """The same picture, lying in memory in some other way."""
    way = draw(st.sampled_from(["crop", "flip", "transposed", "planes", "steps"]))
    if way == "crop":
        wide = np.zeros((picture.shape[0] + 3, picture.shape[1] + 2, *picture.shape[2:]), picture.dtype)
        view = wide[1:-2, 2:]
    elif way == "flip":
        view = np.zeros_like(picture)[::-1, ::-1]
    elif way == "transposed":
        view = np.zeros(picture.swapaxes(0, 1).shape, picture.dtype).swapaxes(0, 1)
    elif way == "planes" and picture.ndim == 3:
        view = np.moveaxis(np.zeros((picture.shape[2], *picture.shape[:2]), picture.dtype), 0, 2)
    else:
        view = np.zeros((picture.shape[0] * 2, picture.shape[1] * 3, *picture.shape[2:]), picture.dtype)[::2, ::3]
    view[:] = picture
    return view
