"""Writes files/ with TensorFlow: TFRecords, Examples, CSV, text, JPEGs and PNGs, and what TensorFlow reads out of them.

files/expected.json has the values; pixels lie in files/pixels.bin, where "at" says, uint8 or float32 in C order.
"""

import gzip
import io
import json
import os
import zlib

import numpy as np
import tensorflow as tf

HERE = os.path.dirname(os.path.abspath(__file__))
FILES = os.path.join(HERE, "files")
expected = {"tensorflow": tf.__version__}
pixels = bytearray()


def path(name):
    return os.path.join(FILES, name)


def write(name, data):
    with open(path(name), "wb") as out:
        out.write(data)


def keep(array):
    """Puts an array into pixels.bin."""
    array = np.ascontiguousarray(array)
    at = len(pixels)
    pixels.extend(array.tobytes())
    return {"at": at, "shape": list(array.shape), "dtype": array.dtype.name}


def text(data):
    return data.decode("latin-1")  # bytes as the characters U+0000 to U+00FF


# ---- TFRecord ----
rng = np.random.default_rng(1)
records = [b"", b"a", bytes(range(256)), rng.bytes(1000), b"\0" * 777, b"last"]
for name, kind in (("plain.tfrecord", ""), ("records.tfrecord.gz", "GZIP"), ("records.tfrecord.zlib", "ZLIB")):
    with tf.io.TFRecordWriter(path(name), tf.io.TFRecordOptions(compression_type=kind)) as writer:
        for record in records:
            writer.write(record)
expected["records"] = [text(r) for r in records]

# ---- tf.train.Example ----
F, I, B = tf.train.FloatList, tf.train.Int64List, tf.train.BytesList


def example(**features):
    made = {}
    for key, value in features.items():
        kind = {F: "float_list", I: "int64_list", B: "bytes_list"}.get(type(value))
        made[key] = tf.train.Feature(**{kind: value}) if kind else tf.train.Feature()
    return tf.train.Example(features=tf.train.Features(feature=made)).SerializeToString(deterministic=True)


def varint(n):
    out = b""
    while n > 127:
        out += bytes([n & 127 | 128])
        n >>= 7
    return out + bytes([n])


def field(number, data):
    return bytes([number << 3 | 2]) + varint(len(data)) + data


# As older writers did: one key a value; a name twice; fields that nobody knows.
unpacked_ints = field(3, b"".join(b"\x08" + varint(n) for n in (5, 300, 2**63)))
unpacked_floats = field(2, b"".join(b"\x0d" + np.float32(x).tobytes() for x in (1.5, -2)))
entry = lambda name, feature: field(1, field(1, name) + field(2, feature))
by_hand = field(1, entry(b"ints", field(3, b"\x08\x63")) + entry(b"ints", unpacked_ints)
                + entry(b"floats", unpacked_floats) + entry(b"unknown", field(1, field(1, b"x")))
                + entry(b"varfloats", field(2, field(1, np.float32([1]).tobytes())))
                + entry(b"name", field(1, field(1, b"by hand")))) + b"\x10\x07" + field(9, b"later versions")
examples = [
    example(ints=I(value=[1, -2, 2**62]), floats=F(value=[0.5, -1e30]), name=B(value=[b"first"]), varints=I(value=[7, 8]),
            varfloats=F(value=[]), tags=B(value=[b"x", b"", b"\0\xff"]), pairs=I(value=[1, 2, 3, 4]), words=B(value=[b"one"]),
            optional=I(value=[9])),
    example(ints=I(value=[0, 0, 0]), floats=F(value=[float("inf"), -0.0]), name=B(value=[b""]), nothing=None, pairs=I(value=[]),
            optional=None),
    by_hand,
]
with tf.io.TFRecordWriter(path("examples.tfrecord")) as writer:
    for e in examples:
        writer.write(e)
specs = {
    "ints": tf.io.FixedLenFeature([3], tf.int64),
    "floats": tf.io.FixedLenFeature([2, 1], tf.float32),
    "name": tf.io.FixedLenFeature([], tf.string),
    "optional": tf.io.FixedLenFeature([], tf.int64, default_value=-1),
    "colour": tf.io.FixedLenFeature([2], tf.string, default_value=[b"red", b"blue"]),
    "varints": tf.io.VarLenFeature(tf.int64),
    "varfloats": tf.io.VarLenFeature(tf.float32),
    "tags": tf.io.VarLenFeature(tf.string),
    "pairs": tf.io.FixedLenSequenceFeature([2], tf.int64, allow_missing=True, default_value=-5),
    "words": tf.io.FixedLenSequenceFeature([], tf.string, allow_missing=True, default_value=b"pad"),
}


