"""The same bytes as the models."""

import pathlib
import shutil
import subprocess

import model
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pictures import DTYPES, noise, pictures

import histeqd

colors = st.sampled_from(["luma", "hue", "per-channel", "linked"])
colors_of_tiles = st.sampled_from(["luma", "hue", "per-channel"])
strengths = st.integers(0, 1000).map(lambda thousandths: thousandths / 1000)


@given(pictures(), colors, strengths)
def test_equalize(picture, color, strength):
    before = picture.copy()
    result = histeqd.equalize(picture, color=color, strength=strength)
    np.testing.assert_array_equal(result, model.through(picture, model.table_equalize, color, strength))
    np.testing.assert_array_equal(picture, before)
    assert result.dtype == picture.dtype


@given(pictures(), colors, strengths, st.integers(1, 999_999))
def test_plateau(picture, color, strength, share):
    result = histeqd.equalize(picture, plateau=share / 10_000, color=color, strength=strength)
    rule = lambda counts: model.table_plateau(counts, share)
    np.testing.assert_array_equal(result, model.through(picture, rule, color, strength))
    counts = histeqd.histogram(picture, color=color)
    table = histeqd.lut(counts, plateau=share / 10_000, strength=strength)
    np.testing.assert_array_equal(histeqd.apply(picture, table, color=color), result)


@given(pictures(), st.data())
def test_mask(picture, data):
    mask = noise(picture.shape[:2], np.uint8, data.draw(st.integers(0, 99)), 0, 1) != 0
    color = data.draw(colors)
    expected = model.through(picture, model.table_equalize, color, mask=mask)
    np.testing.assert_array_equal(histeqd.equalize(picture, color=color, mask=mask), expected)
    np.testing.assert_array_equal(histeqd.equalize(picture, color=color, mask=mask[::-1][::-1]), expected)
    counts = histeqd.histogram(picture, color=color, mask=mask)
    np.testing.assert_array_equal(counts.reshape(-1, counts.shape[-1]), model.counts(picture, color, mask))


@given(pictures((None, 1, 3)), colors, st.integers(0, 99_999), st.integers(0, 99_999))
def test_stretch(picture, color, low, high):
    expected = model.through(picture, lambda counts: model.table_stretch(counts, low, high), color)
    result = histeqd.stretch(picture, low / 10_000, high / 10_000, color=color)
    np.testing.assert_array_equal(result, expected)


@given(pictures((None, 1, 3)), colors, st.integers(0, 99))
def test_match(picture, color, seed):
    reference = noise((20, 30, *picture.shape[2:]), picture.dtype, seed, 0, 200)
    tables = map(model.table_match, model.counts(picture, color), model.counts(reference, color))
    expected = model.send(picture, list(tables), color)
    np.testing.assert_array_equal(histeqd.match(picture, reference, color=color), expected)


def test_match_takes_the_luma_of_a_reference_and_all_of_a_batch():
    gray, colour = noise((30, 40), np.uint8), noise((20, 20, 3), np.uint8, 1, 9, 99)
    luma = model.luma(colour).astype(np.uint8)
    np.testing.assert_array_equal(histeqd.match(gray, colour), histeqd.match(gray, luma))
    halves = luma.reshape(2, 10, 20)
    np.testing.assert_array_equal(histeqd.match(gray, halves), histeqd.match(gray, luma))


@given(pictures(), st.data())
def test_histogram_is_that_of_numpy(picture, data):
    top = model.levels(picture.dtype)
    bins = 2 ** data.draw(st.integers(0, 8))
    seen = model.visible(picture)
    channels = picture[..., None] if picture.ndim == 2 else picture
    expected = []
    for channel in range(channels.shape[2]):
        alpha = picture.ndim == 3 and picture.shape[2] in (2, 4) and channel == picture.shape[2] - 1
        counted = channels[..., channel].ravel() if alpha else channels[..., channel][seen]
        expected.append(np.histogram(counted, bins, (0, top))[0])
    result = histeqd.histogram(picture, bins)
    assert result.dtype == np.uint64
    np.testing.assert_array_equal(result, expected[0] if picture.ndim == 2 else expected)


@pytest.mark.skipif(not shutil.which("octave-cli"), reason="GNU Octave is not installed")
@pytest.mark.parametrize("dtype, bins", [(np.uint8, 256), (np.uint8, 16), (np.uint16, 1024)])
def test_histogram_is_that_of_the_published_matlab_way(dtype, bins, tmp_path):
    picture = noise((9, 14, 3), dtype, 5)
    (tmp_path / "samples").write_bytes(picture.tobytes())
    bits = 8 * picture.itemsize
    numbers = [str(number) for number in (*picture.shape, bits, bins)]
    folder = pathlib.Path(__file__).parents[2] / "tools" / "ladder" / "octave"
    command = ["octave-cli", "--no-gui", "--quiet", "run.m", tmp_path / "samples", *numbers, tmp_path / "counts"]
    subprocess.run(command, cwd=folder, check=True, capture_output=True)
    counts = np.loadtxt(tmp_path / "counts", delimiter=",").T
    np.testing.assert_array_equal(histeqd.histogram(picture, bins), counts)


