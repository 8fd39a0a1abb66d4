#!/usr/bin/env bash
# Receives DICOM into an inbox that histeqd watches: receive.sh PORT INBOX [AETITLE]
#
# storescp writes a file as it arrives. It does so in a folder beside the inbox, and the file moves in once it is whole, by a rename.
set -euo pipefail
port=$1 inbox=$(realpath "$2") title=${3:-HISTEQD}
arriving=$inbox.arriving
mkdir -p "$arriving"
exec storescp --fork --aetitle "$title" --output-directory "$arriving" --filename-extension .dcm \
    --exec-sync --exec-on-reception "mv -- '#p/#f' '$inbox/#f'" "$port"
