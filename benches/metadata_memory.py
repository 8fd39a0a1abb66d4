#!/usr/bin/env python3
"""Peak memory of histeqd on small pictures with much metadata, or with metadata that unpack to much. Prints a Markdown table.

usage: benches/metadata_memory.py SCRATCH [--memory BYTES] [--histeqd BINARY [BINARY...]]

Each picture has at most 8x8 pixels (but for the one of many strips) and is processed alone; the peak is the resident set size.
"""
import argparse, base64, multiprocessing, os, resource, struct, subprocess, zlib
from pathlib import Path

MIB = 1 << 20


def tiff(path, tags, length=512, content=b''):
    """Writes a TIFF of 8x8 gray pixels with further tags and, from byte 4096 on, content; the rest of its length is a hole."""
    tags = {256: (4, 1, 8), 257: (4, 1, 8), 258: (3, 1, 8), 259: (3, 1, 1), 262: (3, 1, 1), 273: (4, 1, 1024),
            277: (3, 1, 1), 278: (4, 1, 8), 279: (4, 1, 64)} | tags
    table = b''.join(struct.pack('<HHII', tag, *tags[tag]) for tag in sorted(tags))
    head = b'II*\0' + struct.pack('<IH', 8, len(tags)) + table + bytes(4)
    with open(path, 'wb') as file:
        file.write(head.ljust(1024, b'\0') + bytes(range(64)))
        file.truncate(max(length, 4096 + len(content)))
        file.seek(4096)
        file.write(content)


def chunk(kind, content):
    return struct.pack('>I', len(content)) + kind + content + struct.pack('>I', zlib.crc32(kind + content))


def png(path, *chunks):
    with open(path, 'wb') as file:
        file.write(b'\x89PNG\r\n\x1a\n' + chunk(b'IHDR', struct.pack('>IIBBBBB', 8, 8, 8, 0, 0, 0, 0)))
        file.writelines(chunks)
        file.write(chunk(b'IDAT', zlib.compress(bytes(9 * 8))) + chunk(b'IEND', b''))


