"""Readers that share no code with histeqd. Each takes a path and returns a Picture, None if the file is not for it, or raises.

They return what histeqd promises (docs/formats.md): fewer than 8 bits become 8, 9 to 15 become 16, palettes and inks become RGB.
"""

import logging
import shutil
import subprocess
import warnings
from functools import partial

import imagecodecs
import netpbmfile
import numpy as np
import pydicom
import tifffile
from PIL import Image, ImageSequence
from pydicom.uid import ExplicitVRBigEndian, ImplicitVRLittleEndian, RLELossless

from picture import Picture, spread_over_bytes, to_whole_bytes

warnings.simplefilter('ignore')
logging.disable()
Image.MAX_IMAGE_PIXELS = None
# Decoders are loaded when first used: here for all processes, or else in each, which takes longer than a small file.
Image.init()
[getattr(imagecodecs, name) for name in dir(imagecodecs)]
DICOM_DECODERS = 'pillow', 'pylibjpeg', 'pyjpegls', 'gdcm'
MAGICK = shutil.which('magick') or shutil.which('convert')


def kind(path):
    """The format by the first bytes."""
    with open(path, 'rb') as file:
        head = file.read(4096)
    marks = {b'\x89PNG': 'png', b'\xff\xd8\xff': 'jpeg', b'II*\0': 'tiff', b'MM\0*': 'tiff', b'II+\0': 'tiff', b'MM\0+': 'tiff', b'GIF8': 'gif',
             b'BM': 'bmp', b'\xff\x0a': 'jxl', b'\0\0\0\x0cJXL ': 'jxl', b'\xff\x4f\xff\x51': 'jp2', b'\0\0\0\x0cjP  ': 'jp2'}
    if head[128:132] == b'DICM':
        return 'dicom'
    if head[:4] == b'RIFF' and head[8:12] == b'WEBP':
        return 'webp'
    if head[:1] == b'P' and head[1:2] in b'1234567Ff' and head[2:3].isspace():
        return 'pfm' if head[1:2] in b'Ff' else 'pnm'
    # DICOM may lack a preamble.
    return next((name for mark, name in marks.items() if head.startswith(mark)), 'dicom' if str(path).endswith('.dcm') else None)


def with_pillow(path):
    image = Image.open(path)
    frames = []
    for number, frame in enumerate(ImageSequence.Iterator(image)):
        if not (number == 0 and getattr(image, 'default_image', False)):
            frames.append(of_pillow(frame))
    if any(frame is None for frame in frames) or kind(path) == 'tiff' and len(frames) > 1:
        return None
    most = max(frame.shape[2] for frame in frames)
    return Picture.of([frame if frame.shape[2] == most else as_rgba(frame) for frame in frames])


def depth(image):
    """The bits of a sample of an image of Pillow, 8 where it does not tell."""
    if image.format == 'PNG':
        with open(image.filename, 'rb') as file:
            return file.read(25)[24]
    return max(image.tag_v2.get(258, (8,))) if image.format == 'TIFF' else 8


def of_pillow(image):
    """The samples; None where Pillow cannot deliver them whole: colours of 16 bits, transparent levels of other depths than 8, inks with a profile."""
    mode, bits = image.mode, depth(image)
    if mode.startswith(('RGB', 'LA', 'CMYK')) and bits > 8 or mode in ('1', 'L', 'I', 'I;16') and 'transparency' in image.info and bits != 8:
        return None
    if mode in ('L', 'I;16', 'I') and 8 < bits < 16 or mode == 'CMYK' and 'icc_profile' in image.info:
        return None
    if mode in ('1', 'P', 'PA', 'CMYK', 'YCbCr') or 'transparency' in image.info:
        transparent = 'transparency' in image.info or mode == 'PA'
        mode = 'L' if mode == '1' and not transparent else 'RGBA' if transparent else 'RGB'
        image = image.convert(mode)
    if mode == 'I' and image.format == 'PNG':
        mode = 'I;16'
    if mode not in ('L', 'LA', 'RGB', 'RGBA', 'I;16', 'I;16B', 'I;16L'):
        return None
    samples = np.asarray(image)
    return samples.astype(np.uint16 if mode.startswith('I') else np.uint8).reshape(*samples.shape[:2], -1)


def as_rgba(frame):
    return np.asarray(Image.fromarray(frame.squeeze()).convert('RGBA'))


def with_tifffile(path):
    with tifffile.TiffFile(path) as file:
        pages = list(file.pages)
        pages = [page for page in pages if not (page.keyframe.subfiletype & 5 and len(pages) > 1)]
        parts = [of_page(page, file.is_imagej) for page in pages]
    if any(part is None for part in parts):
        return None
    parts = [channel for part in parts for channel in channels_of(*part)]
    return Picture([frame for frame, _, _ in parts], *parts[0][1:])


def channels_of(samples, colours, alpha):
    """A page, or each of its channels if they are no colours, which are pages of their own."""
    if colours > 1 or alpha:
        return [(samples, colours, alpha)]
    return [(samples[..., at:at + 1], 1, False) for at in range(samples.shape[2])]


