#!/usr/bin/env python3
"""How many pictures of a folder are done whole by histeqd, ImageMagick, libvips and OpenCV.
usage: kinds.py FOLDER HISTEQD [--tell]

Each program equalizes each picture into a file of the same kind or, if it does not write that kind, into a TIFF. A picture is done whole if the
program succeeds and what it wrote has as many pages as the input, the same size, and more than 8 bits a sample where the input has more,
as pydicom, tifffile, ImageMagick's identify or Pillow tells. --tell lists what each program did not do.

OpenCV has no equalization of 16 bits; its CLAHE stands in for it.

needs: ImageMagick, libvips' vips; pip install opencv-python-headless numpy tifffile pillow pydicom
"""
import argparse, concurrent.futures, json, os, subprocess, sys, tempfile

OPENCV = '''
import sys, cv2, numpy as np
source, target = sys.argv[1:]
def enhanced(plane):
    return cv2.equalizeHist(plane) if plane.dtype == np.uint8 else cv2.createCLAHE(2.0, (8, 8)).apply(plane)
def page(image):
    if image.ndim == 2: return enhanced(image)
    return cv2.merge([enhanced(plane) if place < 3 else plane for place, plane in enumerate(cv2.split(image))])
read, pages = cv2.imreadmulti(source, flags=cv2.IMREAD_UNCHANGED)
if not read: sys.exit(1)
pages = [page(image) for image in pages]
done = cv2.imwritemulti(target, pages) if len(pages) > 1 else cv2.imwrite(target, pages[0])
sys.exit(0 if done else 1)
'''


def succeeded(command):
    try:
        return subprocess.run(command, capture_output=True, timeout=60).returncode == 0
    except subprocess.TimeoutExpired:
        return False


def facts(path):
    """Pages, width and height of the first, and whether samples have more than 8 bits; None if nobody can tell."""
    for tell in (facts_of_dicom, facts_of_tiff, facts_by_imagemagick, facts_by_pillow):
        try:
            return tell(path)
        except Exception:
            continue
    return None


def facts_by_imagemagick(path):
    told = subprocess.run(['identify', '-quiet', '-format', '%W %H %z\n', path], capture_output=True, text=True)
    pages = [line.split() for line in told.stdout.splitlines() if line]
    width, height, bits = map(int, pages[0])
    return len(pages), width, height, bits > 8


def facts_of_tiff(path):
    import numpy as np
    import tifffile
    with tifffile.TiffFile(path) as file:
        # Overviews and masks are no pages.
        pages = [page for page in file.pages if not page.subfiletype & 5]
        bits = max(np.atleast_1d(pages[0].bitspersample))
        return len(pages), pages[0].imagewidth, pages[0].imagelength, bits > 8


def facts_of_dicom(path):
    import pydicom
    data = pydicom.dcmread(path, stop_before_pixels=True, force=path.endswith('.dcm'))
    return int(data.get('NumberOfFrames', 1)), data.Columns, data.Rows, data.BitsStored > 8 or data.PhotometricInterpretation == 'PALETTE COLOR'


def facts_by_pillow(path):
    from PIL import Image
    with Image.open(path) as image:
        return getattr(image, 'n_frames', 1), *image.size, image.mode[:1] in 'IF'


def is_whole(source, target):
    if not os.path.isfile(target) or os.path.getsize(target) == 0:
        return False
    expected, found = facts(source), facts(target)
    return found is not None and (expected is None or expected == found)


def by_commands(source, folder, command):
    """Whether one of the targets, of the same kind or a TIFF, comes out whole."""
    name = os.path.basename(source)
    for target in (os.path.join(folder, name), os.path.join(folder, name + '.tif')):
        if any(succeeded(each) and is_whole(source, target) for each in command(source, target)):
            return True
    return False


def imagemagick(source, target):
    return [['convert', '-quiet', source, '-equalize', target]]


def vips(source, target):
    return [['vips', 'hist_equal', source + pages, target] for pages in ('[n=-1]', '')]


def opencv(source, target):
    return [[sys.executable, '-c', OPENCV, source, target]]


def histeqd(folder, program, out):
    """The inputs that histeqd did whole."""
    command = [program, folder, '--out', out, '--devices', 'cpu', '--quiet']
    planned = json.loads(subprocess.run(command + ['--dry-run', '--json'], capture_output=True, text=True).stdout)
    subprocess.run(command, capture_output=True)
    outputs = {each['input']: each['output'] for each in planned['would']}
    return {source for source, target in outputs.items() if is_whole(source, target)}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('folder')
    parser.add_argument('histeqd')
    parser.add_argument('--tell', action='store_true')
    args = parser.parse_args()
    sources = sorted(os.path.join(at, name) for at, _, names in os.walk(args.folder) for name in names)
    with tempfile.TemporaryDirectory() as out:
        done = {'histeqd': histeqd(args.folder, args.histeqd, os.path.join(out, 'histeqd'))}
        for name, command in (('ImageMagick', imagemagick), ('libvips', vips), ('OpenCV', opencv)):
            folder = os.path.join(out, name)
            os.mkdir(folder)
            with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as threads:
                whole = threads.map(lambda source: by_commands(source, folder, command), sources)
                done[name] = {source for source, is_done in zip(sources, whole) if is_done}
    print(f'| of {len(sources)} | done whole |\n| --- | ---: |')
    for name, whole in done.items():
        print(f'| {name} | {len(whole)} |')
    if args.tell:
        for name, whole in done.items():
            print(f'\n{name} did not do:', *sorted(set(sources) - whole), sep='\n  ')


if __name__ == '__main__':
    main()
