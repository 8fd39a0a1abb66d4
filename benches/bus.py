#!/usr/bin/env python3
"""What the buses carry at best: bare copies between pinned host memory and GPUs, both ways at once, one process a GPU.

usage: bus.py GPUS [--bytes N] [--streams N] [--slots N] [--seconds S]        GPUS: 0 or 0,1,2        needs: CuPy
Prints GB/s each way, all GPUs together: the ceiling of `histeqd bench` with as many lanes and slots.
"""
import argparse, multiprocessing as mp, time


def copy(gpu, a, barrier, results):
    import cupy, cupyx
    with cupy.cuda.Device(gpu):
        streams = [cupy.cuda.Stream(non_blocking=True) for _ in range(a.streams)]
        device = [cupy.empty(a.bytes, cupy.uint8) for _ in streams]
        host = [cupyx.empty_pinned(a.bytes, cupy.uint8) for _ in range(max(a.slots, a.streams))]
        events = [None] * a.streams

        def enqueue(turn):
            lane, slot = turn % a.streams, host[turn % len(host)]
            # At most two pictures are queued on a stream.
            if events[lane] is not None and len(events[lane]) == 2:
                events[lane].pop(0).synchronize()
            device[lane].set(slot, stream=streams[lane])
            device[lane].get(out=slot, stream=streams[lane], blocking=False)
            done = cupy.cuda.Event(block=True, disable_timing=True)
            done.record(streams[lane])
            events[lane] = (events[lane] or []) + [done]

        for turn in range(4 * len(host)):
            enqueue(turn)
        for stream in streams:
            stream.synchronize()
        events = [None] * a.streams
        barrier.wait()
        start, turns = time.perf_counter(), 0
        while time.perf_counter() - start < a.seconds:
            enqueue(turns)
            turns += 1
        for stream in streams:
            stream.synchronize()
        results.put(turns * a.bytes / (time.perf_counter() - start))


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument('gpus')
    ap.add_argument('--bytes', type=int, default=4096 * 3072)
    ap.add_argument('--streams', type=int, default=4)
    ap.add_argument('--slots', type=int, default=12)
    ap.add_argument('--seconds', type=float, default=3.0)
    a = ap.parse_args()
    gpus = [int(gpu) for gpu in a.gpus.split(',')]
    context = mp.get_context('spawn')
    barrier, results = context.Barrier(len(gpus)), context.Queue()
    workers = [context.Process(target=copy, args=(gpu, a, barrier, results)) for gpu in gpus]
    for worker in workers:
        worker.start()
    total = sum(results.get(timeout=120) for _ in workers)
    for worker in workers:
        worker.join()
    print(f'{len(gpus)} GPUs, {a.streams} streams, {a.bytes} bytes: {total / 1e9:.1f} GB/s each way')


if __name__ == '__main__':
    main()