def plain(value):
    if isinstance(value, tf.sparse.SparseTensor):
        rows = [len([i for i in value.indices.numpy() if i[0] == r]) for r in range(value.dense_shape[0])] \
            if value.dense_shape.shape[0] == 2 else None
        return {"values": plain(value.values), "rows": rows}
    value = value.numpy()
    flat = np.asarray(value).reshape(-1).tolist()
    shape = list(np.shape(value))
    if flat and isinstance(flat[0], bytes) or getattr(value, "dtype", None) == object:
        return {"shape": shape, "strings": [text(v) for v in flat]}
    return {"shape": shape, "numbers": [repr(v) if isinstance(v, float) else v for v in flat]}


expected["examples"] = {
    "single": [{k: plain(v) for k, v in tf.io.parse_single_example(e, specs).items()} for e in examples],
    "batch": {k: plain(v) for k, v in tf.io.parse_example(examples, specs).items()},
    # Our bytes of the first two must be these.
    "bytes": [text(e) for e in examples[:2]],
}

# ---- text and CSV ----
write("lines.txt", b"first\r\n\nthird \xc3\xa9\n" + b"x" * 300 + b"\nlast, without an end")
write("lines.txt.gz", gzip.compress(open(path("lines.txt"), "rb").read(), mtime=0))
write("lines.txt.zlib", zlib.compress(open(path("lines.txt"), "rb").read()))
expected["lines"] = [text(v.numpy()) for v in tf.data.TextLineDataset(path("lines.txt"))]

write("table.csv", b'''id,score,"name, quoted",flag,ratio\r
1,0.5,plain,7,1e-3
-2,,"a ""quoted"" word",8,2\r
3,NA,"two
lines, one field",9,-0.25
 4 ,+1.5,,10, inf 
5,1e400,"",11,1e-400
6,3.25,last,12,0.1''')
columns = [tf.int64, tf.constant([-1.0], tf.float32), tf.constant(["none"], tf.string), tf.int32, tf.float64]


def csv(name, types, **options):
    rows = []
    iterator = iter(tf.data.experimental.CsvDataset(path(name), types, **options))
    while True:
        try:
            row = next(iterator)
        except StopIteration:
            return rows
        except tf.errors.InvalidArgumentError:
            rows.append(None)
            continue
        rows.append([text(v.numpy()) if v.dtype == tf.string else repr(v.numpy().item()) for v in row])


expected["csv"] = {
    "all": csv("table.csv", columns, header=True, na_value="NA"),
    "selected": csv("table.csv", [columns[2], columns[4]], header=True, select_cols=[2, 4]),
}
write("table.csv.gz", gzip.compress(open(path("table.csv"), "rb").read(), mtime=0))
write("broken.csv", b'1;2\n3\n4;x\n;5\n"6";7\n8"9;1\n"a"b;1\n10;11;12\n\n13;14\n"15;16')
expected["csv"]["broken"] = csv("broken.csv", [tf.int64, tf.int64], field_delim=";")

# ---- images ----


