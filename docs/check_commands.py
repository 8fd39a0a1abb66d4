#!/usr/bin/env python3
"""Runs the commands of README and docs over small pictures: docs/check_commands.py [HISTEQD]

Those are the blocks of code that begin with ```sh run; further words name tools that a block needs (```sh run jq),
without which it is skipped. The blocks of a page run in order, in one folder with the inputs of `prepare`. HISTEQD is
target/release/histeqd by default. Prose of more than 100 columns is reported too. Needs Python 3.9."""
import os, re, shutil, subprocess, sys, tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
DATA, INBOX = ROOT / 'tests/data', ROOT / 'examples/inbox'
INPUTS = {
    'inbox': [INBOX / 'cat.png', INBOX / 'microscope/nuclei.tif'],
    'photos': [INBOX / 'cat.png', INBOX / 'yeast-colonies.jpg', DATA / 'jpeg/metadata.jpg'],
    'scans': [INBOX / 'yeast-colonies.jpg', DATA / 'codec/g4_orientation_7.tif'],
    'study': [DATA / f'dicom/{name}.dcm' for name in ('mr', 'mr-lossless', 'frames', 'mono1-10', 'ybr')],
    'scenes': [DATA / 'codec/byte.tif'],
}


def prepare(folder, histeqd):
    """Puts the inputs that the pages name into the folder."""
    made = lambda source, name: subprocess.run(
        [histeqd, source, '--out', folder / name, '--strength', '0', '--no-config', '--quiet'], check=True)
    for name, pictures in INPUTS.items():
        (folder / name).mkdir()
        for picture in pictures:
            shutil.copy(picture, folder / name)
    for name in ('plate', 'scenes/tiles'):
        (folder / name).mkdir()
    shutil.copy(INBOX / 'cat.png', folder / 'photo.jpg')  # formats are known by content
    for name in ('A01_s1_w1.tif', 'A01_s1_w2.tif'):
        shutil.copy(INBOX / 'microscope/nuclei.tif', folder / 'plate' / name)
    made(DATA / 'dicom/frames.dcm', 'plate/zstack_w3.tif')
    made(DATA / 'dicom/frames.dcm', 'scans/letter.tif')
    made(ROOT / 'docs/landsat.png', 'scenes/landsat.tif')
    shutil.copy(DATA / 'codec/byte.tif', folder / 'scenes/tiles/a.tif')
    shutil.copy(INBOX / 'cat.png', folder / 'best.png')
    if shutil.which('img2pdf'):
        subprocess.run(['img2pdf', INBOX / 'yeast-colonies.jpg', '-o', folder / 'book.pdf'], check=True)
        (folder / 'book-pages').mkdir()
    if shutil.which('ffmpeg'):
        source = ['-f', 'lavfi', '-i', 'testsrc=size=160x120:rate=25:duration=2']
        subprocess.run(['ffmpeg', '-v', 'error', *source, '-pix_fmt', 'yuv420p', folder / 'clip.mp4'], check=True)


def main():
    histeqd = Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / 'target/release/histeqd').resolve()
    passed = failed = skipped = 0
    for page in [ROOT / 'README.md', *sorted(ROOT.glob('docs/**/*.md'))]:
        text = page.read_text(encoding='utf-8')
        prose = re.sub(r'^ *```.*?^ *```$', lambda block: re.sub('.', '', block[0]), text, flags=re.MULTILINE | re.DOTALL)
        for number, line in enumerate(prose.splitlines(), 1):
            # Tables, headings, formulas and pictures are not wrapped, nor is ladder.md, whose sentences a test compares.
            if len(line) > 100 and not re.match(r' *\||#|    |!\[', line) and page.name != 'ladder.md':
                print(f'{page.relative_to(ROOT)}:{number}: prose of {len(line)} columns')
                failed += 1
        blocks = re.findall(r'^```sh run([^\n]*)\n(.*?)^```$', text, re.MULTILINE | re.DOTALL)
        with tempfile.TemporaryDirectory() as scratch:
            folder = Path(scratch)
            (folder / 'bin').mkdir()
            (folder / 'bin/histeqd').symlink_to(histeqd)
            if blocks:
                prepare(folder, histeqd)
            environment = {**os.environ, 'PATH': f'{folder}/bin:{os.environ["PATH"]}', 'XDG_CONFIG_HOME': scratch}
            for tools, commands in blocks:
                if not all(map(shutil.which, tools.split())):
                    skipped += 1
                    continue
                ran = subprocess.run(['sh', '-eu'], input=commands, text=True, cwd=folder, env=environment, capture_output=True)
                passed, failed = (passed + 1, failed) if ran.returncode == 0 else (passed, failed + 1)
                if ran.returncode:
                    print(f'{page.relative_to(ROOT)}: exit code {ran.returncode}\n{commands}{ran.stdout[-2000:]}{ran.stderr[-2000:]}')
    print(f'{passed} passed, {failed} failed, {skipped} skipped')
    sys.exit(failed > 0 or passed == 0)


if __name__ == '__main__':
    main()
