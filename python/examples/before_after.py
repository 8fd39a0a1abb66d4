#!/usr/bin/env python3
"""Draws a picture and its histogram, before and after each method: python/examples/before_after.py PICTURE PLOT

Needs Pillow and matplotlib. The parts that begin with # %% are cells where an editor or Jupyter (jupytext) opens it as a notebook.
"""

# %% The picture
import sys

import matplotlib.pyplot as plt
import numpy as np
from PIL import Image

import histeqd

source, plot = sys.argv[1:]
picture = np.asarray(Image.open(source).convert("RGB"))

# %% Each method
results = {
    "before": picture,
    "equalize": histeqd.equalize(picture),
    "stretch": histeqd.stretch(picture),
    "CLAHE": histeqd.clahe(picture),
}

# %% The histograms of brightness, and how many samples are up to each level
figure, axes = plt.subplots(2, len(results), figsize=(4 * len(results), 6), layout="constrained")
edges = np.linspace(0, 256, 129)
for (name, result), (above, below) in zip(results.items(), axes.T):
    above.imshow(result)
    above.set_title(name)
    above.axis("off")
    counts = histeqd.histogram(result, 128, color="luma")
    below.stairs(counts / counts.max(), edges, fill=True, alpha=0.6)
    below.stairs(counts.cumsum() / counts.sum(), edges, color="black", baseline=None)
    below.set_yticks([])
figure.savefig(plot)
