#!/usr/bin/env python3
"""Says how much processor time --report adds to a run over JPEGs. usage: report.py HISTEQD FOLDER [--runs N] [--side PIXELS] [--at DIR] [-- FLAG...]

The photographs in FOLDER (JPEGs, as benches/photos.sh fetches them) are brought to 12 megapixels with the longer side of PIXELS (default 4000), quality 90,
4:2:0, in DIR (default /dev/shm), and removed again. Runs with and without --report take turns; the medians of processor time (user and system, of all
threads) and of the summary's seconds are told. FLAGs go to histeqd.

needs: pip install Pillow
"""
import argparse, json, os, resource, shutil, statistics, subprocess, tempfile
from pathlib import Path
from PIL import Image

MEGAPIXELS = 12e6


def processor():
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def run(histeqd, source, out, flags):
    shutil.rmtree(out, ignore_errors=True)
    command = [histeqd, source, '--out', out, '--devices', 'cpu', '--durability', 'fast', '--no-config', '--json', '--quiet', *flags]
    before = processor()
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return processor() - before, json.loads(done.stdout)['seconds']


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('histeqd')
    parser.add_argument('folder', type=Path)
    parser.add_argument('--runs', type=int, default=7)
    parser.add_argument('--side', type=int, default=4000)
    parser.add_argument('--at', default='/dev/shm')
    parser.add_argument('flags', nargs='*')
    args = parser.parse_args()
    place = Path(tempfile.mkdtemp(dir=args.at))
    try:
        (place / 'in').mkdir()
        size = (args.side, round(MEGAPIXELS / args.side))
        photographs = sorted(path for path in args.folder.iterdir() if path.suffix.lower() in ('.jpg', '.jpeg'))
        for path in photographs:
            with Image.open(path) as photograph:
                picture = photograph.convert('RGB').resize(size, Image.Resampling.BICUBIC)
                picture.save(place / 'in' / f'{path.stem}.jpg', quality=90, subsampling=2)
        kinds = {'without': [], 'with': ['--report', place / 'report.html']}
        times = {kind: [] for kind in kinds}
        for _ in range(args.runs):
            for kind, report in kinds.items():
                times[kind].append(run(args.histeqd, place / 'in', place / 'out', [*args.flags, *report]))
        medians = {kind: [statistics.median(column) for column in zip(*rows)] for kind, rows in times.items()}
        for kind, (seconds, told) in medians.items():
            print(f'{kind:8} {seconds:.2f} s of processors, {told:.2f} s told by the summary')
        ratio = medians['with'][0] / medians['without'][0]
        print(f'{len(photographs)} JPEGs of {size[0]}x{size[1]} on {os.cpu_count()} cores: {ratio:.2f} times the processor time')
        print(f'the report has {(place / "report.html").stat().st_size / 1e6:.1f} MB')
    finally:
        shutil.rmtree(place)


if __name__ == '__main__':
    main()