def test_bins_that_do_not_divide_the_levels():
    gray = np.arange(256, dtype=np.uint8).reshape(16, 16)
    assert histeqd.histogram(gray, 3).tolist() == [86, 85, 85]
    for bins in range(1, 257):
        expected = np.bincount(np.arange(256) * bins // 256)
        np.testing.assert_array_equal(histeqd.histogram(gray, bins), expected)


@given(pictures((None, 3)), colors, strengths, strengths)
def test_the_parts_make_the_whole(picture, color, strength, exposure):
    table = histeqd.lut(histeqd.histogram(picture, color=color), strength=strength, exposure=exposure)
    assert table.dtype == picture.dtype
    np.testing.assert_array_equal(
        histeqd.apply(picture, table, color=color),
        histeqd.equalize(picture, color=color, strength=strength, exposure=exposure),
    )


@given(pictures((None,)), st.integers(1, 1000), strengths)
def test_exposure(picture, thousandths, strength):
    exposed = model.expose(picture, thousandths).astype(picture.dtype)
    np.testing.assert_array_equal(histeqd.equalize(picture, exposure=thousandths / 1000, strength=0), exposed)
    expected = model.part_of_the_way(exposed.astype(int), histeqd.clahe(exposed, tiles=(3, 2), noise=50), strength)
    result = histeqd.clahe(picture, tiles=(3, 2), noise=50, exposure=thousandths / 1000, strength=strength)
    np.testing.assert_array_equal(result, expected)


@pytest.mark.parametrize("dtype", DTYPES)
def test_tables_of_every_method(dtype):
    counts, reference = (histeqd.histogram(noise((40, 50, 3), dtype, seed, 9, 200)) for seed in (1, 2))
    np.testing.assert_array_equal(histeqd.lut(counts), [model.table_equalize(c) for c in counts])
    stretched = histeqd.lut(counts, "stretch", low=1, high=2.5)
    np.testing.assert_array_equal(stretched, [model.table_stretch(c, 10_000, 25_000) for c in counts])
    matched = histeqd.lut(counts, "match", reference=reference)
    np.testing.assert_array_equal(matched, [model.table_match(c, r) for c, r in zip(counts, reference)])


def test_one_table_for_each_channel():
    picture = noise((9, 9, 3), np.uint8)
    table = np.arange(255, -1, -1).astype(np.uint8)
    np.testing.assert_array_equal(histeqd.apply(picture, table, color="per-channel"), 255 - picture)


def test_auto_is_two_at_8_bit_and_reaches_the_top_at_16():
    eight = noise((64, 80), np.uint8)
    np.testing.assert_array_equal(histeqd.clahe(eight), histeqd.clahe(eight, 2.0))
    twelve = noise((640, 640), np.uint16, high=4095)
    assert histeqd.clahe(twelve).max() > 60_000 > histeqd.clahe(twelve, 2.0, (2, 2)).max()
    np.testing.assert_array_equal(histeqd.clahe(eight, tile_size=16), histeqd.clahe(eight, tiles=(5, 4)))


@given(st.tuples(*[st.integers(1, 12)] * 3), st.tuples(*[st.integers(1, 5)] * 3), st.sampled_from(DTYPES), st.floats(0, 9), st.integers(0, 99))
def test_volumes(shape, tiles, dtype, clip_limit, seed):
    volume = noise(shape, dtype, seed)
    expected = model.clahe_volume(volume, clip_limit, *tiles)
    found = histeqd.clahe(volume, clip_limit, tiles, batch=True)
    np.testing.assert_array_equal(found, expected)
    flipped = histeqd.clahe(volume[:, ::-1, ::-1][:, ::-1, ::-1], clip_limit, tiles, batch=True, out=np.zeros((*shape, 2), dtype)[..., 0])
    np.testing.assert_array_equal(flipped, expected)
    one = volume[:1]
    np.testing.assert_array_equal(
        histeqd.clahe(one, clip_limit, tiles, batch=True), histeqd.clahe(one, clip_limit, tiles[:2], batch=True)
    )


def test_a_volume_is_shared_by_threads_and_has_slices():
    volume = noise((40, 200, 300), np.uint16)
    found = histeqd.clahe(volume, 3.0, (8, 8, 4), threads=3)
    np.testing.assert_array_equal(found, histeqd.clahe(volume, 3.0, (8, 8, 4), threads=1))
    colours = noise((5, 30, 40, 3), np.uint8)
    assert histeqd.clahe(colours, 2.0, (2, 2, 2), color="hue").shape == colours.shape
    assert histeqd.clahe(volume[:0], 2.0, (2, 2, 2), batch=True).shape == (0, 200, 300)
    with pytest.raises(ValueError, match="tiles: three numbers are for a volume, NHW or NHWC"):
        histeqd.clahe(volume[0], 2.0, (8, 8, 4))
    with pytest.raises(TypeError, match="pass .8, 8., for example, or .8, 8, 4. for a volume"):
        histeqd.clahe(volume, 2.0, (8, 8, 4, 2))
