#!/usr/bin/env python3
"""A folder of JPEGs to a folder of JPEGs, luma equalized: histeqd on the processor, on the GPU and on both, OpenCV, torchvision.

usage: jpeg_gpu.py HISTEQD PHOTO... [--count 2000] [--runs 3] [--scratch /dev/shm]        needs: cv2; torch and torchvision with CUDA
The photographs are repeated, as hard links, to so many files. Everyone reads files and writes files of quality 90 below SCRATCH;
everyone's start counts, except OpenCV's processes and torch's, which are warm. Prints MP/s, medians of runs that took turns.
"""
import argparse, multiprocessing, os, shutil, statistics, subprocess, sys, time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

QUALITY = 90


def make(photos, folder, count):
    """Makes `count` files of the photographs; returns their megapixels."""
    import cv2
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    sizes = []
    for number, photo in enumerate(photos):
        copy = folder / f'{number}.jpg'
        shutil.copy(photo, copy)
        height, width = cv2.imread(str(copy), cv2.IMREAD_GRAYSCALE).shape
        sizes.append(width * height / 1e6)
    for number in range(len(photos), count):
        os.link(folder / f'{number % len(photos)}.jpg', folder / f'{number}.jpg')
    return sum(sizes[number % len(photos)] for number in range(count))


def histeqd(binary, flags):
    def run(inbox, out):
        command = [binary, str(inbox), '--out', str(out), '--no-config', '--quiet', '--quality', str(QUALITY), *flags]
        start = time.perf_counter()
        if subprocess.run(command).returncode:
            sys.exit(f'{" ".join(command)} failed')
        return time.perf_counter() - start
    return run


def one_by_opencv(job):
    import cv2
    cv2.setNumThreads(1)
    picture = cv2.imread(job[0], cv2.IMREAD_UNCHANGED)
    if picture.ndim == 2:
        result = cv2.equalizeHist(picture)
    else:
        luma = cv2.cvtColor(picture, cv2.COLOR_BGR2YCrCb)
        cv2.insertChannel(cv2.equalizeHist(cv2.extractChannel(luma, 0)), luma, 0)
        result = cv2.cvtColor(luma, cv2.COLOR_YCrCb2BGR)
    cv2.imwrite(job[1], result, [cv2.IMWRITE_JPEG_QUALITY, QUALITY])


def opencv(inbox, out):
    jobs = [(str(path), str(out / path.name)) for path in inbox.iterdir()]
    out.mkdir()
    with multiprocessing.get_context('spawn').Pool() as pool:
        pool.map(one_by_opencv, jobs[:1] * os.cpu_count(), chunksize=1)
        start = time.perf_counter()
        for _ in pool.imap_unordered(one_by_opencv, jobs, chunksize=4):
            pass
        return time.perf_counter() - start


def torchvision(inbox, out):
    """Equalizes each channel of RGB separately, since luma would cost torchvision more."""
    import torch
    from torchvision.io import ImageReadMode, decode_jpeg, encode_jpeg, read_file
    from torchvision.transforms.functional import equalize
    paths = list(inbox.iterdir())
    out.mkdir()

    def batch(some, pool):
        files = list(pool.map(read_file, map(str, some)))
        pictures = decode_jpeg(files, mode=ImageReadMode.RGB, device='cuda')
        done = encode_jpeg([equalize(picture) for picture in pictures], quality=QUALITY)
        list(pool.map(lambda pair: (out / pair[0].name).write_bytes(pair[1].cpu().numpy().tobytes()), zip(some, done)))

    with ThreadPoolExecutor(8) as pool:
        batch(paths[:16], pool)
        start = time.perf_counter()
        for first in range(0, len(paths), 16):
            batch(paths[first:first + 16], pool)
        torch.cuda.synchronize()
        return time.perf_counter() - start


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('histeqd')
    parser.add_argument('photos', nargs='+')
    parser.add_argument('--count', type=int, default=2000)
    parser.add_argument('--runs', type=int, default=3)
    parser.add_argument('--scratch', type=Path, default=Path('/dev/shm'))
    parser.add_argument('--only', default='', help='those whose names begin so, or so; with a ; between')
    given = parser.parse_args()

    inbox, out = given.scratch / 'inbox', given.scratch / 'out'
    pixels = make(given.photos, inbox, given.count)
    runners = {
        'histeqd --jpeg cpu --devices cpu': histeqd(given.histeqd, ['--jpeg', 'cpu', '--devices', 'cpu']),
        'histeqd --jpeg cpu --devices all': histeqd(given.histeqd, ['--jpeg', 'cpu', '--devices', 'all']),
        'histeqd --jpeg gpu': histeqd(given.histeqd, ['--jpeg', 'gpu']),
        'histeqd --jpeg auto': histeqd(given.histeqd, ['--jpeg', 'auto']),
        'OpenCV, a process a core': opencv,
        'torchvision on the GPU': torchvision,
    }
    times = {name: [] for name in runners if name.startswith(tuple(given.only.split(';')))}
    for _ in range(given.runs):
        for name in list(times):
            shutil.rmtree(out, ignore_errors=True)
            # The driver releases the resources of a run only some time after it has ended.
            time.sleep(3)
            try:
                times[name].append(runners[name](inbox, out))
                print(f'{name}: {times[name][-1]:.2f} s', file=sys.stderr, flush=True)
            except Exception as error:
                print(f'left out: {name}: {type(error).__name__}: {str(error)[:200]}', file=sys.stderr)
                del times[name]
    print(f'{given.count} pictures, {pixels:.0f} MP, {os.cpu_count()} cores, medians of {given.runs} runs\n')
    print('| | s | MP/s | pictures/s |\n| --- | --: | --: | --: |')
    for name, each in times.items():
        seconds = statistics.median(each)
        print(f'| {name} | {seconds:.2f} | {pixels / seconds:.0f} | {given.count / seconds:.0f} |')
    shutil.rmtree(inbox)
    shutil.rmtree(out, ignore_errors=True)


if __name__ == '__main__':
    main()
