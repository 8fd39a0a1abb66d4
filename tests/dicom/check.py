#!/usr/bin/env python3
"""Checks what histeqd makes of DICOM against readers that are not its own. usage: check.py [HISTEQD] [--table]

Over pydicom's test data (what it comes with, and its package of larger files) and tests/data/dicom: every file is done, left out or refused as
`fates.tsv` beside this says; dciodvfy (dicom3tools) finds no error in an output that the input did not have, and dcmconv (DCMTK) reads it; pydicom
reads the same frames, in which equal values stay equal and greater ones do not become less, and the same colours where nothing is changed; nothing
says any more that values have a unit; --window gives what pydicom's modality and VOI look-up tables give; slices of a series are in the order of their
places. --table writes fates.tsv anew.

needs: apt-get install dicom3tools dcmtk
       pip install pydicom==3.0.2 pydicom-data==1.0.0 numpy pillow pylibjpeg pylibjpeg-libjpeg pylibjpeg-openjpeg pyjpegls
"""
import glob, json, os, re, subprocess, sys, tempfile, warnings
import data_store
import numpy as np
import pydicom
from PIL import Image
from pydicom.data import get_testdata_file
from pydicom.dataset import Dataset, FileMetaDataset
from pydicom.pixels import apply_color_lut, apply_modality_lut, apply_voi_lut
from pydicom.sequence import Sequence
from pydicom.uid import ExplicitVRBigEndian, ExplicitVRLittleEndian, generate_uid

warnings.filterwarnings('ignore')
here = os.path.dirname(os.path.abspath(__file__))
flags = [argument for argument in sys.argv[1:] if argument.startswith('--')]
names = [argument for argument in sys.argv[1:] if not argument.startswith('--')]
HISTEQD = os.path.abspath(names[0] if names else 'target/release/histeqd')
FOLDERS = {
    'pydicom': os.path.dirname(get_testdata_file('CT_small.dcm')),
    'pydicom-data': os.path.join(os.path.dirname(data_store.__file__), 'data'),
    'own': os.path.join(here, '../data/dicom'),
}
# pydicom cannot decode these, or says that it does so differently: see docs/dicom.md.
# pydicom takes an extended table for one of frames that are one fragment each.
NOT_COMPARED = {'twelve.dcm', 'shifted.dcm', 'frames-extended.dcm'}
# Decoders may differ by a level.
LOSSY = {'1.2.840.10008.1.2.4.50', '1.2.840.10008.1.2.4.51', '1.2.840.10008.1.2.4.91'}
faults = []


def check(is_right, what):
    if not is_right:
        faults.append(what)
        print('FAIL', what)


def run(*arguments):
    done = subprocess.run([HISTEQD, *arguments, '--json', '--quiet'], capture_output=True, text=True)
    return json.loads(done.stdout)


def errors(path):
    told = subprocess.run(['dciodvfy', path], capture_output=True, text=True, errors='replace')
    lines = (told.stdout + told.stderr).splitlines()
    # Where it is within a file, and of which values, may differ.
    return {re.sub(r'<[0-9.]+>|0x[0-9a-f]+|[0-9]+', 'N', line) for line in lines if line.startswith('Error')}


def fate_of(path, out):
    """Runs histeqd; returns its fate, and the reason."""
    summary = run(path if '--named' in flags else os.path.dirname(path), '--include', glob.escape(os.path.basename(path)), '--out', out)
    if summary['done'] == 1:
        return 'done', ''
    if summary['failed']:
        return 'refused', re.sub(r'^page [0-9]+: ', '', summary['failed'][0]['error'])
    return 'left out', ', '.join(summary['skipped']).replace('-', ' ')


def no_claims(dataset, path):
    """Nothing says that values have a unit."""
    if 'RescaleSlope' in dataset or 'RescaleIntercept' in dataset:
        check(dataset.get('RescaleType') == 'US', f'{path}: RescaleType {dataset.get("RescaleType")}')
    check(dataset.get('Units', 'NONE') == 'NONE', f'{path}: Units')
    check(dataset.ImageType[0] == 'DERIVED', f'{path}: ImageType')
    for element in dataset.iterall():
        check(element.keyword != 'RealWorldValueMappingSequence', f'{path}: a mapping is left')
        if element.keyword == 'FrameType':
            check(element.value[0] == 'DERIVED', f'{path}: FrameType {element.value}')
        if element.keyword == 'PixelValueTransformationSequence':
            check(element.value[0].get('RescaleType') == 'US', f'{path}: RescaleType of frames')


