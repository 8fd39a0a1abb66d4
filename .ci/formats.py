#!/usr/bin/env python3
"""Fails if more places name a format of pictures than do now, outside its room and the registry.

A format is a variant of `Format`, and a room, a module in `crates/codec/src/formats`. `registry.rs` names all of them: what else of the crate asks
it, as in `Format::has_pages`, needs no change for a new format. Tests do not count.
"""

import re
import sys
from pathlib import Path

MOST = 3
ROOT = Path(__file__).resolve().parent.parent / "crates/codec/src"
FORMATS = ROOT / "formats"
# What rooms have in common. They count as the rest of the crate does.
SHARED = {"elements", "foreign"}
TESTS = re.compile(r"#\[cfg\(test\)\]\s*(pub(\([a-z]+\))? )?mod \w+ \{.*", re.S)
COMMENT = re.compile(r"//[^\n]*")


def rooms():
    """Returns the names of the modules of formats."""
    return {file.stem for file in FORMATS.glob("*.rs")} - SHARED - {"registry"}


def is_own(file, own):
    """Returns whether a file is the registry, or in a room."""
    if FORMATS not in file.parents:
        return False
    name = file.relative_to(FORMATS).parts[0]
    return name.removesuffix(".rs") in own | {"registry"}


def main():
    enum = re.search(r"pub enum Format \{(.*?)\n\}", (ROOT / "format.rs").read_text(), re.S)[1]
    variants, modules = re.findall(r"^    (\w+),", enum, re.M), rooms()
    named = re.compile(rf"\b[A-Z]\w*::(?:{'|'.join(variants)})\b|\b(?:{'|'.join(sorted(modules))})::")
    found = []
    for file in sorted(ROOT.rglob("*.rs")):
        if is_own(file, modules):
            continue
        text = TESTS.sub("", file.read_text())
        for number, line in enumerate(text.splitlines(), 1):
            found += [f"{file.relative_to(ROOT)}:{number}: {name}" for name in named.findall(COMMENT.sub("", line))]
    print(f"{len(found)} places name a format outside the registry and the rooms, {MOST} at most")
    if len(found) > MOST:
        print("\n".join(found))
    sys.exit(len(found) > MOST)


main()
