#!/usr/bin/env python3
"""Writes the files beside it: pictures whose samples are no levels, by another program. usage: make.py

For each type the same samples several times: plain; in tiles with the predictor for its kind; big-endian with LZW; and in planes with deflate.
Floats have some samples that are no number or infinite. And two PFMs.

needs: pip install numpy tifffile imagecodecs
"""
import os
import numpy as np
import tifffile

os.chdir(os.path.dirname(os.path.abspath(__file__)))
random = np.random.default_rng(38)


def picture(kind):
    samples = random.normal(0, 1000, (19, 23, 3))
    if kind.kind != 'f':
        return np.abs(samples * (1 if kind.itemsize < 4 else 99)).astype(kind) if kind.kind == 'u' else samples.astype(kind)
    samples = samples.astype(kind)
    samples[:4] = np.nan
    samples[9, 9, 1], samples[12, :3] = np.inf, -np.inf
    return samples


for name in ['f2', 'f4', 'f8', 'i2', 'i4', 'u4']:
    samples = picture(np.dtype(name))
    write = lambda way, data=samples, **how: tifffile.imwrite(
        f'{name}-{way}.tif', data, photometric='rgb', metadata=None, software=None, **how)
    write('plain')
    write('tiles-predicted', tile=(16, 16), compression='zlib', predictor=3 if name[0] == 'f' else 2)
    write('big-endian-lzw', byteorder='>', compression='lzw', rowsperstrip=10)
    write('planes-deflate', np.moveaxis(samples, -1, 0), planarconfig='separate', compression='zlib')

colours = picture(np.dtype('<f4'))
for name, magic, scale, samples in [('colour', 'PF', '-1.0', colours), ('gray', 'Pf', '1.0', colours[..., 0].astype('>f4'))]:
    with open(f'{name}.pfm', 'wb') as file:
        file.write(f'{magic}\n23 19\n{scale}\n'.encode() + samples[::-1].tobytes())
