#!/bin/sh
# Rebuilds kernels/prebuilt: a PTX file for each .cu file, and cubins of those that the program loads, one for each architecture, all in
# gzip. Needs no GPU and no CUDA toolkit, only python3 with pip and venv.
#
#   build.sh           compile and write the files
#   build.sh --check   compile, compare with what the committed files hold, and assemble them for an old, a middle and a new GPU
#
# NVRTC 11.8 is the last that compiles for compute capability 3.7. The PTX it writes declares version 7.8 of the language but
# uses nothing newer than 6.0: with 6.0 in the header, all drivers from 384 on (the last for those GPUs is 470) accept it.
# There are several files so that a GPU's driver loads only what a run needs.
set -eu
cd "$(dirname "$0")"
tools="${HISTEQD_KERNEL_TOOLS:-../target/kernel-tools}"
# What the program and the Python module load.
assembled='global8 global16 planes colours clahe8 clahe16 jpeg_decode jpeg_encode jpeg_transform'

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
install cuda12 nvidia-cuda-nvcc-cu12==12.8.93
install cuda13 nvidia-cuda-nvcc==13.5.37
ptxas11=$(echo "$tools"/cuda11/lib/python3*/site-packages/nvidia/cuda_nvcc/bin/ptxas)
ptxas12=$(echo "$tools"/cuda12/lib/python3*/site-packages/nvidia/cuda_nvcc/bin/ptxas)
ptxas13=$(echo "$tools"/cuda13/lib/python3*/site-packages/nvidia/cu13/bin/ptxas)

# assemble PTXAS ARCHITECTURE PTX CUBIN
assemble() {
    "$1" --gpu-name "$2" --output-file "$4" "$3" 2>"$4.said" || { cat "$4.said" >&2; exit 1; }
    # ptxas warns where .minnctapersm asks for more blocks than this GPU can hold; such values are meant for newer GPUs.
    if grep -v minnctapersm "$4.said" | grep . >&2; then exit 1; fi
    rm "$4.said"
}

# cubins FOLDER PTXAS ARCHITECTURE…: assembles the folder's PTX. An architecture is for the oldest of these ptxas that knows it, so that
# drivers as old accept what it makes. lib.rs lists the same architectures.
cubins() {
    folder=$1 ptxas=$2
    shift 2
    for architecture in "$@"; do
        mkdir "$folder/$architecture"
        for name in $assembled; do
            assemble "$ptxas" "$architecture" "$folder/$name.ptx" "$folder/$architecture/$name.cubin"
        done
    done
}

made=$(mktemp -d)
trap 'rm -rf "$made"' EXIT
mkdir "$made/new"
"$tools/cuda11/bin/python3" nvrtc.py "$made/new"
cubins "$made/new" "$ptxas11" sm_70 sm_80 sm_90
cubins "$made/new" "$ptxas12" sm_100 sm_120
cubins "$made/new" "$ptxas13" sm_110

if [ "${1:-}" != --check ]; then
    # Without names and times, so that equal code is in equal files.
    gzip --recursive --best --no-name --suffix .gz "$made/new"
    rm -rf prebuilt
    cp -r "$made/new" prebuilt
    exit
fi

cp -r prebuilt "$made/committed"
gzip --recursive --decompress "$made/committed"
diff -rq "$made/new" "$made/committed" || { echo "prebuilt/ is not what build.sh makes of the sources" >&2; exit 1; }
for ptx in "$made"/committed/*.ptx; do
    assemble "$ptxas11" sm_37 "$ptx" "$made/cubin"
    assemble "$ptxas13" sm_75 "$ptx" "$made/cubin"
    assemble "$ptxas13" sm_90 "$ptx" "$made/cubin"
done
