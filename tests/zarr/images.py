"""Makes OME-Zarr images with zarr-python, and reads them. Run by itself, it writes those of tests/data/zarr anew."""

import os, shutil
import numpy as np
import zarr
from numcodecs import Blosc
from zarr.codecs import ZstdCodec

KINDS = {"t": "time", "c": "channel"}


def means(larger, shape):
    """Means of whole samples, halves up, of what is there at the end of an axis."""
    factors = [next(f for f in (n // m, n // m + 1) if f and m in (n // f, -(-n // f))) for n, m in zip(larger.shape, shape)]
    is_float = larger.dtype.kind == "f"
    total, count = larger.astype("f8" if is_float else "i8"), np.ones(larger.shape, "i8")
    for axis, (factor, length) in enumerate(zip(factors, shape)):
        kept = [slice(None)] * larger.ndim
        kept[axis] = slice(0, min(length * factor, total.shape[axis]))
        starts = np.arange(length) * factor
        total, count = (np.add.reduceat(part[tuple(kept)], starts, axis) for part in (total, count))
    return (total / count if is_float else (2 * total + count) // (2 * count)).astype(larger.dtype)


def shapes(base, axes, levels):
    """Shapes that are halved in y and x, alternately up and down."""
    all_ = [tuple(base)]
    for level in range(1, levels):
        halved = [-(-n // 2) if level % 2 else n // 2 for n in all_[-1][-2:]]
        all_.append((*all_[-1][:-2], *halved))
    return all_


def attributes(axes, levels, version):
    datasets = [
        {"path": f"s{n}", "coordinateTransformations": [{"type": "scale", "scale": [1.0] * (len(axes) - 2) + [0.5 * 2**n] * 2}]}
        for n in range(levels)
    ]
    spelled = [{"name": name, "type": KINDS.get(name, "space")} for name in axes]
    image = {"name": "nuclei", "axes": spelled, "datasets": datasets, "metadata": {"kept": "as it is"}}
    omero = {"channels": [{"label": "DAPI", "color": "0000FF", "window": {"start": 0, "end": 9}}]}
    if version == "0.4":
        return {"multiscales": [{**image, "version": version}], "omero": omero, "own": [1, 2]}
    return {"ome": {"version": version, "multiscales": [image], "omero": omero}, "own": [1, 2]}


def write(path, base, axes, levels=2, version="0.5", labels=True, **storage):
    """Writes an image whose largest array is `base`; `storage` is for zarr's create_array."""
    shutil.rmtree(path, ignore_errors=True)
    group = zarr.create_group(path, zarr_format=2 if version == "0.4" else 3, attributes=attributes(axes, levels, version))
    data = base
    for number, shape in enumerate(shapes(base.shape, axes, levels)):
        data = means(data, shape) if number else data
        write_array(group, f"s{number}", data, version, **storage)
    if labels:
        own = group.create_group("labels", attributes={"labels": ["cells"]})
        write_array(own, "cells", (base > base.mean()).astype("u1"), version, **storage)


def write_array(group, name, data, version, **storage):
    if version == "0.4":
        storage.setdefault("chunk_key_encoding", {"name": "v2", "separator": "/"})
    group.create_array(name, shape=data.shape, dtype=data.dtype, **storage)[...] = data


def read(path):
    """Returns the arrays of an image, the largest first, and the metadata of each."""
    group = zarr.open_group(path, mode="r")
    attributes = dict(group.attrs)
    image = attributes.get("ome", attributes)["multiscales"][0]
    arrays = [group[dataset["path"]] for dataset in image["datasets"]]
    return attributes, arrays


def natural(shape, dtype, seed=5):
    """Waves of a few thousand levels, other ones in each channel, and noise."""
    random = np.random.default_rng(seed)
    grid = np.indices(shape, sparse=True)
    waves = sum(np.sin(axis / (7 + number)) for number, axis in enumerate(grid))
    values = (waves - waves.min()) ** 2 * 90 + random.integers(0, 40, shape)
    most = np.iinfo(dtype).max if np.dtype(dtype).kind in "ui" else 1e9
    least = -400 if np.dtype(dtype).kind == "i" else 0
    return np.clip(values * (0.05 if np.dtype(dtype).itemsize == 1 else 1) + least, -most, most).astype(dtype)


# What the tests and the check have of both versions.
COMMITTED = {
    "v04-blosc.zarr": dict(
        base=natural((1, 2, 3, 40, 53), "u2"), axes="tczyx", version="0.4", chunks=(1, 1, 2, 32, 32),
        compressors=Blosc(cname="lz4", clevel=5, shuffle=Blosc.BITSHUFFLE),
    ),
    "v05-sharded.zarr": dict(
        base=natural((3, 2, 45, 70), "u1"), axes="czyx", chunks=(1, 1, 16, 16), shards=(1, 2, 32, 32),
        compressors=[ZstdCodec(level=3)],
    ),
}

if __name__ == "__main__":
    here = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../data/zarr")
    for name, image in COMMITTED.items():
        write(os.path.join(here, name), **image)
