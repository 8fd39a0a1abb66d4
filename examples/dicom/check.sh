#!/usr/bin/env bash
# Runs the recipes of docs/dicom.md on this machine: examples/dicom/check.sh [HISTEQD] [FILES]
#
# Fifty files are sent by storescu, to storescp and to Orthanc, whose hook writes them into the inbox; histeqd enhances them; results go back by
# storescu and by STOW. Nothing may be lost or failed. Needs dcmtk, orthanc, orthanc-dicomweb, curl and python3; says so and does nothing where one
# of them is missing, and fails then if HISTEQD_REQUIRE_SERVERS is set. Everything listens on 127.0.0.1 alone, and stays in a temporary folder.
set -euo pipefail
histeqd=$(realpath "${1:-target/release/histeqd}")
cd "$(dirname "$0")"
picture=../../tests/data/dicom/mr.dcm
count=50
PATH=$PATH:/usr/sbin
skip() {
    echo "examples/dicom/check.sh: skipped, because $1" >&2
    [ -z "${HISTEQD_REQUIRE_SERVERS:-}" ] && exit 0 || exit 1
}
for program in storescu storescp dcmodify dcmdump Orthanc curl python3; do
    command -v "$program" >/dev/null || skip "$program is missing"
done
web=$(find /usr/share/orthanc /usr/lib/orthanc -name 'libOrthancDicomWeb.so*' 2>/dev/null | head -n 1)
[ -n "$web" ] || skip "orthanc-dicomweb is missing"

place=$(mktemp -d)
started=()
finish() {
    local code=$?
    for ((i = ${#started[@]} - 1; i >= 0; i--)); do
        kill "${started[i]}" 2>/dev/null || true
        wait "${started[i]}" 2>/dev/null || true
    done
    [ "$code" = 0 ] || tail -n 20 "$place"/*.log >&2
    rm -rf "$place"
}
trap finish EXIT
begin() { # LOG COMMAND...
    local log=$place/$1.log
    shift
    "$@" >"$log" 2>&1 &
    started+=($!)
}
free_port() { python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'; }
await() { # WHAT COMMAND...
    local what=$1
    shift
    for _ in $(seq 300); do
        if "$@" >/dev/null 2>&1; then return; fi
        sleep 0.2
    done
    echo "waited in vain for $what" >&2
    exit 1
}
files_in() { find "$1" -type f -name '*.dcm' ! -name '.*' | wc -l; }
has() { [ "$(files_in "$1")" -ge "$2" ]; }

mkdir -p "$place"/{sources,archive,inbox.arriving}
for number in $(seq "$count"); do
    cp "$picture" "$place/sources/$number.dcm"
done
dcmodify --no-backup --gen-inst-uid "$place"/sources/*.dcm

# Says how many different values an element has in the files of a folder.
values() { # KEYWORD FOLDER
    dcmdump +P "$1" "$2"/*.dcm | grep '^(' | sort -u | wc -l
}

# Checks that a folder has all files once, each of which can be read and says that histeqd made it.
check_results() { # FOLDER
    local found=0
    while IFS= read -r -d '' file; do
        dcmdump +P DerivationDescription "$file" | grep -q 'enhanced by histeqd' || { echo "$file is not enhanced" >&2 && return 1; }
        found=$((found + 1))
    done < <(find "$1" -type f -name '*.dcm' -print0)
    [ "$found" = "$count" ] || { echo "$found of $count files in $1" >&2 && return 1; }
    # Each has a UID of its own, and all are of one series.
    [ "$(values SOPInstanceUID "$1")" = "$count" ] || { echo "UIDs are shared in $1" >&2 && return 1; }
    [ "$(values SeriesInstanceUID "$1")" = 1 ] || { echo "$1 has several series" >&2 && return 1; }
}

echo 'storescp beside --watch, and storescu back'
mkdir "$place"/{inbox,done,sent,kept}
to_histeqd=$(free_port) to_archive=$(free_port)
begin archive storescp --fork --output-directory "$place/archive" --filename-extension .dcm "$to_archive"
begin receive ./receive.sh "$to_histeqd" "$place/inbox"
begin histeqd "$histeqd" --watch "$place/inbox" --out "$place/done" --after "move:$place/kept"
await storescp echoscu 127.0.0.1 "$to_histeqd"
await 'the archive' echoscu 127.0.0.1 "$to_archive"
storescu --scan-directories 127.0.0.1 "$to_histeqd" "$place/sources"
await 'all outputs' has "$place/done" "$count"
./send.sh "$place/done" "$place/sent" storescu 127.0.0.1 "$to_archive"
[ "$(files_in "$place/done")" = 0 ]
check_results "$place/archive"
await 'the inbox to be empty' [ "$(files_in "$place/inbox")" = 0 ]
kill "${started[-1]}" && wait "${started[-1]}" || true

echo 'Orthanc, its hook, and STOW back'
mkdir "$place"/{orthanc,inbox2,done2,sent2,kept2}
port=$(free_port) http=$(free_port)
cat >"$place/orthanc.json" <<JSON
{
    "Name": "histeqd", "StorageDirectory": "$place/orthanc", "IndexDirectory": "$place/orthanc",
    "DicomPort": $port, "DicomAlwaysAllowEcho": true, "DicomCheckCalledAet": false,
    "HttpPort": $http, "RemoteAccessAllowed": false, "AuthenticationEnabled": false,
    "Plugins": ["$web"], "DicomWeb": { "Enable": true, "Root": "/dicom-web/" },
    "LuaScripts": ["$PWD/inbox.lua"]
}
JSON
HISTEQD_INBOX=$place/inbox2 begin orthanc Orthanc "$place/orthanc.json"
begin histeqd2 "$histeqd" --watch "$place/inbox2" --out "$place/done2" --after "move:$place/kept2"
await Orthanc curl --silent --fail "http://127.0.0.1:$http/system"
storescu --scan-directories 127.0.0.1 "$port" "$place/sources"
await 'all outputs' has "$place/done2" "$count"
mkdir "$place/results"
cp "$place"/done2/*.dcm "$place/results"
check_results "$place/results"
./send.sh "$place/done2" "$place/sent2" stow "http://127.0.0.1:$http/dicom-web/studies"
[ "$(files_in "$place/done2")" = 0 ]
# The results are there beside the originals, and were not taken for new pictures.
instances=$(curl --silent "http://127.0.0.1:$http/instances" | python3 -c 'import json, sys; print(len(json.load(sys.stdin)))')
[ "$instances" = $((2 * count)) ] || { echo "$instances instances in Orthanc" >&2 && exit 1; }
sleep 2
[ "$(files_in "$place/inbox2")" = 0 ] && [ "$(files_in "$place/done2")" = 0 ]
[ "$(curl --silent "http://127.0.0.1:$http/series" | python3 -c 'import json, sys; print(len(json.load(sys.stdin)))')" = 2 ]
if grep -rqs failed "$place/histeqd.log" "$place/histeqd2.log"; then echo 'something failed' >&2 && exit 1; fi
echo "nothing was lost of $count files sent twice"
