#!/bin/sh
# Fuzzes every target for SECONDS each, starting from the files of tests/data, the kept inputs, and
# any further folders:
#
#   fuzz/run.sh SECONDS [FOLDER…]
#
# Needs cargo-fuzz (`cargo install cargo-fuzz`) and a nightly compiler. Failing inputs go to
# fuzz/artifacts, the growing corpus to fuzz/corpus. TARGETS='jxl jp2' in the environment runs these
# alone.
set -eu
cd "$(dirname "$0")/.."
seconds=$1
shift
# SQLite, which is linked in with the library, has two tables of the same name in its single source
# file.
export ASAN_OPTIONS="detect_odr_violation=0:${ASAN_OPTIONS:-}"
for target in ${TARGETS:-$(cargo +nightly fuzz list)}; do
    echo "== $target"
    mkdir -p "fuzz/corpus/$target"
    case $target in
    http | message | multiscales | settings) seeds= ;;
    *) seeds='tests/data/codec tests/data/jpeg tests/data/samples tests/data/bad tests/data/animations tests/data/dicom' ;;
    esac
    # shellcheck disable=SC2086 # folders without blanks
    cargo +nightly fuzz run "$target" "fuzz/corpus/$target" "fuzz/kept/$target" $seeds "$@" -- \
        -max_total_time="$seconds" -max_len=200000 -rss_limit_mb=2048 -timeout=20 -print_final_stats=1
done
