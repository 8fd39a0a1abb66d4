#!/usr/bin/env python3
"""The kernels by themselves, on a GPU: `kernels_gpu.py check` compares them with plain numpy, `kernels_gpu.py time` times them beside
a device-to-device copy and a bare read of the same data in the same run.

Needs numpy and cupy (for memory and streams; launches go straight to the driver). Run it from the project's folder. What a launch
looks like here (grid, block, shared memory) is what crates/arrays/src/depth8.rs, tables.rs and tiles.rs do.
"""
import argparse
import ctypes
import gzip
import itertools
import pathlib
import re
import sys
import time

import cupy
import numpy as np

PREBUILT = "kernels/prebuilt"
LUMA = 0xFFFFFFFF
u32, u64, f32 = ctypes.c_uint32, ctypes.c_uint64, ctypes.c_float
FULL_STRENGTH = u32(1000)  # in thousandths
NATIVE, SWAPPED = 0x3210, 0x2301  # orders of the bytes of 16-bit samples
THREADS8 = 512  # of a block
COPIES8 = {1: 32, 3: 16}  # of a block's tables, for so many planes
cuda = ctypes.CDLL("libcuda.so.1")
runtime = cupy.cuda.runtime


# ---------------------------------------------------------------- launches

def call(name, *arguments):
    code = getattr(cuda, name)(*arguments)
    if code:
        text = ctypes.c_char_p()
        cuda.cuGetErrorName(code, ctypes.byref(text))
        raise RuntimeError(f"{name}: {text.value.decode()}")


class Tiling(ctypes.Structure):
    _fields_ = [(n, u32) for n in "width height tiles_x tiles_y tile_width tile_height clip".split()]
    _fields_ += [(n, f32) for n in "lut_scale inverse_width inverse_height".split()]


def cubins(folder):
    """The folder of cubins that histeqd takes for this GPU, or None where it leaves compiling to the driver."""
    major, minor = divmod(int(cupy.cuda.Device().compute_capability), 10)
    fit = [n for n in range(minor + 1) if (folder / f"sm_{major}{n}").is_dir()]
    return folder / f"sm_{major}{max(fit)}" if fit else None


class ByteOrders(ctypes.Structure):
    _fields_ = [("read", u32), ("written", u32)]


class Pictures(ctypes.Structure):
    """One picture, which is changed in place unless it goes elsewhere."""
    _fields_ = [(n, u64) for n in "at to at_pitch to_pitch pixels".split()] + [("orders", ByteOrders)]


class Rule(ctypes.Structure):
    _fields_ = [(n, u32) for n in "method strength low high".split()] + [("reference", u64)]


class Tickets(ctypes.Structure):
    _fields_ = [(n, u32) for n in "number parts lead copies".split()] + [(n, u64) for n in "taken counted counts".split()]


class Module:
    """A folder of kernels, each file loaded by the driver when one of its kernels is first used: the cubin for this GPU if there is one
    (as histeqd does) and `only_ptx` is not set, else the PTX."""
    FILES = (("(clippings|tiles|ranks|rank_cells|cells|direct)16", "clahe16"), ("(small_)?tiles8|cells8|direct8", "clahe8"),
             ("extract|insert", "planes"), ("(count|luts|map)16", "global16"), (".*8_", "global8"))

    def __init__(self, folder, only_ptx=False):
        cupy.zeros(1)  # creates the context
        self.folder, self.modules, self.functions, self.load_seconds = pathlib.Path(folder), {}, {}, {}
        self.cubins = None if only_ptx else cubins(self.folder)

    def module(self, kernel):
        name = next(file for pattern, file in self.FILES if re.match(pattern, kernel))
        if name not in self.modules:
            self.modules[name] = ctypes.c_void_p()
            begin = time.perf_counter()
            call("cuModuleLoadData", ctypes.byref(self.modules[name]), self.code(name))
            self.load_seconds[name] = time.perf_counter() - begin
        return self.modules[name]

    def code(self, name):
        if self.cubins:
            return gzip.decompress((self.cubins / f"{name}.cubin.gz").read_bytes())
        return gzip.decompress((self.folder / f"{name}.ptx.gz").read_bytes()) + b"\0"

    def pictures(self, at, pixels, to=None):
        return Pictures(at, at if to is None else to, 0, 0, pixels, self.orders)

    def launch(self, name, grid, block, arguments, stream, shared=0):
        key = (name, shared > 48 << 10)
        if key not in self.functions:
            f = ctypes.c_void_p()
            call("cuModuleGetFunction", ctypes.byref(f), self.module(name), name.encode())
            if shared > 48 << 10:
                call("cuFuncSetAttribute", f, 8, shared)
            self.functions[key] = f
        grid, block = ((tuple(d) + (1, 1))[:3] for d in (grid, block))
        pointers = (ctypes.c_void_p * len(arguments))(*(ctypes.addressof(a) for a in arguments))
        call("cuLaunchKernel", self.functions[key], *grid, *block, shared, ctypes.c_void_p(stream), pointers, None)


