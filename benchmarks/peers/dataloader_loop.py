"""torch.utils.data.DataLoader's side of suite data (README.md)."""

import math

import data_peer

args = data_peer.arguments(("--workers", 0), ("--torchvision", ""))

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

    @staticmethod
    def random_window(width, height):
        """torchvision's RandomResizedCrop, with the ranges of the others."""
        for _ in range(10):
            area = width * height * torch.empty(()).uniform_(0.05, 1).item()
            ratio = math.exp(torch.empty(()).uniform_(math.log(0.75), math.log(1.33)).item())
            wide, tall = round(math.sqrt(area * ratio)), round(math.sqrt(area / ratio))
            if 0 < wide <= width and 0 < tall <= height:
                left = torch.randint(0, width - wide + 1, ()).item()
                top = torch.randint(0, height - tall + 1, ()).item()
                return left, top, left + wide, top + tall
        return 0, 0, width, height

    def __getitem__(self, index):
        from PIL import Image

        with Image.open(self.files[index]) as file:
            image = file.convert("RGB")
            box = self.random_window(image.width, image.height) if args.case == "distorted-jpeg" else None
            image = image.resize((data_peer.SIZE, data_peer.SIZE), Image.Resampling.BILINEAR, box=box)
        pixels = torch.from_numpy(numpy.array(image)).to(torch.float32)
        return pixels.flip(1) if torch.rand(()) < 0.5 else pixels


class TorchvisionJpegs(Jpegs):
    """Random windows of torchvision's transforms (v2), of tensors or of Pillow's images."""

    def __init__(self, files):
        super().__init__(files)
        from torchvision.transforms import v2

        self.transforms = v2
        self.window = v2.RandomResizedCrop(data_peer.SIZE, scale=(0.05, 1), ratio=(0.75, 1.33))
        self.flip = v2.RandomHorizontalFlip()

    def __getitem__(self, index):
        if args.torchvision == "pillow":
            from PIL import Image

            with Image.open(self.files[index]) as file:
                image = self.flip(self.window(file.convert("RGB")))
            return self.transforms.functional.pil_to_tensor(image).to(torch.float32)
        from torchvision.io import ImageReadMode, decode_jpeg, read_file

        return self.flip(self.window(decode_jpeg(read_file(self.files[index]), ImageReadMode.RGB))).to(torch.float32)


def endless(loader):
    while True:
        yield from loader


if args.case == "shuffle-batch":
    x, y = data_peer.read_mnist(args.data)
    dataset, shuffle = TensorDataset(torch.from_numpy(x), torch.from_numpy(y)), True
else:
    dataset, shuffle = (TorchvisionJpegs if args.torchvision else Jpegs)(data_peer.jpeg_files(args.data)), False
loader = DataLoader(dataset, batch_size=BATCH, shuffle=shuffle, num_workers=args.workers,
                    persistent_workers=args.workers > 0)
data_peer.serve_batches(f"torch {torch.__version__}", endless(loader),
                        lambda batch: len(batch[0] if isinstance(batch, list) else batch))
