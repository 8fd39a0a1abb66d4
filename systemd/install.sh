#!/bin/sh
# Installs histeqd as a service. As root, in a checkout, after `cargo build --release --locked`:
#
#   systemd/install.sh [--prefix DIR]        DIR defaults to /usr/local
#
# HISTEQD overrides the binary to install, target/release/histeqd. With DESTDIR, everything goes below that folder and the running
# system is left alone, as packagers want it; but the binary has to run here, to write its manual and its completions. An existing
# configuration is never replaced. To uninstall, remove the files named below.
set -eu
prefix=/usr/local
case $#:${1-} in
0:) ;;
2:--prefix) prefix=$2 ;;
*) echo "usage: systemd/install.sh [--prefix DIR]" >&2 && exit 2 ;;
esac
cd "$(dirname "$0")/.."
to=${DESTDIR-}
umask 022

histeqd=$to$prefix/bin/histeqd share=$to$prefix/share
install -Dm755 "${HISTEQD:-target/release/histeqd}" "$histeqd"
"$histeqd" man "$share/man/man1"
completions() {
    script=$("$histeqd" completions "$1")
    printf '%s\n' "$script" | install -Dm644 /dev/stdin "$share/$2"
}
completions bash bash-completion/completions/histeqd
completions zsh zsh/site-functions/_histeqd
completions fish fish/vendor_completions.d/histeqd.fish
# The documents keep their places relative to each other, and come with every file that they link to, so that their links work.
for page in README.md CHANGELOG.md CONTRIBUTING.md LICENSE-* config.toml docs/* examples/README.md systemd/install.sh systemd/*.service; do
    install -Dm644 "$page" "$share/doc/histeqd/$page"
done
for unit in histeqd.service histeqd@.service; do
    install -Dm644 "systemd/$unit" "$to/etc/systemd/system/$unit"
    sed -i "s#/usr/local/#$prefix/#" "$to/etc/systemd/system/$unit"
done
install -Dm644 systemd/histeqd.sysusers.conf "$to/etc/sysusers.d/histeqd.conf"
test -e "$to/etc/histeqd/config.toml" || install -Dm644 config.toml "$to/etc/histeqd/config.toml"

if [ -z "$to" ]; then
    systemd-sysusers /etc/sysusers.d/histeqd.conf
    systemctl daemon-reload
    echo "installed; look at /etc/histeqd/config.toml, then: systemctl enable --now histeqd"
fi
