"""What TensorFlow's cluster resolvers make of environments -> cluster_resolver.json.

A case is {"kind": ..., "env" or other inputs, "out": results by name}; {"raises": type} stands for an error.
"differs" says where strata does something else on purpose, and why; the test then checks that it does.
"""

import json
import os

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"

import golden_io  # isort: skip
import tensorflow as tf
from tensorflow.python.distribute import multi_worker_util as roles
from tensorflow.python.distribute.cluster_resolver import slurm_cluster_resolver as slurm

resolvers = tf.distribute.cluster_resolver
ClusterSpec = tf.train.ClusterSpec
VARIABLES = ("TF_CONFIG", "CUDA_VISIBLE_DEVICES")
records = []


def attempt(fn):
    """The result of fn, or the type of what it raised."""
    try:
        return fn()
    except Exception as error:  # noqa: BLE001
        return {"raises": type(error).__name__}


def in_environment(env, fn):
    """fn() with just the variables of `env` among those that resolvers read."""
    for name in list(os.environ):
        if name in VARIABLES or name.startswith("SLURM_"):
            del os.environ[name]
    os.environ.update(env)
    try:
        return fn()
    finally:
        for name in env:
            os.environ.pop(name, None)


def spec_out(spec):
    return {"dict": spec.as_dict(), "text": repr(spec), "jobs": sorted(spec.jobs)}


def role_out(spec, task_type, task_id):
    """Rules 55 and 56."""
    return {
        "is_chief": attempt(lambda: roles.is_chief(spec, task_type, task_id)),
        "leader": attempt(lambda: roles.collective_leader(spec, task_type, task_id)),
        "worker_count": attempt(lambda: roles.worker_count(spec, task_type)),
        "id_in_cluster": attempt(lambda: roles.id_in_cluster(spec, task_type, task_id)),
    }


def tf_config(config, options=None, differs=None):
    text = config if isinstance(config, str) else json.dumps(config)
    options = options or {}

    def run():
        resolver = resolvers.TFConfigClusterResolver(**options)
        out = {
            "spec": attempt(lambda: spec_out(resolver.cluster_spec())),
            "task_type": attempt(lambda: resolver.task_type),
            "task_id": attempt(lambda: resolver.task_id),
            "rpc_layer": attempt(lambda: resolver.rpc_layer),
            "master": attempt(resolver.master),
            "master_worker_1": attempt(lambda: resolver.master("worker", 1)),
        }
        try:
            out["roles"] = role_out(resolver.cluster_spec(), resolver.task_type, resolver.task_id)
        except Exception:  # noqa: BLE001
            pass
        return out

    env = {} if config is None else {"TF_CONFIG": text}
    record = {"kind": "tf_config", "env": env, "options": options, "out": in_environment(env, run)}
    if differs:
        record["differs"] = differs
    records.append(record)


def task(task_type, index):
    return {"type": task_type, "index": index}


WORKERS = {"worker": ["w0:1", "w1:2", "w2:3"]}
CHIEF = {"chief": ["c0:1"], **WORKERS}
FULL = {**CHIEF, "ps": ["p0:1", "p1:2"], "evaluator": ["e0:1"]}

tf_config(None)
tf_config({})
tf_config({"cluster": {}})
tf_config({"cluster": {}, "task": task("worker", 0)})
tf_config({"task": task("worker", 1)})
tf_config({"cluster": WORKERS})
tf_config({"cluster": WORKERS, "task": {}})
tf_config({"cluster": WORKERS, "task": {"type": "worker"}})
tf_config({"cluster": WORKERS, "task": {"index": 1}})
for index in range(4):
    tf_config({"cluster": WORKERS, "task": task("worker", index)})
for cluster in (WORKERS, CHIEF, FULL, {"worker": ["w0:1"]}, {"chief": ["c0:1"]}, {"worker": ["w0:1"], "ps": ["p0:1"]}):
    for task_type in ("chief", "worker", "ps", "evaluator"):
        tf_config({"cluster": cluster, "task": task(task_type, 0)})
