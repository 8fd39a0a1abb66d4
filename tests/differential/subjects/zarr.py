"""OME-Zarr images become what NumPy makes of them, as zarr-python reads them.

Images of every type and many ways to be stored are made by zarr-python, those of tests/data/zarr among them. Of each output the largest array is what the
definition makes of it, by channels, planes or volumes, the smaller ones are means of it, and all else is as it was. Whatever the memory, every file has
the same bytes.
"""

import copy
import filecmp
import json
import os

import numpy as np
from numcodecs import Blosc, Zlib
from zarr.codecs import BloscCodec, GzipCodec, TransposeCodec, ZstdCodec

import zarr_images as images
from common import ROOT, check, natural, run
from equalized import each, of_samples
from model import clahe_volume, table_stretch
from photo_model import clahe

METADATA = {"zarr.json", ".zarray", ".zattrs", ".zgroup"}
# What may say how channels are shown, in windows of their levels.
SHOWN = {"zarr.json", ".zattrs", ".zmetadata"}
RANGE = (-100.0, 5000.0)
# How 16-bit samples of five axes are stored.
STORED = {
    "v2-zlib-dots": dict(version="0.4", chunks=(1, 2, 1, 20, 24), compressors=Zlib(), chunk_key_encoding={"name": "v2", "separator": "."}),
    "v2-zstd-whole": dict(version="0.4", chunks=(2, 2, 5, 61, 83), compressors=Blosc(cname="zstd", clevel=5, shuffle=Blosc.SHUFFLE)),
    "v2-stored-big-endian": dict(version="0.4", chunks=(1, 1, 2, 61, 40), compressors=None),
    "v3-blosc": dict(chunks=(1, 1, 1, 32, 32), compressors=BloscCodec(cname="lz4", shuffle="bitshuffle")),
    "v3-gzip-turned": dict(chunks=(1, 1, 3, 16, 83), compressors=GzipCodec(), filters=[TransposeCodec(order=(4, 3, 2, 1, 0))]),
    "v3-shards-of-all": dict(chunks=(1, 1, 1, 16, 16), shards=(2, 2, 5, 64, 96), compressors=ZstdCodec()),
    "v3-stored-fill": dict(chunks=(2, 1, 1, 31, 31), compressors=None, fill_value=7),
}
# Flags, the axes of samples with one histogram, or of a volume, what becomes of those, and a memory other than 8 MiB in which it can be made.
RULES = [
    ("", "tzyx", of_samples),
    ("--together page", "yx", of_samples),
    ("--together file", "tczyx", of_samples),
    ("--method stretch", "tzyx", lambda samples: of_samples(samples, lambda counts: table_stretch(counts, 1750, 1750))),
]
SPREAD = [("--range -100..5000", "tzyx", lambda samples: of_samples(samples, limits=RANGE))]
ADAPTIVE = [
    ("--method clahe --tiles 4x4", "yx", lambda plane: clahe(plane, 65536, (4, 4), None, 0)),
    ("--method clahe --clip-limit 3 --tiles 4x3x2", "zyx", lambda volume: clahe_volume(volume, 3.0, 4, 3, 2), "40MiB"),
]


