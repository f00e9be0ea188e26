#!/usr/bin/env python3
"""Writes what the JSON lines of `strata bench` say into benchmarks/RESULTS.md and a plot beside it.

    scripts/write_results.py benchmarks step.jsonl reduce.jsonl

A file's first line names the processor that it was measured on. A section has its processor in its heading and takes
the place of the one with the same heading; all others, which were measured elsewhere or written by hand, stay.
"""

import datetime
import json
import os
import re
import shutil
import subprocess
import sys

# What we ask of ourselves; (case, metric) -> at least. Of workers in processes of their own and of functions it is (case, system, metric).
BARS = {
    ("mlp-loop", "vs_ddp"): 3.5,
    ("mlp-loop", "vs_tf_mirrored"): 6,
    ("mlp-loop", "vs_limit"): 0.9,
    ("mlp-loop", "vs_libtorch"): 1.9,
    ("mlp-loop", "vs_libtorch_tuned"): 1.05,
    ("mlp-loop", "vs_tf"): 1.2,
    ("mlp-loop", "vs_jax"): 1.1,
    ("cnn-loop", "vs_ddp"): 1.25,
    ("cnn-loop", "vs_tf_mirrored"): 1.7,
    ("cnn-loop", "vs_limit"): 0.95,
    ("cnn-loop", "vs_libtorch"): 1.35,
    ("cnn-loop", "vs_tf"): 1.2,
    ("mlp-fit", "vs_loop"): 0.95,
    ("mlp-fit", "vs_ddp"): 3.5,
    ("mlp-fit", "vs_tf_mirrored"): 6,
    ("mlp-fit", "vs_keras"): 4,
    ("cnn-fit", "vs_loop"): 0.95,
    ("cnn-fit", "vs_ddp"): 1.25,
    ("cnn-fit", "vs_tf_mirrored"): 1.7,
    ("cnn-fit", "vs_keras"): 1.3,
    ("distorted-jpeg", "vs_tfdata_one_core"): 1.1,
    ("distorted-jpeg", "vs_torchvision_one_core"): 1.5,
    ("tiny-loop", "strata-function-1", "vs_eager"): 1.5,
    ("tiny-loop", "strata-function-1", "vs_jax"): 1,
    ("wide-loop", "vs_ddp"): 1.15,
    ("wide-loop", "vs_limit"): 0.9,
    ("dense", "vs_torch"): 1.7,
    ("dense", "vs_jax"): 1.1,
    ("dense", "vs_tf"): 2.5,
    ("dense", "vs_ddp"): 2.5,
    ("dense", "vs_limit"): 0.9,
    ("transformer", "vs_torch"): 1.3,
    ("transformer", "vs_torch_best"): 1.1,
    ("transformer", "vs_jax"): 1.1,
    ("transformer", "vs_tf"): 1.8,
    ("transformer", "vs_ddp"): 1.6,
    ("transformer", "vs_limit"): 0.95,
    ("transformer-512", "vs_torch_eager_attention"): 1.5,
    ("transformer-512", "vs_memory", "torch-1"): 1,
    ("lstm", "vs_torch"): 1.4,
    ("lstm", "vs_tf"): 3,
    ("lstm", "vs_ddp"): 2.2,
    ("mlp-loop", "strata-mw-2", "vs_limit"): 0.8,
    ("mlp-loop", "strata-mw-2", "vs_ddp"): 3,
    ("mlp-loop", "strata-mw-2", "vs_tf_mw"): 6,
    ("cnn-loop", "strata-mw-2", "vs_limit"): 0.9,
    ("cnn-loop", "strata-mw-2", "vs_ddp"): 1.2,
    ("cnn-loop", "strata-mw-2", "vs_tf_mw"): 1.6,
    ("wide-loop", "strata-mw-2", "vs_limit"): 0.85,
    ("wide-loop", "strata-mw-2", "vs_ddp"): 1.05,
    ("overlap", "vs_longer"): 0.87,
    ("resnet50", "vs_libtorch"): 1.2,
    ("resnet50", "vs_libtorch_channels_last"): 1.05,
    ("resnet50", "vs_tf"): 1.2,
    ("resnet50", "vs_limit"): 0.95,
    ("64MiB", "vs_memcpy"): 0.7,
    ("memory/2/median", "vs_mpi"): 1.2,
    ("memory/2/median", "vs_gloo"): 1.2,
    ("tcp/2/median", "vs_mpi"): 1.2,
    ("tcp/2/median", "vs_gloo"): 2,
    ("memory/2/64MiB", "vs_mpi"): 2,
    ("memory/2/64MiB", "vs_floor"): 0.6,
    ("1gbit/8/1KiB", "vs_ring"): 2,
    ("100mbit/8/1KiB", "vs_ring"): 2,
    ("shuffle-batch", "vs_tfdata"): 5,
    ("jpeg", "vs_tfdata"): 1,
    ("tfrecord", "vs_tfdata"): 1,
    ("tfrecord-parse", "vs_tfdata"): 1,
    # Suite estimator.
    ("mnist", "vs_fit"): 0.95,
    ("wide-deep", "vs_tf_estimator"): 5,
}


