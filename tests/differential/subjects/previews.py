"""Previews in a report have the colours of the files, before and after, and are upright.

Files are made and read by Pillow and tifffile. Each picture has four fields of other colours; the mean of each field of a preview is compared with that of
the file, turned as its EXIF says, and with what is transparent on white.
"""

import base64
import html
import io
import re
from pathlib import Path

import numpy as np
import tifffile
from PIL import Image, ImageOps

from common import check, outputs

ORIENTATION = 0x112
# A preview is a JPEG of quality 80, and so are the means of its fields, away from their borders, that close.
MOST = 4
FLAGS = [
    "",
    "--preset photo",
    "--color gray",
    "--quality 40",
    "--method clahe --color hue --depth 8",
    "--format png --color per-channel --strength 0.5",
    "--together all",
]
FIELDS = [slice(1, 4), slice(6, 9)]


def colourful(width=900, height=620):
    """Four fields of colour with some texture."""
    y, x = np.mgrid[0:height, 0:width]
    fields = np.array([[(200, 40, 40), (40, 170, 60)], [(40, 60, 190), (200, 180, 60)]], float)
    picture = fields[y * 2 // height, x * 2 // width] + 20 * np.sin(x / 9)[..., None] + 15 * np.cos(y / 7)[..., None]
    return np.clip(picture, 0, 255).astype(np.uint8)


def write_all(folder):
    rgb, jpeg = Image.fromarray(colourful()), dict(quality=92)
    gray, palette, with_alpha = rgb.convert("L"), rgb.quantize(200), rgb.copy()
    with_alpha.putalpha(Image.fromarray(np.where(np.mgrid[0:620, 0:900][1] < 450, 255, 128).astype(np.uint8)))
    # A picture, the orientation that its EXIF names, and how it is saved.
    pictures = {
        **{f"turned-{orientation}.jpg": (rgb, orientation, jpeg) for orientation in range(1, 9)},
        "jpeg-444.jpg": (rgb, None, dict(subsampling=0, **jpeg)),
        "jpeg-422.jpg": (rgb, None, dict(subsampling=1, **jpeg)),
        "progressive.jpg": (rgb, 8, dict(progressive=True, **jpeg)),
        "cmyk.jpg": (rgb.convert("CMYK"), None, jpeg),
        "jpeg-gray.jpg": (gray, 6, jpeg),
        "small.jpg": (Image.fromarray(colourful(67, 45)), 5, jpeg),
        "png-rgb.png": (rgb, 6, {}),
        "png-palette.png": (palette, None, {}),
        "png-rgba.png": (with_alpha, None, {}),
        "png-gray.png": (gray, None, {}),
        "tiff-rgb.tif": (rgb, None, dict(compression="tiff_lzw", tiffinfo={ORIENTATION: 3})),
        "webp.webp": (rgb, 7, dict(lossless=True)),
        "bmp.bmp": (rgb, None, {}),
        "pnm.ppm": (rgb, None, {}),
        "gif.gif": (palette, None, {}),
        "jpeg-2000.jp2": (rgb, None, dict(irreversible=False)),
    }
    for name, (picture, orientation, how) in pictures.items():
        exif = Image.Exif()
        if orientation:
            exif[ORIENTATION] = orientation
            how = how | dict(exif=exif.tobytes())
        picture.save(folder / name, **how)
    tifffile.imwrite(folder / "sixteen.tif", colourful().astype(np.uint16) * 257, photometric="rgb")


def read(path):
    """The picture as people see it, in RGB; None of 16-bit gray, which viewers show from the least to the greatest, and of colours in PNG."""
    if path.name.startswith("sixteen"):
        samples = tifffile.imread(path) if path.suffix == ".tif" else np.empty(())
        return None if samples.ndim < 3 else samples if samples.dtype == np.uint8 else (samples // 257).astype(np.uint8)
    picture = ImageOps.exif_transpose(Image.open(path))
    if picture.has_transparency_data:
        picture = picture.convert("RGBA")
        picture = Image.alpha_composite(Image.new("RGBA", picture.size, "white"), picture)
    return np.asarray(picture.convert("RGB"))


def means(picture):
    """The means of the four fields, away from their borders."""
    part = [[slice(side.start * size // 10, side.stop * size // 10) for side in FIELDS] for size in picture.shape[:2]]
    return np.array([picture[rows, columns].mean((0, 1)) for rows in part[0] for columns in part[1]])


def previews(page):
    """The previews by the names of the inputs, each before and after."""
    found = {}
    for figure in re.findall(r"<figure>.*?</figure>", page, re.DOTALL):
        name = html.unescape(re.search(r'<b title="([^"]*)"', figure)[1])
        sides = re.findall(r'<img class="(before|after)"[^>]*base64,([^"]+)"', figure)
        found[Path(name).name] = {side: Image.open(io.BytesIO(base64.b64decode(data))) for side, data in sides}
    return found


def compare(what, path, preview):
    check(preview is not None, f"{what}: no preview")
    expected = read(path)
    if preview is None or expected is None:
        return
    check(preview.getexif().get(ORIENTATION, 1) == 1, f"{what}: it is turned twice")
    is_wide = expected.shape[1] > expected.shape[0]
    check(max(preview.size) <= 400 and (preview.width > preview.height) == is_wide, f"{what}: {preview.size} of {expected.shape}")
    off = np.abs(means(np.asarray(preview.convert("RGB"))) - means(expected)).max()
    check(off <= MOST, f"{what}: a mean is {off:.1f} off")


def check_all(place):
    (place / "in").mkdir()
    write_all(place / "in")
    for flags in FLAGS:
        done = outputs(place / "in", "--report", place / "report.html", *flags.split())
        shown = previews((place / "report.html").read_text())
        for source, output in done:
            for side, path in (("before", source), ("after", output)):
                compare(f"previews {flags}: {source.name}, {side}", path, shown.get(source.name, {}).get(side))
