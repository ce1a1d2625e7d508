"""One client's numbers overflow: nobody else's result changes by a bit, together with it or after it."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial

import pytest
import torch
from torch import Tensor, nn

from engine_worlds import RECIPES, make_data, make_jobs, make_model, own_start, past_the_door, same
from support import grid
from unknot.core.data import FederatedData, Samples
from unknot.core.errors import ConfigError
from unknot.core.jobs import Job, Update
from unknot.core.keys import Key
from unknot.core.training import SGD, AdaHessian, Recipe
from unknot.engine import LoopEngine, StackedEngine
from unknot.engine.bits.made import Form, Maker
from unknot.engine.bits.trial import try_widths
from unknot.engine.ways import kinds
from unknot.engine.ways.fused import train_fused
from unknot.models import build

WILD = 4
CLIENTS = (0, 2, 5, 6, 8, WILD)
DIVERGING = Recipe(SGD(1e3), epochs=3, batch_size=4)


def features(data: FederatedData, change) -> FederatedData:
    """The same with the wild client's features changed."""
    x = data.train.x.clone()
    rows = torch.from_numpy(data[WILD].rows)
    x[rows] = change(x[rows])
    return past_the_door(data, replace(data.train, x=x))


def one_each(value: float, x: Tensor) -> Tensor:
    x.view(len(x), -1)[:, 3] = value
    return x


def huge_start(job: Job) -> Job:
    return replace(job, start=job.start * 1e30) if job.client == WILD else job


WILDNESS = {
    "features x 1e20": lambda data: features(data, lambda x: x * 1e20),
    "one infinite": lambda data: features(data, partial(one_each, math.inf)),
    "one NaN": lambda data: features(data, partial(one_each, math.nan)),
}