def bar_of(line):
    """What a ratio is asked to be, or None."""
    case, metric = line["case"].removesuffix("/no-zeros"), line["metric"]
    if line["suite"] == "gpu":
        return 1 if metric == "vs_libtorch" else None
    if (case, line["system"], metric) in BARS or line["system"] == "strata-mw-2":
        return BARS.get((case, line["system"], metric))
    if case == "transformer-bf16":
        amx = "amx_bf16" in line["instructions"].split()
        return {"vs_float32": 2 if amx else 1, "vs_torch_best": 1.1 if amx else None}.get(metric)
    if metric == "vs_native":
        return 0.909
    if metric == "vs_memory":
        return BARS.get((case, metric, line["against"]))
    if (case, metric) in BARS:
        return BARS[(case, metric)]
    if line["suite"] == "collective" and case.count("/") == 2 and case.split("/")[1] == "2" and case[-1] == "B":
        if metric == "vs_gloo" and case.startswith("tcp/"):
            return 2
        return {"vs_mpi": 0.91, "vs_gloo": 0.91, "vs_best_algorithm": 0.9}.get(metric)
    if line["suite"] == "ps":
        if case.startswith("rows/"):
            return 5 if metric in ("vs_rpc", "vs_tf_ps") else None
        if case.startswith("dense/"):
            return {"vs_rpc": 3, "vs_tf_ps": 3, "vs_limit": 0.6, "vs_limit_tcp": 0.6}.get(metric)
        if case == "mnist":
            return {"vs_limit": 0.6, "vs_tf_ps": 5}.get(metric)
        return 0.5 if case == "mnist-sync" and metric == "vs_limit" else None
    if line["suite"] == "network":
        if metric == "vs_law":
            return 0.87
        if metric == "vs_alike":
            return 0.95 if case.endswith("/asynchronous") else None
        ours = line["system"].startswith("strata")
        if metric == "vs_wire" and ours and not case.split("/")[1] == "2":
            return 0.97
        if metric == "vs_best_algorithm":
            return 0.9
    return None


def number(value):
    return f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"


def interval(line):
    return f"{number(line['low'])} - {number(line['high'])}"


def processor_name(line):
    """Of a heading: "AMD EPYC, family 25, model 17"."""
    name = re.sub(r"\((R|TM)\)|\b(Processor|CPU)\b|@.*", "", line.get("name", "")).split()
    words = [" ".join(name) or line.get("vendor") or "a processor"]
    words += [f"{key} {line[key]}" for key in ("family", "model") if line.get(key)]
    return ", ".join(words)


def gpu_name():
    if shutil.which("nvidia-smi") is None:
        return "a GPU"
    query = ["nvidia-smi", "--query-gpu=name", "--format=csv,noheader"]
    return subprocess.run(query, capture_output=True, text=True, check=True).stdout.splitlines()[0]


def commit():
    result = subprocess.run(["git", "describe", "--always", "--dirty"], capture_output=True, text=True, check=False)
    return result.stdout.strip() or "unknown"


def rates(lines):
    text = "| case | system | a second | 90 % interval | of peak | variant |\n| --- | --- | --- | --- | --- | --- |\n"
    for line in lines:
        if line["metric"] not in ("images_per_s", "examples_per_s", "rows_per_s", "us"):
            continue
        name = f"| `{line['case']}` | `{line['system']}` "
        if "missing" in line:
            text += f"{name}| missing: {line['missing']} | | | |\n"
        else:
            unit = " us a call" if line["metric"] == "us" else ""
            share = f"{100 * line['of_peak']:.0f} %" if "of_peak" in line else ""
            variant = "; ".join(filter(None, (line.get("variant"), line.get("failed"))))
            text += f"{name}| {number(line['value'])}{unit} | {interval(line)} | {share} | {variant} |\n"
    return text


