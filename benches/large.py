#!/usr/bin/env python3
"""Equalizes a slide that is larger than the memory that histeqd may use, with its tiles and its pyramid, beside libvips: seconds and peak memory.

usage: large.py FOLDER [--histeqd PROGRAM] [--width 60000] [--height 40000] [--memory 512MiB] [--runs 3] [--only NAME...] [--sparse]

The slide is made once: a BigTIFF of 8-bit gray in tiles of 256x256 (LZW, predictor), with its smaller versions in sub-directories. libvips
(`vips hist_equal`) writes the same form: tiles, LZW, a pyramid. The programs take turns; figures are medians, with the peak of all runs and the
load of the machine before each. The slide and what is written of it take about 1.5 GB.

With --sparse it is a picture of 200,000 x 150,000, nearly all of which was never written: one level has more pixels than 32 bits count. histeqd is
first run without limits, then with those that its message names, and its output is compared with the definition.

needs: pip install numpy tifffile imagecodecs; GNU time; libvips-tools
"""
import argparse, os, re, struct, subprocess, sys, time
from pathlib import Path

TILE = 256


def make(path, width, height):
    import numpy as np, tifffile

    noise = np.random.default_rng(1).integers(0, 3, (TILE, width + 4096), np.uint8)
    x = np.arange(width)

    def tiles():
        for top in range(0, height, TILE):
            y = np.arange(top, min(top + TILE, height))[:, None]
            waves = (np.sin(x / 900) + np.cos(y / 700) + np.sin((x + y) / 2300) + 3) / 6 * 150
            rows = np.zeros((TILE, -(-width // TILE) * TILE), np.uint8)
            rows[: len(y), :width] = waves.astype(np.uint8) + noise[: len(y), (top * 37) % 4096 :][:, :width]
            for left in range(0, width, TILE):
                yield np.ascontiguousarray(rows[:, left : left + TILE])

    sizes = [(height, width)]
    while min(sizes[-1]) > 512:
        sizes.append(tuple(-(-side // 2) for side in sizes[-1]))
    how = dict(tile=(TILE, TILE), compression="lzw", predictor=True, photometric="minisblack", metadata=None, dtype=np.uint8)
    with tifffile.TiffWriter(path, bigtiff=True) as file:
        file.write(tiles(), shape=sizes[0], subifds=len(sizes) - 1, **how)
        for size in sizes[1:]:
            count = -(-size[0] // TILE) * -(-size[1] // TILE)
            file.write((np.zeros((TILE, TILE), np.uint8) for _ in range(count)), shape=size, subfiletype=1, **how)


def measured(command):
    """Seconds, seconds of processors, and the peak of memory in MiB."""
    began = time.monotonic()
    done = subprocess.run(["/usr/bin/time", "-v", *map(str, command)], capture_output=True, text=True)
    if done.returncode:
        sys.exit(done.stderr)
    said = lambda what: float(re.search(rf"{re.escape(what)}: ([\d.]+)", done.stderr)[1])
    processors = said("User time (seconds)") + said("System time (seconds)")
    return time.monotonic() - began, processors, said("Maximum resident set size (kbytes)") / 1024


def sparse(asked):
    """A picture of which one tile in 7919 is noise of levels 1 to 255, and all others were never written, which makes them 0."""
    import numpy as np

    path, out, width, height = asked.folder / "sparse.tif", asked.folder / "sparse-out.tif", 200_000, 150_000
    across, down = -(-width // TILE), -(-height // TILE)
    noise = (np.random.default_rng(2).random((TILE, TILE)) ** 2 * 255).astype(np.uint8) + 1
    written = [number for number in range(0, across * down, 7919) if (number + 1) % across]
    tags = [(256, 4, [width]), (257, 4, [height]), (258, 3, [8]), (259, 3, [1]), (262, 3, [1]), (277, 3, [1]), (322, 3, [TILE]), (323, 3, [TILE])]
    places = np.zeros((2, across * down), "<u4")
    places[:, written] = [[8], [TILE * TILE]]
    at = 8 + TILE * TILE
    tags += [(324, 4, at), (325, 4, at + places[0].nbytes)]
    with open(path, "wb") as file:
        file.write(struct.pack("<2sHI", b"II", 42, at + places.nbytes) + noise.tobytes() + places.tobytes())
        file.write(struct.pack("<H", len(tags)))
        for tag, kind, value in tags:
            count, value = (1, value[0]) if isinstance(value, list) else (across * down, value)
            file.write(struct.pack("<HHII", tag, kind, count, value))
        file.write(bytes(4))
    command = [asked.histeqd, path, "--out", out, "--devices", "cpu", "--memory", asked.memory, "--overwrite"]
    refused = subprocess.run(command, capture_output=True, text=True).stderr
    flags = re.search(r"raise them? with (.*)", refused)[1].replace(" and ", " ").replace(",", "").split()
    print(refused, file=sys.stderr)
    load = os.getloadavg()[0]
    seconds, processors, peak = measured([*command, *flags])
    print(f"sparse   {seconds:7.1f} s {processors:7.1f} s of processors   peak {peak:6.0f} MiB   load before {load:.1f}   {' '.join(flags)}")
    counts = np.bincount(noise.ravel(), minlength=256) * len(written)
    sums, spread = np.cumsum(counts), TILE * TILE * len(written)
    table = ((2 * sums * 255 + spread) // (2 * spread)).astype(np.uint8)
    import tifffile

    page = tifffile.TiffFile(out).pages[0]
    for number in (*written, written[0] + 1, across * down // 2 + 1):
        with open(out, "rb") as file:
            file.seek(page.dataoffsets[number])
            packed = file.read(page.databytecounts[number])
        tile = page.decode(packed, number)[0].squeeze()
        assert (tile == (table[noise] if number in written else 0)).all(), number


def main():
    words = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    words.add_argument("folder", type=Path)
    words.add_argument("--histeqd", default="target/release/histeqd")
    words.add_argument("--width", type=int, default=60000)
    words.add_argument("--height", type=int, default=40000)
    words.add_argument("--memory", default="512MiB")
    words.add_argument("--runs", type=int, default=3)
    words.add_argument("--only", nargs="+", help="of histeqd, clahe and libvips")
    words.add_argument("--sparse", action="store_true")
    asked = words.parse_args()
    if asked.sparse:
        return sparse(asked)
    source, out = asked.folder / "slide.tif", asked.folder / "out.tif"
    if not source.exists():
        make(source, asked.width, asked.height)
    pixels = asked.width * asked.height
    limits = f"--max-pixels {pixels} --max-bytes {2 * pixels} --devices cpu --memory {asked.memory} --overwrite --quiet".split()
    as_slide = f"[tile,tile-width={TILE},tile-height={TILE},pyramid,subifd,compression=lzw,predictor=horizontal,bigtiff]"
    ways = {
        "histeqd": [asked.histeqd, source, "--out", out, *limits],
        "clahe": [asked.histeqd, source, "--out", out, "--method", "clahe", *limits],
        "libvips": ["vips", "hist_equal", source, f"{out}{as_slide}"],
    }
    ways = {name: way for name, way in ways.items() if name in (asked.only or ways)}
    found = {name: [] for name in ways}
    for _ in range(asked.runs):
        for name, command in ways.items():
            out.unlink(missing_ok=True)
            load = os.getloadavg()[0]
            found[name].append((*measured(command), load))
            print(f"{name:8} {found[name][-1][0]:7.1f} s, load before it {load:.1f}", file=sys.stderr, flush=True)
    for name, runs in found.items():
        seconds, processors = (sorted(run[n] for run in runs)[len(runs) // 2] for n in (0, 1))
        peak = max(run[2] for run in runs)
        rate = pixels / 1e6 / seconds
        print(f"{name:8} {seconds:7.1f} s {processors:7.1f} s of processors {rate:6.0f} MP/s   peak {peak:6.0f} MiB")


if __name__ == "__main__":
    main()
