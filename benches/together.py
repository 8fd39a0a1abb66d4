#!/usr/bin/env python3
"""Equalizes a series with one table of levels for all of its frames, with histeqd --together all and in two passes of numpy, and says how the times
compare with each other and with a table for each frame. usage: together.py HISTEQD [--frames N] [--side N] [--folder DIR] [--runs N]

Series of 16-bit frames as PGM, and as TIFF compressed with LZW, are made in DIR (default /dev/shm) and removed again. The numpy way reads, counts and
maps in one process, as scripts do, and in as many as there are cores. The ways take turns; the medians are told. On a
busy machine seconds of processors say more than seconds; those of numpy in several processes are not counted.

needs: pip install tifffile numpy imagecodecs
"""
import argparse, collections, multiprocessing, os, shutil, statistics, subprocess, tempfile, time
import numpy as np
import tifffile


def frames(count, side):
    ramp = np.linspace(0, 1500, side, dtype=np.float32)
    scene = np.add.outer(ramp, ramp)
    noise = np.random.default_rng(1).integers(0, 200, (side, side)).astype(np.float32)
    for number in range(count):
        yield ((scene + np.roll(noise, 17 * number)) * (0.5 + 1.5 * number / count)).astype(np.uint16)


def write(path, frame):
    if path.endswith('.tif'):
        tifffile.imwrite(path, frame, compression='lzw', predictor=True)
    else:
        with open(path, 'wb') as file:
            file.write(b'P5\n%d %d\n65535\n' % frame.shape[::-1])
            file.write(frame.astype('>u2').tobytes())


def read(path):
    if path.endswith('.tif'):
        return tifffile.imread(path)
    with open(path, 'rb') as file:
        data = file.read()
    side = int(data.split(b'\n', 2)[1].split()[0])
    return np.frombuffer(data, '>u2', offset=len(data) - 2 * side * side).reshape(side, side).astype(np.uint16)


def counts_of(path):
    return np.bincount(read(path).ravel(), minlength=65536)


def mapped(job):
    path, target, lut = job
    write(target, lut[read(path)])


def with_numpy(source, target, each):
    paths = [os.path.join(source, name) for name in sorted(os.listdir(source))]
    counts = sum(each(counts_of, paths))
    first = counts.nonzero()[0][0]
    above = counts.cumsum() - counts[first]
    lut = np.floor(above / above[-1] * 65535 + 0.5).clip(0, 65535).astype(np.uint16)
    jobs = ((path, os.path.join(target, os.path.basename(path)), lut) for path in paths)
    for _ in each(mapped, jobs):
        pass


def timed(action):
    """Seconds, and those of processors, but for other processes of ours."""
    start, before = time.monotonic(), sum(os.times()[:4])
    action()
    return time.monotonic() - start, sum(os.times()[:4]) - before


def same(one, other):
    return all(np.abs(read(os.path.join(one, name)).astype(int) - read(os.path.join(other, name))).max() <= 1
               for name in os.listdir(one))


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument('histeqd')
    arguments.add_argument('--frames', type=int, default=100)
    arguments.add_argument('--side', type=int, default=1536)
    arguments.add_argument('--folder', default='/dev/shm')
    arguments.add_argument('--runs', type=int, default=5)
    given = arguments.parse_args()
    folder = tempfile.mkdtemp(dir=given.folder)
    try:
        with multiprocessing.Pool() as pool:
            for extension in ['pgm', 'tif']:
                source = os.path.join(folder, extension)
                os.mkdir(source)
                for number, frame in enumerate(frames(given.frames, given.side)):
                    write(os.path.join(source, f'{number:04}.{extension}'), frame)
                compare(given, folder, source, pool)
                shutil.rmtree(source)
    finally:
        shutil.rmtree(folder)


def compare(given, folder, source, pool):
    names = ['plain', 'in memory', 'decoded twice', 'numpy', 'numpy, a process a core']
    out = {name: os.path.join(folder, name.replace(' ', '-').replace(',', '')) for name in names}
    ours = [given.histeqd, source, '--durability', 'fast', '--quiet', '--no-config', '--devices', 'cpu']
    room = 4 * given.frames * given.side**2
    run = lambda name, *flags: subprocess.run([*ours, '--out', out[name], *flags], check=True)
    ways = {
        'plain': lambda: run('plain', '--memory', str(room)),
        'in memory': lambda: run('in memory', '--together', 'all', '--memory', str(room)),
        'decoded twice': lambda: run('decoded twice', '--together', 'all', '--memory', '64MiB'),
        'numpy': lambda: with_numpy(source, out['numpy'], map),
        'numpy, a process a core': lambda: with_numpy(source, out['numpy, a process a core'], pool.imap_unordered),
    }
    times = collections.defaultdict(list)
    for number in range(given.runs):
        for name, way in ways.items():
            os.mkdir(out[name])
            times[name].append(timed(way))
        if number == 0:
            assert same(out['in memory'], out['decoded twice']) and same(out['in memory'], out['numpy'])
        for folder_of in out.values():
            shutil.rmtree(folder_of)
    middle = lambda all: statistics.median(all)
    median = {name: middle(wall for wall, _ in all) for name, all in times.items()}
    work = {name: middle(processor for _, processor in all) for name, all in times.items()}
    pixels = given.frames * given.side**2 / 1e6
    print(f'{given.frames} frames of {given.side} x {given.side}, {os.path.basename(source)}:')
    for name, seconds in median.items():
        print(f'  {name}: {seconds:.2f} s, {work[name]:.2f} s of processors ({work[name] / work["plain"]:.2f} times plain), {pixels / seconds:.0f} MP/s, {seconds / median["plain"]:.2f} times plain, '
              f'{median["numpy"] / seconds:.1f} times as fast as numpy, {median["numpy, a process a core"] / seconds:.1f} as that in processes')


main()