def same_order(source, derived, path):
    """Equal values stay equal, and greater ones do not become less, in each frame of gray."""
    frames = zip(np.atleast_3d(source.T).T, np.atleast_3d(derived.T).T)
    for before, behind in frames:
        levels, places = np.unique(before, return_inverse=True)
        least, greatest = np.full(len(levels), np.inf), np.full(len(levels), -np.inf)
        np.minimum.at(least, places.ravel(), behind.ravel())
        np.maximum.at(greatest, places.ravel(), behind.ravel())
        check((least == greatest).all() and (np.diff(least) >= 0).all(), f'{path}: the order of values')


def same_colours(source, pixels, path, out):
    """Colours are those that pydicom reads, if nothing is changed; of YBR, which is rounded, but for a level."""
    check(run(path, '--out', out, '--strength', '0')['done'] == 1, f'{path}: unchanged')
    found = pydicom.dcmread(out).pixel_array
    if source.PhotometricInterpretation == 'PALETTE COLOR':
        if source.file_meta.TransferSyntaxUID == ExplicitVRBigEndian:
            # pydicom takes their words for little-endian ones, but for those of segmented tables.
            tables = [f'{colour}PaletteColorLookupTableData' for colour in ('Red', 'Green', 'Blue')]
            for table in (table for table in tables if table in source):
                setattr(source, table, np.frombuffer(source[table].value, '>u2').astype('<u2').tobytes())
        pixels = apply_color_lut(pixels, source)
        if found.dtype == np.uint8 and pixels.dtype != np.uint8:
            pixels = pixels // 256
    check(pixels.shape == found.shape, f'{path}: its shape')
    most = 1 if source.PhotometricInterpretation.startswith('YBR') else 0
    differs = np.abs(pixels.astype(int) - found.astype(int)).max()
    check(differs <= most, f'{path}: its colours differ by {differs}')


def read(path):
    dataset = pydicom.dcmread(path, force=True)
    if 'TransferSyntaxUID' not in dataset.file_meta:
        dataset.file_meta.TransferSyntaxUID = pydicom.uid.ImplicitVRLittleEndian
    return dataset


def compare(path, out):
    source = read(path)
    readable = path
    if source.file_meta.TransferSyntaxUID.is_deflated:
        # dciodvfy does not inflate.
        readable = out + '.inflated'
        subprocess.run(['dcmconv', '+te', path, readable], check=True)
    before, behind = errors(readable), errors(out)
    check(behind <= before, f'{path}: dciodvfy: {sorted(behind - before)}')
    converted = subprocess.run(['dcmconv', '+ti', out, out + '.converted'], capture_output=True, text=True)
    check(converted.returncode == 0, f'{path}: dcmconv: {converted.stderr.strip()[:200]}')
    derived = pydicom.dcmread(out)
    no_claims(derived, path)
    check(derived.get('SeriesInstanceUID') != source.get('SeriesInstanceUID') or 'SeriesInstanceUID' not in source, f'{path}: its series')
    check(derived.StudyInstanceUID == source.StudyInstanceUID if 'StudyInstanceUID' in source else True, f'{path}: its study')
    if os.path.basename(path) in NOT_COMPARED or source.file_meta.TransferSyntaxUID in LOSSY:
        return
    try:
        pixels = source.pixel_array
    except Exception as why:
        print('note', os.path.basename(path), 'is not read by pydicom:', str(why).splitlines()[0][:100])
        return
    if source.SamplesPerPixel > 1 or source.PhotometricInterpretation == 'PALETTE COLOR':
        return same_colours(source, pixels, path, out + '.unchanged.dcm')
    check(pixels.shape == derived.pixel_array.shape, f'{path}: its shape')
    if 'PixelPaddingValue' not in source:
        same_order(pixels, derived.pixel_array, path)