def cases(folder):
    """Images: paths, axes and rules."""
    for name, image in images.COMMITTED.items():
        os.symlink(ROOT / "tests/data/zarr" / name, folder / name)
        yield name, image["axes"], RULES
    sparse = natural((2, 1, 70, 90), "u1")
    sparse[:, :, 32:, :] = 0
    five, own, flat = natural((2, 2, 5, 61, 83), "u2"), natural((2, 2, 3, 61, 83), "u2"), dict(labels=False)
    of_type = dict(chunks=(2, 25, 47), compressors="auto")
    for name, base, axes, rules, how in (
        *((name, five.astype(">u2" if "endian" in name else "u2"), "tczyx", RULES, dict(levels=3, **how)) for name, how in STORED.items()),
        ("sparse", sparse, "czyx", RULES, dict(chunks=(1, 1, 32, 32), fill_value=0)),
        *((f"of-{dtype}", natural((3, 50, 47), dtype), "zyx", RULES, of_type) for dtype in ("u1", "i1", "i2")),
        *((f"of-{dtype}", natural((3, 50, 47), dtype), "zyx", SPREAD, of_type) for dtype in ("u4", "f4", "f8")),
        ("plane", natural((300, 411), "u2"), "yx", RULES, dict(levels=4, chunks=(64, 64), **flat)),
        ("one", natural((9, 8), "u1"), "yx", RULES, dict(levels=1, chunks=(9, 8), **flat)),
        *((f"clahe-{chunks[-1]}", own, "tczyx", ADAPTIVE, dict(chunks=chunks)) for chunks in ((1, 1, 1, 32, 32), (2, 2, 2, 64, 64))),
    ):
        images.write(folder / f"{name}.zarr", base, axes, **how)
        yield f"{name}.zarr", axes, rules


def files(folder):
    return {path.relative_to(folder): path for path in sorted(folder.rglob("*")) if path.is_file()}


def windows_of(document):
    """Takes the windows of channels out of a document or attributes, and returns both."""
    document, windows = copy.deepcopy(document), []
    for place in ((), ("ome",), ("attributes", "ome"), ("metadata", ".zattrs")):
        found = document
        for key in place:
            found = found.get(key, {})
        windows += [channel.pop("window", None) for channel in found.get("omero", {}).get("channels", [])]
    return document, windows


def compare(name, source, output, axes, together, function):
    before, arrays = images.read(source)
    after, found = images.read(output)
    (before, _), (after, windows) = windows_of(before), windows_of(after)
    check(before == after, f"{name}: attributes")
    for channel, window in enumerate(windows):
        shown = np.take(found[-1][...], channel, axes.index("c")) if "c" in axes else found[-1][...]
        shown = shown[np.isfinite(shown)]
        ends = [float(shown.min()), float(max(shown.max(), shown.min() + (shown.max() == shown.min())))]
        check([window["start"], window["end"]] == ends, f"{name}: window of channel {channel}: {window}, {ends}")
    expected = each(arrays[0][...], axes, set(axes) - set(together), function)
    for level, (array, own) in enumerate(zip(found, arrays)):
        expected = images.means(expected, array.shape) if level else expected
        check(array.metadata == own.metadata, f"{name}: metadata of array {level}")
        # Sums of floats depend on their order.
        is_near = level > 0 and expected.dtype == "f8"
        check((np.allclose if is_near else np.array_equal)(array[...], expected), f"{name}: samples of array {level}")
    kept, made = files(source), files(output)
    for path, file in kept.items():
        if path.parts[0] in {array.path for array in arrays} and path.name not in METADATA:
            continue
        if len(path.parts) == 1 and path.name in SHOWN and windows:
            told = [windows_of(json.loads(document.read_text()))[0] for document in (file, made[path])]
            check(told[0] == told[1], f"{name}: {path} says something else")
        else:
            check(path in made and filecmp.cmp(file, made[path], shallow=False), f"{name}: {path} is not as it was")
    check({path for path in made if path.name in METADATA} == {path for path in kept if path.name in METADATA}, f"{name}: files")


def check_all(place):
    for name, axes, rules in cases(place):
        for number, (flags, together, function, *least) in enumerate(rules):
            made = []
            for memory in ("", *(least or ["8MiB"])):
                out = place / f"{name}-{number}{memory}"
                run(place / name, "--out", out, "--threads", "2", *flags.split(), *(["--memory", memory] if memory else []))
                compare(f"{name} {flags} {memory}", place / name, out / name, axes, together, function)
                made.append({path: file.read_bytes() for path, file in files(out / name).items()})
            check(made[0] == made[1], f"{name} {flags}: the memory makes a difference")
