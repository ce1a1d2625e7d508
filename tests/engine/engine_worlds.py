"""Small models, data and recipes for the tests of the engines: one of every kind that matters."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from unknot.core.data import FederatedData, Samples, Shard
from unknot.core.jobs import Job, Update
from unknot.core.keys import Key
from unknot.core.lineage import Unit
from unknot.core.training import SGD, Adagrad, AdaHessian, Adam, AdamW, Cosine, Recipe, RMSprop
from unknot.core.weights import Weights

# One sample, fewer than a batch, whole batches, a smaller last batch: in no order.
SIZES = (7, 1, 12, 4, 9, 3, 16, 5, 8, 2, 11)


class Attention(nn.Module):
    """The contract of a batched attention layer: `heads`, `qkv`, `out` and the kind."""

    batched_kind = "causal_self_attention"

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        length, width = x.shape[-2:]
        q, k, v = self.qkv(x).view(-1, length, 3, self.heads, width // self.heads).permute(2, 0, 3, 1, 4)
        scores = q @ k.transpose(-1, -2) / math.sqrt(width // self.heads)
        later = torch.ones(length, length, dtype=torch.bool, device=x.device).triu(1)
        mixed = scores.masked_fill(later, -math.inf).softmax(-1) @ v
        return self.out(mixed.transpose(1, 2).reshape(x.shape))


class Text(nn.Module):
    """A decoder of one block, with odd sizes: 13 words, width 10, two heads."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens = nn.Embedding(13, 10)
        self.places = nn.Parameter(torch.randn(6, 10) * 0.1)
        self.norm1 = nn.LayerNorm(10)
        self.attention = Attention(10, 2)
        self.norm2 = nn.LayerNorm(10)
        self.mlp = nn.Sequential(nn.Linear(10, 20), nn.GELU(), nn.Linear(20, 10))
        self.head = nn.Linear(10, 13, bias=False)

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.tokens(tokens) + self.places[: tokens.shape[1]]
        x = x + self.attention(self.norm1(x))
        x = x + self.mlp(self.norm2(x))
        return self.head(x)


class Residual(nn.Module):
    """A convolutional block with a sum, strides, an average over the image and functional calls."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(1, 5, 3, stride=2, padding=1)
        self.second = nn.Conv2d(5, 5, 3, padding=1, bias=False)
        self.norm = nn.GroupNorm(5, 5)
        self.head = nn.Linear(5, 3)

    def forward(self, x: Tensor) -> Tensor:
        x = torch.sigmoid(self.first(x))
        x = F.relu(x + self.norm(self.second(x)))
        x = F.adaptive_avg_pool2d(x, 1)
        return self.head(x.view(x.size(0), -1))


class OnlyVmap(nn.Module):
    """Nothing here has a batched rule, so only `torch.vmap` can stack it; odd sizes throughout."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(49, 11)
        self.gate = nn.Parameter(torch.randn(11))
        self.second = nn.Linear(11, 3)

    def forward(self, x: Tensor) -> Tensor:
        h = self.first(x.flatten(1))
        h = F.mish(h) * torch.einsum("bi,i->b", h, self.gate).sigmoid().unsqueeze(1)
        return self.second(h)


class OnlyLoop(nn.Module):
    """Its forward branches on its weights: nothing can stack it."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(49, 6)
        self.second = nn.Linear(6, 3)

    def forward(self, x: Tensor) -> Tensor:
        h = self.first(x.flatten(1))
        h = h.tanh() if float(self.first.weight.detach().sum()) > 0 else h.relu()
        return self.second(h)


def around(layer: nn.Module) -> nn.Module:
    """A small network with the layer under the name 'middle', on eight features."""
    network = nn.Sequential()
    network.add_module("first", nn.Sequential(nn.Flatten(), nn.Linear(36, 8), nn.Tanh()))
    network.add_module("middle", layer)
    network.add_module("last", nn.Linear(8, 3))
    return network


class Layer(nn.Module):
    """A layer of eight features with one parameter, to be made stateful."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(8))


