"""What an output keeps besides samples: the mask, the layout of a cloud-optimized GeoTIFF, and sidecars. What is wrong with them, in words."""

import re

import numpy as np
import rasterio
from rasterio.enums import MaskFlags
from rio_cogeo.cogeo import cog_validate

# Elements of GDAL's metadata with text, and those about the pixels.
WITH_TEXT = re.compile(rb'<(\w+)([^<>]*)>([^<>]+)</\1>')
OF_PIXELS = re.compile(rb'Hist|BucketCount|IncludeOut|Approximate|Minimum|Maximum|Mean|StandardDeviation|Scale|Offset|.*key="STATISTICS_')


def mask_of(path):
    """The mask of the first picture of a TIFF, in it or in a .msk beside it; None without one."""
    with rasterio.open(path) as file:
        flags = file.mask_flag_enums[0]
        return file.dataset_mask() if MaskFlags.per_dataset in flags and MaskFlags.alpha not in flags else None


def is_cog(path):
    """True or None. Files in strips are left out: rio-cogeo accepts small ones, whoever wrote them, if pixels follow the directory."""
    with rasterio.open(path) as file:
        return file.profile['tiled'] and cog_validate(path, quiet=True)[0] or None


def of_mask(theirs, ours, hidden, even, plain):
    if not np.array_equal(ours, theirs):
        return 'another mask, or none'
    return None if np.array_equal(even.frames[0][hidden], plain.frames[0][hidden], equal_nan=True) else 'hidden pixels changed'


def of_sidecars(copies):
    """As docs/satellites.md promises them."""
    wrong = []
    for sidecar, copy in copies:
        before, after = sidecar.read_bytes(), copy.read_bytes() if copy.exists() else None
        if sidecar.name.endswith('.aux.xml'):
            before = [part for part in WITH_TEXT.findall(before) if not OF_PIXELS.match(part[0] + part[1])] or None
            after = WITH_TEXT.findall(after or b'') or None
        if before != after:
            wrong.append(f'{sidecar.name}: ' + ('no copy' if after is None else 'another copy'))
    return '; '.join(wrong)
