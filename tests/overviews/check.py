#!/usr/bin/env python3
"""Checks the overviews that the program in $HISTEQD makes against their definition in NumPy: mean of boxes, halves up.

Files are made by tifffile, and read by it and by GDAL (rasterio); COGs are made by GDAL, and judged by rio-cogeo.
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import rasterio
import rasterio.shutil
import tifffile
from rasterio.transform import from_origin
from rio_cogeo.cogeo import cog_validate

NO_DATA = 42113


def natural(height, width, samples, dtype):
    """A smooth picture with a little noise."""
    y, x = np.mgrid[0:height, 0:width]
    noise = np.random.default_rng(58).random((height, width)) / 10
    planes = [(np.sin(x / (17 + 5 * c)) + np.cos(y / (23 + c)) + 2) / 6 + noise for c in range(samples)]
    top = np.iinfo(dtype).max if np.issubdtype(dtype, np.integer) else 1.0
    return (np.stack(planes, -1) * top).astype(dtype).squeeze()


def edges(size, to, factor):
    """Where boxes begin, and where the last one ends."""
    starts = [n * factor if factor else n * size // to for n in range(to)]
    return starts, min(to * factor, size) if factor else size


def smaller(picture, to, none=None, alpha=False):
    """The overview of this size of the next larger version."""
    height, width = picture.shape[:2]
    data = picture.reshape(height, width, -1)
    is_integer = picture.dtype.kind in "iu"
    fits = lambda size, to, factor: to in (size // factor, -(-size // factor))
    factors = (f for f in range(1, 1025) if fits(height, to[0], f) and fits(width, to[1], f))
    factor = next(factors, None)
    (rows, bottom), (columns, right) = edges(height, to[0], factor), edges(width, to[1], factor)

    colours = data[..., :-1] if alpha else data
    counts = np.isfinite(colours).all(-1)
    if none is not None:
        is_none = colours == none
        counts &= ~(is_none.all(-1) if picture.dtype in (np.uint8, np.uint16) else is_none.any(-1))
    if alpha:
        counts &= data[..., -1] != 0

    def sums(values):
        return np.add.reduceat(np.add.reduceat(values[:bottom, :right], rows, 0), columns, 1)

    def mean(total, count):
        return (2 * total + count) // (2 * count) if is_integer else total / count

    wide = np.where(counts[..., None], data, 0).astype(np.int64 if is_integer else np.float64)
    count = sums(counts.astype(np.int64))[..., None]
    made = mean(sums(wide), np.maximum(count, 1)).astype(picture.dtype)
    if none is not None and is_integer:
        made[made == none] = none + 1 if none < np.iinfo(picture.dtype).max else none - 1
    made = np.where(count == 0, data[np.ix_(rows, columns)], made)
    if alpha:
        made[..., -1:] = mean(sums(data[..., -1:].astype(np.int64)), sums(np.ones((height, width, 1), np.int64)))
    return made.reshape(tuple(to) + picture.shape[2:])


def run(*arguments):
    done = subprocess.run([os.environ["HISTEQD"], *map(str, arguments)], capture_output=True, text=True)
    assert done.returncode == 0, f"{arguments}: {done.stdout}{done.stderr}"


def ways(picture):
    """Flags with which a picture is done as a whole, and in bands by one thread and by several."""
    yield "whole", []
    if picture.dtype in (np.uint8, np.uint16):
        yield "bands", ["--memory", 2 * picture.nbytes, "--threads", 1]
        yield "threads", ["--memory", 7 * picture.nbytes // 2, "--threads", 3]


def check_levels(name, base, made, none=None, alpha=False):
    for overview in made:
        expected = smaller(base, overview.shape[:2], none, alpha)
        assert np.array_equal(overview, expected, equal_nan=base.dtype.kind == "f"), f"{name}: {overview.shape}"
        base = overview


def check(name, picture, sizes, below=False, none=None, alpha=False, flags=(), **how):
    """Checks a file of a picture with overviews behind or below it."""
    tags = [] if none is None else [(NO_DATA, "s", 0, str(none), True)]
    how |= {"photometric": "rgb" if picture.ndim == 3 else "minisblack", "metadata": None, "extratags": tags}
    with tempfile.TemporaryDirectory() as place:
        place = Path(place)
        (place / "in").mkdir()
        with tifffile.TiffWriter(place / "in/a.tif") as file:
            file.write(picture, subifds=len(sizes) if below else None, **how)
            for size in sizes:
                file.write(np.zeros(size + picture.shape[2:], picture.dtype), subfiletype=1, **how)
        pictures = []
        for way, memory in ways(picture):
            run(place / "in", "--out", place / way, "--devices", "cpu", *memory, *flags)
            with tifffile.TiffFile(place / way / "a.tif") as file:
                base, *behind = [file.pages[n] for n in range(len(file.pages))]
                made = list(base.pages) if below else behind
                assert len(made) == len(sizes) and len(behind) == (0 if below else len(sizes)), f"{name}, {way}"
                assert [page.shape[:2] for page in made] == sizes, f"{name}, {way}"
                for page in made:
                    assert page.is_reduced and page.compression == base.compression, f"{name}, {way}"
                    assert (page.tilelength, page.tilewidth) == (base.tilelength, base.tilewidth), f"{name}, {way}"
                pictures.append(base.asarray())
                check_levels(f"{name}, {way}", base.asarray(), [page.asarray() for page in made], none, alpha)
        assert all(np.array_equal(pictures[0], other, equal_nan=True) for other in pictures), name
    print("ok", name)


def check_stack(compression):
    """Checks pages each of which has a pyramid."""
    how = {"tile": (64, 64), "metadata": None, "photometric": "minisblack", "compression": compression}
    with tempfile.TemporaryDirectory() as place:
        with tifffile.TiffWriter(f"{place}/a.tif") as file:
            for number in range(3):
                file.write(natural(300, 400, 1, np.uint16) // (number + 1), subifds=2, **how)
                for size in ((150, 200), (75, 100)):
                    file.write(np.zeros(size, np.uint16), subfiletype=1, **how)
        run(f"{place}/a.tif", "--out", f"{place}/out", "--devices", "cpu")
        with tifffile.TiffFile(f"{place}/out/a.tif") as file:
            assert len(file.pages) == 3
            for page in file.pages:
                assert len(page.pages) == 2
                check_levels("stack", page.asarray(), [overview.asarray() for overview in page.pages])
    print("ok stack", compression)


def check_palette():
    """Checks that colours of classes are not mixed."""
    labels = natural(500, 700, 1, np.uint8)
    colours = np.random.default_rng(1).integers(0, 65536, (3, 256), np.uint16)
    how = {"photometric": "palette", "colormap": colours, "tile": (64, 64), "metadata": None, "compression": "lzw"}
    with tempfile.TemporaryDirectory() as place:
        with tifffile.TiffWriter(f"{place}/a.tif") as file:
            file.write(labels, **how)
            file.write(np.zeros((250, 350), np.uint8), subfiletype=1, **how)
        for number, memory in enumerate(([], ["--memory", "2MiB", "--threads", "1"])):
            run(f"{place}/a.tif", "--out", f"{place}/{number}", "--devices", "cpu", *memory)
            with tifffile.TiffFile(f"{place}/{number}/a.tif") as file:
                assert np.array_equal(file.pages[1].asarray(), file.pages[0].asarray()[::2, ::2])
    print("ok palette")


def check_slide():
    """Checks a slide as Aperio's scanners write it: resolutions and a thumbnail that do not say what they are, and a label."""
    text = "Aperio Image Library v12.0.15\r\n1603x1301 [0,0 1603x1301] (240x240) JPEG/RGB Q=70|AppMag = 20|MPP = 0.499"
    how = {"photometric": "rgb", "metadata": None, "compression": "jpeg"}
    tiles, strips = how | {"tile": (240, 240)}, how | {"rowsperstrip": 16}
    sizes = [(208, 256), (325, 400), (81, 100)]
    with tempfile.TemporaryDirectory() as place:
        place = Path(place)
        (place / "in").mkdir()
        picture = natural(1301, 1603, 3, np.uint8)
        with tifffile.TiffWriter(place / "in/a.svs.tif") as file:
            file.write(picture, description=text, **tiles)
            file.write(np.zeros(sizes[0] + (3,), np.uint8), description=text, **strips)
            for size in sizes[1:]:
                file.write(np.zeros(size + (3,), np.uint8), description=text, **tiles)
            file.write(picture[:200, :180], subfiletype=1, description=f"{text}\r\nlabel 180x200", **strips)
            file.write(picture[:100, :300], subfiletype=9, description=f"{text}\r\nmacro 300x100", **strips)
        for way, memory in ways(picture):
            run(place / "in", "--out", place / way, "--devices", "cpu", *memory)
            with tifffile.TiffFile(place / way / "a.svs.tif") as file:
                assert file.pages[0].description == text and file.is_svs
                pages = [file.pages[n] for n in range(len(file.pages))]
                assert [page.shape[:2] for page in pages[1:]] == sizes and not any(page.is_reduced for page in pages)
                assert [page.is_tiled for page in pages] == [True, False, True, True]
                made = sorted((page.asarray() for page in pages), key=lambda version: -version.size)
            check_levels(f"slide, {way}", made[0], made[1:])
        with tifffile.TiffWriter(place / "other.tif") as file:
            file.write(picture, description=text, **tiles)
            file.write(np.zeros((300, 900, 3), np.uint8), **strips)
        done = subprocess.run([os.environ["HISTEQD"], place / "other.tif", "--out", place / "out"], capture_output=True, text=True)
        assert done.returncode == 1 and "neither a smaller version" in done.stderr, done.stderr
    print("ok slide")


