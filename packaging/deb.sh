#!/bin/sh
# Makes the Debian package of target/release/histeqd (HISTEQD overrides it) in FOLDER: packaging/deb.sh FOLDER [--target TARGET]
#
# Needs cargo-deb (`cargo install cargo-deb`) and dpkg.
set -eu
folder=$(realpath -m "$1")
shift
cd "$(dirname "$0")/.."
mkdir -p "$folder"
rm -rf target/package
DESTDIR=target/package systemd/install.sh --prefix /usr >/dev/null
# Where Debian's zsh looks.
mv target/package/usr/share/zsh/site-functions target/package/usr/share/zsh/vendor-completions
cargo deb --package histeqd --no-build --no-strip --output "$folder" "$@"
