#!/usr/bin/env python3
"""Draws a picture and its histogram, before and after each method: python/examples/before_after.py PICTURE PLOT

Needs Pillow and matplotlib.
"""

import sys

import matplotlib.pyplot as plt
import numpy as np
from PIL import Image

import histeqd

METHODS = {
    "before": lambda picture: picture,
    "equalize": histeqd.equalize,
    "stretch": histeqd.stretch,
    "CLAHE": histeqd.clahe,
}


def main():
    source, plot = sys.argv[1:]
    picture = np.asarray(Image.open(source).convert("RGB"))
    figure, axes = plt.subplots(2, len(METHODS), figsize=(4 * len(METHODS), 6), layout="constrained")
    for (name, method), (above, below) in zip(METHODS.items(), axes.T):
        result = method(picture)
        above.imshow(result)
        above.set_title(name)
        above.axis("off")
        below.stairs(histeqd.histogram(result, 128, color="luma"), np.linspace(0, 256, 129), fill=True)
        below.set_yticks([])
    figure.savefig(plot)


main()
