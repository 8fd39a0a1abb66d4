#!/usr/bin/env python3
"""Draws what four lanes do over time: `timeline_gpu.py OUT.png`. Needs a GPU, numpy, cupy and matplotlib; run it from the project's folder.

The launches and copies are those of crates/lanes/src/gpu/pixel_lane.rs for gray pictures of 4096x3072, from pinned memory to pinned memory. Each step
is timed by CUDA events before and after it.
"""
import sys

import cupy
import matplotlib
import numpy as np

from kernels_gpu import PIXELS, PREBUILT, Lane, Module, picture, runtime

matplotlib.use("Agg")
import matplotlib.pyplot as plt

LANES, PICTURES = 4, 20
STEPS = {"upload": "#4477aa", "histogram and LUT": "#ddaa33", "apply": "#bb5566", "download": "#66aa88"}


def main():
    module = Module(PREBUILT)
    lanes = [Lane(module) for _ in range(LANES)]
    pinned = [cupy.cuda.alloc_pinned_memory(PIXELS) for _ in lanes]
    devices = [cupy.zeros(PIXELS, np.uint8) for _ in lanes]
    one = picture(np.random.default_rng(1), 3072, 4096, 1, "natural", np.uint8).ravel()
    for memory in pinned:
        np.frombuffer(memory, np.uint8, PIXELS)[:] = one
    start = cupy.cuda.Event()
    marks = []

    def work(lane, host, device):
        at = device.data.ptr
        steps = (lambda: runtime.memcpyAsync(at, host.ptr, PIXELS, 1, lane.stream.ptr),
                 lambda: lane.count8("gray", at, PIXELS, 1),
                 lambda: (lane.apply8("gray", at, PIXELS, 1), lane.counts8.reverse()),
                 lambda: runtime.memcpyAsync(host.ptr, at, PIXELS, 2, lane.stream.ptr))
        events = [cupy.cuda.Event() for _ in range(len(steps) + 1)]
        events[0].record(lane.stream)
        for step, event in zip(steps, events[1:]):
            step()
            event.record(lane.stream)
        return events

    for _ in range(2):  # the first round warms up
        marks.clear()
        cupy.cuda.Device().synchronize()
        start.record(lanes[0].stream)
        for i in range(PICTURES):
            n = i % LANES
            marks.append((n, i, work(lanes[n], pinned[n], devices[n])))
        cupy.cuda.Device().synchronize()

    figure, axes = plt.subplots(figsize=(11, 3.2), layout="constrained")
    for n, i, events in marks:
        times = [cupy.cuda.get_elapsed_time(start, event) for event in events]
        for (name, colour), begin, end in zip(STEPS.items(), times, times[1:]):
            axes.barh(n, end - begin, left=begin, height=0.8, color=colour, label=name if i == 0 else None)
        axes.text((times[0] + times[1]) / 2, n, str(i + 1), ha="center", va="center", color="white", fontsize=7)
    axes.set(yticks=range(LANES), yticklabels=[f"lane {n + 1}" for n in range(LANES)], xlabel="milliseconds")
    axes.invert_yaxis()
    axes.set_title(f"{PICTURES} gray pictures of 4096x3072 on {runtime.getDeviceProperties(0)['name'].decode()}", fontsize=10)
    axes.legend(ncols=4, loc="upper center", bbox_to_anchor=(0.5, -0.22), frameon=False, fontsize=8)
    figure.savefig(sys.argv[1], dpi=130)


if __name__ == "__main__":
    main()
