#!/usr/bin/env bash
# Compares histeqd with independent readers and with the definition: tests/differential/run.sh [ARGUMENTS OF run.py]
# Needs Python 3.11 or newer with venv, and target/release/histeqd or --histeqd PROGRAM; readers come from PyPI, ImageMagick and ffmpeg if installed.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
environment=$here/../../target/tools/differential
[ -x "$environment/bin/python" ] || "${PYTHON:-python3}" -m venv "$environment"
"$environment/bin/pip" install --quiet --disable-pip-version-check --requirement "$here/requirements.txt"
exec "$environment/bin/python" "$here/run.py" "$@"
