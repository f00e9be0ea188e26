#!/usr/bin/env python3
"""tests/fuzz/make_corpus.py: writes the first inputs of the fuzz targets, corpus/<target>/seed-*.

Texts are here; files come from tests/golden/. What libFuzzer found beyond them is beside them
(scripts/fuzz.sh merge), and so is each input that once was a crash (crash-*).
"""
import gzip
import json
import pathlib
import random
import shutil
import struct
import subprocess
import tempfile
import zlib

here = pathlib.Path(__file__).resolve().parent
golden = here.parent / "golden"


def write(target, inputs):
    folder = here / "corpus" / target
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.glob("seed-*"):
        old.unlink()
    for i, data in enumerate(inputs):
        (folder / f"seed-{i:02}").write_bytes(data.encode() if isinstance(data, str) else data)


def files(*patterns, most=1 << 20):
    found = [path for pattern in patterns for path in sorted(golden.glob(pattern))]
    return [path.read_bytes() for path in found if path.stat().st_size <= most]


def crc32c(data):
    value = 0xFFFFFFFF
    for byte in data:
        value ^= byte
        for _ in range(8):
            value = value >> 1 ^ (0x82F63B78 if value & 1 else 0)
    return value ^ 0xFFFFFFFF


def noise(count, size, seed):
    """Lists of events: any bytes are one."""
    chance = random.Random(seed)
    return [chance.randbytes(chance.randrange(size // 4, size)) for _ in range(count)]


# Texts.
write("json", ['{"a": [1, -2.5e3, true, null, "x\\u00e9\\n"], "b": {}}', "[]", '"\\ud83d\\ude00"', "-0.0",
               "9223372036854775807", "1e308", '{"a":{"a":{"a":[[[[]]]]}}}'])
write("device_name", ["/job:worker/replica:0/task:1/device:CPU:0", "cpu:1", "GPU:0", "/gpu:*", "/task:2", "*"])
write("task_id", ["/job:worker/task:1", "/job:ps/replica:0/task:0", "worker:1", "chief:0"])
write("address", ["worker-1.example:2222", "10.0.0.3:80", "[::1]:65535", ":0", "a:65536"])
specs = ['{"worker": ["host1:2222", "host2:2222"], "ps": {"1": "host3:2222"}}', '{"chief": ["a:1"]}', "{}"]
write("cluster_spec", specs)
tf_configs = ['{"cluster": %s, "task": {"type": "worker", "index": %s}, "rpc_layer": "grpc"}' % (spec, index)
              for spec in specs for index in ("0", '"1"')]
write("tf_config", tf_configs + ["{}"])
write("slurm_lists", ["n[001-003,7],m5", "r[1-2]n[1-2]", "2(x2),1", "n1", "n[1-1048575,1-1048575]", "1(x1048576),1(x1048576)"])
slurm = ("SLURM_STEP_NODELIST=n[1-2]\nSLURM_STEP_TASKS_PER_NODE=2(x2)\nSLURM_STEP_NUM_TASKS=4\nSLURM_PROCID=3\n"
         "SLURM_LOCALID=1\nSLURM_DISTRIBUTION=cyclic\nSLURM_GPUS_ON_NODE=2\nCUDA_VISIBLE_DEVICES=0,1")
write("environment", [slurm, "OMPI_COMM_WORLD_RANK=1\nOMPI_COMM_WORLD_SIZE=2\nOMPI_COMM_WORLD_LOCAL_SIZE=2",
                      "PMI_RANK=0\nPMI_SIZE=3\nSTRATA_LEADER=host:80\nSLURM_JOB_NODELIST=n[1-3]",
                      "STRATA_KUBERNETES_JOBS=worker=4,ps=2\nSTRATA_KUBERNETES_SERVICE=train\nHOSTNAME=train-worker-2\n"
                      "JOB_COMPLETION_INDEX=2\nPOD_NAMESPACE=default",
                      "RANK=1\nWORLD_SIZE=2\nMASTER_ADDR=job-master-0\nMASTER_PORT=23456",
                      slurm + "\nSLURM_NODEID=1\nTF_NUM_PS=2\nTF_NUM_WORKERS=2\nTF_PS_IN_WORKER=true"])
write("position", ["iterator[3](batch(shuffle[256,256,0,10000,7,1](slices[0])))", "a", "zip(a[1],b[-9223372036854775808])"])
link = {"latency_seconds": 1e-6, "bytes_per_second": 1e9}
write("link_model", [json.dumps({"in_host": link, "across_hosts": link | {"latency_seconds": 1e-5}, "pairs": [],
                                 "message_seconds": 1e-6, "ranks_per_processor": 1.0, "reduce_bytes_per_second": 1e10})])
layer = {"name": "a", "forward_seconds": 0.1, "backward_seconds": 2e-1, "variables": [{"name": "a/w", "shape": [3, 3, 8]}]}
write("network_table", [json.dumps({"name": "n", "source": "s", "batch": 64, "layers": [layer, layer | {"variables": []}]})])
write("scratch_name", [f"{kind}0123456789abcdef-aabbcc-12@host@ckpt-7" for kind in (".tmp-", ".old-", ".trash-")])
write("table_spec", ["{}"])

# Messages. Lists of events, too.
def enveloped(body, version=2):
    return b"strata" + struct.pack("<HII", version, len(body), crc32c(body)) + body


def hello(proves):
    return b"\x01" + bytes(24) + bytes([proves]) + bytes(32) + b"\x03job\x12/job:worker/task:0\x04data\x00"


proof = b"\x03" + bytes(32)
write("handshake_message", [b"strata\x02\x00\x10\x00\x00\x00\x00\x00\x00\x00", hello(0), b"\x02\x07why", hello(1), proof,
                   enveloped(hello(1), version=1)])
write("handshake", [b"\x00" + b"strata\x01\x00\x10\x00\x00\x00", b"\x03" + b"strata\x03\x00\x10\x00\x00\x00\x00\x00\x00\x00"] +
      [bytes([first]) + enveloped(hello(first >> 2)) for first in range(4)] +
      [bytes([first]) + enveloped(hello(1)) + enveloped(proof) for first in (4, 5)])
write("frame", [struct.pack("<IBBHIIIIQQII", 0, kind, 0, 0, 1, 2, 1, 0, 3, 100, 100, 0) + bytes(100) for kind in range(1, 10)])
write("session", noise(8, 300, 1))
write("membership_leader", noise(8, 600, 2))
write("control_message", [b"\x08\x01\x10\x01\x22\x01a", b"\x08\x20\x10\x05"] + noise(4, 60, 3))
for target in ("ps_request", "ps_reply", "call_message", "value_codec"):
    write(target, [b"\x08\x01\x10\x01", b"\x08\x05\x12\x01a", b"\x0a\x04\x08\x01\x12\x00"])
write("row_ids", noise(6, 200, 4))

# Certificates.
if shutil.which("openssl"):
    with tempfile.TemporaryDirectory() as folder:
        key, pem = pathlib.Path(folder, "key"), pathlib.Path(folder, "pem")
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
                        "-keyout", key, "-out", pem, "-subj", "/CN=worker-1.strata", "-days", "36500",
                        "-addext", "subjectAltName=DNS:worker-1.strata"], check=True, capture_output=True)
        write("certificate", [pem.read_bytes(), pem.read_bytes() + pem.read_bytes()])

# Files.
write("csv", [b"\x06" + data for data in files("files/*.csv")] + [b'\x00a,1,2.5,NA,"x ""y"", z"\r\n1,2,3,4,5\n'])
def masked(data):
    crc = crc32c(data)
    return struct.pack("<I", ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF)


def tf_record(data):
    size = struct.pack("<Q", len(data))
    return size + masked(size) + data + masked(data)


records = tf_record(b"a") + tf_record(b"") + tf_record(b"bcd")
write("tf_record", files("files/*.tfrecord", "files/*.tfrecord.gz") + [records, gzip.compress(records, mtime=0)])
record = (golden / "files" / "examples.tfrecord").read_bytes()
examples = []
while record:
    size = struct.unpack("<Q", record[:8])[0]
    examples.append(record[12:12 + size])
    record = record[16 + size:]
write("tf_example", examples)
idx = b"\x00\x00\x08\x02" + struct.pack(">II", 2, 3) + bytes(6)
write("idx_file", [idx, gzip.compress(idx, mtime=0), b"\x00\x00\x0d\x01" + struct.pack(">If", 1, 1.5)])
write("gzip", [gzip.compress(b"abc" * 100, mtime=0), gzip.compress(b"", mtime=0) * 2, zlib.compress(b"xyz" * 50), b"plain"])
write("cache_file", [b"STRCACHE\x01\x00\x00\x00\x00\x00\x00\x00"])
write("event", files("events/events.out*"))
write("jpeg", [bytes([i]) + data for i, data in enumerate(files("files/*.jpg"))])
write("png", [bytes([i % 4]) + data for i, data in enumerate(files("files/*.png"))])
write("safetensors", files("*.safetensors"))
manifest = {"format": "strata.checkpoint", "version": 1, "strata": "0.1.0", "number": 3, "saved_at": 1.5,
            "metrics": {"loss": 0.5, "bad": "nan"},
            "plan": {"strategy": "mirrored", "replicas": 2, "threads_per_replica": 1, "order": "tree"},
            "shards": [{"file": "shard-0.safetensors", "bytes": 100, "sha256": "0" * 64}],
            "tensors": [{"name": "w", "dtype": "F32", "shape": [2, 3], "pieces": [[0, "w"]], "replicas": [[[0, "w"]]]},
                        {"name": "v", "same_as": "w"}],
            "values": {"step": {"int": 3}, "name": {"string": "x"}, "rate": {"double": "inf"}, "on": {"bool": True}}}
write("manager_state", [json.dumps({"format": "strata.checkpoint_manager", "version": 1, "last_preserved": 1.5,
                                    "preserved": ["ckpt-1", "ckpt-2"]})])
write("manifest", [json.dumps(manifest, indent=2)[:-2]])

# Keras.
write("h5_weights", files("*.weights.h5", most=9000))
write("weights_index", [json.dumps({"metadata": {"total_size": 8},
                                    "weight_map": {"/a/vars": "m_00000.weights.h5", "/b/vars": ["m_00001.weights.h5"]}})])
write("legacy_model", files("keras_models_legacy_merging.h5", "keras_applications_weights_alone.h5"))
write("keras_archive", files("keras_models_double.keras"))
configs = files("*.keras.config.json", most=11000)
# Small ones: the fuzzer cuts long inputs.
dense = {"class_name": "Dense", "config": {"name": "d", "units": 2}}
sequential = [{"class_name": "InputLayer", "config": {"name": "i", "batch_shape": [None, 4]}}, dense]
tensor = {"class_name": "__keras_tensor__", "config": {"shape": [None, 4], "keras_history": ["i", 0, 0]}}
functional = [dict(sequential[0], name="i", inbound_nodes=[]),
              dict(dense, name="d", inbound_nodes=[{"args": [tensor], "kwargs": {}}])]
for model in ({"class_name": "Sequential", "config": {"name": "s", "layers": sequential}},
              {"class_name": "Functional", "config": {"name": "f", "layers": functional, "input_layers": ["i", 0, 0],
                                                      "output_layers": ["d", 0, 0]}}):
    configs.append(json.dumps(model, separators=(",", ":")).encode())
write("model_layout", configs)
write("model_config", configs)
optimizers = ["adam", json.dumps({"module": "keras.optimizers", "class_name": "SGD", "registered_name": None,
                                  "config": {"learning_rate": 0.1, "momentum": 0.9, "nesterov": True}}),
              json.dumps({"class_name": "Adam", "config": {"learning_rate": {
                  "module": "keras.optimizers.schedules", "class_name": "ExponentialDecay", "registered_name": None,
                  "config": {"initial_learning_rate": 0.1, "decay_steps": 10, "decay_rate": 0.96}}}})]
write("optimizer_config", [optimizers[0].join('""')] + optimizers[1:])
