#!/usr/bin/env python3
"""Runs the script of main.nf as Nextflow does, but without Nextflow: in bash, with its variables filled in, in a folder with links to the pictures.

    examples/nextflow/check.py [HISTEQD]

Compares the outputs with those of a run without it, and the names in meta.yml and the test with main.nf's. Needs PyYAML.
"""

import filecmp
import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import yaml

FOLDER = Path(__file__).resolve().parent
INBOX = FOLDER.parent / "inbox"
VARIABLES = {"prefix": "examples", "task.cpus": "2", "memory": "--memory 1024MiB", "args": "--method clahe"}


def check_names(process):
    channels = set(re.findall(r"emit: (\w+)", process))
    described = {name for output in yaml.safe_load((FOLDER / "meta.yml").read_text())["output"] for name in output}
    assert described == channels, f"meta.yml describes {described}, and main.nf emits {channels}"
    tested = set(re.findall(r"process\.out\.(\w+)", (FOLDER / "tests/main.nf.test").read_text()))
    assert tested <= channels, f"the test has {tested}, and main.nf emits {channels}"


def script(process):
    """Returns what Nextflow would have bash run."""
    text = re.search(r'\n    script:.*?"""\n(.*?)\n    """', process, re.DOTALL).group(1)
    return re.sub(r"\$\{(.*?)\}", lambda name: VARIABLES[name.group(1)], text)


def files(folder):
    return sorted(path.relative_to(folder) for path in folder.rglob("*") if path.is_file())


def check_script(process, histeqd):
    with tempfile.TemporaryDirectory() as place:
        task, expected = Path(place, "task"), Path(place, "expected")
        (task / "inbox").mkdir(parents=True)
        for input_ in INBOX.iterdir():
            (task / "inbox" / input_.name).symlink_to(input_)
        program = Path(place, "bin", "histeqd")
        program.parent.mkdir()
        program.symlink_to(histeqd)
        path = f"{program.parent}:{os.environ['PATH']}"
        subprocess.run(["bash", "-ue", "-c", script(process)], cwd=task, env={**os.environ, "PATH": path}, check=True)
        subprocess.run([histeqd, INBOX, "--out", expected, "--no-config", "--quiet", *VARIABLES["args"].split()], check=True)
        out = task / VARIABLES["prefix"]
        assert files(out) == files(expected) != [], f"main.nf made {files(out)}"
        wrong = [name for name in files(out) if not filecmp.cmp(out / name, expected / name, shallow=False)]
        assert not wrong, f"main.nf made other bytes of {wrong}"
        assert json.loads(out.with_suffix(".json").read_text())["done"] == len(files(expected))


def main():
    histeqd = Path(sys.argv[1] if len(sys.argv) > 1 else FOLDER.parents[1] / "target/release/histeqd").resolve()
    process = (FOLDER / "main.nf").read_text()
    check_names(process)
    check_script(process, histeqd)
    print("the module's script makes what a local run makes")


main()