tf_config({"cluster": FULL, "task": task("worker", 2)})
tf_config({"cluster": FULL, "task": task("ps", 1)})
tf_config({"cluster": FULL, "task": task("evaluator", 1)})
tf_config({"cluster": WORKERS, "task": task("worker", "1")})
tf_config({"cluster": WORKERS, "task": task("worker", "one")})
tf_config({"cluster": WORKERS, "task": task("worker", -1)}, differs="an index below 0 is refused at once")
tf_config({"cluster": WORKERS, "task": task("worker", 1.5)}, differs="TensorFlow cuts 1.5 to 1")
tf_config({"cluster": WORKERS, "task": task("worker", True)}, differs="TensorFlow takes true for 1")
tf_config({"cluster": WORKERS, "task": task(3, 0)}, differs="TensorFlow makes text of a number")
tf_config({"cluster": WORKERS, "task": task("worker", 0), "rpc_layer": "grpc"})
tf_config({"cluster": WORKERS, "task": task("worker", 1), "rpc_layer": "http"}, {"rpc_layer": "grpc"})
tf_config({"cluster": WORKERS, "task": task("worker", 0)}, {"task_id": 2})
tf_config({"cluster": CHIEF, "task": task("worker", 0)}, {"task_type": "chief"})
tf_config({"cluster": CHIEF}, {"task_type": "worker", "task_id": 1, "rpc_layer": "grpc"})
tf_config({"cluster": WORKERS, "task": task("worker", 0), "session_master": "there:9"})
tf_config({"cluster": {}, "session_master": "there:9"})
tf_config({"cluster": WORKERS, "task": task("worker", 1), "environment": "cloud", "model_dir": "gs://x"})
tf_config({"cluster": {"worker": {"1": "w1:2"}, "ps": ["p0:1"]}, "task": task("worker", 1)})
tf_config({"cluster": {"worker": {"0": "w0:2", "1": "w1:2"}}, "task": task("worker", 1)})
tf_config({"cluster": {"worker": {"0": "w0:2", "7": "w7:2"}, "ps": {"3": "p3:1"}}, "task": task("worker", 7)})
tf_config({"cluster": {"worker": {"x": "w1:2"}}, "task": task("worker", 1)})
tf_config({"cluster": {"worker": "w0:1"}, "task": task("worker", 0)})
tf_config({"cluster": {"worker": [1, 2]}, "task": task("worker", 0)})
tf_config({"cluster": {"worker": None}, "task": task("worker", 0)})
tf_config({"cluster": [1], "task": task("worker", 0)})
tf_config({"cluster": {"chief": ["a:1", "b:1"]}, "task": task("chief", 0)})
tf_config({"cluster": {"evaluator": ["a:1", "b:1"], **WORKERS}, "task": task("worker", 0)})
tf_config({"cluster": {"master": ["a:1"], **WORKERS}, "task": task("worker", 0)})
tf_config({"cluster": {"wroker": ["a:1"]}, "task": task("wroker", 0)})
tf_config({"cluster": WORKERS, "task": task("wroker", 0)})
tf_config({"cluster": {"ps": ["a:1", "b:1"]}, "task": task("ps", 0)})
tf_config("{'cluster': {}}")
tf_config("")
tf_config("{")
tf_config("[]", differs="TensorFlow takes any container without \"cluster\" for an empty cluster")
tf_config('{"cluster": {"worker": ["a:1"], "worker": ["b:1"]}}', differs="of two members of one name Python takes the last")


def hosts(text, differs=None):
    record = {"kind": "hosts", "in": text, "out": attempt(lambda: slurm.expand_hostlist(text))}
    if differs:
        record["differs"] = differs
    records.append(record)


for text in (
    "n1", "n1,n2", "n[1-3]", "n[1-2],m5,o[3-4,6,7-9]", "n[001-003,7],m5", "n[09-11]", "n[9-11]", "n[008-012]",
    "[1-3]", "n[1]", "n-1-[2-3],a.b", "nid0[0012-0014]", "x[1-2],y,z[01,5-6]", "n[1-", "n]1[", "n[1-2-3]", "n[a-b]", "n[1,]",
    "n[1-2],",
):  # fmt: skip
    hosts(text, "TensorFlow passes over a comma at the end" if text == "n[1-2]," else None)
hosts("", "an empty list is a mistake")
hosts("n[3-1]", "a range that runs backwards is a mistake, not nothing")
hosts("r[1-2]n[1-2]", "SLURM writes several ranges in a name; TensorFlow cannot read them")
hosts("n[1-2]-ib", "SLURM writes names with an end behind the range; TensorFlow cannot read them")

for text in ("2", "3(x2),2,1", "2(x2),1", "1(x10)", "0,1", "2(x0),1", "", "x", "2(x)", "2(3)", "-1", "2,", "2(x2"):
    records.append({"kind": "tasks", "in": text, "out": attempt(lambda: slurm.expand_tasks_per_node(text))})


def slurm_case(env, options=None, differs=None):
    env = {f"SLURM_{name}": value for name, value in env.items() if name != "CUDA_VISIBLE_DEVICES"} | (
        {"CUDA_VISIBLE_DEVICES": env["CUDA_VISIBLE_DEVICES"]} if "CUDA_VISIBLE_DEVICES" in env else {}
    )
    options = options or {}

    def run():
        resolver = resolvers.SlurmClusterResolver(**options)
        out = spec_out(resolver.cluster_spec())
        out["task"] = list(resolver.get_task_info())
        out["gpus"] = os.environ["CUDA_VISIBLE_DEVICES"]
        out["accelerators"] = resolver.num_accelerators()
        out["master"] = resolver.master()
        return out

    record = {"kind": "slurm", "env": env, "options": options, "out": attempt(lambda: in_environment(env, run))}
    if differs:
        record["differs"] = differs
    records.append(record)


