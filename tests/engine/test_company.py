"""A job's result is the same, bit for bit, whatever the company it is trained in."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st
from torch import nn

from engine_worlds import (
    PATHS,
    RECIPES,
    SIZES,
    in_short,
    make_data,
    make_jobs,
    make_model,
    own_start,
    same,
)
from unknot.core.data import FederatedData, Samples, Shard
from unknot.core.errors import ConfigError
from unknot.core.jobs import Job, Update
from unknot.core.keys import Key
from unknot.core.training import SGD, AdaHessian, Adam, Optimizer, Recipe
from unknot.engine import LoopEngine, StackedEngine
from unknot.models import build

FEWER = SIZES[:8]  # still one sample, less than a batch, whole batches, a smaller last one; more than a stack


def each_alone(engine: StackedEngine, jobs: list[Job], data: FederatedData) -> list[Update]:
    return [engine.train([job], data)[0] for job in jobs]


def check(model: nn.Module, jobs: list[Job], data: FederatedData, path: str = "auto") -> None:
    """Cohorts of 1, 2, 5 and all, in several orders, in stacks of 2, 4 and 7, at one and two threads."""
    alone = dict(zip(jobs, each_alone(StackedEngine(model, path=path, threads=1), jobs, data), strict=True))
    order = Key.root(9).child("order")
    for round, (count, rows, threads) in enumerate([(len(jobs), 7, 2), (2, 2, 1), (5, 4, 1)]):
        shuffled = [jobs[i] for i in order.child(round).order(range(len(jobs)))][:count]
        engine = StackedEngine(model, path=path, rows=rows, threads=threads)
        for job, update in zip(shuffled, engine.train(shuffled, data), strict=True):
            assert update.job is job
            assert same(update, alone[job]), f"client {job.client} differs among {count} in stacks of {rows}"


@pytest.mark.parametrize(
    ("model", "recipe"),
    [
        pytest.param(model, recipe, marks=[] if in_short(model, recipe) else [pytest.mark.slow])
        for model in PATHS
        for recipe in RECIPES
    ],
)
def test_company_changes_no_bit(model: str, recipe: str) -> None:
    network, data = make_model(model), make_data(model, FEWER)
    check(network, [own_start(job) for job in make_jobs(network, RECIPES[recipe], data.clients)], data)


@pytest.mark.parametrize(
    ("model", "path"),
    [
        *((model, "batched") for model in ("mlp", "lenet", "norm", "text")),
        ("mlp", "vmap"),
        *(pytest.param(model, "vmap", marks=pytest.mark.slow) for model in ("lenet", "norm", "text")),
    ],
)
def test_company_changes_no_bit_on_a_path_asked_for(model: str, path: str) -> None:
    network, data = make_model(model), make_data(model, FEWER)
    jobs = make_jobs(network, RECIPES["sgd-momentum"], data.clients)
    check(network, [own_start(job) for job in jobs], data, path)


@pytest.mark.parametrize(
    ("name", "shape", "batch", "momentum"),
    [
        pytest.param("mlp", (1, 28, 28), 20, 0.0, marks=pytest.mark.slow),
        ("mlp", (1, 28, 28), 20, 0.9),
        ("lenet5", (1, 28, 28), 32, 0.0),
        pytest.param("lenet5", (1, 28, 28), 32, 0.9, marks=pytest.mark.slow),
        pytest.param("lenet5", (3, 32, 32), 20, 0.0, marks=pytest.mark.slow),
        pytest.param("lenet5", (3, 32, 32), 20, 0.9, marks=pytest.mark.slow),
        ("cnn-exact", (3, 32, 32), 8, 0.0),
        pytest.param("cnn-exact", (3, 32, 32), 8, 0.9, marks=pytest.mark.slow),
        pytest.param("gpt", (12,), 10, 0.0, marks=pytest.mark.slow),
        ("gpt", (12,), 10, 0.9),
    ],
)
def test_company_changes_no_bit_of_the_papers_models(name, shape, batch, momentum) -> None:
    options = {"layers": 1, "heads": 2, "width": 24} if name == "gpt" else {}
    sizes = (45, 20, 33, 8, 64, 40, 32) if batch > 10 else (11, 5, 8, 2, 16, 10, 9)
    draw = Key.root(6).child(name).generator()
    with Key.root(7).torch_seed():
        network = build(name, shape, 10, **options)
    if name == "gpt":
        words = torch.from_numpy(draw.integers(0, 10, (sum(sizes), shape[0] + 1)))
        samples = Samples(words[:, :-1].contiguous(), words[:, 1:].contiguous(), 10)
    else:
        x = torch.from_numpy(draw.standard_normal((sum(sizes), *shape))).float()
        samples = Samples(x, torch.from_numpy(draw.integers(0, 10, sum(sizes))), 10)
    ends = [sum(sizes[:i]) for i in range(len(sizes) + 1)]
    data = FederatedData(
        samples, {i: Shard.of(range(ends[i], ends[i + 1])) for i in range(len(sizes))}, samples
    )
    jobs = make_jobs(network, Recipe(SGD(0.01, momentum=momentum), batch_size=batch), data.clients)
    check(network, [own_start(job) for job in jobs], data)


def test_recipes_in_one_cohort_do_not_meet() -> None:
    network, data = make_model("mlp"), make_data("mlp")
    recipes = list(RECIPES.values())
    jobs = [
        own_start(replace(job, recipe=recipes[i % len(recipes)]))
        for i, job in enumerate(make_jobs(network, recipes[0], data.clients))
    ]
    check(network, jobs, data)


def test_a_client_trains_several_models_at_once() -> None:
    """Many rows of one client (as MMT has them): each is as if it were alone."""
    network, data = make_model("lenet"), make_data("lenet")
    jobs = [
        own_start(replace(job, node=f"node {i}", key=job.key.child(i)))
        for i in range(3)
        for job in make_jobs(network, RECIPES["sgd"], [2, 2, 0])
    ]
    check(network, jobs, data)


widths = st.integers(1, 40)


@settings(max_examples=8, deadline=None, derandomize=True)
@given(
    widths=st.lists(widths, min_size=1, max_size=3),
    batch=st.integers(1, 35),
    classes=st.integers(2, 17),
    optimizer=st.sampled_from([SGD(0.1), SGD(0.1, weight_decay=0.1), SGD(0.1, momentum=0.9), Adam(0.01)]),
    activation=st.sampled_from([nn.ReLU, nn.Tanh, nn.GELU, nn.Sigmoid]),
    bias=st.booleans(),
)
def test_no_width_or_batch_size_lets_company_in(
    widths: list[int],
    batch: int,
    classes: int,
    optimizer: SGD | Adam,
    activation: type[nn.Module],
    bias: bool,
) -> None:
    """Matrices that do not fill cache lines are where a product's bits depend on the place in memory."""
    layers: list[nn.Module] = [nn.Flatten()]
    for before, after in zip([49, *widths], widths, strict=False):
        layers += [nn.Linear(before, after, bias=bias), activation()]
    with Key.root(4).torch_seed():
        network = nn.Sequential(*layers, nn.Linear(widths[-1], max(classes, 3)))
    data = make_data("mlp", SIZES[:6])
    recipe = Recipe(optimizer, batch_size=batch, epochs=2)
    check(network, [own_start(job) for job in make_jobs(network, recipe, data.clients)], data)


