#!/usr/bin/env bash
# Builds the wheel, installs it into a clean virtual environment, and runs the tests of the Python module: python/test.sh [ARGUMENTS OF PYTEST]
# Needs Rust and Python 3.10 or newer with venv; the rest comes from PyPI. What needs PyTorch or a GPU is skipped without them, and said; with
# HISTEQD_REQUIRE_CUDA=1 that is a failure, for machines where python/tests is run with the Python that has PyTorch. After `cargo build --release` it also compares the module with the program.
set -euo pipefail
cd "$(dirname "$0")"
mkdir -p ../target/python
work=$(cd ../target/python && pwd)
rm -rf "$work/wheel" "$work/clean"
./wheel.sh "$work/wheel"

python3 -m venv "$work/clean"
"$work/clean/bin/pip" install --quiet --disable-pip-version-check \
    "$work"/wheel/*.whl pytest hypothesis opencv-python-headless pillow matplotlib dask
if [ -x "$work/clean/bin/histeqd" ]; then export HISTEQD_COMMAND=$work/clean/bin/histeqd; fi
exec "$work/clean/bin/python" -m pytest -q -rs -p no:cacheprovider "$@"
