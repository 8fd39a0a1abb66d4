"""The programs in python/examples run."""

import os
import pathlib
import subprocess
import sys

import numpy as np
import pytest
from pictures import noise
from PIL import Image

import histeqd

EXAMPLES = pathlib.Path(__file__).parents[1] / "examples"


def run(name, *arguments):
    # Without a display, whatever the machine has.
    subprocess.run([sys.executable, EXAMPLES / name, *arguments], check=True, env={**os.environ, "MPLBACKEND": "Agg"})


def test_a_folder(tmp_path):
    pictures = {f"{name}.png": noise((40, 60, 3), np.uint8, name, 0, 99) for name in range(5)}
    source, target = tmp_path / "from", tmp_path / "to"
    source.mkdir()
    for name, picture in pictures.items():
        Image.fromarray(picture).save(source / name)
    run("folder.py", source, target)
    for name, picture in pictures.items():
        np.testing.assert_array_equal(np.asarray(Image.open(target / name)), histeqd.clahe(picture))


def test_before_and_after(tmp_path):
    Image.fromarray(noise((40, 60, 3), np.uint8, 1, 0, 99)).save(tmp_path / "in.png")
    run("before_after.py", tmp_path / "in.png", tmp_path / "plot.png")
    assert Image.open(tmp_path / "plot.png").width > 1000


def test_a_stack_of_dask(tmp_path):
    pytest.importorskip("dask.array")
    stack = noise((21, 40, 50), np.uint16, 1, 100, 900)
    np.save(tmp_path / "in.npy", stack)
    run("stack.py", tmp_path / "in.npy", tmp_path / "out.npy")
    table = histeqd.lut(histeqd.histogram(stack).sum(axis=0))
    np.testing.assert_array_equal(np.load(tmp_path / "out.npy"), histeqd.apply(stack, table))


def test_a_dataset_of_pytorch(tmp_path):
    pytest.importorskip("torch")
    for number in range(10):
        Image.fromarray(noise((40, 60, 3), np.uint8, number, 0, 99)).save(tmp_path / f"{number}.png")
    found = subprocess.run([sys.executable, EXAMPLES / "dataset.py", tmp_path], check=True, capture_output=True, text=True)
    assert found.stdout.splitlines() == ["(8, 256, 256, 3) torch.uint8", "(2, 256, 256, 3) torch.uint8"]
