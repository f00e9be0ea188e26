"""Gloo's collectives through PyTorch, for suites collective and network (README.md): a process a rank, TCP between
them. The harness starts all ranks, and gives each every line."""

import os
import socket
import struct
import fcntl
import sys
import time

os.environ.setdefault("OMP_NUM_THREADS", "1")

import argparse  # noqa: E402

parser = argparse.ArgumentParser()
parser.add_argument("--rank", type=int, required=True)
parser.add_argument("--world", type=int, required=True)
parser.add_argument("--store", required=True)
parser.add_argument("--address", required=True)
parser.add_argument("--cpus", default="")
args = parser.parse_args()


def interface_of(address):
    """The name of the interface that has this IPv4 address."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        for _, name in socket.if_nameindex():
            request = struct.pack("256s", name.encode()[:15])
            try:
                answer = fcntl.ioctl(probe.fileno(), 0x8915, request)  # SIOCGIFADDR
            except OSError:
                continue
            if socket.inet_ntoa(answer[20:24]) == address:
                return name
    raise SystemExit(f"no interface has {address}")


os.environ["GLOO_SOCKET_IFNAME"] = interface_of(args.address)
if args.cpus:
    os.sched_setaffinity(0, {int(cpu) for cpu in args.cpus.split(",")})

import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402

torch.set_num_threads(1)
dist.init_process_group("gloo", init_method=f"file://{args.store}", rank=args.rank, world_size=args.world)
buffer = torch.zeros((64 << 20) // 4)


def prepare(operation, count):
    """One call of `operation` on `count` floats, ready to be repeated."""
    tensor = buffer[:count]
    if operation == "all_reduce":
        tensor.fill_(args.rank + 1)
        dist.all_reduce(tensor)
        assert tensor[0] == tensor[-1] == args.world * (args.world + 1) / 2, tensor
        tensor.zero_()
        return lambda: dist.all_reduce(tensor)
    if operation == "broadcast":
        return lambda: dist.broadcast(tensor, 0)
    if operation == "all_gather":
        parts = list(buffer[: count // args.world * args.world].chunk(args.world))
        mine = parts[args.rank].clone()
        return lambda: dist.all_gather(parts, mine)
    assert operation == "barrier", operation
    return dist.barrier


def microseconds(operation, size, repeats):
    call = prepare(operation, size // 4)
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


print(f"ready torch {torch.__version__}", flush=True)
for line in sys.stdin:
    words = line.split()
    if words == ["cpu"]:
        print(f"ok {time.process_time():.9g}", flush=True)
    else:
        print(f"ok {microseconds(words[0], int(words[1]), int(words[2])):.9g}", flush=True)
os._exit(0)  # the shutdown of frameworks can hang; there is nothing to save
