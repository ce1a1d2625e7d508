"""What holds on the CPU holds on a GPU. Skipped where there is none."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch
from torch import Tensor, nn

import unknot
from engine_worlds import PATHS, RECIPES, make_data, make_jobs, make_model, own_start, same
from exactness import assert_as_if_never_there, assert_no_interference
from task_worlds import TASKS
from unknot.core.ensemble import Ensemble
from unknot.core.errors import ConfigError
from unknot.core.keys import Key
from unknot.core.weights import Weights
from unknot.engine import LoopEngine, StackedEngine
from unknot.engine.gpus import SeveralGpus
from unknot.federation.inspect import finite

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU here")

GPU = "cuda"


@pytest.mark.parametrize("recipe", ["sgd", "sgd-momentum", "adahessian"])
@pytest.mark.parametrize("model", PATHS)
def test_company_changes_no_bit_on_a_gpu(model: str, recipe: str) -> None:
    network, data = make_model(model), make_data(model)
    engine = StackedEngine(network, device=GPU)
    start = Weights.of(network).to(device=GPU)
    jobs = [own_start(job) for job in make_jobs(network, RECIPES[recipe], data.clients, start=start)]
    alone = [engine.train([job], data)[0] for job in jobs]
    for count in (2, 5, len(jobs)):
        for turn in range(2):
            order = Key.root(turn).order(range(len(jobs)))[:count]
            for i, update in zip(order, engine.train([jobs[i] for i in order], data), strict=True):
                assert same(update, alone[i]), f"client {jobs[i].client} differs among {count}"


@pytest.mark.parametrize("model", ["mlp", "lenet5"])
def test_retraining_from_scratch_is_exact_on_a_gpu(model: str) -> None:
    data = unknot.federate(unknot.load("digits"), unknot.Iid(clients=5, samples=30), validation=100)
    recipe = unknot.Recipe(unknot.SGD(0.1), batch_size=10)

    def open(variant):
        return unknot.simulate(model, variant, "rfs", recipe, device=GPU)

    request = unknot.erase(3, round=2)
    assert_no_interference(open, data, request, rounds=2)
    assert_as_if_never_there(open, data, request, rounds=2)


@pytest.mark.parametrize("model", PATHS)
def test_models_without_hidden_state_pass_on_a_gpu(model: str) -> None:
    for engine in (LoopEngine, StackedEngine):
        engine(make_model(model), device=GPU).examine(make_data(model).train)


class Draws(nn.Module):
    """Noise from the GPU's own generator, or a count of the passes."""

    def __init__(self, noise: bool) -> None:
        super().__init__()
        self.noise, self.passes = noise, 0
        self.layer = nn.Linear(49, 3)

    def forward(self, x: Tensor) -> Tensor:
        x = self.layer(x.flatten(1))
        if self.noise:
            return x + torch.randn(3, device=x.device)
        self.passes += 1
        return x


@pytest.mark.parametrize(("noise", "said"), [(True, "the GPU's global generator"), (False, "'passes'")])
def test_hidden_state_is_refused_on_a_gpu(noise: bool, said: str) -> None:
    before = torch.cuda.get_rng_state()
    for engine in (LoopEngine, StackedEngine):
        with pytest.raises(ConfigError, match=said):
            engine(Draws(noise), device=GPU).examine(make_data("mlp").train)
    assert torch.equal(torch.cuda.get_rng_state(), before)


@pytest.mark.parametrize("model", PATHS)
def test_weights_that_overflow_change_nobodys_bits_on_a_gpu(model: str) -> None:
    network, data = make_model(model), make_data(model)
    start = Weights.of(network).to(device=GPU)
    jobs = [own_start(job) for job in make_jobs(network, RECIPES["sgd"], [0, 2, 5], start=start)]
    expected = StackedEngine(network, device=GPU).train(jobs[:2], data)
    engine = StackedEngine(network, device=GPU)
    wild = replace(jobs[2], start=jobs[2].start * 1e30)
    assert all(map(same, expected, engine.train([*jobs[:2], wild], data)[:2]))
    assert all(map(same, expected, engine.train(jobs[:2], data)))