@settings(max_examples=8, deadline=None, derandomize=True)
@given(
    channels=st.lists(st.integers(1, 9), min_size=1, max_size=2),
    kernel=st.sampled_from([1, 2, 3]),
    batch=st.integers(1, 9),
    optimizer=st.sampled_from([SGD(0.1), Adam(0.01), AdaHessian(0.05)]),
    head=st.sampled_from(["flat", "mean", "pool"]),
)
# Three rows of which change bits; from the start that trials had, the first layer got no gradient to show it.
@example(channels=[2, 3], kernel=3, batch=2, optimizer=SGD(0.1), head="flat")
def test_no_convolution_lets_company_in(
    channels: list[int], kernel: int, batch: int, optimizer: SGD | Adam | AdaHessian, head: str
) -> None:
    layers: list[nn.Module] = []
    for before, after in zip([1, *channels], channels, strict=False):
        layers += [nn.Conv2d(before, after, kernel), nn.ReLU()]
    layers += [{"flat": nn.Identity(), "mean": nn.AdaptiveAvgPool2d(1), "pool": nn.MaxPool2d(2)}[head]]
    with Key.root(5).torch_seed():
        features = nn.Sequential(*layers, nn.Flatten())
        inputs = features(torch.zeros(1, 1, 7, 7)).shape[1]
        network = nn.Sequential(*features, nn.Linear(inputs, 3))
    data = make_data("mlp", SIZES[:6])
    recipe = Recipe(optimizer, batch_size=batch)
    check(network, [own_start(job) for job in make_jobs(network, recipe, data.clients)], data)


