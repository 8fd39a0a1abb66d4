"""thermal_plateau.py HISTEQD: what methods leave of made scenes of a thermal camera, 14 bits, 640x512; the figures of `thermal` in docs/methods.md.

Three scenes of sky, ground, a person and a hot engine with noise of 3 levels. Prints the standard deviation of each region in the output, as
of 255 levels, averaged over the scenes. Needs numpy.
"""

import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

HEIGHT, WIDTH = 512, 640
METHODS = {
    "global": [],
    **{f"plateau {share}": ["--plateau", share] for share in ("0.1", "0.02", "0.005", "0.002")},
    "stretch": ["--method", "stretch"],
    "clahe": ["--method", "clahe"],
}


def texture(random, size, spread):
    """Smooth noise with structures of about this size in pixels, and this standard deviation in levels."""
    spectrum = np.fft.rfft2(random.normal(size=(HEIGHT, WIDTH)))
    y, x = np.fft.fftfreq(HEIGHT)[:, None], np.fft.rfftfreq(WIDTH)[None, :]
    smooth = np.fft.irfft2(spectrum * np.exp(-2 * (np.pi * size) ** 2 * (x * x + y * y)), (HEIGHT, WIDTH))
    return smooth / smooth.std() * spread


def scene(seed):
    """Returns the samples of a scene and the pixels of its regions."""
    random = np.random.default_rng(seed)
    y, x = np.mgrid[0:HEIGHT, 0:WIDTH]
    ground = 7400 + texture(random, 1.5, 25) + texture(random, 12, 70) + texture(random, 60, 90)
    person = ((x - 150) / 12) ** 2 + ((y - 380) / 40) ** 2 < 1
    engine = ((x - 480) / 30) ** 2 + ((y - 330) / 22) ** 2 < 1
    levels = np.where(y < 180, 6500 + 0.3 * y + texture(random, 40, 8), ground)
    levels = np.where(person, 8600 + texture(random, 3, 60), levels)
    levels = np.where(engine, 11500 + 25 * (x - 480) + texture(random, 4, 500), levels)
    samples = np.rint(levels + random.normal(0, 3, levels.shape)).clip(0, 16383).astype(">u2")
    return samples, {"sky": y < 90, "ground": (y > 384) & ~person, "person": person, "engine": engine}


def main(program):
    with tempfile.TemporaryDirectory() as folder:
        made = [scene(seed) for seed in range(3)]
        (Path(folder) / "in").mkdir()
        for number, (samples, _) in enumerate(made):
            header = f"P5\n{WIDTH} {HEIGHT}\n65535\n".encode()
            (Path(folder) / "in" / f"{number}.pgm").write_bytes(header + samples.tobytes())
        print("| method | " + " | ".join(made[0][1]) + " |\n| --- |" + " --: |" * len(made[0][1]))
        for name, flags in METHODS.items():
            out = Path(folder) / name.replace(" ", "-")
            command = [program, Path(folder) / "in", "--out", out, "--depth", "8", "--devices", "cpu", *flags]
            subprocess.run(command, check=True, capture_output=True)
            spreads = []
            for number, (_, regions) in enumerate(made):
                samples = np.frombuffer((out / f"{number}.pgm").read_bytes()[-HEIGHT * WIDTH :], np.uint8)
                spreads.append([samples.reshape(HEIGHT, WIDTH)[region].std() for region in regions.values()])
            print(f"| {name} | " + " | ".join(f"{spread:.1f}" for spread in np.mean(spreads, axis=0)) + " |")


if __name__ == "__main__":
    main(sys.argv[1])
