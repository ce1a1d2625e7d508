"""Every field of the recipe counts on every path, or the path is not taken for it."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from functools import cache

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from engine_worlds import make_data, make_jobs, make_model, same
from unknot.core.errors import ConfigError
from unknot.core.jobs import Update
from unknot.core.loss import CrossEntropy
from unknot.core.training import SGD, Cosine, Recipe, RMSprop, StepDecay, only_adds
from unknot.core.weights import Weights
from unknot.engine import LoopEngine, StackedEngine


class Own:
    """A loss of one's own, whose name is the same everywhere."""

    def __call__(self, outputs: Tensor, targets: Tensor) -> Tensor:
        return outputs.square().mean(1)

    def __repr__(self) -> str:
        return "own"


BASE = Recipe(SGD(0.1), epochs=2, batch_size=4)
EXAMPLES = {
    "optimizer": [SGD(0.05), SGD(0.1, weight_decay=0.2), SGD(0.1, momentum=0.9), RMSprop(0.01)],
    "epochs": [1],
    "loss": [CrossEntropy(smoothing=0.2), Own()],
    "batch_size": [3],
    "clip": [0.1],
    "proximal": [0.7],
    "max_steps": [1],
    "schedule": [Cosine(5), StepDecay(2, 0.5, over="rounds")],
    "radius": [0.05],
    "ascent": [True],
}
CASES = [(name, value) for name, values in EXAMPLES.items() for value in values]
PATHS = ["fused", "batched", "vmap", "loop", "oracle"]
SIZES = (7, 12)  # a smaller last batch; whole batches
ROUND = 3


@cache  # many cases ask for the usual recipe, and for what the loop gives
def train(path: str, recipe: Recipe, model: str = "mlp") -> list[Update] | None:
    """What two clients train on a path; None where the path is not taken for this recipe."""
    network, dtype = make_model(model), torch.float32 if model == "lenet" else torch.float64
    data = make_data(model, SIZES).cast(dtype)
    jobs = [replace(job, version=ROUND) for job in make_jobs(network, recipe, [0, 1], dtype)]
    if path == "oracle":
        return LoopEngine(network, dtype=dtype, threads=1).train(jobs, data)
    engine = StackedEngine(network, dtype=dtype, threads=1, path=path)
    if path == "fused" and only_adds(recipe) is None:
        with pytest.raises(ConfigError, match="only add the gradient"):
            engine.train(jobs, data)
        return None
    return engine.train(jobs, data)


def counts(path: str, recipe: Recipe, model: str = "mlp") -> bool:
    """Whether a path does something else for this recipe than for the usual one, or is not taken for it."""
    given, usual = train(path, recipe, model), train(path, BASE, model)
    return given is None or not any(same(a, b) for a, b in zip(given, usual or (), strict=True))


def test_every_field_has_an_example():
    for field in fields(Recipe):
        assert field.name in EXAMPLES, f"add values of Recipe.{field.name} to EXAMPLES in {__file__}"
        assert all(value != getattr(BASE, field.name) for value in EXAMPLES[field.name])


@pytest.mark.parametrize(("name", "value"), CASES, ids=str)
@pytest.mark.parametrize("path", PATHS)
def test_a_field_counts_and_gives_what_it_gives_in_the_loop(path, name, value):
    recipe = replace(BASE, **{name: value})
    assert counts(path, recipe), f"Recipe.{name} = {value!r} changes nothing on the path {path!r}"
    for given, expected in zip(train(path, recipe) or (), train("oracle", recipe) or (), strict=False):
        assert torch.allclose(given.weights.vector, expected.weights.vector, rtol=0, atol=1e-9)


@pytest.mark.parametrize(("name", "value"), CASES, ids=str)
def test_a_field_counts_for_convolutions_written_out_by_hand(name, value):
    assert counts("fused", replace(BASE, **{name: value}), "lenet")


@dataclass(frozen=True)
class Wider(Recipe):
    """A recipe with a field that nothing looks at."""

    forgotten: float = 0.0


def test_a_field_that_a_path_ignores_would_be_found():
    recipe = Wider(BASE.optimizer, BASE.epochs, BASE.batch_size, forgotten=1.0)
    assert {path: counts(path, recipe) for path in PATHS} == {
        "fused": True,  # is not taken for what it does not know
        "batched": False,
        "vmap": False,
        "loop": False,
        "oracle": False,
    }


