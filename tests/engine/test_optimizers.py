"""Optimisers: one client against `torch.optim`, AdaHessian against Hessians written out."""

from __future__ import annotations

import math

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from engine_worlds import make_data, make_jobs, make_model
from support import grid
from unknot.core.data import FederatedData, Samples, Shard
from unknot.core.training import SGD, Adagrad, AdaHessian, Adam, AdamW, NAdam, RAdam, Recipe, RMSprop
from unknot.core.weights import Weights
from unknot.engine import LoopEngine, StackedEngine

ENGINES = [LoopEngine, StackedEngine]
OPTIMIZERS = [
    (SGD(0.1), lambda p: torch.optim.SGD(p, 0.1)),
    (SGD(0.1, weight_decay=0.1), lambda p: torch.optim.SGD(p, 0.1, weight_decay=0.1)),
    (SGD(0.1, momentum=0.9), lambda p: torch.optim.SGD(p, 0.1, momentum=0.9)),
    (
        SGD(0.1, momentum=0.9, nesterov=True, weight_decay=0.1),
        lambda p: torch.optim.SGD(p, 0.1, momentum=0.9, nesterov=True, weight_decay=0.1),
    ),
    (Adam(0.02), lambda p: torch.optim.Adam(p, 0.02)),
    (
        Adam(0.02, (0.5, 0.8), 1e-3, 0.1),
        lambda p: torch.optim.Adam(p, 0.02, (0.5, 0.8), 1e-3, weight_decay=0.1),
    ),
    (AdamW(0.02, weight_decay=0.3), lambda p: torch.optim.AdamW(p, 0.02, weight_decay=0.3)),
    (NAdam(0.02, weight_decay=0.3), lambda p: torch.optim.NAdam(p, 0.02, weight_decay=0.3)),
    (RAdam(0.02, weight_decay=0.3), lambda p: torch.optim.RAdam(p, 0.02, weight_decay=0.3)),
    (
        Adagrad(0.1, lr_decay=0.1, weight_decay=0.1, initial_accumulator_value=0.1),
        lambda p: torch.optim.Adagrad(p, 0.1, 0.1, 0.1, 0.1),
    ),
    (
        RMSprop(0.02, eps=1e-3, momentum=0.5, centered=True),
        lambda p: torch.optim.RMSprop(p, 0.02, eps=1e-3, momentum=0.5, centered=True),
    ),
]


@pytest.mark.parametrize(
    ("engine", "optimizer", "proximal", "clip"), grid(ENGINES, OPTIMIZERS, [0.0, 0.7], [None, 0.3])
)
def test_one_client_trains_as_torch_optim_does(engine, optimizer, proximal, clip):
    """The loss with its proximal term is written out, the gradient clipped by PyTorch's own function."""
    spec, build = optimizer
    model, data = make_model("lenet").double(), make_data("lenet", (10,)).cast(torch.float64)
    recipe = Recipe(spec, epochs=2, batch_size=4, proximal=proximal, clip=clip)
    (job,) = make_jobs(model, recipe, [0], torch.float64)
    (update,) = engine(model, dtype=torch.float64).train([job], data)

    shard, losses = data[0], []
    start = [p.detach().clone() for p in model.parameters()]
    optimizer = build(model.parameters())
    for epoch in range(2):
        order = shard.rows[job.key.child("epoch", epoch).order(shard.ids)]
        for rows in (order[:4], order[4:8], order[8:]):
            x, y = data.train.x[rows], data.train.y[rows]
            each = F.cross_entropy(model(x), y, reduction="none")
            away = sum(((p - s) ** 2).sum() for p, s in zip(model.parameters(), start, strict=True))
            optimizer.zero_grad()
            (each.mean() + proximal / 2 * away).backward()
            if clip is not None:
                nn.utils.clip_grad_norm_(model.parameters(), clip)
            optimizer.step()
            losses += each.tolist()
    assert torch.allclose(update.weights.vector, Weights.of(model).vector, rtol=0, atol=1e-12)
    assert update.loss == pytest.approx(sum(losses) / 20, rel=1e-12)
    assert update.samples == 10


def linear_data() -> FederatedData:
    x = torch.tensor([[1.0, 2.0], [-1.0, 0.5], [0.3, -0.7]], dtype=torch.float64)
    samples = Samples(x, torch.tensor([0, 1, 1]), 2)
    return FederatedData(samples, {0: Shard.of([0, 1, 2])}, samples)


