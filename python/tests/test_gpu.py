"""Tensors in the memory of a GPU: the bytes of the CPU, in the caller's stream, without a copy. Needs PyTorch and a CUDA GPU."""

import os
import time

import numpy as np
import pytest
from pictures import noise

import histeqd


def missing():
    """Why there is nothing to test with; None if there is."""
    try:
        import torch
    except ImportError:
        return "PyTorch is not installed"
    return None if torch.cuda.is_available() else "PyTorch finds no CUDA GPU"


REASON = missing()
if REASON and os.environ.get("HISTEQD_REQUIRE_CUDA") == "1":
    raise RuntimeError(f"HISTEQD_REQUIRE_CUDA=1, but {REASON}")
pytestmark = pytest.mark.skipif(REASON is not None, reason=f"NOT TESTED ON A GPU: {REASON}")
if REASON is None:
    import torch

DTYPES = (np.uint8, np.uint16)
# Sizes whose rows, pictures and packs of 16 bytes begin everywhere, and pictures of fewer pixels than a pack.
SHAPES = [
    (480, 640),
    (61, 1003),
    (3, 5),
    (1, 1),
    (2, 1),
    (301, 407, 1),
    (301, 407, 2),
    (301, 407, 3),
    (299, 401, 4),
    (64, 64, 3),
    (5, 128, 256),
    (7, 101, 203),
    (3, 33, 47, 2),
    (4, 120, 160, 3),
    (3, 101, 203, 3),
    (3, 101, 203, 4),
    (300, 9, 11),
]
METHODS = {
    "equalize": histeqd.equalize,
    "plateau": lambda array, **options: histeqd.equalize(array, plateau=0.3, **options),
    "half": lambda array, **options: histeqd.equalize(array, strength=0.5, **options),
    "stretch": lambda array, **options: histeqd.stretch(array, 1.5, 0.25, **options),
    "clahe": histeqd.clahe,
    "clahe 4": lambda array, **options: histeqd.clahe(array, 4.0, (3, 5), **options),
    "clahe weak": lambda array, **options: histeqd.clahe(array, tiles=(2, 2), strength=0.7, **options),
    "clahe fine": lambda array, **options: histeqd.clahe(array, 3.0, tile_size=8, **options),
    "exposed": lambda array, **options: histeqd.equalize(array, exposure=0.9, strength=0.6, **options),
    "plateau exposed": lambda array, **options: histeqd.equalize(array, plateau=0.3, exposure=1, **options),
    "stretch exposed": lambda array, **options: histeqd.stretch(array, 1.5, 0.25, exposure=0.7, strength=0.2, **options),
    "clahe exposed": lambda array, **options: histeqd.clahe(array, tiles=(3, 4), exposure=0.9, **options),
    "clahe photo": lambda array, **options: histeqd.clahe(array, tiles=(12, 12), exposure=0.8, noise=96, strength=0.5, **options),
    "clahe noise": lambda array, **options: histeqd.clahe(array, 1.0, tile_size=24, noise=40, **options),
}


def sample(shape, dtype, seed=0):
    """Noise over a gradient, some of it transparent where there is alpha."""
    top = np.iinfo(dtype).max
    array = noise(shape, dtype, seed, 0, top // 3)
    ramp = np.linspace(0, top // 3, shape[1] if len(shape) < 4 else shape[2]).astype(dtype)
    array += np.resize(ramp, shape[-2])[:, None] if len(shape) > 2 and shape[-1] <= 4 else np.resize(ramp, shape[-1])
    if len(shape) >= 3 and shape[-1] in (2, 4):
        array[..., -1] *= noise(shape[:-1], dtype, seed + 1, 0, 1)
    return array


def colors(shape, dtype, method="equalize"):
    """What can be equalized in such pictures."""
    if shape[-1] not in (3, 4):
        return ("luma",)
    linked = () if method.startswith("clahe") else ("linked",)
    return ("luma", "hue", "per-channel", *linked, *(("lab",) if dtype == np.uint8 else ()))


def up(array):
    return torch.from_numpy(array).cuda()


def down(tensor):
    return tensor.cpu().numpy()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("method", METHODS)
def test_the_bytes_are_those_of_the_cpu(method, shape, dtype):
    array = sample(shape, dtype)
    tensor = up(array)
    for color in colors(shape, dtype, method):
        expected = METHODS[method](array, color=color)
        result = METHODS[method](tensor, color=color)
        assert isinstance(result, torch.Tensor) and result.is_cuda
        np.testing.assert_array_equal(down(result), expected)
        np.testing.assert_array_equal(down(tensor), array)
        in_place = tensor.clone()
        assert METHODS[method](in_place, color=color, out=in_place) is in_place
        np.testing.assert_array_equal(down(in_place), expected)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(3, 1024, 1536), (2, 1030, 1533), (2048, 3000), (2, 700, 900, 3)], ids=str)
