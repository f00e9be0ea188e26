"""A parameter server on torch.distributed.rpc, for suite ps (README.md): rank 0 is the worker, the others are servers.
The harness starts all ranks, and gives each every line; the servers answer at once. --wire any: what TensorPipe picks,
which is the host's memory; tcp: its TCP."""

import os
import sys
import time

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("MASTER_ADDR", "127.0.0.1")

import argparse  # noqa: E402

parser = argparse.ArgumentParser()
parser.add_argument("--rank", type=int, required=True)
parser.add_argument("--servers", type=int, required=True)
parser.add_argument("--store", required=True)
parser.add_argument("--wire", default="any", choices=("any", "tcp"))
parser.add_argument("--cpus", default="")
args = parser.parse_args()
if args.cpus:
    os.sched_setaffinity(0, {int(cpu) for cpu in args.cpus.split(",")})

import torch  # noqa: E402
import torch.distributed.rpc as rpc  # noqa: E402

ROWS, WIDTH, ROWS_A_CALL = 2000000, 16, 65536
TCP = {"_transports": ["uv"], "_channels": ["mpt_uv", "basic"]}  # else tensors go past TCP (process_vm_readv)

torch.set_num_threads(1)
tables = {}  # of a server


# What the servers run. Values are returned as they are: the worker pushes again only when it has them.


def create(name, elements):
    tables[name] = torch.zeros(elements)


def create_rows(rows):
    tables["rows"] = torch.empty(rows, WIDTH).uniform_(-0.1, 0.1)
    tables["squares"] = torch.full((rows, WIDTH), 0.1)


def pull(name):
    return tables[name]


def push_pull(name, gradient, learning_rate):
    return tables[name].add_(gradient, alpha=-learning_rate)


def pull_rows(ids):
    return tables["rows"].index_select(0, ids)


def push_rows(ids, gradients, learning_rate):
    """Adagrad; a row that is there twice is updated twice."""
    squares = tables["squares"].index_add_(0, ids, gradients * gradients).index_select(0, ids)
    tables["rows"].index_add_(0, ids, gradients.div_(squares.sqrt_().add_(1e-7)), alpha=-learning_rate)


# What the worker calls: all servers at the same time.


def on_all(function, arguments):
    futures = [rpc.rpc_async(f"server{i}", function, args=arguments(i)) for i in range(args.servers)]
    return [future.wait() for future in futures]


gradients, ids = {}, []


def dense(operation, size):
    name = f"dense-{size}"
    if name not in gradients:
        gradients[name] = torch.ones(size // 4).tensor_split(args.servers)
        on_all(create, lambda i: (name, gradients[name][i].numel()))
    parts = gradients[name]
    if operation == "pull":
        return lambda: on_all(pull, lambda i: (name,))
    before = on_all(pull, lambda i: (name,))
    after = on_all(push_pull, lambda i: (name, parts[i], 1.0))
    assert all(torch.equal(b - a, g) for b, a, g in zip(before, after, parts))
    return lambda: on_all(push_pull, lambda i: (name, parts[i], 1e-9))


def rows():
    if not ids:
        on_all(create_rows, lambda i: (-(-(ROWS - i) // args.servers),))
        ids.extend(torch.randint(ROWS, (8, ROWS_A_CALL)))
    turn = iter(range(1 << 60))

    def one_server():
        mine = ids[next(turn) % len(ids)]
        values = on_all(pull_rows, lambda i: (mine,))[0]
        on_all(push_rows, lambda i: (mine, values, 1e-3))

    def several():
        wanted = ids[next(turn) % len(ids)]
        server = wanted % args.servers
        places = [(server == i).nonzero().view(-1) for i in range(args.servers)]
        local = [torch.div(wanted.index_select(0, p), args.servers, rounding_mode="floor") for p in places]
        values = torch.empty(len(wanted), WIDTH)
        for place, part in zip(places, on_all(pull_rows, lambda i: (local[i],))):
            values.index_copy_(0, place, part)
        on_all(push_rows, lambda i: (local[i], values.index_select(0, places[i]), 1e-3))

    return one_server if args.servers == 1 else several


def microseconds(operation, size, repeats):
    call = rows() if operation == "rows" else dense(operation, size)
    call()
    times = []
    before = time.perf_counter()
    for _ in range(repeats):
        call()
        after = time.perf_counter()
        times.append(after - before)
        before = after
    times.sort()
    return 5e5 * (times[(repeats - 1) // 2] + times[repeats // 2])


rpc.init_rpc(
    "worker" if args.rank == 0 else f"server{args.rank - 1}",
    rank=args.rank,
    world_size=1 + args.servers,
    rpc_backend_options=rpc.TensorPipeRpcBackendOptions(
        init_method=f"file://{args.store}", **(TCP if args.wire == "tcp" else {})
    ),
)
torch.set_grad_enabled(False)
print(f"ready torch {torch.__version__}", flush=True)
for line in sys.stdin:
    words = line.split()
    if words == ["cpu"]:
        print(f"ok {time.process_time():.9g}", flush=True)
    elif args.rank > 0:
        print("ok 0", flush=True)
    else:
        print(f"ok {microseconds(words[0], int(words[1]), int(words[2])):.9g}", flush=True)
os._exit(0)  # the shutdown of frameworks can hang; there is nothing to save