def core_distance(lines):
    found = [x for x in lines if x["metric"] == "round_trip"]
    if not found:
        return ""
    low, high = min(x["low"] for x in found), max(x["high"] for x in found)
    return f"A message between the two cores took {low:.0f} to {high:.0f} ns there and back.\n\n"


def ratios(lines):
    text = "| case | ratio | value | 90 % interval | pairs | wanted | at most |\n| --- | --- | --- | --- | --- | --- | --- |\n"
    for line in lines:
        if not line["metric"].startswith("vs_") or line["metric"] == "vs_memory":
            continue
        usual = ("strata-1", "strata-2", "strata-gpu-1", "strata-2-copies", "strata")
        system = f" ({line['system']})" if line["system"] not in usual else ""
        name = f"| `{line['case']}` | `{line['metric']}`{system} "
        bar = bar_of(line)
        wanted = "" if bar is None else f">= {bar}"
        if "missing" in line:
            text += f"{name}| missing: {line['missing']} | | | {wanted} | |\n"
        else:
            text += f"{name}| {line['value']:.3f} | {line['low']:.3f} - {line['high']:.3f} "
            at_most = f"{line['at_most']:.2f}" if "at_most" in line else ""
            text += f"| {line['pairs']:.0f} | {wanted} | {at_most} |\n"
    return text


def memory(lines):
    """A row a system and case; beside it what strata's takes in comparison, in bold what misses what is wanted."""
    ours = {}
    for line in lines:
        if line["metric"] == "vs_memory":
            bar = bar_of(line)
            cell = f"{line['value']:.2f}" + (f" (>= {bar})" if bar is not None else "")
            cell = cell if bar is None or line["value"] >= bar else f"**{cell}**"
            ours.setdefault((line["case"], line["against"]), []).append(f"{cell} ({line['system']})")
    text = ""
    for line in lines:
        if line["metric"] == "peak_memory":
            over = ", ".join(ours.get((line["case"], line["system"]), []))
            text += f"| `{line['case']}` | `{line['system']}` | {number(line['value'])} | {number(line['files'])} | {over} |\n"
    if not text:
        return ""
    return f"""Peak memory: MB resident, of which pages of programs and libraries, and how often as much as strata's (`vs_memory`).

| case | system | MB | of files | vs_memory |
| --- | --- | --- | --- | --- |
{text}"""


def reduce_table(lines):
    sizes = {}
    for line in lines:
        sizes.setdefault(line["case"], {})[line["metric"]] = line
    text = "| bytes | us a call | GB/s | vs_memcpy |\n| --- | --- | --- | --- |\n"
    for size, found in sizes.items():
        cells = [f"{found[m]['value']:.4g}" if m in found else "" for m in ("us", "bandwidth", "vs_memcpy")]
        text += f"| {size} | {' | '.join(cells)} |\n"
    return text


def calls(lines):
    """A row a case: microseconds of each system, then the ratios, with what is wanted of them."""
    rows, systems, metrics = {}, [], []
    for line in lines:
        if line["metric"] in ("idle_cpu", "vs_algorithm", "bandwidth", "rows_per_s") or ":" in line["system"]:
            continue
        column = line["metric"]
        if column == "us":
            column = line["system"]
            systems += [] if column in systems else [column]
        else:
            if column == "vs_wire" and line["system"] != "strata":
                column += f" of {line['system']}"
            metrics += [] if column in metrics else [column]
        if "missing" in line:
            cell = "missing"
        elif line["metric"] == "us":
            cell = number(line["value"])
        else:
            bar = bar_of(line)
            cell = f"{line['value']:.2f}"
            if bar is not None:
                cell = f"{cell} (>= {bar})" if line["value"] >= bar else f"**{cell}** (>= {bar})"
        rows.setdefault(line["case"], {})[column] = cell
    columns = systems + metrics
    text = f"| case | {' | '.join(columns)} |\n| --- |{' --- |' * len(columns)}\n"
    for case, cells in rows.items():
        text += f"| `{case}` | {' | '.join(cells.get(c, '') for c in columns)} |\n"
    reasons = sorted({f"`{x['system']}`: {x['missing']}" for x in lines if "missing" in x and x["metric"] == "us"})
    for line in lines:
        if line["metric"] == "bandwidth" and "value" in line:
            text += f"\niperf3 on `{line['case']}`: {line['value']:.4g} MB/s."
    return text + "".join(f"\nMissing, {reason}." for reason in reasons) + "\n"


def rows_a_second(lines):
    found = [x for x in lines if x["metric"] == "rows_per_s"]
    return "".join(f"`{x['case']}`, `{x['system']}`: {x['value'] / 1e6:.3g} million rows a second.  \n" for x in found)


