"""What the Python peers share: arguments, the data file, and the line protocol (README.md)."""

import argparse
import os
import struct
import sys
import time

BATCH = {"tiny-loop": 8, "small-loop": 8, "mlp-loop": 64, "cnn-loop": 64, "wide-loop": 64}
CASES = tuple(BATCH)
# The models of suite step (benchmarks/README.md), in torch_models.py, keras_models.py and jax_models.py.
MODELS = ("dense", "transformer", "lstm", "resnet20")
# Layer widths of the dense cases; the convolutional ones are spelled out by each peer.
MLP_SIZES = {
    "tiny-loop": (128, 128, 128, 10),
    "small-loop": (784, 128, 128, 10),
    "mlp-loop": (784, 256, 256, 10),
    "wide-loop": (1024, 4096, 4096, 1000),
    "dense": (784, 1024, 1024, 10),
}
WORDS = 1000
TRANSFORMER = dict(width=256, heads=4, depth=4)
LSTM = dict(embedding=64, units=128, classes=2)
EPSILON = 1e-5  # of normalizations
ADAM = dict(learning_rate=1e-3, beta_1=0.9, beta_2=0.999, epsilon=1e-7)
SGD = dict(learning_rate=0.01, momentum=0.9)


def arguments(*extra, cases=CASES):
    """Parses --case (one of `cases`), --data, --cpus and the given (name, default) pairs; pins the process."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--case", required=True, choices=cases)
    parser.add_argument("--data", required=True)
    parser.add_argument("--cpus", default="")
    for name, default in extra:
        parser.add_argument(name, default=default, type=type(default))
    args = parser.parse_args()
    if args.cpus:
        os.sched_setaffinity(0, {int(cpu) for cpu in args.cpus.split(",")})
    return args


def read_pool(path, expected=None):
    """Returns x [batches, batch, features] float32 and y [batches, batch] int64."""
    import numpy

    with open(path, "rb") as file:
        batches, batch, features, _ = struct.unpack("<4q", file.read(32))
        assert expected in (batch, None)
        x = numpy.fromfile(file, numpy.float32, batches * batch * features)
        y = numpy.fromfile(file, numpy.int64, batches * batch)
    return x.reshape(batches, batch, features), y.reshape(batches, batch)


def read_rows(case, path):
    """The batches of one of MODELS: x and y, [batches, batch, ...]; words are int64, images channels last."""
    x, y = read_pool(path)
    if case == "resnet20":
        return x.reshape(*x.shape[:2], 32, 32, 3), y
    if case == "dense":
        return x, y
    words = x.astype("int64")
    if case == "lstm":
        return words, y
    return words[:, :, :-1].copy(), words[:, :, 1:].copy()  # the next word of each


def say_size(count):
    """What the models of all systems have in common (benchmarks/README.md), in the log."""
    print(f"parameters {int(count)}", file=sys.stderr, flush=True)


def serve(version, steps):
    """Answers `run K` with `ok SECONDS LOSS` until the input ends. `steps(k)` returns the last loss, or
    (loss, seconds) where it has to leave out what is not part of a step."""
    out = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # what a framework prints must not mix with the protocol
    steps(3)
    print(f"ready {version}", file=out)
    for line in sys.stdin:
        words = line.split()
        if len(words) != 2 or words[0] != "run":
            break
        start = time.perf_counter()
        result = steps(int(words[1]))
        elapsed = time.perf_counter() - start
        loss, elapsed = result if isinstance(result, tuple) else (result, elapsed)
        print(f"ok {elapsed:.9f} {float(loss):.6f}", file=out)
    out.flush()
    os._exit(0)  # frameworks' own shutdown can hang; there is nothing to save
