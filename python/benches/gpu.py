#!/usr/bin/env python3
"""Times the Python module on a GPU, as multiples of a device copy of the same batch: python/benches/gpu.py [ROUNDS [WORDS]]

With WORDS, only the rows whose names have them.

Needs PyTorch with CUDA; CV-CUDA, kornia and torchvision are timed too where they are installed. All take turns, round by round, on one stream, from
Python, with results into tensors that are there already where that can be; a call's launches and Python's time count. Each time is the median
of rounds of several calls each, over as many batches as do not fit in the L2 cache. Pictures are smoothed noise over a gradient.
"""

import statistics
import sys

import torch

import histeqd

SIZES = {"8 of 4096x3072": (8, 3072, 4096), "32 of 1920x1080": (32, 1080, 1920), "64 of 512x512": (64, 512, 512)}
BYTES = 256 << 20  # of input that calls take turns with


def pictures(shape, dtype, full=False):
    """Pictures of 8 bits, or of 12 bits in 16 (or 16 in 16)."""
    number, height, width, *channels = shape
    generator = torch.Generator("cuda").manual_seed(1)
    noise = torch.randn((number * (channels or [1])[0], 1, height, width), generator=generator, device="cuda")
    for size in (3, 9):
        noise = torch.nn.functional.avg_pool2d(noise, size, 1, size // 2) * size * 0.8
    ramp = torch.linspace(-1.5, 1, width, device="cuda") + torch.linspace(-0.5, 0.5, height, device="cuda")[:, None]
    top = 255 if dtype == torch.uint8 else 65535 if full else 4095
    values = ((torch.tanh((noise + ramp) / 2) + 1) * top / 2).to(torch.int32).to(dtype)
    values = values.view(number, *channels, height, width)
    return values.movedim(1, -1).contiguous() if channels else values


def seconds(call, calls):
    start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    start.record()
    for number in range(calls):
        call(number)
    end.record()
    end.synchronize()
    return start.elapsed_time(end) / 1e3 / calls


def peers(method, inputs):
    """What else is installed and does the same, roughly."""
    found = {}
    gray = inputs[0].ndim == 3
    wide = inputs[0].dtype == torch.uint16
    try:
        import cvcuda

        lent = [cvcuda.as_tensor(x[..., None] if gray else x, "NHWC") for x in inputs]
        out = cvcuda.as_tensor(torch.empty_like(inputs[0])[..., None] if gray else torch.empty_like(inputs[0]), "NHWC")
        # On its current stream, which is the default one, as PyTorch's.
        if method == "equalize" and not wide:
            found["CV-CUDA"] = lambda i: cvcuda.histogrameq_into(out, lent[i % len(lent)])
        if method == "clahe" and gray:
            found["CV-CUDA"] = lambda i: cvcuda.clahe_into(out, lent[i % len(lent)], 2.0, (8, 8))
        if "CV-CUDA" in found:
            found["CV-CUDA"](0)
    except ImportError:
        pass
    except (RuntimeError, TypeError, ValueError) as error:  # whatever it cannot do is left out, and said
        found.pop("CV-CUDA", None)
        print(f"CV-CUDA: {error}", file=sys.stderr)
    try:
        import kornia

        floats = [(x if gray else x.movedim(-1, 1)).float().div_(255) for x in inputs[:1]] if not wide else []
        if gray:
            floats = [x[:, None] for x in floats]
        if floats and inputs[0].numel() < 120e6 and method == "clahe":
            found["kornia"] = lambda i: kornia.enhance.equalize_clahe(floats[0], 2.0, (8, 8))
        elif floats and inputs[0].numel() < 120e6:
            found["kornia"] = lambda i: kornia.enhance.equalize(floats[0])
    except ImportError:
        pass
    try:
        from torchvision.transforms.v2 import functional

        if method == "equalize" and not wide:
            planes = [x[:, None] if gray else x.movedim(-1, 1) for x in inputs]
            found["torchvision"] = lambda i: functional.equalize(planes[i % len(planes)])
    except ImportError:
        pass
    return found


def compare(what, method, inputs, options, rounds):
    outs = [torch.empty_like(x) for x in inputs]
    n = len(inputs)
    function = getattr(histeqd, method)
    calls = {
        "copy": lambda i: outs[i % n].copy_(inputs[i % n]),
        "histeqd": lambda i: function(inputs[i % n], out=outs[i % n], **options),
        **peers(method, inputs),
    }
    times = {name: [] for name in calls}
    many = max(10, 2 * n)
    few = {name: many for name in calls}
    for name, call in calls.items():
        try:
            seconds(call, 2)
            few[name] = max(1, min(many, int(0.05 / seconds(call, 1))))
        except RuntimeError as error:  # out of memory, say
            print(f"{name}: {error}", file=sys.stderr)
            times.pop(name)
    for _ in range(rounds):
        for name in times:
            times[name].append(seconds(calls[name], few[name]))
    copy = statistics.median(times["copy"])
    cells = [f"{copy * 1e6:.1f} us"]
    for name in ("histeqd", "CV-CUDA", "kornia", "torchvision"):
        cells.append(f"{statistics.median(times[name]) / copy:.2f}" if name in times else "-")
    print(f"| {what} | " + " | ".join(cells) + " |", flush=True)


def main():
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 9
    words = sys.argv[2] if len(sys.argv) > 2 else ""
    print(f"{torch.cuda.get_device_name()}, PyTorch {torch.__version__}\n")
    print("| | copy | histeqd | CV-CUDA | kornia | torchvision |\n| --- | --- | --- | --- | --- | --- |")
    per_channel = {"color": "per-channel"}
    for size, shape in SIZES.items():
        cases = [
            ("8 bit gray, equalize", "equalize", shape, torch.uint8, False, {}),
            ("RGB per channel, equalize", "equalize", (*shape, 3), torch.uint8, False, per_channel),
            ("RGB luma, equalize", "equalize", (*shape, 3), torch.uint8, False, {}),
            ("RGB hue, equalize", "equalize", (*shape, 3), torch.uint8, False, {"color": "hue"}),
            ("RGB lab, equalize", "equalize", (*shape, 3), torch.uint8, False, {"color": "lab"}),
            ("RGB luma, CLAHE 8x8", "clahe", (*shape, 3), torch.uint8, False, {}),
            ("RGB hue, CLAHE 8x8", "clahe", (*shape, 3), torch.uint8, False, {"color": "hue"}),
            ("RGB lab, CLAHE 8x8", "clahe", (*shape, 3), torch.uint8, False, {"color": "lab"}),
            ("16 bit RGB luma, equalize", "equalize", (*shape, 3), torch.uint16, False, {}),
            ("16 bit RGB hue, equalize", "equalize", (*shape, 3), torch.uint16, False, {"color": "hue"}),
            ("8 bit gray, CLAHE 8x8", "clahe", shape, torch.uint8, False, {"clip_limit": 2.0}),
            ("16 bit gray, equalize", "equalize", shape, torch.uint16, False, {}),
            ("12 bit in 16, CLAHE 8x8", "clahe", shape, torch.uint16, False, {}),
            ("16 bit, CLAHE 8x8", "clahe", shape, torch.uint16, True, {}),
        ]
        for what, method, wanted, dtype, full, options in cases:
            if words not in f"{size}, {what}":
                continue
            one = pictures(wanted, dtype, full)
            copies = max(2, -(-BYTES // (one.numel() * one.element_size())))
            compare(f"{size}, {what}", method, [one.clone() for _ in range(copies)], options, rounds)
            del one
            torch.cuda.empty_cache()


main()
