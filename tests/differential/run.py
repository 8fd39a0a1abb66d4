#!/usr/bin/env python3
"""Compares histeqd with independent readers and with the definition of the global method, over every file of some folders.

Every picture is written with `--strength 0` and compared with what tifffile, imagecodecs, pydicom (with Pillow, pylibjpeg, CharLS and GDCM),
netpbmfile, Pillow and ImageMagick (if it is installed) read of the input: that is decoding and encoding. Then it is equalized and compared with the
definition, applied to those samples. JPEGs are written as PNG, so that nothing is lost; other files in their own format. TIFFs are equalized again
with little memory, in bands. Masks of TIFFs and valid cloud-optimized GeoTIFFs have to stay so as GDAL (rasterio, rio-cogeo) sees them, and sidecars
beside any file have to be copied.

A line a finding: DIFFERS (a fault, exit 1), DISAGREE (the readers do not agree among themselves; histeqd is with some of them or with none), and with
--verbose also REFUSED (with the reason) and ALONE (no reader took it). known.tsv has what differs for a reason: name, what, reason.
"""

import argparse
import os
import sys
import tempfile
from collections import Counter, defaultdict
from concurrent.futures import ProcessPoolExecutor
from itertools import chain, combinations, repeat
from pathlib import Path

import numpy as np
import tifffile

import kept
from apart import apart
from equalized import equalized
from picture import difference
from readers import dataset, kind, read_output, readers_of
from runs import Runs

ROOT = Path(__file__).resolve().parents[2]
# The most files, and about the most bytes of files, that have outputs at a time in each process.
MOST, PART = 50, 8 << 20
# What a decoder may differ by where the format leaves the arithmetic open, in levels of 16 bits.
TOLERANCE = {'jpeg': 2 * 257, 'jxl': 257, 'jp2': 257}
# DICOM's transfer syntaxes with loss: JPEG, JPEG-LS, JPEG 2000.
LOSSY = {'1.2.840.10008.1.2.4.' + end for end in ('50', '51', '81', '91')}


def decoding(path, ours, theirs):
    """The finding of a comparison with all readers, in a word and in words."""
    if not theirs:
        return 'ALONE', 'no reader takes it'
    tolerance = allowed(path, ours)
    against = {name: difference(ours, picture, tolerance) for name, picture in theirs.items()}
    if not any(against.values()):
        return 'AGREES', ''
    disagree = any(difference(one, other, tolerance) for one, other in combinations(theirs.values(), 2))
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
    if kind(path) == 'dicom':
        data = dataset(path, stop_before_pixels=True)
        photometric, bits = data.get('PhotometricInterpretation'), data.get('BitsStored', 8)
        is_odd = bits > 8 or bits < data.BitsAllocated or bits == 1 or data.get('PixelRepresentation') == 1
        # Gray is spread over what there is, colours over all of their bits.
        limits = (0, 2**bits - 1) if data.get('SamplesPerPixel') == 3 else None
        padding = data.get('PixelPaddingValue')
        absent = None if padding is None else sorted([padding, data.get('PixelPaddingRangeLimit', padding)])
        return {'spread': is_odd and photometric != 'PALETTE COLOR', 'limits': limits, 'inverted': photometric == 'MONOCHROME1', 'absent': absent}
    if kind(path) == 'tiff':
        with tifffile.TiffFile(path) as file:
            tag, page = file.pages[0].tags.get('GDAL_NODATA'), file.pages[0].keyframe
            is_mapped = page.dtype is not None and (page.dtype.kind in 'if' or page.dtype.itemsize > 2)
            white_is_zero = 262 in page.tags and page.photometric == tifffile.PHOTOMETRIC.MINISWHITE
            return {'absent': [float(tag.value)] * 2 if tag else None, 'inverted': is_mapped and white_is_zero}
    return {}


def check(program, paths):
    """The findings of files of one kind: (path, what was compared, finding, in words)."""
    findings, banded = [], defaultdict(list)
    with tempfile.TemporaryDirectory() as folder:
        runs = Runs(program, kind(paths[0]), paths, folder)
        evens = runs.run('even', paths, '--strength', '0')
        plains = runs.run('plain', [path for path in paths if isinstance(evens[path], Path)], '--sidecars', 'copy')
        for path in paths:
            findings += named(path, 'decode', of_file(path, evens[path], plains.get(path), runs, banded))
        for memory, in_bands in banded.items():
            for path, outcome in runs.run(f'{memory}', in_bands, '--memory', f'{memory}').items():
                findings += named(path, 'bands', of_bands(outcome, plains[path]))
    return findings


