#!/usr/bin/env python3
"""What --preset photo was chosen by: sheets of photographs at several settings, to look at, and the table in docs/methods.md of what they do to colours.

usage: benches/photo_settings.py PHOTOGRAPHS SHEETS [HISTEQD]        needs: pip install numpy pillow scikit-image; HISTEQD is target/release/histeqd
by default. PHOTOGRAPHS is a folder of JPEGs (benches/photos.sh DIR makes DIR/jpg), to which those of scikit-image are added.
"""
import sys, tempfile
from pathlib import Path

import numpy as np
from PIL import Image, ImageFont

from make_pictures import INBOX, ROOT, histeqd, plain_cell, sheet

SIZE, ROWS = (270, 178), 8  # pixels of a picture on a sheet; pictures on one
CLAHE, HUE = ['--method', 'clahe'], ['--color', 'hue']
WAYS = {
    'global': [],
    'global, hue': HUE,
    'clahe': CLAHE,
    'clahe, hue': [*CLAHE, *HUE],
    'clahe, lab, strength 0.5': [*CLAHE, '--color', 'lab', '--strength', '0.5'],
    'clahe, luma, strength 0.5': [*CLAHE, '--strength', '0.5'],
    'photo: clahe, hue, strength 0.5': ['--preset', 'photo'],
}


def prepare(photographs, folder):
    """Makes the photographs small, with names in the order of the sheets."""
    from skimage import data

    pictures = [Image.open(path) for path in sorted(photographs.iterdir())] + [Image.open(INBOX / 'yeast-colonies.jpg')]
    samples = [data.astronaut(), data.cat(), data.coffee(), data.hubble_deep_field(), data.rocket(), data.stereo_motorcycle()[0]]
    folder.mkdir()
    for number, picture in enumerate([*pictures, *map(Image.fromarray, samples)]):
        picture = picture.convert('RGB')
        picture.thumbnail((800, 800))
        picture.save(folder / f'{number:02}.png')


def colours(picture):
    """Saturation, hue in degrees, and where there is enough colour for a hue."""
    hue, saturation, value = np.moveaxis(np.asarray(picture.convert('HSV')).astype(float), -1, 0)
    return saturation / 255, hue / 256 * 360, saturation * value > 255 * 20


def differences(before, after):
    """Percent of pixels of which a channel becomes black or white, saturation before and after, degrees of hue, and levels that the samples change by."""
    samples = [np.asarray(picture).astype(int) for picture in (before, after)]
    clipped = [(one == 0) | (one == 255) for one in samples]
    (old, old_hue, had), (new, new_hue, has) = colours(before), colours(after)
    turned = np.abs((new_hue - old_hue + 180) % 360 - 180)[had & has]
    return [
        100 * (clipped[1] & ~clipped[0]).any(axis=-1).mean(),
        old.mean(),
        new.mean(),
        turned.mean() if turned.size else 0,
        np.abs(samples[1] - samples[0]).mean(),
    ]


def main():
    photographs, sheets = map(Path, sys.argv[1:3])
    binary = sys.argv[3] if len(sys.argv) > 3 else str(ROOT / 'target/release/histeqd')
    sheets.mkdir(exist_ok=True, parents=True)
    with tempfile.TemporaryDirectory() as scratch:
        scratch = Path(scratch)
        prepare(photographs, scratch / 'input')
        names = sorted(path.name for path in (scratch / 'input').iterdir())
        print('| settings | newly black or white in a channel, % of pixels | saturation before | after | hue turned, degrees | samples changed, levels |')
        print('| --- |' + ' --: |' * 5)
        for way, flags in WAYS.items():
            histeqd(binary, [scratch / 'input'], scratch / way, flags)
            all_of = [differences(*(Image.open(scratch / side / name) for side in ('input', way))) for name in names]
            clipped, before, after, turned, changed = np.mean(all_of, axis=0)
            print(f'| {way} | {clipped:.1f} | {before:.2f} | {after:.2f} | {turned:.1f} | {changed:.1f} |')
        font = ImageFont.load_default(14)
        for first in range(0, len(names), ROWS):
            rows = [[plain_cell(Image.open(scratch / way / name), way, font, *SIZE) for way in ('input', *WAYS)]
                    for name in names[first:first + ROWS]]
            sheet(rows, (sheets / f'{first // ROWS}.jpg').resolve())


if __name__ == '__main__':
    main()
