#!/usr/bin/env python3
"""Checks that what names a release agrees: versions, addresses, and the names of archives.

usage: packaging/check-release.py                    as it is in the checkout
       packaging/check-release.py TAG REPOSITORY     and that it is this tag, and is published at this address
       packaging/check-release.py --fill SHA256SUMS FOLDER
                                                     also writes recipe.yaml and histeqd.rb, with checksums

[workspace.package] of Cargo.toml is where version and address are decided. Needs Python 3.11.
"""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
RECIPE, FORMULA = "packaging/conda/recipe/recipe.yaml", "packaging/homebrew/histeqd.rb"
ADDRESSES = ("repository", "homepage", "documentation")
NO_SUM = "0" * 64
faults = []


def read(name):
    return (ROOT / name).read_text(encoding="utf-8")


def expect(holds, message):
    if not holds:
        faults.append(message)


def filled(name, sums):
    """Returns the text of the recipe or formula with the checksums of the files that its URLs name."""
    text, file = [], None
    for line in read(name).splitlines(keepends=True):
        if url := re.search(r'\burl:? "?(https://[^"\n]+)', line):
            file = url[1].rsplit("/", 1)[1].replace("${{ version }}", version)
        if NO_SUM in line:
            line = line.replace(NO_SUM, sums[file])
        text.append(line)
    return "".join(text)


workspace = tomllib.loads(read("Cargo.toml"))["workspace"]["package"]
program = tomllib.loads(read("Cargo.toml"))["package"]
version, repository = workspace["version"], workspace["repository"]
release = f"{repository}/releases/download/v{version}/"

# Addresses, in every package of the workspace and in the wheel.
listed = subprocess.run(["git", "ls-files", "*Cargo.toml"], cwd=ROOT, check=True, capture_output=True, text=True)
for name in listed.stdout.split():
    package = tomllib.loads(read(name))["package"]
    for key in ADDRESSES if name != "fuzz/Cargo.toml" else ():  # a workspace of its own, and never published
        expect(package.get(key) == {"workspace": True}, f"{name}: no {key}.workspace = true")
urls = tomllib.loads(read("python/pyproject.toml"))["project"]["urls"]
for key in ADDRESSES:
    expect(urls.get(key.title()) == workspace[key], f"python/pyproject.toml: {key.title()} is not {workspace[key]}")
    for name in (RECIPE, FORMULA):
        for value in re.findall(rf'^ *{key}:? "?(https://[^"\n]+)', read(name), re.MULTILINE):
            expect(value == workspace[key], f"{name}: {key} is not {workspace[key]}")

# Archives: as packaging/archive.sh names them, for the targets of the workflow.
workflow = read(".github/workflows/release.yml")
named = re.search(r"^name=(.*)$", read("packaging/archive.sh"), re.MULTILINE)[1]
targets = re.findall(r"target: ([\w-]+)}", workflow)
expect(targets, "release.yml: no targets")
archives = []
for target in targets:
    folder = named.replace("$version", version).replace("$target", target)
    archives.append(release + folder + ".tar.gz")
    values = {"repo": repository, "version": version, "target": target, "bin": "histeqd", "binary-ext": ""}
    for key, expected in (("pkg-url", archives[-1]), ("bin-dir", f"{folder}/bin/histeqd")):
        found = re.sub(r"{ ([\w-]+) }", lambda name: values[name[1]], program["metadata"]["binstall"][key])
        expect(found == expected, f"Cargo.toml: {key} of cargo binstall is {found}, not {expected}")
found = re.findall(r'url "(.*)"', read(FORMULA))
expect(sorted(found) == sorted(archives), f"{FORMULA}: {found}, not {archives}")
found = re.search(r"url: (.*)", read(RECIPE))[1].replace("${{ version }}", version)
expect(found == f"{release}histeqd-{version}.tar.gz", f"{RECIPE}: {found}")
expect(f'version: "{version}"' in read(RECIPE), f"{RECIPE}: version is not {version}")
expect(f'version "{version}"' in read(FORMULA), f"{FORMULA}: version is not {version}")
for found in re.findall(r"\bhisteqd[-_](\d+\.\d+\.\d+)", read("docs/install.md")):
    expect(found == version, f"docs/install.md: a file of version {found}, not {version}")

# Builds: each of them has all features.
BUILDS = ["packaging/archive.sh", RECIPE, "python/wheel.sh", ".github/workflows/release.yml", "docs/install.md"]
for name in BUILDS:
    commands = re.findall(r"cargo (?:zigbuild|cyclonedx|build --profile dist|build --release|install [^`\n]*--path).*", read(name))
    expect(commands, f"{name}: no command that builds the program")
    for command in commands:
        plain = "--no-default-features" in command or command.startswith("cargo build --release`")
        expect(plain or "--features full" in command, f"{name}: {command}: without --features full")

arguments = sys.argv[1:]
if arguments[:1] == ["--fill"]:
    sums = {name: checksum for checksum, name in map(str.split, Path(arguments[1]).read_text().splitlines())}
    for name in (RECIPE, FORMULA):
        Path(arguments[2], Path(name).name).write_text(filled(name, sums), encoding="utf-8")
elif arguments:
    expect(arguments[0] == f"v{version}", f"the tag is {arguments[0]}, the version {version}")
    expect(arguments[1] == repository, f"published at {arguments[1]}, but Cargo.toml says {repository}")
print("\n".join(faults) or f"the names of release {version} agree")
sys.exit(bool(faults))