def of_page(page, is_imagej):
    """The samples of a page, how many of them are colours, and whether alpha is next; None if they need more than a definition."""
    keyframe, samples = page.keyframe, page.asarray()
    photometric, bits = keyframe.photometric, keyframe.bitspersample
    if keyframe.planarconfig == 2 and keyframe.samplesperpixel > 1:
        samples = np.moveaxis(samples, 0, -1)
    samples = samples.reshape(keyframe.imagelength, keyframe.imagewidth, -1)
    is_unsigned = samples.dtype.kind in 'ub' and samples.dtype.itemsize <= 2
    extra = [int(sample) for sample in keyframe.extrasamples]
    if 1 in extra or isinstance(bits, tuple) and len(set(bits)) > 1 or samples.dtype.kind == 'c' or keyframe.imagedepth > 1:
        return None
    bits = bits[0] if isinstance(bits, tuple) else bits
    if 262 not in keyframe.tags:
        photometric = {1: tifffile.PHOTOMETRIC.MINISBLACK, 3: tifffile.PHOTOMETRIC.RGB}.get(samples.shape[2])
    colours = {tifffile.PHOTOMETRIC.RGB: 3, tifffile.PHOTOMETRIC.YCBCR: 3}.get(photometric, 1)
    if photometric == tifffile.PHOTOMETRIC.PALETTE and not is_imagej:
        palette = np.asarray(keyframe.colormap)
        samples = np.dstack([np.moveaxis(palette[:, samples[..., 0]], 0, -1), samples[..., 1:].astype(np.uint16)])
        samples, colours = (samples if bits > 8 else (samples >> 8).astype(np.uint8)), 3
    elif photometric in (tifffile.PHOTOMETRIC.MINISWHITE, tifffile.PHOTOMETRIC.MINISBLACK, tifffile.PHOTOMETRIC.RGB, tifffile.PHOTOMETRIC.PALETTE):
        if is_unsigned:
            samples = to_whole_bytes(samples, bits)
        if photometric == tifffile.PHOTOMETRIC.MINISWHITE and is_unsigned:
            samples, gray = samples.copy(), 1 if 2 in extra else samples.shape[2]
            samples[..., :gray] = np.iinfo(samples.dtype).max - samples[..., :gray]
    elif photometric == tifffile.PHOTOMETRIC.SEPARATED and is_unsigned and samples.shape[2] >= 4 and 34675 not in keyframe.tags:
        samples, colours = np.dstack([without_inks(samples[..., :4]), samples[..., 4:]]), 3
    elif not (photometric == tifffile.PHOTOMETRIC.YCBCR and keyframe.compression in (6, 7) and samples.dtype == np.uint8):
        return None
    if 2 in extra:
        # Alpha may lie behind other channels.
        at = samples.shape[2] - len(extra) + extra.index(2)
        samples = np.dstack([samples[..., :colours], samples[..., at:at + 1], samples[..., colours:at], samples[..., at + 1:]])
    return samples, colours, 2 in extra


