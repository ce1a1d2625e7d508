"""The stacked engine's manners: paths, chunks, what it refuses, what it leaves alone."""

from __future__ import annotations

import math
import threading
from dataclasses import replace

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from engine_worlds import PATHS, RECIPES, make_data, make_jobs, make_model, own_start, same
from support import grid
from unknot.core.data import FederatedData, Samples, Shard
from unknot.core.errors import ConfigError, ErasedDataError
from unknot.core.lineage import Lineage, Unit
from unknot.core.training import SGD, Adam, Recipe
from unknot.core.weights import Weights
from unknot.engine import ENGINES, LoopEngine, StackedEngine, make_engine
from unknot.engine.bits.made import Form
from unknot.engine.ways import kinds
from unknot.engine.ways.stack import Stacking

BOTH = [LoopEngine, StackedEngine]


@pytest.mark.parametrize(("model", "path"), PATHS.items())
def test_the_path_is_chosen_by_the_model_and_reported_with_its_reason(model, path):
    network, data = make_model(model), make_data(model)
    engine = StackedEngine(network)
    engine.train(make_jobs(network, RECIPES["sgd"], [0, 1]), data)
    described = engine.describe()
    assert described["path"] == path
    assert len(str(described["reason"])) > len(path) + 5


def test_the_path_follows_the_optimiser():
    network, data = make_model("mlp"), make_data("mlp")
    engine = StackedEngine(network)
    engine.train(make_jobs(network, Recipe(Adam(0.01), batch_size=4), [0]), data)
    assert engine.describe()["path"] == "batched"


def test_the_reason_names_what_has_no_rule():
    reason = str(StackedEngine(make_model("vmap")).describe()["reason"])
    assert "mish" in reason


def test_a_model_is_told_shortly_that_it_is_no_chain():
    reason = str(StackedEngine(make_model("text")).describe()["reason"])
    assert reason.endswith("; not fused: it is no chain of Linear and ReLU (or Tanh)")
    frozen = make_model("mlp")
    next(frozen.parameters()).requires_grad_(False)
    assert str(StackedEngine(frozen).describe()["reason"]).endswith("; not fused: some of it is frozen")


def test_large_convolutions_go_one_at_a_time_on_a_cpu():
    network = nn.Sequential(nn.Conv2d(128, 128, 3), nn.Flatten(), nn.Linear(128, 2))
    assert StackedEngine(network).describe()["path"] == "loop"


@pytest.mark.parametrize(
    ("model", "path", "said"),
    [
        ("norm", "fused", "chains of Conv2d"),
        ("vmap", "batched", "no batched rule"),
        ("mlp", "fuse", "'fused'"),
    ],
)
def test_a_path_that_cannot_be_taken_is_refused(model, path, said):
    with pytest.raises(ConfigError, match=said):
        StackedEngine(make_model(model), path=path)


def test_a_forced_path_is_refused_when_the_recipe_does_not_allow_it():
    network, data = make_model("mlp"), make_data("mlp")
    with pytest.raises(ConfigError, match="without momentum"):
        StackedEngine(network, path="fused").train(make_jobs(network, RECIPES["adam"], [0]), data)
    branching = make_model("loop")
    with pytest.raises(ConfigError, match="'vmap' cannot run"):
        StackedEngine(branching, path="vmap").train(make_jobs(branching, RECIPES["sgd"], [0]), data)


@pytest.mark.parametrize("model", ["mlp", "lenet", "text"])
def test_a_cohort_over_the_memory_budget_is_cut_and_comes_out_the_same(model, monkeypatch):
    network, data = make_model(model), make_data(model)
    jobs = [own_start(job) for job in make_jobs(network, RECIPES["sgd-momentum"], data.clients)]
    widest: list[int] = []
    real = kinds.train_stack

    def watched(program, lessons, *rest, **options):
        widest.append(len(lessons))
        return real(program, lessons, *rest, **options)

    monkeypatch.setattr(kinds, "train_stack", watched)
    whole = StackedEngine(network, threads=1, rows=11).train(jobs, data)
    assert max(widest) == 11
    widest.clear()
    cut = StackedEngine(network, threads=1, rows=11, memory=1).train(jobs, data)
    assert max(widest) == 2  # the least that a stack has, however small the budget
    assert all(map(same, whole, cut))


