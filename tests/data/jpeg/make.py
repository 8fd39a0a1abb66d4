#!/usr/bin/env python3
"""Makes the JPEGs of this folder. Needs: numpy, OpenCV (5.0 made those that are here), Pillow (13.0).

Their luma has about as many samples of every level, so that equalizing changes it little, and differences between two decoders
show as they are.
"""
from pathlib import Path

import cv2
import numpy
from PIL import Image, ImageCms

HERE = Path(__file__).parent
WIDTH, HEIGHT = 243, 157


def picture():
    rng = numpy.random.default_rng(6)
    y, x = numpy.mgrid[:HEIGHT, :WIDTH]
    luma = 255 * x / (WIDTH - 1) + 6 * numpy.sin(y / 5) + rng.normal(0, 3, x.shape)
    blue, red = 128 + 50 * numpy.sin(x / 23), 128 + 50 * numpy.cos(y / 17)
    planes = numpy.stack([luma, blue, red], -1).clip(0, 255).astype(numpy.uint8)
    return Image.fromarray(planes, 'YCbCr')


def with_odd_tables(whole):
    """The file with Huffman tables 2 and 3 in place of 0 and 1, and one of its own for the AC coefficients of Cr."""
    made, at = bytearray(whole[:2]), 2
    while True:
        marker, length = whole[at + 1], int.from_bytes(whole[at + 2:at + 4])
        content = bytearray(whole[at + 4:at + 2 + length])
        at += 2 + length
        if marker == 0xc4:
            place = 0
            while place < len(content):
                tables, counts = [content[place]], content[place + 1:place + 17]
                symbols = content[place + 17:place + 17 + sum(counts)]
                place += 17 + sum(counts)
                contents = [bytes([tables[0] + 2]) + counts + symbols]
                if tables[0] == 0x11:
                    # The last two symbols, which do not occur, exchanged.
                    contents.append(bytes([0x10]) + counts + symbols[:-2] + symbols[:-3:-1])
                for one in contents:
                    made += bytes([0xff, marker]) + (len(one) + 2).to_bytes(2) + one
            continue
        if marker == 0xda:
            content[2], content[4], content[6] = 0x22, 0x33, 0x30
        made += bytes([0xff, marker]) + (len(content) + 2).to_bytes(2) + content
        if marker == 0xda:
            return bytes(made + whole[at:])


def main():
    colour = picture()
    gray = colour.getchannel(0)
    exif = Image.Exif()
    exif[0x0112], exif[0x010e] = 6, 'a turned picture'
    icc = ImageCms.ImageCmsProfile(ImageCms.createProfile('sRGB')).tobytes()
    for subsampling, name in enumerate(['444', '422', '420']):
        colour.save(HERE / f'{name}.jpg', quality=90, subsampling=subsampling)
    four_four_zero = [cv2.IMWRITE_JPEG_QUALITY, 90,
                      cv2.IMWRITE_JPEG_SAMPLING_FACTOR, cv2.IMWRITE_JPEG_SAMPLING_FACTOR_440]
    cv2.imwrite(str(HERE / '440.jpg'), numpy.asarray(colour.convert('RGB'))[:, :, ::-1], four_four_zero)
    colour.save(HERE / 'metadata.jpg', quality=83, exif=exif, icc_profile=icc, comment=b'a comment', dpi=(300, 300),
                optimize=True)
    gray.save(HERE / 'gray.jpg', quality=95)
    colour.crop((0, 0, 17, 9)).save(HERE / 'tiny.jpg', quality=90)
    colour.save(HERE / 'restart.jpg', quality=90, restart_marker_blocks=5)
    small = colour.crop((0, 0, 61, 47))
    small.save(HERE / 'restarts.jpg', quality=80, restart_marker_blocks=1, optimize=True)
    small.save(HERE / '411.jpg', quality=80, subsampling='4:1:1')
    small.save(HERE / 'odd-tables.jpg', quality=80)
    (HERE / 'odd-tables.jpg').write_bytes(with_odd_tables((HERE / 'odd-tables.jpg').read_bytes()))
    colour.save(HERE / 'progressive.jpg', quality=90, progressive=True)
    tables = [[min(255, 2 + start * at // 8) for at in range(64)] for start in (1, 2, 3)]
    colour.save(HERE / 'three-tables.jpg', qtables=tables)
    whole = (HERE / '420.jpg').read_bytes()
    third = len(whole) // 3
    (HERE / 'damaged.jpg').write_bytes(whole[:third] + whole[2 * third:])


if __name__ == '__main__':
    main()
