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
    for name in subjects:
        # Else the tests would take it for a package that is not installed.
        assert (Path(__file__).parent / f"subjects/{name}.py").is_file(), f"no subject {name}"
        with tempfile.TemporaryDirectory() as place:
            importlib.import_module(f"subjects.{name}").check_all(Path(place))
    print(f"{common.done['checks']} checks, {common.done['faults']} faults")
    return common.done["faults"] > 0 or not common.done["checks"]


if __name__ == "__main__":
    sys.exit(main([word for word in sys.argv[1:] if word != "--table"]))
