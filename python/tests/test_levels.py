"""Samples of fewer levels than there is room for."""

import os
import subprocess

import model
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pictures import DTYPES, noise, views

import histeqd

COMMAND = os.environ.get("HISTEQD_COMMAND")
colors = st.sampled_from(["luma", "hue", "per-channel"])


@st.composite
def pictures_of_levels(draw, channels=(None, 1, 2, 3, 4)):
    """A picture, and how many levels its colours have; alpha has all."""
    dtype = draw(st.sampled_from(DTYPES))
    levels = draw(st.integers(2, 256) if dtype == np.uint8 else st.sampled_from([2, 200, 256, 999, 4096, 65535, 65536]))
    number = draw(st.sampled_from(channels))
    high = draw(st.integers(0, levels - 1))
    shape = (draw(st.integers(1, 40)), draw(st.integers(1, 40)), number or 1)
    picture = noise(shape, dtype, draw(st.integers(0, 99)), draw(st.integers(0, high)), high)
    if number in (2, 4):
        picture[..., -1] = noise(shape[:2], dtype, 1) * noise(shape[:2], dtype, 2, 0, 1)
    return (picture[..., 0] if number is None else picture), levels


@given(pictures_of_levels(), colors, st.integers(0, 1000), st.data())
def test_equalize(given, color, thousandths, data):
    picture, levels = given
    mask = noise(picture.shape[:2], np.uint8, data.draw(st.integers(0, 9)), 0, 1) != 0
    expected = model.through(picture, model.table_equalize, color, thousandths / 1000, mask, levels)
    picture = data.draw(views(picture))
    result = histeqd.equalize(picture, color=color, strength=thousandths / 1000, levels=levels, mask=mask)
    np.testing.assert_array_equal(result, expected)


