#!/usr/bin/env python3
"""Folders of pictures through each choice of devices, from memory to memory: what a GPU is worth, and what a second one is.

usage: devices.py HISTEQD PHOTO.jpg... [--rows ROW,...] [--counts 100,1000,10000] [--devices 'cpu;0;0,1;auto;all'] [--runs 1]
                  [--against OTHER-HISTEQD]... [--label MACHINE] [--seconds 540] [--room GB] [--scratch /dev/shm] [--flags '']
Rows: jpeg (to JPEGs of quality 90; GPUs insist on --jpeg gpu unless the devices are auto or all), pgm8, pgm8-clahe, pgm16, pgm16-clahe.
Inputs are hard links of a few files. Outputs that need more than ROOM are removed while the run goes on, in every column alike.
Prints, for each count and row, MP/s of whole runs (the medians of runs that take turns), and how many cores were busy; with --against
a line for each other program, which takes turns too. What would not end within SECONDS is left out, and named at the end.
"""
import argparse, json, os, random, shlex, shutil, statistics, subprocess, sys, threading, time
from pathlib import Path

METHODS = {'pgm8-clahe': ['--method', 'clahe'], 'pgm16-clahe': ['--method', 'clahe']}


def sources(photos, scratch, histeqd):
    """Makes the pictures of each kind once; returns their paths by kind."""
    kinds = {name: scratch / name for name in ('jpeg', 'pgm8', 'pgm16')}
    for folder in kinds.values():
        folder.mkdir(parents=True)
    for number, photo in enumerate(photos):
        shutil.copy(photo, kinds['jpeg'] / f'{number}.jpg')
    subprocess.run([histeqd, kinds['jpeg'], '--out', kinds['pgm8'], '--no-config', '--quiet', '--devices', 'cpu', '--color', 'gray',
                    '--format', 'pnm', '--strength', '0'], check=True)
    noise = random.Random(1)
    for path in kinds['pgm8'].glob('*.p?m'):
        _, size, _, raster = path.read_bytes().split(b'\n', 3)
        samples = bytearray(2 * len(raster))
        samples[::2], samples[1::2] = raster, noise.randbytes(len(raster))
        (kinds['pgm16'] / path.name).write_bytes(b'P5\n%s\n65535\n' % size + samples)
    return {name: sorted(folder.iterdir()) for name, folder in kinds.items()}


def fill(folder, files, count):
    """Makes `count` names for the files."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    for number in range(count):
        source = files[number % len(files)]
        os.link(source, folder / f'{number:06}{source.suffix}')


def remove_outputs(out, suffix, ended):
    """Removes finished outputs until the run has ended."""
    while not ended.wait(0.05):
        if out.is_dir():
            for entry in os.scandir(out):
                if entry.name.endswith(suffix) and entry.name[0].isdigit():
                    os.unlink(entry.path)


def run(histeqd, inbox, out, flags, removed):
    """Returns the seconds of a run, how many cores it kept busy, and its megapixels. `removed`: outputs to remove meanwhile, by suffix."""
    shutil.rmtree(out, ignore_errors=True)
    command = [histeqd, inbox, '--out', out, '--no-config', '--quality', '90', '--durability', 'fast', '--json', '--timings', *flags]
    ended = threading.Event()
    remover = threading.Thread(target=remove_outputs, args=(out, removed, ended))
    if removed:
        remover.start()
    start = time.perf_counter()
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    seconds = time.perf_counter() - start
    ended.set()
    if removed:
        remover.join()
    if done.returncode:
        sys.exit(f'{shlex.join(map(str, command))}: {done.stderr[-2000:]}')
    summary = json.loads(done.stdout.splitlines()[-1])
    load = summary['timings']['load']
    if os.environ.get('DETAILS'):
        stages = {name: round(value, 1) for name, value in summary['timings']['stages'].items()}
        print(histeqd, flags, f'{seconds:.2f} s', stages, load, summary['devices'], summary['notes'], file=sys.stderr, flush=True)
    return seconds, (load['processor'] + load['workers']) / load['seconds'], summary['pixels'] / 1e6


def measure(programs, row, choices, args, scratch, removed):
    """Runs each choice of devices with each program, in turns; returns (MP/s, cores) of the median run by program and choice."""
    results = {(program, choice): [] for program in programs for choice in choices}
    for _ in range(args.runs):
        for program, choice in sorted(results, key=lambda one: choices.index(one[1])):
            flags = ['--devices', choice, *METHODS.get(row, []), *shlex.split(args.flags)]
            if row == 'jpeg' and choice[0].isdigit():
                flags += ['--jpeg', 'gpu']
            seconds, cores, pixels = run(program, scratch / 'in', scratch / 'out', flags, removed)
            results[program, choice].append((pixels / seconds, cores))
    shutil.rmtree(scratch / 'out', ignore_errors=True)
    return {key: statistics.median_low(each) for key, each in results.items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('histeqd')
    parser.add_argument('photos', nargs='+')
    parser.add_argument('--rows', default='jpeg,pgm16-clahe,pgm16,pgm8-clahe,pgm8')
    parser.add_argument('--counts', default='100,1000,10000')
    parser.add_argument('--devices', default='cpu;0;0,1;auto;all')
    parser.add_argument('--runs', type=int, default=1)
    parser.add_argument('--against', action='append', default=[])
    parser.add_argument('--label')
    parser.add_argument('--seconds', type=float, default=float('inf'))
    parser.add_argument('--room', type=float, default=40)
    parser.add_argument('--scratch', default='/dev/shm')
    parser.add_argument('--flags', default='')
    args = parser.parse_args()
    begun, took, left_out = time.monotonic(), {}, []
    scratch = Path(args.scratch) / 'histeqd-devices'
    programs = [args.histeqd] + args.against
    shutil.rmtree(scratch, ignore_errors=True)
    try:
        files = sources(args.photos, scratch, args.histeqd)
        choices = args.devices.split(';')
        labels = [Path(program).name for program in programs] if args.against else [args.label or '']
        print('| row | pictures | |', ' | '.join(choices), '|')
        print('| --- | --: | --- |', ' | '.join('--:' for _ in choices), '|')
        for count in map(int, args.counts.split(',')):
            for row in args.rows.split(','):
                start = time.monotonic()
                if start - begun + took.get(row, 0) * count > args.seconds:
                    left_out.append(f'{row} with {count}')
                    continue
                of_kind = files[row.removesuffix('-clahe')]
                fill(scratch / 'in', of_kind, count)
                bytes_out = count * statistics.mean(file.stat().st_size for file in of_kind)
                removed = of_kind[0].suffix if bytes_out > args.room * 1e9 else None
                cells = measure(programs, row, choices, args, scratch, removed)
                took[row] = (time.monotonic() - start) / count
                for program, label in zip(programs, labels):
                    told = (cells[program, choice] for choice in choices)
                    print(f'| {row} | {count} | {label} |', ' | '.join(f'{speed:.0f} ({cores:.0f})' for speed, cores in told), '|', flush=True)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    if left_out:
        print('no time for:', ', '.join(left_out))


if __name__ == '__main__':
    main()
