"""Byte for byte as OpenCV."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pictures import DTYPES, noise, pictures

import histeqd
import histeqd.cv2

# It has no wheel for free-threaded CPython.
cv2 = pytest.importorskip("cv2")

limits = st.one_of(st.just(0.0), st.floats(0.01, 200))
grids = st.tuples(st.integers(1, 9), st.integers(1, 9))


@given(pictures((None,), side=90), limits, grids)
def test_clahe(picture, limit, grid):
    expected = cv2.createCLAHE(limit, grid).apply(picture)
    np.testing.assert_array_equal(histeqd.clahe(picture, limit, grid), expected)
    np.testing.assert_array_equal(histeqd.cv2.createCLAHE(limit, grid).apply(picture), expected)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(512, 512), (601, 403)])
def test_clahe_of_larger_pictures(shape, dtype):
    picture = cv2.GaussianBlur(noise(shape, dtype), (9, 9), 3)
    expected = cv2.createCLAHE(clipLimit=3.0, tileGridSize=(8, 8)).apply(picture)
    np.testing.assert_array_equal(histeqd.clahe(picture, 3.0), expected)


@given(pictures((3,)), limits, grids)
def test_clahe_of_each_channel(picture, limit, grid):
    clahe = cv2.createCLAHE(limit, grid)
    expected = np.dstack([clahe.apply(np.ascontiguousarray(picture[..., c])) for c in range(3)])
    np.testing.assert_array_equal(histeqd.clahe(picture, limit, grid, color="per-channel"), expected)


@given(pictures((None,), side=90))
def test_equalize_hist_differs_by_one_level_at_most(picture):
    if picture.dtype == np.uint8:
        difference = histeqd.cv2.equalizeHist(picture).astype(int) - cv2.equalizeHist(picture)
        assert np.abs(difference).max() <= 1


def test_the_drop_in_has_the_settings_and_the_defaults_of_opencv():
    theirs, ours = cv2.createCLAHE(), histeqd.cv2.createCLAHE()
    picture = noise((50, 70), np.uint8)
    for _ in range(2):
        assert ours.getClipLimit() == theirs.getClipLimit()
        assert ours.getTilesGridSize() == theirs.getTilesGridSize()
        np.testing.assert_array_equal(ours.apply(picture), theirs.apply(picture))
        for clahe in (theirs, ours):
            clahe.setClipLimit(1.5)
            clahe.setTilesGridSize((3, 2))
            clahe.collectGarbage()


def test_where_the_result_of_the_drop_in_goes():
    picture = noise((50, 70), np.uint8)
    expected = histeqd.equalize(picture)
    fits = np.empty_like(picture)
    assert histeqd.cv2.equalizeHist(picture, fits) is fits
    np.testing.assert_array_equal(fits, expected)
    for other in (np.empty((5, 5), np.uint8), np.empty((50, 70), np.uint16)):
        np.testing.assert_array_equal(histeqd.cv2.equalizeHist(picture, other), expected)
    assert histeqd.cv2.createCLAHE().apply(picture, dst=picture) is picture
    assert histeqd.cv2.equalizeHist(picture[..., None]).shape == (50, 70, 1)
    for shape in [(5, 5, 3), (2, 5, 5)]:
        with pytest.raises(ValueError, match="src: has the shape .* use histeqd.equalize or histeqd.clahe"):
            histeqd.cv2.equalizeHist(np.zeros(shape, np.uint8))