# What the networks of `around` take.
IMAGES = Samples(torch.linspace(0, 1, 144).view(4, 1, 6, 6), torch.tensor([0, 1, 2, 0]), 3)


def _conv_norm(inputs: int, outputs: int, groups: int) -> list[nn.Module]:
    return [nn.Conv2d(inputs, outputs, 3, padding=1), nn.GroupNorm(groups, outputs), nn.ReLU()]


def make_model(name: str) -> nn.Module:
    """A small model of each kind, always with the same weights."""
    with Key.root(1).child("model", name).torch_seed():
        match name:
            case "mlp":
                layers = [nn.Flatten(), nn.Linear(49, 13), nn.ReLU(), nn.Linear(13, 7), nn.ReLU()]
                return nn.Sequential(*layers, nn.Linear(7, 3))
            case "tanh":
                return nn.Sequential(nn.Flatten(), nn.Linear(49, 13), nn.Tanh(), nn.Linear(13, 3))
            case "lenet":
                conv = [nn.Conv2d(1, 3, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(3, 5, 2)]
                head = [nn.Flatten(), nn.Linear(5, 6), nn.ReLU(), nn.Linear(6, 3)]
                return nn.Sequential(*conv, nn.ReLU(), nn.MaxPool2d(2), *head)
            case "norm":
                conv = [*_conv_norm(1, 6, 3), nn.MaxPool2d(2), nn.Conv2d(6, 4, 3), nn.GELU()]
                return nn.Sequential(*conv, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 3))
            case "vgg":
                stage1 = [*_conv_norm(1, 4, 2), *_conv_norm(4, 4, 2), nn.MaxPool2d(2)]
                stage2 = [*_conv_norm(4, 8, 2), *_conv_norm(8, 8, 4), nn.MaxPool2d(2)]
                return nn.Sequential(*stage1, *stage2, nn.Flatten(), nn.Linear(8, 3))
            case "residual":
                return Residual()
            case "text":
                return Text()
            case "vmap":
                return OnlyVmap()
            case "loop":
                return OnlyLoop()
    raise ValueError(name)


PATHS = {
    "mlp": "fused",
    "tanh": "fused",
    "lenet": "fused",  # in single precision on a CPU
    "norm": "batched",
    "vgg": "batched",
    "residual": "batched",
    "text": "batched",
    "vmap": "vmap",
    "loop": "loop",
}

# An ε far above rounding: some gradients are 0 but for rounding (a bias before a normalisation, the keys'
# bias in attention), and an optimiser that divides by their size would make something of it.
RECIPES = {
    "sgd": Recipe(SGD(0.1), epochs=2, batch_size=4),
    "sgd-decay": Recipe(SGD(0.1, weight_decay=0.05), batch_size=4),
    "sgd-momentum": Recipe(SGD(0.05, momentum=0.9, weight_decay=0.01), epochs=2, batch_size=4),
    "sgd-nesterov": Recipe(SGD(0.05, momentum=0.8, nesterov=True), batch_size=4, max_steps=3),
    "sgd-clip": Recipe(SGD(0.2), batch_size=4, clip=0.5),
    "sgd-proximal": Recipe(SGD(0.1), epochs=2, batch_size=4, proximal=0.5, clip=1.0),
    "adam": Recipe(Adam(0.01, eps=1e-3, weight_decay=0.01), epochs=2, batch_size=4),
    "adamw": Recipe(AdamW(0.01, betas=(0.8, 0.99), eps=1e-3, weight_decay=0.1), batch_size=4, clip=1.0),
    "adahessian": Recipe(AdaHessian(0.05, eps=0.5, weight_decay=0.01), batch_size=4),
    "adahessian-power": Recipe(
        AdaHessian(0.05, eps=0.5, hessian_power=0.7), batch_size=4, proximal=0.3, max_steps=3
    ),
    "adagrad": Recipe(Adagrad(0.05, eps=1e-2), epochs=2, batch_size=4, schedule=Cosine(6, warmup=2)),
    "rmsprop": Recipe(RMSprop(0.01, eps=0.1, momentum=0.5, centered=True), batch_size=4, radius=0.4),
    "ascent": Recipe(SGD(0.05), epochs=2, batch_size=4, radius=0.5, ascent=True),
}


