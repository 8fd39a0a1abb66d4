#!/usr/bin/env python3
"""Compares histeqd with independent readers and with the definition of the global method, over every file of some folders.

    tests/differential/run.sh [--histeqd PROGRAM] [FOLDER...]        (run.sh makes the environment)

Every picture is written with `--strength 0` and compared with what tifffile, imagecodecs, pydicom, netpbmfile, Pillow and ImageMagick (if it is
installed) read of the input: that is decoding and encoding. Then it is equalized and compared with the definition, applied to those samples.
JPEGs are written as PNG, so that nothing is lost; other files in their own format. TIFFs are equalized again with little memory, in bands.

A line a finding: DIFFERS (a fault, exit 1), DISAGREE (the readers do not agree among themselves; histeqd is with some of them or with none), and with
--verbose also REFUSED (with the reason) and ALONE (no reader took it). known.tsv has what differs for a reason: name, what, reason.

Without a folder: $HISTEQD_CORPUS or ../shared/corpus where that is there, else tests/data and examples.
"""

import argparse
import multiprocessing
import os
import resource
import subprocess
import sys
import tempfile
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import numpy as np
import tifffile

from equalized import equalized
from picture import difference
from readers import dataset, kind, read_output, readers_of

ROOT = Path(__file__).resolve().parents[2]
FORK = multiprocessing.get_context('fork')
# What a reader may take, in seconds and bytes.
PATIENCE, MEMORY = 60, 4 << 30
# What a decoder may differ by where the format leaves the arithmetic open, in levels of 16 bits.
TOLERANCE = {'jpeg': 2 * 257, 'jxl': 257, 'jp2': 257}
# DICOM's transfer syntaxes with loss: JPEG, JPEG-LS, JPEG 2000.
LOSSY = {'1.2.840.10008.1.2.4.' + end for end in ('50', '51', '81', '91')}
SUFFIX = {'png': '.png', 'jpeg': '.png', 'tiff': '.tif', 'gif': '.gif', 'bmp': '.bmp', 'jxl': '.tif', 'jp2': '.tif', 'dicom': '.dcm', 'webp': '.webp',
          'pnm': '.pam', 'pfm': '.pfm'}


class Refused(Exception):
    """histeqd said no, and why."""


def histeqd(program, path, output, *flags):
    command = [program, path, '--out', output, '--no-config', '--devices', 'cpu', '--threads', '1', '--durability', 'fast', *flags]
    ran = subprocess.run(command, capture_output=True, text=True, errors='replace', timeout=300)
    if ran.returncode == 0 and os.path.exists(output):
        return read_output(output)
    if ran.returncode > 1 or 'panicked' in ran.stderr:
        raise RuntimeError(f'exit {ran.returncode}: {ran.stderr.strip()[:300]}')
    said = next((line for line in ran.stderr.splitlines() if line.strip()), 'skipped')
    raise Refused(said.removeprefix(f'failed: {path}: '))


def read_all(path):
    """What each reader makes of a file. One that fails, also by crashing, has no opinion."""
    pictures = {name: apart(read, path) for name, read in readers_of(path).items()}
    return {name: picture for name, picture in pictures.items() if picture is not None}


def apart(read, path):
    """What a reader returns, in a process of its own and within limits; None if it fails."""
    receiver, sender = FORK.Pipe(duplex=False)
    process = FORK.Process(target=send, args=(sender, read, path))
    process.start()
    sender.close()
    try:
        return receiver.recv() if receiver.poll(PATIENCE) else None
    except EOFError:
        return None
    finally:
        process.kill()
        process.join()


def send(sender, read, path):
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    # What libraries say of damaged files.
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
    try:
        sender.send(read(path))
    except Exception:
        sender.send(None)


def decoding(path, ours, theirs):
    """The finding of a comparison with all readers, in a word and in words."""
    if not theirs:
        return 'ALONE', 'no reader takes it'
    tolerance = allowed(path, ours)
    against = {name: difference(ours, picture, tolerance) for name, picture in theirs.items()}
    if not any(against.values()):
        return 'AGREES', ''
    names = list(theirs)
    disagree = any(difference(theirs[a], theirs[b], tolerance) for at, a in enumerate(names) for b in names[at + 1:])
    return 'DISAGREE' if disagree else 'DIFFERS', '; '.join(f'{name}: {why or "as histeqd"}' for name, why in against.items())


def allowed(path, ours):
    """What two pictures may differ by."""
    if not ours.is_levels():
        return step(ours)
    if kind(path) == 'dicom' and dataset(path, stop_before_pixels=True).file_meta.TransferSyntaxUID in LOSSY:
        return 257 if ours.frames[0].dtype == np.uint8 else 1
    return TOLERANCE.get(kind(path), 0)


def step(picture):
    """By how much samples that are no levels may differ: half a level and the rounding to their type."""
    samples = np.concatenate([frame[np.isfinite(frame)].ravel() for frame in picture.opaque()])
    if samples.size == 0:
        return 0
    rounding = 0.5 if samples.dtype.kind in 'iu' else float(np.spacing(np.abs(samples).max()))
    return (float(samples.max()) - float(samples.min())) / 65535 * 0.51 + rounding


