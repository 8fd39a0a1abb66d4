#!/bin/sh
# Installs, upgrades, removes and purges a Debian package in a root of its own: packaging/check-deb.sh FILE.deb
#
# As root; needs debootstrap. The root is left in target/debian-root, to look at.
set -eu
package=$(realpath "$1")
cd "$(dirname "$0")/.."
root=$PWD/target/debian-root
rm -rf "$root"
cp -a "$(packaging/debian-base.sh bookworm)" "$root"
within() { DEBIAN_FRONTEND=noninteractive chroot "$root" "$@"; }
fail() { echo "$package: $1" >&2 && exit 1; }

cp "$package" "$root/tmp/histeqd.deb"
cp -r examples/inbox "$root/tmp/in"

within apt-get install -qq -y --no-install-recommends /tmp/histeqd.deb >/dev/null 2>&1 || fail 'it does not install'
within getent passwd histeqd >/dev/null || fail 'there is no user histeqd'
within test -e /usr/lib/systemd/system/histeqd.service -a -e /usr/lib/systemd/system/histeqd@.service || fail 'the units are missing'
if within test -e /etc/systemd/system/multi-user.target.wants/histeqd.service; then fail 'the service starts without being asked to'; fi
within histeqd /tmp/in --out /tmp/out --quiet || fail 'the program does not work'
(cd examples/inbox && find . -type f) | while read -r picture; do test -s "$root/tmp/out/$picture" || fail "no output of $picture"; done
within systemd-analyze verify --man=no histeqd.service || fail 'the unit is not valid'

# What the operator did stays through an upgrade: the configuration, and that the service is enabled.
echo 'threads = 3' >"$root/etc/histeqd/config.toml"
within systemctl enable histeqd 2>/dev/null
mkdir -p "$root/var/lib/histeqd/done" && touch "$root/var/lib/histeqd/done/a.png"
newer=$(mktemp -d)
trap 'rm -rf "$newer"' EXIT
dpkg-deb -R "$package" "$newer/tree"
sed -i 's/^Version: .*/Version: 99.0-1/' "$newer/tree/DEBIAN/control"
echo '# another default' >>"$newer/tree/etc/histeqd/config.toml"
dpkg-deb --root-owner-group -b "$newer/tree" "$root/tmp/newer.deb" >/dev/null
within apt-get install -qq -y -o Dpkg::Options::=--force-confdef -o Dpkg::Options::=--force-confold /tmp/newer.deb >/dev/null 2>&1 || fail 'it does not upgrade'
grep -qx 'threads = 3' "$root/etc/histeqd/config.toml" || fail 'an upgrade replaced the configuration'
within systemctl is-enabled -q histeqd || fail 'an upgrade disabled the service'

within apt-get remove -qq -y histeqd >/dev/null 2>&1 || fail 'it cannot be removed'
if within test -e /usr/bin/histeqd; then fail 'the program is left after it was removed'; fi
grep -qx 'threads = 3' "$root/etc/histeqd/config.toml" || fail 'removing it removed the configuration'
within apt-get purge -qq -y histeqd >/dev/null 2>&1 || fail 'it cannot be purged'
if within test -e /etc/histeqd; then fail 'the configuration is left after purging'; fi
within test -e /var/lib/histeqd/done/a.png || fail 'purging removed pictures'
within getent passwd histeqd >/dev/null || fail 'purging removed the user, who owns pictures'
echo "$package installs, upgrades, is removed and purged as it should"