def waiting(lines):
    shares = [x for x in lines if x["metric"] == "wait_share"]
    return "".join(
        f"A training step that takes 1.25 times as long as decoding its batch on the other core waits "
        f"{100 * x['value']:.1f} % of its time (90 % interval {100 * x['low']:.1f} - {100 * x['high']:.1f}; "
        f"wanted: at most 5).\n" for x in shares)


def checkpoints(lines):
    text = "| case | metric | value | 90 % interval | unit |\n| --- | --- | --- | --- | --- |\n"
    for line in lines:
        text += f"| `{line['case']}` | `{line['metric']}` | {number(line['value'])} | {interval(line)} | {line['unit']} |\n"
    return text


def plot(lines):
    """Horizontal bars, a block a case, as plain SVG."""
    rows, y = [], 20
    for case in dict.fromkeys(line["case"] for line in lines):
        metrics = ("images_per_s", "examples_per_s")
        values = [x for x in lines if x["case"] == case and x["metric"] in metrics and "value" in x]
        if not values:
            continue
        top = max(x["value"] for x in values)
        rows.append(f'<text x="10" y="{y}" font-weight="bold">{case}, {values[0]["unit"]}</text>')
        y += 8
        for x in values:
            width = 420 * x["value"] / top
            color = "#3a6ea5" if x["system"].startswith("strata") else "#b0b0b0"
            rows.append(f'<text x="10" y="{y + 12}">{x["system"]}</text>')
            rows.append(f'<rect x="160" y="{y + 2}" width="{width:.1f}" height="12" fill="{color}"/>')
            rows.append(f'<text x="{165 + width:.1f}" y="{y + 12}">{number(x["value"])}</text>')
            y += 18
        y += 22
    head = f'<svg xmlns="http://www.w3.org/2000/svg" width="680" height="{y}" font-family="sans-serif" font-size="12">'
    return "\n".join([head, '<rect width="100%" height="100%" fill="white"/>', *rows, "</svg>"]) + "\n"


def step_section(lines, picture):
    return f"""Above 1 strata is faster. `wanted` is what the project asks of itself. `at most` and `of peak`: what the cores' float32
peak leaves room for, see README.md.

{ratios(lines)}
![rates]({picture})

{core_distance(lines)}{rates(lines)}
{memory(lines)}"""


def models_section(lines):
    return f"""Training through `fit`, images of 224 x 224, batch 16 a replica, a core and a thread a replica; images a second.

{ratios(lines)}
{rates(lines)}
{memory(lines)}"""


def gpu_section(lines):
    return f"""{gpu_name()}; images a second.

{ratios(lines)}
{rates(lines)}"""


def estimator_section(lines):
    return f"""`Estimator::train` on one core, beside `fit` and TensorFlow 2.15's Estimator; examples a second.

{ratios(lines)}
{rates(lines)}
{memory(lines)}"""


def collective_section(lines):
    return f"""Microseconds a call; ratios above 1: strata is faster. In brackets what the project asks of itself; in bold what misses it.

{calls(lines)}"""


def network_section(lines):
    return f"""Microseconds a call. `vs_wire`: of what the lines carry.

{calls(lines)}"""


def servers_section(lines):
    mnist = [x for x in lines if x["case"].startswith("mnist")]
    others = [x for x in lines if not x["case"].startswith("mnist")]
    messages = f"""Microseconds a call. A pull of 1 KiB may take at most 30.

{calls(others)}
{rows_a_second(others)}
"""
    return f"""{messages if others else ""}MNIST, two workers and a server, images a second:

{ratios(mnist)}
{rates(mnist)}"""


def shaped_servers_section(lines):
    return f"""Four servers; a call is a step. `vs_law`: what the lines need for a step, pushes first and pulls then, over the step;
`vs_shortest`: half of that, pushes and pulls at the same time. `vs_alike`: the rate of three workers beside a slow one over their rate
beside one that is like them.

{ratios(lines)}
{rates(lines)}"""


def data_section(lines):
    return f"""Rows (images, records) a second.

{ratios(lines)}
{rates(lines)}
{waiting(lines)}"""


def checkpoint_section(lines):
    return f"""A step with an asynchronous save of 100 MB at its beginning may be at most 10 % slower, later ones 3 %.

{checkpoints(lines)}"""


