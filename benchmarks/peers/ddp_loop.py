"""ddp-2: PyTorch DistributedDataParallel, gloo, one process a core, one thread each, fused optimizer,
denormals flushed. The harness starts one such process a rank; all ranks get the same `run K`."""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")

import peer  # noqa: E402

args = peer.arguments(("--rank", 0), ("--world", 2), ("--store", ""), ("--channels-last", 0))

import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402
from torch import nn  # noqa: E402
from torch.nn.parallel import DistributedDataParallel  # noqa: E402

import torch_models  # noqa: E402

torch.set_num_threads(1)
torch.set_flush_denormal(True)
torch.manual_seed(1)
dist.init_process_group("gloo", init_method=f"file://{args.store}", rank=args.rank, world_size=args.world)

images = args.case == "cnn-loop"
xs, ys = (torch.from_numpy(a) for a in peer.read_pool(args.data, peer.BATCH[args.case]))
memory_format = torch.channels_last if args.channels_last and images else torch.contiguous_format
if images:
    xs = [x.view(peer.BATCH[args.case], 1, 28, 28).contiguous(memory_format=memory_format) for x in xs]
pool = len(xs)

if images:
    net = nn.Sequential(
        nn.Conv2d(1, 32, 3),
        nn.ReLU(),
        nn.Conv2d(32, 64, 3),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(64 * 12 * 12, 128),
        nn.ReLU(),
        nn.Linear(128, 10),
    ).to(memory_format=memory_format)
else:
    a, b, c, d = peer.MLP_SIZES[args.case]
    net = nn.Sequential(nn.Linear(a, b), nn.ReLU(), nn.Linear(b, c), nn.ReLU(), nn.Linear(c, d))
net = DistributedDataParallel(net, gradient_as_bucket_view=True)
opt = torch_models.optimizer_of(net, images)
entropy = nn.CrossEntropyLoss()
at = args.rank % pool


def steps(count):
    global at
    for _ in range(count):
        opt.zero_grad()
        loss = entropy(net(xs[at]), ys[at])
        loss.backward()
        opt.step()
        at = (at + args.world) % pool
    return loss.item()


peer.serve(f"torch {torch.__version__}", steps)
