#!/usr/bin/env python3
"""The numbers that --preset photo is judged by, of any folder of photographs, and sheets to judge
by eye without knowing which is which (docs/methods.md).

usage: benches/photo_settings.py PHOTOGRAPHS [--histeqd PROGRAM] [--sheets FOLDER] [--megapixels 2.6]
needs: pip install numpy pillow opencv-python-headless

Compared are the original, OpenCV's usual recipe (CLAHE of L in L*a*b*, limit 2, 8x8 tiles), CLAHE
at half its strength with hues kept, and the preset: by tests/differential/photo_model.py, or by
PROGRAM. Larger photographs are made smaller first. A sheet has a row a photograph, once whole and
once a detail at 1:1, in an order that FOLDER/key.tsv tells.
"""

import argparse
import random
import subprocess
import sys
import tempfile
from pathlib import Path

import cv2
import numpy as np
from PIL import Image, ImageDraw

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests/differential"))
from photo_model import ends, keep_hue, luma, lumas, photo

CELL, ROWS = (366, 270), 4  # pixels of a picture on a sheet; photographs on one
FLAT, COLOURFUL = 0.15, 20  # share of the blocks; least chroma
LIFTED = 209  # bright ends below this are lifted, or nearly
NIGHT = 50, 128  # at most this median and at least this 99th percentile: few lights in the dark
DARKER = 3, 10  # the share of its samples that a photograph is underexposed to


def recipe(picture):
    lab = cv2.cvtColor(picture, cv2.COLOR_RGB2LAB)
    lab[..., 0] = cv2.createCLAHE(2.0, (8, 8)).apply(np.ascontiguousarray(lab[..., 0]))
    return cv2.cvtColor(lab, cv2.COLOR_LAB2RGB)


def half(picture):
    old, new = lumas(picture, strength=500)
    return keep_hue(picture, old, new, 255, 0).astype(np.uint8)


def program(path):
    def preset(picture):
        with tempfile.TemporaryDirectory() as scratch:
            source, out = Path(scratch) / "in.png", Path(scratch) / "out.png"
            Image.fromarray(picture).save(source, compress_level=0)
            subprocess.run([path, source, "--out", out, "--preset", "photo"], check=True, capture_output=True)
            return np.asarray(Image.open(out))

    return preset


