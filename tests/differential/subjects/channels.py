"""Channels that are samples of a page, packed in 12 bits or compressed as JPEG, are equalized each by itself: on its page, or over all pages."""

import imagecodecs  # noqa: F401
import numpy as np
import tifffile

from common import compare_tiffs, of_range
from equalized import each, of_samples
from picture import to_whole_bytes

HOW = dict(photometric="minisblack", planarconfig="contig", metadata={"axes": "ZYXC"})
PACKED = {"strips": dict(rowsperstrip=7), "tiles": dict(tile=(16, 32))}


def check_all(place):
    folder = place / "in"
    folder.mkdir()
    for channels in (2, 3, 5):
        for name, more in PACKED.items():
            data = of_range((3, 45, 51, channels), np.uint16, 4095)
            tifffile.imwrite(folder / f"12-{name}-{channels}.tif", data, bitspersample=12, **HOW, **more)
    # Three would be converted to YCbCr, and no tag says so.
    for channels in (2, 4):
        data = of_range((3, 45, 51, channels), np.uint8)
        tifffile.imwrite(folder / f"jpeg-{channels}.tif", data, compression="jpeg", rowsperstrip=16, **HOW)
    levels = lambda path, samples: to_whole_bytes(samples, 12) if path.name.startswith("12") else samples
    for together, apart in (("page", "ZC"), ("channel", "C")):
        compare_tiffs(folder, lambda path, samples, axes: each(levels(path, samples), axes, apart, of_samples), "--together", together)
