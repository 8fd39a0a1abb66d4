#!/usr/bin/env python3
"""Checks that the previews in a report of $HISTEQD have the colours of the files, before and after, and are upright.

Files are made and read by Pillow and tifffile. Each picture has four fields of other colours; the mean of each field of a preview is compared with that of
the file, turned as its EXIF says, and with what is transparent on white.
needs: pip install numpy Pillow tifffile
"""

import base64
import html
import io
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import tifffile
from PIL import Image, ImageOps

HISTEQD = os.environ["HISTEQD"]
ORIENTATION = 0x112
# A preview is a JPEG of quality 80, and so are the means of its fields, away from their borders, that close.
MOST = 4
FLAGS = [
    [],
    ["--preset", "photo"],
    ["--color", "gray"],
    ["--quality", "40"],
    ["--method", "clahe", "--color", "hue", "--depth", "8"],
    ["--format", "png", "--color", "per-channel", "--strength", "0.5"],
    ["--together", "all"],
]


def colourful(width=900, height=620):
    """Four fields of colour with some texture."""
    y, x = np.mgrid[0:height, 0:width]
    fields = np.array([[(200, 40, 40), (40, 170, 60)], [(40, 60, 190), (200, 180, 60)]], float)
    picture = fields[y * 2 // height, x * 2 // width]
    picture += 20 * np.sin(x / 9)[..., None] + 15 * np.cos(y / 7)[..., None]
    return np.clip(picture, 0, 255).astype(np.uint8)


def exif(orientation):
    tags = Image.Exif()
    tags[ORIENTATION] = orientation
    return tags.tobytes()


def write_all(folder):
    rgb = Image.fromarray(colourful())
    gray = rgb.convert("L")
    for orientation in range(1, 9):
        turned = {"exif": exif(orientation)}
        rgb.save(folder / f"turned-{orientation}.jpg", quality=92, **turned)
    rgb.save(folder / "jpeg-444.jpg", quality=92, subsampling=0)
    rgb.save(folder / "jpeg-422.jpg", quality=92, subsampling=1)
    rgb.save(folder / "progressive.jpg", quality=92, progressive=True, exif=exif(8))
    rgb.convert("CMYK").save(folder / "cmyk.jpg", quality=92)
    gray.save(folder / "jpeg-gray.jpg", quality=92, exif=exif(6))
    Image.fromarray(colourful(67, 45)).save(folder / "small.jpg", quality=92, exif=exif(5))
    rgb.save(folder / "png-rgb.png", exif=exif(6))
    rgb.quantize(200).save(folder / "png-palette.png")
    alpha = Image.fromarray(np.where(np.mgrid[0:620, 0:900][1] < 450, 255, 128).astype(np.uint8))
    with_alpha = rgb.copy()
    with_alpha.putalpha(alpha)
    with_alpha.save(folder / "png-rgba.png")
    gray.save(folder / "png-gray.png")
    rgb.save(folder / "tiff-rgb.tif", compression="tiff_lzw", tiffinfo={ORIENTATION: 3})
    tifffile.imwrite(folder / "sixteen.tif", colourful().astype(np.uint16) * 257, photometric="rgb")
    rgb.save(folder / "webp.webp", lossless=True, exif=exif(7))
    rgb.save(folder / "bmp.bmp")
    rgb.save(folder / "pnm.ppm")
    rgb.quantize(200).save(folder / "gif.gif")
    rgb.save(folder / "jpeg-2000.jp2", irreversible=False)


def read(path):
    """The picture as people see it, in RGB."""
    if path.name.startswith("sixteen") and path.suffix == ".tif":
        samples = tifffile.imread(path)
        if samples.ndim == 2:
            # As viewers do: from the least to the greatest.
            return None
        return samples if samples.dtype == np.uint8 else (samples // 257).astype(np.uint8)
    if path.name.startswith("sixteen"):
        return None
    picture = ImageOps.exif_transpose(Image.open(path))
    if picture.has_transparency_data:
        picture = picture.convert("RGBA")
        picture = Image.alpha_composite(Image.new("RGBA", picture.size, "white"), picture)
    return np.asarray(picture.convert("RGB"))


def means(picture):
    """The means of the four fields, away from their borders."""
    height, width = picture.shape[:2]
    sides = [slice(1, 4), slice(6, 9)]
    part = [[slice(side.start * size // 10, side.stop * size // 10) for side in sides] for size in (height, width)]
    return np.array([picture[rows, columns].mean((0, 1)) for rows in part[0] for columns in part[1]])


def previews(page):
    """The previews by the names of the inputs, each before and after."""
    found = {}
    for figure in re.findall(r"<figure>.*?</figure>", page, re.DOTALL):
        name = html.unescape(re.search(r'<b title="([^"]*)"', figure)[1])
        sides = re.findall(r'<img class="(before|after)"[^>]*base64,([^"]+)"', figure)
        found[Path(name).name] = {side: Image.open(io.BytesIO(base64.b64decode(data))) for side, data in sides}
    return found


def check(folder, flags):
    """Returns what is wrong."""
    out = Path(tempfile.mkdtemp(dir=folder.parent))
    page = out / "report.html"
    command = [HISTEQD, folder, "--out", out, "--report", page, "--no-config", "--devices", "cpu", "--quiet", *flags]
    subprocess.run(command, check=True)
    shown = previews(page.read_text())
    wrong = []
    for source in sorted(folder.iterdir()):
        [output] = [path for path in out.iterdir() if path.stem == source.stem]
        for side, path in (("before", source), ("after", output)):
            preview = shown.get(source.name, {}).get(side)
            if preview is None:
                wrong.append(f"{source.name}, {side}: no preview")
                continue
            expected = read(path)
            if expected is None:
                continue
            if preview.getexif().get(ORIENTATION, 1) != 1:
                wrong.append(f"{source.name}, {side}: it is turned twice")
            if max(preview.size) > 400 or (preview.width > preview.height) != (expected.shape[1] > expected.shape[0]):
                wrong.append(f"{source.name}, {side}: {preview.size} of {expected.shape}")
                continue
            off = np.abs(means(np.asarray(preview.convert("RGB"))) - means(expected)).max()
            if off > MOST:
                wrong.append(f"{source.name}, {side}: a mean is {off:.1f} off")
    return [f"{' '.join(flags) or 'no flags'}: {line}" for line in wrong]


def main():
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / "in"
        folder.mkdir()
        write_all(folder)
        wrong = [line for flags in FLAGS for line in check(folder, flags)]
        count = len(list(folder.iterdir()))
    print("\n".join(wrong + [f"{count} pictures with {len(FLAGS)} sets of flags, {len(wrong)} previews are wrong"]))
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
