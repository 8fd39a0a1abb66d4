#!/usr/bin/env python3
"""Checks what the program in $HISTEQD makes of OME-Zarr images against NumPy and zarr-python.

Images of every type and many ways to be stored are made by zarr-python, those of tests/data/zarr among them; of each output, as zarr-python reads it, the
largest array is what the definition in NumPy (python/tests/model.py) makes of it, by channels or planes, the smaller ones are means of it, and all
else is as it was. Whatever the memory, every file has the same bytes.

needs: pip install numpy zarr==3.1.6
"""
import copy, filecmp, hashlib, json, os, subprocess, sys, tempfile
from pathlib import Path
import numpy as np
from numcodecs import Blosc, Zlib
from zarr.codecs import BloscCodec, GzipCodec, TransposeCodec, ZstdCodec

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE / "../../python/tests")]
import images
from model import clahe_volume, table_equalize, table_match, table_stretch

HISTEQD = os.environ["HISTEQD"]
METADATA = {"zarr.json", ".zarray", ".zattrs", ".zgroup"}
# What may say how channels are shown, in windows of their levels.
SHOWN = {"zarr.json", ".zattrs", ".zmetadata"}
faults = []


def check(is_right, what):
    if not is_right:
        faults.append(what)
        print("FAIL", what)


def histeqd(flags, *inputs, out):
    command = [HISTEQD, *map(str, inputs), "--out", str(out), "--devices", "cpu", "--threads", "2", *flags.split()]
    return subprocess.run(command, capture_output=True, text=True)


def tables_of(group, rule, kind):
    """Sends samples that have one histogram through the table of their counts."""
    if kind == "i":
        least = np.iinfo(group.dtype).min
        levels = (group.astype("i8") - least).astype(f"u{group.dtype.itemsize}")
        return (tables_of(levels, rule, "u").astype("i8") + least).astype(group.dtype)
    if kind != "u" or group.dtype.itemsize > 2:
        low, high = (-100.0, 5000.0)
        clamped = np.clip(group.astype("f8"), low, high)
        levels = np.floor((clamped - low) / (high - low) * 65535 + 0.5).astype("u2")
        values = low + tables_of(levels, rule, "u").astype("f8") / 65535 * (high - low)
        return (np.floor(np.maximum(values, 0) + 0.5) if kind == "u" else values).astype(group.dtype)
    counts = np.bincount(group.ravel(), minlength=np.iinfo(group.dtype).max + 1)
    return np.asarray(rule(counts))[group].astype(group.dtype)


def enhanced(base, axes, by, rule):
    """The largest array, whose histograms are those of channels, of planes or of all."""
    out, kind = np.empty_like(base), base.dtype.kind
    if by == "file":
        return tables_of(base, rule, kind)
    if by == "channel":
        if "c" not in axes:
            return tables_of(base, rule, kind)
        axis = axes.index("c")
        for channel in range(base.shape[axis]):
            own = (slice(None),) * axis + (channel,)
            out[own] = tables_of(base[own], rule, kind)
        return out
    for plane in np.ndindex(base.shape[:-2]):
        out[plane] = tables_of(base[plane], rule, kind)
    return out


def clahe(folder, base, flags):
    """What histeqd makes of each plane by itself, as a PGM: that is OpenCV's CLAHE (tests/golden)."""
    planes = folder / "planes"
    planes.mkdir()
    for number, plane in enumerate(np.ndindex(base.shape[:-2])):
        head = f"P5\n{base.shape[-1]} {base.shape[-2]}\n{np.iinfo(base.dtype).max}\n"
        samples = base[plane].astype(base.dtype.newbyteorder(">")).tobytes()
        (planes / f"{number}.pgm").write_bytes(head.encode() + samples)
    ran = histeqd(flags, planes, out=folder / "pgm")
    check(ran.returncode == 0, f"planes: {ran.stderr}")
    bytes_ = base.shape[-1] * base.shape[-2] * base.dtype.itemsize
    made = [(folder / "pgm" / f"{number}.pgm").read_bytes()[-bytes_:] for number in range(int(np.prod(base.shape[:-2])))]
    return np.frombuffer(b"".join(made), base.dtype.newbyteorder(">")).reshape(base.shape).astype(base.dtype)


