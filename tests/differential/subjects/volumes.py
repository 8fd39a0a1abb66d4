"""Volumes become what their definition makes of them: those of each channel and time of a file, and those whose slices are files or frames.

Files are made and read by tifffile and pydicom.
"""

import numpy as np
import pydicom
import tifffile

from common import check, compare_tiffs, dicom, item, of_range, run, same
from equalized import each
from model import clahe_volume

SIZE = (29, 34)
FLAGS = ["--method", "clahe", "--clip-limit", "2.5", "--tiles", "3x2x2"]
# Axes, shapes, and how tifffile writes them.
STACKS = {
    "ome-tczyx": ("TCZYX", (2, 2, 5), dict(ome=True)),
    "ome-tzcyx": ("TZCYX", (2, 4, 3), dict(ome=True)),
    "ome-zctyx": ("ZCTYX", (3, 2, 2), dict(ome=True)),
    "ome-zyx": ("ZYX", (5,), dict(ome=True)),
    "imagej": ("TZCYX", (2, 4, 3), dict(imagej=True)),
    "imagej-czyx": ("ZCYX", (4, 2), dict(imagej=True)),
    "shaped": ("CTZYX", (2, 3, 4), dict(photometric="minisblack")),
    "samples": ("ZYXC", (4,), dict(photometric="minisblack", planarconfig="contig")),
    "planes": ("ZCYX", (4, 5), dict(photometric="minisblack", planarconfig="separate")),
}
AXIAL, CORONAL = (1, 0, 0, 0, 1, 0), (1, 0, 0, 0, 0, -1)
OF_LEVELS = ["--range", "0..65535"]


def equalized(volume):
    return clahe_volume(volume, 2.5, 3, 2, 2)


def check_all(place):
    for part in (stacks, folders, series, frames, refused):
        part(place / part.__name__)


def stacks(folder):
    folder.mkdir()
    for name, (axes, shape, how) in STACKS.items():
        for dtype in ("uint16", "uint8"):
            data = of_range((*shape, *SIZE, *([5] if axes.endswith("C") else [])), dtype)
            tifffile.imwrite(folder / f"{name}-{dtype}.tif", data, metadata={"axes": axes}, **how)
    with tifffile.TiffWriter(folder / "two-images.ome.tif", ome=True) as writer:
        writer.write(of_range((2, 3, *SIZE), np.uint16), metadata={"axes": "CZYX"})
        writer.write(of_range((4, 20, 31), np.uint16), metadata={"axes": "ZYX"})

    def expected(path, samples, axes):
        axes = STACKS.get(path.name.rsplit("-", 1)[0], [axes])[0]
        return each(samples, axes, set(axes) - set("ZYX"), equalized)

    for memory in ([], ["--memory", "48MiB", "--threads", "2"]):
        compare_tiffs(folder, expected, *FLAGS, *memory)


def folders(folder):
    """Slices are in the order of their names, in which numbers count as such; the groups of an expression."""
    volumes = of_range((2, 12, *SIZE), np.uint16)
    for name, names, flags in (
        ("plain", {f"s{z + 1}.tif": (0, z) for z in (7, 11, 3, 1, 0, 2, 10, 4, 9, 8, 6, 5)}, ["--together", "folder"]),
        ("channels", {f"a_z{z + 7}_w{c}.tif": (c, z) for c, z in np.ndindex(2, 12)}, ["--together-by", "_w([0-9])"]),
    ):
        (folder / name).mkdir(parents=True)
        for file, at in names.items():
            tifffile.imwrite(folder / name / file, volumes[at], software="kept")
        (folder / name / "notes").write_text("no picture, and no slice")
        run(folder / name, "--out", folder / f"{name}-out", *FLAGS, *flags)
        for file, (c, z) in names.items():
            with tifffile.TiffFile(folder / f"{name}-out" / file) as slice:
                same(slice.asarray(), equalized(volumes[c])[z], f"{name}: {file}")
                check(slice.pages[0].tags["Software"].value == "kept", f"{name}: {file}: tags")


def write(folder, files):
    folder.mkdir(parents=True)
    for name, (pixels, elements) in files.items():
        dicom(pixels, **elements).save_as(folder / name, enforce_file_format=True)


