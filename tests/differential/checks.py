#!/usr/bin/env python3
"""Checks the program in $HISTEQD over files that are made here, a subject at a time.

    tests/differential/checks.py SUBJECT...

A subject is a module of `subjects`: the table of its cases, and the code that it alone needs. It
makes files with writers that share no code with histeqd, has histeqd enhance them, and compares
what other readers find in the outputs with definitions in NumPy. A line a fault; exit 1 if there
is one. $HISTEQD_DEVICES names the devices; cpu unless it is set.

needs: pip install --requirement requirements.txt (a subject, only the packages that it imports)
"""

import importlib
import sys
import tempfile
from pathlib import Path

import common


def main(subjects):
    for name in (word for word in subjects if not word.startswith("-")):
        subject = importlib.import_module(f"subjects.{name}")
        with tempfile.TemporaryDirectory() as place:
            subject.check_all(Path(place))
    print(f"{common.done['checks']} checks, {common.done['faults']} faults")
    return common.done["faults"] > 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