def check_clahe(folder):
    for name, chunks in (("clahe", (1, 1, 1, 32, 32)), ("clahe-whole", (2, 2, 2, 64, 64))):
        base = images.natural((2, 2, 3, 61, 83), "u2")
        images.write(folder / name, base, "tczyx", chunks=chunks)
        ran = histeqd("--method clahe --tiles 4x4", folder / name, out=folder / "adaptive")
        check(ran.returncode == 0, f"{name}: {ran.stderr}")
        _, arrays = images.read(folder / "adaptive" / name)
        with tempfile.TemporaryDirectory() as beside:
            check(np.array_equal(arrays[0][...], clahe(Path(beside), base, "--method clahe --tiles 4x4")), f"{name}: samples")
        ran = histeqd("--method clahe --clip-limit 3 --tiles 4x3x2", folder / name, out=folder / "volumes")
        check(ran.returncode == 0, f"{name}, volumes: {ran.stderr}")
        _, arrays = images.read(folder / "volumes" / name)
        volumes = np.stack([[clahe_volume(volume, 3.0, 4, 3, 2) for volume in channels] for channels in base])
        check(np.array_equal(arrays[0][...], volumes), f"{name}: volumes")


def files(folder):
    return {path.relative_to(folder): path for path in sorted(Path(folder).rglob("*")) if path.is_file()}


def windows_of(document):
    """Takes the windows of channels out of a document or attributes, and returns both."""
    document, windows = copy.deepcopy(document), []
    for place in ((), ("ome",), ("attributes", "ome"), ("metadata", ".zattrs")):
        found = document
        for key in place:
            found = found.get(key, {})
        windows += [channel.pop("window", None) for channel in found.get("omero", {}).get("channels", [])]
    return document, windows


def compare(name, source, output, axes, by, rule):
    before, arrays = images.read(source)
    after, found = images.read(output)
    (before, _), (after, windows) = windows_of(before), windows_of(after)
    check(before == after, f"{name}: attributes")
    for channel, window in enumerate(windows):
        shown = found[-1][...]
        shown = np.take(shown, channel, axes.index("c")) if "c" in axes else shown
        shown = shown[np.isfinite(shown)]
        ends = [float(shown.min()), float(max(shown.max(), shown.min() + (shown.max() == shown.min())))]
        check([window["start"], window["end"]] == ends, f"{name}: window of channel {channel}: {window}, {ends}")
    expected = enhanced(arrays[0][...], axes, by, rule)
    for level, (array, own) in enumerate(zip(found, arrays)):
        expected = images.means(expected, array.shape) if level else expected
        check(array.metadata == own.metadata, f"{name}: metadata of array {level}")
        # Sums of floats depend on their order.
        is_near = level > 0 and expected.dtype == "f8"
        same = (np.allclose if is_near else np.array_equal)(array[...], expected)
        check(same, f"{name}: samples of array {level}")
    kept, made = files(source), files(output)
    levels = [array.path for array in arrays]
    for path, file in kept.items():
        if path.parts[0] in levels and path.name not in METADATA:
            continue
        if len(path.parts) == 1 and path.name in SHOWN and windows:
            told = [windows_of(json.loads(document.read_text()))[0] for document in (file, made[path])]
            check(told[0] == told[1], f"{name}: {path} says something else")
            continue
        check(path in made and filecmp.cmp(file, made[path], shallow=False), f"{name}: {path} is not as it was")
    check({path for path in made if path.name in METADATA} == {path for path in kept if path.name in METADATA}, f"{name}: files")


def digest(folder):
    whole = hashlib.sha256()
    for path, file in files(folder).items():
        whole.update(str(path).encode() + b"\0" + file.read_bytes())
    return whole.hexdigest()