def made(values, **elements):
    dataset = Dataset()
    dataset.file_meta = FileMetaDataset()
    dataset.file_meta.TransferSyntaxUID = ExplicitVRLittleEndian
    dataset.SOPClassUID, dataset.SOPInstanceUID = '1.2.840.10008.5.1.4.1.1.2', generate_uid()
    dataset.StudyInstanceUID, dataset.SeriesInstanceUID, dataset.Modality = '1.2.3.1', '1.2.3.2', 'CT'
    dataset.Rows, dataset.Columns, dataset.SamplesPerPixel, dataset.PhotometricInterpretation = *values.shape, 1, 'MONOCHROME2'
    dataset.BitsAllocated, dataset.BitsStored, dataset.HighBit = 8 * values.itemsize, 8 * values.itemsize, 8 * values.itemsize - 1
    dataset.PixelRepresentation = int(values.dtype.kind == 'i')
    dataset.add_new('PixelData', 'OW', values.tobytes())
    for name, value in elements.items():
        setattr(dataset, name, value)
    return dataset


def table(first, entries, bits, signed=False):
    item = Dataset()
    item.add_new('LUTDescriptor', 'SS' if signed else 'US', [len(entries), first, bits])
    item.add_new('LUTData', 'US', [int(entry) for entry in entries])
    return Sequence([item])


def shown(dataset, place, window='auto'):
    """Returns the brightness of what histeqd shows."""
    path, out = os.path.join(place, 'shown.dcm'), os.path.join(place, 'shown.png')
    dataset.save_as(path, enforce_file_format=True)
    summary = run(path, '--out', out, '--overwrite', '--window', window, '--strength', '0')
    check(summary['done'] == 1, f'--window {window}: {summary["failed"]}')
    levels = np.asarray(Image.open(out)).astype(float)
    return levels / (255 if levels.max() <= 255 and Image.open(out).mode == 'L' else 65535)


