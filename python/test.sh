#!/usr/bin/env bash
# Builds the wheel, installs it into a clean virtual environment, and runs the tests of the Python module: python/test.sh [ARGUMENTS OF PYTEST]
# Needs Rust and Python 3.10 or newer with venv; the rest comes from PyPI. PYTHON=python3.14t python/test.sh does so with another interpreter. What
# needs PyTorch or a GPU is skipped without them, and said; with HISTEQD_REQUIRE_CUDA=1 that is a failure, for machines where python/tests is run
# with the Python that has PyTorch. After `cargo build --release` it also compares the module with the program.
set -euo pipefail
CARGO_TARGET_DIR=$(realpath -m "${CARGO_TARGET_DIR:-$(dirname "$0")/../target}")
export CARGO_TARGET_DIR
cd "$(dirname "$0")"
python=$(command -v "${PYTHON:-python3}")
work=$CARGO_TARGET_DIR/python
mkdir -p "$work"
rm -rf "$work/wheel" "$work/clean"
others=(pytest hypothesis pillow matplotlib dask)
if "$python" -c 'import sys, sysconfig; sys.exit(not sysconfig.get_config_var("Py_GIL_DISABLED"))'; then
    ./wheel.sh "$work/wheel" "$python"
else
    ./wheel.sh "$work/wheel"
    others+=(opencv-python-headless albumentations)
    export NO_ALBUMENTATIONS_UPDATE=1
fi

"$python" -m venv "$work/clean"
"$work/clean/bin/pip" install --quiet --disable-pip-version-check "$work"/wheel/*.whl "${others[@]}"
if [ -x "$work/clean/bin/histeqd" ]; then export HISTEQD_COMMAND=$work/clean/bin/histeqd; fi
exec "$work/clean/bin/python" -m pytest -q -rs -p no:cacheprovider "$@"