def shuffled(cname):
    return Blosc(cname=cname, clevel=5, shuffle=Blosc.SHUFFLE)


def cases(folder):
    """Images: names, paths, axes and flags."""
    for name, image in images.COMMITTED.items():
        yield name, HERE / "../data/zarr" / name, image["axes"], ""
    stored = {
        "v2-zlib-dots": dict(version="0.4", chunks=(1, 2, 1, 20, 24), compressors=Zlib(), chunk_key_encoding={"name": "v2", "separator": "."}),
        "v2-zstd-whole": dict(version="0.4", chunks=(2, 2, 5, 61, 83), compressors=shuffled("zstd")),
        "v2-stored-big-endian": dict(version="0.4", chunks=(1, 1, 2, 61, 40), compressors=None),
        "v3-blosc": dict(chunks=(1, 1, 1, 32, 32), compressors=BloscCodec(cname="lz4", shuffle="bitshuffle")),
        "v3-gzip-turned": dict(chunks=(1, 1, 3, 16, 83), compressors=GzipCodec(), filters=[TransposeCodec(order=(4, 3, 2, 1, 0))]),
        "v3-shards-of-all": dict(chunks=(1, 1, 1, 16, 16), shards=(2, 2, 5, 64, 96), compressors=ZstdCodec()),
        "v3-stored-fill": dict(chunks=(2, 1, 1, 31, 31), compressors=None, fill_value=7),
    }
    for name, storage in stored.items():
        base = images.natural((2, 2, 5, 61, 83), ">u2" if "endian" in name else "u2")
        images.write(folder / name, base, "tczyx", levels=3, **storage)
        yield name, folder / name, "tczyx", ""
    sparse = images.natural((2, 1, 70, 90), "u1")
    sparse[:, :, 32:, :] = 0
    images.write(folder / "sparse", sparse, "czyx", chunks=(1, 1, 32, 32), fill_value=0)
    yield "sparse", folder / "sparse", "czyx", ""
    for dtype in ("u1", "i1", "i2", "u4", "f4", "f8"):
        base = images.natural((3, 50, 47), dtype)
        images.write(folder / f"of-{dtype}", base, "zyx", chunks=(2, 25, 47), compressors="auto")
        yield f"of {dtype}", folder / f"of-{dtype}", "zyx", "--range -100..5000" if dtype in ("u4", "f4", "f8") else ""
    images.write(folder / "plane", images.natural((300, 411), "u2"), "yx", levels=4, chunks=(64, 64), labels=False)
    yield "plane", folder / "plane", "yx", ""
    images.write(folder / "one", images.natural((9, 8), "u1"), "yx", levels=1, chunks=(9, 8), labels=False)
    yield "one", folder / "one", "yx", ""


RULES = [
    ("", "channel", table_equalize),
    ("--together page", "page", table_equalize),
    ("--together file", "file", table_equalize),
    ("--method stretch", "channel", lambda counts: table_stretch(counts, 1750, 1750)),
]


def main():
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        check_clahe(folder)
        number = 0
        for name, path, axes, flags in cases(folder):
            source = folder / f"{path.name}.source.zarr"
            os.rename(path, source) if path.parent == folder else os.symlink(path, source)
            for rule_flags, by, rule in RULES:
                if "range" in flags and by != "channel":
                    continue
                digests = set()
                for memory in ("", "--memory 8MiB"):
                    number += 1
                    out = folder / f"out{number}"
                    flags_ = f"{flags} {rule_flags} {memory}"
                    ran = histeqd(flags_, source, out=out)
                    if ran.returncode:
                        check(False, f"{name} {flags_}: {ran.stderr.strip()}")
                        continue
                    output = out / source.name
                    compare(f"{name} {flags_}".strip(), source, output, axes, by, rule)
                    digests.add(digest(output))
                check(len(digests) == 1, f"{name} {rule_flags}: the memory makes a difference")
        print(f"{number} outputs compared, {len(faults)} faults")
    sys.exit(bool(faults))


if __name__ == "__main__":
    main()
