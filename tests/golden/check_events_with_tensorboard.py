"""Reads with TensorBoard what strata wrote: its accumulator, and the web server that people look at.

    python check_events_with_tensorboard.py build/release/strata_events_tool [LOGDIR]

Needs tensorboard 2.21; TensorFlow is not needed. With tensorboard-plugin-profile it asks that too, what it makes of the
trace. With LOGDIR the files stay there.
"""

import gzip
import json
import os
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.parse
import urllib.request

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

from tensorboard.backend.event_processing import event_accumulator as ea
from tensorboard.plugins.hparams import plugin_data_pb2
from tensorboard.util import tensor_util

failed = False


def check(good, what):
    print("ok  " if good else "BAD ", what)
    global failed
    failed |= not good


def accumulator(folder):
    run = ea.EventAccumulator(folder, size_guidance={ea.TENSORS: 0, ea.GRAPH: 1})
    run.Reload()
    return run


def arrays(run, tag):
    return [(e.step, tensor_util.make_ndarray(e.tensor_proto)) for e in run.Tensors(tag)]


def check_accumulator(logdir):
    run = accumulator(os.path.join(logdir, "train"))
    plugins = {tag: run.summary_metadata[tag].plugin_data.plugin_name for tag in run.Tags()["tensors"]}
    check(plugins == {"epoch_loss": "scalars", "dense/kernel/histogram": "histograms", "dense/bias/histogram": "histograms",
                      "input": "images", "notes": "text", "keras": "graph_keras_model",
                      "_hparams_/session_start_info": "hparams", "_hparams_/session_end_info": "hparams"},
          f"accumulator: {len(plugins)} tags with their plugins")
    loss = arrays(run, "epoch_loss")
    check([s for s, _ in loss] == list(range(100)) and all(abs(x - 1 / (s + 1)) < 1e-7 for s, x in loss), "accumulator: 100 scalars")
    kernel = arrays(run, "dense/kernel/histogram")
    check(all(a.shape == (30, 3) and a[:, 2].sum() == 10000 and abs(a[0, 0] + 1) < 1e-4 and abs(a[-1, 1] - 1) < 1e-4 for _, a in kernel),
          "accumulator: histograms of 10,000 numbers")
    bias = arrays(run, "dense/bias/histogram")
    check(all((a[:-1] == 0).all() and a[-1].tolist() == [0, 0, 10] for _, a in bias), "accumulator: histograms of one value")
    picture = arrays(run, "input")[0][1]
    check(picture[:2].tolist() == [b"2", b"2"] and len(picture) == 4, "accumulator: two images")
    check(arrays(run, "notes")[0][1].item() == b"what *this* run tries", "accumulator: text")
    info = lambda tag: plugin_data_pb2.HParamsPluginData.FromString(run.summary_metadata[tag].plugin_data.content)
    start = info("_hparams_/session_start_info").session_start_info
    check({k: getattr(v, v.WhichOneof("kind")) for k, v in start.hparams.items()} == {"lr": 0.1, "optimizer": "adam", "augment": True}
          and len(start.group_name) == 64, "accumulator: hyperparameters")
    check(info("_hparams_/session_end_info").session_end_info.status == 1, "accumulator: the run's end")
    nodes = {n.name: (n.op, list(n.input)) for n in run.Graph().node}
    check(nodes["dense/MatMul"] == ("MatMul", ["input", "dense/kernel"]) and len(nodes) == 3, "accumulator: graph")


