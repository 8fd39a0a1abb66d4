#!/usr/bin/env python3
"""Copies pydicom's pictures, makes the others of them, and writes what pydicom and OpenCV make of each. usage: make.py

expected.tsv: a line a file: name, width, height, samples of a pixel, bytes of a sample, CRC-32 of the stored samples, little-endian.
Luma and chroma are converted to RGB, and palettes applied. equalized/NAME.pgm: gray pictures made ready for training: MONOCHROME1 inverted, spread over all levels
of their samples from the least to the greatest value, equalized (8 bits by OpenCV), and then rounded to 8 bits.

needs: pip install pydicom==3.0.2 pylibjpeg[all] pyjpegls python-gdcm opencv-python-headless numpy
"""
import os, shutil, struct, warnings, zlib
import cv2
import numpy as np
import pydicom
from pydicom.data import get_testdata_file
from pydicom.encaps import encapsulate
from pydicom.pixels import apply_color_lut
from pydicom.uid import (DeflatedExplicitVRLittleEndian, ExplicitVRLittleEndian, ImplicitVRLittleEndian, JPEGLSLossless,
                         JPEGLSNearLossless)

warnings.filterwarnings('ignore')
os.chdir(os.path.dirname(os.path.abspath(__file__)))

COPIED = {
    'mr.dcm': 'MR_small.dcm', 'mr-rle.dcm': 'MR_small_RLE.dcm', 'mr-big-endian.dcm': 'MR_small_bigendian.dcm',
    'mr-implicit.dcm': 'MR_small_implicit.dcm', 'mr-jpeg-2000.dcm': 'MR_small_jp2klossless.dcm',
    'mr-jpeg-ls.dcm': 'MR_small_jpeg_ls_lossless.dcm', 'mr-padded.dcm': 'MR_small_padded.dcm',
    'near-8.dcm': 'JPEGLSNearLossless_08.dcm', 'near-16.dcm': 'JPEGLSNearLossless_16.dcm',
    'near-line.dcm': 'SC_rgb_jls_lossy_line.dcm', 'near-sample.dcm': 'SC_rgb_jls_lossy_sample.dcm',
    'rgb-rle-16.dcm': 'SC_rgb_rle_16bit.dcm', 'odd.dcm': 'SC_rgb_small_odd.dcm',
    'odd-big-endian.dcm': 'SC_rgb_small_odd_big_endian.dcm', 'odd-jpeg.dcm': 'SC_rgb_small_odd_jpeg.dcm',
    'jpeg-422.dcm': 'SC_rgb_dcmtk_+eb+cy+s2.dcm', 'jpeg-rgb.dcm': 'SC_rgb_dcmtk_+eb+cr.dcm',
    'dose.dcm': 'rtdose_1frame.dcm', 'dose-big-endian.dcm': 'rtdose_expb_1frame.dcm', 'dose-rle.dcm': 'rtdose_rle_1frame.dcm',
    'frames-rle.dcm': 'SC_rgb_rle_16bit_2frame.dcm',
}
EQUALIZED = ['mr.dcm', 'mono1-10.dcm', 'shifted.dcm', 'signed-8.dcm', 'near-16.dcm', 'lossless.dcm']


def base(photometric, allocated, stored, pixels, signed=0, high=None, syntax=ExplicitVRLittleEndian):
    """Returns a small secondary capture."""
    picture = pydicom.Dataset()
    picture.SOPClassUID, picture.SOPInstanceUID = '1.2.840.10008.5.1.4.1.1.7', '1.2.826.0.1.3680043.8.498.1'
    picture.PatientName, picture.PatientID, picture.Modality = 'Made^By', 'make.py', 'OT'
    picture.StudyInstanceUID, picture.SeriesInstanceUID = '1.2.826.0.1.3680043.8.498.2', '1.2.826.0.1.3680043.8.498.3'
    picture.Rows, picture.Columns = pixels.shape[:2]
    picture.SamplesPerPixel = 3 if photometric == 'RGB' or photometric.startswith('YBR') else 1
    picture.PhotometricInterpretation = photometric
    if picture.SamplesPerPixel == 3:
        picture.PlanarConfiguration = 0
    picture.BitsAllocated, picture.BitsStored, picture.PixelRepresentation = allocated, stored, signed
    picture.HighBit = stored - 1 if high is None else high
    picture.file_meta = pydicom.dataset.FileMetaDataset()
    picture.file_meta.TransferSyntaxUID = syntax
    picture.file_meta.MediaStorageSOPClassUID = picture.SOPClassUID
    picture.file_meta.MediaStorageSOPInstanceUID = picture.SOPInstanceUID
    data = pixels.tobytes()
    picture.PixelData = data + b'\0' * (len(data) % 2)
    picture['PixelData'].VR = 'OW' if allocated > 8 else 'OB'
    return picture


