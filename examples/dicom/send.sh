#!/usr/bin/env bash
# Sends outputs on, and moves those that were taken into a folder for it: send.sh OUT SENT storescu HOST PORT [AETITLE]
#                                                                        send.sh OUT SENT stow URL
#
# Outputs appear in OUT whole, by a rename, so that what is there can be sent. What is not taken stays, for the next time.
set -euo pipefail
out=$1 sent=$2 how=$3
shift 3

by_storescu() { # FILE HOST PORT [AETITLE]
    storescu --required --aetitle HISTEQD --call "${4:-ANY-SCP}" "$2" "$3" "$1"
}

by_stow() { # FILE URL
    local boundary=histeqd-$$-$RANDOM
    {
        printf -- '--%s\r\nContent-Type: application/dicom\r\n\r\n' "$boundary"
        cat "$1"
        printf '\r\n--%s--\r\n' "$boundary"
    } | curl --silent --show-error --fail --output /dev/null --data-binary @- \
        --header 'Accept: application/dicom+json' \
        --header "Content-Type: multipart/related; type=\"application/dicom\"; boundary=$boundary" "$2"
}

find "$out" -type f -name '*.dcm' ! -name '.*' -print0 | while IFS= read -r -d '' file; do
    place=$sent/$(realpath --relative-to="$out" "$(dirname "$file")")
    if "by_$how" "$file" "$@"; then
        mkdir -p "$place"
        mv -- "$file" "$place/"
    fi
done