class LayerNormed(nn.Module):
    """Behind a LayerNorm, what is too large gives no number but 0/0."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(49)
        self.hidden = nn.Linear(49, 13)
        self.last = nn.Linear(13, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.last(torch.relu(self.hidden(self.norm(x.flatten(1)))))


def network_of(name: str) -> nn.Module:
    if name == "gpt":
        with Key.root(1).torch_seed():
            return build("gpt", (6,), 13, layers=1, heads=2, width=10)
    if name == "layernorm":
        with Key.root(1).torch_seed():
            return LayerNormed()
    return make_model(name)


def data_of(name: str) -> FederatedData:
    return make_data("text" if name == "gpt" else name)


MODELS = [
    ("mlp", "fused", "sgd"),
    ("tanh", "fused", "sgd-decay"),
    ("lenet", "fused", "sgd"),
    ("mlp", "batched", "sgd-clip"),
    ("layernorm", "batched", "adam"),
    ("lenet", "batched", "sgd-momentum"),
    ("norm", "batched", "sgd-momentum"),
    ("residual", "batched", "adahessian"),
    ("text", "batched", "sgd-proximal"),
    ("gpt", "batched", "sgd"),
    ("vmap", "vmap", "sgd"),
    ("loop", "loop", "sgd"),
]


def same_but_for_which_nan(one: Update, other: Update) -> bool:
    """Bit for bit, save that what is not a number may be another such: an older torch has several.

    An update with one of them is set aside, so that no model ever has it.
    """
    here, there = (update.weights.vector for update in (one, other))
    numbers = ~here.isnan()
    return torch.equal(numbers, ~there.isnan()) and bits(here[numbers]) == bits(there[numbers])


def bits(vector: Tensor) -> bytes:
    return vector.numpy().tobytes()


class Meeting:
    """An engine that meets a wild client, beside what one that never met it gives the others."""

    def __init__(self, network: nn.Module, path: str, recipe: Recipe, calm: FederatedData) -> None:
        self.path = path
        self.jobs = [own_start(job) for job in make_jobs(network, recipe, CLIENTS)]
        self.expected = StackedEngine(network, path=path, threads=1).train(self.jobs[:-1], calm)
        self.engine = StackedEngine(network, path=path, threads=1)

    def check(self, wild: FederatedData, spoil=lambda job: job) -> None:
        """The others train with the wild client, and after it."""
        alone = self.engine.train([spoil(self.jobs[-1])], wild)
        together = self.engine.train([spoil(job) for job in self.jobs], wild)
        after = self.engine.train(self.jobs[:-1], wild)
        assert all(map(same, self.expected, together[:-1]))
        assert all(map(same, self.expected, after))
        assert same_but_for_which_nan(alone[0], together[-1])
        assert self.engine.describe()["path"] == self.path


@pytest.mark.parametrize(("name", "path", "recipe"), MODELS)
def test_a_client_whose_numbers_overflow_changes_nobodys_bits(name, path, recipe):
    calm = data_of(name)
    meeting = Meeting(network_of(name), path, RECIPES[recipe], calm)
    meeting.check(calm, huge_start)
    if calm.train.x.is_floating_point():
        for wildness in WILDNESS.values():
            meeting.check(wildness(calm))


@pytest.mark.parametrize("name", ["mlp", "lenet"])
def test_a_rate_at_which_all_diverge_keeps_them_apart(name):
    calm = make_data(name)
    Meeting(make_model(name), "fused", DIVERGING, calm).check(features(calm, lambda x: x * 1000))


@pytest.mark.parametrize("path", ["auto", "fused"])
def test_numbers_that_overflow_neither_end_a_run_nor_give_up_a_path(path):
    network = make_model("mlp")
    wild = WILDNESS["one infinite"](make_data("mlp"))
    engine = StackedEngine(network, path=path, threads=1)
    updates = engine.train(make_jobs(network, RECIPES["sgd"], CLIENTS), wild)
    assert not updates[-1].weights.vector.isfinite().all()
    assert engine.describe()["path"] == "fused"
    assert engine.describe()["rows_refused"] == []


def test_nothing_is_tried_on_anybodys_data(monkeypatch):
    """Whatever a stack trains beside the jobs themselves reads neither their samples nor their weights."""
    network, data = make_model("mlp"), make_data("mlp")
    jobs = make_jobs(network, RECIPES["sgd"], data.clients)
    mine = {id(job) for job in jobs}
    real, tried = kinds.train_fused, []

    def watched(chain, lessons, samples, setting, stop):
        if not all(id(lesson.job) in mine for lesson in lessons):
            tried.append((samples, lessons))
        return real(chain, lessons, samples, setting, stop)

    monkeypatch.setattr(kinds, "train_fused", watched)
    StackedEngine(network, threads=1).train(jobs, data)
    assert tried
    for samples, lessons in tried:
        assert not torch.isin(samples.x, data.train.x).any()
        for lesson in lessons:
            assert id(lesson.job) not in mine
            assert not torch.isin(lesson.job.start.vector, jobs[0].start.vector).any()


@pytest.mark.parametrize("way", [1, -1], ids=["to the next row", "to the row before"])
def test_a_path_on_which_what_is_no_number_spreads_is_given_up(monkeypatch, way):
    network, data = make_model("mlp"), make_data("mlp")
    real = kinds.train_fused

    def spreading(*args):
        results = real(*args)
        finite = [bool(update.weights.vector.isfinite().all()) for _, update in results]
        return [
            (one, one.job.done(u.weights.vector * math.nan, u.samples, u.loss))
            if 0 <= row - way < len(results) and not finite[row - way]
            else (one, u)
            for row, (one, u) in enumerate(results)
        ]

    monkeypatch.setattr(kinds, "train_fused", spreading)
    engine = StackedEngine(network, threads=1)
    engine.train(make_jobs(network, RECIPES["sgd"], [0, 1]), data)
    assert engine.describe()["path"] == "batched"


def test_what_is_found_for_a_number_of_rows_does_not_depend_on_what_else_is_tried():
    """A way to train that lets the ninth row down: small stacks are none the worse for it."""
    network = make_model("mlp")
    engine = StackedEngine(network, threads=1)
    maker = Maker.of(network, Form.of(make_data("mlp").train))

    def leaning(samples, lessons, setting, stop):
        results = train_fused(engine.traits.chain, lessons, samples, setting, stop)
        place = {id(lesson): i for i, lesson in enumerate(lessons)}
        return [
            (
                one,
                one.job.done(u.weights.vector + place[id(one)], u.samples, u.loss)
                if one.job.client == 8
                else u,
            )
            for one, u in results
        ]

    run = partial(engine._run, workers=1)
    found = [
        try_widths(widths, RECIPES["sgd"], maker, engine.setting, leaning, run)
        for widths in ([2], [5], [10], [2, 3, 5, 10])
    ]
    assert found[:3] == [{2: True}, {5: True}, {10: False}]
    assert found[3] == {2: True, 3: True, 5: True, 10: False}


@pytest.mark.parametrize("model", ["mlp", "lenet", "norm", "text", "vmap"])
def test_what_is_found_does_not_depend_on_the_cohort(model):
    network, data = make_model(model), make_data(model)
    found = []
    for cohorts in ([[0, 1, 2, 3, 4]], [[3], [0, 4, 2], [6, 1]]):
        engine = StackedEngine(network, threads=1)
        for clients in cohorts:
            engine.train(make_jobs(network, RECIPES["sgd"], clients), data)
        (outcome,) = engine._trials.values()
        found.append(outcome.tried)
    for path, tried in found[0].items():
        assert {w: p for w, p in tried.items() if w in found[1][path]}.items() <= found[1][path].items()
        assert tried[2]


@pytest.mark.parametrize(
    "engine",
    [LoopEngine, *(partial(StackedEngine, path=path) for path in ("fused", "batched", "vmap", "loop"))],
)
def test_a_label_that_is_no_class_is_refused_by_the_clients_name_on_every_path(engine):
    network, data = make_model("mlp"), make_data("mlp")
    y = data.train.y.clone()
    y[int(data[WILD].rows[0])] = 3
    bad = past_the_door(data, replace(data.train, y=y))
    machine = engine(network, threads=1)
    jobs = make_jobs(network, RECIPES["sgd"], CLIENTS)
    with pytest.raises(ConfigError, match=r"client 4 has 1 samples .* target 3: targets must be in 0\.\.2"):
        machine.train(jobs, bad)
    assert all(map(same, machine.train(jobs[:-1], bad), engine(network, threads=1).train(jobs[:-1], data)))
    with pytest.raises(ConfigError, match="has target 3"):
        machine.evaluate(jobs[0].start, bad.train)


@pytest.mark.parametrize("word", [13, -1])
@pytest.mark.parametrize("name", ["text", "gpt"])
@pytest.mark.parametrize("engine", [LoopEngine, StackedEngine])
def test_a_word_that_the_model_does_not_know_is_refused_by_the_clients_name(engine, name, word):
    network, data = network_of(name), make_data("text")
    x = data.train.x.clone()
    x[int(data[0].rows[0]), 2] = word
    bad = past_the_door(data, replace(data.train, x=x))
    said = (
        rf"client 0 has 1 samples .* with word {word}: .* in 0\.\.12 \('tokens'\)\. Was the tokenizer another"
    )
    with pytest.raises(ConfigError, match=said):
        engine(network, threads=1).train(make_jobs(network, RECIPES["sgd"], [0, 1, 2]), bad)


class ShiftedWords(nn.Module):
    """Looks up the word after the one it is given, which for the last word is none."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens = nn.Embedding(13, 4)
        self.head = nn.Linear(4, 13)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.tokens(x + 1))


