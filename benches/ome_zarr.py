#!/usr/bin/env python3
"""Equalizes a large OME-Zarr image with histeqd and by dask the way scikit-image does, each in a process of its own: seconds and peak memory.

usage: ome_zarr.py FOLDER [--histeqd PROGRAM] [--planes 16] [--side 8192] [--memory 256MiB] [--runs 3]

The image has planes of 16 bits in chunks of 1024x1024 (blosc, lz4, bit-shuffled) and three resolutions. dask's way counts the chunks, makes
skimage.exposure.equalize_hist's table (np.interp over the cumulative distribution) and sends them through, twice the passes over the
chunks; equalize_hist itself needs all of the image in memory, as floats. Smaller resolutions are means on both sides.

needs: pip install "dask[array]" scikit-image zarr==3.1.6; GNU time
"""
import argparse, os, re, shutil, subprocess, sys, time
from pathlib import Path
import numpy as np

FACTORS = (1, 2, 4)
CHUNK = 1024


def make(path, planes, side):
    import zarr
    from zarr.codecs import BloscCodec

    axes = [{"name": name, "type": "space"} for name in "zyx"]
    datasets = [
        {"path": str(n), "coordinateTransformations": [{"type": "scale", "scale": [1.0, float(f), float(f)]}]}
        for n, f in enumerate(FACTORS)
    ]
    image = {"version": "0.5", "multiscales": [{"axes": axes, "datasets": datasets}]}
    group = zarr.create_group(path, attributes={"ome": image})
    storage = dict(chunks=(1, CHUNK, CHUNK), dtype="u2", compressors=BloscCodec(cname="lz4", shuffle="bitshuffle", typesize=2))
    arrays = [group.create_array(str(n), shape=(planes, side // f, side // f), **storage) for n, f in enumerate(FACTORS)]
    random = np.random.default_rng(3)
    across = np.sin(np.arange(side) / 90.0)
    for z in range(planes):
        plane = (900 + 700 * np.outer(across, across) + random.integers(0, 60, (side, side)) + 10 * z).astype("u2")
        for array, f in zip(arrays, FACTORS):
            array[z] = plane[::f, ::f]


def by_dask(source, target):
    """In a process of its own."""
    import dask, zarr
    import dask.array as da

    dask.config.set(scheduler="threads", num_workers=os.cpu_count())
    old = zarr.open_group(source, mode="r")
    shutil.copytree(source, target, ignore=lambda folder, names: ["c"] if Path(folder).parent == Path(source) else [])
    new = zarr.open_group(target, mode="r+")
    base = da.from_zarr(old["0"])
    counts, edges = da.histogram(base, bins=65536, range=(0, 65536))
    distribution = np.cumsum(counts.compute())
    distribution = distribution / distribution[-1]
    table = np.round(np.interp(np.arange(65536) + 0.5, (edges[:-1] + edges[1:]) / 2, distribution) * 65535).astype("u2")
    base.map_blocks(lambda block: table[block], dtype="u2").store(new["0"], lock=False)
    for n in range(1, len(FACTORS)):
        larger = da.from_zarr(new[str(n - 1)])
        smaller = da.coarsen(np.mean, larger, {1: 2, 2: 2})
        da.round(smaller).astype("u2").rechunk(new[str(n)].chunks).store(new[str(n)], lock=False)


def measured(command):
    """Seconds, seconds of processors, and the peak of memory in MiB."""
    began = time.monotonic()
    done = subprocess.run(["/usr/bin/time", "-v", *command], capture_output=True, text=True)
    if done.returncode:
        sys.exit(done.stderr)
    said = lambda what: float(re.search(rf"{re.escape(what)}: ([\d.]+)", done.stderr)[1])
    processors = said("User time (seconds)") + said("System time (seconds)")
    return time.monotonic() - began, processors, said("Maximum resident set size (kbytes)") / 1024


def main():
    words = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    words.add_argument("folder", type=Path)
    words.add_argument("--histeqd", default="target/release/histeqd")
    words.add_argument("--planes", type=int, default=16)
    words.add_argument("--side", type=int, default=8192)
    words.add_argument("--memory", default="256MiB")
    words.add_argument("--runs", type=int, default=3)
    words.add_argument("--dask", nargs=2, help=argparse.SUPPRESS)
    asked = words.parse_args()
    if asked.dask:
        return by_dask(*asked.dask)
    source, out = asked.folder / "image.zarr", asked.folder / "out"
    if not source.exists():
        make(source, asked.planes, asked.side)
    flags = f"--devices cpu --memory {asked.memory} --overwrite --quiet".split()
    ways = {
        "histeqd": [asked.histeqd, str(source), "--out", str(out), *flags],
        "dask": [sys.executable, __file__, str(asked.folder), "--dask", str(source), str(out / "image.zarr")],
    }
    found = {name: [] for name in ways}
    for _ in range(asked.runs):
        for name, command in ways.items():
            shutil.rmtree(out, ignore_errors=True)
            out.mkdir(parents=True)
            load = os.getloadavg()[0]
            found[name].append(measured(command))
            print(f"{name:8} {found[name][-1][0]:7.1f} s, load before it {load:.1f}", file=sys.stderr, flush=True)
    pixels = asked.planes * asked.side**2 / 1e6
    for name, runs in found.items():
        seconds, processors = (sorted(run[n] for run in runs)[len(runs) // 2] for n in (0, 1))
        peak = max(run[2] for run in runs)
        print(f"{name:8} {seconds:7.1f} s {processors:7.1f} s of processors {pixels / seconds:7.0f} MP/s   peak {peak:6.0f} MiB")


if __name__ == "__main__":
    main()
