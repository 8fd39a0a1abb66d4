#!/usr/bin/env python3
"""Makes one large picture, like a scan: benches/scan.py FOLDER OUT.png

Tiles the pictures of the folder (PNG, each cropped to 1920x1088) as RGB until there are 100 megapixels, with a little noise.
Needs numpy and Pillow."""

import itertools
import pathlib
import sys

import numpy as np
from PIL import Image

WIDTH, HEIGHT = 11520, 8704
TILE_WIDTH, TILE_HEIGHT = 1920, 1088

folder, out = map(pathlib.Path, sys.argv[1:])
pictures = [np.asarray(Image.open(file).convert('RGB')) for file in sorted(folder.glob('*.png'))]
tiles = itertools.cycle(picture[:TILE_HEIGHT, :TILE_WIDTH] for picture in pictures)
scan = np.zeros((HEIGHT, WIDTH, 3), np.int16)
for top in range(0, HEIGHT, TILE_HEIGHT):
    left = 0
    while left < WIDTH:
        tile = next(tiles)[:, : WIDTH - left]
        scan[top : top + len(tile), left : left + tile.shape[1]] = tile
        left += tile.shape[1]
scan += np.random.default_rng(1).integers(-2, 3, scan.shape, dtype=np.int8)
Image.fromarray(scan.clip(0, 255).astype(np.uint8)).save(out, compress_level=1)
