"""Overviews are made as their definition in NumPy makes them of the next larger version: means of boxes, halves up.

Files are made by tifffile, and read by it and by GDAL (rasterio); COGs are made by GDAL, and judged by rio-cogeo.
"""

import numpy as np
import rasterio
import rasterio.shutil
import tifffile
from rasterio.transform import from_origin
from rio_cogeo.cogeo import cog_validate

from common import check, of_range, own, run, same, smaller

NO_DATA = 42113
SIZE, HALVES = (701, 903), [(351, 452), (176, 226), (88, 113)]
LZW = {"tile": (64, 64), "compression": "lzw", "predictor": True}
SLIDE = "Aperio Image Library v12.0.15\r\n1603x1301 [0,0 1603x1301] (240x240) JPEG/RGB Q=70|AppMag = 20|MPP = 0.499"


def cut(picture, rows, columns, value, channel=...):
    """A picture with a value in some of its pixels."""
    made = picture.copy()
    made[slice(*rows), slice(*columns), channel] = value
    return made


GRAY, DEEP, COLOURS = of_range(SIZE, np.uint8), of_range(SIZE, np.uint16), of_range((*SIZE, 3), np.uint8)
HOLES = cut(GRAY, (100, 400), (200, 601), 0)
FLOATS = cut(cut(of_range(SIZE, np.float32), (100, 200), (50, 101), np.nan), (0, 50), (0, 51), -9999)
STACK = [of_range((300, 400), np.uint16) // number for number in (1, 2, 3)]
CLASSES = np.random.default_rng(1).integers(0, 65536, (3, 256), np.uint16)
BELOW = dict(below=True)
# Names, pages, the sizes of their overviews, which are behind or below them, and how they are written.
TIFFS = [
    *((f"{picture.dtype} {picture.shape} {below}", [picture], HALVES, dict(below=below, **LZW))
      for picture in (GRAY, DEEP, COLOURS, of_range((*SIZE, 3), np.uint16)) for below in (False, True)),
    ("strips", [GRAY], [(350, 451), (175, 225)], dict(rowsperstrip=7, compression="deflate")),
    ("stored", [GRAY], HALVES, dict(tile=(64, 48))),
    ("factor 4, then none", [GRAY], [(175, 225), (101, 130)], BELOW | LZW),
    ("no whole factor", [GRAY], [(467, 602), (233, 301)], LZW),
    ("clahe", [GRAY], HALVES, dict(flags=["--method", "clahe"], **LZW)),
    ("no data", [HOLES], HALVES, dict(none=0, **LZW)),
    ("floats", [FLOATS], HALVES, dict(none=-9999, **LZW)),
    ("signed", [of_range(SIZE, np.int16)], HALVES, BELOW | LZW),
    ("long", [of_range(SIZE, np.uint32)], HALVES, dict(compression="deflate", **BELOW)),
    ("alpha", [cut(of_range((*SIZE, 4), np.uint8), (100, 400), (100, 333), 0, 3)], HALVES, dict(alpha=True, extrasamples=["unassalpha"], **LZW)),
    # Colours of classes are not mixed.
    ("palette", [GRAY], [(351, 452)], dict(photometric="palette", colormap=CLASSES, tile=(64, 64), compression="lzw")),
    *((f"stack, {how}", STACK, [(150, 200), (75, 100)], dict(tile=(64, 64), compression=how, **BELOW)) for how in (None, "lzw")),
]
COGS = [
    ("LZW", GRAY, None, dict(compress="LZW")),
    ("deflate", DEEP, None, dict(compress="DEFLATE", predictor="YES")),
    ("colours", COLOURS, None, dict(compress="LZW")),
    ("stored", GRAY, None, dict(compress="NONE")),
    ("no data", HOLES, 0, dict(compress="LZW")),
    ("floats", FLOATS, -9999, dict(compress="DEFLATE", predictor="YES")),
]


def ways(path, picture, *flags):
    """The outputs of a picture that is done as a whole, and in bands by one thread and by several."""
    memory = {"whole": []}
    if picture.dtype in (np.uint8, np.uint16):
        memory["bands"] = ["--memory", 2 * picture.nbytes, "--threads", 1]
        memory["threads"] = ["--memory", 7 * picture.nbytes // 2, "--threads", 3]
    for way, more in memory.items():
        run(path, "--out", path.parent / way, *more, *flags)
        yield way, path.parent / way / path.name


def check_levels(what, versions, none=None, alpha=False, classes=False):
    """Checks versions, each of which is made of the one before."""
    for base, overview in zip(versions, versions[1:]):
        expected = base[::2, ::2] if classes else smaller(base, overview.shape[:2], none, alpha)
        same(overview, expected, f"{what}: {overview.shape}")


def check_tiff(place, name, pages, sizes, below=False, none=None, alpha=False, flags=(), **how):
    """Checks a file whose pages have overviews."""
    tags = [] if none is None else [(NO_DATA, "s", 0, str(none), True)]
    how = {"photometric": "rgb" if pages[0].ndim == 3 else "minisblack", "metadata": None, "extratags": tags, **how}
    with tifffile.TiffWriter(place / "a.tif") as file:
        for page in pages:
            file.write(page, subifds=len(sizes) if below else None, **how)
            for size in sizes:
                file.write(np.zeros(size + page.shape[2:], page.dtype), subfiletype=1, **how)
    first = None
    for way, output in ways(place / "a.tif", np.stack(pages), *flags):
        what = f"{name}, {way}"
        with tifffile.TiffFile(output) as file:
            found = [file.pages[number] for number in range(len(file.pages))]
            versions = [[page, *page.pages] for page in found] if below else [found]
            check(len(versions) == len(pages), f"{what}: {len(found)} pages")
            for base, *made in versions:
                check([page.shape[:2] for page in made] == sizes, f"{what}: sizes")
                facts = [(page.compression, page.tilelength, page.tilewidth) for page in (base, *made)]
                check(all(page.is_reduced for page in made) and len(set(facts)) == 1, f"{what}: {facts}")
                check_levels(what, [page.asarray() for page in (base, *made)], none, alpha, "colormap" in how)
            pixels = np.stack([base.asarray() for base, *_ in versions])
        first = pixels if first is None else first
        same(pixels, first, f"{what}: not as in the first way")


def check_slide(place):
    """Checks a slide as Aperio's scanners write it: resolutions and a thumbnail that do not say what they are, and a label."""
    how = {"photometric": "rgb", "metadata": None, "compression": "jpeg"}
    tiles, strips = how | {"tile": (240, 240)}, how | {"rowsperstrip": 16}
    sizes, picture = [(208, 256), (325, 400), (81, 100)], of_range((1301, 1603, 3), np.uint8)
    with tifffile.TiffWriter(place / "a.svs.tif") as file:
        file.write(picture, description=SLIDE, **tiles)
        for size, how in zip(sizes, (strips, tiles, tiles)):
            file.write(np.zeros(size + (3,), np.uint8), description=SLIDE, **how)
        file.write(picture[:200, :180], subfiletype=1, description=f"{SLIDE}\r\nlabel 180x200", **strips)
        file.write(picture[:100, :300], subfiletype=9, description=f"{SLIDE}\r\nmacro 300x100", **strips)
    for way, output in ways(place / "a.svs.tif", picture):
        with tifffile.TiffFile(output) as file:
            pages = [file.pages[number] for number in range(len(file.pages))]
            check(pages[0].description == SLIDE and file.is_svs, f"slide, {way}: {pages[0].description}")
            check([page.shape[:2] for page in pages[1:]] == sizes and not any(page.is_reduced for page in pages), f"slide, {way}: sizes")
            check([page.is_tiled for page in pages] == [True, False, True, True], f"slide, {way}: tiles")
            check_levels(f"slide, {way}", sorted((page.asarray() for page in pages), key=lambda version: -version.size))
    with tifffile.TiffWriter(place / "other.tif") as file:
        file.write(picture, description=SLIDE, **tiles)
        file.write(np.zeros((300, 900, 3), np.uint8), **strips)
    told = run(place / "other.tif", "--out", place / "out", code=1)
    check("neither a smaller version" in told, told)


def check_cog(place, name, picture, none, how):
    """Checks that a COG stays a valid one."""
    bands = picture[None] if picture.ndim == 2 else np.moveaxis(picture, -1, 0)
    about = dict(count=len(bands), height=picture.shape[0], width=picture.shape[1], dtype=picture.dtype, nodata=none, crs="EPSG:32632")
    about |= dict(transform=from_origin(5e5, 5e6, 10, 10), photometric="RGB" if len(bands) == 3 else "MINISBLACK")
    with rasterio.open(place / "plain.tif", "w", driver="GTiff", **about) as file:
        file.write(bands)
    rasterio.shutil.copy(place / "plain.tif", place / "a.tif", driver="COG", blocksize=128, **how)
    check(cog_validate(place / "a.tif")[0], f"COG {name}: the input")
    for way, output in ways(place / "a.tif", picture):
        what = f"COG {name}, {way}"
        is_valid, errors, warnings = cog_validate(output, strict=True)
        check(is_valid and not errors and not warnings, f"{what}: {errors} {warnings}")
        opened = [rasterio.open(path) for path in (place / "a.tif", output)]
        facts = ((file.crs, file.transform, file.nodata, file.block_shapes, file.compression, file.overviews(1)) for file in opened)
        for one, other in zip(*facts):
            check(one == other, f"{what}: {other} instead of {one}")
        levels = range(len(opened[1].overviews(1)))
        check(len(levels) > 1, f"{what}: {levels} overviews")
        opened = [opened[1], *(rasterio.open(output, overview_level=level) for level in levels)]
        check_levels(what, [np.moveaxis(file.read(), 0, -1).squeeze() for file in opened], none)


def check_masked(place):
    """Checks that a picture in tiles, with its directory first and its mask's last, stays a valid COG with the same mask."""
    about = dict(count=1, height=SIZE[0], width=SIZE[1], dtype=DEEP.dtype, tiled=True, blockxsize=128, blockysize=128, compress="deflate")
    with rasterio.Env(GDAL_TIFF_INTERNAL_MASK=True), rasterio.open(place / "a.tif", "w", driver="GTiff", **about) as file:
        file.write(DEEP[None])
        file.write_mask(HOLES > 0)
    check(cog_validate(place / "a.tif")[0], "masked: the input")
    for way, output in ways(place / "a.tif", DEEP):
        is_valid, errors, _ = cog_validate(output)
        check(is_valid, f"masked, {way}: {errors}")
        with rasterio.open(output) as file:
            same(file.dataset_mask() > 0, HOLES > 0, f"masked, {way}: mask")


def check_all(place):
    check_masked(own(place))
    for name, pages, sizes, how in TIFFS:
        check_tiff(own(place), name, pages, sizes, **how)
    check_slide(own(place))
    for case in COGS:
        check_cog(own(place), *case)
