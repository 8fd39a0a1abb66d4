"""Makes OME-Zarr images with zarr-python, and reads them. Run by itself, it writes those of tests/data/zarr anew."""

import shutil
import numpy as np
import zarr
from numcodecs import Blosc
from zarr.codecs import ZstdCodec

from common import ROOT, natural, smaller

KINDS = {"t": "time", "c": "channel"}


def means(larger, shape):
    """The next smaller array of an image: its planes made smaller."""
    planes = larger.reshape(-1, *larger.shape[-2:])
    return np.stack([smaller(plane, shape[-2:]) for plane in planes]).reshape(shape)


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
    for number, shape in enumerate(shapes(base.shape, axes, levels)):
        data = means(data, shape) if number else base
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
    for name, image in COMMITTED.items():
        write(ROOT / "tests/data/zarr" / name, **image)