def test_half_of_the_memory_fits_half_of_the_rows():
    network, data = make_model("lenet"), make_data("lenet")
    engine = StackedEngine(network, threads=1, rows=10)
    engine.train(make_jobs(network, RECIPES["sgd"], [0]), data)
    form = Form.of(data.train)
    rows = list(range(2, 11))
    need = {}
    for memory in range(0, 2**21, 2**10):
        engine.memory = memory
        need.setdefault(engine._fitting(engine._case(RECIPES["sgd"], form))[0], memory)
    assert list(need) == rows
    assert need[10] == pytest.approx(2 * need[5], rel=0.05)


def test_the_order_of_updates_is_that_of_the_jobs_and_lineage_is_kept():
    network, data = make_model("mlp"), make_data("mlp")
    start = Weights.of(network, Lineage([Unit(77)]))
    jobs = make_jobs(network, RECIPES["sgd"], [3, 0, 6, 1], start=start)
    updates = StackedEngine(network, threads=2, rows=2).train(jobs, data)
    assert [update.client for update in updates] == [3, 0, 6, 1]
    assert [update.samples for update in updates] == [4, 7, 16, 1]
    for update, job in zip(updates, jobs, strict=True):
        assert update.lineage == Lineage([Unit(77), Unit(job.client)])


@pytest.mark.parametrize("engine", BOTH)
def test_no_jobs_give_no_updates(engine):
    assert engine(make_model("mlp")).train([], make_data("mlp")) == []


@pytest.mark.parametrize("engine", BOTH)
def test_a_client_without_samples_gives_back_what_it_was_sent(engine):
    network, data = make_model("mlp"), make_data("mlp", (0, 5))
    jobs = make_jobs(network, RECIPES["sgd"], [0, 1])
    nothing, something = engine(network).train(jobs, data)
    assert nothing.weights.equal(jobs[0].start)
    assert nothing.samples == 0
    assert math.isnan(nothing.loss)
    assert nothing.lineage == Lineage([Unit(0)])
    assert not something.weights.equal(jobs[1].start)


@pytest.mark.parametrize(("engine", "model"), grid(BOTH, PATHS))
def test_the_global_generator_is_left_alone(engine, model):
    network, data = make_model(model), make_data(model)
    before = torch.get_rng_state()
    machine = engine(network, threads=1)
    machine.train(make_jobs(network, RECIPES["adahessian"], [0, 1, 2]), data)
    machine.evaluate(Weights.of(network), data.test)
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("engine", BOTH)
def test_the_number_of_threads_is_left_alone(engine, threads):
    network, data = make_model("mlp"), make_data("mlp")
    before, seen = torch.get_num_threads(), []
    machine = engine(network, threads=threads)
    machine.train(make_jobs(network, RECIPES["sgd"], [0, 1, 2]), data)
    machine.evaluate(Weights.of(network), data.test)
    assert torch.get_num_threads() == before
    new = threading.Thread(target=lambda: seen.append(torch.get_num_threads()))
    new.start()
    new.join()
    assert seen == [before]  # threads to come are not bound by what the workers do, either


@pytest.mark.parametrize("engine", BOTH)
def test_the_template_and_the_start_are_not_changed(engine):
    network, data = make_model("lenet"), make_data("lenet")
    (job,) = make_jobs(network, RECIPES["sgd"], [0])
    template, start = Weights.of(network), job.start.vector.clone()
    engine(network).train([job], data)
    assert Weights.of(network).equal(template)
    assert torch.equal(job.start.vector, start)


@pytest.mark.parametrize("engine", BOTH)
def test_the_templates_own_weights_do_not_matter(engine):
    network, data = make_model("mlp"), make_data("mlp")
    (job,) = make_jobs(network, RECIPES["sgd"], [0])
    other = make_model("mlp")
    with torch.no_grad():
        for parameter in other.parameters():
            parameter.fill_(math.nan)
    assert same(engine(network).train([job], data)[0], engine(other).train([job], data)[0])


@pytest.mark.parametrize("engine", BOTH)
def test_an_erased_clients_data_is_out_of_reach(engine):
    network, data = make_model("mlp"), make_data("mlp")
    jobs = make_jobs(network, RECIPES["sgd"], [0, 1])
    data.erase(1)
    with pytest.raises(ErasedDataError, match="client 1"):
        engine(network).train(jobs, data)


@pytest.mark.parametrize("engine", BOTH)
def test_erased_samples_are_not_read(engine):
    """Other numbers in their place change nothing."""
    network, data = make_model("lenet"), make_data("lenet")
    gone = [1, 4, 5]
    rows = data[2].rows[gone]
    x = data.train.x.clone()
    x[rows] = 1e3
    spoiled = data.replaced(train=replace(data.train, x=x))
    jobs = make_jobs(network, RECIPES["sgd"], [2, 0])
    for each in (data, spoiled):
        each.erase(2, gone)
    assert all(map(same, engine(network).train(jobs, data), engine(network).train(jobs, spoiled)))


