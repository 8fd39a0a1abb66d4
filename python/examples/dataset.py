#!/usr/bin/env python3
"""A folder of pictures as a dataset of PyTorch, equalized by the workers of a DataLoader: python/examples/dataset.py FOLDER

Needs Pillow and PyTorch. With a GPU, `histeqd.clahe(batch)` of a batch that is there already is the same in one call.
"""

import pathlib
import sys

import numpy as np
import torch
from PIL import Image

import histeqd


class Equalized(torch.utils.data.Dataset):
    """The pictures of a folder, scaled to one size, as tensors of uint8: height, width, channels."""

    def __init__(self, folder, size=(256, 256)):
        self.files = sorted(file for file in pathlib.Path(folder).iterdir() if file.is_file())
        self.size = size

    def __len__(self):
        return len(self.files)

    def __getitem__(self, index):
        with Image.open(self.files[index]) as picture:
            picture = picture.convert("RGB").resize(self.size)
        # Each worker is a process of its own, so one thread each. The tensor shares the memory of the result.
        return torch.from_numpy(histeqd.clahe(np.asarray(picture), threads=1))


def main(folder):
    for batch in torch.utils.data.DataLoader(Equalized(folder), batch_size=8, num_workers=2):
        print(tuple(batch.shape), batch.dtype)


if __name__ == "__main__":
    main(sys.argv[1])
