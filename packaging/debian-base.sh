#!/bin/sh
# Prints the folder of a Debian system that has only what is essential, for copies of it to try packages in. Made by debootstrap, as root, and kept in target.
set -eu
cd "$(dirname "$0")/.."
base=$PWD/target/debian-base
if ! [ -e "$base/complete" ]; then
    rm -rf "$base"
    debootstrap --variant=minbase bookworm "$base" >/dev/null
    touch "$base/complete"
fi
echo "$base"
