#!/usr/bin/env python3
"""Draws the pictures of README and of the documentation: histeqd's outputs beside its inputs, with their histograms.

usage: benches/make_pictures.py [HISTEQD]        needs: pip install numpy pillow scikit-image; HISTEQD is target/release/histeqd by default

Writes docs/before-after.jpg, docs/photograph.jpg, docs/stretch-match.jpg, docs/measured.jpg, docs/presets.jpg and docs/clahe.jpg. docs/rocket.jpg is scikit-image's rocket.jpg (SpaceX,
CC0) made smaller; docs/landsat.png is a piece of a band of Landsat 8 (USGS, public domain), samples as in geotrellis' lc8-utm-1.tif (Apache-2.0).
Of scikit-image come a portrait (NASA, public domain), a cup of coffee (Rachel Michetti, CC0) and a page of text (CC0).
"""
import subprocess, sys, tempfile
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw, ImageFont

ROOT = Path(__file__).resolve().parent.parent
INBOX = ROOT / 'examples/inbox'
CELL, STRIP, GAP, LABEL = 380, 90, 14, 30  # pixels: a picture's width, a histogram's height, between cells, a caption
SMALL = (208, 136)  # pixels: a picture of the sheet of presets
PAPER, INK, BARS = (255, 255, 255), (40, 40, 40), (70, 105, 150)
PICTURES = ['yeast-colonies.jpg', 'microscope/nuclei.tif', 'radiology/abdomen-mr-16bit.pgm']
# A number counts in all 65,536 levels of a 16-bit picture, so it has to be higher for the same effect.
CLAHE = [
    ('cat.png', ['1', '2', '4']),
    ('microscope/nuclei.tif', ['1', '2', '4']),
    ('radiology/abdomen-mr-16bit.pgm', ['2', 'auto', '300']),
]


def histeqd(binary, inputs, out, flags=()):
    """Does `inputs` (files or a folder) into `out`."""
    command = [binary, *map(str, inputs), '--out', str(out), '--no-config', '--devices', 'cpu', '--quiet', *flags]
    subprocess.run(command, check=True)


def shown(path):
    """The picture as a viewer shows it: 8 bits of each sample."""
    picture = Image.open(path)
    if picture.mode.startswith('I'):  # 16-bit gray
        return Image.fromarray((np.asarray(picture).astype(np.uint32) >> 8).astype(np.uint8))
    return picture.convert('RGB' if picture.mode not in ('L', 'RGB') else picture.mode)


def histogram(picture, width):
    """The picture's levels as bars, dark to light; the square root of the counts, so that rare levels are seen."""
    counts = np.sqrt(np.bincount(np.asarray(picture.convert('L')).ravel(), minlength=256))
    heights = (counts / counts.max() * (STRIP - 1)).astype(int)
    strip = Image.new('RGB', (256, STRIP), (240, 240, 240))
    draw = ImageDraw.Draw(strip)
    for level, height in enumerate(heights):
        draw.line([(level, STRIP), (level, STRIP - 1 - height)], BARS)
    return strip.resize((width, STRIP), Image.NEAREST)


def plain_cell(picture, caption, font, width, height):
    """One picture with its caption above."""
    scale = max(width / picture.width, height / picture.height)
    size = (round(picture.width * scale), round(picture.height * scale))
    fitted = picture.convert('RGB').resize(size, Image.LANCZOS)
    left, top = (fitted.width - width) // 2, (fitted.height - height) // 2
    whole = Image.new('RGB', (width, LABEL + height), PAPER)
    ImageDraw.Draw(whole).text((2, 5), caption, INK, font)
    whole.paste(fitted.crop((left, top, left + width, top + height)), (0, LABEL))
    return whole


def cell(path, caption, font, height):
    """One picture with its caption above and its histogram below."""
    picture = shown(path)
    whole = Image.new('RGB', (CELL, LABEL + height + STRIP + 4), PAPER)
    whole.paste(plain_cell(picture, caption, font, CELL, height))
    whole.paste(histogram(picture, CELL), (0, LABEL + height + 4))
    return whole


