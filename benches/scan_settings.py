#!/usr/bin/env python3
"""How `--preset scan` chooses its black point: benches/scan_settings.py FOLDER

Pages of one line of text and more, and faded prints of the photographs in FOLDER (scikit-image's data, for example), clean and with dust on 0.06 to 0.1 % of their
pixels, are stretched for each channel with several values of --clip-low. Prints where ink or the print's darkest tenth of a percent ends, by how much paper gets
noisier, and how many clean pixels become black. needs: pip install numpy pillow
"""
import sys
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw, ImageFont

LOW, HIGH = [0.05, 0.1, 0.12, 0.15, 0.2, 0.3, 0.5], 1.0
DUST = [0, 0.06, 0.1]
PAPER, INK = np.array([231, 223, 204]), np.array([52, 50, 58])
LINE = 'The quick brown fox jumps over the lazy dog, and then sits down again.'


def page(lines, generator):
    """An A4 page of 150 dots an inch: so many lines of 11 points, on paper with grain."""
    drawn = Image.new('L', (1240, 1754), 0)
    font = ImageFont.load_default(23)
    for line in range(lines):
        ImageDraw.Draw(drawn).text((150, 150 + 32 * line), LINE, 255, font)
    ink = np.asarray(drawn)[..., None] / 255
    return PAPER * (1 - ink) + INK * ink + generator.normal(0, 2.5, ink.shape), ink[..., 0] > 0.9


def faded(path, generator):
    """A photograph as on a faded print, which has no black."""
    picture = np.asarray(Image.open(path).convert('RGB')).astype(float)
    picture = picture * [0.6, 0.5, 0.35] + [85, 75, 60] + generator.normal(0, 1.5, picture.shape)
    dark = picture.mean(-1)
    return picture, dark <= np.percentile(dark, 0.5)


def dusty(picture, percent, generator):
    """The picture with so many percent of its pixels under dark specks."""
    picture, (height, width) = picture.copy(), picture.shape[:2]
    covered = np.zeros((height, width), bool)
    while covered.mean() * 100 < percent:
        y, x, size = generator.integers(0, height), generator.integers(0, width), generator.integers(1, 4)
        covered[y : y + size, x : x + size] = True
    picture[covered] = generator.integers(0, 25)
    return picture, covered


def stretched(samples, low):
    """Each channel as --method stretch makes it (model.py of docs/methods.md: percentiles with inverted_cdf)."""
    out = np.empty_like(samples)
    for channel in range(3):
        plane = samples[..., channel]
        counts = np.bincount(plane.ravel(), minlength=256)
        least = np.argmax(np.cumsum(counts) * 10**6 > plane.size * low * 10**4)
        above = plane.size - np.cumsum(counts) + counts
        most = np.flatnonzero(above * 10**6 > plane.size * HIGH * 10**4)[-1]
        scaled = (2 * (np.arange(256) - least) * 255 + (most - least)) // (2 * (most - least)) if least < most else np.arange(256)
        out[..., channel] = scaled.clip(0, 255)[plane]
    return out


def measure(name, picture, dark):
    for dust in DUST:
        generator = np.random.default_rng(5)
        spotted, covered = dusty(picture, dust, generator)
        samples = spotted.clip(0, 255).astype(np.uint8)
        cells = []
        for low in LOW:
            out = stretched(samples, low)
            clean = ~covered
            black = (out[clean] == 0).mean() * 100
            cells.append(f'{np.median(out[dark & clean]):3.0f} {out[~dark & clean].std():4.1f} {black:4.2f}')
        print(f'{name:24} {dust:5.2f} | ' + ' | '.join(cells))


print(f'{"":24} {"dust":>5} | ' + ' | '.join(f'{low:>13} %'[:13] for low in LOW) + '\n(level of ink or dark; spread of the rest; clean samples that are black, %)')
for lines in (1, 2, 5, 40):
    made, dark = page(lines, np.random.default_rng(lines))
    measure(f'{lines} lines, ink {dark.mean() * 100:.2f} %', made, dark)
for name in ('page.png', 'coffee.png', 'astronaut.png', 'camera.png', 'rocket.jpg', 'chelsea.png'):
    path = Path(sys.argv[1]) / name
    if path.exists():
        measure('faded ' + name, *faded(path, np.random.default_rng(3)))
    if name == 'page.png':
        plain = np.asarray(Image.open(path).convert('RGB')).astype(float)
        measure(name, plain, plain.mean(-1) < 60)