def check_windows(place):
    words = (np.arange(64 * 48).reshape(48, 64) * 37 % 4096).astype('<u2')
    signed = (words.astype(int) - 2000).astype('<i2')
    window = dict(WindowCenter=['40', '300'], WindowWidth=['400', '900'], RescaleSlope='1', RescaleIntercept='-1024')
    curve = (np.sqrt(np.linspace(0, 1, 2000)) * 4095).astype('<u2')
    cases = {
        'linear': made(words, **window),
        'exact': made(words, VOILUTFunction='LINEAR_EXACT', **window),
        'sigmoid': made(words, VOILUTFunction='SIGMOID', **window),
        'signed': made(signed, WindowCenter='100', WindowWidth='1500'),
        'slope': made(words, RescaleSlope='0.25', RescaleIntercept='10', WindowCenter='500.5', WindowWidth='333.5'),
        'voi table': made(words, VOILUTSequence=table(500, curve, 12)),
        'negative table': made(words, VOILUTSequence=table(-800, curve, 12, signed=True), **window),
        'modality table': made(words, ModalityLUTSequence=table(100, curve, 16), WindowCenter='2000', WindowWidth='3000'),
        'bytes': made((words // 16).astype('u1'), WindowCenter='128', WindowWidth='100'),
    }
    cases['bytes']['PixelData'].VR = 'OB'
    for name, dataset in cases.items():
        for index in range(2 if name == 'linear' else 1):
            values = apply_modality_lut(dataset.pixel_array, dataset)
            wanted = apply_voi_lut(values, dataset, index=index).astype(float)
            if 'VOILUTSequence' in dataset:
                wanted = wanted / 4095
            else:
                # pydicom spreads over as many levels as the rescaled values may have.
                least, most = wanted_ends(dataset)
                wanted = (wanted - least) / (most - least)
            found = shown(dataset, place, str(index + 1) if name == 'linear' else 'auto')
            step = 255 if name == 'bytes' else 65535
            check(np.abs(found - wanted).max() <= 0.5 / step + 2e-5, f'--window, {name}: {np.abs(found - wanted).max()}')
    # The least value is white.
    inverse = made(words, **window)
    inverse.PhotometricInterpretation = 'MONOCHROME1'
    check(np.abs(shown(inverse, place) - (1 - shown(cases['linear'], place))).max() <= 2 / 65535, '--window, MONOCHROME1')
    given = shown(cases['linear'], place, '40,400')
    check((given == shown(cases['linear'], place, '1')).all(), '--window C,W')


def series(number, places, orientation=(1, 0, 0, 0, 1, 0), **elements):
    """Returns slices at these places along the normal of their orientation; they are of a series of this number."""
    normal = np.cross(orientation[:3], orientation[3:])
    for at, place in enumerate(places):
        slice = made(np.full((4, 4), at, '<u2'), InstanceNumber=len(places) - at, ImageOrientationPatient=[f'{part:.8g}' for part in orientation], **elements)
        slice.SeriesInstanceUID = f'1.2.3.{number}'
        if place is not None:
            slice.ImagePositionPatient = [f'{part:.6f}' for part in place * normal]
        yield slice


def check_order(place):
    """The files of a series are listed in the order of their places, or numbers."""
    random, folder = np.random.default_rng(3), os.path.join(place, 'series')
    os.mkdir(folder)
    oblique = np.array([0.8, 0.36, -0.48, 0, 0.8, 0.6])
    tilted = list(series(3, random.permutation(9) * 2.5))
    for slice in tilted:
        # Each slice begins elsewhere in its plane.
        slice.ImagePositionPatient = [-90, 40 - slice.ImagePositionPatient[2] / 3, slice.ImagePositionPatient[2]]
    unnumbered = list(series(6, [None] * 5))
    for slice in unnumbered:
        del slice.InstanceNumber
    all_series = [series(1, random.permutation(20) * 1.25 - 7), series(2, random.permutation(30) * 0.6, oblique), tilted,
                  series(4, np.repeat(random.permutation(6) * 3.0, 2)), series(5, [None, *random.permutation(6)]), unnumbered]
    slices = [slice for one in all_series for slice in one]
    wanted = {}
    for name, slice in zip(random.permutation(len(slices)), slices):
        path = os.path.join(folder, f'{name:03}.dcm')
        slice.save_as(path, enforce_file_format=True)
        wanted.setdefault(slice.SeriesInstanceUID, []).append((path, pydicom.dcmread(path)))
    found = run(folder, '--out', os.path.join(place, 'ordered'), '--together', 'series', '--dry-run')['would']
    check(len(found) == len(slices), f'--together series: {len(found)} of {len(slices)}')
    for uid, files in wanted.items():
        files.sort()
        if all('InstanceNumber' in slice for _, slice in files):
            files.sort(key=lambda file: file[1].InstanceNumber)
        if all('ImagePositionPatient' in slice for _, slice in files):
            normal = np.cross(*np.array(files[0][1].ImageOrientationPatient, float).reshape(2, 3))
            files.sort(key=lambda file: round(float(np.dot(normal, np.array(file[1].ImagePositionPatient, float))), 4))
        paths = [path for path, _ in files]
        check([one['input'] for one in found if one['input'] in paths] == paths, f'--together series: the order of {uid}')


def wanted_ends(dataset):
    """Returns the values that pydicom's windows bring black and white to."""
    if 'ModalityLUTSequence' in dataset:
        return 0, 65535
    bits, slope, intercept = dataset.BitsStored, float(dataset.get('RescaleSlope', 1)), float(dataset.get('RescaleIntercept', 0))
    low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if dataset.PixelRepresentation else (0, (1 << bits) - 1)
    return low * slope + intercept, high * slope + intercept


def main():
    fates = []
    with tempfile.TemporaryDirectory() as place:
        found = [(group, path) for group, folder in FOLDERS.items() for path in sorted(glob.glob(os.path.join(folder, '*.dcm')))]
        for group, path in found:
            out = os.path.join(place, group)
            fate, why = fate_of(path, out)
            fates.append(f'{group}\t{os.path.basename(path)}\t{fate}\t{why}')
            if fate == 'done':
                compare(path, os.path.join(out, os.path.basename(path)))
        check_windows(place)
        check_order(place)
    text = '\n'.join(fates) + '\n'
    expected = os.path.join(here, 'fates.tsv')
    if '--table' in flags:
        open(expected, 'w').write(text)
    for line in set(text.splitlines()) ^ set(open(expected).read().splitlines()):
        check(False, f'not as fates.tsv says: {line}')
    print(f'{len(found)} files, {len(faults)} faults')
    raise SystemExit(bool(faults))


main()
