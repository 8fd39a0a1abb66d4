#!/usr/bin/env bash
# Builds the image with a Debian package and runs it: packaging/container/check.sh FILE.deb [HISTEQD]
#
# As root; needs buildah and debootstrap, and no registry of images: its base image is made by debootstrap. HISTEQD, the program to compare with, is
# target/release/histeqd unless it is named. Says so and does nothing where this machine allows no containers.
set -euo pipefail
package=$(realpath "$1")
histeqd=$(realpath "${2:-target/release/histeqd}")
cd "$(dirname "$0")/../.."
recipe=packaging/container/Containerfile
place=$(mktemp -d)
image() { buildah --root "$place/storage" --runroot "$place/run" --storage-driver vfs "$@"; }
trap 'image rm --all >/dev/null 2>&1 || true; rm -rf "$place"' EXIT
fail() { echo "$recipe: $1" >&2 && exit 1; }

# What the recipe begins with. It trusts whom this machine trusts, for a registry behind a proxy.
base=$(image from scratch)
image add --quiet "$base" "$(packaging/debian-base.sh bookworm)" / >/dev/null
if ! image run --isolation chroot "$base" -- true; then
    echo "$recipe: not built, because buildah can run nothing here" >&2
    exit
fi
image add --quiet "$base" /etc/ssl/certs/ca-certificates.crt /etc/ssl/machine.crt >/dev/null
image config --env PIP_CERT=/etc/ssl/machine.crt "$base"
image commit --quiet "$base" "$(sed -n 's/^FROM //p' "$recipe")" >/dev/null
image rm "$base" >/dev/null

mkdir -p "$place/context/dist"
cp "$package" "$place/context/dist/"
image build --quiet --isolation chroot --pull-never --file "$recipe" --tag histeqd "$place/context" >/dev/null || fail 'it does not build'

container=$(image from --pull-never histeqd)
[ "$(image inspect --format '{{.OCIv1.Config.Entrypoint}} {{.OCIv1.Config.User}}' "$container")" = '[histeqd] histeqd' ] || fail 'it runs something else'
# As `docker run --user` does it, with a folder that belongs to an ordinary user.
install -d -o 1000 -g 1000 "$place/done"
within() { image run --isolation chroot --user "$1" -v "$PWD/examples/inbox:/inbox:ro" -v "$place/done:/done" "$container" -- "${@:2}"; }
within 1000:1000 histeqd /inbox --out /done --quiet || fail 'the program does not work'
"$histeqd" examples/inbox --out "$place/here" --quiet --devices cpu
diff -r "$place/here" "$place/done" || fail 'its outputs are others than those of the program here'
echo "the image builds, and makes what the program makes here"
