"""What the generating scripts share: a fixed source of numbers, and JSON with one short line a record."""

import json
import os

import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))


def numbers(which, shape):
    """-1 to 1, from a hash of the index."""
    with np.errstate(over="ignore"):
        h = np.arange(int(np.prod(shape)), dtype=np.uint32) + np.uint32(which * 2654435769 & 0xFFFFFFFF)
        h = (h ^ h >> np.uint32(16)) * np.uint32(0x7FEB352D)
        h = (h ^ h >> np.uint32(15)) * np.uint32(0x846CA68B)
        h ^= h >> np.uint32(16)
    return (h / 2147483648.0 - 1).reshape(shape)


def plain(value):
    """Arrays as {"shape": [...], "data": [...]}, with as many digits as the dtype has."""
    if hasattr(value, "numpy"):
        value = value.numpy()
    if isinstance(value, (np.ndarray, np.generic)):
        value = np.asarray(value)
        digits = {"float32": 9, "float64": 17}.get(value.dtype.name)
        flat = value.reshape(-1).tolist()
        data = [float(f"%.{digits}g" % x) for x in flat] if digits else flat
        return {"shape": list(value.shape), "data": data}
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    return value


def write(name, header, records):
    import keras
    import tensorflow as tf

    header = {"keras": keras.__version__, "tensorflow": tf.__version__, **plain(header)}
    path = os.path.join(HERE, name)
    with open(path, "w", encoding="utf-8") as out:
        out.write(json.dumps(header)[:-1] + ', "cases": [\n')
        out.write(",\n".join(json.dumps(plain(r), separators=(",", ":")) for r in records))
        out.write("\n]}\n")
    print(f"{name}: {len(records)} cases, {os.path.getsize(path)} bytes")
