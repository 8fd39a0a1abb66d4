#!/usr/bin/env python3
"""Writes the pictures of this folder that are drawn rather than collected. usage: make.py

needs: pip install numpy pillow tifffile imagecodecs
"""
import io
import os
import struct
import imagecodecs
import numpy as np
import tifffile
from PIL import Image, TiffImagePlugin

os.chdir(os.path.dirname(os.path.abspath(__file__)))
HEIGHT, WIDTH = 60, 83
Y, X = np.mgrid[:HEIGHT, :WIDTH]
GRAY = (X * 2 + Y + 20 * np.sin(X / 7) * np.cos(Y / 5) + 30).astype(np.uint8)
RGB = np.dstack([GRAY, GRAY[::-1], (X * Y // 20).astype(np.uint8)])
RGBA = np.dstack([RGB, np.clip(Y * 6, 0, 255).astype(np.uint8)])
DEEP = GRAY.astype(np.uint16) * 257 ^ (X * 7 % 64).astype(np.uint16)


def fax(name, compression, options=None, white=0):
    """Rings, a row of single pixels, a row that begins black, an empty one and a full one."""
    ink = (X - 40) ** 2 + (Y * 2 - 60) ** 2
    black = (ink // 300) % 2 == 1
    black[10] = X[10] % 2 == 0
    black[11], black[12] = True, False
    info = TiffImagePlugin.ImageFileDirectory_v2()
    info[262], info[278] = white, 24
    if options is not None:
        info[292] = options
    Image.fromarray(~black).save(name, compression=compression, tiffinfo=info)


fax('fax-rle.tif', 'tiff_ccitt')
fax('fax-group3.tif', 'group3', white=1)
fax('fax-group3-changes.tif', 'group3', options=5)
fax('fax-group4.tif', 'group4')

tifffile.imwrite('zstd-tiles.tif', RGB, photometric='rgb', compression='zstd', predictor=True, tile=(32, 32))
tifffile.imwrite('zstd-16.tif', DEEP, compression='zstd', compressionargs={'level': 19}, rowsperstrip=25)
ALPHA = {'photometric': 'rgb', 'extrasamples': ['unassalpha']}
tifffile.imwrite('webp-tiles.tif', RGBA, compression='webp', compressionargs={'lossless': False, 'level': 70}, tile=(32, 32), **ALPHA)
tifffile.imwrite('webp-strips.tif', RGBA, compression='webp', compressionargs={'lossless': True}, rowsperstrip=25, **ALPHA)


def jpeg(name, samples, **options):
    with open(name, 'wb') as file:
        file.write(imagecodecs.jpeg8_encode(np.ascontiguousarray(samples), **options))


TWELVE = np.dstack([RGB[..., channel].astype(np.uint16) * 16 + X % 16 for channel in range(3)]).astype(np.uint16)
for sampling in ('420', '422', '440', '444'):
    jpeg(f'jpeg-12-{sampling}.jpg', TWELVE, level=80, bitspersample=12, subsampling=sampling)
jpeg('jpeg-lossless-gray.jpg', GRAY, lossless=True, predictor=5)
jpeg('jpeg-lossless-rgb.jpg', RGB[:40, :40], lossless=True, predictor=7)
jpeg('jpeg-lossless-10.jpg', TWELVE[..., 0] // 4, lossless=True, predictor=6, bitspersample=10)
jpeg('jpeg-lossless-16-rgb.jpg', np.dstack([DEEP, DEEP[::-1], DEEP[:, ::-1]])[:30, :40], lossless=True, predictor=4, bitspersample=16)


def jpeg_in_tiff(name, samples, bits, **options):
    """A strip every 25 rows, each a stream of its own, behind the directory."""
    strips = [imagecodecs.jpeg8_encode(np.ascontiguousarray(samples[at:at + 25]), bitspersample=bits, **options)
              for at in range(0, len(samples), 25)]
    tifffile.imwrite(name, iter(strips), shape=samples.shape, dtype=samples.dtype, bitspersample=bits,
                     compression='jpeg', rowsperstrip=25, photometric='minisblack')


jpeg_in_tiff('jpeg-lossless-8.tif', GRAY, 8, lossless=True, predictor=4)
jpeg_in_tiff('jpeg-lossless-12.tif', TWELVE[..., 0], 12, lossless=True, predictor=1)
jpeg_in_tiff('jpeg-lossless-16.tif', DEEP, 16, lossless=True, predictor=4)
jpeg_in_tiff('jpeg-12.tif', TWELVE[..., 0], 12, level=80)


def tiff(name, data, **tags):
    """A little-endian TIFF of short and long values, with the data in one strip behind the header unless the tags say otherwise."""
    entries = {256: WIDTH, 257: HEIGHT, 259: 1, 273: 8, 278: HEIGHT, 279: len(data)}
    entries.update({int(tag[1:]): value for tag, value in tags.items()})
    at = 8 + len(data) + len(data) % 2
    behind = at + 2 + 12 * len(entries) + 4
    directory, values = struct.pack('<H', len(entries)), b''
    for tag, value in sorted(entries.items()):
        value = value if isinstance(value, tuple) else (value,)
        kind, letter = (4, 'I') if max(value) > 65535 else (3, 'H')
        packed = struct.pack(f'<{len(value)}{letter}', *value)
        if len(packed) > 4:
            packed, values = struct.pack('<I', behind + len(values)), values + packed
        directory += struct.pack('<HHI', tag, kind, len(value)) + packed.ljust(4, b'\0')
    with open(name, 'wb') as file:
        file.write(struct.pack('<2sHI', b'II', 42, at) + data + b'\0' * (len(data) % 2))
        file.write(directory + struct.pack('<I', 0) + values)


INKS = np.dstack([255 - RGB, GRAY // 3])
SEPARATED = {'photometric': 'separated', 'compression': 'deflate'}
tifffile.imwrite('cmyk-extra.tif', np.dstack([INKS, GRAY]), extrasamples=['unspecified'], **SEPARATED)
tifffile.imwrite('cmyk-16-planes.tif', np.moveaxis(INKS[:30].astype(np.uint16) * 257, -1, 0), planarconfig='separate', **SEPARATED)
CMYK = io.BytesIO()
Image.fromarray(INKS, 'CMYK').save(CMYK, 'JPEG', quality=80)
ADOBE = CMYK.getvalue().index(b'\xff\xee')
with open('cmyk-nameless.jpg', 'wb') as file:
    file.write(CMYK.getvalue()[:ADOBE] + CMYK.getvalue()[ADOBE + 16:])
MAP = np.array([[i * 257, (255 - i) * 257, i * i % 256 * 257] for i in range(256)], np.uint16).T
tifffile.imwrite('alpha-last.tif', np.dstack([RGB, 255 - GRAY, RGBA[..., 3], GRAY // 2]), photometric='rgb',
                 planarconfig='contig', extrasamples=['unspecified', 'unassalpha', 'unspecified'], compression='lzw')
tiff('palette-alpha.tif', np.dstack([GRAY, RGBA[..., 3]]).tobytes(), _258=(8, 8), _262=3, _277=2, _320=tuple(MAP.ravel().tolist()), _338=2)
LUMA, CHROMA = GRAY[:, :82].tobytes(), RGB[:30, :41, 2].tobytes() + RGB[30:, :41, 1].tobytes()
tiff('ycbcr-planes-420.tif', LUMA + CHROMA, _256=82, _258=(8, 8, 8), _262=6, _277=3, _284=2, _530=(2, 2),
     _273=(8, 8 + len(LUMA), 8 + len(LUMA) + len(CHROMA) // 2), _279=(len(LUMA), len(CHROMA) // 2, len(CHROMA) // 2))
tiff('no-photometric.tif', GRAY.tobytes(), _258=8)
STREAM = imagecodecs.jpeg8_encode(RGB, level=80, subsampling='444')
tiff('old-jpeg.tif', STREAM, _258=(8, 8, 8), _259=6, _262=6, _277=3, _273=8 + 623, _513=8, _514=len(STREAM), _530=(1, 1))


def cmyk_profile():
    """A profile of the old kind, with a perceptual table of the colours of all inks and none, and a colorimetric one that is white (ICC.1:2022, 10.10)."""
    nodes = [(c, m, y, k) for c in (0, 1) for m in (0, 1) for y in (0, 1) for k in (0, 1)]
    lab = [(255 - 215 * k - (1 - k) * (60 * c + 70 * m + 10 * y),
            128 + (1 - k) * (70 * m - 40 * c), 128 + (1 - k) * (85 * y - 45 * c - 10 * m)) for c, m, y, k in nodes]
    table = bytes(max(0, min(255, value)) for node in lab for value in node)
    ramp = bytes(range(256))
    lut = b'mft1' + bytes(4) + bytes([4, 3, 2, 0]) + struct.pack('>9i', *[65536, 0, 0, 0, 65536, 0, 0, 0, 65536]) + ramp * 4
    perceptual, colorimetric = lut + table + ramp * 3, lut + bytes([255, 128, 128] * 16) + ramp * 3
    text = b'text' + bytes(4) + b'CC0\0'
    white = b'XYZ ' + bytes(4) + struct.pack('>3i', 63190, 65536, 54061)
    description = b'desc' + bytes(4) + struct.pack('>I', 5) + b'inks\0' + bytes(8 + 3 + 67)
    parts, at = b'', 128 + 4 + 12 * 5
    tags = b''
    for name, data in ((b'A2B0', perceptual), (b'A2B1', colorimetric), (b'cprt', text), (b'desc', description), (b'wtpt', white)):
        data = data.ljust((len(data) + 3) // 4 * 4, b'\0')
        tags += name + struct.pack('>II', at + len(parts), len(data))
        parts += data
    header = struct.pack('>I4sI4s4s4s', at + len(parts), bytes(4), 0x02400000, b'prtr', b'CMYK', b'Lab ')
    header += struct.pack('>6H', 2026, 1, 1, 0, 0, 0) + b'acsp' + bytes(28) + struct.pack('>3i', 63190, 65536, 54061)
    return header.ljust(128, b'\0') + struct.pack('>I', 5) + tags + parts


SCALE = np.array([0, 64, 128, 255], np.uint8)
ALL = np.stack(np.meshgrid(SCALE, SCALE, SCALE, SCALE, indexing='ij'), -1).reshape(16, 16, 4)
tifffile.imwrite('cmyk-profile.tif', ALL, iccprofile=cmyk_profile(), **SEPARATED)


def jxl(name, samples, **options):
    with open(name, 'wb') as file:
        file.write(imagecodecs.jpegxl_encode(np.ascontiguousarray(samples), **options))


jxl('jxl-gray-16.jxl', DEEP[:20, :24], lossless=True)
jxl('jxl-rgba.jxl', RGBA[:20, :24], lossless=True, usecontainer=True)
jxl('jxl-lossy.jxl', RGB[:20, :24], level=85)
jxl('jxl-10.jxl', DEEP[:20, :24] // 64, lossless=True, bitspersample=10)
jxl('jxl-frames.jxl', np.stack([RGB[:8, :8], RGB[8:16, :8]]), lossless=True, photometric='rgb')
jxl('jxl-float.jxl', DEEP[:8, :8].astype(np.float32) / 65535, lossless=True)


def jp2(name, samples, **options):
    with open(name, 'wb') as file:
        file.write(imagecodecs.jpeg2k_encode(np.ascontiguousarray(samples), **options))


jp2('jp2-rgb.j2k', RGB[:40, :50], level=0, reversible=True, codecformat='j2k')
jp2('jp2-gray-16.jp2', DEEP[:40, :50], level=0, reversible=True)
jp2('jp2-12.jp2', DEEP[:40, :50] // 16, level=0, reversible=True, bitspersample=12)
jp2('jp2-lossy.jp2', RGB[:40, :50], level=35)
jp2('jp2-signed.jp2', (DEEP[:20, :20].astype(np.int32) - 32768).astype(np.int16), level=0, reversible=True)
Image.fromarray(RGBA[:40, :50]).save('jp2-rgba-tiles.jp2', irreversible=False, tile_size=(32, 32))
