#!/usr/bin/env python3
"""Times the Python module beside OpenCV and scikit-image on the CPU: python/benches/cpu.py [ROUNDS [TEXT]]

With a text, such as 256x256, only what has it in its name. Small pictures need many rounds.

Needs histeqd, opencv-python-headless and scikit-image. All take turns, round by round, with as many threads each; the table has medians in
milliseconds, and how many times as long the others take. Pictures are smoothed noise over a gradient, which have the histograms of
photographs. scikit-image is timed once, as it takes seconds; it computes in float64.
"""

import os
import statistics
import sys
import time
import warnings

import cv2
import numpy as np
import skimage.exposure

import histeqd

SIZES = {"12.6 MP": (3072, 4096), "256x256": (256, 256)}


def picture(shape, dtype):
    """A picture of 8 bits, or of 12 bits in 16."""
    height, width = shape
    noise = np.random.default_rng(1).normal(0, 1, shape).astype(np.float32)
    values = cv2.GaussianBlur(noise, (0, 0), 4) * 3 + cv2.GaussianBlur(noise, (0, 0), 1) * 0.5
    values += np.linspace(-1.5, 1, width, dtype=np.float32) + np.linspace(-0.5, 0.5, height, dtype=np.float32)[:, None]
    top = 255 if dtype == np.uint8 else 4095
    return ((np.tanh(values / 2) + 1) * top / 2).astype(dtype)


def seconds(call):
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def number(seconds):
    """Milliseconds, to three digits."""
    return f"{float(f'{seconds * 1e3:.3g}'):g}"


def in_lab(picture, clahe):
    """What most programs do with OpenCV."""
    lab = cv2.cvtColor(picture, cv2.COLOR_RGB2LAB)
    lab[..., 0] = clahe.apply(lab[..., 0])
    return cv2.cvtColor(lab, cv2.COLOR_LAB2RGB)


def compare(what, ours, theirs, skimage, rounds):
    if not all(text in what for text in sys.argv[2:]):
        return
    for call in (ours, theirs):
        if call:
            call()
    times = ([], [])
    for _ in range(rounds):
        for call, found in zip((ours, theirs), times):
            if call:
                found.append(seconds(call))
    mine = statistics.median(times[0])
    cells = [number(mine)]
    for other in (statistics.median(times[1]) if theirs else None, seconds(skimage) if skimage else None):
        cells.append("-" if other is None else f"{number(other)} ({other / mine:.1f}x)")
    print(f"| {what} | " + " | ".join(cells) + " |", flush=True)


def main():
    warnings.simplefilter("ignore")
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 21
    for threads in sorted({1, len(os.sched_getaffinity(0))}):
        cv2.setNumThreads(threads)
        print(f"\nthreads: {threads}\n\n| | histeqd | OpenCV {cv2.__version__} | scikit-image {skimage.__version__} |")
        print("| --- | --- | --- | --- |")
        for size, shape in SIZES.items():
            for dtype in (np.uint8, np.uint16):
                gray = picture(shape, dtype)
                out, name = np.empty_like(gray), f"{size} {np.dtype(dtype)}"
                bins = 256 if dtype == np.uint8 else 65536
                compare(
                    f"{name}, equalize",
                    lambda: histeqd.equalize(gray, out=out, threads=threads),
                    (lambda: cv2.equalizeHist(gray, out)) if dtype == np.uint8 else None,
                    lambda: skimage.exposure.equalize_hist(gray, bins),
                    rounds,
                )
                clahe = cv2.createCLAHE(2.0, (8, 8))
                compare(
                    f"{name}, CLAHE 8x8",
                    lambda: histeqd.clahe(gray, 2.0, out=out, threads=threads),
                    lambda: clahe.apply(gray, out),
                    lambda: skimage.exposure.equalize_adapthist(gray, [side // 8 for side in shape], 0.01),
                    rounds,
                )
            gray = picture(shape, np.uint8)
            colours = np.dstack([gray, gray[::-1], gray[:, ::-1]])
            compare(
                f"{size} RGB, CLAHE 8x8 of L*a*b*",
                lambda: histeqd.clahe(colours, 2.0, color="lab", threads=threads),
                lambda: in_lab(colours, clahe),
                None,
                rounds,
            )
        batch = np.stack([picture((512, 512), np.uint8)] * 64)
        result = np.empty_like(batch)
        clahe = cv2.createCLAHE(2.0, (8, 8))
        compare(
            "64 of 512x512 uint8, CLAHE 8x8",
            lambda: histeqd.clahe(batch, 2.0, out=result, threads=threads),
            lambda: [clahe.apply(gray, to) for gray, to in zip(batch, result)],
            lambda: [skimage.exposure.equalize_adapthist(gray, 64, 0.01) for gray in batch],
            rounds,
        )


main()
