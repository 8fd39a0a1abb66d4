#!/usr/bin/env python3
"""What the page costs a service: the time for a folder of pictures with nobody looking, and with a browser's requests every two seconds, in turns.
usage: page.py HISTEQD FOLDER [--runs N] [--work DIR] [--flags '...']

FOLDER's pictures are linked into DIR (default /dev/shm) anew for each run. Who looks asks for what the page asks for: the activity, the failures, and
both previews of every picture that appeared among the latest.
"""
import argparse, http.client, json, os, shlex, shutil, socket, statistics, subprocess, tempfile, threading, time


def free_port():
    with socket.socket() as probe:
        probe.bind(('127.0.0.1', 0))
        return probe.getsockname()[1]


def get(port, path):
    connection = http.client.HTTPConnection('127.0.0.1', port, timeout=30)
    try:
        connection.request('GET', path)
        return connection.getresponse().read()
    finally:
        connection.close()


def look(port, ended):
    seen = set()
    while not ended.wait(2):
        page = json.loads(get(port, '/activity'))
        get(port, '/failures?limit=200')
        for picture in page['recent']['latest']:
            if picture['number'] not in seen and not ended.is_set():
                seen.add(picture['number'])
                for side in ('before', 'after'):
                    get(port, f'/pictures/{picture["number"]}/{side}.png')


def written(out):
    """How many outputs there are; histeqd's own files and unfinished ones are hidden."""
    return sum(not name.startswith('.') for at, folders, names in os.walk(out) if '/.' not in at[len(out):] for name in names)


def timed(histeqd, folder, work, flags, is_watched):
    """Seconds from the start of the pipeline until all pictures are done, and how many there are."""
    place = tempfile.mkdtemp(dir=work)
    try:
        inbox, out, port = os.path.join(place, 'in'), os.path.join(place, 'out'), free_port()
        shutil.copytree(folder, inbox, copy_function=os.link)
        count = sum(len(names) for _, _, names in os.walk(inbox))
        command = [histeqd, '--watch', inbox, '--out', out, '--listen', f'127.0.0.1:{port}', '--no-config', '--quiet', *flags]
        ended = threading.Event()
        with subprocess.Popen(command) as service:
            start = time.monotonic()
            looker = threading.Thread(target=look, args=(port, ended))
            while True:
                time.sleep(0.02)
                try:
                    if is_watched and not looker.ident:
                        get(port, '/healthz')
                        looker.start()
                    if written(out) >= count:
                        break
                except OSError:
                    continue
            seconds = time.monotonic() - start
            ended.set()
            if looker.ident:
                looker.join()
            service.terminate()
        return seconds, count
    finally:
        shutil.rmtree(place)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('histeqd')
    parser.add_argument('folder')
    parser.add_argument('--runs', type=int, default=5)
    parser.add_argument('--work', default='/dev/shm')
    parser.add_argument('--flags', default='')
    args = parser.parse_args()
    flags = shlex.split(args.flags)
    alone, watched = [], []
    for _ in range(args.runs):
        for times, is_watched in ((alone, False), (watched, True)):
            seconds, count = timed(args.histeqd, args.folder, args.work, flags, is_watched)
            times.append(seconds)
    ratios = [one / other for one, other in zip(watched, alone)]
    print(f'{count} pictures; seconds alone {statistics.median(alone):.2f}, with the page open {statistics.median(watched):.2f}')
    print(f'ratio: median {statistics.median(ratios):.3f}, from {min(ratios):.3f} to {max(ratios):.3f}')


if __name__ == '__main__':
    main()
