#!/bin/sh
# Runs README's two commands in a Debian system that holds what README names and nothing else: .ci/clean-room.sh SKIPPED
#
# The first as root, who installs packages; then both as an ordinary user, whose folder for temporary files has a blank in its name and who has no
# HOME and no LANG. The file SKIPPED gets the names of the tests that were skipped there, as a whole or in part. As root; needs debootstrap. Rust and
# the crates are this machine's, and so is the project's folder, so that what is built here serves the steps that follow.
set -eu
skipped=$(realpath -m "$1")
cd "$(dirname "$0")/.."
project=$PWD
root=$project/target/clean-room
export CARGO_HOME="${CARGO_HOME:-$HOME/.cargo}" RUSTUP_HOME="${RUSTUP_HOME:-$HOME/.rustup}"

if [ "${IN_CLEAN_ROOM-}" != prepared ]; then
    rm -rf "$root"
    cp -a "$(packaging/debian-base.sh bookworm)" "$root"
    cp /etc/resolv.conf "$root/etc/"
    mkdir -p "$root$project" "$root$CARGO_HOME" "$root$RUSTUP_HOME"
    chmod a+x "$root/root"
    # Mounts in a namespace of their own end with it, whatever happens here.
    IN_CLEAN_ROOM=prepared exec unshare --mount --propagation private "$0" "$skipped"
fi

mount --bind "$project" "$root$project"
mount --bind "$CARGO_HOME" "$root$CARGO_HOME"
mount --bind "$RUSTUP_HOME" "$root$RUSTUP_HOME"
mount -t proc proc "$root/proc"
mount --rbind /dev "$root/dev"
mount -t tmpfs tmpfs "$root/dev/shm"

# Prints a command that README.md gives to newcomers, verbatim.
readme() { sed -n "/<!-- ci: $1 -->/,/^\`\`\`\$/p" README.md | sed '/^<!--/d; /^```/d' | grep .; }
path=$CARGO_HOME/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
# Runs a command there: within USER COMMAND [VARIABLE=VALUE…].
within() {
    user=$1 command=$2
    shift 2
    chroot "$root" setpriv --reuid="$user" --regid="$user" --clear-groups env -i PATH="$path" CARGO_HOME="$CARGO_HOME" RUSTUP_HOME="$RUSTUP_HOME" \
        CARGO_TERM_COLOR=never DEBIAN_FRONTEND=noninteractive "$@" sh -euc "cd '$project' && $command"
}
begin=$(date +%s)
# Prints how long a command took.
took() { echo "$1: $(($(date +%s) - begin)) s" && begin=$(date +%s); }

within root "$(readme try)"
took 'the first command'
within root "$(readme test) --no-run"
took 'building the tests'

# As another user, on what root has built.
within root 'useradd newcomer && install -d -o newcomer "/tmp/a folder"'
rm -rf out
own() { chown "$1" . target && find target -maxdepth 1 -type f -exec chown "$1" {} + && chown --recursive "$1" target/release; }
trap 'own root' EXIT
own "$(chroot "$root" id -u newcomer)"
within newcomer "$(readme try | sed 's/.*&& cargo run/cargo run/')" >target/clean-room.log 2>&1 || { cat target/clean-room.log && exit 1; }
if grep Compiling target/clean-room.log; then echo 'what root has built is built again' >&2 && exit 1; fi
within newcomer "timeout 1800 $(readme test) --no-fail-fast" TMPDIR='/tmp/a folder' >target/clean-room.log 2>&1 || {
    # Above all a test that does not end: libtest tells of it after a minute.
    grep -F 'over 60 seconds' target/clean-room.log || true
    tail -n 300 target/clean-room.log
    exit 1
}
grep '^test result' target/clean-room.log
took 'the tests'
sed -n '/^skipped, as a whole or in part:/,/^$/p' target/clean-room.log | tee target/clean-room.skipped
sed -n 's/^    \([^ ]*\): .*/\1/p' target/clean-room.skipped | sort -u >"$skipped"