def test_large_pictures(shape, dtype):
    """Several parts a picture, tiles by cells, LUTs in shared memory."""
    array = sample(shape, dtype, 3)
    tensor = up(array)
    for method in METHODS:
        for color in colors(shape, dtype, method):
            expected = METHODS[method](array, color=color)
            np.testing.assert_array_equal(down(METHODS[method](tensor, color=color)), expected, method)


@pytest.mark.parametrize("dtype", DTYPES)
def test_few_levels(dtype):
    """One level, two, and the twelve bits of medical pictures."""
    shape = (3, 512, 512)
    constant = np.full(shape, 77, dtype)
    two = noise(shape, dtype, 1, 0, 1) * dtype(200)
    narrow = noise(shape, dtype, 2, 100, 100 + min(4095, np.iinfo(dtype).max - 100))
    mixed = np.concatenate([constant[:1], two[:1], narrow[:1], sample(shape, dtype)[:1]])
    for array in (constant, two, narrow, mixed):
        for method in METHODS:
            expected = METHODS[method](array)
            np.testing.assert_array_equal(down(METHODS[method](up(array))), expected, method)


def test_lab_is_for_all_levels_of_8_bits():
    array = sample((60, 70, 3), np.uint16)
    for made in (histeqd.equalize, histeqd.clahe, histeqd.histogram):
        with pytest.raises(ValueError, match='^color: "lab" is for uint8'):
            made(up(array), color="lab")
    gray = array[..., 0].copy()
    np.testing.assert_array_equal(down(histeqd.equalize(up(gray), color="lab")), histeqd.equalize(gray))


@pytest.mark.parametrize("dtype", DTYPES)
def test_many_small_pictures(dtype):
    array = sample((1000, 24, 31), dtype, 5)
    for method in ("equalize", "clahe"):
        np.testing.assert_array_equal(down(METHODS[method](up(array))), METHODS[method](array))


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_picture_beyond_shared_memory(dtype):
    array = sample((5000, 7001), dtype, 6)
    np.testing.assert_array_equal(down(histeqd.equalize(up(array))), histeqd.equalize(array))
    colour = sample((2, 3000, 2002, 3), dtype, 7)
    for color in colors(colour.shape, dtype):
        expected = histeqd.equalize(colour, color=color)
        np.testing.assert_array_equal(down(histeqd.equalize(up(colour), color=color)), expected)


@pytest.mark.parametrize("dtype", DTYPES)
def test_views(dtype):
    """Pictures that begin at odd places, and batches with others between them."""
    array = sample((9, 64, 67), dtype, 8)
    tensor = up(array)
    for view in (np.s_[1:], np.s_[::2], np.s_[3:4], np.s_[2], np.s_[0:0]):
        for method in ("equalize", "clahe", "stretch"):
            expected = METHODS[method](array[view], batch=None if array[view].ndim == 2 else True)
            result = METHODS[method](tensor[view], batch=None if array[view].ndim == 2 else True)
            np.testing.assert_array_equal(down(result), expected)
    rows = tensor[0][1:, :]  # begins at a multiple of 67 samples
    np.testing.assert_array_equal(down(histeqd.equalize(rows)), histeqd.equalize(array[0][1:, :]))


