#!/usr/bin/env python3
"""histeqd on its devices, OpenCV and bare copies, from files in memory to files in memory: a folder of large gray pictures, and cold
starts.

usage: files.py HISTEQD [--devices 'cpu;auto;all'] [--pictures 600] [--runs 3] [--scratch /dev/shm] [--depth 16] [--flags '...']
needs: numpy, cv2 for OpenCV (at 8 bits)

Prints, for 1, 10 and so many pictures of 4096x3072, when the first output was there and when all of them were, and MB/s.
"""
import argparse, multiprocessing, os, shutil, statistics, subprocess, sys, time
from pathlib import Path

import numpy

WIDTH, HEIGHT = 4096, 3072


def make(folder, count, depth):
    """Makes `count` files: four different pictures, and hard links to them."""
    rng = numpy.random.default_rng(0)
    y, x = numpy.mgrid[:HEIGHT, :WIDTH]
    wave = 90 + 50 * numpy.sin(x / 97) * numpy.cos(y / 61)
    folder.mkdir(parents=True)
    for number in range(count):
        path = folder / f'{number}.pgm'
        if number < 4:
            samples = (wave + rng.normal(0, 6, wave.shape) + number).clip(0, 255) * (1 << depth - 8)
            samples = samples.astype('>u2' if depth > 8 else 'u1')
            path.write_bytes(b'P5\n%d %d\n%d\n' % (WIDTH, HEIGHT, (1 << depth) - 1) + samples.tobytes())
        else:
            os.link(folder / f'{number % 4}.pgm', path)


def touch(folder, size):
    """Allocates `size` bytes once and frees them: a virtual machine only gets its pages when they are first touched."""
    block = numpy.ones(1 << 28, numpy.uint8)
    with open(folder / 'touch', 'wb', buffering=0) as file:
        for _ in range(0, size, len(block)):
            file.write(block)
    (folder / 'touch').unlink()


def histeqd(binary, device, flags):
    def run(inbox, out):
        command = [binary, str(inbox), '--out', str(out), '--no-config', '--quiet', '--devices', device, *flags]
        start, first = time.perf_counter(), None
        with subprocess.Popen(command) as process:
            while process.poll() is None:
                if first is None and out.exists() and any(not entry.name.startswith('.') for entry in os.scandir(out)):
                    first = time.perf_counter() - start
                time.sleep(0.0005 if first is None else 0.002)
            seconds = time.perf_counter() - start
        if process.returncode:
            sys.exit(f'{" ".join(command)}: ended with {process.returncode}')
        return first or seconds, seconds
    return run


def one_by_opencv(job):
    import cv2
    cv2.setNumThreads(1)
    cv2.imwrite(job[1], cv2.equalizeHist(cv2.imread(job[0], cv2.IMREAD_UNCHANGED)))


BUFFER = bytearray(WIDTH * HEIGHT * 2 + 100)


def one_copied(job):
    """Does the least that any program does that reads and writes files: reads into a reused buffer, and writes that to another file."""
    with open(job[0], 'rb', buffering=0) as file:
        length = file.readinto(BUFFER)
        assert length == os.fstat(file.fileno()).st_size
    with open(job[1], 'wb', buffering=0) as file:
        assert file.write(memoryview(BUFFER)[:length]) == length


def a_process_a_core(one):
    """A run with one process per core, each doing one job after the other. Their start is not timed."""
    def run(inbox, out):
        jobs = [(str(path), str(out / path.name)) for path in inbox.iterdir()]
        out.mkdir()
        with multiprocessing.get_context('spawn').Pool() as pool:
            pool.map(one, jobs[:1] * os.cpu_count(), chunksize=1)
            start = time.perf_counter()
            for done, _ in enumerate(pool.imap_unordered(one, jobs)):
                first = time.perf_counter() - start if done == 0 else first
            return first, time.perf_counter() - start
    return run


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('histeqd')
    parser.add_argument('--devices', default='cpu;auto;all', help='choices for --devices, with ; between them')
    parser.add_argument('--pictures', type=int, default=600)
    parser.add_argument('--runs', type=int, default=3)
    parser.add_argument('--scratch', type=Path, default=Path('/dev/shm'))
    parser.add_argument('--depth', type=int, choices=[8, 16], default=8, help='bits a sample')
    parser.add_argument('--flags', default='', help='more flags for histeqd, as one argument')
    given = parser.parse_args()

    flags, bytes_each = given.flags.split(), WIDTH * HEIGHT * given.depth // 8
    runners = {f'histeqd --devices {device}': histeqd(given.histeqd, device, flags) for device in given.devices.split(';')}
    runners['bare copies, a process a core'] = a_process_a_core(one_copied)
    if given.depth == 8 and not flags:
        runners['OpenCV, a process a core'] = a_process_a_core(one_by_opencv)
    touch(given.scratch, 3 * given.pictures * bytes_each)
    print('| | pictures | first output, ms | all, s | MB/s |\n| --- | --: | --: | --: | --: |')
    for pictures in sorted({1, 10, given.pictures}):
        inbox, out = given.scratch / f'inbox-{pictures}', given.scratch / 'out'
        make(inbox, pictures, given.depth)
        times = {name: [] for name in runners}
        for _ in range(given.runs):
            for name, run in runners.items():
                shutil.rmtree(out, ignore_errors=True)
                try:
                    times[name].append(run(inbox, out))
                except ImportError as error:
                    print(f'left out: {name}: {error}', file=sys.stderr)
        for name, each in times.items():
            if each:
                first, seconds = (statistics.median(column) for column in zip(*each))
                rate = pictures * bytes_each / seconds / 1e6
                print(f'| {name} | {pictures} | {1e3 * first:.0f} | {seconds:.3f} | {rate:.0f} |', flush=True)
        shutil.rmtree(inbox)
        shutil.rmtree(out, ignore_errors=True)


if __name__ == '__main__':
    main()