def named(path, what, compared):
    """The findings of a path: of each comparison a finding in a word and in words, or only words of what differs, if anything does."""
    try:
        for what, why in compared:
            yield path, what, *(why if isinstance(why, tuple) else ('DIFFERS', why) if why else ('AGREES', ''))
            what = 'equalize'
    except Exception as error:
        yield path, what, 'DIFFERS', f'{type(error).__name__}: {error}'


def of_file(path, even, plain, runs, banded):
    """The comparisons of a file and its outputs. Adds a TIFF that is equalized well to those of its size."""
    if not isinstance(even, Path):
        yield 'decode', even
        return
    ours, calls = read_output(even), {name: (read, path) for name, read in readers_of(path).items()}
    of_gdal = {(what, of): (ask, of) for what, ask in (('mask', kept.mask_of), ('cog', kept.is_cog)) for of in (path, plain)}
    told = apart(calls | (of_gdal if kind(path) == 'tiff' else {}))
    theirs, mask = {name: told[name] for name in calls if name in told}, told.get(('mask', path))
    yield 'decode', decoding(path, ours, theirs)
    if not isinstance(plain, Path):
        yield 'equalize', ('DIFFERS', plain[1])
        return
    made = read_output(plain)
    # A mask beside a picture is copied, and hides nothing.
    hidden = mask is not None and not os.path.exists(f'{path}.msk') and mask == 0
    # Samples that are no levels come back as one of 65,536 values, so that the definition needs those of the file.
    samples = ours if ours.is_levels() or not theirs else next(iter(theirs.values()))
    why = difference(made, equalized(samples, kind(path) in ('png', 'gif', 'webp'), hidden=hidden, **traits(path)))
    yield 'equalize', why
    if kind(path) == 'tiff' and not why:
        # More than a quarter of the memory is read in bands. Powers of 2 give a run many files.
        banded[max(4 << 20, 1 << (sum(frame.nbytes for frame in made.frames) - 1).bit_length())].append(path)
    if mask is not None:
        yield 'mask', kept.of_mask(mask, told.get(('mask', plain)), hidden, ours, made)
    if ('cog', path) in told:
        yield 'cog', None if ('cog', plain) in told else 'not valid as the input is'
    if runs.sidecars[path]:
        yield 'sidecar', kept.of_sidecars(runs.copies(path, plain))


def of_bands(outcome, plain):
    if isinstance(outcome, Path):
        yield 'bands', difference(read_output(outcome), read_output(plain))
    elif 'REFUSED' not in outcome:
        yield 'bands', outcome


def known():
    lines = (line.split('\t') for line in (ROOT / 'tests/differential/known.tsv').read_text().splitlines()[1:])
    return {(name, what): reason for name, what, reason in lines}


def in_parts(paths):
    """Paths by their kind, in parts with not too many outputs. Those with large files come first, so that no process is the last for long."""
    parts, sizes = defaultdict(list), Counter()
    for path in paths:
        sizes[kind(path)] += os.path.getsize(path) + PART // MOST
        parts[kind(path), sizes[kind(path)] // PART].append(path)
    return sorted(parts.values(), key=lambda part: max(map(os.path.getsize, part)), reverse=True)


def main():
    corpus = Path(os.environ.get('HISTEQD_CORPUS', ROOT / '../shared/corpus'))
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('folder', nargs='*', type=Path, default=[corpus] if corpus.is_dir() else [ROOT / 'tests/data', ROOT / 'examples'],
                        help='(default: $HISTEQD_CORPUS or ../shared/corpus where that is there, else tests/data and examples)')
    parser.add_argument('--histeqd', default=str(ROOT / 'target/release/histeqd'), help='the program (default: %(default)s)')
    parser.add_argument('-v', '--verbose', action='store_true')
    options = parser.parse_args()
    found = sorted({str(path) for folder in options.folder for path in folder.rglob('*') if path.is_file() and kind(path)})
    excused, counts = known(), Counter()
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        for path, what, finding, words in chain.from_iterable(pool.map(check, repeat(options.histeqd), in_parts(found))):
            reason = excused.get((os.path.basename(path), what)) if finding == 'DIFFERS' else None
            finding = 'KNOWN' if reason else finding
            counts[what, finding] += 1
            if finding in ('DIFFERS', 'DISAGREE') or options.verbose and finding != 'AGREES':
                print(finding, what, path, reason or words, sep='\t', flush=True)
    print(f'{len(found)} files; ' + ', '.join(f'{what} {finding}: {count}' for (what, finding), count in sorted(counts.items())))
    return any(finding == 'DIFFERS' for _, finding in counts)


if __name__ == '__main__':
    sys.exit(main())