class Moving(torch.optim.Optimizer):
    def __init__(
        self, parameters: Sequence[torch.Tensor], move: Callable[[torch.Tensor], torch.Tensor]
    ) -> None:
        super().__init__(parameters, {"lr": 0.0})
        self.move = move

    def step(self, closure: None = None) -> None:  # type: ignore[override]
        for group in self.param_groups:
            for p in group["params"]:
                p.sub_(self.move(p.grad), alpha=group["lr"])


@dataclass(frozen=True)
class Tanh(Optimizer):
    """Somebody's optimiser, with a function that rounds differently at a tensor's end."""

    lr: float = 0.05
    name: ClassVar[str] = "tanh"

    def make(self, parameters: Sequence[torch.Tensor]) -> torch.optim.Optimizer:
        return Moving(parameters, lambda g: torch.tanh(3 * g).exp_().sub_(1))


class Mixing(Tanh):
    """Worse: its rows meet."""

    name: ClassVar[str] = "mixing"

    def make(self, parameters: Sequence[torch.Tensor]) -> torch.optim.Optimizer:
        return Moving(parameters, lambda g: g - g.mean(0, keepdim=True))


class Counting(Tanh):
    """It decays what has two axes or more: on a stack, everything."""

    name: ClassVar[str] = "counting"

    def make(self, parameters: Sequence[torch.Tensor]) -> torch.optim.Optimizer:
        decay = [{"params": [p], "weight_decay": 0.1 if p.dim() > 1 else 0.0} for p in parameters]
        return torch.optim.SGD(decay)


@pytest.mark.parametrize("optimizer", [Tanh(), Mixing(), Counting()], ids=["tanh", "mixing", "counting"])
def test_an_optimiser_from_outside_is_tried_before_it_trains_a_stack(optimizer: Optimizer) -> None:
    network, data = make_model("mlp"), make_data("mlp")
    jobs = make_jobs(network, Recipe(optimizer, batch_size=4), data.clients)
    check(network, [own_start(job) for job in jobs], data)


@pytest.mark.parametrize("optimizer", [Mixing(), Counting()], ids=["mixing", "counting"])
def test_an_optimiser_that_treats_a_stack_otherwise_trains_each_job_alone(optimizer: Optimizer) -> None:
    network, data = make_model("mlp"), make_data("mlp")
    jobs = make_jobs(network, Recipe(optimizer, batch_size=4), data.clients)
    engine = StackedEngine(network, threads=1)
    alone = LoopEngine(network, threads=1).train(jobs, data)
    assert all(a.weights.equal(b.weights) for a, b in zip(engine.train(jobs, data), alone, strict=True))
    assert engine.describe()["path"] == "loop"
    with pytest.raises(ConfigError, match=optimizer.name):
        StackedEngine(network, threads=1, path="vmap").train(jobs, data)
