#!/usr/bin/env python3
"""Writes expected.tsv: what Pillow shows of the animations in this folder. usage: expected.py

A line a file: name, width, height, frames, CRC-32 of the frames as RGBA one after the other, transparent pixels as zeros. A frame that only
readers without animation show is left out.

needs: pip install pillow numpy
"""
import glob, os, zlib
import numpy as np
from PIL import Image, ImageSequence

os.chdir(os.path.dirname(os.path.abspath(__file__)))
with open('expected.tsv', 'w') as table:
    for path in sorted(glob.glob('*.png') + glob.glob('*.gif') + glob.glob('*.webp')):
        image = Image.open(path)
        frames = [np.array(frame.convert('RGBA')) for frame in ImageSequence.Iterator(image)]
        frames = frames[1:] if getattr(image, 'default_image', False) else frames
        rgba = np.concatenate(frames)
        rgba = np.where(rgba[..., 3:] > 0, rgba, 0).astype(np.uint8)
        crc = zlib.crc32(rgba.tobytes())
        print(path, *image.size, len(frames), f'{crc:08x}', sep='\t', file=table)
