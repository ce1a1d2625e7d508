"""Can a model be trained exactly, and do all ways to train it agree?"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence

import torch
from torch import nn

from unknot.core.data import FederatedData
from unknot.core.errors import ConfigError
from unknot.core.jobs import Engine, Job, Update
from unknot.core.keys import Key
from unknot.core.lineage import Unit
from unknot.core.training import SGD, Adam, Recipe
from unknot.core.weights import Weights
from unknot.engine import LoopEngine, StackedEngine
from unknot.models import build
from unknot.testing.report import Checks, Report
from unknot.testing.worlds import small_data

RECIPES = (Recipe(SGD(0.1), batch_size=4), Recipe(Adam(0.01, eps=1e-3), epochs=2, batch_size=4, clip=1.0))
PATHS = ("fused", "batched", "vmap")


def check_model(
    model: str | nn.Module | Callable[[], nn.Module],
    data: FederatedData | None = None,
    recipes: Sequence[Recipe] = RECIPES,
    tolerance: float = 1e-9,
) -> Report:
    """Have an engine examine a model, and train it by every way there is, on some samples of the data.

    The result must depend on parameters and input alone; every way that the model allows ends where the
    plain loop ends, in double precision; and a client's result has the same bits alone, in company, in
    another order and in smaller stacks. The notes say which ways there are, and why the others are not.
    """
    given = data or small_data()
    checks = Checks(f"model {model if isinstance(model, str) else getattr(model, '__name__', 'given')}")
    with checks.during("it can be made and examined"):
        network = made(model, given)
        again = made(model, given)
        LoopEngine(network).examine(given.train)
    checks.hold(
        "it is drawn from the seed",
        Weights.of(network).equal(Weights.of(again)),
        "made twice with PyTorch's generator in the same state, it starts from other weights",
    )
    for recipe in recipes:
        with checks.during(f"it can be trained by {type(recipe.optimizer).__name__}"):
            ways_agree(checks, network, given, recipe, tolerance)
            company_changes_nothing(checks, network, given, recipe)
    return checks.report()


def made(model: str | nn.Module | Callable[[], nn.Module], data: FederatedData) -> nn.Module:
    """A model for this data, drawn from a fixed key."""
    if isinstance(model, nn.Module):
        return model
    with Key.root(0).child("check model").torch_seed():
        if isinstance(model, str):
            return build(model, tuple(data.train.x.shape[1:]), data.train.classes)
        return model()


def _jobs(network: nn.Module, data: FederatedData, recipe: Recipe, dtype: torch.dtype) -> list[Job]:
    """A job a client, each from weights of its own."""
    start, key, jobs = Weights.of(network).to(dtype=dtype), Key.root(0).child("check model"), []
    for client in data.clients:
        drawn = torch.from_numpy(key.child("start", client).generator().standard_normal(start.layout.size))
        moved = start.like(start.vector + 0.05 * drawn.to(dtype))
        jobs.append(Job(Unit(client), moved, key.child("train", client), recipe))
    return jobs


def ways_agree(
    checks: Checks, network: nn.Module, data: FederatedData, recipe: Recipe, tolerance: float
) -> None:
    """Every way to train that the model and the recipe allow ends where the loop ends."""
    cast, jobs = data.cast(torch.float64), _jobs(network, data, recipe, torch.float64)
    plain = LoopEngine(network, dtype=torch.float64, threads=1).train(jobs, cast)
    ways: dict[str, str] = {}
    for path in PATHS:
        try:
            with (
                warnings.catch_warnings()
            ):  # that a way is slow is no matter here: the engine would not take it
                warnings.simplefilter("ignore", UserWarning)
                fast = StackedEngine(network, dtype=torch.float64, threads=1, path=path).train(jobs, cast)
        except ConfigError as error:
            ways[path] = f"no: {error}"
            continue
        far = max(_distance(a, b) for a, b in zip(fast, plain, strict=True))
        checks.hold(
            f"{path} ends where the loop ends, with {type(recipe.optimizer).__name__}",
            far <= tolerance,
            f"in double precision they are {far:.3g} of the largest weight apart",
        )
        ways[path] = "yes"
    checks.notes[f"ways, with {type(recipe.optimizer).__name__}"] = ways


def company_changes_nothing(checks: Checks, network: nn.Module, data: FederatedData, recipe: Recipe) -> None:
    jobs = _jobs(network, data, recipe, torch.float32)
    engine: Engine = StackedEngine(network, threads=1)
    alone = {job.client: engine.train([job], data)[0] for job in jobs}
    for about, rows, order in (("in company", 10, jobs), ("in small stacks, backwards", 2, jobs[::-1])):
        for update in StackedEngine(network, threads=1, rows=rows).train(order, data):
            checks.hold(
                f"a client's result is the same alone and {about}, with {type(recipe.optimizer).__name__}",
                update.weights.equal(alone[update.client].weights),
                f"client {update.client}'s bits depend on who else is trained",
            )


def _distance(one: Update, other: Update) -> float:
    largest = float(other.weights.vector.abs().max())
    return float((one.weights.vector - other.weights.vector).abs().max()) / largest
