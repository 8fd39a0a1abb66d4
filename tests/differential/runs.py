"""Runs of histeqd over many files at once."""

import json
import os
import subprocess
from pathlib import Path

# Ends of the names of inputs and outputs by the input's format, where these are not the format's own.
INPUTS = {'jpeg': '.jpg', 'tiff': '.tif', 'dicom': '.dcm', 'pnm': '.pam'}
OUTPUTS = INPUTS | {'jpeg': '.png', 'jxl': '.tif', 'jp2': '.tif'}
# Ends of the names of sidecars, after a picture's name with its extension and without.
AFTER_WHOLE, AFTER_BARE = ('.msk', '.xmp', '.aux.xml', '_RPC.TXT'), ('.xmp', '.aux.xml', '_RPC.TXT', '.prj', '.wld', '.tfw')


class Runs:
    """Runs over files of one kind. Each is a link with a name of its own: names do not collide, and a file has only its own sidecars beside it."""

    def __init__(self, program, kind, paths, folder):
        self.program, self.folder, self.is_jpeg = program, folder, kind == 'jpeg'
        self.before, self.after = INPUTS.get(kind, f'.{kind}'), OUTPUTS.get(kind, f'.{kind}')
        self.links, self.sidecars = {path: f'{folder}/{number:06}{self.before}' for number, path in enumerate(paths)}, {}
        for path, link in self.links.items():
            starts = [(path, link, AFTER_WHOLE), (os.path.splitext(path)[0], os.path.splitext(link)[0], AFTER_BARE)]
            self.sidecars[path] = [(start + end, name + end) for start, name, ends in starts for end in ends if os.path.exists(start + end)]
            for original, copy in [(path, link), *self.sidecars[path]]:
                os.symlink(os.path.abspath(original), copy)

    def run(self, name, paths, *flags):
        """What becomes of each path with these flags: the place of its output, or a finding in a word and in words."""
        links, made = {self.links[path]: path for path in paths}, {}
        command = [self.program, *links, '--out', f'{self.folder}/{name}/', '--no-config', '--devices', 'cpu', '--durability', 'fast', '--overwrite']
        command += ['--json', *flags] + ['--format', 'png'] * self.is_jpeg
        try:
            ran = subprocess.run(command, capture_output=True, text=True, errors='replace', timeout=300)
            if ran.returncode not in (0, 1) or 'panicked' in ran.stderr:
                raise RuntimeError(f'exit {ran.returncode}: {ran.stderr.strip()[:300]}')
            summary = json.loads(ran.stdout)
            failed = {failure['input']: ('REFUSED', failure['error']) for failure in summary['failed']}
            for link, path in links.items():
                output = Path(self.folder, name, Path(link).stem + self.after)
                made |= {path: failed[link]} if link in failed else {path: output} if output.exists() else {}
            other = 'REFUSED', ', '.join(summary['skipped'])
        except Exception as error:
            other = 'DIFFERS', f'{type(error).__name__}: {error}'
        # Alone, a file shows that it ended the run, or why it was skipped.
        left = [path for path in paths if path not in made]
        return made | {path: other if len(paths) == 1 else self.run(name, [path], *flags)[path] for path in left}

    def copies(self, path, output):
        """The sidecars of a path, each with its copy beside an output."""
        return [(Path(sidecar), output.with_name(Path(link).name.replace(self.before, self.after))) for sidecar, link in self.sidecars[path]]