def without_inks(inks):
    """Each ink holds back one colour, and black all of them."""
    most = int(np.iinfo(inks.dtype).max)
    light = most - inks.astype(np.int64)
    return ((2 * light[..., :3] * light[..., 3:] + most) // (2 * most)).astype(inks.dtype)


def is_animated(path):
    with open(path, 'rb') as file:
        data = file.read()
    return kind(path) == 'gif' or b'acTL' in data or b'ANMF' in data


def with_imagecodecs(path):
    decode = {'png': imagecodecs.png_decode, 'jpeg': of_jpeg, 'webp': imagecodecs.webp_decode, 'jxl': of_jxl,
              'jp2': of_jpeg2000, 'bmp': imagecodecs.bmp_decode}[kind(path)]
    if is_animated(path):
        return None
    with open(path, 'rb') as file:
        samples = decode(file.read())
    return None if samples is None or samples.dtype.kind == 'f' else Picture.of([samples])


def of_jxl(data):
    """libjxl does not tell the bits of samples, which are in the lowest ones."""
    samples = imagecodecs.jpegxl_decode(data)
    return None if samples.dtype == np.uint16 and samples.max() < 1 << 15 else samples


def of_jpeg2000(data):
    samples, size = imagecodecs.jpeg2k_decode(data), data.index(b'\xff\x51')
    return None if samples.dtype.kind != 'u' else to_whole_bytes(samples, (data[size + 40] & 0x7f) + 1)


def of_jpeg(data):
    """libjpeg-turbo 3 reads also what is lossless and of 12 bits. Inks are left to others."""
    samples, at = imagecodecs.jpeg8_decode(data), 2
    while data[at + 1] not in (*range(0xc0, 0xc4), *range(0xc5, 0xc8), *range(0xc9, 0xcc), *range(0xcd, 0xd0)):
        at += 2 + int.from_bytes(data[at + 2:at + 4], 'big')
    return None if samples.ndim == 3 and samples.shape[2] == 4 else to_whole_bytes(samples, data[at + 4])


def dataset(path, **how):
    data = pydicom.dcmread(path, force=True, **how)
    data.file_meta.setdefault('TransferSyntaxUID', ImplicitVRLittleEndian)
    return data


def with_pydicom(path, decoder=None):
    """The stored values, or their colours, which are of 8 bits where the lower bytes of a palette are 0. Codestreams are for one of its decoders."""
    data = dataset(path)
    syntax = data.file_meta.TransferSyntaxUID
    if (syntax.is_encapsulated and syntax != RLELossless) != bool(decoder):
        return None
    if decoder:
        data.pixel_array_options(decoding_plugin=decoder)
    samples = data.pixel_array
    if data.PhotometricInterpretation == 'PALETTE COLOR':
        tables = [f'{colour}PaletteColorLookupTableData' for colour in ('Red', 'Green', 'Blue')]
        for table in (table for table in tables if table in data and data.file_meta.TransferSyntaxUID == ExplicitVRBigEndian):
            # pydicom takes their words for little-endian ones, but for those of segmented tables.
            setattr(data, table, np.frombuffer(data[table].value, '>u2').astype('<u2').tobytes())
        samples = pydicom.pixels.apply_color_lut(samples, data)
        samples = (samples >> 8).astype(np.uint8) if samples.dtype == np.uint16 and not (samples & 255).any() else samples
    frames = samples if int(data.get('NumberOfFrames') or 1) > 1 else [samples]
    return Picture.of(list(frames))


def with_netpbmfile(path):
    with netpbmfile.NetpbmFile(path) as file:
        samples, most = file.asarray(), file.maxval
    if samples.dtype.kind == 'f':
        return Picture.of([samples])
    if file.magicnumber in ('P1', 'P4'):
        return Picture.of([((1 - samples) * 255).astype(np.uint8)]) if most == 1 else None
    return Picture.of([spread_over_bytes(samples, most)])


def with_magick(path):
    """ImageMagick; of levels without inks, in colours that it does not convert."""
    if kind(path) == 'tiff':
        with tifffile.TiffFile(path) as file:
            if any(page.dtype is None or page.dtype.kind != 'u' or page.dtype.itemsize > 2 for page in file.pages):
                return None
    if is_animated(path) and kind(path) != 'gif':
        return None
    command = [MAGICK, 'identify'] if MAGICK.endswith('magick') else ['identify']
    told = subprocess.run([*command, '-format', '%w %h %z %[colorspace] %n\n', path], capture_output=True, text=True, check=True)
    width, height, bits, space, count = told.stdout.split('\n')[0].split()
    if space not in ('sRGB', 'Gray'):
        return None
    bits = 8 if int(bits) <= 8 else 16
    coalesced = ['-coalesce'] if kind(path) == 'gif' else []
    made = subprocess.run([MAGICK, path, *coalesced, '-depth', str(bits), 'RGBA:-'], capture_output=True, check=True).stdout
    return Picture.of(list(np.frombuffer(made, f'<u{bits // 8}').reshape(int(count), int(height), int(width), 4)))


def with_ffmpeg(path):
    """ffmpeg, of animations."""
    if not is_animated(path):
        return None
    width, height = Image.open(path).size
    command = ['ffmpeg', '-v', 'error', '-i', path, '-vsync', 'passthrough', '-pix_fmt', 'rgba', '-f', 'rawvideo', '-']
    made = subprocess.run(command, capture_output=True, check=True).stdout
    return Picture.of(list(np.frombuffer(made, np.uint8).reshape(-1, height, width, 4)))


# The readers of each format; programs only where they are installed.
READERS = {'Pillow': with_pillow, 'tifffile': with_tifffile, 'imagecodecs': with_imagecodecs, 'pydicom': with_pydicom, 'netpbmfile': with_netpbmfile}
READERS |= {decoder: partial(with_pydicom, decoder=decoder) for decoder in DICOM_DECODERS}
if MAGICK:
    READERS['ImageMagick'] = with_magick
if shutil.which('ffmpeg'):
    READERS['ffmpeg'] = with_ffmpeg
OF_FORMAT = {'png': ['Pillow', 'imagecodecs', 'ImageMagick', 'ffmpeg'], 'jpeg': ['Pillow', 'imagecodecs', 'ImageMagick'],
             'tiff': ['tifffile', 'Pillow', 'ImageMagick'], 'gif': ['Pillow', 'ImageMagick', 'ffmpeg'], 'bmp': ['Pillow', 'imagecodecs', 'ImageMagick'],
             'webp': ['Pillow', 'imagecodecs'], 'jxl': ['imagecodecs'], 'jp2': ['imagecodecs', 'Pillow'], 'dicom': ['pydicom', *DICOM_DECODERS],
             'pnm': ['netpbmfile', 'Pillow', 'ImageMagick'], 'pfm': ['netpbmfile']}


def readers_of(path):
    return {name: READERS[name] for name in OF_FORMAT[kind(path)] if name in READERS}


def read_output(path):
    """What histeqd wrote, by the first reader that takes it; colours of 16 bits are beyond Pillow."""
    for read in readers_of(path).values():
        picture = read(path)
        if picture is not None:
            return picture
    raise ValueError(f'no reader for {path}')
