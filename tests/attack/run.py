#!/usr/bin/env python3
"""Attacks histeqd for a while, and counts: tests/attack/run.py SECONDS [--seed N] [--histeqd PROGRAM] [--only NAME].

Rounds take turns: single runs, a service, workers of a queue, and object storage (the last two where nats-server and weed are installed). In
each, processes are killed at random moments, half of the pictures are mutants, and requests and messages are crafted. In the end every input
has to be done with the bytes of an undisturbed run, or told as failed; nothing else may be at an output's name, ever; and memory has to stay
within --memory and what place.py allows besides. What breaks a promise leaves its folder, and the exit code 1."""

import argparse
import random
import shutil
import sys
import time
from collections import Counter
from pathlib import Path

import place
import runs
import service
import storage
import work

BUILT = Path(__file__).parent.parent.parent / "target/release/histeqd"
ROUNDS = {"runs": runs, "service": service, "work": work, "storage": storage}


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("seconds", type=float)
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 32))
    parser.add_argument("--histeqd", default=str(BUILT))
    parser.add_argument("--only", choices=ROUNDS)
    arguments = parser.parse_args()
    usable = [name for name, kind in ROUNDS.items() if shutil.which(getattr(kind, "PROGRAM", "/bin/sh") or "")]
    print(f"seed {arguments.seed}; not installed here: {sorted(ROUNDS.keys() - usable) or 'nothing'}")
    counts, broken, end = Counter(), 0, time.monotonic() + arguments.seconds
    number = 0
    while time.monotonic() < end:
        name = arguments.only or usable[number % len(usable)]
        chance = random.Random(f"{arguments.seed} {number}")
        number += 1
        counts[f"rounds of {name}"] += 1
        one = place.Place(arguments.histeqd, chance, counts)
        try:
            with one:
                ROUNDS[name].attack(one)
        except Exception as why:
            broken += 1
            print(f"round {number} ({name}) in {one.root}: {type(why).__name__}: {why}", flush=True)
    for what, count in sorted(counts.items()):
        print(f"{count:9} {what}")
    if counts["most MiB of memory"] > place.MEMORY_MIB + place.BESIDES_MIB:
        print(f"more than --memory {place.MEMORY_MIB}MiB and {place.BESIDES_MIB} MiB besides")
        broken += 1
    print(f"{broken:9} promises broken")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
