"""torch-1, torch-1-best, torch-1-eager-attention and ddp-2 of the models of suite step: PyTorch, one thread, fused
optimizer, denormals flushed. --compile 1: forward, loss and their backward by torch.compile; --bf16 1: under
autocast; --world 2: one of two DistributedDataParallel processes on gloo, which get the same `run K`."""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
os.environ.setdefault("TORCHINDUCTOR_COMPILE_THREADS", "1")  # no pool of processes that stays

import peer  # noqa: E402

args = peer.arguments(
    ("--rank", 0),
    ("--world", 1),
    ("--store", ""),
    ("--channels-last", 0),
    ("--compile", 0),
    ("--bf16", 0),
    ("--attention", "sdpa"),
    cases=peer.MODELS,
)

import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402
from torch import nn  # noqa: E402
from torch.nn.parallel import DistributedDataParallel  # noqa: E402

import torch_models  # noqa: E402

torch.set_num_threads(1)
torch.set_flush_denormal(True)
torch.manual_seed(1)

xs, ys = (torch.from_numpy(a) for a in peer.read_rows(args.case, args.data))
images = args.case == "resnet20"
memory_format = torch.channels_last if args.channels_last else torch.contiguous_format
if images:
    xs = [x.permute(0, 3, 1, 2).contiguous(memory_format=memory_format) for x in xs]
pool = len(xs)

net = torch_models.make(args.case, xs[0].shape[1], args.attention == "explicit").train()
peer.say_size(sum(p.numel() for p in net.parameters()))
if images:
    net = net.to(memory_format=memory_format)
if args.world > 1:
    dist.init_process_group("gloo", init_method=f"file://{args.store}", rank=args.rank, world_size=args.world)
    net = DistributedDataParallel(net, gradient_as_bucket_view=True)
opt = torch_models.optimizer_of(net, images)
entropy = nn.CrossEntropyLoss()


def loss_of(x, y):
    with torch.autocast("cpu", torch.bfloat16, enabled=args.bf16 == 1):
        logits = net(x)
        return entropy(logits.reshape(-1, logits.shape[-1]), y.reshape(-1))


if args.compile:
    loss_of = torch.compile(loss_of, dynamic=False)
at = args.rank % pool


def steps(count):
    global at
    for _ in range(count):
        opt.zero_grad()
        loss = loss_of(xs[at], ys[at])
        loss.backward()
        opt.step()
        at = (at + args.world) % pool
    return loss.item()


peer.serve(f"torch {torch.__version__}", steps)
