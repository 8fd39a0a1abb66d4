"""DICOM is done, left out or refused as fates.tsv says, and its outputs are what readers make of it that are not histeqd's own.

Over pydicom's test data (what it comes with, and its package of larger files) and tests/data/dicom: dciodvfy (dicom3tools) finds no error in an output that
the input did not have, and dcmconv (DCMTK) reads it; pydicom reads the same frames, and what run.py says of them holds: with --strength 0 they are the same,
and else by the definition; nothing says any more that values have a unit. --window gives what pydicom's modality and VOI look-up tables give; slices of a
series are in the order of their places. `checks.py dicom --table` writes fates.tsv anew.

needs: apt-get install dicom3tools dcmtk
       pip install --requirement requirements.txt
"""

import glob
import json
import re
import subprocess
import sys
import warnings
from functools import partial
from pathlib import Path

import data_store
import numpy as np
import pydicom
from PIL import Image
from pydicom.data import get_testdata_file
from pydicom.dataset import Dataset
from pydicom.pixels import apply_modality_lut, apply_voi_lut
from pydicom.sequence import Sequence

import common
import run as net
from common import ROOT, check, run
from readers import dataset

warnings.filterwarnings("ignore")
FATES = Path(__file__).resolve().parents[1] / "fates.tsv"
FOLDERS = {
    "pydicom": Path(get_testdata_file("CT_small.dcm")).parent,
    "pydicom-data": Path(data_store.__file__).parent / "data",
    "own": ROOT / "tests/data/dicom",
}
# Decoders differ, but for JPEG-LS.
NOT_COMPARED = net.LOSSY - {"1.2.840.10008.1.2.4.81"}
KNOWN = net.known()
AXIAL, OBLIQUE = (1, 0, 0, 0, 1, 0), np.array([0.8, 0.36, -0.48, 0, 0.8, 0.6])
made = partial(common.dicom, SOPClassUID="1.2.840.10008.5.1.4.1.1.2", SeriesInstanceUID="1.2.3.2", Modality="CT")


def summary(*arguments):
    return json.JSONDecoder().raw_decode(run(*arguments, "--json", "--quiet", code=None))[0]


def errors(path):
    told = subprocess.run(["dciodvfy", path], capture_output=True, text=True, errors="replace")
    # Where it is within a file, and of which values, may differ.
    return {re.sub(r"<[0-9.]+>|0x[0-9a-f]+|[0-9]+", "N", line) for line in re.findall("^Error.*", told.stdout + told.stderr, re.MULTILINE)}


def fate_of(path, out):
    """Runs histeqd; returns its fate, and the reason."""
    told = summary(path.parent, "--include", glob.escape(path.name), "--out", out)
    if told["done"] == 1:
        return "done", ""
    if told["failed"]:
        return "refused", re.sub(r"^page [0-9]+: ", "", told["failed"][0]["error"])
    return "left out", ", ".join(told["skipped"]).replace("-", " ")


def no_claims(dataset, path):
    """Nothing says that values have a unit."""
    if "RescaleSlope" in dataset or "RescaleIntercept" in dataset:
        check(dataset.get("RescaleType") == "US", f"{path}: RescaleType {dataset.get('RescaleType')}")
    check(dataset.get("Units", "NONE") == "NONE", f"{path}: Units")
    check(dataset.ImageType[0] == "DERIVED", f"{path}: ImageType")
    for element in dataset.iterall():
        check(element.keyword != "RealWorldValueMappingSequence", f"{path}: a mapping is left")
        if element.keyword == "FrameType":
            check(element.value[0] == "DERIVED", f"{path}: FrameType {element.value}")
        if element.keyword == "PixelValueTransformationSequence":
            check(element.value[0].get("RescaleType") == "US", f"{path}: RescaleType of frames")