@given(pictures_of_levels((None, 1, 3)), colors)
def test_stretch_and_match(given, color):
    picture, levels = given
    expected = model.through(picture, lambda c: model.table_stretch(c, 10_000, 25_000), color, number=levels)
    np.testing.assert_array_equal(histeqd.stretch(picture, 1, 2.5, color=color, levels=levels), expected)
    reference = noise((20, 30, *picture.shape[2:]), picture.dtype, 3, 0, levels // 2)
    tables = map(model.table_match, model.counts(picture, color, None, levels), model.counts(reference, color, None, levels))
    expected = model.send(picture, list(tables), color, levels)
    np.testing.assert_array_equal(histeqd.match(picture, reference, color=color, levels=levels), expected)


@given(pictures_of_levels(), colors, st.data())
def test_counts_tables_and_what_they_do_are_the_parts(given, color, data):
    picture, levels = given
    counts = histeqd.histogram(picture, color=color, levels=levels)
    assert counts.shape[-1] == levels
    np.testing.assert_array_equal(counts.reshape(-1, levels), model.counts(picture, color, None, levels))
    bins = data.draw(st.integers(1, levels))
    merged = np.stack([np.bincount(np.arange(levels) * bins // levels, c) for c in counts.reshape(-1, levels)])
    found = histeqd.histogram(picture, bins, color=color, levels=levels)
    np.testing.assert_array_equal(found.reshape(-1, bins), merged)
    table = histeqd.lut(counts, levels=levels)
    assert table.shape == counts.shape and table.dtype == (np.uint8 if levels <= 256 else np.uint16)
    if color == "per-channel" and picture.ndim == 3 and picture.shape[2] == 2:
        table = table[0]
    np.testing.assert_array_equal(
        histeqd.apply(picture, table, color=color, levels=levels), histeqd.equalize(picture, color=color, levels=levels)
    )


def test_tables_of_every_method():
    counts, reference = (histeqd.histogram(noise((40, 50), np.uint16, seed, 9, 900), levels=1000) for seed in (1, 2))
    stretched = histeqd.lut(counts, "stretch", low=1, high=2.5, levels=1000)
    np.testing.assert_array_equal(stretched, model.table_stretch(counts, 10_000, 25_000))
    np.testing.assert_array_equal(histeqd.lut(counts, "match", reference=reference, levels=1000), model.table_match(counts, reference))


@pytest.mark.parametrize("limit", ["auto", 0, 2.0, 7.5])
@pytest.mark.parametrize("shape", [(64, 80), (600, 1100), (64, 80, 3)])
def test_clahe_of_8_bits_in_16_is_that_of_8(limit, shape):
    eight = noise(shape, np.uint8, 4, 20, 200)
    sixteen = histeqd.clahe(eight.astype(np.uint16), limit, levels=256)
    np.testing.assert_array_equal(sixteen, histeqd.clahe(eight, limit))


def test_auto_goes_by_the_levels_that_occur_however_many_there_may_be():
    picture = noise((300, 400), np.uint16, 4, 1729, 2066)
    for levels in (4096, 65536):
        result = histeqd.clahe(picture, levels=levels)
        assert np.ptp(np.percentile(result, [1, 99])) > levels / 2
        np.testing.assert_array_equal(result, histeqd.clahe(picture, "auto", levels=levels))
        assert (result != histeqd.clahe(picture, 2, levels=levels)).any()


def test_all_levels_are_those_of_the_type():
    for dtype in DTYPES:
        picture = noise((30, 40, 3), dtype, 1, 0, 200)
        levels = model.levels(dtype)
        for method in (histeqd.equalize, histeqd.stretch, histeqd.clahe, histeqd.histogram):
            np.testing.assert_array_equal(method(picture, levels=levels), method(picture))


GRAY = noise((20, 30), np.uint16, 1, 0, 4096)
GRAY[3, 4] = 4096
ALPHA = np.stack([GRAY.clip(0, 4095), GRAY], axis=-1)


@pytest.mark.parametrize(
    "call, words",
    [
        (lambda: histeqd.equalize(GRAY, levels=4096), "array: sample 4096 is outside the stated range 0..4095; pass another number of levels, or leave it out"),
        (lambda: histeqd.stretch(GRAY[::-1, ::2], levels=300), "is outside the stated range 0..299"),
        (lambda: histeqd.clahe(GRAY, levels=4096), "array: sample 4096"),
        (lambda: histeqd.histogram(GRAY, levels=4096), "array: sample 4096"),
        (lambda: histeqd.histogram(ALPHA, levels=4096), "array: sample 4096"),
        (lambda: histeqd.match(GRAY.clip(0, 9), GRAY, levels=4096), "reference: sample 4096"),
        (lambda: histeqd.apply(GRAY, np.zeros(4096, np.uint16), levels=4096), "array: sample 4096"),
        (lambda: histeqd.equalize(GRAY, levels=1), "levels: is 1, not a whole number from 2 to 65536 or None"),
        (lambda: histeqd.equalize(np.zeros((3, 3), np.uint8), levels=257), "levels: is 257, not a whole number from 2 to 256 or None, for uint8"),
        (lambda: histeqd.histogram(GRAY, 4097, levels=4096), "bins: is 4097, not a whole number from 1 to 4096"),
        (lambda: histeqd.lut(np.ones(256, int), levels=4096), "counts: has the shape (256,); 4096 counts along its last axis are needed"),
        (lambda: histeqd.lut(np.ones(4096, int)), "256 or 65536 counts along its last axis are needed, so count without bins, and with the same levels"),
        (lambda: histeqd.apply(GRAY, np.zeros(65536, np.uint16), levels=4097), "lut: is uint16 of the shape (65536,); uint16 of (4097,) is needed"),
    ],
)
def test_errors(call, words):
    with pytest.raises(ValueError) as raised:
        call()
    assert words in str(raised.value)


def test_nothing_is_written_before_samples_are_found_to_be_too_high():
    before = GRAY.copy()
    for method in (histeqd.equalize, histeqd.clahe):
        with pytest.raises(ValueError):
            method(GRAY, levels=4096, out=GRAY)
        np.testing.assert_array_equal(GRAY, before)


def test_a_gpu_takes_all_levels_alone():
    class OnGpu:
        def __dlpack_device__(self):
            return (2, 0)

    for call in (histeqd.equalize, histeqd.clahe, histeqd.histogram, histeqd.lut):
        with pytest.raises(ValueError, match="^levels: is not for arrays in the memory of a GPU.* pass the array in the CPU's memory"):
            call(OnGpu(), levels=4096)
    for call in (histeqd.match, histeqd.apply):
        with pytest.raises(ValueError, match="^levels: is not for arrays"):
            call(OnGpu(), OnGpu(), levels=4096)


def test_alpha_may_be_above_the_levels():
    flat = histeqd.equalize(ALPHA, levels=4096)
    np.testing.assert_array_equal(flat[..., 1], ALPHA[..., 1])
    assert histeqd.histogram(ALPHA, color="luma", levels=4096).shape == (4096,)


def by_the_command(tmp_path, picture, *flags):
    """Return what the program makes of a picture with red, green and blue of 16 bits."""
    height, width, _ = picture.shape
    (tmp_path / "in.ppm").write_bytes(b"P6\n%d %d\n65535\n" % (width, height) + picture.astype(">u2").tobytes())
    out = tmp_path / "out.ppm"
    command = [COMMAND, tmp_path / "in.ppm", "--out", out, "--devices", "cpu", *flags]
    subprocess.run(command, check=True, capture_output=True)
    _, _, found = out.read_bytes().partition(b"\n%d %d\n" % (width, height))
    return np.frombuffer(found.split(b"\n", 1)[1], ">u2").reshape(picture.shape)


@pytest.mark.skipif(not COMMAND, reason="HISTEQD_COMMAND does not name the program")
@pytest.mark.parametrize("shift", [1, 4, 6, 8])
@pytest.mark.parametrize("color", ["luma", "hue", "per-channel"])
def test_the_command_takes_levels_from_the_upper_bits(shift, color, tmp_path):
    levels = 65536 >> shift
    picture = noise((90, 120, 3), np.uint16, 5, 0, levels - 1)
    expected = model.through(picture, model.table_equalize, color, 1, None, levels) << shift
    for flags in (["--levels", "auto"], ["--shift", str(shift)]):
        found = by_the_command(tmp_path, picture << shift, "--color", color, *flags)
        np.testing.assert_array_equal(found, expected)


@pytest.mark.skipif(not COMMAND, reason="HISTEQD_COMMAND does not name the program")
@pytest.mark.parametrize(
    "method, flags",
    [(histeqd.equalize, []), (histeqd.clahe, ["--method", "clahe"]), (histeqd.stretch, ["--method", "stretch"])],
)
def test_the_bytes_of_the_command(method, flags, tmp_path):
    picture = noise((90, 120, 3), np.uint16, 5, 100, 3000)
    found = by_the_command(tmp_path, picture, "--levels", "4096", *flags)
    np.testing.assert_array_equal(method(picture, levels=4096), found)
