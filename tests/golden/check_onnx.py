"""Computes with real onnxruntime what strata exported.

    python check_onnx.py FOLDER TOLERANCE

For each NAME.onnx in FOLDER there are NAME.inputs.safetensors (x0, x1, ...) and NAME.outputs.safetensors (y0, ...), whose
batch may be another than the one that was traced. onnx.checker must accept the file (with its shapes), and outputs must agree
within TOLERANCE, relative to the largest one and 1. pip install onnx onnxruntime
"""

import json
import pathlib
import sys

import numpy as np
import onnx
import onnxruntime

DTYPES = {"F32": "f4", "F64": "f8", "F16": "f2", "I64": "i8", "I32": "i4", "I16": "i2", "I8": "i1", "U8": "u1", "BOOL": "?"}


def load(path):
    """The tensors of a safetensors file, in the order of the numbers in their names."""
    data = path.read_bytes()
    size = int.from_bytes(data[:8], "little")
    header = json.loads(data[8:8 + size])
    header.pop("__metadata__", None)
    tensors = {}
    for name, entry in header.items():
        begin, end = entry["data_offsets"]
        values = np.frombuffer(data[8 + size + begin:8 + size + end], DTYPES[entry["dtype"]])
        tensors[int(name[1:])] = values.reshape(entry["shape"])
    return [tensors[key] for key in sorted(tensors)]


def fault(path, tolerance):
    """What is wrong with the model, or nothing."""
    onnx.checker.check_model(str(path), full_check=True)
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    inputs = load(path.with_suffix(".inputs.safetensors"))
    expected = load(path.with_suffix(".outputs.safetensors"))
    got = session.run(None, dict(zip([each.name for each in session.get_inputs()], inputs)))
    if len(got) != len(expected):
        return f"{len(got)} outputs; expected {len(expected)}"
    for i, (want, have) in enumerate(zip(expected, got)):
        if want.shape != have.shape or want.dtype != have.dtype:
            return f"output {i} is {have.dtype} {have.shape}; expected {want.dtype} {want.shape}"
        if not np.array_equal(np.isfinite(want), np.isfinite(have)):
            return f"output {i} is finite elsewhere"
        finite = np.isfinite(want)
        apart = np.abs(want[finite].astype("f8") - have[finite].astype("f8")).max(initial=0)
        largest = max(1, np.abs(want[finite].astype("f8")).max(initial=0))
        if apart > tolerance * largest:
            return f"output {i} is {apart / largest:.2e} from what strata computes; expected at most {tolerance}"
    return None


def main(folder, tolerance):
    paths = sorted(pathlib.Path(folder).glob("*.onnx"))
    failed = not paths
    for path in paths:
        try:
            problem = fault(path, float(tolerance))
        except Exception as error:  # whatever the two packages think of a file
            problem = f"{type(error).__name__}: {error}"
        print("BAD " if problem else "ok  ", path.stem, problem or "", flush=True)
        failed |= problem is not None
    return 1 if failed else 0


if __name__ == "__main__":
    onnxruntime.set_default_logger_severity(3)
    sys.exit(main(*sys.argv[1:]))
