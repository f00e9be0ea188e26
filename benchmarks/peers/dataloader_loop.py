"""torch.utils.data.DataLoader's side of suite data (README.md)."""

import data_peer

args = data_peer.arguments(("--workers", 0))

import numpy
import torch
from torch.utils.data import DataLoader, Dataset, TensorDataset

torch.set_num_threads(1)
BATCH = data_peer.BATCH[args.case]


class Jpegs(Dataset):
    """Decoded, resized and flipped with Pillow, as torchvision's transforms do it."""

    def __init__(self, files):
        self.files = files

    def __len__(self):
        return len(self.files)

    def __getitem__(self, index):
        from PIL import Image

        with Image.open(self.files[index]) as file:
            image = file.convert("RGB").resize((data_peer.SIZE, data_peer.SIZE), Image.Resampling.BILINEAR)
        pixels = torch.from_numpy(numpy.array(image)).to(torch.float32)
        return pixels.flip(1) if torch.rand(()) < 0.5 else pixels


def endless(loader):
    while True:
        yield from loader


if args.case == "shuffle-batch":
    x, y = data_peer.read_mnist(args.data)
    dataset, shuffle = TensorDataset(torch.from_numpy(x), torch.from_numpy(y)), True
else:
    dataset, shuffle = Jpegs(data_peer.jpeg_files(args.data)), False
loader = DataLoader(dataset, batch_size=BATCH, shuffle=shuffle, num_workers=args.workers,
                    persistent_workers=args.workers > 0)
data_peer.serve_batches(f"torch {torch.__version__}", endless(loader),
                        lambda batch: len(batch[0] if isinstance(batch, list) else batch))