class Tuning:
    """How work is distributed over the GPU."""
    parts8 = None           # parts of a picture
    apply16 = (1024, 2)
    pixels16 = 5 << 16      # pixels per block that holds 65536 counters or LUT entries in shared memory
    shared_lut16 = (5 << 16) + 1  # the fewest pixels for which the LUT is copied to shared memory
    cells_band = 6          # blocks per cell
    tile_blocks = 1         # blocks per multiprocessor for tile histograms
    small_tile = 8192
    cell_pixels = {8: 2048, 16: 16384}


def tuned(**values):
    return type("T", (Tuning,), values)


class Lane:
    """One stream with its device buffers, and the launches for one picture."""
    order = NATIVE

    def __init__(self, module, tuning=Tuning):
        self.module, self.tuning = module, tuning
        self.sms = cupy.cuda.Device().attributes["MultiProcessorCount"]
        self.stream = cupy.cuda.Stream(non_blocking=True)
        self.counts = cupy.zeros(3 * 65536, np.uint32)
        self.counts8 = [cupy.zeros(3 * 256, np.uint32) for _ in range(2)]  # for this picture, and for the next one
        self.luts = cupy.zeros(3 * 65536, np.uint16)
        self.tile_counts = cupy.zeros(0, np.uint32)
        self.tile_luts = cupy.zeros(0, np.uint8)
        self.found = cupy.zeros(0, np.uint32)
        self.steep = cupy.zeros(0, np.uint32)
        self.plane = cupy.zeros(0, np.uint8)
        self.copy = cupy.zeros(0, np.uint8)

    @property
    def orders(self):
        return ByteOrders(self.order, self.order)

    def pictures(self, at, pixels, to=None):
        return Pictures(at, at if to is None else to, 0, 0, pixels, self.orders)

    def launch(self, name, grid, block, *arguments, **options):
        self.module.launch(name, grid, block, arguments, self.stream.ptr, **options)

    def blocks(self, pixels, pixel_bytes, spread):
        packs = -(-pixels * pixel_bytes // (48 if pixel_bytes % 3 == 0 else 16))
        threads, per_sm = spread
        if pixel_bytes % 3 == 0 and threads > 512:
            threads, per_sm = 512, 2 * per_sm
        return max(1, min(-(-packs // threads), per_sm * self.sms)), threads

    def launch8(self, name, kind, grid, *arguments):
        planes = 3 if kind.endswith("channels") else 1
        shared = planes * 1024 * COPIES8[planes] + (48 * THREADS8 if kind == "rgb_luma" else 0)
        self.launch(f"{name}8_{kind}", grid, (THREADS8,), *arguments, shared=shared)

    def parts8(self, bytes_, a_part, blocks):
        """In how many parts lanes share out a picture."""
        return self.tuning.parts8 or max(1, min(max(-(-bytes_ // a_part), min(-(-bytes_ // 16384), self.sms)), blocks * self.sms))

    def count8(self, kind, at, pixels, channels):
        parts, copies = self.parts8(pixels * channels, 32 << 10, 3), COPIES8[3 if kind.endswith("channels") else 1]
        self.launch8("count", kind, (parts,), self.pictures(at, pixels), u32(copies), u64(0), u64(0), u64(self.counts8[0].data.ptr), u32(0))

    def apply8(self, kind, at, pixels, channels):
        parts, copies = self.parts8(pixels * channels, 96 << 10, 2), COPIES8[3 if kind.endswith("channels") else 1]
        self.launch8("apply", kind, (parts,), self.pictures(at, pixels), u32(copies), Rule(0, 1000),
                     *(u64(counts.data.ptr) for counts in self.counts8))

    def tickets8(self, kind, at, to, pixels, channels, number, parts, lead, blocks):
        """Equalizes several pictures in one launch, as for arrays."""
        planes, size = 3 if kind.endswith("channels") else 1, pixels * channels
        memory = cupy.zeros(1 + number + number * planes * 256, np.uint32)
        taken = memory.data.ptr
        cupy.cuda.Device().synchronize()
        self.launch8("equalize", kind, (min(blocks, 2 * number * parts),), Pictures(at, to, size, size, pixels, self.orders), Rule(0, 1000),
                     Tickets(number, parts, lead, COPIES8[planes], taken, taken + 4, taken + 4 + 4 * number))
        cupy.cuda.Device().synchronize()

    def clear16(self, planes):
        runtime.memsetAsync(self.counts.data.ptr, 0, planes * 65536 * 4, self.stream.ptr)

    def histogram16(self, kind, at, pixels, ranges=1):
        planes = 3 if kind.endswith("channels") else 1
        size = 65536 // ranges
        grid = max(1, min(-(-pixels // self.tuning.pixels16), self.sms))
        self.launch(f"count16_{kind}", (grid, ranges, planes), (512 if "rgb_" in kind else 1024,), self.pictures(at, pixels),
                    u64(0), u64(0), u64(self.counts.data.ptr), u32(0), u32(size), shared=size * 2)

    def lut16(self, planes):
        self.launch("luts16_of_counts", (16, planes), (1024,), u64(self.counts.data.ptr), Rule(0, 1000), u32(planes),
                    u64(self.luts.data.ptr))

    def apply16(self, kind, at, pixels, channels):
        arguments = self.pictures(at, pixels), u64(self.luts.data.ptr), u32(0)
        if pixels >= self.tuning.shared_lut16 and not kind.endswith("channels"):
            grid = max(1, min(-(-pixels // self.tuning.pixels16), self.sms))
            self.launch(f"map16_shared_{kind}", (grid,), (512 if "rgb_" in kind else 1024,), *arguments, shared=128 << 10)
        else:
            grid, threads = self.blocks(pixels, 2 * channels, self.tuning.apply16)
            self.launch(f"map16_{kind}", (grid,), (threads,), *arguments)

    def equalize(self, kind, at, pixels, channels, depth, chunks=1, ranges=1):
        cuts = [pixels * i // chunks for i in range(chunks + 1)]
        spans = [(at + a * channels * depth // 8, b - a) for a, b in zip(cuts, cuts[1:]) if b > a]
        if depth == 8:
            for start, n in spans:
                self.count8(kind, start, n, channels)
            for start, n in spans:
                self.apply8(kind, start, n, channels)
            self.counts8.reverse()
        else:
            planes = 3 if kind.endswith("channels") else 1
            self.clear16(planes)
            for start, n in spans:
                self.histogram16(kind, start, n, ranges)
            self.lut16(planes)
            for start, n in spans:
                self.apply16(kind, start, n, channels)

    def room(self, name, size, kind):
        if getattr(self, name).size < size:
            setattr(self, name, cupy.zeros(size, kind))
            cupy.cuda.Device().synchronize()
        return getattr(self, name).data.ptr

    def clahe(self, at, tiling, depth, **options):
        """Equalizes a plane in place. `direct`: without cells; `parts`: blocks that share a tile; `capacity`: levels counted in shared memory;
        `steps`: only the tiles, or only the cells."""
        (self.clahe8 if depth == 8 else self.clahe16)(at, tiling, **options)

    def clahe8(self, at, t, direct=False, parts=None, steps="both"):
        tiles, area, pictures = t.tiles_x * t.tiles_y, t.tile_width * t.tile_height, self.pictures(at, t.width * t.height)
        luts = self.room("tile_luts", tiles * 256, np.uint8)
        if steps != "cells" and parts is None and area <= self.tuning.small_tile:
            self.launch("small_tiles8", (-(-tiles // 8),), (256,), pictures, t, u64(luts))
        elif steps != "cells":
            parts = parts or max(1, min(self.tuning.tile_blocks * self.sms // tiles, t.tile_height, area // 4096))
            counts = self.room("tile_counts", tiles * 257, np.uint32)
            self.launch("tiles8", (tiles * parts,), (512,), pictures, t, u32(parts), u64(counts), u64(counts + tiles * 1024), u64(luts))
        if steps == "tiles":
            return
        if direct or area < self.tuning.cell_pixels[8]:
            self.direct(8, t, pictures, u64(luts), FULL_STRENGTH)
        else:
            bands = max(1, min(self.tuning.cells_band, area // 8192))
            self.launch("cells8", ((t.tiles_x + 1) * (t.tiles_y + 1) * bands,), (32, 8), pictures, t, u64(luts), u32(bands), FULL_STRENGTH)

    def clahe16(self, at, t, direct=False, capacity=65536):
        tiles, cells, area = t.tiles_x * t.tiles_y, (t.tiles_x + 1) * (t.tiles_y + 1), t.tile_width * t.tile_height
        size, blocks = t.width * t.height, min(tiles, self.sms)
        luts, steep = self.room("tile_luts", tiles * 131072, np.uint8), self.room("steep", tiles, np.uint32)
        found, spill = self.room("found", 2048 + 1 + 6, np.uint32), self.room("tile_counts", blocks * 65536, np.uint32)
        clippings, ranked = u64(found + 2049 * 4), t.clip == 1 and area < 65536
        copy = self.room("copy", size * 2 + 16, np.uint8)
        runtime.memcpyAsync(copy, at, size * 2, 3, self.stream.ptr)
        runtime.memsetAsync(found, 0, 2049 * 4, self.stream.ptr)
        pictures, rest = self.pictures(copy, size, at), (clippings, u64(luts))
        self.launch("clippings16", (max(1, min(size >> 15, 2 * self.sms)),), (1024,), pictures, u32(t.clip), u32(65536), u64(area),
                    u32(ranked), u64(found), u64(found + 8192), clippings)
        if ranked:
            self.launch("ranks16", (tiles,), (256,), pictures, t, *rest)
            self.launch("rank_cells16", (cells,), (32, 8), pictures, t, *rest, FULL_STRENGTH, shared=64 << 10)
            return
        self.launch("tiles16", (blocks,), (1024,), pictures, u32(1), t, clippings, u32(capacity), u64(spill), u64(luts), u64(steep),
                    shared=capacity * 2)
        if direct or area < self.tuning.cell_pixels[16]:
            self.direct(16, t, pictures, *rest, FULL_STRENGTH)
        else:
            shared = cupy.cuda.Device().attributes["MaxSharedMemoryPerBlockOptin"] - 1024
            self.launch("cells16", (cells,), (32, 32), pictures, t, *rest, u64(steep), u32(shared), FULL_STRENGTH, shared=shared)

    def direct(self, depth, t, pictures, *rest):
        self.launch(f"direct{depth}", (-(-t.width // 32), min(-(-t.height // 128), 65535)), (32, 8), pictures, t, *rest)

    def clahe_colour(self, name, at, pixels, channel, tiling, depth, **options):
        """Equalizes one channel, or luma, through a separate plane: extract, CLAHE, insert."""
        plane = self.room("plane", pixels * depth // 8 + 16, np.uint8)
        grid = (max(1, min(-(-pixels // 8192), 4 * self.sms)),)
        for step in ("extract", "insert"):
            if step == "insert":
                self.clahe(plane, tiling, depth, **options)
            strength = [FULL_STRENGTH] if step == "insert" else []
            self.launch(f"{step}{depth}_{name}", grid, (512,), self.pictures(at, pixels), u64(plane), u64(0), u32(channel), *strength)


def tiling(width, height, tiles_x, tiles_y, clip_limit, depth):
    padded_w, padded_h = width, height
    if width % tiles_x or height % tiles_y:
        padded_w, padded_h = width + tiles_x - width % tiles_x, height + tiles_y - height % tiles_y
    tw, th, levels = padded_w // tiles_x, padded_h // tiles_y, 1 << depth
    clip = max(1, int(float(clip_limit) * (tw * th) / levels)) if clip_limit > 0 else 0
    one = np.float32(1)
    return Tiling(width, height, tiles_x, tiles_y, tw, th, clip, np.float32(levels - 1) / np.float32(tw * th),
                  one / np.float32(tw), one / np.float32(th))


# ---------------------------------------------------------------- the reference

def reference_lut(counts):
    counts = counts.astype(object)
    running = np.cumsum(counts)
    lowest = next((i for i, n in enumerate(counts) if n), 0)
    spread = running[-1] - counts[lowest]
    if spread == 0:
        return np.arange(len(counts))
    lut = [0 if i < lowest else (2 * (c - counts[lowest]) * (len(counts) - 1) + spread) // (2 * spread) for i, c in enumerate(running)]
    return np.array(lut, np.int64)


def reference_luma(a):
    r, g, b = (a[..., i].astype(np.uint64) for i in range(3))
    return ((19595 * r + 38470 * g + 7471 * b + 32768) >> 16).astype(a.dtype)


def relit(a, y, new_y):
    out = a.copy()
    moved = a[..., :3].astype(np.int64) + (new_y.astype(np.int64) - y.astype(np.int64))[..., None]
    out[..., :3] = np.clip(moved, 0, np.iinfo(a.dtype).max)
    return out


def reference_equalize(a, by_channel):
    """The shape of `a` is (pixels, channels)."""
    channels, levels = a.shape[1], np.iinfo(a.dtype).max + 1
    seen = a[:, -1] > 0 if channels in (2, 4) else slice(None)
    lut = lambda plane: reference_lut(np.bincount(plane[seen], minlength=levels))
    out = a.copy()
    if channels < 3 or by_channel:
        for c in range(1 if channels < 3 else 3):
            out[:, c] = lut(a[:, c])[a[:, c]]
        return out
    y = reference_luma(a)
    return relit(a, y, lut(y)[y])


def reference_clahe(a, t):
    (h, w), levels, one = a.shape, np.iinfo(a.dtype).max + 1, np.float32(1)

    def mirrored(n, size):
        i = np.arange(size)
        if n == 1:
            return np.zeros_like(i)
        i = i % (2 * n - 2)
        return np.where(i < n, i, 2 * n - 2 - i)

    padded = a[np.ix_(mirrored(h, t.tile_height * t.tiles_y), mirrored(w, t.tile_width * t.tiles_x))]
    luts = np.zeros((t.tiles_y, t.tiles_x, levels), a.dtype)
    for j, i in itertools.product(range(t.tiles_y), range(t.tiles_x)):
        tile = padded[j * t.tile_height:(j + 1) * t.tile_height, i * t.tile_width:(i + 1) * t.tile_width]
        n = np.bincount(tile.ravel(), minlength=levels)
        if t.clip:
            excess = int(np.maximum(n - t.clip, 0).sum())
            n = np.minimum(n, t.clip) + excess // levels
            residual = excess % levels
            if residual:
                n[np.arange(0, levels, max(levels // residual, 1))[:residual]] += 1
        luts[j, i] = np.clip(np.rint(np.cumsum(n).astype(np.float32) * np.float32(t.lut_scale)), 0, levels - 1)

    def axis(size, inverse, tiles):
        at = np.arange(size, dtype=np.float32) * np.float32(inverse) - np.float32(0.5)
        low = np.floor(at)
        return at - low, low.astype(int).clip(0, tiles - 1), (low.astype(int) + 1).clip(0, tiles - 1)

    xa, x1, x2 = axis(w, t.inverse_width, t.tiles_x)
    ya, y1, y2 = axis(h, t.inverse_height, t.tiles_y)
    at = lambda y, x: luts[y[:, None], x[None, :], a].astype(np.float32)
    xb, yb, ya = (one - xa)[None, :], (one - ya)[:, None], ya[:, None]
    v = (at(y1, x1) * xb + at(y1, x2) * xa) * yb + (at(y2, x1) * xb + at(y2, x2) * xa) * ya
    return np.clip(np.rint(v), 0, levels - 1).astype(a.dtype)


# ---------------------------------------------------------------- checks

KINDS = [("gray", 1, False), ("gray_alpha", 2, False), ("rgb_luma", 3, False), ("rgb_channels", 3, True),
         ("rgba_luma", 4, False), ("rgba_channels", 4, True)]
DATA = ["random", "natural", "constant", "two", "hot"]


def picture(rng, height, width, channels, kind, dtype, gpu=False):
    """Makes random samples of one kind. The last of an even number of channels is alpha, with many zeros."""
    top = np.iinfo(dtype).max
    shape = (height, width, channels)
    if kind == "random":
        a = rng.integers(0, top + 1, shape, dtype)
    elif kind == "natural":
        y, x = np.mgrid[:height, :width].astype(np.float32)
        base = 0.3 + 0.2 * np.sin(x / 97) * np.cos(y / 61) + 0.15 * np.sin((x + 2 * y) / 523)
        a = np.empty(shape, dtype)
        for c in range(channels):
            a[..., c] = np.clip((base * (1 - 0.1 * c) + rng.normal(0, 0.01, (height, width)).astype(np.float32)) * top, 0, top)
    elif kind == "constant":
        a = np.full(shape, rng.integers(0, top + 1), dtype)
    elif kind == "two":
        a = np.where(rng.random(shape) < 0.3, rng.integers(0, top + 1), rng.integers(0, top + 1)).astype(dtype)
    else:
        a = np.where(rng.random(shape) < 0.02, rng.integers(0, top + 1, shape), top // 3).astype(dtype)
    if channels in (2, 4):
        a[..., -1] = rng.choice([0, 1, top], (height, width))
    return a


class Guarded:
    """A picture in device memory at some offset from an aligned address, surrounded by guard bytes that must not change."""

    def __init__(self, a, offset=0):
        self.a, self.offset = a, offset
        self.raw = np.full(a.nbytes + 64 + offset, 0xA5, np.uint8)
        self.raw[offset:offset + a.nbytes] = a.view(np.uint8).ravel()
        self.device = cupy.asarray(self.raw)
        self.at = self.device.data.ptr + offset
        cupy.cuda.Device().synchronize()

    def result(self):
        cupy.cuda.Device().synchronize()
        raw = self.device.get()
        end = self.offset + self.a.nbytes
        if (raw[:self.offset] != 0xA5).any() or (raw[end:] != 0xA5).any():
            raise AssertionError("bytes outside the picture were written")
        return raw[self.offset:end].view(self.a.dtype).reshape(self.a.shape)


def check(options):
    rng = np.random.default_rng(options.seed)
    module = Module(options.kernels, options.ptx)
    lane = Lane(module)
    sizes = [(1, 1), (1, 7), (5, 1), (1, 16), (3, 17), (33, 65), (255, 257)]
    if not options.small:
        sizes += [(640, 481), (1025, 777), (1300, 2100)]
    done = failed = 0

    def verify(what, got, want):
        nonlocal done, failed
        done += 1
        if not np.array_equal(got, want):
            failed += 1
            if failed < 20:
                print("DIFFERS", what, "samples", int((got != want).sum()), "of", want.size)

    for depth, (kind, channels, by_channel), size in itertools.product((8, 16), KINDS, sizes):
        dtype = np.uint8 if depth == 8 else np.uint16
        for data in DATA if size[0] > 20 else DATA[:3]:
            a = picture(rng, *size, channels, data, dtype)
            want = reference_equalize(a.reshape(-1, channels), by_channel).reshape(a.shape)
            for chunks, offset, ranges in ((1, 0, 1), (3, 0, 2), (1, depth // 8, 4)):
                g = Guarded(a, offset)
                lane.equalize(kind, g.at, size[0] * size[1], channels, depth, chunks, ranges)
                verify((depth, kind, size, data, chunks, offset, ranges), g.result(), want)
        for values in ({"shared_lut16": 1, "pixels16": 5000}, {"shared_lut16": 1 << 40, "pixels16": 5000}, {"parts8": 5}):
            for chunks, offset in ((1, 0), (2, depth // 8)):
                lane.tuning = tuned(**values)
                g = Guarded(a, offset)
                lane.equalize(kind, g.at, size[0] * size[1], channels, depth, chunks)
                verify((depth, kind, size, data, values, chunks, offset), g.result(), want)
                lane.tuning = Tuning
    for (kind, channels, by_channel), (height, width), data, number in itertools.product(KINDS, sizes, ("random", "natural"), (1, 5)):
        a = picture(rng, height * number, width, channels, data, np.uint8)
        pictures = a.reshape(number, -1, channels)
        want = np.stack([reference_equalize(one, by_channel) for one in pictures])
        for parts, lead, blocks in ((1, 0, 1), (7, 3, 2), (4, 100, 3 * lane.sms)):
            g = Guarded(pictures)
            lane.tickets8(kind, g.at, g.at, height * width, channels, number, parts, lead, blocks)
            verify(("tickets", kind, height, width, data, number, parts, lead, blocks), g.result(), want)
    print("global:", done, "compared,", failed, "differ", flush=True)

    grids = [(1, 1), (8, 8), (3, 5), (16, 16), (2, 1)]
    for depth, size, data in itertools.product((8, 16), sizes, ("random", "natural", "hot")):
        dtype = np.uint8 if depth == 8 else np.uint16
        a = picture(rng, *size, 1, data, dtype)[..., 0]
        for _ in range(2 if options.small or depth == 16 else 4):
            grid, clip = grids[rng.integers(len(grids))], [0, 1, 2, 2.5, 4, 40][rng.integers(6)]
            if depth == 16 and size[0] < 300:
                grid = grids[rng.integers(2)] if grid[0] == 16 else grid
            t = tiling(size[1], size[0], *grid, clip, depth)
            want = reference_clahe(a, t)
            variants = [{"parts": 1}, {"parts": 3}, {"direct": True}] if depth == 8 else [{}, {"capacity": 1000}, {"direct": True}]
            for variant in variants:
                lane.tuning = tuned(cell_pixels={8: 1, 16: 1})
                g = Guarded(a)
                lane.clahe(g.at, t, depth, **variant)
                verify(("clahe", depth, size, data, grid, clip, variant), g.result(), want)
                lane.tuning = Tuning
    print("with CLAHE:", done, "compared,", failed, "differ", flush=True)

    for depth, (kind, channels, by_channel), size in itertools.product((8, 16), KINDS[1:], sizes[-4:]):
        a = picture(rng, *size, channels, "natural", np.uint8 if depth == 8 else np.uint16)
        t = tiling(size[1], size[0], 4, 3, 2.0, depth)
        name, g, want = kind.rsplit("_", 1)[0] if "rgb" in kind else kind, Guarded(a), a.copy()
        if channels < 3 or by_channel:
            for c in range(1 if channels < 3 else 3):
                lane.clahe_colour(name, g.at, size[0] * size[1], c, t, depth)
                want[..., c] = reference_clahe(a[..., c], t)
        else:
            lane.clahe_colour(name, g.at, size[0] * size[1], LUMA, t, depth)
            y = reference_luma(a)
            want = relit(a, y, reference_clahe(y, t))
        verify(("clahe", depth, kind, size), g.result(), want)
    print(done, "compared,", failed, "differ")
    return failed == 0


# ---------------------------------------------------------------- times

READ = r"""
extern "C" __global__ void __launch_bounds__(1024) read_all(const uint4* from, unsigned long long n, unsigned* to) {
    unsigned sum = 0;
    #pragma unroll 2
    for (unsigned long long i = blockIdx.x * 1024ull + threadIdx.x; i < n; i += gridDim.x * 1024ull) {
        const uint4 v = __ldcs(from + i);
        sum += v.x ^ v.y ^ v.z ^ v.w;
    }
    if (sum == 0x12345678) *to = sum;
}
"""


class Timer:
    """Graphs of launches on several streams, replayed on data that is restored before every replay."""

    def __init__(self, source, pictures, picture_bytes):
        self.source, self.work = source, source.copy()
        self.copy_to = cupy.empty_like(source)
        self.pictures, self.bytes = pictures, picture_bytes
        self.at = [self.work.data.ptr + i * picture_bytes for i in range(pictures)]

    def run(self, lanes, one, repeats=9):
        """Returns the median milliseconds of `one(lane, address)` for all pictures, dealt out to the lanes."""
        for lane in lanes:  # allocates the lane's buffers
            one(lane, self.at[0])
        cupy.cuda.Device().synchronize()
        main = cupy.cuda.Stream(non_blocking=True)
        main.begin_capture()
        fork = cupy.cuda.Event(disable_timing=True)
        fork.record(main)
        for lane in lanes:
            lane.stream.wait_event(fork)
        for i, at in enumerate(self.at):
            one(lanes[i % len(lanes)], at)
        for lane in lanes:
            join = cupy.cuda.Event(disable_timing=True)
            join.record(lane.stream)
            main.wait_event(join)
        graph = main.end_capture()
        return self.median(lambda: graph.launch(main), main, repeats)

    def median(self, work, stream, repeats=9):
        times = []
        for i in range(repeats + 2):
            runtime.memcpyAsync(self.work.data.ptr, self.source.data.ptr, self.work.nbytes, 3, stream.ptr)
            begin, end = cupy.cuda.Event(), cupy.cuda.Event()
            begin.record(stream)
            work()
            end.record(stream)
            end.synchronize()
            if i >= 2:
                times.append(cupy.cuda.get_elapsed_time(begin, end))
        return float(np.median(times))

    def copy(self):
        s = cupy.cuda.Stream(non_blocking=True)
        return self.median(lambda: runtime.memcpyAsync(self.copy_to.data.ptr, self.work.data.ptr, self.work.nbytes, 3, s.ptr), s)

    def read(self):
        """Returns the fewest milliseconds that a bare read takes with various numbers of blocks."""
        s, kernel, out = cupy.cuda.Stream(non_blocking=True), cupy.RawKernel(READ, "read_all"), cupy.zeros(1, np.uint32)
        sms = cupy.cuda.Device().attributes["MultiProcessorCount"]

        def milliseconds(blocks):
            def work():
                with s:
                    kernel((blocks * sms,), (1024,), (self.work, np.uint64(self.work.nbytes // 16), out))
            return self.median(work, s)
        return min(milliseconds(blocks) for blocks in (2, 16, 64))


def device_picture(height, width, channels, data, dtype, count=1):
    """Returns `count` consecutive pictures in device memory."""
    rng = np.random.default_rng(1)
    if data == "random":
        return cupy.random.randint(0, np.iinfo(dtype).max + 1, height * width * channels * count, dtype=dtype)
    piece = cupy.asarray(picture(rng, min(height, 1024), width, channels, data, dtype))
    pieces = -(-height // 1024)
    return cupy.concatenate([piece[: min(1024, height)]] * (pieces * count)).ravel()


PIXELS = 4096 * 3072


def row(name, timer, copy, lane, one, streams=(1, 2, 3, 4)):
    times = " ".join(f"{timer.run([lane() for _ in range(n)], one) / copy:6.2f}" for n in streams)
    print(f"{name:52s} copy {copy * 1000:7.1f} us;  on {', '.join(map(str, streams))} streams: {times}", flush=True)


def timer_of(height, width, channels, data, dtype, count):
    source = device_picture(height, width, channels, data, dtype, count)
    timer = Timer(source, count, source.nbytes // count)
    timer.copy()
    return timer, timer.copy()


def show_times(options):
    module = Module(options.kernels, options.ptx)
    lane = lambda **values: lambda: Lane(module, tuned(**values))
    print("histogram alone, 32768x32768 gray, share of the read floor:")
    for data in ("random", "natural", "constant"):
        timer, _ = timer_of(32768, 32768, 1, data, np.uint8, 1)
        timer.read()
        floor = timer.read()
        time_ = timer.run([lane()()], lambda l, at: l.count8("gray", at, 1 << 30, 1))
        print(f"  {data:10s} {floor / time_:.3f}")
        del timer
        cupy.get_default_memory_pool().free_all_blocks()
    print("whole operations in device memory, as a multiple of a copy of the same data:")
    for data in ("natural", "random"):
        timer, copy = timer_of(3072, 4096, 1, data, np.uint8, 8)
        row(f"8 x 4096x3072 gray, {data}", timer, copy, lane(),
            lambda l, at: l.equalize("gray", at, PIXELS, 1, 8))
        t = tiling(4096, 3072, 8, 8, 2.0, 8)
        row(f"8 x 4096x3072 gray, {data}, CLAHE 8x8", timer, copy, lane(), lambda l, at: l.clahe(at, t, 8))
        timer, copy = timer_of(3072, 4096, 1, data, np.uint16, 8)
        row(f"8 x 4096x3072 gray 16 bit, {data}", timer, copy, lane(), lambda l, at: l.equalize("gray", at, PIXELS, 1, 16))
        t = tiling(4096, 3072, 8, 8, 2.0, 16)
        row(f"8 x 4096x3072 gray 16 bit, {data}, CLAHE 8x8", timer, copy, lane(), lambda l, at: l.clahe(at, t, 16))
    timer, copy = timer_of(3072, 4096, 3, "natural", np.uint8, 8)
    row("8 x 4096x3072 RGB luma", timer, copy, lane(), lambda l, at: l.equalize("rgb_luma", at, PIXELS, 3, 8))
    row("8 x 4096x3072 RGB per channel", timer, copy, lane(), lambda l, at: l.equalize("rgb_channels", at, PIXELS, 3, 8))
    timer, copy = timer_of(16384, 16384, 1, "natural", np.uint8, 1)
    row("16384x16384 gray", timer, copy, lane(), lambda l, at: l.equalize("gray", at, 1 << 28, 1, 8), streams=(1,))
    show_bus()


def show_bus(size=64 << 20, count=16):
    """Prints the throughput of the bus between pinned host memory and the device: each way alone, and both at once."""
    up, down = cupy.cuda.Stream(non_blocking=True), cupy.cuda.Stream(non_blocking=True)
    host = [cupy.cuda.alloc_pinned_memory(size) for _ in range(2)]
    device = [cupy.zeros(size, np.uint8) for _ in range(2)]
    cupy.cuda.Device().synchronize()

    def seconds(ways):
        begin = time.perf_counter()
        for _ in range(count):
            if "up" in ways:
                runtime.memcpyAsync(device[0].data.ptr, host[0].ptr, size, 1, up.ptr)
            if "down" in ways:
                runtime.memcpyAsync(host[1].ptr, device[1].data.ptr, size, 2, down.ptr)
        cupy.cuda.Device().synchronize()
        return time.perf_counter() - begin

    for ways in ("up",), ("down",), ("up", "down"):
        seconds(ways)
        print(f"bus, {' and '.join(ways):12s} {size * count / seconds(ways) / 1e9:6.1f} GB/s each way")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["check", "time"])
    parser.add_argument("--kernels", default=PREBUILT, metavar="FOLDER")
    parser.add_argument("--ptx", action="store_true", help="have the driver compile the PTX, although there are cubins")
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--small", action="store_true", help="only small pictures, as for compute-sanitizer")
    parser.add_argument("--swapped", action="store_true", help="time 16-bit samples of the other byte order")
    options = parser.parse_args()
    if options.swapped:
        Lane.order = SWAPPED
    if options.what == "check":
        sys.exit(0 if check(options) else 1)
    show_times(options)


if __name__ == "__main__":
    main()