@pytest.mark.parametrize("engine", BOTH)
def test_batch_norm_is_refused_with_advice(engine):
    with pytest.raises(ConfigError, match=r"'1' is a BatchNorm2d.*GroupNorm"):
        engine(nn.Sequential(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2)))


class HiddenDropout(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(49, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.dropout(self.layer(x.flatten(1)), 0.5, training=True)


class LateDropout(HiddenDropout):
    """It draws once it is given what no made batch has."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return super().forward(x) if x.max() > 1000 else self.layer(x.flatten(1))


@pytest.mark.parametrize("model", [HiddenDropout, LateDropout])
@pytest.mark.parametrize("engine", BOTH)
def test_a_model_that_draws_in_secret_is_found_out(engine, model):
    network, data = model(), make_data("mlp")
    data.train.x[:, 0, 0, 0] = 2000.0
    before = torch.get_rng_state()
    with pytest.raises(ConfigError, match="global generator"):
        engine(network).train(make_jobs(network, RECIPES["sgd"], [0]), data)
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize("engine", BOTH)
def test_weights_of_another_model_are_refused(engine):
    data = make_data("mlp")
    jobs = make_jobs(make_model("lenet"), RECIPES["sgd"], [0])
    with pytest.raises(ConfigError, match=r"client 0.*another model.*unknown"):
        engine(make_model("mlp")).train(jobs, data)


@pytest.mark.parametrize("engine", BOTH)
@pytest.mark.parametrize("model", ["lenet", "vmap"])
def test_frozen_parameters_stay(engine, model):
    network, data = make_model(model), make_data(model)
    first = next(iter(dict(network.named_parameters())))
    network.get_parameter(first).requires_grad_(False)
    (job,) = make_jobs(network, RECIPES["sgd-momentum"], [0])
    before = network.get_parameter(first).clone()
    (update,) = engine(network).train([job], data)
    assert first not in update.weights.layout.names
    assert torch.equal(update.weights.load_into(network).get_parameter(first), before)
    for name, start in job.start.tensors.items():
        assert not torch.equal(update.weights[name], start)


@pytest.mark.parametrize("engine", BOTH)
def test_a_failure_in_one_stack_is_the_callers_to_see(engine):
    network = make_model("mlp")
    samples = Samples(torch.zeros(4, 1, 5, 5), torch.zeros(4, dtype=torch.long), 3)
    data = FederatedData(samples, {0: Shard.of([0, 1]), 1: Shard.of([2, 3])}, samples)
    with pytest.raises((ConfigError, RuntimeError), match=r"features|shapes|size"):
        engine(network, threads=2).train(make_jobs(network, RECIPES["sgd"], [0, 1]), data)


@pytest.mark.parametrize("engine", BOTH)
def test_evaluation_counts_what_is_right(engine):
    """By hand: logits x and 0 for x in −3…4: class 0 is chosen for x ≥ 0 (a tie takes the first)."""
    network = nn.Linear(1, 2)
    weights = Weights(torch.tensor([1.0, 0.0, 0.0, 0.0]), Weights.of(network).layout)
    x = torch.arange(-3.0, 5.0).unsqueeze(1)
    score = engine(network).evaluate(weights, Samples(x, torch.zeros(8, dtype=torch.long), 2))
    assert score.accuracy == 5 / 8
    assert score.samples == 8
    assert score.loss == pytest.approx(sum(math.log1p(math.exp(-v)) for v in range(-3, 5)) / 8, rel=1e-6)


@pytest.mark.parametrize("engine", BOTH)
def test_evaluation_of_texts_counts_positions(engine):
    network, data = make_model("text"), make_data("text")
    score = engine(network).evaluate(Weights.of(network), data.test)
    logits = network(data.test.x)
    assert score.accuracy == pytest.approx((logits.argmax(-1) == data.test.y).double().mean().item())
    expected = F.cross_entropy(logits.flatten(0, 1), data.test.y.flatten()).item()
    assert score.loss == pytest.approx(expected, rel=1e-5)


def test_threads_change_no_bit_of_a_score():
    network, data = make_model("lenet"), make_data("lenet", (1500,))
    one, two = (StackedEngine(network, threads=n).evaluate(Weights.of(network), data.test) for n in (1, 2))
    assert one == two


@pytest.mark.parametrize("engine", BOTH)
def test_there_is_no_score_without_samples(engine):
    network, data = make_model("mlp"), make_data("mlp")
    with pytest.raises(ConfigError, match="no samples"):
        engine(network).evaluate(Weights.of(network), data.test.subset([]))


def test_engines_are_made_by_name():
    for name, kind in ENGINES.items():
        if name == "ray":
            continue  # begins processes: see test_ray
        engine = make_engine(name, make_model("mlp"), threads=1)
        assert isinstance(engine, kind)
        assert engine.name == engine.describe()["engine"] == name


@pytest.mark.parametrize(
    ("name", "options", "said"),
    [
        ("staked", {}, "'stacked'"),
        ("loop", {"path": "auto"}, "no option 'path'"),
        ("stacked", {"thread": 2}, "'threads'"),
        ("stacked", {"threads": 0}, "at least 1"),
        ("stacked", {"memory": 0}, "bytes"),
        ("stacked", {"rows": 0}, "rows"),
    ],
)
def test_a_setting_that_is_wrong_is_named(name, options, said):
    with pytest.raises(ConfigError, match=said):
        make_engine(name, make_model("mlp"), **options)


def test_a_setting_finds_the_next_number_of_rows():
    layout = Weights.of(make_model("mlp")).layout
    setting = Stacking(layout, torch.device("cpu"), torch.float32, (2, 4, 5))
    assert [setting.width(active) for active in (1, 2, 3, 4, 5)] == [2, 2, 4, 4, 5]


def test_a_number_of_rows_that_changes_bits_is_not_used(monkeypatch):
    """A path whose third row leans on its neighbours: stacks of three and more are given up."""
    network, data = make_model("mlp"), make_data("mlp", (8,) * 6)
    real, widths = kinds.train_fused, []

    def leaning(chain, lessons, samples, setting, stop):
        results = real(chain, lessons, samples, setting, stop)
        widths.append(setting.width(len(lessons)))
        if widths[-1] < 3:
            return results
        lesson, update = results[2]
        results[2] = lesson, lesson.job.done(update.weights.vector + 1e-3, update.samples, update.loss)
        return results

    monkeypatch.setattr(kinds, "train_fused", leaning)
    jobs = make_jobs(network, RECIPES["sgd"], data.clients)
    engine = StackedEngine(network, threads=1)
    given = engine.train(jobs, data)
    assert set(widths[-3:]) == {2}
    assert engine.describe()["rows_refused"] == list(range(3, 11))
    monkeypatch.undo()
    assert all(map(same, given, StackedEngine(network, threads=1).train(jobs, data)))


def test_a_path_that_never_keeps_rows_apart_is_given_up(monkeypatch):
    network, data = make_model("mlp"), make_data("mlp")
    real, calls = kinds.train_fused, []

    def leaning(chain, lessons, samples, setting, stop):
        calls.append(1)
        results = real(chain, lessons, samples, setting, stop)
        lesson, update = results[0]
        shifted = update.weights.vector + 1e-6 * len(calls)
        return [(lesson, lesson.job.done(shifted, update.samples, update.loss)), *results[1:]]

    monkeypatch.setattr(kinds, "train_fused", leaning)
    engine = StackedEngine(network, threads=1)
    jobs = make_jobs(network, Recipe(SGD(0.1), batch_size=4), [0, 1])
    given = engine.train(jobs, data)
    assert "batched" in str(engine.describe()["path"])
    assert all(map(same, given, StackedEngine(network, path="batched").train(jobs, data)))


def test_engines_may_be_made_in_one_thread_while_another_trains_or_evaluates():
    """Tracing a model changes what calling any module does, for the whole process."""
    network, other, data = make_model("mlp"), make_model("lenet"), make_data("mlp")
    engine, jobs = LoopEngine(network, threads=1), make_jobs(network, RECIPES["sgd"], [0, 1])
    before, score, going, found = (
        engine.train(jobs, data),
        engine.evaluate(Weights.of(network), data.test),
        True,
        [],
    )

    def work():
        while going:
            try:
                assert all(map(same, engine.train(jobs, data), before))
                assert engine.evaluate(Weights.of(network), data.test) == score
            except Exception as error:
                found.append(error)

    def make():
        try:
            for _ in range(8):
                StackedEngine(other, threads=1)
        except Exception as error:
            found.append(error)

    makers, worker = [threading.Thread(target=make) for _ in range(2)], threading.Thread(target=work)
    for thread in (worker, *makers):
        thread.start()
    for thread in makers:
        thread.join()
    going = False
    worker.join()
    assert not found
