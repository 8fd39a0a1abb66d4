"""What the subjects of checks.py share: runs of histeqd, comparisons, and pictures."""

import os
import subprocess
import tempfile
from collections import Counter
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
HISTEQD = os.path.abspath(os.environ.get("HISTEQD", ROOT / "target/release/histeqd"))
DEVICES = os.environ.get("HISTEQD_DEVICES", "cpu")
done = Counter()


def check(is_right, what):
    done["checks"] += 1
    if not is_right:
        done["faults"] += 1
        print("FAIL", what, flush=True)


def same(found, expected, what):
    """Checks that arrays are equal, with NaN where the other has it."""
    check(found.shape == expected.shape and np.array_equal(found, expected, equal_nan=expected.dtype.kind == "f"), what)


def run(*arguments, code=0):
    """Runs histeqd, which has to end with this exit code, if one is given; returns its words."""
    command = [HISTEQD, *map(str, arguments), "--no-config", "--devices", DEVICES]
    ran = subprocess.run(command, capture_output=True, text=True, errors="replace")
    check(code in (None, ran.returncode), f"{' '.join(command)}: exit {ran.returncode}: {ran.stderr.strip()}")
    return ran.stdout + ran.stderr


def own(place):
    """A new folder."""
    return Path(tempfile.mkdtemp(dir=place))


def outputs(folder, *flags):
    """Runs histeqd over a folder; returns its files, each with its output, which may have another format."""
    out = own(folder.parent)
    run(folder, "--out", out, *flags)
    return [(path, next(out.glob(f"{path.stem}.*"))) for path in sorted(folder.iterdir())]


def compare_tiffs(folder, expected, *flags):
    """Checks that outputs have the series of the inputs, and the samples that `expected` makes of a path, samples and their axes."""
    import tifffile

    for path, output in outputs(folder, *flags):
        with tifffile.TiffFile(path) as before, tifffile.TiffFile(output) as after:
            what = f"{path.name} {' '.join(flags)}"
            check(len(before.series) == len(after.series), f"{what}: series")
            for one, other in zip(before.series, after.series):
                check((one.axes, one.shape) == (other.axes, other.shape), f"{what}: {other.axes}")
                same(other.asarray(), expected(path, one.asarray(), one.axes), what)


def natural(shape, dtype, seed=5):
    """Waves of a few thousand levels, other ones in each channel, and noise."""
    random = np.random.default_rng(seed)
    grid = np.indices(shape, sparse=True)
    waves = sum(np.sin(axis / (7 + number)) for number, axis in enumerate(grid))
    values = (waves - waves.min()) ** 2 * 90 + random.integers(0, 40, shape)
    most = np.iinfo(dtype).max if np.dtype(dtype).kind in "ui" else 1e9
    least = -400 if np.dtype(dtype).kind == "i" else 0
    return np.clip(values * (0.05 if np.dtype(dtype).itemsize == 1 else 1) + least, -most, most).astype(dtype)


def of_range(shape, dtype, top=None):
    """Such samples up to a value, or else over the whole range of their type; of floats, up to 1."""
    values, kind = natural(shape, float), np.dtype(dtype).kind
    return (values / values.max() * (top or (np.iinfo(dtype).max if kind in "iu" else 1))).astype(dtype)


def edges(size, to, factor):
    """Where boxes begin, and where the last one ends."""
    starts = [n * factor if factor else n * size // to for n in range(to)]
    return starts, min(to * factor, size) if factor else size


def smaller(picture, to, none=None, alpha=False):
    """The overview of this size of the next larger version: means of boxes, halves up, without pixels that have no data."""
    height, width = picture.shape[:2]
    data = picture.reshape(height, width, -1)
    is_integer = picture.dtype.kind in "iu"
    fits = lambda size, to, factor: to in (size // factor, -(-size // factor))
    factor = next((f for f in range(1, 1025) if fits(height, to[0], f) and fits(width, to[1], f)), None)
    (rows, bottom), (columns, right) = edges(height, to[0], factor), edges(width, to[1], factor)

    colours = data[..., :-1] if alpha else data
    counts = np.isfinite(colours).all(-1)
    if none is not None:
        is_none = colours == none
        counts &= ~(is_none.all(-1) if picture.dtype in (np.uint8, np.uint16) else is_none.any(-1))
    if alpha:
        counts &= data[..., -1] != 0
    sums = lambda values: np.add.reduceat(np.add.reduceat(values[:bottom, :right], rows, 0), columns, 1)
    mean = lambda total, count: (2 * total + count) // (2 * count) if is_integer else total / count
    wide = np.where(counts[..., None], data, 0).astype(np.int64 if is_integer else np.float64)
    count = sums(counts.astype(np.int64))[..., None]
    made = mean(sums(wide), np.maximum(count, 1)).astype(picture.dtype)
    if none is not None and is_integer:
        made[made == none] = none + 1 if none < np.iinfo(picture.dtype).max else none - 1
    made = np.where(count == 0, data[np.ix_(rows, columns)], made)
    if alpha:
        made[..., -1:] = mean(sums(data[..., -1:].astype(np.int64)), sums(np.ones((height, width, 1), np.int64)))
    return made.reshape(tuple(to) + picture.shape[2:])


def item(**elements):
    """A data set of these elements."""
    from pydicom.dataset import Dataset

    made = Dataset()
    for name, value in elements.items():
        setattr(made, name, value)
    return made


def dicom(pixels, **elements):
    """A data set of gray frames (frames, height, width), or of one, with these elements."""
    from pydicom.dataset import FileMetaDataset
    from pydicom.uid import ExplicitVRLittleEndian, generate_uid

    (*frames, height, width), bits = pixels.shape, 8 * pixels.itemsize
    image = dict(Rows=height, Columns=width, SamplesPerPixel=1, PhotometricInterpretation="MONOCHROME2", BitsAllocated=bits, BitsStored=bits)
    image |= dict(HighBit=bits - 1, PixelRepresentation=int(pixels.dtype.kind == "i"), **({"NumberOfFrames": frames[0]} if frames else {}))
    about = dict(SOPClassUID="1.2.840.10008.5.1.4.1.1.4", SOPInstanceUID=generate_uid(), StudyInstanceUID="1.2.4", PatientID="kept", Modality="MR")
    data = item(**(about | image | elements))
    data.file_meta = FileMetaDataset()
    data.file_meta.TransferSyntaxUID = ExplicitVRLittleEndian
    data.add_new("PixelData", "OB" if bits == 8 else "OW", pixels.tobytes())
    return data
