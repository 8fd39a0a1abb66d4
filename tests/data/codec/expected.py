#!/usr/bin/env python3
"""Writes expected.tsv: what two other decoders make of the pictures in this folder. usage: expected.py

A line a file: name, width, height, channels, bits, CRC-32 of the samples in big-endian order. Pillow is asked first, OpenCV for
16-bit colours (which Pillow reduces), tifffile and imagecodecs (libjpeg-turbo 3) for what neither reads. Depths below 8 are carried to 8 and those between 8 and 16 to 16, halves up; palettes
become RGB, gray ones gray, transparent colours become alpha. A file of which neither makes the whole is left out.

needs: pip install pillow opencv-python-headless numpy tifffile imagecodecs
"""
import glob, os, zlib
import cv2
import imagecodecs
import numpy as np
import tifffile
from PIL import Image

os.chdir(os.path.dirname(os.path.abspath(__file__)))

PARTIAL = {
    'mode_grayscale.png',  # an animation, whose frames lie below each other
    'jxl-lossy.jxl', 'jxl-gray-three.jxl', 'jxl-wide.jxl', 'jxl-preview.jxl', 'jp2-lossy.jp2', 'cmyk-profile.tif',  # decoders may differ by a level or two
    'gradient-1c-32b.tiff', 'part.tif',  # no levels but integers of 32 bits
    'g4_orientation_7.tif',  # Pillow turns it as its orientation says
    'minisblack-2c-8b-alpha.tiff',  # Pillow leaves alpha multiplied in, OpenCV drops it
    'rgba.pam',  # OpenCV swaps its channels
    'tiff_strip_planar_16bit_RGB.tiff', 'tiff_tiled_planar_16bit_RGB.tiff',  # OpenCV mixes planes up, Pillow gives 8 bits
}

ONLY_TIFFFILE = {'webp-strips.tif', 'webp-tiles.tif', 'jpeg-12.tif', 'no-photometric.tif'} | set(glob.glob('jpeg-lossless-*.tif'))
# With the bits of their samples.
JPEGS = {'old-jpeg.tif': 8, 'monkey12.jpg': 12, 'pil_sample_cmyk.jpg': 8, 'cmyk-nameless.jpg': 8, 'testimgari.jpg': 8, 'jpeg-lossless-gray.jpg': 8, 'jpeg-lossless-rgb.jpg': 8,
         'jpeg-lossless-10.jpg': 10, 'jpeg-lossless-16-rgb.jpg': 16} | {name: 12 for name in glob.glob('jpeg-12-*.jpg')}


def inks(array):
    most, light = np.iinfo(array.dtype).max, np.iinfo(array.dtype).max - array[..., :4].astype(np.int64)
    return (2 * light[..., :3] * light[..., 3:] + most) // (2 * most)


def ycbcr(path):
    data = np.fromfile(path, np.uint8)[8:]
    luma, chroma = data[:82 * 60].reshape(60, 82), data[82 * 60:82 * 60 + 41 * 60].reshape(2, 30, 41)
    y, cb, cr = [a.astype(float) for a in (luma, *chroma.repeat(2, 1).repeat(2, 2))]
    red, blue = y + (cr - 128) * (2 - 2 * 0.299), y + (cb - 128) * (2 - 2 * 0.114)
    rgb = np.dstack([red, (y - 0.114 * blue - 0.299 * red) / 0.587, blue])
    return np.clip(np.floor(rgb + 0.5), 0, 255).astype(np.uint8)


# What is made of the samples that tifffile reads: the definition in a line. Channels besides colours and alpha do not count.
DEFINED = {
    'cmyk-extra.tif': inks,
    'cmyk-16-planes.tif': lambda array: inks(np.moveaxis(array, 0, -1)),
    'palette-alpha.tif': lambda array: np.dstack([coloured(array[..., 0], 'palette-alpha.tif'), array[..., 1]]),
    'indexed-unspecified-extrasamples.tif': lambda array: coloured(array[..., 0], 'indexed-unspecified-extrasamples.tif'),
    'alpha-last.tif': lambda array: array[..., [0, 1, 2, 4]],
    'ycbcr-planes-420.tif': lambda _: ycbcr('ycbcr-planes-420.tif'),
}


def coloured(indices, path):
    with tifffile.TiffFile(path) as file:
        return np.moveaxis(np.asarray(file.pages[0].colormap)[:, indices] >> 8, 0, -1)


