"""Channels that are samples of a page, packed in 12 bits or compressed as JPEG, are equalized each by itself: on its page, or over all pages."""

import imagecodecs  # noqa: F401
import numpy as np
import tifffile

from common import compare_tiffs, natural
from equalized import each, of_samples
from picture import to_whole_bytes

HOW = dict(photometric="minisblack", planarconfig="contig", metadata={"axes": "ZYXC"})
PACKED = {"strips": dict(rowsperstrip=7), "tiles": dict(tile=(16, 32))}


def check_all(place):
    folder = place / "in"
    folder.mkdir()
    for channels in (2, 3, 5):
        for name, more in PACKED.items():
            data = natural((3, 45, 51, channels), np.uint16) // 2
            tifffile.imwrite(folder / f"12-{name}-{channels}.tif", data.clip(0, 4095), bitspersample=12, **HOW, **more)
    # Three would be converted to YCbCr, and no tag says so.
    for channels in (2, 4):
        data = natural((3, 45, 51, channels), np.uint8)
        tifffile.imwrite(folder / f"jpeg-{channels}.tif", data, compression="jpeg", rowsperstrip=16, **HOW)
    for together, apart in (("page", "ZC"), ("channel", "C")):

        def expected(path, samples, axes):
            levels = to_whole_bytes(samples, 12) if path.name.startswith("12") else samples
            return each(levels, axes, apart, of_samples)

        compare_tiffs(folder, expected, "--together", together)