def packed(length):
    packer = zlib.compressobj(9)
    return b''.join([packer.compress(bytes(MIB)) for _ in range(length // MIB)] + [packer.flush()])


def jpeg(path, segments):
    tiny = (Path(__file__).parent.parent / 'tests/data/jpeg/tiny.jpg').read_bytes()
    path.write_bytes(tiny[:2] + segments + tiny[2:])


def webp(path, chunks, flags=0):
    pixel = base64.b64decode('UklGRhoAAABXRUJQVlA4TA0AAAAvAAAAEAcQERGIiP4HAA==')[12:]
    body = b'WEBPVP8X' + struct.pack('<IB9x', 10, flags) + pixel + chunks
    path.write_bytes(b'RIFF' + struct.pack('<I', len(body)) + body)


def riff(kind, content):
    return kind + struct.pack('<I', len(content)) + content + bytes(len(content) % 2)


def bmp(path, profile):
    offset = 14 + 124
    header = struct.pack('<IiiHHIIIIII', 124, 8, 8, 1, 24, 0, 192, 0, 0, 0, 0) + bytes(16) + b'DEBM' + bytes(48)
    header += struct.pack('<IIII', 4, 124 + 192, profile, 0)
    path.write_bytes(b'BM' + struct.pack('<IHHI', offset + 192 + profile, 0, 0, offset) + header + bytes(192 + profile))


def pictures(folder):
    """Makes the pictures, and yields what each is with its path."""
    def at(name):
        return folder / name
    many = struct.pack('<H', 4096) + struct.pack('<HHII', 1000, 1, 1, 0) * 4096 + bytes(4)
    exif = struct.pack('<H', 4096) + struct.pack('<HHII', 34665, 4, 1, 4096 + 60000) * 4096 + bytes(4)
    shape = b'{"shape": [' + b'1,' * (20 * MIB) + b'1]}\0'
    strips = 4 * MIB
    made = [
        ('TIFF, a tag of 900 MiB in a hole', 'tag.tif', lambda p: tiff(p, {65000: (7, 900 * MIB, 512)}, 512 + 900 * MIB)),
        ('TIFF, a tag of 60 MiB in a hole', 'honest.tif', lambda p: tiff(p, {65000: (7, 60 * MIB, 512)}, 512 + 60 * MIB)),
        ('TIFF, 40 MiB of JSON in its description', 'json.tif',
         lambda p: tiff(p, {270: (2, len(shape), 4096)}, content=shape)),
        ('TIFF, 4,096 times the same EXIF of 4,096 entries', 'entries.tif',
         lambda p: tiff(p, {34665: (4, 1, 4096)}, 900 * MIB, exif.ljust(60000, b'\0') + many)),
        ('TIFF, four million strips of a row', 'strips.tif',
         lambda p: tiff(p, {257: (4, 1, strips), 273: (4, strips, 4096), 278: (4, 1, 1), 279: (4, strips, 4096 + 4 * strips)},
                        content=struct.pack('<I', 1024) * strips + struct.pack('<I', 8) * strips)),
        ('PNG, ten million chunks without content', 'chunks.png', lambda p: png(p, chunk(b'aaAb', b'') * 10_000_000)),
        ('PNG, a profile that unpacks to 1 GiB', 'profile.png', lambda p: png(p, chunk(b'iCCP', b'a\0\0' + packed(1024 * MIB)))),
        ('PNG, XMP that unpacks to 16 MiB', 'xmp.png',
         lambda p: png(p, chunk(b'iTXt', b'XML:com.adobe.xmp\0\1\0\0\0' + packed(16 * MIB)))),
        ('PNG, EXIF of 40 MiB', 'exif.png', lambda p: png(p, chunk(b'eXIf', b'II*\0\x08\0\0\0' + bytes(40 * MIB)))),
        ('JPEG, ten million segments without content', 'segments.jpg', lambda p: jpeg(p, b'\xff\xe3\0\2' * 10_000_000)),
        ('JPEG, 1,000 segments of 64 KiB', 'data.jpg', lambda p: jpeg(p, (b'\xff\xe3\xff\xff' + bytes(65533)) * 1000)),
        ('WebP, ten million chunks without content', 'chunks.webp', lambda p: webp(p, riff(b'junk', b'') * 10_000_000)),
        ('WebP, EXIF of 40 MiB', 'exif.webp', lambda p: webp(p, riff(b'EXIF', b'II*\0\x08\0\0\0' + bytes(40 * MIB)), 8)),
        ('BMP, a profile of 60 MiB', 'profile.bmp', lambda p: bmp(p, 60 * MIB)),
    ]
    for what, name, make in made:
        make(at(name))
        yield what, at(name)


def measured(command, answer):
    ran = subprocess.run(command, capture_output=True, text=True)
    answer.put((resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss // 1024, ran.returncode))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('scratch', type=Path)
    parser.add_argument('--memory', default='256MiB')
    parser.add_argument('--histeqd', nargs='+', default=['target/release/histeqd'])
    given = parser.parse_args()
    # A child counts what its parent had when it began, so the parent must be a small one.
    multiprocessing.set_start_method('spawn')
    given.scratch.mkdir(parents=True, exist_ok=True)
    print('| Picture | file on disk, MiB |' + ' peak, MiB | outcome |' * len(given.histeqd))
    print('| --- | ---: |' + ' ---: | --- |' * len(given.histeqd))
    for what, path in pictures(given.scratch):
        row = f'| {what} | {path.stat().st_blocks * 512 / MIB:.1f} |'
        for binary in given.histeqd:
            answer = multiprocessing.Queue()
            command = [binary, path, '--out', given.scratch / 'out', '--memory', given.memory, '--devices', 'cpu',
                       '--overwrite', '--max-bytes', '4GiB', '--quiet']
            child = multiprocessing.Process(target=measured, args=(command, answer))
            child.start()
            peak, code = answer.get()
            child.join()
            row += f' {peak} | {"done" if code == 0 else "refused"} |'
        print(row, flush=True)
        os.remove(path)


if __name__ == '__main__':
    main()
