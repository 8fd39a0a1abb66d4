#!/usr/bin/env python3
"""Compares ways of counting the levels of R, G and B in bins from Python: tools/ladder/colour_histogram.py [ROUNDS]

Needs histeqd and NumPy; GNU Octave (apt install octave) runs the published MATLAB way where it is installed, and PyTorch adds arrays on a GPU. All
count the same picture, and whoever counts something else fails. The ways take turns, round by round; the table has medians in milliseconds, and
how many times as long each takes as histeqd with one thread. Octave is timed once, by itself, without its start, and only at the smaller size.
"""

import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

import numpy as np

import histeqd

FOLDER = pathlib.Path(__file__).parent / "octave"
# Height and width; bits in uint8 or uint16; bins.
CASES = [((384, 512), 8, 64), ((384, 512), 12, 256), ((3072, 4096), 8, 64), ((3072, 4096), 8, 256), ((3072, 4096), 12, 256)]
SMALL = 384 * 512  # pixels


def picture(shape, bits):
    """Noise over a gradient, of other brightness in each channel."""
    height, width = shape
    noise = np.random.default_rng(1).normal(0, 0.12, (height, width, 3)).astype(np.float32)
    ramp = np.linspace(0.2, 0.6, width, dtype=np.float32)[:, None] + np.linspace(-0.1, 0.1, 3, dtype=np.float32)
    top = (1 << bits) - 1
    return ((noise + ramp).clip(0, 1) * top).astype(np.uint8 if bits == 8 else np.uint16)


def of_numpy(rgb, bits, bins):
    return np.stack([np.histogram(rgb[..., channel], bins, (0, 1 << bits))[0] for channel in range(3)])


def of_bincount(rgb, bits, bins):
    """What is usual where numpy.histogram is too slow."""
    counts = np.stack([np.bincount(rgb[..., channel].ravel(), minlength=1 << bits) for channel in range(3)])
    return counts.reshape(3, bins, -1).sum(-1)


def of_octave(rgb, bits, bins):
    """The counts, and the seconds that they took."""
    with tempfile.TemporaryDirectory() as folder:
        samples, counts = (pathlib.Path(folder) / name for name in ("samples", "counts"))
        samples.write_bytes(rgb.tobytes())
        numbers = [str(number) for number in (*rgb.shape, bits, bins)]
        command = ["octave-cli", "--no-gui", "--quiet", "run.m", samples, *numbers, counts]
        ran = subprocess.run(command, cwd=FOLDER, check=True, capture_output=True, text=True)
        return np.loadtxt(counts, delimiter=",", dtype=np.int64).T, float(ran.stdout)


def ways(rgb, bits, bins):
    """Each way by its name, the first of which is what others are compared with."""
    levels = 1 << bits
    found = {
        "histeqd, one thread": lambda: histeqd.histogram(rgb, bins, levels=levels, threads=1),
        "histeqd": lambda: histeqd.histogram(rgb, bins, levels=levels),
        "numpy.bincount": lambda: of_bincount(rgb, bits, bins),
        "numpy.histogram": lambda: of_numpy(rgb, bits, bins),
    }
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_available() and bits == 8:
        tensor = torch.as_tensor(rgb, device="cuda")

        def on_gpu():
            counts = histeqd.histogram(tensor, bins)
            torch.cuda.synchronize()
            return counts

        found["histeqd, in a GPU's memory"] = on_gpu
    return found


def timed(call):
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def main():
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 7
    try:
        import torch  # noqa: F401
    except ImportError:
        pass
    octave = shutil.which("octave-cli")
    print("| picture | bins | way | ms | times histeqd's one thread |\n| --- | --- | --- | --- | --- |")
    for shape, bits, bins in CASES:
        rgb = picture(shape, bits)
        name = f"{shape[1]}x{shape[0]}, {bits} bits"
        expected = of_numpy(rgb, bits, bins)
        found = ways(rgb, bits, bins)
        times = {way: [] for way in found}
        for way, call in found.items():
            counts = call()
            counts = counts.cpu().numpy() if hasattr(counts, "cpu") else counts
            assert np.array_equal(counts, expected), f"{way} counts something else"
        for _ in range(rounds):
            for way, call in found.items():
                times[way].append(timed(call))
        medians = {way: statistics.median(seconds) for way, seconds in times.items()}
        if octave and shape[0] * shape[1] <= SMALL:
            counts, medians["MATLAB's way, GNU Octave"] = of_octave(rgb, bits, bins)
            assert np.array_equal(counts, expected), "GNU Octave counts something else"
        first = next(iter(medians.values()))
        for way, seconds in medians.items():
            print(f"| {name} | {bins} | {way} | {seconds * 1e3:.3g} | {seconds / first:.3g} |", flush=True)


main()
