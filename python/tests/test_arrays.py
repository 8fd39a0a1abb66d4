"""What is taken as pictures, where results go, and threads."""

import os
import sys
import sysconfig
import threading

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pictures import DTYPES, noise, pictures, views
from PIL import Image

import histeqd

METHODS = {
    "equalize": histeqd.equalize,
    "stretch": lambda array, **rest: histeqd.stretch(array, 1, 1, **rest),
    "clahe": lambda array, **rest: histeqd.clahe(array, 3.0, (3, 2), **rest),
    "apply": lambda array, **rest: histeqd.apply(array, table(array.dtype), **rest),
}


def table(dtype):
    top = np.iinfo(dtype).max
    return (top - np.arange(top + 1) // 3).astype(dtype)


@given(pictures(), st.data(), st.sampled_from(sorted(METHODS)))
def test_views_in_and_out(picture, data, name):
    method = METHODS[name]
    expected = method(picture)
    source = data.draw(views(picture))
    np.testing.assert_array_equal(method(source), expected)
    np.testing.assert_array_equal(source, picture)
    out = data.draw(views(np.zeros_like(picture)))
    assert method(source, out=out) is out
    np.testing.assert_array_equal(out, expected)
    np.testing.assert_array_equal(histeqd.histogram(source), histeqd.histogram(picture))
    assert method(source, out=source) is source
    np.testing.assert_array_equal(source, expected)


@pytest.mark.parametrize("name", sorted(METHODS))
def test_what_lies_beside_a_view_stays(name):
    whole = noise((60, 70, 3), np.uint8)
    before = whole.copy()
    crop = whole[10:40, 20:60]
    expected = METHODS[name](crop)
    METHODS[name](crop, out=crop)
    before[10:40, 20:60] = expected
    np.testing.assert_array_equal(whole, before)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("channels", [None, 1, 2, 3, 4])
@pytest.mark.parametrize("name", sorted(METHODS))
def test_a_batch_is_its_pictures_one_by_one(name, channels, dtype):
    # Large enough for several threads.
    batch = noise((7, 300, 410) + (() if channels is None else (channels,)), dtype, high=777 if dtype == np.uint16 else 99)
    expected = np.stack([METHODS[name](picture, threads=1) for picture in batch])
    for threads in (None, 1, 2, 3, 64):
        np.testing.assert_array_equal(METHODS[name](batch, threads=threads), expected)
        np.testing.assert_array_equal(
            histeqd.histogram(batch, threads=threads), [histeqd.histogram(picture, threads=1) for picture in batch]
        )
    METHODS[name](batch, out=batch)
    np.testing.assert_array_equal(batch, expected)


@pytest.mark.parametrize("shape", [(1531, 1201), (1531, 1201, 4), (2, 1100, 1100, 3), (1, 3_000_000), (3_000_000, 1)])
@pytest.mark.parametrize("dtype", DTYPES)
def test_the_threads_of_a_picture_do_not_show(shape, dtype):
    array = noise(shape, dtype, high=5000 if dtype == np.uint16 else 200)
    mask = noise(array.shape[:2] if len(shape) < 4 else shape[:3], np.uint8, 3, 0, 1) != 0
    expected = histeqd.equalize(array, threads=1), histeqd.equalize(array, threads=1, mask=mask)
    for threads in (2, 3, 7):
        np.testing.assert_array_equal(histeqd.equalize(array, threads=threads), expected[0])
        np.testing.assert_array_equal(histeqd.equalize(array, threads=threads, mask=mask), expected[1])
        np.testing.assert_array_equal(histeqd.histogram(array, threads=threads), histeqd.histogram(array, threads=1))
        copy = array.copy()
        histeqd.equalize(copy[::-1], out=copy[::-1], threads=threads)
        np.testing.assert_array_equal(copy, expected[0])


def test_a_mask_for_each_picture():
    batch, masks = noise((5, 40, 50), np.uint8), noise((5, 40, 50), np.uint8, 1, 0, 1) != 0
    expected = [histeqd.equalize(picture, mask=mask) for picture, mask in zip(batch, masks)]
    np.testing.assert_array_equal(histeqd.equalize(batch, mask=masks), expected)
    expected = [histeqd.equalize(picture, mask=masks[1]) for picture in batch]
    np.testing.assert_array_equal(histeqd.equalize(batch, mask=masks[1]), expected)


def test_how_three_axes_are_told_apart():
    array = noise((5, 6, 3), np.uint8)
    as_colour, as_batch = histeqd.equalize(array, batch=False), histeqd.equalize(array, batch=True)
    np.testing.assert_array_equal(histeqd.equalize(array), as_colour)
    np.testing.assert_array_equal(as_batch, np.stack([histeqd.equalize(picture) for picture in array]))
    assert (as_colour != as_batch).any()
    wide = noise((4, 6, 5), np.uint8)
    np.testing.assert_array_equal(histeqd.equalize(wide), histeqd.equalize(wide, batch=True))


@pytest.mark.parametrize(
    "shape, color, counts",
    [
        ((5, 6), None, (256,)),
        ((5, 6, 4), None, (4, 256)),
        ((5, 6, 4), "per-channel", (3, 256)),
        ((5, 6, 4), "luma", (256,)),
        ((5, 6, 1), None, (1, 256)),
        ((2, 5, 6), None, (2, 256)),
        ((2, 5, 6), "luma", (2, 256)),
        ((2, 5, 6, 3), None, (2, 3, 256)),
        ((2, 5, 6, 3), "luma", (2, 256)),
        ((0, 5, 6, 3), None, (0, 3, 256)),
    ],
)
def test_the_shape_of_counts(shape, color, counts):
    assert histeqd.histogram(np.zeros(shape, np.uint8), color=color).shape == counts


def test_an_empty_batch():
    assert histeqd.equalize(np.zeros((0, 5, 6, 3), np.uint8)).shape == (0, 5, 6, 3)
    assert histeqd.clahe(np.zeros((0, 5, 6), np.uint16)).shape == (0, 5, 6)


class Tensor:
    """What lends its memory through DLPack only."""

    def __init__(self, array, device=(1, 0)):
        self.array, self.device = array, device

    def __dlpack__(self, **rest):
        return self.array.__dlpack__(**rest)

    def __dlpack_device__(self):
        return self.device


def test_memory_of_others():
    picture = noise((20, 30), np.uint8)
    expected = histeqd.equalize(picture)
    memory = bytearray(picture.tobytes())
    lent = memoryview(memory).cast("B", (20, 30))
    np.testing.assert_array_equal(histeqd.equalize(lent), expected)
    np.testing.assert_array_equal(histeqd.equalize(Tensor(picture)), expected)
    histeqd.equalize(lent, out=lent)
    assert bytes(memory) == expected.tobytes()
    for shape, dtype in [((20, 30), np.uint8), ((20, 30), np.uint16), ((20, 30, 3), np.uint8), ((20, 30, 4), np.uint8)]:
        array = noise(shape, dtype)
        np.testing.assert_array_equal(histeqd.equalize(Image.fromarray(array)), histeqd.equalize(array))
    with pytest.raises(TypeError, match=r"array: is not in the CPU's memory; .*array\.cpu\(\)"):
        histeqd.equalize(Tensor(picture, (10, 0)))  # kDLROCM


def test_other_threads_run_meanwhile():
    # Half a second of work on little memory.
    batch = np.broadcast_to(noise((2000, 3000), np.uint8), (300, 2000, 3000))
    started, finished = threading.Event(), []

    def work():
        started.set()
        histeqd.histogram(batch, threads=1)
        finished.append(True)

    interval = sys.getswitchinterval()
    # So long that a thread that holds the interpreter keeps it.
    sys.setswitchinterval(100)
    try:
        thread = threading.Thread(target=work)
        thread.start()
        started.wait()
        assert not finished
    finally:
        sys.setswitchinterval(interval)
        thread.join()
    assert finished


def test_many_threads_at_once():
    pictures = [noise((100, 120), np.uint8, seed) for seed in range(16)]
    expected = [histeqd.clahe(picture) for picture in pictures]
    threads = [threading.Thread(target=histeqd.clahe, args=(p,), kwargs={"out": p}) for p in pictures]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    np.testing.assert_array_equal(pictures, expected)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning")
def test_threads_after_a_fork():
    picture = noise((2000, 3000), np.uint8)
    expected = histeqd.equalize(picture, threads=2)
    child = os.fork()
    if child == 0:
        os._exit(0 if (histeqd.equalize(picture, threads=2) == expected).all() else 1)
    assert os.waitpid(child, 0)[1] == 0


@pytest.mark.parametrize("dtype", (np.uint8, np.uint16))
@pytest.mark.parametrize("shape", [(1200, 1030), (900, 700, 3), (2, 1100, 900)], ids=str)
def test_threads_share_a_picture(shape, dtype):
    array = noise(shape, dtype)
    for method in (histeqd.clahe, lambda a, **options: histeqd.clahe(a, 3.0, (5, 7), **options), histeqd.equalize):
        expected = method(array, threads=1)
        for threads in (2, 3, 5):
            np.testing.assert_array_equal(method(array, threads=threads), expected)
            in_place = array.copy()
            method(in_place, out=in_place, threads=threads)
            np.testing.assert_array_equal(in_place, expected)
            wide = np.zeros((*shape[:-1], shape[-1] + 1), dtype)
            turned = array[..., ::-1, :] if len(shape) == 3 and shape[-1] == 3 else array
            method(turned, out=wide[..., :-1], threads=threads)
            np.testing.assert_array_equal(wide[..., :-1], method(turned.copy(), threads=1))


def test_calls_at_once_share_what_they_read():
    picture, batch = noise((300, 400, 3), np.uint16, 1, 9, 900), noise((20, 64, 64), np.uint8, 2)
    expected = [method(array) for method in METHODS.values() for array in (picture, batch)]
    wrong = []

    def work():
        for _ in range(5):
            found = [method(array) for method in METHODS.values() for array in (picture, batch)]
            wrong.extend(1 for one, other in zip(found, expected) if not np.array_equal(one, other))

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_one_array_is_written_by_one_call_at_a_time():
    shared = noise((1500, 1500), np.uint8, 1)
    refused, done = [], []

    def work():
        for _ in range(20):
            try:
                histeqd.equalize(shared, out=shared, threads=1)
                done.append(1)
            except ValueError as error:
                refused.append(str(error))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert done and all(text.startswith("out: is in use by another call") for text in refused)


@pytest.mark.skipif(not sysconfig.get_config_var("Py_GIL_DISABLED"), reason="this interpreter is not free-threaded")
def test_a_free_threaded_interpreter_stays_so():
    assert not sys._is_gil_enabled()