def traits(path):
    """What the definition has to know of a file besides its samples."""
    what = kind(path)
    if what == 'dicom':
        data = dataset(path, stop_before_pixels=True)
        photometric = data.get('PhotometricInterpretation')
        bits = data.get('BitsStored', 8)
        has_other_bits = bits > 8 or bits < data.BitsAllocated or bits == 1 or data.get('PixelRepresentation') == 1
        has_other_bits &= photometric != 'PALETTE COLOR'
        # Gray is spread over what there is, colours over all of their bits.
        limits = (0, 2**bits - 1) if data.get('SamplesPerPixel') == 3 else None
        padding = data.get('PixelPaddingValue')
        absent = None if padding is None else sorted([padding, data.get('PixelPaddingRangeLimit', padding)])
        return {'spread': has_other_bits, 'limits': limits, 'inverted': photometric == 'MONOCHROME1', 'absent': absent}
    if what == 'tiff':
        with tifffile.TiffFile(path) as file:
            tag, page = file.pages[0].tags.get('GDAL_NODATA'), file.pages[0].keyframe
            is_mapped = page.dtype is not None and (page.dtype.kind in 'if' or page.dtype.itemsize > 2)
            white_is_zero = 262 in page.tags and page.photometric == tifffile.PHOTOMETRIC.MINISWHITE
            return {'absent': [float(tag.value)] * 2 if tag else None, 'inverted': is_mapped and white_is_zero}
    return {}


def check(task):
    """The findings of a file: (what was compared, finding, in words)."""
    program, path = task
    with tempfile.TemporaryDirectory() as folder:
        suffix = SUFFIX[kind(path)]
        try:
            ours = histeqd(program, path, f'{folder}/a{suffix}', '--strength', '0')
        except Refused as why:
            return path, [('decode', 'REFUSED', str(why))]
        except Exception as error:
            return path, [('decode', 'DIFFERS', f'{type(error).__name__}: {error}')]
        theirs = read_all(path)
        findings = [('decode', *decoding(path, ours, theirs))]
        try:
            together = kind(path) in ('png', 'gif', 'webp')
            # Samples that are no levels come back as one of 65,536 values, so that the definition needs those of the file.
            samples = ours if ours.is_levels() or not theirs else next(iter(theirs.values()))
            wanted = equalized(samples, together, **traits(path))
            why = difference(histeqd(program, path, f'{folder}/b{suffix}'), wanted)
            findings.append(('equalize', 'DIFFERS' if why else 'AGREES', why or ''))
            if kind(path) == 'tiff' and not why:
                findings += in_bands(program, path, folder, wanted)
        except Exception as error:
            findings.append(('equalize', 'DIFFERS', f'{type(error).__name__}: {error}'))
        return path, findings


def in_bands(program, path, folder, wanted):
    """The finding for a TIFF with so little memory that it is read in bands, if it can be."""
    memory = max(4 << 20, sum(frame.nbytes for frame in wanted.frames))
    try:
        why = difference(histeqd(program, path, f'{folder}/c.tif', '--memory', str(memory)), wanted)
    except Refused:
        return []
    return [('bands', 'DIFFERS' if why else 'AGREES', why or '')]


def known():
    lines = (line.split('\t') for line in (ROOT / 'tests/differential/known.tsv').read_text().splitlines()[1:])
    return {(name, what): reason for name, what, reason in lines}


def folders(named):
    corpus = Path(os.environ.get('HISTEQD_CORPUS', ROOT / '../shared/corpus'))
    return named or ([corpus] if corpus.is_dir() else [ROOT / 'tests/data', ROOT / 'examples'])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('folder', nargs='*', type=Path)
    parser.add_argument('--histeqd', default=str(ROOT / 'target/release/histeqd'), help='the program (default: %(default)s)')
    parser.add_argument('-v', '--verbose', action='store_true')
    options = parser.parse_args()
    found = sorted({path for folder in folders(options.folder) for path in folder.rglob('*') if path.is_file() and kind(path)})
    excused, counts = known(), Counter()
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        for path, findings in pool.map(check, ((options.histeqd, str(path)) for path in found)):
            for what, finding, words in findings:
                reason = excused.get((os.path.basename(path), what)) if finding == 'DIFFERS' else None
                finding = 'KNOWN' if reason else finding
                counts[what, finding] += 1
                if finding in ('DIFFERS', 'DISAGREE') or options.verbose and finding != 'AGREES':
                    print(finding, what, path, reason or words, sep='\t', flush=True)
    print(f'{len(found)} files; ' + ', '.join(f'{what} {finding}: {count}' for (what, finding), count in sorted(counts.items())))
    return any(finding == 'DIFFERS' for _, finding in counts)


if __name__ == '__main__':
    sys.exit(main())
