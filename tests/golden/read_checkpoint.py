#!/usr/bin/env python3
"""Reads checkpoints of strata with Python's safetensors package: every tensor of the manifest must be there, with its
dtype and shape, and every shard must have its SHA-256.

    pip install "safetensors==0.8.*"
    python3 read_checkpoint.py FOLDER...
"""
import hashlib
import json
import pathlib
import sys

from safetensors import deserialize

for folder in map(pathlib.Path, sys.argv[1:]):
    text = (folder / "manifest.json").read_text()
    manifest = json.loads(text)
    body = text[: text.rindex(',\n  "sha256"')]
    assert hashlib.sha256(body.encode()).hexdigest() == manifest["sha256"], "manifest"
    shards = []
    for shard in manifest["shards"]:
        data = (folder / shard["file"]).read_bytes()
        assert len(data) == shard["bytes"], shard
        assert hashlib.sha256(data).hexdigest() == shard["sha256"], shard
        shards.append(dict(deserialize(data)))
    count = 0
    for tensor in manifest["tensors"]:
        for pieces in [tensor.get("pieces", [])] + tensor.get("replicas", []):
            parts = [shards[shard][key] for shard, key in pieces]
            if not parts:
                assert "same_as" in tensor, tensor
                continue
            assert all(part["dtype"] == tensor["dtype"] for part in parts), tensor
            shape = list(parts[0]["shape"])
            if len(parts) > 1:
                shape[0] = sum(part["shape"][0] for part in parts)
            assert shape == tensor["shape"], (shape, tensor)
            count += 1
    print(f"{folder}: {count} tensors in {len(shards)} shards read, {len(manifest['values'])} values")