@pytest.mark.parametrize("recipe", ["sgd", "adahessian"])
@pytest.mark.parametrize("task", [task for task in TASKS if task != "own branching"])
@pytest.mark.parametrize("model", ["mlp", "vmap"])
def test_other_tasks_end_there_too_and_company_changes_no_bit(model: str, task: str, recipe: str) -> None:
    make, loss = TASKS[task]
    network, data, asked = make_model(model), make(model), replace(RECIPES[recipe], loss=loss)
    jobs = [own_start(job) for job in make_jobs(network, asked, range(9), torch.float64)]
    there = [replace(job, start=job.start.to(device=GPU)) for job in jobs]
    stacked = StackedEngine(network, dtype=torch.float64, device=GPU)
    slow = LoopEngine(network, dtype=torch.float64, threads=1).train(jobs, data)
    fast = stacked.train(there, data)
    for a, b in zip(fast, slow, strict=True):
        assert float((a.weights.vector.cpu() - b.weights.vector).abs().max()) < 1e-9
    for some in ([4], [8, 1, 0]):
        for i, update in zip(some, stacked.train([there[i] for i in some], data), strict=True):
            assert same(update, fast[i])


@pytest.mark.parametrize("recipe", ["sgd", "sgd-momentum", "adamw", "adahessian"])
@pytest.mark.parametrize("model", ["mlp", "lenet", "norm", "text", "vmap"])
def test_a_step_that_is_played_from_a_graph_gives_the_bits_of_one_that_is_taken(
    model: str, recipe: str
) -> None:
    """The first time steps are taken as they come, then they are captured, then played."""
    network, data = make_model(model), make_data(model)
    engine = StackedEngine(network, device=GPU)
    start = Weights.of(network).to(device=GPU)
    jobs = [own_start(job) for job in make_jobs(network, RECIPES[recipe], data.clients, start=start)]
    first = engine.train(jobs, data)
    for _ in range(3):
        assert all(map(same, first, engine.train(jobs, data)))
    engine.wipe()
    assert all(map(same, first, engine.train(jobs, data)))
    assert "not captured" not in str(engine.describe()["reason"])


@pytest.mark.parametrize("model", ["mlp", "lenet5"])
def test_a_cohort_of_any_size_leaves_everybodys_bits_alone(model: str) -> None:
    data = unknot.federate(unknot.load("digits"), unknot.Iid(clients=70, samples=20), validation=100)
    network = unknot.models.build(model, tuple(data.train.x.shape[1:]), classes=10)
    engine = StackedEngine(network, device=GPU)
    start = Weights.of(network).to(device=GPU)
    recipe = unknot.Recipe(unknot.SGD(0.1), batch_size=8)
    jobs = [own_start(job) for job in make_jobs(network, recipe, data.clients, start=start)]
    whole = engine.train(jobs, data)
    assert engine.describe()["path"] == "fused"
    for count in (1, 2, 17, 33, 64):
        some = Key.root(count).order(range(len(jobs)))[:count]
        for i, update in zip(some, engine.train([jobs[i] for i in some], data), strict=True):
            assert same(update, whole[i])


@pytest.mark.parametrize("recipe", ["sgd", "sgd-momentum", "adahessian"])
@pytest.mark.parametrize("model", PATHS)
def test_company_repeats_and_graphs_change_no_bit_of_products_in_bfloat16(model: str, recipe: str) -> None:
    network, data = make_model(model), make_data(model)
    engine = StackedEngine(network, device=GPU, precision="bf16")
    start = Weights.of(network).to(device=GPU)
    jobs = [own_start(job) for job in make_jobs(network, RECIPES[recipe], data.clients, start=start)]
    whole = engine.train(jobs, data)
    assert whole[0].weights.vector.dtype == torch.float32
    for _ in range(3):
        assert all(map(same, whole, engine.train(jobs, data)))
    for count in (1, 5):
        some = Key.root(count).order(range(len(jobs)))[:count]
        for i, update in zip(some, engine.train([jobs[i] for i in some], data), strict=True):
            assert same(update, whole[i])
    assert "fused" not in str(engine.describe()["path"])
    if model != "loop":
        assert "not captured" not in str(engine.describe()["reason"])


