#!/usr/bin/env python3
"""Makes the animations of this folder that are named after what they have. usage: make.py

Random pixels, so that every one counts. Chunks and blocks are put together here, so that they are what no program writes on purpose.

needs: pip install pillow numpy
"""
import io, os, struct, zlib
import numpy as np
from PIL import Image

os.chdir(os.path.dirname(os.path.abspath(__file__)))
random = np.random.default_rng(50)


def save(name, *parts):
    with open(name, 'wb') as file:
        file.write(b''.join(parts))


# WebP

def riff(kind, content):
    return kind + struct.pack('<I', len(content)) + content + b'\0' * (len(content) % 2)


def short(number):
    return struct.pack('<I', number)[:3]


def rgba(width, height):
    """Pixels a third of which are opaque and a third of which are transparent."""
    pixels = random.integers(0, 256, (height, width, 4), dtype=np.uint8)
    kind = random.integers(0, 3, (height, width))
    pixels[kind == 0, 3] = 255
    pixels[kind == 1, 3] = 0
    return pixels


def frame(left, top, width, height, blend, clear, lossless=True, pixels=None):
    picture = io.BytesIO()
    Image.fromarray(rgba(width, height) if pixels is None else pixels).save(picture, 'WEBP', lossless=lossless, exact=True, quality=70)
    chunks, inside = picture.getvalue()[12:], b''
    while chunks:
        length = 8 + struct.unpack('<I', chunks[4:8])[0]
        if chunks[:4] in (b'ALPH', b'VP8 ', b'VP8L'):
            inside += chunks[:length + length % 2]
        chunks = chunks[length + length % 2:]
    header = short(left // 2) + short(top // 2) + short(width - 1) + short(height - 1) + short(40)
    return riff(b'ANMF', header + bytes([(not blend) << 1 | clear]) + inside)


def animated(name, width, height, *frames):
    header = riff(b'VP8X', bytes([0x12, 0, 0, 0]) + short(width - 1) + short(height - 1))
    content = b'WEBP' + header + riff(b'ANIM', bytes(6)) + b''.join(frames)
    save(name, riff(b'RIFF', content))


BLEND, CLEAR = True, True
animated('blend-and-dispose.webp', 24, 18,
         frame(0, 0, 24, 18, BLEND, False),
         frame(4, 2, 12, 9, BLEND, False),
         frame(10, 6, 9, 12, BLEND, CLEAR),
         frame(2, 8, 14, 7, BLEND, CLEAR),
         frame(0, 0, 10, 16, False, False),
         frame(0, 0, 24, 18, BLEND, CLEAR),
         frame(6, 6, 8, 8, BLEND, CLEAR),
         frame(8, 2, 16, 10, BLEND, False),
         frame(0, 4, 20, 14, BLEND, False),
         frame(0, 0, 24, 18, False, CLEAR),
         frame(0, 0, 5, 5, BLEND, False))
animated('lossy-and-alpha.webp', 40, 34,
         frame(0, 0, 40, 34, BLEND, False, lossless=False, pixels=random.integers(0, 256, (34, 40, 3), dtype=np.uint8)),
         frame(4, 2, 33, 21, BLEND, CLEAR, lossless=False),
         frame(6, 8, 17, 19, BLEND, False, lossless=False, pixels=random.integers(0, 256, (19, 17, 3), dtype=np.uint8)),
         frame(2, 2, 22, 30, BLEND, False, lossless=False))


# PNG

def chunk(kind, content):
    return struct.pack('>I', len(content)) + kind + content + struct.pack('>I', zlib.crc32(kind + content))


def rows(pixels):
    return b''.join(b'\0' + row.tobytes() for row in pixels)


def passes(pixels):
    starts = [(0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4), (0, 2, 2, 4), (1, 0, 2, 2), (0, 1, 1, 2)]
    reduced = [pixels[top::down, left::right] for left, top, right, down in starts]
    return b''.join(rows(part) for part in reduced if part.size)


def png(name, width, height, *chunks, colour=2, interlaced=False):
    header = struct.pack('>IIBBBBB', width, height, 8, colour, 0, 0, interlaced)
    save(name, b'\x89PNG\r\n\x1a\n', chunk(b'IHDR', header), *chunks, chunk(b'IEND', b''))


def control(number, width, height, left=0, top=0, dispose=0):
    return chunk(b'fcTL', struct.pack('>IIIIIHHBB', number, width, height, left, top, 1, 25, dispose, 0))


def rgb(width, height):
    return random.integers(0, 256, (height, width, 3), dtype=np.uint8)


def image(pixels):
    return chunk(b'IDAT', zlib.compress(pixels))


def data(number, pixels):
    return chunk(b'fdAT', struct.pack('>I', number) + zlib.compress(pixels))


frames_of = lambda count: chunk(b'acTL', struct.pack('>II', count, 0))
png('late-control.png', 12, 10, image(rows(rgb(12, 10))), frames_of(2), control(0, 12, 10), data(1, rows(rgb(12, 10))))
png('no-frames.png', 12, 10, frames_of(0), image(rows(rgb(12, 10))))
png('first-smaller.png', 12, 10, frames_of(2), control(0, 6, 4), image(rows(rgba(6, 4))), control(1, 12, 10), data(2, rows(rgba(12, 10))), colour=6)
png('interlaced-narrow.png', 13, 11, frames_of(2), control(0, 13, 11), image(passes(rgb(13, 11))), control(1, 7, 9, 3, 1),
    data(2, passes(rgb(7, 9))), interlaced=True)


# GIF

PALETTE = bytes([200, 0, 0, 0, 150, 0, 0, 0, 250, 9, 9, 9])


def gif(name, width, height, *blocks):
    save(name, b'GIF89a', struct.pack('<HHBBB', width, height, 0x81, 0, 0), PALETTE, *blocks, b';')


def lzw(indices, bits=2):
    """Codes of one size: the table is cleared before it grows."""
    size, codes = bits + 1, []
    for at, index in enumerate(indices):
        codes += [1 << bits, index] if at % 2 == 0 else [index]
    packed = sum(code << size * at for at, code in enumerate(codes + [(1 << bits) + 1]))
    content = packed.to_bytes((size * (len(codes) + 1) + 7) // 8, 'little')
    blocks = [content[at:at + 255] for at in range(0, len(content), 255)]
    return bytes([bits]) + b''.join(bytes([len(block)]) + block for block in blocks) + b'\0'


def shown(left, top, width, height, indices, delay=4):
    graphics = b'!\xf9\x04' + struct.pack('<BHB', 1 << 2, delay, 0) + b'\0'
    return graphics + b',' + struct.pack('<HHHHB', left, top, width, height, 0) + lzw(indices)


gif('empty-frame.gif', 4, 3, shown(0, 0, 4, 3, [0] * 12), shown(0, 0, 0, 0, []), shown(1, 1, 2, 2, [2, 1, 1, 2]))
gif('unknown-extension.gif', 4, 3, b'!\x2a\x05Hello\x05World\0', shown(0, 0, 4, 3, [0, 1, 2, 3] * 3))
