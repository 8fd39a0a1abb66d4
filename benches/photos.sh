#!/usr/bin/env bash
# Gets photographs to measure on: the JPEGs of two Debian wallpaper packages (37 pictures, 2 to 18 MP, about 60 MB), and makes gray
# PGMs, RGB PNGs, and RGB TIFFs compressed with LZW and with deflate from them. Their licences keep them out of this project's tree.
# Downloads and unpacks the packages, but installs nothing.
# usage: benches/photos.sh DIR        needs: apt-get, dpkg, python3 with Pillow
set -euo pipefail
mkdir -p "$1"/{jpg,pgm,png,lzw,deflate}
dir=$(cd "$1" && pwd)
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
cd "$scratch"
apt-get download -qq plasma-workspace-wallpapers mate-backgrounds
for package in *.deb; do dpkg -x "$package" unpacked; done
find unpacked -type f \( -name '*.jpg' -o -name '*.jpeg' \) -size +150k -print0 | sort -z | xargs -0 md5sum |
    awk '!seen[$1]++ { print $2 }' | cat -n | while read -r number file; do
    cp "$file" "$dir/jpg/$(printf %02d "$number")_$(basename "$file")"
done
python3 - "$dir" <<'PY'
import sys
from pathlib import Path
from PIL import Image

folder = Path(sys.argv[1])
for path in sorted((folder / 'jpg').iterdir()):
    picture = Image.open(path)
    picture.convert('L').save(folder / 'pgm' / f'{path.stem}.pgm')
    if picture.mode == 'RGB' and picture.width * picture.height < 9_000_000:
        picture.save(folder / 'png' / f'{path.stem}.png')
        for name, method in ('lzw', 'tiff_lzw'), ('deflate', 'tiff_adobe_deflate'):
            predictor, rows = {317: 2}, {278: 64}
            picture.save(folder / name / f'{path.stem}.tif', compression=method, tiffinfo=predictor | rows)
PY
du -sh "$dir"/*
