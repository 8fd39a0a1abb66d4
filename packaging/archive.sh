#!/bin/sh
# Builds the program for Linux systems from 2012 on (glibc 2.17) and packs it with its manual, completions and documents:
#
#   packaging/archive.sh TARGET FOLDER        TARGET is x86_64-unknown-linux-gnu or aarch64-unknown-linux-gnu
#
# Needs `rustup target add TARGET` and cargo-zigbuild (`pip install ziglang cargo-zigbuild`). For another processor than this machine's, RUNNER has to
# run its programs ("qemu-aarch64 -L /usr/aarch64-linux-gnu": qemu-user and libc6-arm64-cross), because the program writes its own manual.
set -eu
target=$1 folder=$(realpath -m "$2")
cd "$(dirname "$0")/.."
cargo zigbuild --profile dist --locked --features full --target "$target.2.17"
program=${CARGO_TARGET_DIR:-target}/$target/dist/histeqd
# What the C library must have: nothing newer than it promises.
newest=$(objdump -T "$program" | grep -o 'GLIBC_[0-9.]*' | sort -Vu | tail -n 1)
[ "$(printf '%s\nGLIBC_2.17\n' "$newest" | sort -V | tail -n 1)" = GLIBC_2.17 ] || { echo "$program needs $newest" >&2 && exit 1; }
version=$(sed -n 's/^version = "\(.*\)"$/\1/p' Cargo.toml | head -n 1)
name=histeqd-$version-$target
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
HISTEQD=$program DESTDIR=$place systemd/install.sh --prefix "/$name" >/dev/null
# The units and the configuration name places of an installed system; they come along as documents.
rm -rf "${place:?}/etc"
mkdir -p "$folder"
tar -C "$place" --owner=0 --group=0 -czf "$folder/$name.tar.gz" "$name"
echo "$folder/$name.tar.gz"