def save(picture, name):
    picture.save_as(name, enforce_file_format=True)


def lossless(source, name, syntax):
    import gdcm
    reader = gdcm.ImageReader()
    reader.SetFileName(source)
    assert reader.Read()
    change = gdcm.ImageChangeTransferSyntax()
    change.SetTransferSyntax(gdcm.TransferSyntax(syntax))
    change.SetInput(reader.GetImage())
    assert change.Change()
    writer = gdcm.ImageWriter()
    writer.SetFileName(name)
    writer.SetFile(reader.GetFile())
    writer.SetImage(change.GetOutput())
    assert writer.Write()


def make(mr):
    import gdcm
    import jpeg_ls
    ten = (mr.astype(int)[8:40, 8:48] * 1023 // 2145).astype('<u2')
    mono1 = base('MONOCHROME1', 16, 10, ten)
    mono1.WindowCenter, mono1.WindowWidth = 500, 900
    mono1.SmallestImagePixelValue, mono1.LargestImagePixelValue = 0, 1023
    mono1.RescaleIntercept, mono1.RescaleSlope, mono1.RescaleType = 0, 1, 'US'
    mono1.ImageType = ['ORIGINAL', 'PRIMARY', 'LEFT']
    mono1.add_new(0x00110010, 'LO', 'KEPT')
    mono1.add_new(0x00111001, 'OB', b'\1\2\3\4')
    mono1.preamble = b'II*\0\x08\0\0\0' + bytes(120)
    save(mono1, 'mono1-10.dcm')
    save(base('MONOCHROME2', 16, 12, (ten << 6 | 9).astype('<u2'), high=15), 'shifted.dcm')
    save(base('MONOCHROME2', 16, 10, (ten | 0x5400).astype('<u2')), 'bits-above.dcm')
    save(base('MONOCHROME2', 8, 8, (ten // 4 - 128).astype('i1'), signed=1), 'signed-8.dcm')
    save(base('MONOCHROME2', 8, 6, (ten // 16).astype('u1')), 'six.dcm')
    bits = base('MONOCHROME2', 1, 1, ten[:, :37])
    bits.PixelData = np.packbits((ten[:, :37] > 300).ravel(), bitorder='little').tobytes()
    save(bits, 'bits.dcm')
    twelve = base('MONOCHROME2', 12, 12, ten)
    pairs = (ten.astype('<u4') * 4).reshape(-1, 2)
    words = pairs[:, 0] | pairs[:, 1] << 12
    twelve.PixelData = words.astype('<u4').view('u1').reshape(-1, 4)[:, :3].tobytes()
    save(twelve, 'twelve.dcm')
    gray = (ten // 4).astype('u1')
    colours = np.dstack([gray, 255 - gray, gray // 2])
    planes = base('RGB', 8, 8, colours)
    planes.PlanarConfiguration, planes.PixelData = 1, colours.transpose(2, 0, 1).tobytes()
    save(planes, 'planes.dcm')
    save(base('RGB', 16, 12, (colours.astype('<u2') << 4)), 'rgb-12.dcm')
    save(base('YBR_FULL', 8, 8, colours), 'ybr.dcm')
    shared = base('YBR_FULL_422', 8, 8, colours)
    pairs = colours.reshape(32, 20, 2, 3)
    shared.PixelData = np.stack([pairs[:, :, 0, 0], pairs[:, :, 1, 0], pairs[:, :, 0, 1], pairs[:, :, 0, 2]], -1).tobytes()
    save(shared, 'ybr-422.dcm')
    for bits in (8, 16):
        palette = base('PALETTE COLOR', 8, 8, gray)
        kind = '<u2' if bits == 16 else 'u1'
        for channel, name in enumerate(('Red', 'Green', 'Blue')):
            table = (np.arange(200) * (channel + 1) * (321 if bits == 16 else 1) % (1 << bits)).astype(kind)
            setattr(palette, name + 'PaletteColorLookupTableDescriptor', [200, 20, bits])
            setattr(palette, name + 'PaletteColorLookupTableData', table.tobytes())
        save(palette, f'palette-{bits}.dcm')
    padded = base('MONOCHROME2', 16, 16, np.where(ten > 600, -2000, ten).astype('<i2'), signed=1)
    padded.PixelPaddingValue = -2000
    save(padded, 'padding.dcm')
    save(base('MONOCHROME2', 16, 10, ten, syntax=DeflatedExplicitVRLittleEndian), 'deflated-10.dcm')
    bare = base('MONOCHROME2', 16, 10, ten, syntax=ImplicitVRLittleEndian)
    save(bare, 'bare.dcm')
    with open('bare.dcm', 'rb') as file:
        whole = file.read()
    length = struct.unpack('<I', whole[140:144])[0]
    with open('bare.dcm', 'wb') as file:
        file.write(whole[144 + length:])
    for name, data, bits, near, mode in (('ls-12', ten * 4, 12, 0, 0), ('ls-near-10', ten, 10, 3, 0),
                                         ('ls-planes', colours, 8, 0, 0), ('ls-lines', colours, 8, 0, 1), ('ls-samples', colours, 8, 2, 2)):
        stored = data.astype('<u2') if bits > 8 else data
        syntax = JPEGLSNearLossless if near else JPEGLSLossless
        picture = base('RGB' if data.ndim == 3 else 'MONOCHROME2', 16 if bits > 8 else 8, bits, stored, syntax=syntax)
        planes = stored.transpose(2, 0, 1) if mode == 0 and data.ndim == 3 else stored
        stream = jpeg_ls.encode_array(np.ascontiguousarray(planes), lossy_error=near, interleave_mode=mode)
        picture.PixelData = encapsulate([bytes(stream)])
        picture['PixelData'].is_undefined_length = True
        save(picture, name + '.dcm')
    lossless('mono1-10.dcm', 'lossless.dcm', gdcm.TransferSyntax.JPEGLosslessProcess14_1)
    lossless('mr.dcm', 'mr-lossless.dcm', gdcm.TransferSyntax.JPEGLosslessProcess14)
    make_odd_ones(ten, gray)
    frames = base('MONOCHROME2', 16, 10, ten)
    frames.NumberOfFrames, frames.PixelData = 3, np.stack([ten, ten[::-1], ten // 2]).tobytes()
    save(frames, 'frames.dcm')


def make_odd_ones(ten, gray):
    """Writes what is valid, and rarely seen."""
    import jpeg_ls
    for bits in (8, 16):
        palette = base('PALETTE COLOR', 8, 8, gray)
        top = (1 << bits) - 1
        # Some of a list, a line, both once more from the start on, and a line down; 200 entries.
        segments = [0, 3, 5, 9, 7, 1, 57, top // 2, 2, 2, 0, 0] + ([0, 0] if bits == 8 else []) + [1, 80, 3]
        for channel, name in enumerate(('Red', 'Green', 'Blue')):
            segments[2] = 5 + channel
            setattr(palette, name + 'PaletteColorLookupTableDescriptor', [200, 20, bits])
            data = np.array(segments, '<u2' if bits == 16 else 'u1').tobytes()
            setattr(palette, 'Segmented' + name + 'PaletteColorLookupTableData', data + b'\0' * (len(data) % 2))
        save(palette, f'segments-{bits}.dcm')
    # Padding on either side of the values, in either order, with and without a sign, and where the least value is white.
    for name, photometric, signed, value, limit in (('below', 'MONOCHROME2', 1, -2000, -1500), ('above', 'MONOCHROME1', 0, 3000, 2500)):
        sign = -1 if signed else 1
        rim = sign * (np.arange(ten.size).reshape(ten.shape) % 500) + (-1501 if signed else 2500)
        padded = base(photometric, 16, 16, np.where(ten > 600, rim, ten).astype('<i2' if signed else '<u2'), signed=signed)
        padded.add_new(0x00280120, 'SS' if signed else 'US', value)
        padded.add_new(0x00280121, 'SS' if signed else 'US', limit)
        save(padded, f'padding-{name}.dcm')
    stream = jpeg_ls.encode_array(np.ascontiguousarray(ten * 4).astype('<u2'), lossy_error=0, interleave_mode=0)
    wide = base('MONOCHROME2', 16, 10, ten, syntax=JPEGLSLossless)
    wide.PixelData = encapsulate([bytes(stream)])
    wide['PixelData'].is_undefined_length = True
    save(wide, 'refused-12-in-10.dcm')
    frames = [ten, ten[::-1], ten // 2]
    streams = [bytes(jpeg_ls.encode_array(np.ascontiguousarray(frame).astype('<u2'), lossy_error=0, interleave_mode=0)) for frame in frames]
    for name, has_table in (('frames-pieces', False), ('frames-extended', True)):
        pieces = base('MONOCHROME2', 16, 10, ten, syntax=JPEGLSLossless)
        pieces.NumberOfFrames = 3
        items, offsets = [], []
        for number, stream in enumerate(streams):
            stream += b'\0' * (len(stream) % 2)
            offsets.append(sum(8 + len(item) for item in items))
            cuts = [0] + [len(stream) // (number + 2) // 2 * 2 * cut for cut in range(1, number + 2)] + [len(stream)]
            items += [stream[start:end] for start, end in zip(cuts, cuts[1:])]
        pieces.PixelData = b''.join(b'\xfe\xff\x00\xe0' + struct.pack('<I', len(item)) + item for item in [b''] + items)
        pieces['PixelData'].is_undefined_length = True
        if has_table:
            pieces.add_new(0x7fe00001, 'OV', struct.pack('<3Q', *offsets))
            pieces.add_new(0x7fe00002, 'OV', struct.pack('<3Q', *map(len, streams)))
        save(pieces, name + '.dcm')
    bits = base('MONOCHROME2', 1, 1, ten[:9, :11])
    planes = np.stack([ten[:9, :11] > 300, ten[9:18, :11] > 200, ten[18:27, :11] > 100])
    packed = np.packbits(planes.ravel(), bitorder='little').tobytes()
    bits.NumberOfFrames, bits.PixelData = 3, packed + b'\0' * (len(packed) % 2)
    save(bits, 'frames-bits.dcm')


def equalized(levels):
    """Equalization of 65,536 levels by the book, rounded to 8 bits."""
    counts = np.bincount(levels.ravel(), minlength=65536)
    first = counts[np.flatnonzero(counts)[0]]
    divisor = levels.size - first
    table = (2 * (np.cumsum(counts) - first).clip(0) * 65535 + divisor) // (2 * divisor)
    return ((table[levels] * 255 + 32767) // 65535).astype('u1')


def stored(name):
    picture = pydicom.dcmread(name, force=True)
    if 'TransferSyntaxUID' not in picture.file_meta:
        picture.file_meta.TransferSyntaxUID = ImplicitVRLittleEndian
    if picture.BitsAllocated == 12:
        # pydicom reads no packed samples. Those of the other file are the same.
        return picture, stored('ls-12.dcm')[1]
    pixels = picture.pixel_array
    if picture.PhotometricInterpretation == 'PALETTE COLOR':
        pixels = apply_color_lut(pixels, picture)
        pixels = pixels.astype('u1') if name == 'palette-8.dcm' else pixels
    shift = picture.HighBit + 1 - picture.BitsStored if 'HighBit' in picture else 0
    if shift > 0:
        # pydicom takes the lowest bits wherever the sample is.
        pixels = np.frombuffer(picture.PixelData, '<u2').reshape(pixels.shape) >> shift
    return picture, pixels.astype(pixels.dtype.newbyteorder('<'))


if __name__ == '__main__':
    for name, source in COPIED.items():
        shutil.copyfile(get_testdata_file(source), name)
        if name.startswith('dose'):
            # Doses are no pictures; images of the same radiotherapy have a class of as many letters.
            with open(name, 'rb') as file:
                content = file.read()
            with open(name, 'wb') as file:
                file.write(content.replace(b'1.2.840.10008.5.1.4.1.1.481.2', b'1.2.840.10008.5.1.4.1.1.481.1'))
    make(pydicom.dcmread('mr.dcm').pixel_array)
    with open('expected.tsv', 'w') as table:
        for name in sorted(os.listdir('.')):
            if not name.endswith('.dcm') or name.startswith(('frames', 'refused')):
                continue
            picture, pixels = stored(name)
            if np.ptp(pixels.astype(float)) > 65535:
                continue  # more values than there are levels
            samples = 1 if pixels.ndim == 2 else 3
            crc = zlib.crc32(pixels.tobytes())
            table.write(f'{name}\t{picture.Columns}\t{picture.Rows}\t{samples}\t{pixels.itemsize}\t{crc:08x}\n')
    os.makedirs('equalized', exist_ok=True)
    for name in EQUALIZED:
        picture, pixels = stored(name)
        pixels = pixels.astype(float)
        if picture.PhotometricInterpretation == 'MONOCHROME1':
            pixels = pixels.max() - pixels
        deep = picture.BitsAllocated > 8
        top = 65535 if deep else 255
        spread = np.floor((pixels - pixels.min()) / (pixels.max() - pixels.min()) * top + 0.5).astype('i8')
        eight = equalized(spread) if deep else cv2.equalizeHist(spread.astype('u1'))
        cv2.imwrite('equalized/' + name.replace('.dcm', '.pgm'), eight)
