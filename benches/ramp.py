#!/usr/bin/env python3
"""How soon a run, and a warm service, reaches its full rate: megapixels by second, and what the machine's cores did meanwhile.

usage: ramp.py HISTEQD PHOTO.jpg... [--count 6000] [--folders 0] [--flags ''] [--scratch /dev/shm/ramp]
Inputs are hard links of a few files, outputs go to the same memory and are removed on the way. With --folders N, a service gets N folders of
COUNT pictures, one after the other, each moved into its inbox when the one before is done.
Prints, for each second: megapixels done; the cores that were busy in programs, in the kernel, and in all of histeqd's main process.
"""
import argparse, os, shlex, shutil, signal, subprocess, threading, time
from pathlib import Path

TICK = os.sysconf('SC_CLK_TCK')


def megapixels(path):
    """Returns the size of a JPEG in megapixels, from its frame header."""
    data, at = path.read_bytes(), 2
    while data[at + 1] not in (0xC0, 0xC1, 0xC2):
        at += 2 + int.from_bytes(data[at + 2:at + 4], 'big')
    return int.from_bytes(data[at + 5:at + 7], 'big') * int.from_bytes(data[at + 7:at + 9], 'big') / 1e6


def links(folder, photos, count):
    """Fills a folder with `count` names for the photos."""
    folder.mkdir(parents=True)
    for number in range(count):
        os.link(photos[number % len(photos)], folder / f'{number:06}.jpg')


class Meter(threading.Thread):
    """Looks at the output folder and at the cores ten times a second, and removes what was written."""

    def __init__(self, out, mean, pid):
        super().__init__(daemon=True)
        self.out, self.mean, self.pid = out, mean, pid
        self.begun, self.done, self.rows, self.ended = time.monotonic(), 0, [], threading.Event()

    def cores(self):
        fields = [int(field) for field in Path('/proc/stat').read_text().split('\n', 1)[0].split()[1:]]
        try:
            own = Path(f'/proc/{self.pid}/stat').read_text().rpartition(')')[2].split()
        except OSError:
            own = ['0'] * 15
        return fields[0] + fields[1], fields[2] + fields[5] + fields[6], int(own[11]) + int(own[12])

    def look(self):
        found = 0
        for root, _, files in os.walk(self.out):
            for name in files:
                if name.endswith('.jpg') and not name.startswith('.'):
                    os.unlink(os.path.join(root, name))
                    found += 1
        self.done += found

    def run(self):
        second, before, at = 0, 0, self.cores()
        while not self.ended.wait(0.1):
            self.look()
            if time.monotonic() - self.begun >= second + 1:
                now = self.cores()
                self.rows.append(((self.done - before) * self.mean, *((b - a) / TICK for a, b in zip(at, now))))
                second, before, at = second + 1, self.done, now
        self.look()

    def tell(self, label):
        self.ended.set()
        self.join()
        took = time.monotonic() - self.begun
        print(f'{label}: {self.done} pictures, {self.done * self.mean / took:.0f} MP/s in {took:.1f} s', flush=True)
        for what, column in zip(('MP/s', 'programs', 'kernel', 'main'), zip(*self.rows)):
            print(f'  {what:8}', *(f'{value:.0f}' for value in column), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('histeqd')
    parser.add_argument('photos', nargs='+', type=Path)
    parser.add_argument('--count', type=int, default=6000)
    parser.add_argument('--folders', type=int, default=0)
    parser.add_argument('--flags', default='')
    parser.add_argument('--scratch', type=Path, default=Path('/dev/shm/ramp'))
    args = parser.parse_args()
    shutil.rmtree(args.scratch, ignore_errors=True)
    (args.scratch / 'photos').mkdir(parents=True)
    photos = [Path(shutil.copy(photo, args.scratch / 'photos')) for photo in args.photos]
    mean = sum(map(megapixels, photos)) / len(photos)
    inbox, out = args.scratch / 'in', args.scratch / 'out'
    out.mkdir()
    common = [args.histeqd, '--out', out, '--no-config', '--durability', 'fast', '--quality', '90']
    if not args.folders:
        links(inbox, photos, args.count)
        run = subprocess.Popen([*common, inbox, '--verbose', '--timings', *shlex.split(args.flags)], stderr=subprocess.PIPE, text=True)
        meter = Meter(out, mean, run.pid)
        meter.start()
        said = run.communicate()[1]
        meter.tell('run')
        print('\n'.join('  ' + line for line in said.splitlines() if '.jpg' not in line), flush=True)
        return
    inbox.mkdir()
    service = subprocess.Popen([*common, '--watch', inbox, '--after', 'delete', *shlex.split(args.flags)], stderr=subprocess.DEVNULL)
    time.sleep(8)
    for number in range(args.folders):
        links(args.scratch / 'next', photos, args.count)
        meter = Meter(out, mean, service.pid)
        meter.start()
        (args.scratch / 'next').rename(inbox / f'folder{number}')
        while meter.done < args.count:
            time.sleep(0.05)
        meter.tell(f'folder {number + 1}')
    service.send_signal(signal.SIGTERM)
    service.wait()


main()