@pytest.mark.parametrize("dtype", DTYPES)
def test_out_with_another_alignment(dtype):
    array = sample((100, 64), dtype, 9)
    memory = torch.zeros(100 * 64 + 8, dtype=getattr(torch, np.dtype(dtype).name), device="cuda")
    for shift in (0, 1, 3):
        out = memory[shift : shift + 6400].view(100, 64)
        for method in ("equalize", "clahe"):
            METHODS[method](up(array), out=out)
            np.testing.assert_array_equal(down(out), METHODS[method](array))


@pytest.mark.parametrize("dtype", DTYPES)
def test_match(dtype):
    array, reference = sample((3, 90, 111, 3), dtype, 1), sample((2, 50, 60, 3), dtype, 2)
    for color in colors(array.shape, dtype):
        expected = histeqd.match(array, reference, color=color, strength=0.9)
        result = histeqd.match(up(array), up(reference), color=color, strength=0.9)
        np.testing.assert_array_equal(down(result), expected)
    gray = np.ascontiguousarray(reference[..., 0])
    for color in set(colors(array.shape, dtype)) - {"hue", "per-channel"}:
        for one, other in ((array, gray), (gray, array)):
            result = histeqd.match(up(one), up(other), color=color)
            np.testing.assert_array_equal(down(result), histeqd.match(one, other, color=color))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(4, 100, 130), (100, 130), (3, 60, 70, 3), (60, 70, 4)], ids=str)
def test_mask(shape, dtype):
    array = sample(shape, dtype)
    pixels = shape[:-1] if shape[-1] in (3, 4) else shape
    whole = noise(pixels, np.uint8, 1, 0, 1) != 0
    for mask in (whole, whole[0]) if len(pixels) == 3 else (whole,):
        for method in (histeqd.equalize, METHODS["plateau"], histeqd.stretch, histeqd.histogram):
            for color in colors(shape, dtype):
                result = method(up(array), mask=up(mask), color=color)
                expected = method(array, mask=mask, color=color).astype(result.cpu().numpy().dtype)
                np.testing.assert_array_equal(down(result), expected)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_histogram(shape, dtype):
    array = sample(shape, dtype)
    for color in (None, *colors(shape, dtype)):
        for bins in (None, 7, 64, 256):
            counts = histeqd.histogram(up(array), bins, color=color)
            assert counts.dtype == torch.int64
            np.testing.assert_array_equal(down(counts), histeqd.histogram(array, bins, color=color).astype(np.int64))


@pytest.mark.parametrize("dtype", DTYPES)
def test_one_table_for_a_series(dtype):
    array = sample((5, 60, 70, 3), dtype)
    for color in colors(array.shape, dtype):
        counts = histeqd.histogram(up(array), color=color).sum(dim=0)
        cpu_counts = histeqd.histogram(array, color=color).sum(axis=0)
        for options in ({}, {"plateau": 0.3}, {"method": "stretch", "low": 2.0}, {"method": "match"}):
            like, cpu_like = {}, {}
            if options.get("method") == "match":
                like, cpu_like = {"reference": counts.flip(-1)}, {"reference": cpu_counts[..., ::-1]}
            table = histeqd.lut(counts, **options, **like)
            cpu_table = histeqd.lut(cpu_counts, **options, **cpu_like)
            np.testing.assert_array_equal(down(table), cpu_table)
            result = histeqd.apply(up(array), table, color=color)
            np.testing.assert_array_equal(down(result), histeqd.apply(array, cpu_table, color=color))
    one = histeqd.lut(histeqd.histogram(up(array), color="luma").sum(dim=0))
    expected = histeqd.apply(array, down(one), color="per-channel")
    np.testing.assert_array_equal(down(histeqd.apply(up(array), one, color="per-channel")), expected)


