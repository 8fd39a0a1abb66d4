#!/bin/sh
# Checks the units without installing anything: they are right, and exposed to at most 2.0 of 10.
set -eu
cd "$(dirname "$0")"
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
for unit in histeqd.service histeqd@.service; do
    # A stand-in for the program, which need not be installed here.
    sed 's#^ExecStart=/usr/local/bin/histeqd#ExecStart=/bin/true#' "$unit" >"$folder/$unit"
done
cp "$folder/histeqd@.service" "$folder/histeqd@a.service"
systemd-analyze verify --man=no "$folder/histeqd.service" "$folder/histeqd@a.service"
systemd-analyze security --offline=true --threshold=20 --no-pager "$folder/histeqd.service" | tail -n 1
systemd-analyze security --offline=true --threshold=20 --no-pager "$folder/histeqd@a.service" | tail -n 1
