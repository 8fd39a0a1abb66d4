#!/usr/bin/env python3
"""All that a host with several GPUs is to show, in one call of some ten minutes: equal bytes, JPEGs by second, a warm service, 16-bit CLAHE,
the buses, one picture's channels on three GPUs, and workers killed at random.

usage: host.py HISTEQD PHOTO.jpg... [--gpus 8] [--count 40000] [--planes 3000] [--scratch /dev/shm/host]
Everything lies in memory. Inputs are hard links of a few files. What is compared must be equal, or the script ends with an error.
"""
import argparse, os, random, shutil, signal, struct, subprocess, sys, time
from pathlib import Path

BENCHES = Path(__file__).parent
OPERATIONS = [[], ['--method', 'clahe'], ['--color', 'per-channel']]


def plane(path, number, width=4096, height=3072):
    """Writes a gray picture of 16 bits: a gradient with noise."""
    noise = random.Random(number).randbytes(2 * width)
    row = bytearray(2 * width)
    with path.open('wb') as file:
        file.write(b'P5\n%d %d\n65535\n' % (width, height))
        for y in range(height):
            for x in range(0, width, 8):
                row[2 * x:2 * x + 16] = struct.pack('>H', (x * 9 + y * 5 * (number + 1)) % 65536) * 8
            row[1::2] = noise[y % 97:y % 97 + width]
            file.write(row)


def link(files, folder, count):
    folder.mkdir(parents=True)
    for number in range(count):
        file = files[number % len(files)]
        os.link(file, folder / f'{number:06}{file.suffix}')
    return folder


def run(histeqd, source, out, *flags):
    shutil.rmtree(out, ignore_errors=True)
    begun = time.monotonic()
    subprocess.run([histeqd, source, '--out', out, '--no-config', '--quiet', '--durability', 'fast', *flags], check=True)
    return time.monotonic() - begun


def workers(process):
    """Returns the processes that a process has started."""
    return [int(pid) for pid in Path(f'/proc/{process}/task/{process}/children').read_text().split()]


def with_kills(histeqd, source, out, kills):
    """Runs while so many of its workers are killed; returns how many were."""
    shutil.rmtree(out, ignore_errors=True)
    process = subprocess.Popen([histeqd, source, '--out', out, '--no-config', '--quiet', '--durability', 'fast', '--devices', 'all', '--method', 'clahe'])
    killed = 0
    while process.poll() is None and killed < kills:
        time.sleep(1.5)
        there = workers(process.pid)
        if there:
            os.kill(random.choice(there), signal.SIGKILL)
            killed += 1
    if process.wait():
        sys.exit(f'a run whose workers were killed ended with {process.returncode}')
    return killed


def equal(one, other):
    if subprocess.run(['diff', '-rq', one, other]).returncode:
        sys.exit(f'{one} and {other} differ')


def tell(name, command):
    print(f'== {name}', flush=True)
    subprocess.run([str(part) for part in command], check=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('histeqd', type=Path)
    parser.add_argument('photos', nargs='+', type=Path)
    parser.add_argument('--gpus', type=int, default=8)
    parser.add_argument('--count', type=int, default=40000)
    parser.add_argument('--planes', type=int, default=3000)
    parser.add_argument('--scratch', type=Path, default=Path('/dev/shm/host'))
    args = parser.parse_args()
    histeqd, scratch = args.histeqd.resolve(), args.scratch
    shutil.rmtree(scratch, ignore_errors=True)
    (scratch / 'planes').mkdir(parents=True)
    planes = [scratch / 'planes' / f'{number}.pgm' for number in range(5)]
    for number, path in enumerate(planes):
        plane(path, number)

    mixed = link(planes, scratch / 'mixed', 40)
    for photo in args.photos:
        shutil.copy(photo, mixed)
    for flags in OPERATIONS:
        for name, devices in (('by-cpu', 'cpu'), ('by-gpus', 'all')):
            run(histeqd, mixed, scratch / name, '--devices', devices, '--jpeg', 'cpu', *flags)
        equal(scratch / 'by-cpu', scratch / 'by-gpus')
    print(f'equal: {len(OPERATIONS)} operations on {len(list(mixed.iterdir()))} files with {args.gpus} GPUs', flush=True)

    ramp = [sys.executable, BENCHES / 'ramp.py', histeqd, *args.photos]
    tell('JPEGs', [*ramp, '--count', args.count])
    tell('JPEGs, --jpeg gpu', [*ramp, '--count', args.count // 2, '--flags=--jpeg gpu'])
    tell('service', [*ramp, '--count', args.count // 4, '--folders', 3])

    many = link(planes, scratch / 'many', args.planes)
    for name, devices in (('cpu', 'cpu'), ('auto', 'auto'), ('gpu0', '0')):
        took = run(histeqd, many, scratch / 'out', '--devices', devices, '--method', 'clahe')
        print(f'16-bit CLAHE, {name}: {args.planes * 12.58 / took:.0f} MP/s', flush=True)
    killed = with_kills(histeqd, many, scratch / 'after-kills', 2)
    equal(scratch / 'out', scratch / 'after-kills')
    print(f'equal after {killed} workers were killed', flush=True)
    shutil.rmtree(scratch)

    number = 1
    while number <= args.gpus:
        gpus = ','.join(map(str, range(number)))
        tell(f'{number} GPUs, pinned memory to pinned memory', [histeqd, 'bench', '--gpus', gpus, '--lanes', 4, '--slots', 12])
        number *= 2
    for name, flags in (('one GPU', ['--gpus', '0', '--rgb']), ('three', ['--gpus', '0,1,2'])):
        if args.gpus >= 3:
            tell(f'16384x16384 RGB, {name}', [histeqd, 'bench', *flags, '--size', '16384x16384', '--lanes', 1, '--slots', 1])


main()
