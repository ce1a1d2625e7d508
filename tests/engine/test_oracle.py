"""The stacked engine gives what the loop gives, for every model and optimiser, over chained rounds."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch

from engine_worlds import PATHS, RECIPES, in_short, make_data, make_jobs, make_model, mean
from unknot.core.jobs import Update
from unknot.core.weights import Weights
from unknot.engine import LoopEngine, StackedEngine

SIZES = (6, 1, 4)  # a smaller last batch; one sample; a whole batch
SINGLE = {("mlp", "sgd-momentum"), ("lenet", "sgd"), ("norm", "sgd"), ("text", "sgd"), ("vmap", "sgd")}
TOLERANCE = {torch.float64: 1e-9, torch.float32: 1e-4}


def cases() -> Iterator[object]:
    """In single precision, which double precision covers, a model a way; the rest when there is time."""
    for model in PATHS:
        for recipe in RECIPES:
            for name, dtype in (("f64", torch.float64), ("f32", torch.float32)):
                short = in_short(model, recipe) if name == "f64" else (model, recipe) in SINGLE
                marks = [] if short else [pytest.mark.slow]
                if model != "loop":
                    yield pytest.param(model, recipe, dtype, id=f"{model}-{recipe}-{name}", marks=marks)


def ten_rounds(engine: LoopEngine | StackedEngine, model: str, recipe: str) -> tuple[Weights, list[Update]]:
    """Where ten rounds end, each one's mean being the next one's start, and the last round's updates."""
    network, data = make_model(model), make_data(model, SIZES)
    weights, updates = Weights.of(network).to(dtype=engine.dtype), list[Update]()
    for round in range(10):
        jobs = make_jobs(network, RECIPES[recipe], data.clients, round=round, start=weights)
        updates = engine.train(jobs, data)
        weights = mean(updates)
    return weights, updates


def distance(a: Weights, b: Weights) -> float:
    """The largest difference, in units of the largest weight."""
    return float((a.vector.double() - b.vector.double()).abs().max() / b.vector.abs().max())


@pytest.mark.parametrize(("model", "recipe", "dtype"), list(cases()))
def test_ten_rounds_end_where_the_loop_ends(model: str, recipe: str, dtype: torch.dtype) -> None:
    network = make_model(model)
    slow, expected = ten_rounds(LoopEngine(network, dtype=dtype, threads=1), model, recipe)
    fast, given = ten_rounds(StackedEngine(network, dtype=dtype, threads=2), model, recipe)
    assert distance(slow, Weights.of(network)) > 0.02  # it did learn something
    if dtype == torch.float32 and distance(fast, slow) > TOLERANCE[dtype]:
        # Two numbers of a max pool that agree to 1e-7: the one run takes the one, the other the other,
        # and they part. Then it must be the loop in single precision that parts from the true course.
        slow, expected = ten_rounds(LoopEngine(network, dtype=torch.float64, threads=1), model, recipe)
    assert distance(fast, slow) <= TOLERANCE[dtype]
    for a, b in zip(expected, given, strict=True):
        assert b.loss == pytest.approx(a.loss, rel=TOLERANCE[dtype])
        assert b.samples == a.samples
        assert b.lineage == a.lineage