def compare(path, out):
    source, readable = dataset(path), path
    if source.file_meta.TransferSyntaxUID.is_deflated:
        # dciodvfy does not inflate.
        readable = out.with_suffix(".inflated")
        subprocess.run(["dcmconv", "+te", path, readable], check=True)
    before, after = errors(readable), errors(out)
    check(after <= before, f"{path}: dciodvfy: {sorted(after - before)}")
    converted = subprocess.run(["dcmconv", "+ti", out, out.with_suffix(".converted")], capture_output=True, text=True)
    check(converted.returncode == 0, f"{path}: dcmconv: {converted.stderr.strip()[:200]}")
    derived = pydicom.dcmread(out)
    no_claims(derived, path)
    check("SeriesInstanceUID" not in source or derived.get("SeriesInstanceUID") != source.SeriesInstanceUID, f"{path}: its series")
    check("StudyInstanceUID" not in source or derived.StudyInstanceUID == source.StudyInstanceUID, f"{path}: its study")
    if source.file_meta.TransferSyntaxUID in NOT_COMPARED:
        return
    for _, what, finding, words in net.check(common.HISTEQD, [str(path)]):
        excused = finding == "DIFFERS" and (path.name, what) in KNOWN
        check(finding in ("AGREES", "ALONE") or excused, f"{path}: {what} {finding}: {words}")
        if finding == "ALONE":
            print("note", path.name, "is not read by pydicom")


def table(first, entries, bits, signed=False):
    item = Dataset()
    item.add_new("LUTDescriptor", "SS" if signed else "US", [len(entries), first, bits])
    item.add_new("LUTData", "US", [int(entry) for entry in entries])
    return Sequence([item])


def shown(data, place, window="auto"):
    """Returns the brightness of what histeqd shows."""
    path, out = place / "shown.dcm", place / "shown.png"
    data.save_as(path, enforce_file_format=True)
    run(path, "--out", out, "--overwrite", "--window", window, "--strength", "0")
    image = Image.open(out)
    return np.asarray(image).astype(float) / (255 if image.mode == "L" else 65535)


