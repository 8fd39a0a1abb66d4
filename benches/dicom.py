#!/usr/bin/env python3
"""A folder of DICOM radiographs to 8-bit PNGs for training, with histeqd and as it is usually done with pydicom and OpenCV; says how the times
compare. usage: dicom.py HISTEQD [--pictures N] [--folder DIR] [--runs N]

Made in DIR (default /dev/shm) and removed again: MONOCHROME1 radiographs of 2500 x 2048 pixels, 12 bits stored in 16, not compressed. The
pydicom way reads, inverts, spreads to 8 bits, equalizes and writes, in one process for each core, started beforehand.

needs: pip install pydicom numpy opencv-python-headless
"""
import argparse, collections, multiprocessing, os, shutil, subprocess, tempfile, time
import cv2
import numpy as np
import pydicom
from pydicom.dataset import FileDataset, FileMetaDataset
from pydicom.uid import ExplicitVRLittleEndian, generate_uid

WIDTH, HEIGHT = 2048, 2500


def radiograph(number):
    y, x = np.mgrid[0:HEIGHT, 0:WIDTH].astype(np.float32)
    body = np.exp(-((x - WIDTH / 2) ** 2 / 4e5 + (y - HEIGHT / 2 + 20 * number) ** 2 / 9e5))
    ribs = 0.15 * np.sin(y / 40 + number) * body
    noise = np.random.default_rng(number).normal(0, 12, (HEIGHT, WIDTH))
    return np.clip(3600 - 2800 * (body + ribs) + noise, 0, 4095).astype(np.uint16)


def write(path, pixels):
    meta = FileMetaDataset()
    meta.MediaStorageSOPClassUID = '1.2.840.10008.5.1.4.1.1.1'
    meta.MediaStorageSOPInstanceUID = generate_uid()
    meta.TransferSyntaxUID = ExplicitVRLittleEndian
    data = FileDataset(path, {}, file_meta=meta, preamble=b'\0' * 128)
    data.SOPClassUID, data.SOPInstanceUID = meta.MediaStorageSOPClassUID, meta.MediaStorageSOPInstanceUID
    data.PatientID, data.Modality = 'made for a benchmark', 'CR'
    data.Rows, data.Columns = pixels.shape
    data.SamplesPerPixel, data.PhotometricInterpretation, data.PixelRepresentation = 1, 'MONOCHROME1', 0
    data.BitsAllocated, data.BitsStored, data.HighBit = 16, 12, 11
    data.PixelData = pixels.tobytes()
    data.save_as(path, enforce_file_format=True)


def with_pydicom(task):
    source, target = task
    data = pydicom.dcmread(source)
    pixels = data.pixel_array.astype(np.float32)
    if data.PhotometricInterpretation == 'MONOCHROME1':
        pixels = pixels.max() - pixels
    pixels = (pixels - pixels.min()) / (pixels.max() - pixels.min()) * 255
    cv2.imwrite(target, cv2.equalizeHist(pixels.round().astype(np.uint8)), [cv2.IMWRITE_PNG_COMPRESSION, 1])


def one_thread():
    cv2.setNumThreads(1)


def timed(action):
    start = time.monotonic()
    action()
    return time.monotonic() - start


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument('histeqd')
    arguments.add_argument('--pictures', type=int, default=60)
    arguments.add_argument('--folder', default='/dev/shm')
    arguments.add_argument('--runs', type=int, default=3)
    given = arguments.parse_args()
    folder = tempfile.mkdtemp(dir=given.folder)
    inbox, out = os.path.join(folder, 'in'), os.path.join(folder, 'out')
    os.mkdir(inbox)
    try:
        for number in range(given.pictures):
            write(os.path.join(inbox, f'{number}.dcm'), radiograph(number % 7))
        ours = [given.histeqd, inbox, '--out', out, '--format', 'png', '--depth', '8', '--durability', 'fast', '--quiet']
        tasks = [(os.path.join(inbox, name), os.path.join(out, name[:-4] + '.png')) for name in sorted(os.listdir(inbox))]
        times = collections.defaultdict(list)
        with multiprocessing.Pool(os.cpu_count(), one_thread) as pool:
            ways = {'histeqd': lambda: subprocess.run(ours, check=True), 'pydicom + OpenCV': lambda: pool.map(with_pydicom, tasks, 1)}
            for _ in range(given.runs):
                kept = {}
                for name, way in ways.items():
                    os.makedirs(out, exist_ok=True)
                    times[name].append(timed(way))
                    kept[name] = cv2.imread(tasks[0][1], cv2.IMREAD_UNCHANGED), sum(os.path.getsize(png) for _, png in tasks)
                    shutil.rmtree(out)
        pictures = [picture.astype(int) for picture, _ in kept.values()]
        print('levels differ by at most', np.abs(pictures[0] - pictures[1]).max(), '; bytes:', {name: size for name, (_, size) in kept.items()})
        median = {name: sorted(all)[len(all) // 2] for name, all in times.items()}
        for name, seconds in median.items():
            print(f'{name}: {seconds:.2f} s, {seconds / median["histeqd"]:.1f} times histeqd')
    finally:
        shutil.rmtree(folder)


main()
