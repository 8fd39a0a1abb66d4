#!/usr/bin/env python3
"""Folders of pictures through each choice of devices, from memory to memory: what a GPU is worth, and what a second one is.

usage: devices.py HISTEQD PHOTO.jpg... [--rows ROW,...] [--counts 100,1000] [--devices 'cpu;0;0,1;auto;all'] [--runs 1]
                  [--scratch /dev/shm] [--flags '']        needs: numpy; writes COUNT times the photographs' size below SCRATCH
Rows: jpeg (to JPEGs of quality 90; GPUs insist on --jpeg gpu unless the devices are auto or all), pgm8, pgm8-clahe, pgm16, pgm16-clahe.
Prints, for each row and count, MP/s of whole runs (the medians of runs that take turns), and how many cores were busy.
"""
import argparse, json, os, shlex, shutil, statistics, subprocess, sys, time
from pathlib import Path

METHODS = {'pgm8-clahe': ['--method', 'clahe'], 'pgm16-clahe': ['--method', 'clahe']}


def sources(photos, scratch, histeqd):
    """Makes the pictures of each kind once; returns their paths by kind."""
    import numpy as np
    kinds = {name: scratch / name for name in ('jpeg', 'pgm8', 'pgm16')}
    for folder in kinds.values():
        folder.mkdir(parents=True)
    for number, photo in enumerate(photos):
        shutil.copy(photo, kinds['jpeg'] / f'{number}.jpg')
    subprocess.run([histeqd, kinds['jpeg'], '--out', kinds['pgm8'], '--no-config', '--quiet', '--devices', 'cpu', '--color', 'gray',
                    '--format', 'pnm', '--strength', '0'], check=True)
    random = np.random.default_rng(1)
    for path in kinds['pgm8'].glob('*.p?m'):
        data = path.read_bytes()
        _, size, _, raster = data.split(b'\n', 3)
        levels = np.frombuffer(raster, np.uint8).astype('>u2') * 256 + random.integers(0, 256, len(raster), dtype=np.uint16)
        (kinds['pgm16'] / path.name).write_bytes(b'P5\n%s\n65535\n' % size + levels.astype('>u2').tobytes())
    return {name: sorted(folder.iterdir()) for name, folder in kinds.items()}


def fill(folder, files, count):
    """Makes `count` names for the files."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    for number in range(count):
        source = files[number % len(files)]
        os.link(source, folder / f'{number:06}{source.suffix}')


def run(histeqd, inbox, out, flags):
    """Returns the seconds of a run, and how many cores it kept busy."""
    shutil.rmtree(out, ignore_errors=True)
    command = [histeqd, inbox, '--out', out, '--no-config', '--quality', '90', '--durability', 'fast', '--json', '--timings', *flags]
    start = time.perf_counter()
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    seconds = time.perf_counter() - start
    if done.returncode:
        sys.exit(f'{shlex.join(map(str, command))}: {done.stderr[-2000:]}')
    summary = json.loads(done.stdout.splitlines()[-1])
    load = summary['timings']['load']
    if os.environ.get('DETAILS'):
        stages = {name: round(value, 1) for name, value in summary['timings']['stages'].items()}
        print(flags, f'{seconds:.2f} s', stages, load, summary['devices'], summary['notes'], flush=True)
    return seconds, (load['processor'] + load['workers']) / load['seconds'], summary['pixels'] / 1e6


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('histeqd')
    parser.add_argument('photos', nargs='+')
    parser.add_argument('--rows', default='jpeg,pgm16-clahe,pgm16,pgm8-clahe,pgm8')
    parser.add_argument('--counts', default='100,1000')
    parser.add_argument('--devices', default='cpu;0;0,1;auto;all')
    parser.add_argument('--runs', type=int, default=1)
    parser.add_argument('--scratch', default='/dev/shm')
    parser.add_argument('--flags', default='')
    args = parser.parse_args()
    scratch = Path(args.scratch) / 'histeqd-devices'
    shutil.rmtree(scratch, ignore_errors=True)
    try:
        files = sources(args.photos, scratch, args.histeqd)
        choices = args.devices.split(';')
        print('| row | pictures |', ' | '.join(choices), '|')
        print('| --- | --: |', ' | '.join('--:' for _ in choices), '|')
        for row in args.rows.split(','):
            for count in map(int, args.counts.split(',')):
                kind = row.removesuffix('-clahe')
                fill(scratch / 'in', files[kind], count)
                results = {choice: [] for choice in choices}
                for _ in range(args.runs):
                    for choice in choices:
                        flags = ['--devices', choice, *METHODS.get(row, []), *shlex.split(args.flags)]
                        if kind == 'jpeg' and choice[0].isdigit():
                            flags += ['--jpeg', 'gpu']
                        seconds, cores, pixels = run(args.histeqd, scratch / 'in', scratch / 'out', flags)
                        results[choice].append((pixels / seconds, cores))
                cells = (statistics.median_low(results[choice]) for choice in choices)
                print(f'| {row} | {count} |', ' | '.join(f'{speed:.0f} ({cores:.0f})' for speed, cores in cells), '|', flush=True)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


if __name__ == '__main__':
    main()