def test_the_callers_stream_is_used_and_nothing_waits():
    tensor = up(sample((8, 1024, 1024), np.uint8))
    expected = histeqd.equalize(down(tensor))
    histeqd.equalize(tensor)
    torch.cuda.synchronize()
    for stream in (torch.cuda.current_stream(), torch.cuda.Stream()):
        with torch.cuda.stream(stream):
            late = torch.zeros_like(tensor)
            torch.cuda._sleep(400_000_000)
            late.copy_(tensor)
            start = time.perf_counter()
            result = histeqd.equalize(late)
            histeqd.clahe(late)
            histeqd.histogram(late)
            took = time.perf_counter() - start
            event = torch.cuda.Event()
            event.record()
            assert not event.query(), "the work is not behind what is in the stream"
            assert took < 0.1
        stream.synchronize()
        np.testing.assert_array_equal(down(result), expected)


def test_a_result_of_another_stream_can_be_used_at_once():
    import cupy

    array = cupy.asarray(sample((4, 512, 512), np.uint8))
    stream = cupy.cuda.Stream(non_blocking=True)
    cupy.cuda.Device().synchronize()
    with stream:
        result = histeqd.clahe(array)
        assert isinstance(result, cupy.ndarray)
        found = cupy.asnumpy(result)
    np.testing.assert_array_equal(found, histeqd.clahe(cupy.asnumpy(array)))
    counts = histeqd.histogram(array, 16)
    assert isinstance(counts, cupy.ndarray) and counts.dtype == np.int64


def test_jax():
    jax = pytest.importorskip("jax")
    try:
        device = jax.devices("cuda")[0]
    except RuntimeError:
        pytest.skip("JAX finds no CUDA GPU")
    for dtype in DTYPES:
        array = sample((3, 100, 120), dtype)
        lent = jax.device_put(array, device)
        for method in ("equalize", "clahe"):
            result = METHODS[method](lent)
            assert isinstance(result, jax.Array)
            np.testing.assert_array_equal(np.asarray(result), METHODS[method](array))


def test_any_dlpack():
    """A producer of which nothing is known but the protocol; the result has it too."""

    class Lent:
        def __init__(self, tensor):
            self.tensor = tensor

        def __dlpack__(self, *, stream):
            assert stream == 1
            return self.tensor.__dlpack__(stream=stream)

        def __dlpack_device__(self):
            return self.tensor.__dlpack_device__()

    array = sample((2, 80, 90), np.uint8)
    result = histeqd.equalize(Lent(up(array)))
    np.testing.assert_array_equal(down(torch.from_dlpack(result)), histeqd.equalize(array))
    for _ in range(3):
        del result
        result = histeqd.equalize(Lent(up(array)))


def test_errors_name_the_argument_and_the_remedy():
    tensor = up(sample((3, 64, 64), np.uint8))
    for call, error, text in [
        (lambda: histeqd.equalize(tensor.float()), TypeError, "array: has samples of another kind of 32"),
        (lambda: histeqd.equalize(tensor.transpose(1, 2)), ValueError, "array: its pictures have gaps"),
        (lambda: histeqd.equalize(tensor[:, :, ::2]), ValueError, r"pass array.contiguous\(\)"),
        (lambda: histeqd.equalize(tensor, out=tensor[:2]), ValueError, "out: is u8 of"),
        (lambda: histeqd.equalize(tensor[1:], out=tensor[:2]), ValueError, "out: overlaps array"),
        (lambda: histeqd.equalize(tensor, out=np.empty((3, 64, 64), np.uint8)), TypeError, "out: is not in the memory"),
        (lambda: histeqd.equalize(tensor, mask=tensor), TypeError, "mask: has the type u8"),
        (lambda: histeqd.equalize(tensor, mask=tensor[0, 0] > 3), ValueError, "mask: needs one value a pixel"),
        (lambda: histeqd.equalize(tensor[0, 0]), ValueError, "array: has the shape"),
        (lambda: histeqd.equalize(tensor[:, :0]), ValueError, "without pixels"),
        (lambda: histeqd.histogram(tensor, 300), ValueError, "bins: is 300"),
        (lambda: histeqd.lut(tensor), ValueError, "counts: "),
        (lambda: histeqd.apply(tensor, tensor[0, 0]), ValueError, "lut: is not of the type"),
        (lambda: histeqd.apply(tensor, np.arange(256, dtype=np.uint8)), TypeError, "lut: is not in the memory"),
    ]:
        with pytest.raises(error, match=text):
            call()
