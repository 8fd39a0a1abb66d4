#!/bin/sh
# Installs histeqd as a service, or uninstalls it. As root, in a checkout; to install, after `cargo build --release --locked --features full`:
#
#   systemd/install.sh [--prefix DIR]                DIR defaults to /usr/local; with /usr, units and users go where packages put them
#   systemd/install.sh --uninstall [--prefix DIR]
#
# HISTEQD overrides the binary to install, target/release/histeqd. With DESTDIR, everything goes below that folder and the running
# system is left alone, as packagers want it; but the binary has to run here, to write its manual and its completions: RUNNER is what runs one for
# another processor ("qemu-aarch64 -L /usr/aarch64-linux-gnu"). An existing configuration is never replaced. Uninstalling stops the services, and keeps
# the configuration, the pictures and the user.
set -eu
usage() { echo "usage: systemd/install.sh [--uninstall] [--prefix DIR]" >&2 && exit 2; }
prefix=/usr/local uninstall=
while [ $# -gt 0 ]; do
    case $1 in
    --uninstall) uninstall=yes && shift ;;
    --prefix) [ $# -gt 1 ] || usage && prefix=$2 && shift 2 ;;
    *) usage ;;
    esac
done
cd "$(dirname "$0")/.."
to=${DESTDIR-}
umask 022

histeqd=$to$prefix/bin/histeqd share=$to$prefix/share
manual=$share/man/man1 documents=$share/doc/histeqd
bash=$share/bash-completion/completions/histeqd zsh=$share/zsh/site-functions/_histeqd fish=$share/fish/vendor_completions.d/histeqd.fish
units=$to/etc/systemd/system users=$to/etc/sysusers.d/histeqd.conf settings=$to/etc/histeqd
[ "$prefix" != /usr ] || units=$to/usr/lib/systemd/system users=$to/usr/lib/sysusers.d/histeqd.conf

if [ -n "$uninstall" ]; then
    if [ -z "$to" ]; then
        systemctl disable --now histeqd.service 2>/dev/null || true
        systemctl stop 'histeqd@*.service' 'histeqd-worker@*.service' 2>/dev/null || true
    fi
    rm -f "$histeqd" "$manual"/histeqd.1 "$manual"/histeqd-*.1 "$bash" "$zsh" "$fish"
    rm -f "$units/histeqd.service" "$units/histeqd@.service" "$units/histeqd-worker@.service" "$users"
    rm -f "$units"/multi-user.target.wants/histeqd@*.service "$units"/multi-user.target.wants/histeqd-worker@*.service
    rm -rf "$documents" "$to/var/cache/histeqd"
    [ -n "$to" ] || systemctl daemon-reload
    echo "removed: $histeqd, its manual, completions, documents and units"
    echo "kept: $settings, $to/var/lib/histeqd (pictures and what was done with them) and the user histeqd; to remove them too:"
    echo "  rm -r $settings $to/var/lib/histeqd; userdel histeqd"
    exit
fi

install -Dm755 "${HISTEQD:-target/release/histeqd}" "$histeqd"
# A runner is a command and its arguments.
${RUNNER-} "$histeqd" man "$manual"
completions() {
    script=$(${RUNNER-} "$histeqd" completions "$1")
    printf '%s\n' "$script" | install -Dm644 /dev/stdin "$2"
}
completions bash "$bash"
completions zsh "$zsh"
completions fish "$fish"
# The documents keep their places relative to each other, and come with every file that they link to, so that their links work.
for page in README.md CHANGELOG.md CONTRIBUTING.md SECURITY.md LICENSE-* config.toml docs/*.md docs/*.jpg docs/*.png docs/*.svg docs/internals/* examples/README.md examples/dicom/* examples/slurm/* examples/kubernetes/* \
    examples/nextflow/*.* examples/nextflow/tests/* systemd/install.sh systemd/*.service packaging/monitoring/* packaging/container/* packaging/proxy/* .github/workflows/*; do
    install -Dm644 "$page" "$documents/$page"
done
for unit in histeqd.service histeqd@.service histeqd-worker@.service; do
    install -Dm644 "systemd/$unit" "$units/$unit"
    sed -i "s#/usr/local/#$prefix/#" "$units/$unit"
done
install -Dm644 systemd/histeqd.sysusers.conf "$users"
if [ -e "$settings/config.toml" ]; then kept=" (kept as it was)"; else
    kept=
    install -Dm644 config.toml "$settings/config.toml"
fi

echo "installed:"
echo "  $histeqd"
echo "  $manual/histeqd*.1, completions for bash, zsh and fish, and documents in $documents"
echo "  $units/histeqd.service, histeqd@.service and histeqd-worker@.service, $users"
echo "  $settings/config.toml$kept"
[ -z "$to" ] || exit 0
systemd-sysusers histeqd.conf
systemctl daemon-reload
echo "The service watches /var/lib/histeqd/inbox and writes to /var/lib/histeqd/done. Look at $settings/config.toml, then:"
echo "  systemctl enable --now histeqd"