def with_definition(path):
    array = tifffile.imread(path) if path != 'ycbcr-planes-420.tif' else np.zeros(1, np.uint8)
    return DEFINED[path](array), array.dtype.itemsize * 8


def to_whole_bytes(array, bits):
    most, all_ones = 2**bits - 1, 255 if bits <= 8 else 65535
    return (2 * array.astype(np.int64) * all_ones + most) // (2 * most)


def with_tifffile(path):
    with tifffile.TiffFile(path) as file:
        array, bits = file.asarray(), file.pages[0].bitspersample
    return to_whole_bytes(array, bits).reshape(array.shape[0], array.shape[1], -1), 16 if bits > 8 else 8


def with_libjxl(path):
    array = imagecodecs.jpegxl_decode(open(path, 'rb').read())
    array = to_whole_bytes(array, 10 if '-10' in path else 8 * array.dtype.itemsize)
    return array.reshape(array.shape[0], array.shape[1], -1), 16 if array.max() > 255 else 8


def with_openjpeg(path):
    array = imagecodecs.jpeg2k_decode(open(path, 'rb').read())
    bits = 12 if '-12' in path else 8 * array.dtype.itemsize
    return to_whole_bytes(array, bits).reshape(array.shape[0], array.shape[1], -1), 16 if bits > 8 else 8


def with_imagecodecs(path):
    if 'cmyk' in path:
        return np.array(Image.open(path).convert('RGB')), 8
    array = imagecodecs.jpeg8_decode(open(path, 'rb').read()[8 if path.endswith('.tif') else 0:])
    return to_whole_bytes(array, JPEGS[path]).reshape(array.shape[0], array.shape[1], -1), 16 if JPEGS[path] > 8 else 8


def with_pillow(path):
    image = Image.open(path)
    if getattr(image, 'tag_v2', {}).get(258, (8,))[0] == 12:
        return None  # delivered in 12 bits
    mode, bits = image.mode, 16 if image.mode.startswith('I;16') or image.mode == 'I' else 8
    if mode == 'P':
        image = image.convert('RGBA' if 'transparency' in image.info else 'RGB')
        array = np.array(image)
        if path.endswith('.bmp') and (array[..., 0] == array[..., 1]).all() and (array[..., 1] == array[..., 2]).all():
            array = array[..., :1]
    elif mode == '1':
        array = np.array(image.convert('L'))
    elif mode in ('L', 'LA', 'RGB', 'RGBA', 'I;16', 'I;16B', 'I') and not (mode != 'RGB' and 'transparency' in image.info):
        array = np.array(image.convert('RGBA') if 'transparency' in image.info else image)
    else:
        return None
    return array.reshape(array.shape[0], array.shape[1], -1), bits


def with_opencv(path):
    array = cv2.imread(path, cv2.IMREAD_UNCHANGED)
    if array is None or array.dtype not in (np.uint8, np.uint16):
        return None
    array = array.reshape(array.shape[0], array.shape[1], -1)
    if array.shape[2] >= 3:
        array = array[..., [2, 1, 0, 3][:array.shape[2]]]
    return array, array.dtype.itemsize * 8


def deciders(path):
    if path in JPEGS:
        return [with_imagecodecs]
    if path.endswith('.jxl'):
        return [with_libjxl]
    if path.startswith('jp2-'):
        return [with_openjpeg]
    if path in DEFINED:
        return [with_definition]
    return [with_tifffile] if path in ONLY_TIFFFILE else [with_pillow, with_opencv]


refused = {line.split('\t')[0] for line in open('refused.tsv')}
with open('expected.tsv', 'w') as table:
    for path in sorted(glob.glob('*.*')):
        if path in refused | PARTIAL or path.endswith(('.py', '.tsv', '.md', '.jpg', '.jpeg')) and path not in JPEGS:
            continue
        answers = []
        for ask in deciders(path):
            try:
                answers.append(ask(path))
            except Exception as error:
                print(path, error)
        answers = [a for a in answers if a]
        if not answers:
            continue
        pixels, bits = max(answers, key=lambda a: a[1])
        crc = zlib.crc32(pixels.astype('>u2' if bits == 16 else 'u1').tobytes())
        print(path, pixels.shape[1], pixels.shape[0], pixels.shape[2], bits, f'{crc:08x}', sep='\t', file=table)