@pytest.mark.parametrize("engine", [LoopEngine, StackedEngine])
def test_jobs_of_other_rounds_have_their_own_rates_whatever_the_company(engine):
    """Three rounds in one call, as in an asynchronous run: each job ends where it ends alone."""
    network, data = make_model("mlp"), make_data("mlp")
    recipe = replace(BASE, schedule=Cosine(4, over="rounds"))
    jobs = make_jobs(network, recipe, [0, 2, 3, 4, 6, 8])
    jobs = [replace(job, version=place % 3) for place, job in enumerate(jobs)]
    together = engine(network).train(jobs, data)
    assert all(same(update, engine(network).train([update.job], data)[0]) for update in together)
    slower = replace(jobs[1], version=3)
    assert not same(together[1], engine(network).train([slower], data)[0])


@pytest.mark.parametrize("path", ["fused", "batched", "vmap", "loop", "oracle"])
def test_a_rate_over_rounds_is_that_optimisers_rate(path):
    halved = train(path, replace(BASE, schedule=StepDecay(ROUND, 0.5, over="rounds")))
    assert all(map(same, halved or (), train(path, replace(BASE, optimizer=SGD(0.05))) or ()))


@pytest.mark.parametrize("clip", [None, 0.5])
@pytest.mark.parametrize("engine", [LoopEngine, StackedEngine])
def test_projected_gradient_ascent_is_the_plain_loop(engine, clip):
    """Halimi et al. (2022), written out: climb the loss, then back into the ball about the start."""
    network, data = make_model("lenet").double(), make_data("lenet", (10,)).cast(torch.float64)
    recipe = Recipe(
        SGD(0.2, momentum=0.9), epochs=3, batch_size=4, clip=clip, radius=0.3, ascent=True, schedule=Cosine(9)
    )
    (job,) = make_jobs(network, recipe, [0], torch.float64)
    (update,) = engine(network, dtype=torch.float64).train([job], data)

    start = [p.detach().clone() for p in network.parameters()]
    optimizer = torch.optim.SGD(network.parameters(), 0.2, momentum=0.9)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 9)
    shard, projected, losses = data[0], 0, []
    for epoch in range(3):
        order = shard.rows[job.key.child("epoch", epoch).order(shard.ids)]
        for rows in (order[:4], order[4:8], order[8:]):
            each = F.cross_entropy(network(data.train.x[rows]), data.train.y[rows], reduction="none")
            losses += each.tolist()
            optimizer.zero_grad()
            (-each.mean()).backward()
            if clip is not None:
                torch.nn.utils.clip_grad_norm_(network.parameters(), clip)
            optimizer.step()
            schedule.step()
            with torch.no_grad():
                away = torch.cat(
                    [(p - s).flatten() for p, s in zip(network.parameters(), start, strict=True)]
                )
                if away.norm() > 0.3:
                    projected += 1
                    for p, s in zip(network.parameters(), start, strict=True):
                        p.copy_(s + (p - s) * 0.3 / away.norm())
    assert 0 < projected < 9  # steps of both kinds
    assert sum(losses[-10:]) > sum(losses[:10])  # it does climb
    assert torch.allclose(update.weights.vector, Weights.of(network).vector, rtol=0, atol=1e-12)
    assert update.loss == pytest.approx(sum(losses) / 30, rel=1e-12)


SCHEDULED = [
    (Cosine(9), lambda o: torch.optim.lr_scheduler.CosineAnnealingLR(o, 9)),
    (StepDecay(2, 0.5), lambda o: torch.optim.lr_scheduler.StepLR(o, 2, 0.5)),
]


@pytest.mark.parametrize(("schedule", "build"), SCHEDULED, ids=["cosine", "step"])
@pytest.mark.parametrize("engine", [LoopEngine, StackedEngine])
def test_a_schedule_over_steps_is_torchs_scheduler(engine, schedule, build):
    network, data = make_model("mlp").double(), make_data("mlp", (10,)).cast(torch.float64)
    recipe = Recipe(RMSprop(0.01, momentum=0.5, centered=True), epochs=2, batch_size=4, schedule=schedule)
    (job,) = make_jobs(network, recipe, [0], torch.float64)
    (update,) = engine(network, dtype=torch.float64).train([job], data)

    optimizer = torch.optim.RMSprop(network.parameters(), 0.01, momentum=0.5, centered=True)
    scheduler = build(optimizer)
    shard = data[0]
    for epoch in range(2):
        order = shard.rows[job.key.child("epoch", epoch).order(shard.ids)]
        for rows in (order[:4], order[4:8], order[8:]):
            optimizer.zero_grad()
            F.cross_entropy(network(data.train.x[rows]), data.train.y[rows]).backward()
            optimizer.step()
            scheduler.step()
    assert torch.allclose(update.weights.vector, Weights.of(network).vector, rtol=0, atol=1e-11)