@pytest.mark.parametrize("model", ["mlp", "norm", "text", "vmap"])
def test_products_in_bfloat16_end_near_full_ones(model: str) -> None:
    """Eight bits of a product are kept: a few steps end within a tenth of what they moved."""
    network, data = make_model(model), make_data(model)
    start = Weights.of(network).to(device=GPU)
    jobs = make_jobs(network, RECIPES["sgd"], data.clients, start=start)
    full = StackedEngine(network, device=GPU).train(jobs, data)
    low = StackedEngine(network, device=GPU, precision="bf16")
    for a, b in zip(low.train(jobs, data), full, strict=True):
        apart, moved = (float((a.weights - w).vector.norm()) for w in (b.weights, start))
        assert 0 < apart < 0.1 * moved
    assert low.evaluate(full[0].weights, data.test).loss == pytest.approx(
        StackedEngine(network, device=GPU).evaluate(full[0].weights, data.test).loss, rel=0.01
    )


@pytest.mark.parametrize("precision", ["float32", "bf16"])
@pytest.mark.parametrize("model", ["mlp", "lenet", "norm", "text", "vmap", "loop"])
def test_models_judged_at_once_are_judged_as_alone_and_alike_every_time(model: str, precision: str) -> None:
    network, data = make_model(model), make_data(model)
    rows = torch.arange(700) % len(data.test)
    samples = replace(data.test, x=data.test.x[rows], y=data.test.y[rows])
    start = Weights.of(network).to(device=GPU)
    weights = [own_start(job).start for job in make_jobs(network, RECIPES["sgd"], range(5), start=start)]
    both = [Ensemble(((1.0, weights[0]), (3.0, weights[1])), vote) for vote in ("mean", "majority")]
    models = [*weights, *both]
    engine = StackedEngine(network, device=GPU, precision=precision)
    whole = engine.evaluate_all(models, samples)
    said = engine.predict_all(models, samples)
    for _ in range(2):
        assert engine.evaluate_all(models, samples) == whole
        assert engine.evaluate_all(models[::-1], samples) == whole[::-1]
        assert [engine.evaluate(one, samples) for one in models] == whole
        assert all(torch.equal(engine.predict(m, samples), s) for m, s in zip(models, said, strict=True))
    fresh = StackedEngine(network, device=GPU, precision=precision)
    assert [fresh.evaluate(one, samples) for one in models] == whole
    engine.wipe()
    assert engine.evaluate_all(models, samples) == whole
    if precision == "float32":
        slow = LoopEngine(network, device=GPU)
        for one, score in zip(models, whole, strict=True):
            assert slow.evaluate(one, samples).loss == pytest.approx(score.loss, rel=1e-12)
            assert slow.evaluate(one, samples).metrics == score.metrics


@pytest.mark.parametrize("model", ["mlp", "norm", "vmap", "vgg"])
def test_two_engines_at_work_from_threads_give_the_bits_of_one(model: str) -> None:
    """Both on the one GPU, or each on one of its own where there are two."""
    data = make_data(model, [3 + i % 9 for i in range(40)])
    network = make_model(model)
    start = Weights.of(network).to(device=GPU)
    jobs = [own_start(job) for job in make_jobs(network, RECIPES["sgd"], data.clients, start=start)]
    jobs += make_jobs(network, RECIPES["sgd-momentum"], data.clients, start=start)
    one = StackedEngine(network, device="cuda:0")
    whole = one.train(jobs, data)
    models = [update.weights for update in whole[:5]]
    for devices in (["cuda:0", "cuda:0"], [f"cuda:{i}" for i in range(torch.cuda.device_count())]):
        several = SeveralGpus(network, devices)
        for _ in range(3):
            together = several.train(jobs, data)
            assert all(map(same, whole, together))
            assert {update.weights.vector.device for update in together} == {torch.device("cuda:0")}
            assert several.evaluate_all(models, data.test) == one.evaluate_all(models, data.test)
        several.wipe()
        assert all(map(same, whole, several.train(jobs, data)))


def test_what_is_no_number_is_found_on_a_gpu_in_one_go() -> None:
    vectors = [torch.ones(1000, device=GPU) for _ in range(6)]
    vectors[1][7], vectors[3][999], vectors[4][0] = math.nan, math.inf, -math.inf
    vectors[5] *= 3e38
    assert finite(vectors) == [True, False, True, False, False, True]
