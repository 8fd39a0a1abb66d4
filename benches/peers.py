#!/usr/bin/env python3
"""histeqd beside what else does the job, from a folder of files to a folder of files on all cores. Prints a Markdown table.

usage: benches/peers.py FOLDER SCRATCH [--op equalize|clahe] [--runs N] [--histeqd BINARY] [--flags '...']
needs: pip install opencv-python-headless pillow pyvips pyvips-binary; Debian's imagemagick for convert. What is missing is
left out aloud. SCRATCH, and FOLDER, best lie in memory (/dev/shm).

Gray pictures are equalized as they are and colour ones on luma; CLAHE has clip limit 2 and 8x8 tiles; JPEGs are written with
quality 90 by the peers, and PNGs as each does by default. All take turns, so that a drift of the machine falls on all alike:
quote the ratios. A time is the median of N runs; the pools' start and imports do not count, histeqd's start does.
"""
import argparse, multiprocessing, os, shutil, statistics, subprocess, sys, time
from pathlib import Path

CLIP, TILES, QUALITY = 2.0, (8, 8), 90


def opencv(source, target, op):
    import cv2, numpy
    cv2.setNumThreads(1)
    enhance = cv2.equalizeHist if op == 'equalize' else cv2.createCLAHE(CLIP, TILES).apply
    picture = cv2.imread(source, cv2.IMREAD_UNCHANGED)
    if picture.ndim == 2:
        picture = enhance(picture)
    else:
        luma, red, blue = cv2.split(cv2.cvtColor(picture[:, :, :3], cv2.COLOR_BGR2YCrCb))
        colour = cv2.cvtColor(cv2.merge([enhance(luma), red, blue]), cv2.COLOR_YCrCb2BGR)
        picture = colour if picture.shape[2] == 3 else numpy.dstack([colour, picture[:, :, 3]])
    cv2.imwrite(target, picture, [cv2.IMWRITE_JPEG_QUALITY, QUALITY] if target.endswith('jpg') else [])


def pillow(source, target, op):
    from PIL import Image, ImageOps
    if op != 'equalize':
        raise NotImplementedError('Pillow has no CLAHE')
    picture = Image.open(source)
    if picture.mode == 'L':
        picture = ImageOps.equalize(picture)
    else:
        luma, blue, red = picture.convert('RGB').convert('YCbCr').split()
        picture = Image.merge('YCbCr', (ImageOps.equalize(luma), blue, red))
        picture = picture if target.endswith('jpg') else picture.convert('RGB')
    picture.save(target, quality=QUALITY)


def libvips(source, target, op):
    import pyvips
    picture = pyvips.Image.new_from_file(source)
    window = [picture.width // TILES[0], picture.height // TILES[1]]
    enhance = lambda band: band.hist_equal() if op == 'equalize' else band.hist_local(*window, max_slope=int(CLIP))
    if picture.bands >= 3:
        lab = picture.copy_memory()[:3].colourspace('lab')
        lightness = enhance((lab[0] * 2.55).cast('uchar')) / 2.55
        picture = lightness.bandjoin(lab[1:3]).copy(interpretation='lab').colourspace('srgb')
    else:
        picture = enhance(picture.copy_memory())
    picture.write_to_file(target, **({'Q': QUALITY} if target.endswith('jpg') else {}))


def imagemagick(source, target, op):
    how = ['-equalize'] if op == 'equalize' else ['-clahe', f'{100 / TILES[0]}x{100 / TILES[1]}%+256+{CLIP}']
    environment = {**os.environ, 'MAGICK_THREAD_LIMIT': '1'}
    subprocess.run(['convert', source, '-quality', str(QUALITY), *how, target], check=True, env=environment, stderr=subprocess.DEVNULL)


def pooled(peer):
    """A run with one process per core, for a peer that processes one picture per call."""
    def run(paths, out, op):
        jobs = [(str(path), str(out / path.name), op) for path in paths]
        with multiprocessing.get_context('spawn').Pool() as pool:
            pool.starmap(peer, jobs[:1] * os.cpu_count(), chunksize=1)
            start = time.perf_counter()
            pool.starmap(peer, jobs, chunksize=1)
            return time.perf_counter() - start
    return run


def ours(binary, folder, flags):
    def run(_, out, op):
        method = {'equalize': 'global', 'clahe': 'clahe'}[op]
        command = [binary, folder, '--out', str(out), '--no-config', '--quiet', '--method', method, *flags]
        start = time.perf_counter()
        subprocess.run(command, check=True)
        return time.perf_counter() - start
    return run


def measure(runners, paths, scratch, op, runs):
    """Returns the seconds by name, for the runners that succeed."""
    times = {name: [] for name in runners}
    for _ in range(runs):
        for name in list(times):
            out = scratch / name
            shutil.rmtree(out, ignore_errors=True)
            out.mkdir(parents=True)
            try:
                times[name].append(runners[name](paths, out, op))
            except Exception as error:
                print(f'left out: {name}: {type(error).__name__}: {str(error)[:100]}', file=sys.stderr)
                del times[name]
    return {name: statistics.median(each) for name, each in times.items()}


def megapixels(paths):
    from PIL import Image
    Image.MAX_IMAGE_PIXELS = None
    return sum(width * height for width, height in (Image.open(path).size for path in paths)) / 1e6


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('folder')
    parser.add_argument('scratch', type=Path)
    parser.add_argument('--op', choices=['equalize', 'clahe'], default='equalize')
    parser.add_argument('--runs', type=int, default=5)
    parser.add_argument('--histeqd', default='target/release/histeqd')
    parser.add_argument('--flags', default='', help='more flags for histeqd')
    given = parser.parse_args()

    paths = sorted(path for path in Path(given.folder).iterdir() if path.is_file())
    runners = {'histeqd': ours(given.histeqd, given.folder, given.flags.split())}
    runners |= {peer.__name__: pooled(peer) for peer in (opencv, pillow, libvips, imagemagick)}
    seconds = measure(runners, paths, given.scratch, given.op, given.runs)
    pixels = megapixels(paths)
    print(f'{len(paths)} pictures, {pixels:.0f} MP, {os.cpu_count()} cores, median of {given.runs} runs\n')
    print('| | MP/s | histeqd is faster by | output, MB |\n| --- | --: | --: | --: |')
    for name, each in sorted(seconds.items(), key=lambda item: item[1]):
        size = sum(path.stat().st_size for path in (given.scratch / name).rglob('*') if path.is_file()) / 1e6
        print(f'| {name} | {pixels / each:.0f} | {each / seconds["histeqd"]:.2f} | {size:.1f} |')


if __name__ == '__main__':
    main()
