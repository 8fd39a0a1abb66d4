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


@given(pictures((None,), side=90), limits, grids, st.integers(0, 15))
def test_clahe_of_the_upper_bits(picture, limit, grid, shift):
    clahe, theirs = histeqd.cv2.createCLAHE(limit, grid), cv2.createCLAHE(limit, grid)
    if not hasattr(theirs, "setBitShift"):
        pytest.skip("OpenCV 5 has it")
    shift = min(shift, 8 * picture.dtype.itemsize - 1)
    clahe.setBitShift(shift)
    theirs.setBitShift(shift)
    assert clahe.getBitShift() == theirs.getBitShift() == shift
    given, expected = picture.copy(), theirs.apply(picture)
    np.testing.assert_array_equal(clahe.apply(picture), expected)
    np.testing.assert_array_equal(picture, given)
    assert clahe.apply(picture, picture) is picture
    np.testing.assert_array_equal(picture, expected)


def test_a_shift_has_to_leave_two_levels():
    clahe = histeqd.cv2.createCLAHE()
    clahe.setBitShift(8)
    with pytest.raises(ValueError, match="bitShift: is 8, which leaves uint8 fewer than two levels"):
        clahe.apply(noise((8, 8), np.uint8))
    with pytest.raises(ValueError, match="bitShift: is 16, not a whole number from 0 to 15"):
        clahe.setBitShift(16)


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


def in_lab(picture, change):
    """The recipe of most programs: only the first channel of L*a*b* changes."""
    lab = cv2.cvtColor(picture, cv2.COLOR_RGB2LAB)
    lab[..., 0] = change(np.ascontiguousarray(lab[..., 0]))
    return cv2.cvtColor(lab, cv2.COLOR_LAB2RGB)


@given(pictures((3,)), limits, grids)
def test_clahe_of_the_lightness(picture, limit, grid):
    if picture.dtype == np.uint8:
        expected = in_lab(picture, cv2.createCLAHE(limit, grid).apply)
        np.testing.assert_array_equal(histeqd.clahe(picture, limit, grid, color="lab"), expected)


def test_every_colour_gets_any_lightness_as_in_opencv():
    number = np.arange(1 << 24, dtype=np.uint32).reshape(4096, 4096)
    colours = np.stack([number >> 16, number >> 8, number], axis=-1).astype(np.uint8)
    for table in (np.arange(256, dtype=np.uint8), np.arange(256, dtype=np.uint8)[::-1].copy()):
        expected = in_lab(colours, lambda lightness: table[lightness])
        np.testing.assert_array_equal(histeqd.apply(colours, table, color="lab"), expected)
    counts = histeqd.histogram(colours, color="lab")
    np.testing.assert_array_equal(counts, np.bincount(cv2.cvtColor(colours, cv2.COLOR_RGB2LAB)[..., 0].ravel(), minlength=256))


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
