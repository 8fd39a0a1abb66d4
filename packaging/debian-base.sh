#!/bin/sh
# Prints the folder of a Debian system that has only what is essential, for copies of it to try packages in: packaging/debian-base.sh SUITE
#
# Made by debootstrap, as root, and kept in target.
set -eu
suite=$1
cd "$(dirname "$0")/.."
base=$PWD/target/debian-$suite
if ! [ -e "$base/complete" ]; then
    rm -rf "$base"
    debootstrap --variant=minbase "$suite" "$base" >/dev/null
    touch "$base/complete"
fi
echo "$base"
