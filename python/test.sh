#!/usr/bin/env bash
# Builds the wheel, installs it into a clean virtual environment, and runs the tests of the Python module: python/test.sh [ARGUMENTS OF PYTEST]
# Needs Rust and Python 3.10 or newer with venv; the rest comes from PyPI.
set -euo pipefail
cd "$(dirname "$0")"
environment=../target/python
rm -rf "$environment/wheel" "$environment/clean"
mkdir -p "$environment"
environment=$(cd "$environment" && pwd)

python3 -m venv "$environment/tools"
"$environment/tools/bin/pip" install --quiet --disable-pip-version-check 'maturin>=1.9,<2'
"$environment/tools/bin/maturin" build --quiet --release --locked --compatibility linux --out "$environment/wheel"

python3 -m venv "$environment/clean"
"$environment/clean/bin/pip" install --quiet --disable-pip-version-check \
    "$environment"/wheel/*.whl pytest hypothesis opencv-python-headless
# Where the program has been built, the module must give the same bytes.
program=$PWD/../target/release/histeqd
if [ -z "${HISTEQD_COMMAND:-}" ] && [ -x "$program" ]; then export HISTEQD_COMMAND=$program; fi
exec "$environment/clean/bin/python" -m pytest -q -rs -p no:cacheprovider "$@"