def sheet(rows, target, quality=85):
    """Puts rows of cells together."""
    cell_width = rows[0][0].width
    width = max(len(row) for row in rows) * (cell_width + GAP) + GAP
    sheet = Image.new('RGB', (width, sum(row[0].height + GAP for row in rows) + GAP), PAPER)
    y = GAP
    for row in rows:
        for column, one in enumerate(row):
            sheet.paste(one, (GAP + column * (cell_width + GAP), y))
        y += row[0].height + GAP
    sheet.save(target, quality=quality)
    print(target, target.stat().st_size, 'bytes')


def before_after(binary, font, scratch):
    histeqd(binary, [INBOX], scratch / 'global')
    row = lambda folder, title: [cell(folder / name, f'{title}: {Path(name).name}', font, 285) for name in PICTURES]
    sheet([row(INBOX, 'before'), row(scratch / 'global', 'after')], ROOT / 'docs/before-after.jpg')


def photograph(binary, font, scratch):
    path, cells = ROOT / 'docs/rocket.jpg', []
    for caption in ('input', '--method global', '--method global --strength 0.5', '--method clahe'):
        shown = path
        if caption != 'input':
            out = scratch / caption.replace(' ', '')
            histeqd(binary, [path], out, caption.split())
            shown = out / path.name
        cells.append(cell(shown, caption, font, 254))
    sheet([cells], ROOT / 'docs/photograph.jpg')


def stretch_match(binary, font, scratch):
    def made(path, caption, flags):
        out = scratch / caption.replace(' ', '-')
        histeqd(binary, [path], out, flags)
        return cell(out / path.name, caption, font, 250)

    rows = []
    for name in PICTURES[1:]:
        path = INBOX / name
        stretch = ['--method', 'stretch']
        rows.append([
            cell(path, 'input', font, 250),
            made(path, 'stretch', stretch),
            made(path, 'stretch, clip high 2', [*stretch, '--clip-high', '2']),
            made(path, 'global', []),
        ])
    path, reference = ROOT / 'docs/rocket.jpg', INBOX / 'cat.png'
    match = ['--method', 'match', '--reference', str(reference)]
    rows.append([
        cell(path, 'input', font, 250),
        cell(reference, 'reference', font, 250),
        made(path, 'match', match),
        made(path, 'match, per channel', [*match, '--color', 'per-channel']),
    ])
    sheet(rows, ROOT / 'docs/stretch-match.jpg')


def series(binary, scratch):
    """Frames of a lamp that dims, before and after, side by side."""
    scene = np.asarray(Image.open(INBOX / 'microscope/nuclei.tif'))[100:400, 100:230].astype(float)
    folder = scratch / 'series'
    folder.mkdir()
    for number, exposure in enumerate((1, 0.75, 0.5)):
        Image.fromarray((scene * exposure + 0.5).astype(np.uint8)).save(folder / f'{number}.png')
    for caption, flags in (('three frames', None), ('global, each', []), ('global, together', ['--together', 'all']),
                           ('stretch, together', ['--method', 'stretch', '--together', 'all'])):
        out = folder
        if flags is not None:
            out = scratch / caption.replace(' ', '-')
            histeqd(binary, [folder], out, flags)
        frames = [np.asarray(Image.open(path)) for path in sorted(out.glob('*.png'))]
        path = scratch / f'{caption}.png'
        Image.fromarray(np.hstack(frames)).save(path)
        yield path, caption