def test_a_word_is_never_looked_up_in_a_neighbours_table():
    network, data = ShiftedWords(), make_data("text")
    samples = data.train
    narrow = Samples(samples.x % 12, samples.y, 13)
    program = StackedEngine(network, path="batched").traits.program
    assert program is not None
    tables = {name: p.detach().expand(3, *p.shape) for name, p in network.named_parameters()}
    stored = {
        n: t.permute(0, *(a + 1 for a in program.stored.get(n, range(t.dim() - 1))))
        for n, t in tables.items()
    }
    x = narrow.x[:6].view(3, 2, -1).clone()
    assert torch.equal(program(stored, x)[1], network(x[1]))
    x[0, 0, 0] = 12
    with pytest.raises(IndexError):
        program(stored, x)


@pytest.mark.parametrize(
    ("channels", "kernel", "optimizer"), grid([1, 3, 8], [1, 3], [SGD(0.1), AdaHessian(0.05)])
)
def test_grouped_convolutions_keep_what_is_no_number_to_its_row(channels, kernel, optimizer):
    with Key.root(5).torch_seed():
        layers = [
            nn.Conv2d(1, channels, kernel),
            nn.ReLU(),
            nn.Conv2d(channels, 3, 3),
            nn.AdaptiveAvgPool2d(1),
        ]
        network = nn.Sequential(*layers, nn.Flatten())
    calm = make_data("mlp")
    jobs = [own_start(job) for job in make_jobs(network, Recipe(optimizer, batch_size=4), CLIENTS)]
    expected = StackedEngine(network, threads=1).train(jobs[:-1], calm)
    together = StackedEngine(network, threads=1).train(jobs, WILDNESS["one NaN"](calm))
    assert all(map(same, expected, together[:-1]))
    assert together[-1].weights.vector.isnan().any()