def step(rank, tasks, nodes, per_node, **more):
    return {"PROCID": str(rank), "STEP_NUM_TASKS": str(tasks), "STEP_NODELIST": nodes, "STEP_TASKS_PER_NODE": per_node, **more}


for rank in range(3):
    slurm_case(step(rank, 3, "n[1-2]", "2,1", CUDA_VISIBLE_DEVICES="0,1"))
for rank in range(5):
    slurm_case(step(rank, 5, "t02n[13,41,43,44]", "2,1(x3)"), {"gpus_per_node": 2, "gpus_per_task": 1})
for rank in range(4):
    slurm_case(step(rank, 4, "n[1-2]", "2(x2)"), {"jobs": {"ps": 1, "worker": 3}, "gpus_per_node": 2, "gpus_per_task": 1})
slurm_case(step(1, 4, "n[1-4]", "1(x4)"), {"port_base": 2222, "gpus_per_node": 4})
slurm_case(step(2, 4, "n[1-2]", "2(x2)"), {"jobs": {"chief": 1, "evaluator": 1, "worker": 2}, "gpus_per_node": 5})
slurm_case(step(3, 4, "n[1-2]", "4"), {"tasks_per_node": 2, "gpus_per_node": 2})
slurm_case(step(0, 3, "n[1-3]", "1(x3)"), {"jobs": {"worker": 2}, "gpus_per_node": 1})
slurm_case(step(0, 2, "n1", "2"), {"gpus_per_node": 1, "gpus_per_task": 1})
slurm_case({"STEP_NUM_TASKS": "1", "STEP_NODELIST": "n1", "STEP_TASKS_PER_NODE": "1"}, {"gpus_per_node": 1})
slurm_case(step(0, 2, "n[1-2", "1(x2)"), {"gpus_per_node": 1})
slurm_case(
    {"PROCID": "1", "NTASKS": "2", "JOB_NODELIST": "n[1-2]", "TASKS_PER_NODE": "1(x2)"},
    {"jobs": {"worker": 2}, "gpus_per_node": 1, "gpus_per_task": 1},
    differs="without variables of the step those of the job will do",
)
slurm_case(
    step(1, 3, "n[9-11]", "1(x3)"), {"gpus_per_node": 1}, differs="TensorFlow sorts nodes as text: n10 n11 n9, where ranks are not"
)
slurm_case(step(1, 2, "n[1-2]", "1(x2)"), {"gpus_per_node": 0}, differs="TensorFlow cannot do without GPUs")
slurm_case(
    step(1, 2, "n1", "2", CUDA_VISIBLE_DEVICES="2,3"), differs="the second of the GPUs seen is 3; TensorFlow sets 1, which is not this job's"
)


def union(parts, options=None):
    """parts: (dict for ClusterSpec, type, id, rpc layer)."""
    options = options or {}

    def run():
        simple = [
            resolvers.SimpleClusterResolver(ClusterSpec(spec), task_type=task_type, task_id=task_id, rpc_layer=rpc)
            for spec, task_type, task_id, rpc in parts
        ]
        resolver = resolvers.UnionResolver(*simple, **options)
        out = spec_out(resolver.cluster_spec())
        out["task"] = [resolver.task_type, resolver.task_id]
        out["rpc_layer"] = resolver.rpc_layer
        out["master"] = attempt(resolver.master)
        out["master_worker_0"] = attempt(lambda: resolver.master("worker", 0))
        return out

    records.append({"kind": "union", "parts": parts, "options": options, "out": attempt(run)})


union([({"worker": ["a:1"]}, "worker", 0, "grpc")])
union([({"worker": ["a:1"]}, "worker", 0, "grpc"), ({"ps": ["b:1"]}, "ps", 0, "http")])
union([({"worker": ["a:1", "b:1"]}, None, None, None), ({"worker": ["c:1"], "ps": ["d:1"]}, "worker", 1, None)])
union([({"worker": {1: "a:1"}}, "worker", 1, None), ({"worker": ["c:1"]}, None, None, None)])
union([({"worker": {1: "a:1"}}, "worker", 1, None), ({"worker": {3: "c:1"}}, None, None, None)])
union([({"worker": {0: "a:1", 2: "b:1"}}, "worker", 0, None), ({"worker": ["c:1"]}, None, None, None)])
union([({"worker": ["a:1"]}, "worker", 0, "grpc"), ({"ps": ["b:1"]}, "ps", 0, None)], {"task_type": "ps", "rpc_layer": "http"})
union([({"worker": ["a:1"]}, "worker", 0, None)], {"task_type": "worker", "task_id": 3})
union([])

golden_io.write("cluster_resolver.json", {}, records)