def sections(lines, picture):
    """Title and text of each section that the lines fill."""
    def of(suite, wanted=lambda line: True):
        return [x for x in lines if x["suite"] == suite and x["metric"] != "processor" and wanted(x)]

    parts = (
        ("Training steps", lambda found: step_section(found, picture), of("step")),
        ("ResNet-50", models_section, of("models")),
        ("On a GPU", gpu_section, of("gpu")),
        ("Estimator", estimator_section, of("estimator")),
        ("All-reduce in one process, two replicas", reduce_table, of("reduce")),
        ("Collectives between processes of one machine", collective_section, of("collective")),
        ("All-reduce between hosts on shaped lines", network_section,
         of("network", lambda x: not x["case"].startswith("ps/"))),
        ("Parameter servers", servers_section, of("ps")),
        ("Parameter servers on shaped lines", shaped_servers_section,
         of("network", lambda x: x["case"].startswith("ps/"))),
        ("Input pipelines, two cores", data_section, of("data")),
        ("Checkpoints", checkpoint_section, of("checkpoint")),
    )
    return [(title, write(found)) for title, write, found in parts if found]


def read_lines(name):
    """The file's lines, each with the instruction sets of its processor, and that processor's line."""
    with open(name, encoding="utf-8") as file:
        lines = [json.loads(line) for line in file if line.startswith("{")]
    processor = next((x for x in lines if x["metric"] == "processor"), None)
    if processor is None:
        sys.exit(f"write_results: {name} does not say on which processor it was measured; expected strata bench's lines")
    return [dict(x, instructions=processor["instructions"]) for x in lines], processor


class Results:
    """RESULTS.md: what precedes the first heading, and sections by their headings, in order."""

    PROCESSORS = "Processors"
    HEAD = "| processor | vendor | family, model | name | instruction sets | cores |\n| --- | --- | --- | --- | --- | --- |\n"

    def __init__(self, path):
        self.path = path
        text = ""
        if os.path.exists(path):
            with open(path, encoding="utf-8") as file:
                text = file.read()
        parts = re.split(r"^## (.*)\n", text, flags=re.M)
        self.start = parts[0] or "# Results\n\nWhat the names mean, and how it is measured: [README.md](README.md).\n\n"
        self.sections = dict(zip(parts[1::2], parts[2::2]))

    def add_processor(self, name, line):
        names = (line["vendor"], f"{line['family']}, {line['model']}", line["name"], line["instructions"])
        row = f"| {name} | {' | '.join(names)} | {line['cores']:.0f} |\n"
        table = self.sections.get(self.PROCESSORS, "\nA heading has the processor that its section was measured on.\n\n" + self.HEAD)
        start = f"| {name} |"
        if any(x.startswith(start) for x in table.splitlines()):
            table = "".join(row if x.startswith(start) else x for x in table.splitlines(keepends=True))
        else:
            table = table.rstrip("\n") + "\n" + row + "\n"
        self.sections = {self.PROCESSORS: table, **{k: v for k, v in self.sections.items() if k != self.PROCESSORS}}

    def put(self, title, processor, text):
        """Replaces the section, or adds it behind others with its title."""
        heading = f"{title} ({processor})"
        if heading not in self.sections:
            alike = [x for x in self.sections if x.split(" (")[0] == title]
            at = list(self.sections).index(alike[-1]) + 1 if alike else len(self.sections)
            items = list(self.sections.items())
            self.sections = dict([*items[:at], (heading, ""), *items[at:]])
        self.sections[heading] = text

    def write(self):
        text = self.start + "".join(f"## {heading}\n\n{body.strip()}\n\n" for heading, body in self.sections.items())
        with open(self.path, "w", encoding="utf-8") as file:
            file.write(text.rstrip("\n") + "\n")


def main():
    folder, files = sys.argv[1], sys.argv[2:]
    by_processor = {}
    for name in files:
        lines, processor = read_lines(name)
        entry = by_processor.setdefault(processor_name(processor), (processor, []))
        entry[1].extend(lines)
    results = Results(os.path.join(folder, "RESULTS.md"))
    for name, (processor, lines) in by_processor.items():
        results.add_processor(name, processor)
        picture = "results_" + re.sub(r"[^a-z0-9]+", "_", name.lower()).strip("_") + ".svg"
        for title, text in sections(lines, picture):
            results.put(title, name, f"Measured on {datetime.date.today()}, commit {commit()}.\n\n{text}")
        step = [x for x in lines if x["suite"] == "step"]
        if step:
            with open(os.path.join(folder, picture), "w", encoding="utf-8") as file:
                file.write(plot(step))
    results.write()


if __name__ == "__main__":
    main()
