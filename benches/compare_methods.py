#!/usr/bin/env python3
"""Prints the tables of docs/methods.md: a series whose frames differ in exposure, --method match beside scikit-image and rio-hist, and --method stretch beside
GDAL, ImageJ and numpy's percentiles.

usage: benches/compare_methods.py [HISTEQD]        needs: pip install numpy pillow scikit-image rio-hist, and gdal_translate (apt install gdal-bin);
HISTEQD is target/release/histeqd by default
"""
import subprocess, sys, tempfile
from pathlib import Path

import numpy as np
from PIL import Image

ROOT = Path(__file__).resolve().parent.parent
INBOX = ROOT / 'examples/inbox'
FRAMES = 100


def histeqd(binary, inputs, out, *flags):
    command = [binary, *map(str, inputs), '--out', str(out), '--no-config', '--devices', 'cpu', '--quiet', '--overwrite', *flags]
    subprocess.run(command, check=True)


def gray(name):
    """A picture of the examples, its luma as histeqd reckons it."""
    picture = Image.open(INBOX / name)
    if picture.mode.startswith('I'):
        return np.asarray(picture).astype(np.uint16)
    samples = np.asarray(picture if picture.mode in ('L', 'RGB') else picture.convert('RGB'))
    if samples.ndim == 2:
        return samples
    red, green, blue = (samples[..., channel].astype(np.uint32) for channel in range(3))
    return ((19595 * red + 38470 * green + 7471 * blue + 32768) >> 16).astype(np.uint8)


def write(path, samples):
    top = 255 if samples.dtype == np.uint8 else 65535
    path.parent.mkdir(exist_ok=True, parents=True)
    data = samples.tobytes() if top == 255 else samples.astype('>u2').tobytes()
    path.write_bytes(b'P5\n%d %d\n%d\n' % (*samples.shape[::-1], top) + data)


def read(path):
    data = path.read_bytes()
    magic, size, top, _ = data.split(b'\n', 3)
    width, height = map(int, size.split())
    kind = 'u1' if top == b'255' else '>u2'
    samples = np.frombuffer(data, kind, offset=len(data) - width * height * np.dtype(kind).itemsize)
    return samples.reshape(height, width).astype(kind.replace('>', ''))


def series(binary, folder):
    """The lamp dims and flickers; what is seen stays."""
    scene = gray('microscope/nuclei.tif').astype(float)
    number = np.arange(FRAMES)
    exposure = 1 - 0.5 * number / FRAMES + 0.1 * np.sin(number / 4)
    exposure /= exposure.max()
    for frame, factor in enumerate(exposure):
        write(folder / 'series' / f'{frame:03}.pgm', (scene * factor + 0.5).astype(np.uint8))
    ways = {'before': [], 'global, each frame': [], 'global, together': ['--together', 'all'],
            'stretch, together': ['--method', 'stretch', '--together', 'all']}
    print('| mean level of frame |', ' | '.join(map(str, [1, 25, 50, 75, 100])), '| least to greatest | as the exposure |')
    print('| --- |' + ' --: |' * 7)
    for name, flags in ways.items():
        out = folder / 'series'
        if name != 'before':
            out = folder / 'out'
            histeqd(binary, [folder / 'series'], out, *flags)
        means = np.array([read(path).mean() for path in sorted(out.glob('*.pgm'))])
        shown = [f'{means[frame - 1]:.1f}' for frame in [1, 25, 50, 75, 100]]
        follows = np.corrcoef(means, exposure)[0, 1] if np.ptp(means) > 0 else 0
        print(f'| {name} |', ' | '.join(shown), f'| {means.min():.1f} to {means.max():.1f} | {follows:.2f} |')


def differences(ours, theirs):
    apart = np.abs(ours.astype(float) - theirs.astype(float))
    return f'{apart.mean():.2f} | {apart.max():.0f}'