def blocks(plane):
    """Standard deviations in blocks of 16x16."""
    high, wide = (length // 16 for length in plane.shape)
    cut = plane[: high * 16, : wide * 16].astype(float).reshape(high, 16, wide, 16)
    return cut.std(axis=(1, 3)).ravel()


def hues(picture):
    """Hue in degrees, and chroma: the greatest of R, G and B less the least."""
    red, green, blue = np.moveaxis(picture.astype(float), -1, 0)
    greatest, chroma = picture.max(-1), np.ptp(picture.astype(float), axis=-1)
    with np.errstate(divide="ignore", invalid="ignore"):
        sixths = (green - blue) / chroma, (blue - red) / chroma + 2, (red - green) / chroma + 4
        return 60 * np.select([greatest == picture[..., 0], greatest == picture[..., 1]], sixths[:2], sixths[2]), chroma


def numbers(before, after, from_dark):
    """The numbers of one photograph before and after; `from_dark` is the result from the
    underexposed one."""
    old, new = luma(before), luma(after)
    own, made = blocks(old), blocks(new)
    order = np.argsort(own, kind="stable")
    order = order[own[order] > 0]
    flat, textured = order[: max(1, round(FLAT * len(order)))], order[len(order) // 2 :]
    (hue, chroma), (turned, _) = hues(before), hues(after)
    apart = np.abs((turned - hue + 180) % 360 - 180)[chroma > COLOURFUL]
    ended = ((after == 0) | (after == 255)) & (before != 0) & (before != 255)
    return {
        "flat": made[flat].mean() / own[flat].mean(),
        "textured": made[textured].mean() / own[textured].mean(),
        "hue": 100 * (np.nan_to_num(apart) <= 3).mean() if apart.size else 100.0,
        "clipped": 100 * ended.any(-1).mean(),
        "median": (np.median(new) + 0.5) / (np.median(old) + 0.5),
        "restored": np.percentile(luma(from_dark), 99) / max(1, np.percentile(old, 99)),
    }


def table(measured, kinds):
    print(
        "| | underexposed: 99th percentile of the original's, least | 3/4 of it or more | night: median, times, most |",
        end="",
    )
    print(
        " flat blocks, times | textured blocks, of half's | hue within 3 degrees, % of coloured pixels, least | newly black or white, %, mean | most |"
    )
    print("| --- |" + " --: |" * 8)
    half = np.array([row["textured"] for row in measured["half"]])
    for way, rows in measured.items():
        of = {key: np.array([row[key] for row in rows]) for key in rows[0]}
        plain, night = (np.array([kind[key] for kind in kinds]) for key in ("plain", "night"))
        middle = lambda values: f"{np.median(values):.2f}" if values.size else "-"
        print(
            f"| {way} | {of['restored'].min():.2f} | {(of['restored'] >= 0.75).sum()} of {len(rows)} | {of['median'][night].max() if night.any() else 0:.2f} | {middle(of['flat'][plain])}"
            f" | {middle((of['textured'] / half)[plain])} | {of['hue'].min():.1f} | {of['clipped'].mean():.2f} | {of['clipped'].max():.1f} |"
        )
    night, plain = (sum(kind[key] for kind in kinds) for key in ("night", "plain"))
    print(f"\n{len(kinds)} photographs, {night} at night; blocks are those of {plain} whose exposure is not lifted.")


def detail(picture, at):
    """A piece at 1:1 around a place, as far as the picture reaches."""
    (width, height), (x, y) = CELL, at
    x, y = (
        max(0, min(place - size // 2, whole - size)) for place, size, whole in zip((x, y), CELL, picture.shape[1::-1])
    )
    return Image.fromarray(picture[y : y + height, x : x + width])


def whole(picture):
    small = Image.fromarray(picture)
    small.thumbnail(CELL, Image.Resampling.LANCZOS)
    return small


class Sheets:
    """Rows of all ways in an order of chance, and the key to it."""

    def __init__(self, folder):
        self.folder, self.rows, self.key = folder, [], []
        folder.mkdir(parents=True, exist_ok=True)

    def add(self, name, pictures):
        ways = list(pictures)
        random.shuffle(ways)
        self.key.append([name, *ways])
        height, width = next(iter(pictures.values())).shape[:2]
        at = random.randrange(width), random.randrange(height)
        self.rows.append((name, [(whole(pictures[way]), detail(pictures[way], at)) for way in ways]))
        if len(self.rows) == ROWS:
            self.write()

    def write(self):
        if not self.rows:
            return
        number = (len(self.key) - 1) // ROWS
        for kind, label in enumerate(("whole", "detail")):
            sheet = Image.new("RGB", (4 * (CELL[0] + 4), len(self.rows) * (CELL[1] + 14)), "gray")
            draw = ImageDraw.Draw(sheet)
            for row, (name, cells) in enumerate(self.rows):
                for column, cell in enumerate(cells):
                    left, upper = column * (CELL[0] + 4), row * (CELL[1] + 14)
                    draw.text((left + 2, upper), f"{name} {'ABCD'[column]}", fill="white")
                    sheet.paste(cell[kind], (left, upper + 12))
            sheet.save(self.folder / f"{number:02}-{label}.png", compress_level=3)
        self.rows = []
        (self.folder / "key.tsv").write_text("".join("\t".join(row) + "\n" for row in self.key))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("photographs", type=Path)
    parser.add_argument("--histeqd")
    parser.add_argument("--sheets", type=Path)
    parser.add_argument("--megapixels", type=float, default=2.6)
    parser.add_argument("--each", action="store_true", help="the numbers of each photograph too")
    asked = parser.parse_args()
    ways = {"recipe": recipe, "half": half, "photo": program(asked.histeqd) if asked.histeqd else photo}
    measured, kinds = {way: [] for way in ways}, []
    sheets = Sheets(asked.sheets) if asked.sheets else None
    for path in sorted(asked.photographs.iterdir()):
        picture = Image.open(path).convert("RGB")
        larger = picture.width * picture.height / (asked.megapixels * 1e6)
        if larger > 1:
            picture = picture.resize((round(side / larger**0.5) for side in picture.size), Image.Resampling.LANCZOS)
        picture = np.asarray(picture)
        dark = (picture.astype(int) * DARKER[0] // DARKER[1]).astype(np.uint8)
        made = {way: enhance(picture) for way, enhance in ways.items()}
        for way, enhance in ways.items():
            measured[way].append(numbers(picture, made[way], enhance(dark)))
        plane = luma(picture)
        median, bright = np.percentile(plane, (50, 99))
        kinds.append(
            {
                "plain": ends(np.bincount(plane.ravel(), minlength=256), 1750, 1750)[1] >= LIFTED,
                "night": median <= NIGHT[0] and bright >= NIGHT[1],
            }
        )
        if asked.each:
            print(
                path.name,
                *(
                    f"{way}: " + " ".join(f"{key} {value:.2f}" for key, value in rows[-1].items())
                    for way, rows in measured.items()
                ),
                sep="; ",
                flush=True,
            )
        if sheets:
            sheets.add(path.stem, {"original": picture, **made})
    if sheets:
        sheets.write()
    table(measured, kinds)


if __name__ == "__main__":
    main()
