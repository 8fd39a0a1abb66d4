#!/usr/bin/env python3
"""Writes expected.tsv: what Pillow (libwebp, for WebP) shows of the animations in this folder, and ffmpeg where Pillow refuses. usage: expected.py

A line a file: name, width, height, frames, CRC-32 of the frames as RGBA one after the other, transparent pixels as zeros. A frame that only
readers without animation show is left out.

needs: pip install pillow numpy; apt install ffmpeg
"""
import glob, os, subprocess, zlib
import numpy as np
from PIL import Image, ImageSequence


# Pillow 13 refuses these.
BY_FFMPEG = 'empty-frame.gif', 'interlaced-narrow.png'


def with_pillow(path):
    image = Image.open(path)
    frames = [np.array(frame.convert('RGBA')) for frame in ImageSequence.Iterator(image)]
    return frames[1:] if getattr(image, 'default_image', False) else frames


def with_ffmpeg(path):
    (width, height), ask = Image.open(path).size, ['ffmpeg', '-v', 'error', '-i', path, '-vsync', 'passthrough', '-pix_fmt', 'rgba', '-f', 'rawvideo', '-']
    return list(np.frombuffer(subprocess.run(ask, check=True, capture_output=True).stdout, np.uint8).reshape(-1, height, width, 4))


os.chdir(os.path.dirname(os.path.abspath(__file__)))
with open('expected.tsv', 'w') as table:
    for path in sorted(glob.glob('*.png') + glob.glob('*.gif') + glob.glob('*.webp')):
        frames = with_ffmpeg(path) if path in BY_FFMPEG else with_pillow(path)
        rgba = np.concatenate(frames)
        rgba = np.where(rgba[..., 3:] > 0, rgba, 0).astype(np.uint8)
        crc = zlib.crc32(rgba.tobytes())
        print(path, rgba.shape[1], len(rgba) // len(frames), len(frames), f'{crc:08x}', sep='\t', file=table)