def check_cog(name, picture, none=None, **how):
    """Checks that a COG stays a valid one."""
    bands = picture[None] if picture.ndim == 2 else np.moveaxis(picture, -1, 0)
    about = {"count": len(bands), "height": picture.shape[0], "width": picture.shape[1], "dtype": picture.dtype, "nodata": none}
    about |= {"crs": "EPSG:32632", "transform": from_origin(5e5, 5e6, 10, 10)}
    about["photometric"] = "RGB" if len(bands) == 3 else "MINISBLACK"
    with tempfile.TemporaryDirectory() as place:
        place = Path(place)
        with rasterio.open(place / "plain.tif", "w", driver="GTiff", **about) as file:
            file.write(bands)
        (place / "in").mkdir()
        rasterio.shutil.copy(place / "plain.tif", place / "in/a.tif", driver="COG", blocksize=128, **how)
        assert cog_validate(place / "in/a.tif")[0]
        for way, memory in ways(picture):
            run(place / "in", "--out", place / way, "--devices", "cpu", *memory)
            is_valid, errors, warnings = cog_validate(place / way / "a.tif", strict=True)
            assert is_valid and not errors and not warnings, f"{name}, {way}: {errors} {warnings}"
            with rasterio.open(place / "in/a.tif") as was, rasterio.open(place / way / "a.tif") as file:
                for fact in ("crs", "transform", "nodata", "block_shapes", "compression"):
                    assert getattr(was, fact) == getattr(file, fact), f"{name}, {way}: {fact}"
                levels = len(file.overviews(1))
                assert was.overviews(1) == file.overviews(1) and levels > 1, f"{name}, {way}"
            made = []
            for level in range(-1, levels):
                options = {} if level < 0 else {"OVERVIEW_LEVEL": level}
                with rasterio.open(place / way / "a.tif", **options) as file:
                    made.append(np.moveaxis(file.read(), 0, -1).squeeze())
            check_levels(f"{name}, {way}", made[0], made[1:], none)
    print("ok COG", name)