def matches(binary, folder):
    from rio_hist.match import histogram_match
    from skimage.exposure import match_histograms
    pairs = [('cat.png', 'yeast-colonies.jpg'), ('yeast-colonies.jpg', 'cat.png'), ('microscope/nuclei.tif', 'cat.png'),
             ('radiology/abdomen-mr-16bit.pgm', 'radiology/chest-ct-16bit.png')]
    print('| picture, reference | scikit-image: levels apart, mean | most | rio-hist, mean | most | levels in the result: ours | of the reference '
          '| scikit-image, rounded |')
    print('| --- |' + ' --: |' * 7)
    for picture, reference in pairs:
        source, wanted = gray(picture), gray(reference)
        write(folder / 'match' / 'a.pgm', source)
        write(folder / 'reference.pgm', wanted)
        histeqd(binary, [folder / 'match'], folder / 'out', '--method', 'match', '--reference', str(folder / 'reference.pgm'))
        ours = read(folder / 'out' / 'a.pgm')
        theirs = match_histograms(source, wanted)
        rio = histogram_match(source, wanted, 1.0)
        levels = lambda samples: len(np.unique(np.round(samples)))
        name = f'{Path(picture).stem}, {Path(reference).stem}'
        print(f'| {name} | {differences(ours, theirs)} | {differences(ours, rio)} | {levels(ours)} | {levels(wanted)} | {levels(theirs)} |')


def imagej(samples, saturated):
    """Enhance Contrast with Normalize, as ij.plugin.ContrastEnhancer does it: percentiles of 256 bins, fractions cut off."""
    top = 255 if samples.dtype == np.uint8 else 65535
    low, high = (0, 256) if top == 255 else (int(samples.min()), int(samples.max()) + 1)
    counts = np.histogram(samples, 256, (low, high))[0]
    threshold = int(samples.size * saturated / 200)
    first = int(np.argmax(counts.cumsum() > threshold))
    last = 255 - int(np.argmax(counts[::-1].cumsum() > threshold))
    width = (high - low) / 256
    least, most = low + first * width, low + last * width
    return ((samples - least) / (most - least) * top).clip(0, top).astype(int)


def gdal(folder, source, ends, top):
    command = ['gdal_translate', '-q', '-of', 'PNM', '-ot', 'Byte' if top == 255 else 'UInt16', '-scale', *map(str, ends), '0', str(top)]
    subprocess.run([*command, str(source), str(folder / 'gdal.pgm')], check=True)
    return read(folder / 'gdal.pgm')


def stretches(binary, folder):
    print('| picture | clip-low, clip-high | histeqd: the ends | ImageJ: levels apart, mean | most | numpy + GDAL, mean | most |')
    print('| --- |' + ' --: |' * 6)
    for picture in ['cat.png', 'microscope/nuclei.tif', 'radiology/abdomen-mr-16bit.pgm', 'radiology/chest-ct-16bit.png']:
        source = gray(picture)
        write(folder / 'stretch' / 'a.pgm', source)
        top = 255 if source.dtype == np.uint8 else 65535
        for percent in [0.175, 2]:
            share = ['--clip-low', str(percent), '--clip-high', str(percent)]
            histeqd(binary, [folder / 'stretch'], folder / 'out', '--method', 'stretch', *share)
            ours = read(folder / 'out' / 'a.pgm')
            inside = source[(ours > 0) & (ours < top)]
            ends = np.percentile(source, [percent, 100 - percent], method='inverted_cdf')
            theirs = gdal(folder, folder / 'stretch' / 'a.pgm', ends, top)
            spread = f'{source[ours == 0].max() if (ours == 0).any() else inside.min()} to {source[ours == top].min()}'
            print(f'| {Path(picture).stem} | {percent} % | {spread} | {differences(ours, imagej(source, 2 * percent))} | {differences(ours, theirs)} |')


def main():
    binary = sys.argv[1] if len(sys.argv) > 1 else str(ROOT / 'target/release/histeqd')
    for part in [series, matches, stretches]:
        with tempfile.TemporaryDirectory() as scratch:
            part(str(Path(binary).resolve()), Path(scratch))
        print()


main()