@pytest.mark.parametrize("power", [1.0, 0.6])
@pytest.mark.parametrize("engine", ENGINES)
def test_adahessian_follows_the_papers_formulas_with_the_hessian_written_out(engine, power):
    """The whole Hessian is computed; v·Hv, the moments and the update are spelled out from the paper."""
    model, data = nn.Linear(2, 2).double(), linear_data()
    with torch.no_grad():
        model.weight.copy_(torch.tensor([[0.2, -0.1], [0.4, 0.3]]))
        model.bias.copy_(torch.tensor([0.1, -0.2]))
    spec = AdaHessian(0.05, betas=(0.8, 0.9), eps=1e-3, weight_decay=0.2, hessian_power=power)
    recipe = Recipe(spec, epochs=3, batch_size=3, proximal=0.4)
    (job,) = make_jobs(model, recipe, [0], torch.float64)
    (update,) = engine(model, dtype=torch.float64).train([job], data)

    start = w = job.start.vector

    def loss(flat: torch.Tensor) -> torch.Tensor:
        logits = data.train.x @ flat[:4].view(2, 2).T + flat[4:]
        return F.cross_entropy(logits, data.train.y) + 0.2 * ((flat - start) ** 2).sum()

    mean, square = torch.zeros(6, dtype=torch.float64), torch.zeros(6, dtype=torch.float64)
    for step in range(1, 4):
        gradient = torch.autograd.functional.jacobian(loss, w)
        hessian = torch.autograd.functional.hessian(loss, w)
        v = job.key.child("hutchinson", step - 1).signs(6).double()
        diagonal = (v * (hessian @ v)).abs()
        mean = 0.8 * mean + 0.2 * gradient
        square = 0.9 * square + 0.1 * diagonal**2
        unbiased = mean / (1 - 0.8**step)
        bottom = (square / (1 - 0.9**step)).sqrt() ** power + 1e-3
        w = w - 0.05 * (unbiased / bottom + 0.2 * w)
    assert torch.allclose(update.weights.vector, w, rtol=0, atol=1e-12)


class Quadratic(nn.Module):
    """Logits (Σ a·w², 0) for one sample of each class: a loss whose curvature is known by hand."""

    def __init__(self) -> None:
        super().__init__()
        self.kernel = nn.Parameter(torch.zeros(1, 1, 2, 2))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        a = torch.tensor([[1.0, 2.0], [3.0, 4.0]], dtype=x.dtype, device=x.device)
        score = (a * self.kernel[0, 0] ** 2).sum() + 0 * x[:, 0]
        return torch.stack([score, torch.zeros_like(score)], 1)


@pytest.mark.parametrize("engine", ENGINES)
def test_adahessian_averages_the_diagonal_over_a_kernel(engine):
    """By hand: at w = 0 the loss log(1 + e^(−s)), s = Σ a·w², has gradient 0 and Hessian −diag(a).

    Its derivative in s is −1/2 at s = 0, and s has the Hessian 2·diag(a): the product is −diag(a), with
    absolute diagonal (1, 2, 3, 4) and mean 2.5 over the kernel. A linear term moves the weights: the
    weights are all 0 and stay so, unless the diagonal is not averaged, hence the start below.
    """
    model = Quadratic().double()
    samples = Samples(torch.zeros(1, 1, dtype=torch.float64), torch.tensor([0]), 2)
    data = FederatedData(samples, {0: Shard.of([0])}, samples)
    tiny = 1e-6  # so small that the loss is its expansion to second order: gradient −a·w
    start = Weights(torch.full((4,), tiny, dtype=torch.float64), Weights.of(model).layout)
    spec = AdaHessian(0.1, betas=(0.9, 0.999), eps=1e-9)
    (job,) = make_jobs(model, Recipe(spec, batch_size=1), [0], torch.float64, start=start)
    (update,) = engine(model, dtype=torch.float64).train([job], data)
    # One step: w − lr·g/2.5 = w·(1 + 0.1·a/2.5), since both moments are unbiased.
    expected = [tiny * (1 + 0.1 * a / 2.5) for a in (1, 2, 3, 4)]
    assert update.weights.vector.tolist() == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("engine", ENGINES)
def test_clipping_scales_by_norm_plus_1e_6(engine):
    """By hand: the bias of one class, one sample, has gradient p − 1 = −1/2 and +1/2: norm 1/√2."""
    model = nn.Linear(1, 2).double()
    samples = Samples(torch.zeros(1, 1, dtype=torch.float64), torch.tensor([0]), 2)
    data = FederatedData(samples, {0: Shard.of([0])}, samples)
    start = Weights(torch.zeros(4, dtype=torch.float64), Weights.of(model).layout)
    (job,) = make_jobs(model, Recipe(SGD(1.0), batch_size=1, clip=0.1), [0], torch.float64, start=start)
    (update,) = engine(model, dtype=torch.float64).train([job], data)
    moved = 0.5 * 0.1 / (math.sqrt(0.5) + 1e-6)
    assert update.weights.vector.tolist() == pytest.approx([0, 0, moved, -moved], rel=1e-12)
