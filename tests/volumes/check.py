#!/usr/bin/env python3
"""Checks what the program in $HISTEQD makes of volumes against their definition in NumPy (python/tests/model.py): those of each channel and time of a
file, and those whose slices are files.

Files are made and read by tifffile and pydicom. needs: pip install numpy tifffile pydicom
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pydicom
import tifffile
from pydicom.dataset import Dataset, FileMetaDataset
from pydicom.uid import ExplicitVRLittleEndian

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE / "../../python/tests"))
from model import clahe_volume  # noqa: E402

HISTEQD = os.environ["HISTEQD"]
TILES = (3, 2, 2)
SIZE = (29, 34)
FLAGS = ["--method", "clahe", "--clip-limit", "2.5", "--tiles", "3x2x2", "--devices", "cpu"]
faults = []


def check(is_right, what):
    if not is_right:
        faults.append(what)
        print("FAIL", what)


def histeqd(folder, out, *flags):
    ran = subprocess.run([HISTEQD, str(folder), "--out", str(out), *FLAGS, *flags], capture_output=True, text=True)
    check(ran.returncode == 0, f"{folder.name} {flags}: {ran.stderr}")
    return ran.stdout + ran.stderr


def refused(folder, out, *flags):
    ran = subprocess.run([HISTEQD, str(folder), "--out", str(out), *FLAGS, *flags], capture_output=True, text=True)
    check(ran.returncode == 1 and not list(out.glob("*")), f"{folder.name} {flags}: {ran.returncode}")
    return ran.stdout + ran.stderr


def noise(*shape, dtype=np.uint16):
    """Slices that differ in brightness and contrast, along every axis."""
    random = np.random.default_rng(57)
    top = np.iinfo(dtype).max
    ramps = np.indices(shape, dtype=float)
    value = sum(ramp / max(length, 2) for ramp, length in zip(ramps, shape)) / len(shape)
    return ((value * 0.7 + random.random(shape) * 0.2) * top).astype(dtype)


def equalized(volume):
    return clahe_volume(volume, 2.5, *TILES)


def of_each(data, axes):
    """What becomes of an array with these axes: each volume along Z, Y and X by itself."""
    order = [axes.index(axis) for axis in axes if axis not in "ZYX"] + [axes.index(axis) for axis in "ZYX"]
    moved = data.transpose(order)
    volumes = moved.reshape(-1, *moved.shape[-3:])
    made = np.stack([equalized(volume) for volume in volumes]).reshape(moved.shape)
    return made.transpose(np.argsort(order))


def hyperstacks(folder):
    stacks = {
        "ome-tczyx": ("TCZYX", (2, 2, 5, *SIZE), dict(ome=True)),
        "ome-tzcyx": ("TZCYX", (2, 4, 3, *SIZE), dict(ome=True)),
        "ome-zctyx": ("ZCTYX", (3, 2, 2, *SIZE), dict(ome=True)),
        "ome-zyx": ("ZYX", (5, *SIZE), dict(ome=True)),
        "imagej": ("TZCYX", (2, 4, 3, *SIZE), dict(imagej=True)),
        "imagej-czyx": ("ZCYX", (4, 2, *SIZE), dict(imagej=True)),
        "shaped": ("CTZYX", (2, 3, 4, *SIZE), dict(photometric="minisblack")),
        "samples": ("ZYXC", (4, *SIZE, 5), dict(photometric="minisblack", planarconfig="contig")),
        "planes": ("ZCYX", (4, 5, *SIZE), dict(photometric="minisblack", planarconfig="separate")),
    }
    for name, (axes, shape, how) in stacks.items():
        for dtype in (np.uint16, np.uint8):
            path = folder / f"{name}-{dtype.__name__}.tif"
            tifffile.imwrite(path, noise(*shape, dtype=dtype), metadata={"axes": axes}, **how)
    with tifffile.TiffWriter(folder / "two-images.ome.tif", ome=True) as writer:
        writer.write(noise(2, 3, *SIZE), metadata={"axes": "CZYX"})
        writer.write(noise(4, 20, 31), metadata={"axes": "ZYX"})
    for memory in ("", "48MiB"):
        out = folder.parent / f"{folder.name}-out{memory}"
        histeqd(folder, out, *(["--memory", memory, "--threads", "2"] if memory else []))
        for path in sorted(folder.iterdir()):
            with tifffile.TiffFile(path) as before, tifffile.TiffFile(out / path.name) as after:
                check(len(before.series) == len(after.series), f"{path.name}: series")
                for one, other in zip(before.series, after.series):
                    check((one.axes, one.shape) == (other.axes, other.shape), f"{path.name}: {other.axes}")
                    axes = stacks.get(path.name.rsplit("-", 1)[0], [one.axes])[0]
                    check(np.array_equal(other.asarray(), of_each(one.asarray(), axes)), f"{path.name} {memory}")


def folders(folder):
    """Slices in the order of their names, in which numbers count as such; the groups of an expression."""
    volume = noise(12, *SIZE)
    (folder / "plain").mkdir(parents=True)
    for number in (7, 11, 3, 1, 0, 2, 10, 4, 9, 8, 6, 5):
        tifffile.imwrite(folder / "plain" / f"s{number + 1}.tif", volume[number], software="kept")
    (folder / "plain" / "notes").write_text("no picture, and no slice")
    histeqd(folder / "plain", folder / "out", "--together", "folder")
    for number, expected in enumerate(equalized(volume)):
        with tifffile.TiffFile(folder / "out" / f"s{number + 1}.tif") as slice:
            check(np.array_equal(slice.asarray(), expected), f"slice {number + 1}")
            check(slice.pages[0].tags["Software"].value == "kept", f"slice {number + 1}: tags")
    channels = noise(2, 5, *SIZE, dtype=np.uint8)
    for c, z in np.ndindex(2, 5):
        (folder / "channels").mkdir(exist_ok=True)
        tifffile.imwrite(folder / "channels" / f"a_z{z + 7}_w{c}.tif", channels[c, z])
    histeqd(folder / "channels", folder / "by", "--together-by", "_w([0-9])")
    for c, z in np.ndindex(2, 5):
        found = tifffile.imread(folder / "by" / f"a_z{z + 7}_w{c}.tif")
        check(np.array_equal(found, equalized(channels[c])[z]), f"channel {c}, slice {z}")


def dicom(path, pixels, sop_class="1.2.840.10008.5.1.4.1.1.4", **elements):
    meta = FileMetaDataset()
    meta.TransferSyntaxUID = ExplicitVRLittleEndian
    meta.MediaStorageSOPClassUID = sop_class
    meta.MediaStorageSOPInstanceUID = f"1.2.3.{abs(hash(path.name)) % 10**9}"
    data = Dataset()
    data.file_meta = meta
    data.SOPClassUID, data.SOPInstanceUID = meta.MediaStorageSOPClassUID, meta.MediaStorageSOPInstanceUID
    data.StudyInstanceUID, data.PatientID, data.Modality = "1.2.4", "kept", "MR"
    *frames, data.Rows, data.Columns = pixels.shape
    if frames:
        data.NumberOfFrames = frames[0]
    data.SamplesPerPixel, data.PhotometricInterpretation, data.PixelRepresentation = 1, "MONOCHROME2", 0
    data.BitsAllocated, data.BitsStored, data.HighBit = 16, 16, 15
    for name, value in elements.items():
        setattr(data, name, value)
    data.PixelData = pixels.tobytes()
    data.save_as(path, enforce_file_format=True)


def series(folder):
    """Slices in the order of their places, or else of their numbers; two series of one folder."""
    folder.mkdir(parents=True)
    volumes, axial = noise(3, 7, *SIZE), [1, 0, 0, 0, 1, 0]
    names = {}
    for at in range(7):
        # Along the normal, which runs through the names backwards and not in steps.
        names[0, at] = f"IM{20 - at}"
        place = dict(ImagePositionPatient=[-90, 12, 2.5 * at - 3], ImageOrientationPatient=axial, InstanceNumber=at * 5 % 7)
        dicom(folder / names[0, at], volumes[0, at], SeriesInstanceUID="1.2.5", **place)
        names[1, at] = f"IM{30 + at * 4 % 7}"
        dicom(folder / names[1, at], volumes[1, at], SeriesInstanceUID="1.2.6", InstanceNumber=at + 1)
    for together in ("folder", "series"):
        out = folder.parent / f"{folder.name}-{together}"
        told = histeqd(folder, out, "--together", together, "--range", "0..65535")
        check("in the order of InstanceNumber" in told, f"{together}: {told}")
        for (series, at), name in names.items():
            slice = pydicom.dcmread(out / name)
            check(np.array_equal(slice.pixel_array, equalized(volumes[series])[at]), f"series {series}, slice {at}")
            check(slice.PatientID == "kept", f"series {series}, slice {at}: elements")
    again = folder.parent / "twice"
    again.mkdir()
    for name in ("one", "other"):
        dicom(again / name, volumes[2, 0], SeriesInstanceUID="1.2.9", ImagePositionPatient=[0, 0, 1], ImageOrientationPatient=axial)
    told = refused(again, folder.parent / "none", "--together", "folder", "--range", "0..65535")
    check("one and " in told and "slices of its volume, lie at the same place" in told, told)
    turned = folder.parent / "turned-files"
    turned.mkdir()
    for name, orientation in (("one", axial), ("other", [1, 0, 0, 0, 0, -1])):
        dicom(turned / name, volumes[2, 0], SeriesInstanceUID="1.2.10", ImagePositionPatient=[0, len(name), 1], ImageOrientationPatient=orientation)
    told = refused(turned, folder.parent / "none", "--together", "folder", "--range", "0..65535")
    check("one and " in told and "lie in planes of different orientations" in told, told)
    parts = folder.parent / "parts"
    parts.mkdir()
    for name in ("one", "other"):
        dicom(parts / name, volumes[2, :3], SeriesInstanceUID="1.2.11", InstanceNumber=1)
    told = refused(parts, folder.parent / "none", "--together", "series", "--range", "0..65535")
    check("has several frames" in told and "same place" not in told, told)
    for name in ("one", "other"):
        dicom(parts / name, volumes[2, 0], SeriesInstanceUID="1.2.11", InstanceNumber=1)
    told = refused(parts, folder.parent / "none", "--together", "series", "--range", "0..65535")
    check("have the same InstanceNumber" in told and "same place" not in told, told)
    gone = folder / names[0, 3]
    gone.unlink()
    told = histeqd(folder, folder.parent / "gap", "--together", "series", "--range", "0..65535")
    check("1 slice seems to be missing in a volume" in told, told)


def frames(folder):
    """Frames that follow each other along several dimensions, as these files say."""
    folder.mkdir(parents=True)
    volumes = noise(2, 5, *SIZE)
    order = [(t, z) for z in (3, 0, 4, 1, 2) for t in (1, 0)]
    pixels = np.stack([volumes[place] for place in order])

    def dimension(pointer):
        item = Dataset()
        item.DimensionIndexPointer = pointer
        return item

    def groups(t, z, position=None, orientation=(1, 0, 0, 0, 1, 0)):
        content, item = Dataset(), Dataset()
        content.DimensionIndexValues = [1, t + 1, z + 1]
        item.FrameContentSequence = [content]
        if position is not None:
            plane, direction = Dataset(), Dataset()
            plane.ImagePositionPatient, direction.ImageOrientationPatient = [0, 0, position], list(orientation)
            item.PlanePositionSequence, item.PlaneOrientationSequence = [plane], [direction]
        return item

    enhanced = dict(
        sop_class="1.2.840.10008.5.1.4.1.1.4.1",
        DimensionIndexSequence=[dimension(tag) for tag in (0x00209056, 0x00209128, 0x00209057)],
        PerFrameFunctionalGroupsSequence=[groups(*place) for place in order],
    )
    dicom(folder / "enhanced.dcm", pixels, SeriesInstanceUID="1.2.7", **enhanced)
    # Positions count, whatever the numbers in the stack, which run the other way here.
    backwards = [groups(t, 4 - z, 2.5 * z - 7) for t, z in order]
    dicom(folder / "positions.dcm", pixels, SeriesInstanceUID="1.2.7", **{**enhanced, "PerFrameFunctionalGroupsSequence": backwards})
    nuclear = dict(
        sop_class="1.2.840.10008.5.1.4.1.1.20",
        FrameIncrementPointer=[0x00540010, 0x00540080],
        EnergyWindowVector=[t + 1 for t, _ in order],
        SliceVector=[z + 1 for _, z in order],
    )
    dicom(folder / "nuclear.dcm", pixels, SeriesInstanceUID="1.2.8", **nuclear)
    out = folder.parent / "frames-out"
    histeqd(folder, out, "--range", "0..65535")
    for name in ("enhanced.dcm", "positions.dcm", "nuclear.dcm"):
        found = pydicom.dcmread(out / name).pixel_array
        for frame, (t, z) in zip(found, order):
            check(np.array_equal(frame, equalized(volumes[t])[z]), f"{name}: time {t}, slice {z}")
    for name, places, expected in (
        ("frames-twice", [(z // 2, (1, 0, 0, 0, 1, 0)) for z in range(5)], "lie at the same place of one volume"),
        ("frames-turned", [(z, (1, 0, 0, 0, 1 - z % 2, -(z % 2))) for z in range(5)], "lie in planes of different orientations"),
    ):
        of_frames = [groups(0, z, *places[z]) for z in range(5)]
        (folder.parent / name).mkdir()
        dicom(folder.parent / name / "a.dcm", volumes[0], SeriesInstanceUID="1.2.7", **{**enhanced, "PerFrameFunctionalGroupsSequence": of_frames})
        told = refused(folder.parent / name, folder.parent / "frames-none", "--range", "0..65535")
        check(expected in told, told)


def main():
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        (place / "stacks").mkdir()
        hyperstacks(place / "stacks")
        folders(place / "folders")
        series(place / "series")
        frames(place / "frames")
    print(len(faults), "faults")
    sys.exit(bool(faults))


if __name__ == "__main__":
    main()
