#!/usr/bin/env python3
"""Workers of a queue, limited to one core each, beside a plain run on one core. Prints a Markdown table.

usage: benches/workers.py SCRATCH [--histeqd BINARY] [--nats-server BINARY] [--workers 1,2,4] [--runs N] [--seconds S] [--kinds ...]
needs: nothing but Python, the two programs (HISTEQD and NATS_SERVER may name them) and taskset. SCRATCH best lies in memory (/dev/shm).

Gray PGMs of 1024x1024 pixels (1 MB), of which each is a message of its own; gray PNGs of a megabyte; gray PGMs of 64x64 pixels, of which
about 32 share a message. How many there are is chosen so that a plain run takes about S seconds. All ways take turns; medians. The time is that
from the start of the programs to the last output. The server has the cores that no worker has, if there are any.
"""
import argparse, os, random, shutil, socket, statistics, struct, subprocess, sys, time, zlib
from pathlib import Path

SOURCES = 16
CORES = sorted(os.sched_getaffinity(0))


def samples(side, seed):
    """Levels of low contrast, different for each seed."""
    table = bytes(60 + level * 97 // 256 for level in range(256))
    return random.Random(seed).randbytes(side * side).translate(table)


def pgm(side):
    return lambda seed: b'P5\n%d %d\n255\n' % (side, side) + samples(side, seed)


def png(side):
    """Most of the level's bits are noise, so that the file has about as many bytes as the picture has pixels."""
    def make(seed):
        rows = samples(side, seed)
        raw = b''.join(b'\0' + rows[at:at + side] for at in range(0, len(rows), side))
        chunks = [(b'IHDR', struct.pack('>IIBBBBB', side, side, 8, 0, 0, 0, 0)), (b'IDAT', zlib.compress(raw, 1)), (b'IEND', b'')]
        whole = (struct.pack('>I', len(data)) + name + data + struct.pack('>I', zlib.crc32(name + data)) for name, data in chunks)
        return b'\x89PNG\r\n\x1a\n' + b''.join(whole)
    return make


KINDS = {'PGM, 1024x1024': ('pgm', pgm(1024)), 'PNG, 1100x1100': ('png', png(1100)), 'PGM, 64x64': ('pgm', pgm(64))}


def fill(folder, kind, count):
    """Makes `count` files, a thousand in a folder: few different contents, each written again."""
    shutil.rmtree(folder, ignore_errors=True)
    extension, make = KINDS[kind]
    contents = [make(seed) for seed in range(min(SOURCES, count))]
    for number in range(count):
        path = folder / str(number // 1000) / f'{number}.{extension}'
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(contents[number % len(contents)])


def outputs(folder):
    """Returns how many outputs there are, and when the last one was written."""
    count, last = 0, 0.0
    for at, _, names in os.walk(folder):
        for name in names:
            count, last = count + 1, max(last, os.stat(os.path.join(at, name)).st_mtime)
    return count, last


class Server:
    """A server with its streams in a folder of its own."""

    def __init__(self, program, scratch, cores):
        self.folder = scratch / 'streams'
        shutil.rmtree(self.folder, ignore_errors=True)
        with socket.socket() as free:
            free.bind(('127.0.0.1', 0))
            self.port = free.getsockname()[1]
        log = open(scratch / 'server.log', 'w')
        command = ['taskset', '-c', ','.join(map(str, cores)), program, '-js', '-sd', self.folder, '-a', '127.0.0.1', '-p', str(self.port)]
        self.process = subprocess.Popen(command, stdout=log, stderr=log)
        for _ in range(1000):
            with socket.socket() as probe:
                if probe.connect_ex(('127.0.0.1', self.port)) == 0:
                    return
            time.sleep(0.01)
        sys.exit('the server does not start; see ' + log.name)

    def cpu(self):
        fields = Path(f'/proc/{self.process.pid}/stat').read_text().rpartition(')')[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf('SC_CLK_TCK')

    def end(self):
        self.process.kill()
        self.process.wait()


def on_cores(given, commands):
    """Runs commands at once, each on a core of its own, and returns when they were started and the processors' seconds that they took."""
    start = time.time()
    running = [subprocess.Popen(['taskset', '-c', str(core), *map(str, command)], stderr=subprocess.DEVNULL, env=given.environment)
               for core, command in zip(CORES, commands)]
    cpu = 0
    for process, command in zip(running, commands):
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            sys.exit(f'{" ".join(map(str, command))}: ended with {process.returncode}')
        cpu += usage.ru_utime + usage.ru_stime
    return start, cpu


FLAGS = ['--no-config', '--devices', 'cpu', '-j', '1']


def plain(given, inbox, out):
    command = [given.histeqd, inbox, '--out', out, '--quiet', '--durability', given.durability, *FLAGS]
    start, cpu = on_cores(given, [command])
    return outputs(out)[1] - start, cpu, 0.0


def queued(given, inbox, out, workers):
    server = Server(given.nats_server, given.scratch, CORES[workers:] or CORES)
    try:
        queue = f'nats://127.0.0.1:{server.port}/bench'
        submit = [given.histeqd, 'submit', inbox, '--out', out, '--queue', queue, '--no-config']
        subprocess.run(list(map(str, submit)), check=True, stderr=subprocess.DEVNULL, env=given.environment)
        before = server.cpu()
        work = [given.histeqd, 'work', '--queue', queue, '--root', given.scratch, '--until-empty', '--quiet',
                '--durability', given.durability, *FLAGS]
        start, cpu = on_cores(given, [work] * workers)
        return outputs(out)[1] - start, cpu, server.cpu() - before
    finally:
        server.end()


def measure(given, way, kind, count):
    inbox, out = given.scratch / 'in', given.scratch / 'out'
    shutil.rmtree(out, ignore_errors=True)
    os.sync()
    taken = way(given, inbox, out)
    done = outputs(out)[0]
    if done != count:
        sys.exit(f'{kind}: {done} outputs of {count}')
    return taken


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('scratch', type=Path)
    parser.add_argument('--histeqd', default=os.environ.get('HISTEQD', 'target/release/histeqd'))
    parser.add_argument('--nats-server', default=os.environ.get('NATS_SERVER', shutil.which('nats-server', path='/usr/sbin:' + os.environ['PATH'])))
    parser.add_argument('--workers', default=','.join(str(count) for count in (1, 2, 4) if count <= len(CORES)))
    parser.add_argument('--runs', type=int, default=5)
    parser.add_argument('--seconds', type=float, default=5)
    parser.add_argument('--durability', default='fast')
    parser.add_argument('--kinds', nargs='*', default=list(KINDS), choices=list(KINDS))
    given = parser.parse_args()
    given.scratch = given.scratch.absolute() / 'queue-bench'
    given.scratch.mkdir(parents=True, exist_ok=True)
    given.environment = {**os.environ, 'CUDA_VISIBLE_DEVICES': ''}
    workers = [int(count) for count in given.workers.split(',')]
    version = subprocess.run([given.nats_server, '--version'], capture_output=True, text=True, check=True).stdout.strip()
    print(f'{len(CORES)} cores, {version}, --durability {given.durability}, medians of {given.runs} runs, pictures a second\n')
    heads = ''.join(f' {count} worker{"s" * (count > 1)} |' for count in workers)
    print(f'| | files | plain run |{heads} overhead of one | in processor time | of a core for the server of {workers[-1]} |')
    print('| --- ' + '| --: ' * (len(workers) + 5) + '|', flush=True)
    ways = [plain] + [lambda given, inbox, out, count=count: queued(given, inbox, out, count) for count in workers]
    for kind in given.kinds:
        fill(given.scratch / 'in', kind, 200)
        probe = measure(given, plain, kind, 200)[0]
        count = max(200, int(200 / max(probe, 0.01) * given.seconds))
        fill(given.scratch / 'in', kind, count)
        measure(given, plain, kind, count)
        taken = [[] for _ in ways]
        for _ in range(given.runs):
            for way, each in zip(ways, taken):
                each.append(measure(given, way, kind, count))
        medians, processors, _ = zip(*([statistics.median(column) for column in zip(*each)] for each in taken))
        rates = ' | '.join(f'{count / seconds:.0f}' for seconds in medians)
        overheads = ' | '.join(f'{figures[1] / figures[0] - 1:.0%}' for figures in (medians, processors))
        busy = statistics.median(server / seconds for seconds, _, server in taken[-1])
        print(f'| {kind} | {count} | {rates} | {overheads} | {busy:.0%} |', flush=True)
    shutil.rmtree(given.scratch)


if __name__ == '__main__':
    main()
