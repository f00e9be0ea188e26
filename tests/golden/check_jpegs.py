"""Decodes 1,000 varied JPEGs with strata and with TensorFlow, and prints how far the pixels are apart.

    python check_jpegs.py build/release/strata_files_tool [COUNT]

Sizes 1 to 600, qualities 5 to 100, every chroma subsampling that TensorFlow writes, progressive or not, grey or colour;
contents: noise, gradients, edges, flat colours, and MNIST's digits enlarged. Ends with status 1 above 1 level.
"""

import gzip
import os
import subprocess
import sys
import tempfile

import numpy as np
import tensorflow as tf

HERE = os.path.dirname(os.path.abspath(__file__))
tool, count = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 1000
with gzip.open(os.path.join(HERE, "../../datasets/mnist/t10k-images-idx3-ubyte.gz")) as file:
    digits = np.frombuffer(file.read()[16:], np.uint8).reshape(-1, 28, 28)


def picture(r, height, width, channels):
    kind = r.integers(0, 5)
    y, x = np.mgrid[0:height, 0:width]
    if kind == 0:
        return r.integers(0, 256, (height, width, channels))
    if kind == 1:
        slopes = r.uniform(-3, 3, (2, channels))
        return 128 + x[..., None] * slopes[0] + y[..., None] * slopes[1]
    if kind == 2:
        waves = [127 + 127 * np.sin(x / r.uniform(1, 30) + y / r.uniform(1, 30)) for _ in range(channels)]
        return np.stack(waves, -1)
    if kind == 3:
        cell = int(r.integers(1, 20))
        colours = r.integers(0, 256, (2, channels))
        return colours[((x // cell + y // cell) % 2)]
    digit = digits[r.integers(0, len(digits))]
    rows = (np.arange(height) * 28 // height)[:, None]
    columns = (np.arange(width) * 28 // width)[None]
    return digit[rows, columns][..., None] * r.uniform(0.2, 1, channels)


jpegs, decoded = [], []
with tempfile.TemporaryDirectory() as folder:
    for i in range(count):
        r = np.random.default_rng(i)
        height, width = (int(v) for v in np.exp(r.uniform(0, np.log(600), 2)))
        channels = 1 if r.uniform() < 0.2 else 3
        image = np.clip(picture(r, height, width, channels), 0, 255).astype(np.uint8)
        jpeg = tf.io.encode_jpeg(image, quality=int(r.integers(5, 101)), progressive=bool(r.integers(0, 2)),
                                 chroma_downsampling=bool(r.integers(0, 2)), optimize_size=bool(r.integers(0, 2))).numpy()
        jpegs.append(os.path.join(folder, f"{i}.jpg"))
        with open(jpegs[-1], "wb") as out:
            out.write(jpeg)
        decoded.append(tf.io.decode_image(jpeg).numpy())
    output = subprocess.run([tool, "decode"], input="\n".join(jpegs).encode() + b"\n", capture_output=True, check=True).stdout

at, largest, unequal_images, unequal_values, values = 0, 0, 0, 0, 0
for i, wanted in enumerate(decoded):
    end = output.index(b"\n", at)
    header = output[at:end].decode()
    if header.startswith("error"):
        sys.exit(f"image {i}: {header}")
    shape = tuple(int(v) for v in header.split())
    size = int(np.prod(shape))
    got = np.frombuffer(output, np.uint8, size, end + 1).reshape(shape)
    at = end + 1 + size
    if shape != wanted.shape:
        sys.exit(f"image {i}: shape {shape}, TensorFlow's is {wanted.shape}")
    difference = np.abs(got.astype(int) - wanted)
    largest = max(largest, int(difference.max()))
    unequal_images += bool(difference.any())
    unequal_values += int((difference > 0).sum())
    values += size
print(f"{count} JPEGs, {values / 1e6:.1f} million values: largest difference {largest}; "
      f"{unequal_images} images and {unequal_values} values differ at all")
sys.exit(0 if largest <= 1 else 1)
