#!/bin/sh
# Checks the installation without touching the system: that its steps work, that the units are valid, and that their exposure level
# (systemd-analyze security) is at most 2.0 of 10.
set -eu
cd "$(dirname "$0")"
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
# A stand-in for the binary, which need not be built here.
HISTEQD=/bin/true DESTDIR=$folder ./install.sh --prefix /opt/histeqd
echo 'threads = 3' >"$folder/etc/histeqd/config.toml"
HISTEQD=/bin/true DESTDIR=$folder ./install.sh --prefix /opt/histeqd
grep -q '^threads = 3$' "$folder/etc/histeqd/config.toml"
# Every link in the documents leads to a file that is installed too.
(
    cd "$folder/opt/histeqd/share/doc/histeqd"
    for page in *.md docs/*.md docs/*/*.md examples/*.md examples/*/*.md; do
        grep -oE '\]\([^)#]+' "$page" | sed 's/^](//' | grep -v '^https:' | while read -r link; do
            test -e "$(dirname "$page")/$link" || { echo "$page links to $link, which is not installed" >&2 && exit 1; }
        done
    done
)
units=$folder/etc/systemd/system
sed -i "s#^ExecStart=/opt/histeqd/#ExecStart=$folder/opt/histeqd/#" "$units"/*
cp "$units/histeqd@.service" "$units/histeqd@a.service"
cp "$units/histeqd-worker@.service" "$units/histeqd-worker@a.service"
systemd-analyze verify --man=no "$units/histeqd.service" "$units/histeqd@a.service" "$units/histeqd-worker@a.service"
systemd-sysusers --root="$folder" histeqd.conf
grep -q '^histeqd:' "$folder/etc/passwd"
for unit in histeqd.service histeqd@a.service histeqd-worker@a.service; do
    exposure=$(systemd-analyze security --offline=true --threshold=20 --no-pager "$units/$unit")
    echo "$exposure" | tail -n 1
    # Kernels that the driver compiles are kept in the folder that systemd makes.
    grep -qx "Environment=CUDA_CACHE_PATH=%C/$(sed -n 's/^CacheDirectory=//p' "$units/$unit")" "$units/$unit"
done
# Uninstalling leaves nothing but the configuration, and what was made here.
rm "$units/histeqd@a.service" "$units/histeqd-worker@a.service"
mkdir -p "$folder/var/lib/histeqd/done" "$folder/var/cache/histeqd"
DESTDIR=$folder ./install.sh --uninstall --prefix /opt/histeqd | grep -q '^kept: '
left=$(find "$folder/opt" "$folder/etc" -type f -path '*histeqd*' | sed "s#^$folder##" | sort)
[ "$left" = /etc/histeqd/config.toml ] || { echo "left after uninstalling: $left" >&2 && exit 1; }
test -d "$folder/var/lib/histeqd/done"
! test -e "$folder/var/cache/histeqd" || { echo 'the cache is left after uninstalling' >&2 && exit 1; }