WORDS = (np.arange(64 * 48).reshape(48, 64) * 37 % 4096).astype("<u2")
WINDOW = dict(WindowCenter=["40", "300"], WindowWidth=["400", "900"], RescaleSlope="1", RescaleIntercept="-1024")
CURVE = (np.sqrt(np.linspace(0, 1, 2000)) * 4095).astype("<u2")
# Samples, elements, and the window that is asked for.
WINDOWS = [
    ("linear", WORDS, WINDOW, "1"),
    ("linear", WORDS, WINDOW, "2"),
    ("exact", WORDS, dict(VOILUTFunction="LINEAR_EXACT", **WINDOW), "auto"),
    ("sigmoid", WORDS, dict(VOILUTFunction="SIGMOID", **WINDOW), "auto"),
    ("signed", (WORDS.astype(int) - 2000).astype("<i2"), dict(WindowCenter="100", WindowWidth="1500"), "auto"),
    ("slope", WORDS, dict(RescaleSlope="0.25", RescaleIntercept="10", WindowCenter="500.5", WindowWidth="333.5"), "auto"),
    ("VOI table", WORDS, dict(VOILUTSequence=table(500, CURVE, 12)), "auto"),
    ("negative table", WORDS, dict(VOILUTSequence=table(-800, CURVE, 12, signed=True), **WINDOW), "auto"),
    ("modality table", WORDS, dict(ModalityLUTSequence=table(100, CURVE, 16), WindowCenter="2000", WindowWidth="3000"), "auto"),
    ("bytes", (WORDS // 16).astype("u1"), dict(WindowCenter="128", WindowWidth="100"), "auto"),
]


def ends(data):
    """Returns the values that pydicom's windows and tables bring black and white to."""
    if "VOILUTSequence" in data:
        return 0, 4095
    if "ModalityLUTSequence" in data:
        return 0, 65535
    stored = np.iinfo(data.pixel_array.dtype)
    return [end * float(data.get("RescaleSlope", 1)) + float(data.get("RescaleIntercept", 0)) for end in (stored.min, stored.max)]


def check_windows(place):
    for name, samples, elements, window in WINDOWS:
        data = made(samples, **elements)
        wanted = apply_voi_lut(apply_modality_lut(samples, data), data, index=int(window) - 1 if window.isdecimal() else 0).astype(float)
        least, most = ends(data)
        off = np.abs(shown(data, place, window) - (wanted - least) / (most - least)).max()
        check(off <= 0.5 / (2 ** data.BitsStored - 1) + 2e-5, f"--window {window}, {name}: {off}")
    # The least value is white.
    linear, inverse = made(WORDS, **WINDOW), made(WORDS, PhotometricInterpretation="MONOCHROME1", **WINDOW)
    check(np.abs(shown(inverse, place) - (1 - shown(linear, place))).max() <= 2 / 65535, "--window, MONOCHROME1")
    check((shown(linear, place, "40,400") == shown(linear, place, "1")).all(), "--window C,W")


def series(number, places, orientation=AXIAL, **elements):
    """Returns slices at these places along the normal of their orientation; they are of a series of this number."""
    normal, parts = np.cross(orientation[:3], orientation[3:]), [f"{part:.8g}" for part in orientation]
    for at, place in enumerate(places):
        slice = made(np.full((4, 4), at, "<u2"), InstanceNumber=len(places) - at, ImageOrientationPatient=parts, **elements)
        slice.SeriesInstanceUID = f"1.2.3.{number}"
        if place is not None:
            slice.ImagePositionPatient = [f"{part:.6f}" for part in place * normal]
        yield slice


def in_order(files):
    """The paths of a series, by the places of its slices, or else by their numbers."""
    files = sorted(files)
    slices = {path: pydicom.dcmread(path) for path in files}
    if all("InstanceNumber" in slice for slice in slices.values()):
        files.sort(key=lambda path: slices[path].InstanceNumber)
    if all("ImagePositionPatient" in slice for slice in slices.values()):
        normal = np.cross(*np.array(slices[files[0]].ImageOrientationPatient, float).reshape(2, 3))
        files.sort(key=lambda path: round(float(np.dot(normal, np.array(slices[path].ImagePositionPatient, float))), 4))
    return files


def check_order(place):
    """The files of a series are listed in the order of their places, or numbers."""
    random, folder = np.random.default_rng(3), place / "series"
    folder.mkdir()
    tilted, unnumbered = list(series(3, random.permutation(9) * 2.5)), list(series(6, [None] * 5))
    for slice in tilted:
        # Each slice begins elsewhere in its plane.
        slice.ImagePositionPatient = [-90, 40 - slice.ImagePositionPatient[2] / 3, slice.ImagePositionPatient[2]]
    for slice in unnumbered:
        del slice.InstanceNumber
    slices = [*series(1, random.permutation(20) * 1.25 - 7), *series(2, random.permutation(30) * 0.6, OBLIQUE), *tilted,
              *series(4, np.repeat(random.permutation(6) * 3.0, 2)), *series(5, [None, *random.permutation(6)]), *unnumbered]
    wanted = {}
    for name, slice in zip(random.permutation(len(slices)), slices):
        slice.save_as(folder / f"{name:03}.dcm", enforce_file_format=True)
        wanted.setdefault(slice.SeriesInstanceUID, []).append(str(folder / f"{name:03}.dcm"))
    found = [one["input"] for one in summary(folder, "--out", place / "ordered", "--together", "series", "--dry-run")["would"]]
    check(len(found) == len(slices), f"--together series: {len(found)} of {len(slices)}")
    for uid, files in wanted.items():
        check([path for path in found if path in files] == in_order(files), f"--together series: the order of {uid}")


def check_all(place):
    fates = []
    for group, folder in FOLDERS.items():
        for path in sorted(folder.glob("*.dcm")):
            fate, why = fate_of(path, place / group)
            fates.append(f"{group}\t{path.name}\t{fate}\t{why}")
            if fate == "done":
                compare(path, place / group / path.name)
    if "--table" in sys.argv:
        FATES.write_text("\n".join(fates) + "\n")
    for line in set(fates) ^ set(FATES.read_text().splitlines()):
        check(False, f"not as fates.tsv says: {line}")
    check_windows(place)
    check_order(place)
