#!/usr/bin/env python3
"""Equalizes the pictures of a folder with Pillow's codecs, several at once: python/examples/folder.py FROM TO

Threads suffice, because histeqd and Pillow's codecs run without the interpreter. (For folders as such use the command `histeqd FROM --out TO`, which
keeps bit depths, metadata and much more; this is for pipelines that do something else as well.)
"""

import pathlib
import sys
from concurrent.futures import ThreadPoolExecutor

from PIL import Image

import histeqd


def equalize(source, target):
    with Image.open(source) as picture:
        if picture.mode not in ("L", "LA", "RGB", "RGBA"):
            picture = picture.convert("RGB")
        result = histeqd.clahe(picture, threads=1)
    Image.fromarray(result).save(target)


def main():
    source, target = map(pathlib.Path, sys.argv[1:])
    target.mkdir(parents=True, exist_ok=True)
    files = sorted(file for file in source.iterdir() if file.suffix.lower() in {".jpg", ".jpeg", ".png"})
    with ThreadPoolExecutor() as pool:
        for _ in pool.map(lambda file: equalize(file, target / file.name), files):
            pass


main()