def measured(binary, font, scratch):
    landsat, ct = ROOT / 'docs/landsat.png', INBOX / 'radiology/chest-ct-16bit.png'
    twelve = ['--levels', '4096', '--depth', '8']
    clahe = ['--method', 'clahe', '--clip-limit', '2', '--tiles', '2x2']
    stretch = ['--method', 'stretch', '--clip-low', '2', '--clip-high', '2']
    rows = []
    for path, all_flags in [
        (landsat, [stretch, [*stretch, '--no-data', '0'], ['--no-data', '0']]),
        (ct, [clahe, [*clahe, *twelve], twelve]),
    ]:
        cells = [cell(path, 'input', font, 300)]
        for flags in all_flags:
            out = scratch / f'{path.stem}{len(rows)}{len(cells)}'
            histeqd(binary, [path], out, flags)
            caption = ' '.join(flags).replace('--method ', '').replace(' --clip-high 2', '').replace(' --tiles 2x2', '').replace('--', '').replace(' depth 8', '')
            cells.append(cell(out / path.name, caption if 'method' in ' '.join(flags) else f'global {caption}', font, 300))
        rows.append(cells)
    rows.append([cell(path, caption, font, 290) for path, caption in series(binary, scratch)])
    sheet(rows, ROOT / 'docs/measured.jpg')


def settings(limits):
    """Captions, and the flags that make the picture below."""
    yield 'input', None
    yield 'global', ['--method', 'global']
    for limit in limits:
        yield f'clahe, clip limit {limit}', ['--method', 'clahe', '--clip-limit', limit]
    yield 'clahe, no limit', ['--method', 'clahe', '--clip-limit', '0']
    for tiles in ('2x2', '32x32'):
        yield f'clip limit {limits[1]}, {tiles} tiles', ['--method', 'clahe', '--clip-limit', limits[1], '--tiles', tiles]


def clahe(binary, font, scratch):
    rows = []
    for name, limits in CLAHE:
        cells = []
        for caption, flags in settings(limits):
            path = INBOX / name
            if flags is not None:
                out = scratch / caption.replace(' ', '-')
                histeqd(binary, [path], out, flags)
                path = out / path.name
            cells.append(cell(path, caption, font, 250))
        rows += [cells[:4], cells[4:]]
    sheet(rows, ROOT / 'docs/clahe.jpg')


def of_presets(scratch):
    """The pictures of the sheet, with the preset of each."""
    from skimage import data

    def saved(name, samples):
        Image.fromarray(samples).save(scratch / name)
        return scratch / name

    yield saved('portrait.png', data.astronaut()[:340]), 'photo'
    yield saved('coffee.png', data.coffee()), 'photo'
    yield ROOT / 'docs/rocket.jpg', 'photo'
    yield saved('page.png', data.page()), 'scan'
    # As an old print: black and white have become brown and yellow.
    yield saved('faded.png', (data.coffee() * [0.6, 0.5, 0.35] + [85, 75, 60]).astype(np.uint8)), 'scan'
    yield INBOX / 'radiology/abdomen-mr-16bit.pgm', 'xray'
    yield INBOX / 'microscope/nuclei.tif', 'microscopy'
    yield ROOT / 'docs/landsat.png', 'satellite'


def presets(binary, font, scratch):
    rows = []
    for path, preset in of_presets(scratch):
        last = ['--preset', preset] + (['--no-data', '0'] if preset == 'satellite' else [])
        others = [['--method', name] for name in ('global', 'clahe', 'stretch')]
        if preset == 'photo':
            others[2] = ['--method', 'clahe', '--color', 'hue']
        cells = [plain_cell(shown(path), 'input', font, *SMALL)]
        for flags in [*others, last]:
            caption = ' '.join(flags).replace('--method ', '').replace('--color ', '')
            out = scratch / f'{path.stem}-{caption}'
            histeqd(binary, [path], out, flags)
            cells.append(plain_cell(shown(out / path.name), caption, font, *SMALL))
        rows.append(cells)
    sheet(rows, ROOT / 'docs/presets.jpg', quality=72)


def main():
    binary = sys.argv[1] if len(sys.argv) > 1 else str(ROOT / 'target/release/histeqd')
    font = ImageFont.load_default(17)
    with tempfile.TemporaryDirectory() as scratch:
        before_after(binary, font, Path(scratch))
        photograph(binary, font, Path(scratch))
        stretch_match(binary, font, Path(scratch))
        measured(binary, font, Path(scratch))
        presets(binary, ImageFont.load_default(14), Path(scratch))
        clahe(binary, font, Path(scratch))


if __name__ == '__main__':
    main()