def picture(height, width, channels, seed):
    """Gradients, edges and some noise."""
    r = np.random.default_rng(seed)
    y, x = np.mgrid[0:height, 0:width]
    planes = []
    for c in range(channels):
        a, b, f = r.uniform(0.5, 4, 3)
        plane = 128 + 60 * np.sin(a * x / 9 + c) + 50 * np.cos(b * y / 7) + 40 * ((x // 5 + y // 4) % 2) * (f > 2)
        planes.append(plane + r.normal(0, 6, (height, width)))
    return np.clip(np.stack(planes, -1), 0, 255).astype(np.uint8)


images = []


def add(name, data, channels=(0, 1, 3)):
    write(name, data)
    entry = {"file": name, "decoded": []}
    for n in channels:
        decoded = tf.io.decode_image(data, channels=n, expand_animations=False).numpy()
        entry["decoded"].append({"channels": n, **keep(decoded)})
    images.append(entry)


def pillow(image, mode, **options):
    """What encode_jpeg does not write."""
    import PIL.Image

    out = io.BytesIO()
    PIL.Image.fromarray(image, mode).save(out, "JPEG", **options)
    return out.getvalue()


rgb = picture(23, 17, 3, 1)
grey = picture(31, 40, 1, 2)
encode = lambda image, **options: tf.io.encode_jpeg(image, **options).numpy()
add("rgb_420.jpg", encode(rgb, quality=90))
add("rgb_444.jpg", encode(rgb, quality=75, chroma_downsampling=False))
add("grey.jpg", encode(grey, quality=80))
add("progressive.jpg", encode(picture(33, 18, 3, 3), quality=85, progressive=True))
add("one_pixel.jpg", encode(picture(1, 1, 3, 4)))
add("wide.jpg", encode(picture(3, 65, 3, 5), quality=50))
add("restarts.jpg", pillow(picture(40, 24, 3, 6), "RGB", quality=70, restart_marker_blocks=3))
add("chroma_422.jpg", pillow(picture(21, 30, 3, 10), "RGB", quality=88, subsampling="4:2:2"))
add("cmyk.jpg", pillow(picture(19, 22, 4, 11), "CMYK", quality=90), (0, 3))
png = lambda image, **options: tf.io.encode_png(image, **options).numpy()
add("rgb.png", png(rgb), (0, 1, 3, 4))
add("rgba.png", png(picture(9, 14, 4, 7)), (0, 1, 3, 4))
add("grey.png", png(grey), (0, 1, 3, 4))
add("grey_alpha.png", png(picture(6, 5, 2, 8)), (0, 1, 3, 4))
add("sixteen_bits.png", png((picture(7, 8, 3, 9).astype(np.uint16) * 257 + 100)), (0, 1, 3, 4))


def indexed_png(height, width, bits, palette, transparency=None):
    """What encode_png does not write: palettes and few bits."""
    chunk = lambda kind, data: len(data).to_bytes(4, "big") + kind + data + zlib.crc32(kind + data).to_bytes(4, "big")
    r = np.random.default_rng(height)
    index = r.integers(0, 2**bits if palette is None else len(palette), (height, width))
    rows = b""
    for line in index:
        packed = np.packbits(((line[:, None] >> np.arange(bits - 1, -1, -1)) & 1).astype(np.uint8).reshape(-1))
        rows += b"\0" + packed.tobytes()
    header = width.to_bytes(4, "big") + height.to_bytes(4, "big") + bytes([bits, 0 if palette is None else 3, 0, 0, 0])
    data = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header)
    if palette is not None:
        data += chunk(b"PLTE", np.array(palette, np.uint8).tobytes())
    if transparency is not None:
        data += chunk(b"tRNS", bytes(transparency))
    return data + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


colours = [(255, 0, 0), (0, 255, 0), (0, 0, 255), (10, 20, 30)]
add("palette.png", indexed_png(5, 9, 2, colours), (0, 1, 3, 4))
add("palette_alpha.png", indexed_png(6, 7, 4, colours, [0, 128, 255]), (0, 1, 3, 4))
add("two_bits.png", indexed_png(4, 11, 2, None), (0, 1, 3, 4))
add("one_bit.png", indexed_png(8, 13, 1, None), (0, 1, 3, 4))
expected["images"] = images

# ---- resize ----
source = picture(11, 9, 3, 1)
cases = []
for method in ("bilinear", "nearest", "area", "antialias"):
    for height, width in ((11, 9), (4, 4), (25, 15), (1, 1), (6, 20)):
        for kind in ("uint8", "float32"):
            image = tf.constant(source if kind == "uint8" else source.astype(np.float32) / 255 - 0.5)
            resized = tf.image.resize(image, (height, width), method="bilinear" if method == "antialias" else method,
                                      antialias=method == "antialias")
            cases.append({"method": method, "from": kind, **keep(resized.numpy())})
expected["resize"] = {"source": keep(source), "cases": cases}
expected["ops"] = {
    "central_crop": [{"fraction": f, **keep(tf.image.central_crop(source, f).numpy())} for f in (1.0, 0.5, 0.33, 0.9)],
    "flip": keep(tf.image.flip_left_right(source).numpy()),
    "pad": {"top": 2, "left": 1, "bottom": 3, "right": 4, **keep(tf.image.pad_to_bounding_box(source, 2, 1, 16, 14).numpy())},
    "standardized": keep(tf.image.per_image_standardization(source).numpy()),
}

write("pixels.bin", bytes(pixels))
with open(path("expected.json"), "w", encoding="utf-8") as out:
    json.dump(expected, out, indent=None, separators=(",", ":"), ensure_ascii=True)
total = sum(os.path.getsize(path(name)) for name in os.listdir(FILES))
print(f"files/: {len(os.listdir(FILES))} files, {total} bytes; {len(images)} images, {len(cases)} resizes")
