"""Models without hidden state are not refused, whatever they are made of."""

from __future__ import annotations

import logging
import math
import warnings

import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils import parametrizations

from engine_worlds import IMAGES, PATHS, Layer, around, make_data, make_model
from unknot.core.data import Samples
from unknot.engine import LoopEngine, StackedEngine
from unknot.models import build

BOTH = [LoopEngine, StackedEngine]


class Positions(nn.Module):
    """A table that is built when the length of the texts is first seen."""

    def __init__(self) -> None:
        super().__init__()
        self.table: Tensor | None = None

    def forward(self, x: Tensor) -> Tensor:
        if self.table is None or len(self.table) != x.shape[1]:
            self.table = torch.linspace(0, 1, x.shape[1], device=x.device)
        return x + self.table


class Recurrent(nn.Module):
    def __init__(self, kind: type[nn.Module]) -> None:
        super().__init__()
        self.cells = kind(2, 8, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        return self.cells(x.unflatten(1, (4, 2)))[0][:, -1]


class Attends(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(4, 2, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        x = x.unflatten(1, (2, 4))
        return self.attention(x, x, x)[0].flatten(1)


class Tied(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.there, self.back = nn.Linear(8, 8), nn.Linear(8, 8)
        self.back.weight = self.there.weight

    def forward(self, x: Tensor) -> Tensor:
        return self.back(self.there(x).relu())


class ConstantBuffer(Layer):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("mask", torch.tensor([1.0, 0.0] * 4))

    def forward(self, x: Tensor) -> Tensor:
        return x * self.mask * self.scale


class Logs(Layer):
    def __init__(self) -> None:
        super().__init__()
        self.log = logging.getLogger("a layer")

    def forward(self, x: Tensor) -> Tensor:
        self.log.debug("seen")
        return x * self.scale


class OnlyPixels(Layer):
    def forward(self, x: Tensor) -> Tensor:
        assert x.min() >= -1
        return x * self.scale


HARMLESS = {
    "lazy table": Positions,
    "lstm": lambda: Recurrent(nn.LSTM),
    "gru": lambda: Recurrent(nn.GRU),
    "attention": Attends,
    "transformer": lambda: nn.Sequential(
        nn.Unflatten(1, (2, 4)), nn.TransformerEncoderLayer(4, 2, 8, 0.0, batch_first=True), nn.Flatten()
    ),
    "tied": Tied,
    "constant buffer": ConstantBuffer,
    "weight norm": lambda: parametrizations.weight_norm(nn.Linear(8, 8)),
    "old weight norm": lambda: nn.utils.weight_norm(nn.Linear(8, 8)),
    "orthogonal": lambda: parametrizations.orthogonal(nn.Linear(8, 8)),
    "instance norm": lambda: nn.Sequential(nn.Unflatten(1, (2, 4)), nn.InstanceNorm1d(2), nn.Flatten()),
    "logger": Logs,
    "checked input": OnlyPixels,
}


@pytest.mark.parametrize("name", HARMLESS)
@pytest.mark.parametrize("engine", BOTH)
def test_a_model_without_hidden_state_passes(engine, name):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        network = around(HARMLESS[name]())
        engine(network).examine(IMAGES)


@pytest.mark.parametrize("name", PATHS)
def test_the_models_of_the_other_tests_pass(name):
    for dtype in (torch.float32, torch.float64):
        StackedEngine(make_model(name), dtype=dtype).examine(make_data(name).train)


@pytest.mark.parametrize(
    ("name", "shape"),
    [
        ("mlp", (1, 28, 28)),
        ("lenet5", (1, 28, 28)),
        ("cnn-exact", (3, 32, 32)),
        ("cnn-incentive", (1, 28, 28)),
    ],
)
def test_the_papers_models_pass(name, shape):
    LoopEngine(build(name, shape, 10)).examine(Samples(torch.rand(2, *shape), torch.zeros(2).long(), 10))


def test_a_language_model_passes():
    network = build("gpt", (12,), 10, layers=1, heads=2, width=24)
    LoopEngine(network).examine(Samples(torch.zeros(2, 12).long(), torch.zeros(2, 12).long(), 10))


@pytest.mark.slow
def test_a_large_network_passes():
    network = build("vgg16", (3, 32, 32), 10)
    LoopEngine(network).examine(Samples(torch.rand(2, 3, 32, 32), torch.zeros(2).long(), 10))


def test_a_model_that_is_not_finite_on_made_batches_is_no_model_with_state():
    class Exploding(Layer):
        def forward(self, x: Tensor) -> Tensor:
            return x * self.scale * math.inf

    LoopEngine(around(Exploding())).examine(IMAGES)