# The pairs that are tried in every run of the tests: every recipe with and without convolutions, most models
# by several kinds of step, and by `vmap` what goes by the size of a whole model, too.
SHORT = {
    "mlp": tuple(RECIPES),
    "tanh": ("sgd-momentum",),
    "lenet": ("sgd", "sgd-decay", "sgd-nesterov"),
    "norm": ("sgd-clip", "adam", "adahessian", "adagrad"),
    "vgg": ("sgd-momentum", "adamw", "rmsprop"),
    "residual": ("sgd-proximal", "adahessian-power", "ascent"),
    "text": ("adam", "adahessian"),
    "vmap": ("sgd-clip", "adahessian", "rmsprop"),
    "loop": ("adam",),
}


def in_short(model: str, recipe: str) -> bool:
    """Whether a pair is tried in every run of the tests; the rest when there is time."""
    return recipe in SHORT[model]


def make_data(name: str, sizes: Sequence[int] = SIZES) -> FederatedData:
    """A shard of each size: random images of 7×7 in 3 classes, or random texts of 6 of 13 words."""
    generator = Key.root(2).child("data").generator()
    total = sum(sizes)
    if name == "text":
        words = torch.from_numpy(generator.integers(0, 13, (total, 7)))
        samples = Samples(words[:, :-1].contiguous(), words[:, 1:].contiguous(), 13)
    else:
        x = torch.from_numpy(generator.standard_normal((total, 1, 7, 7), dtype=np.float32))
        samples = Samples(x, torch.from_numpy(generator.integers(0, 3, total)), 3)
    ends = np.cumsum([0, *sizes])
    # Rows are dealt out backwards: a shard's rows are not its ids.
    shards = {i: Shard.of(np.arange(ends[i], ends[i + 1])[::-1].copy()) for i in range(len(sizes))}
    return FederatedData(samples, shards, samples)


def make_jobs(
    model: nn.Module,
    recipe: Recipe,
    clients: Sequence[int],
    dtype: torch.dtype = torch.float32,
    round: int = 0,
    start: Weights | None = None,
) -> list[Job]:
    """A job a client, all from one start; the key is the client's and the round's."""
    start = start or Weights.of(model).to(dtype=dtype)
    key = Key.root(3).child("round", round)
    return [Job(Unit(client), start, key.child("client", client), recipe) for client in clients]


def own_start(job: Job) -> Job:
    """The same job from weights of its own."""
    drawn = job.key.child("start").generator().standard_normal(job.start.layout.size)
    moved = job.start.vector + 0.05 * torch.from_numpy(drawn).to(job.start.vector)
    return replace(job, start=job.start.like(moved))


def same(a: Update, b: Update) -> bool:
    """Bit for bit the same weights and the same loss (or none)."""
    loss = a.loss == b.loss or (math.isnan(a.loss) and math.isnan(b.loss))
    return a.weights.equal(b.weights) and loss and a.samples == b.samples


def mean(updates: Sequence[Update]) -> Weights:
    """FedAvg: weighted by samples, in the order given."""
    total = sum(update.samples for update in updates)
    vector = sum(update.weights.vector * (update.samples / total) for update in updates)
    assert isinstance(vector, Tensor)
    return updates[0].weights.like(vector)


def past_the_door(data: FederatedData, train: Samples) -> FederatedData:
    """The same with these training samples, unchecked: what an engine must bear all the same."""
    twin = data.fork()
    twin.train = train
    return twin
