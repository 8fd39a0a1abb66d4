#!/bin/sh
# Runs the program of an archive on an old system and compares its outputs: packaging/check-archive.sh ARCHIVE [HISTEQD]
#
# That is Debian 11 (glibc 2.31), the oldest that Debian's mirrors have; as root, by debootstrap. For another processor than this machine's it is what
# qemu-user runs with the C library of Debian's cross compilers (libc6-arm64-cross). HISTEQD, the program to compare with, is target/release/histeqd
# unless it is named.
set -eu
archive=$(realpath "$1")
histeqd=$(realpath "${2:-target/release/histeqd}")
cd "$(dirname "$0")/.."
fail() { echo "$archive: $1" >&2 && exit 1; }
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
name=$(basename "$archive" .tar.gz)
machine=$(echo "$name" | sed 's/.*-\([^-]*\)-unknown-linux-gnu$/\1/')
if [ "$machine" = "$(uname -m)" ]; then
    root=$place/root
    cp -a "$(packaging/debian-base.sh bullseye)" "$root"
    program="chroot $root /opt/$name/bin/histeqd" within=
else
    root=$place
    mkdir "$root/opt" "$root/tmp"
    program="qemu-$machine -L /usr/$machine-linux-gnu $root/opt/$name/bin/histeqd" within=$root
fi
tar -xzf "$archive" -C "$root/opt"
cp -r examples/inbox "$root/tmp/in"
$program "$within/tmp/in" --out "$within/tmp/out" --quiet || fail 'the program does not work'
"$histeqd" examples/inbox --out "$place/here" --quiet --devices cpu
diff -r "$place/here" "$root/tmp/out" || fail 'its outputs are others than those of the program here'
echo "$archive: the program works there, and makes what the program makes here"