def series(folder):
    """Slices are in the order of their places, or else of their numbers; two series of one folder."""
    volumes, files, at = of_range((2, 7, *SIZE), np.uint16), {}, {}
    for z in range(7):
        # Along the normal, which runs through the names backwards and not in steps.
        place = dict(ImagePositionPatient=[-90, 12, 2.5 * z - 3], ImageOrientationPatient=list(AXIAL), InstanceNumber=z * 5 % 7)
        for number, name, own in ((0, f"IM{20 - z}", place), (1, f"IM{30 + z * 4 % 7}", dict(InstanceNumber=z + 1))):
            at[name], files[name] = (number, z), (volumes[number, z], dict(SeriesInstanceUID=f"1.2.{5 + number}", **own))
    write(folder, files)
    for together in ("folder", "series"):
        out = folder.parent / f"{folder.name}-{together}"
        told = run(folder, "--out", out, *FLAGS, "--together", together, *OF_LEVELS)
        check("in the order of InstanceNumber" in told, f"{together}: {told}")
        for name, (number, z) in at.items():
            slice = pydicom.dcmread(out / name)
            same(slice.pixel_array, equalized(volumes[number])[z], f"{together}: series {number}, slice {z}")
            check(slice.PatientID == "kept", f"{together}: series {number}, slice {z}: elements")
    (folder / "IM17").unlink()
    told = run(folder, "--out", folder.parent / "gap", *FLAGS, "--together", "series", *OF_LEVELS)
    check("1 slice seems to be missing in a volume" in told, told)


def enhanced(*groups):
    """The elements of a file whose frames have a time, a slice and, where given, a position and an orientation."""

    def group(t, z, position=None, orientation=AXIAL):
        found = item(FrameContentSequence=[item(DimensionIndexValues=[1, t + 1, z + 1])])
        if position is not None:
            found.PlanePositionSequence = [item(ImagePositionPatient=[0, 0, position])]
            found.PlaneOrientationSequence = [item(ImageOrientationPatient=list(orientation))]
        return found

    pointers = [item(DimensionIndexPointer=tag) for tag in (0x00209056, 0x00209128, 0x00209057)]
    about = dict(SOPClassUID="1.2.840.10008.5.1.4.1.1.4.1", SeriesInstanceUID="1.2.7", DimensionIndexSequence=pointers)
    return dict(**about, PerFrameFunctionalGroupsSequence=[group(*place) for place in groups])


def frames(folder):
    """Frames follow each other along several dimensions, as these files say."""
    volumes = of_range((2, 5, *SIZE), np.uint16)
    order = [(t, z) for z in (3, 0, 4, 1, 2) for t in (1, 0)]
    numbers = dict(EnergyWindowVector=[t + 1 for t, _ in order], SliceVector=[z + 1 for _, z in order])
    nuclear = dict(SOPClassUID="1.2.840.10008.5.1.4.1.1.20", SeriesInstanceUID="1.2.8", FrameIncrementPointer=[0x00540010, 0x00540080])
    files = {
        "enhanced.dcm": enhanced(*order),
        # Positions count, whatever the numbers in the stack, which run the other way here.
        "positions.dcm": enhanced(*((t, 4 - z, 2.5 * z - 7) for t, z in order)),
        "nuclear.dcm": nuclear | numbers,
    }
    pixels = np.stack([volumes[at] for at in order])
    write(folder, {name: (pixels, elements) for name, elements in files.items()})
    run(folder, "--out", folder.parent / "frames-out", *FLAGS, *OF_LEVELS)
    for name in files:
        found = pydicom.dcmread(folder.parent / "frames-out" / name).pixel_array
        for frame, (t, z) in zip(found, order):
            same(frame, equalized(volumes[t])[z], f"{name}: time {t}, slice {z}")


def refused(folder):
    """Slices and frames that are no volume; the words are those of the refusal."""
    pixels = of_range((5, *SIZE), np.uint16)
    at = lambda position, orientation: dict(ImagePositionPatient=[0, position, 1], ImageOrientationPatient=list(orientation))
    numbered = [dict(InstanceNumber=1)] * 2
    for name, flags, pixels_, elements, words in (
        ("twice", ["--together", "folder"], pixels[0], [at(0, AXIAL)] * 2, ["one and ", "slices of its volume, lie at the same place"]),
        ("turned", ["--together", "folder"], pixels[0], [at(3, AXIAL), at(5, CORONAL)], ["one and ", "lie in planes of different orientations"]),
        ("several", ["--together", "series"], pixels[:3], numbered, ["has several frames"]),
        ("numbers", ["--together", "series"], pixels[0], numbered, ["have the same InstanceNumber"]),
        ("frames-twice", [], pixels, [enhanced(*((0, z, z // 2) for z in range(5)))], ["lie at the same place of one volume"]),
        ("frames-turned", [], pixels, [enhanced(*((0, z, z, (AXIAL, CORONAL)[z % 2]) for z in range(5)))], ["lie in planes of different orientations"]),
    ):
        write(folder / name, {file: (pixels_, dict(SeriesInstanceUID="1.2.9") | own) for file, own in zip(("one", "other"), elements)})
        told = run(folder / name, "--out", folder / "none", *FLAGS, *flags, *OF_LEVELS, code=1)
        check(all(word in told for word in words) and ("same place" in told) == name.endswith("twice"), f"{name}: {told}")
        check(not list((folder / "none").glob("*")), f"{name}: an output")
