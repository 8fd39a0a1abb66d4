"""What the package says about itself, and that it does what the command does."""

import doctest
import importlib.util
import importlib.resources
import inspect
import os
import pathlib
import re
import subprocess

import numpy as np
import pytest
from pictures import noise

import histeqd
import histeqd.cv2

COMMAND = os.environ.get("HISTEQD_COMMAND")


def test_examples_in_docstrings():
    for module in (histeqd, histeqd.cv2):
        result = doctest.testmod(module)
        assert result.attempted > 0 and result.failed == 0


def test_everything_public_says_what_it_does_and_has_types():
    assert importlib.resources.files(histeqd).joinpath("py.typed").is_file()
    for name in histeqd.__all__:
        function = getattr(histeqd, name)
        assert "Returns" in function.__doc__, name
        for parameter in inspect.signature(function).parameters.values():
            assert parameter.name in function.__doc__, (name, parameter)
            assert parameter.annotation is not inspect.Parameter.empty, (name, parameter)


@pytest.mark.skipif(not COMMAND, reason="HISTEQD_COMMAND does not name the program")
@pytest.mark.parametrize("dtype", [np.uint8, np.uint16])
@pytest.mark.parametrize(
    "method, flags",
    [
        (histeqd.equalize, []),
        (lambda a: histeqd.equalize(a, color="per-channel", strength=0.4), ["--color", "per-channel", "--strength", "0.4"]),
        (lambda a: histeqd.equalize(a, color="hue"), ["--color", "hue"]),
        (lambda a: histeqd.equalize(a, color="linked", plateau=0.4), ["--color", "linked", "--plateau", "0.4"]),
        (lambda a: histeqd.stretch(a, color="linked"), ["--method", "stretch", "--color", "linked"]),
        (
            lambda a: histeqd.clahe(a, tiles=(12, 12), exposure=0.8, noise=96, color="hue", strength=0.5),
            ["--preset", "photo"],
        ),
        (
            lambda a: histeqd.stretch(a, 2, 3, exposure=0.9, strength=0.3),
            ["--method", "stretch", "--clip-low", "2", "--clip-high", "3", "--exposure", "0.9", "--strength", "0.3"],
        ),
        (histeqd.stretch, ["--method", "stretch"]),
        (histeqd.clahe, ["--method", "clahe"]),
        (lambda a: histeqd.clahe(a, 5, (4, 3)), ["--method", "clahe", "--clip-limit", "5", "--tiles", "4x3"]),
    ],
)
def test_the_bytes_of_the_command(method, flags, dtype, tmp_path):
    picture = noise((90, 120, 3), dtype, high=np.iinfo(dtype).max // 3)
    top = np.iinfo(dtype).max
    wire = picture.astype(">u2" if dtype == np.uint16 else dtype).tobytes()
    (tmp_path / "in.ppm").write_bytes(b"P6\n120 90\n%d\n" % top + wire)
    out = tmp_path / "out.ppm"
    subprocess.run([COMMAND, tmp_path / "in.ppm", "--out", out, "--devices", "cpu", *flags], check=True, capture_output=True)
    samples = out.read_bytes()[-len(wire) :]
    result = np.frombuffer(samples, ">u2" if dtype == np.uint16 else dtype).reshape(picture.shape)
    np.testing.assert_array_equal(method(picture), result)


def has_cuda():
    try:
        import torch
    except ImportError:
        return False
    return torch.cuda.is_available()


def test_the_examples_of_the_documentation_run():
    page = pathlib.Path(__file__).parents[2] / "docs" / "python.md"
    blocks = re.findall(r"^```python\n(.*?)^```$", page.read_text(), re.MULTILINE | re.DOTALL)
    names = {}
    for block in blocks:
        others = [name for name in ("cv2", "albumentations") if re.search(rf"^import {name}$", block, re.MULTILINE)]
        if ("cuda" not in block or has_cuda()) and all(importlib.util.find_spec(name) for name in others):
            exec(block, names)
    assert names["counts"].shape == (65536,) and names["alike"].max() == 65535 and names["flat"].max() == 255
