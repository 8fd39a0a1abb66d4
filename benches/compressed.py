#!/usr/bin/env python3
"""A folder of compressed pictures by the processor alone and by all that there is: what GPUs that decode, or encode, are worth.

usage: compressed.py HISTEQD FILE... [--count 1000] [--few 112] [--rows 'dicom;pnm;png;tiff'] [--flags ''] [--scratch /dev/shm/compressed]
The files lie in memory under COUNT names, hard links of them (the processor alone gets FEW). A row is a format to write, or flags, as in
'keep --method clahe'. Prints whole runs in MP/s, how many cores were busy, and what decoded.
"""
import argparse, json, os, shlex, shutil, subprocess
from pathlib import Path


def fill(folder, files, count):
    folder.mkdir(parents=True)
    for number in range(count):
        file = files[number % len(files)]
        os.link(file, folder / f'{number:05}{file.suffix}')
    return folder


def run(histeqd, folder, out, devices, flags):
    shutil.rmtree(out, ignore_errors=True)
    command = [histeqd, folder, '--out', out, '--no-config', '--durability', 'fast', '--devices', devices, '--json', '--timings', *flags]
    told = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=True).stdout
    shutil.rmtree(out)
    summary = json.loads(told.splitlines()[-1])
    load = summary['timings']['load']
    return summary['pixels'] / summary['seconds'] / 1e6, (load['processor'] + load['workers']) / load['seconds'], load['decoded'] or load['inflated']


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('histeqd', type=Path)
    parser.add_argument('files', nargs='+', type=Path)
    parser.add_argument('--count', type=int, default=1000)
    parser.add_argument('--few', type=int, default=112)
    parser.add_argument('--rows', default='dicom;pnm;png;tiff')
    parser.add_argument('--flags', default='')
    parser.add_argument('--scratch', type=Path, default=Path('/dev/shm/compressed'))
    args = parser.parse_args()
    histeqd, scratch = args.histeqd.resolve(), args.scratch
    shutil.rmtree(scratch, ignore_errors=True)
    scratch.mkdir(parents=True)
    files = [Path(shutil.copy(file, scratch)) for file in args.files]
    few, many = fill(scratch / 'few', files, args.few), fill(scratch / 'many', files, args.count)
    print('| row | processor, MP/s (cores busy) | all devices | times | decoded by |\n| --- | --: | --: | --: | --- |')
    for row in args.rows.split(';'):
        flags = ['--format', *shlex.split(row), *shlex.split(args.flags)]
        alone, cores, _ = run(histeqd, few, scratch / 'out', 'cpu', flags)
        together, with_gpu, decoded = run(histeqd, many, scratch / 'out', 'auto', flags)
        by = ', '.join(f'{name} {number}' for name, number in decoded.items())
        print(f'| {row} | {alone:.0f} ({cores:.0f}) | {together:.0f} ({with_gpu:.0f}) | {together / alone:.1f} | {by} |', flush=True)
    shutil.rmtree(scratch)


main()
