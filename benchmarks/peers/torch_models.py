"""The models of suite step's cases dense, transformer, lstm and resnet20 in PyTorch."""

import torch
from torch import nn
from torch.nn import functional as F

import peer


class Attention(nn.Module):
    """Causal self-attention: query, key and value from one product. --attention explicit: scores as a tensor,
    softmax, product; sdpa: torch's scaled_dot_product_attention."""

    def __init__(self, width, heads, tokens, explicit):
        super().__init__()
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.heads = heads
        self.explicit = explicit
        if explicit:
            hidden = torch.full((tokens, tokens), float("-inf")).triu(1)
            self.register_buffer("hidden", hidden, persistent=False)

    def forward(self, x):
        batch, tokens, width = x.shape
        q, k, v = self.qkv(x).view(batch, tokens, 3, self.heads, -1).permute(2, 0, 3, 1, 4).unbind(0)
        if self.explicit:
            scores = q @ k.transpose(-2, -1) * q.shape[-1] ** -0.5 + self.hidden
            y = torch.softmax(scores, -1) @ v
        else:
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.out(y.transpose(1, 2).reshape(batch, tokens, width))


class Block(nn.Module):
    def __init__(self, width, heads, tokens, explicit):
        super().__init__()
        self.attention = Attention(width, heads, tokens, explicit)
        self.norm1 = nn.LayerNorm(width, eps=peer.EPSILON)
        self.norm2 = nn.LayerNorm(width, eps=peer.EPSILON)
        self.wide = nn.Linear(width, 4 * width)
        self.narrow = nn.Linear(4 * width, width)

    def forward(self, x):
        x = self.norm1(x + self.attention(x))
        return self.norm2(x + self.narrow(F.gelu(self.wide(x))))


class Transformer(nn.Module):
    def __init__(self, tokens, explicit=False, *, width, heads, depth):
        super().__init__()
        self.words = nn.Embedding(peer.WORDS, width)
        self.positions = nn.Parameter(torch.empty(tokens, width).normal_(std=0.02))
        self.blocks = nn.Sequential(*(Block(width, heads, tokens, explicit) for _ in range(depth)))
        self.head = nn.Linear(width, peer.WORDS)

    def forward(self, words):
        return self.head(self.blocks(self.words(words) + self.positions))


class Lstm(nn.Module):
    def __init__(self, *, embedding, units, classes):
        super().__init__()
        self.words = nn.Embedding(peer.WORDS, embedding)
        self.lstm = nn.LSTM(embedding, units, batch_first=True)
        self.head = nn.Linear(units, classes)

    def forward(self, words):
        y, _ = self.lstm(self.words(words))
        return self.head(y[:, -1])


def convolution(inputs, outputs, kernel, stride):
    return nn.Sequential(
        nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, bias=False),
        nn.BatchNorm2d(outputs, eps=peer.EPSILON, momentum=0.1),
    )


class Residual(nn.Module):
    def __init__(self, inputs, outputs, stride):
        super().__init__()
        self.first = convolution(inputs, outputs, 3, stride)
        self.second = convolution(outputs, outputs, 3, 1)
        self.shortcut = nn.Identity() if inputs == outputs else convolution(inputs, outputs, 1, stride)

    def forward(self, x):
        return F.relu(self.second(F.relu(self.first(x))) + self.shortcut(x))


def resnet20():
    blocks, inputs = [], 16
    for stage, outputs in enumerate((16, 32, 64)):
        for block in range(3):
            blocks.append(Residual(inputs, outputs, 2 if stage > 0 and block == 0 else 1))
            inputs = outputs
    return nn.Sequential(
        convolution(3, 16, 3, 1), nn.ReLU(), *blocks, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 10)
    )


def make(case, tokens, explicit_attention):
    """@param tokens  Of a row of words."""
    if case == "transformer":
        return Transformer(tokens, explicit_attention, **peer.TRANSFORMER)
    if case == "lstm":
        return Lstm(**peer.LSTM)
    if case == "resnet20":
        return resnet20()
    a, b, c, d = peer.MLP_SIZES[case]
    return nn.Sequential(nn.Linear(a, b), nn.ReLU(), nn.Linear(b, c), nn.ReLU(), nn.Linear(c, d))


def optimizer_of(net, images):
    """Fused: PyTorch's fastest. SGD with momentum for images, else Adam."""
    if images:
        return torch.optim.SGD(net.parameters(), lr=peer.SGD["learning_rate"], momentum=peer.SGD["momentum"], fused=True)
    return torch.optim.Adam(net.parameters(), lr=peer.ADAM["learning_rate"], eps=peer.ADAM["epsilon"], fused=True)