def check_server(logdir):
    process = subprocess.Popen([sys.executable, "-m", "tensorboard.main", "--logdir", logdir, "--host", "127.0.0.1", "--port", "0",
                                "--reload_interval", "1"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        base, log = None, []
        while base is None:
            line = process.stdout.readline()
            if not line:
                raise RuntimeError("TensorBoard ended: " + "".join(log))
            log.append(line)
            if "http://" in line:
                base = "http://" + line.split("http://")[1].split()[0].rstrip("/") + "/data/"

        def get(path):
            with urllib.request.urlopen(base + path, timeout=60) as reply:
                return json.load(reply)

        def wait_for(path, good):  # the server loads while it answers
            deadline = time.time() + 120
            while True:
                try:
                    answer = get(path)
                except urllib.error.HTTPError as error:
                    answer = error
                if time.time() > deadline or (not isinstance(answer, Exception) and good(answer)):
                    return answer
                time.sleep(0.3)

        runs = wait_for("runs", lambda a: set(a) == {"train", "resumed"})
        check(sorted(runs) == ["resumed", "train"], f"server: runs {runs}")
        print("    fast data loading (the Rust server):", any("fast data loading" in line for line in log))
        for plugin, tags in (("scalars", ["epoch_loss"]), ("histograms", ["dense/bias/histogram", "dense/kernel/histogram"]),
                             ("images", ["input"]), ("text", ["notes"])):
            answer = wait_for(f"plugin/{plugin}/tags", lambda a: sorted(a.get("train", [])) == tags)
            check(sorted(answer["train"]) == tags, f"server: {plugin} {tags}")
        points = wait_for("plugin/scalars/scalars?run=train&tag=epoch_loss", lambda a: len(a) == 100)
        check([p[1] for p in points] == list(range(100)), "server: 100 scalars")
        points = wait_for("plugin/scalars/scalars?run=resumed&tag=epoch_loss", lambda a: len(a) == 8)
        check([p[1:] for p in points] == [[s, s if s < 3 else 300 + s] for s in range(8)], "server: the resumed run has one curve")
        check(len(get("plugin/histograms/histograms?run=train&tag=dense/kernel/histogram")) == 3, "server: histograms")
        graphs = wait_for("plugin/graphs/info", lambda a: "train" in a)
        check(graphs["train"]["run_graph"] and graphs["train"]["tags"]["keras"]["conceptual_graph"],
              "server: graph and the Keras model's graph")
        for query in ("conceptual=false", "conceptual=true&tag=keras"):
            with urllib.request.urlopen(base + "plugin/graphs/graph?run=train&" + query, timeout=60) as reply:
                check(b"dense" in reply.read(), "server: graph drawn, " + query)
        request = json.dumps({"experimentName": "", "startIndex": 0, "sliceSize": 10, "colParams": [],
                              "allowedStatuses": ["STATUS_SUCCESS"]})
        groups = wait_for("plugin/hparams/session_groups?request=" + urllib.parse.quote(request), lambda a: a.get("sessionGroups"))
        check(groups["sessionGroups"][0]["hparams"] == {"lr": 0.1, "optimizer": "adam", "augment": True}, "server: hyperparameters")
    finally:
        process.terminate()
        process.wait(30)


with tempfile.TemporaryDirectory() as folder:
    logdir = sys.argv[2] if len(sys.argv) > 2 else folder
    profile = subprocess.run([sys.argv[1], logdir], check=True, capture_output=True, text=True).stdout.strip()
    check_accumulator(logdir)
    check_server(logdir)
    (trace,) = [name for name in os.listdir(profile) if name.endswith(".trace.json.gz")]
    with gzip.open(os.path.join(profile, trace)) as file:
        events = json.load(file)["traceEvents"]
    check(sorted(e["name"] for e in events if e["ph"] == "X") == ["forward", "forward", "step", "step"], "trace: its spans")
    check({e["args"]["name"] for e in events if e["name"] == "thread_name"} == {"replica/0", "replica/1"}, "trace: its threads")
    try:
        from xprof.convert import raw_to_tool_data
    except ImportError:
        print("    no xprof (pip install tensorboard-plugin-profile): the page Profile is not checked")
    else:
        (plane,) = [name for name in os.listdir(profile) if name.endswith(".xplane.pb")]
        data, _ = raw_to_tool_data.xspace_to_tool_data([os.path.join(profile, plane)], "trace_viewer", {})
        events = json.loads(data)["traceEvents"]
        check(sorted(e["name"] for e in events if e.get("ph") == "X") == ["forward", "forward", "step", "step"], "Profile: its spans")
        check({"replica/0", "replica/1"} <= {e["args"].get("name") for e in events if e.get("name") == "thread_name"},
              "Profile: its threads")
sys.exit(1 if failed else 0)