def main():
    size, halves = (701, 903), [(351, 452), (176, 226), (88, 113)]
    lzw = {"tile": (64, 64), "compression": "lzw", "predictor": True}
    for dtype in (np.uint8, np.uint16):
        for samples in (1, 3):
            for below in (False, True):
                check(f"{dtype.__name__} {samples} {below}", natural(*size, samples, dtype), halves, below, **lzw)
    gray = natural(*size, 1, np.uint8)
    check("strips", gray, [(350, 451), (175, 225)], rowsperstrip=7, compression="deflate")
    check("stored", gray, halves, tile=(64, 48))
    check("factor 4, then none", gray, [(175, 225), (101, 130)], True, **lzw)
    check("no whole factor", gray, [(467, 602), (233, 301)], **lzw)
    check("clahe", gray, halves, flags=("--method", "clahe"), **lzw)
    holes = gray.copy()
    holes[100:400, 200:601] = 0
    check("no data", holes, halves, none=0, **lzw)
    floats = natural(*size, 1, np.float32)
    floats[100:200, 50:101] = np.nan
    floats[0:50, 0:51] = -9999
    check("floats", floats, halves, none=-9999, **lzw)
    check("signed", (natural(*size, 1, np.uint16) // 2).astype(np.int16), halves, True, **lzw)
    check("long", natural(*size, 1, np.uint32), halves, True, compression="deflate")
    alpha = natural(*size, 4, np.uint8)
    alpha[100:400, 100:333, 3] = 0
    check("alpha", alpha, halves, alpha=True, extrasamples=["unassalpha"], **lzw)
    check_palette()
    check_slide()
    for compression in (None, "lzw"):
        check_stack(compression)
    check_cog("LZW", gray, compress="LZW")
    check_cog("deflate", natural(*size, 1, np.uint16), compress="DEFLATE", predictor="YES")
    check_cog("colours", natural(*size, 3, np.uint8), compress="LZW")
    check_cog("stored", gray, compress="NONE")
    check_cog("no data", holes, none=0, compress="LZW")
    check_cog("floats", floats, none=-9999, compress="DEFLATE", predictor="YES")


if __name__ == "__main__":
    sys.exit(main())
