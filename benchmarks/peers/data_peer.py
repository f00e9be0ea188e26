"""What the Python peers of suite data share: arguments, the data folder, the line protocol (README.md)."""

import os
import time

import numpy

import peer

CASES = ("shuffle-batch", "jpeg", "distorted-jpeg", "tfrecord", "tfrecord-parse")
BATCH = {"shuffle-batch": 128, "jpeg": 32, "distorted-jpeg": 32, "tfrecord": 128, "tfrecord-parse": 128}
SIZE = 224  # of resized images
UNTIMED = 6  # batches before the clock starts: what was made ahead while others were timed is used up


def arguments(*extra):
    return peer.arguments(*extra, cases=CASES)


def read_mnist(folder):
    """Returns x [60000, 28, 28] uint8 and y [60000] int64."""
    x = numpy.fromfile(os.path.join(folder, "images"), numpy.uint8).reshape(-1, 28, 28)
    y = numpy.fromfile(os.path.join(folder, "labels"), numpy.int64)
    return x, y


def jpeg_files(folder):
    folder = os.path.join(folder, "jpeg")
    return [os.path.join(folder, name) for name in sorted(os.listdir(folder))]


def serve_batches(version, batches, size):
    """`batches` is endless; size(batch) counts its rows, so that batches are really made."""

    def steps(count):
        for _ in range(UNTIMED):
            size(next(batches))
        start = time.perf_counter()
        rows = sum(size(next(batches)) for _ in range(count))
        return rows, time.perf_counter() - start

    peer.serve(version, steps)
