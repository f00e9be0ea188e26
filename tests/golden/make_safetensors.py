#!/usr/bin/env python3
"""Writes safetensors_*.safetensors: files of Python's safetensors package, for tests/checkpoint.

    pip install "safetensors==0.8.*"
    python3 make_safetensors.py

The low-level writer takes bytes, so that dtypes which numpy lacks need no torch. Element i of every tensor is
i * 37 + 11 modulo 251, as a byte each.
"""
import ctypes
import pathlib

from safetensors import TensorSpec, serialize

FOLDER = pathlib.Path(__file__).parent
SIZES = {
    "bool": 1, "uint8": 1, "int8": 1, "float8_e5m2": 1, "float8_e4m3fn": 1, "int16": 2, "uint16": 2, "float16": 2,
    "bfloat16": 2, "int32": 4, "uint32": 4, "float32": 4, "complex64": 8, "float64": 8, "int64": 8, "uint64": 8,
}
SHAPES = {"matrix": [2, 3], "scalar": [], "empty": [0, 4]}


def tensor(dtype, shape):
    count = SIZES[dtype]
    for size in shape:
        count *= size
    data = bytes((i * 37 + 11) % 251 for i in range(count))
    if dtype == "bool":
        data = bytes(byte & 1 for byte in data)
    return dtype, shape, data


def write(name, tensors, metadata=None):
    buffers, specs = [], {}  # the package takes addresses
    for key, (dtype, shape, data) in tensors.items():
        buffers.append(ctypes.create_string_buffer(data, max(1, len(data))))
        specs[key] = TensorSpec(
            dtype=dtype, shape=shape, data_ptr=ctypes.addressof(buffers[-1]), data_len=len(data))
    (FOLDER / f"safetensors_{name}.safetensors").write_bytes(serialize(specs, metadata))


write("dtypes", {f"{dtype}.{name}": tensor(dtype, shape) for dtype in SIZES for name, shape in SHAPES.items()})
write("metadata", {"layer/weight": tensor("float32", [3]), "na\u00efve \"name\"\n": tensor("int8", [1])},
      {"format": "pt"})
write("none", {})
