"""`--preset photo`, and each of its steps alone, makes the bytes of its definition (photo_model.py).

Pictures are gray and colour, with and without alpha, of 8 and 16 bits; dark ones, flat ones, and such as no grid divides.
"""

from itertools import product

import numpy as np
import tifffile

from common import outputs, same
from photo_model import photo

# Flags, and the settings of the definition that they change.
STEPS = [
    ("", {}),
    ("--strength 0", {"strength": 0}),
    ("--exposure 1 --clip-low 1 --clip-high 2", {"exposure": 1000, "clip_low": 10_000, "clip_high": 20_000}),
    ("--exposure 0 --noise 200 --clip-limit 3", {"exposure": 0, "noise": 200, "clip_limit": 3.0}),
    ("--exposure 0 --noise 0 --tiles 3x5", {"exposure": 0, "noise": 0, "tiles": (3, 5)}),
]


def picture(random, height, width, channels, dtype, percent):
    """Smooth areas beside noise, in a share of the range."""
    top = np.iinfo(dtype).max
    across, down = np.meshgrid(np.linspace(0, 1, width), np.linspace(0, 1, height))
    base = 0.15 + 0.5 * across * down + 0.3 * random.random((height, width)) * (across > 0.5)
    tints = 0.6 + 0.4 * random.random(3) if channels > 1 else np.ones(1)
    values = (base[..., None] * tints * percent / 100 * top).clip(0, top).astype(dtype)
    if channels == 4:
        values = np.dstack([values, np.where(random.random((height, width)) < 0.2, 0, top).astype(dtype)])
    return values.squeeze()


def check_all(place):
    random = np.random.default_rng(66)
    pictures = {"constant": np.full((40, 50, 3), 90, np.uint8), "black": np.zeros((40, 50), np.uint8)}
    for (height, width), *kind in product([(96, 132), (75, 101), (13, 12), (7, 9)], (1, 3, 4), ("u1", "u2"), (10, 30, 100)):
        pictures["-".join(map(str, (height, width, *kind)))] = picture(random, height, width, *kind)
    (place / "in").mkdir()
    for name, values in pictures.items():
        how = dict(photometric="rgb", extrasamples=["unassalpha"] * (values.shape[2] - 3)) if values.ndim > 2 else {}
        tifffile.imwrite(place / "in" / f"{name}.tif", values, **how)
    for flags, settings in STEPS:
        for path, output in outputs(place / "in", "--preset", "photo", *flags.split()):
            same(tifffile.imread(output), photo(pictures[path.stem], **settings), f"photo {flags}: {path.name}")
