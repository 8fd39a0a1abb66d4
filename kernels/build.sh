#!/bin/sh
# Rebuilds kernels/prebuilt/*.ptx, one for each .cu file. Needs no GPU and no CUDA toolkit, only python3 with pip and venv.
#
#   build.sh           compile and write the files
#   build.sh --check   compile, compare with the committed files, and assemble them for an old, a middle and a new GPU
#
# NVRTC 11.8 is the last that compiles for compute capability 3.7. The PTX it writes declares version 7.8 of the language but
# uses nothing newer than 6.0: with 6.0 in the header, all drivers from 384 on (the last for those GPUs is 470) accept it.
# There are several files so that a GPU's driver compiles only what a run needs.
set -eu
cd "$(dirname "$0")"
tools="${HISTEQD_KERNEL_TOOLS:-../target/kernel-tools}"

# install VENV PACKAGE…: creates a virtual environment with these packages, unless it is there already.
install() {
    venv="$tools/$1"
    shift
    [ -e "$venv/complete" ] && return
    mkdir -p "$tools"
    python3 -m venv "$venv"
    "$venv/bin/pip" install --quiet --disable-pip-version-check "$@"
    touch "$venv/complete"
}

install cuda11 nvidia-cuda-nvrtc-cu11==11.8.89 nvidia-cuda-nvcc-cu11==11.8.89
if [ "${1:-}" != --check ]; then
    mkdir -p prebuilt
    exec "$tools/cuda11/bin/python3" nvrtc.py prebuilt
fi

install cuda13 nvidia-cuda-nvcc==13.5.37
made=$(mktemp -d)
trap 'rm -rf "$made"' EXIT
"$tools/cuda11/bin/python3" nvrtc.py "$made"
diff -rq "$made" prebuilt || { echo "prebuilt/ is not what build.sh makes of the sources" >&2; exit 1; }
assemble() {
    echo "$2, $("$1" --version | grep -o 'release [0-9.]*')"
    for ptx in prebuilt/*.ptx; do
        "$1" --gpu-name "$2" --output-file "$made/cubin" "$ptx" 2>"$made/said" || { cat "$made/said" >&2; exit 1; }
        # ptxas warns where .minnctapersm asks for more blocks than this GPU can hold; such values are meant for newer GPUs.
        if grep -v minnctapersm "$made/said" | grep . >&2; then exit 1; fi
    done
}
ptxas11=$(echo "$tools"/cuda11/lib/python3*/site-packages/nvidia/cuda_nvcc/bin/ptxas)
ptxas13=$(echo "$tools"/cuda13/lib/python3*/site-packages/nvidia/cu13/bin/ptxas)
assemble "$ptxas11" sm_37
assemble "$ptxas13" sm_75
assemble "$ptxas13" sm_90
