#!/bin/sh
# Remakes kernels/prebuilt/histeqd.ptx; needs no GPU and no CUDA toolkit, only python3 with pip and venv.
#
#   build.sh           compile and write the file
#   build.sh --check   compile, compare with the committed file, and assemble it for an old, a middle and a new GPU
#
# NVRTC 11.8 is the last that compiles for compute capability 3.7. The PTX it writes names version 7.8 of the language but
# uses nothing newer than 6.0: with that in its header, all drivers from 418 on (the last for those GPUs is 470) accept it.
set -eu
cd "$(dirname "$0")"
tools="${HISTEQD_KERNEL_TOOLS:-../target/kernel-tools}"

# install VENV PACKAGE…: a virtual environment with these packages, made once.
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
mkdir -p prebuilt
made=$(mktemp)
trap 'rm -f "$made" "$made.cubin"' EXIT
"$tools/cuda11/bin/python3" nvrtc.py "$made"

if [ "${1:-}" != --check ]; then
    cat "$made" > prebuilt/histeqd.ptx
    exit
fi

cmp "$made" prebuilt/histeqd.ptx || { echo "prebuilt/histeqd.ptx is not what build.sh makes of the sources" >&2; exit 1; }
install cuda13 nvidia-cuda-nvcc==13.5.37
assemble() {
    echo "$2, $("$1" --version | grep -o 'release [0-9.]*')"
    "$1" --gpu-name "$2" --warning-as-error --output-file "$made.cubin" prebuilt/histeqd.ptx
}
ptxas11=$(echo "$tools"/cuda11/lib/python3*/site-packages/nvidia/cuda_nvcc/bin/ptxas)
ptxas13=$(echo "$tools"/cuda13/lib/python3*/site-packages/nvidia/cu13/bin/ptxas)
assemble "$ptxas11" sm_37
assemble "$ptxas13" sm_75
assemble "$ptxas13" sm_90
