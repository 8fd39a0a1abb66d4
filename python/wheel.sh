#!/usr/bin/env bash
# Builds a wheel into FOLDER: python/wheel.sh FOLDER [INTERPRETER]
# It is for CPython 3.10 and newer, or, with an interpreter such as python3.14t, which need not be installed, for that one alone: free-threaded
# CPython needs a wheel of its own. On Linux it holds the program too, as the command `histeqd`: the one that HISTEQD names, or that of
# `cargo build --release`, which is run if there is none. Needs Rust and Python 3.10 or newer with venv, and builds in Cargo's CARGO_TARGET_DIR.
set -euo pipefail
mkdir -p "$1"
folder=$(cd "$1" && pwd)
target=$(realpath -m "${CARGO_TARGET_DIR:-$(dirname "$0")/../target}")
export CARGO_TARGET_DIR=$target
for_one=()
if [ $# -gt 1 ]; then for_one=(--interpreter "$2"); fi
program=$(realpath -m "${HISTEQD:-$target/release/histeqd}")
cd "$(dirname "$0")"
if [ -z "${HISTEQD-}" ] && [ ! -x "$program" ] && [ "$(uname -s)" = Linux ]; then
    cargo build --release --locked --features full --manifest-path ../Cargo.toml
fi
work=$target/python

python3 -m venv "$work/tools"
"$work/tools/bin/pip" install --quiet --disable-pip-version-check 'maturin>=1.9,<2' wheel
rm -rf "$work/built"
if [ ! -x "$program" ]; then
    if [ -n "${HISTEQD-}" ]; then echo "python/wheel.sh: HISTEQD: $program is not there" >&2 && exit 1; fi
    echo "python/wheel.sh: the wheel has the module alone, because the command runs on Linux only" >&2
    exec "$work/tools/bin/maturin" build --quiet --profile dist --locked "${for_one[@]}" --out "$folder"
fi
"$work/tools/bin/maturin" build --quiet --profile dist --locked "${for_one[@]}" --out "$work/built"
# maturin cannot add a program that is not always there.
(cd "$work/built" && "$work/tools/bin/wheel" unpack ./*.whl && rm ./*.whl)
unpacked=$(echo "$work"/built/histeqd-*)
scripts=$unpacked/$(basename "$unpacked").data/scripts
mkdir -p "$scripts"
install -m 755 "$program" "$scripts/histeqd"
"$work/tools/bin/wheel" pack --dest-dir "$folder" "$unpacked"
