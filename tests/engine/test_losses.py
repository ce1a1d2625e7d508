"""A task of every kind, by every way to train: stacked equals the loop, and company changes no bit."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F

from engine_worlds import make_data, make_jobs, make_model, own_start, same
from support import grid
from task_worlds import TASKS, kind_of, masked
from unknot.core.ensemble import Ensemble
from unknot.core.errors import ConfigError
from unknot.core.loss import (
    BinaryCrossEntropy,
    CrossEntropy,
    Huber,
    NextToken,
    OwnLoss,
    SquaredError,
)
from unknot.core.samples import IGNORED
from unknot.core.task import Task
from unknot.core.training import SGD, AdaHessian, Adam, Recipe
from unknot.core.weights import Weights
from unknot.engine import LoopEngine, StackedEngine


def gaussian(outputs, targets):
    """Two outputs a target: the mean, and the logarithm of the deviation."""
    mean, scale = outputs[:, 0], outputs[:, 1]
    return 0.5 * ((targets - mean) / scale.exp()).square() + scale


EVERYBODY = range(5)  # a smaller last batch, one sample, whole batches
SGD1 = Recipe(SGD(0.1), epochs=2, batch_size=4)
HESSIAN = Recipe(AdaHessian(0.05, eps=0.5), batch_size=4)
RECIPES = {"sgd": SGD1, "adahessian": HESSIAN}


def trained(kind, model, recipe, data, clients=EVERYBODY, dtype=torch.float64, **options):
    engine = kind(model, dtype=dtype, threads=1, **options)
    jobs = [own_start(job) for job in make_jobs(model, recipe, clients, dtype)]
    return engine, engine.train(jobs, data)


def assert_alike(updates, others, most=1e-9):
    for a, b in zip(updates, others, strict=True):
        assert float((a.weights.vector - b.weights.vector).abs().max()) < most
        assert a.loss == pytest.approx(b.loss, abs=most)


@pytest.mark.parametrize(("task", "name", "recipe"), grid(TASKS, ("mlp", "vmap"), RECIPES))
def test_a_stack_is_the_loop(task, name, recipe):
    make, loss = TASKS[task]
    data, model, recipe = make(name), make_model(name), replace(RECIPES[recipe], loss=loss)
    engine, stacked = trained(StackedEngine, model, recipe, data)
    _, looped = trained(LoopEngine, model, recipe, data)
    assert_alike(stacked, looped)
    expected = "loop" if task == "own branching" else {"vmap": "vmap"}.get(name, "batched")
    assert engine.describe()["path"] == expected


@pytest.mark.parametrize("task", ["labels", "values", "own"])
@pytest.mark.parametrize("name", ["norm", "residual"])
def test_so_it_is_with_convolutions(task, name):
    make, loss = TASKS[task]
    recipe = Recipe(Adam(0.01, eps=1e-3), batch_size=4, loss=loss, clip=1.0)
    data, model = make(name), make_model(name)
    assert_alike(trained(StackedEngine, model, recipe, data)[1], trained(LoopEngine, model, recipe, data)[1])


@pytest.mark.parametrize(
    ("loss", "recipe"),
    grid([None, NextToken(), CrossEntropy(smoothing=0.1), CrossEntropy((0.5,) * 13)], RECIPES),
)
def test_and_with_texts_of_which_parts_are_masked(loss, recipe):
    data, model, recipe = masked(make_data("text")), make_model("text"), replace(RECIPES[recipe], loss=loss)
    assert_alike(trained(StackedEngine, model, recipe, data)[1], trained(LoopEngine, model, recipe, data)[1])


@pytest.mark.parametrize(
    ("task", "name"), [*((task, "mlp") for task in TASKS), ("labels", "vmap"), ("own", "vmap")]
)
def test_a_job_has_the_same_bits_in_any_company(task, name):
    make, loss = TASKS[task]
    data, model = make(name), make_model(name)
    for recipe in (SGD1, replace(HESSIAN, max_steps=2)):
        recipe = replace(recipe, loss=loss)
        engine = StackedEngine(model, threads=1, rows=4)
        jobs = [own_start(job) for job in make_jobs(model, recipe, range(6))]
        together = engine.train(jobs, data)
        for some in ([4], [5, 1, 0], [4, 3, 2, 0]):
            for job, update in zip(some, engine.train([jobs[i] for i in some], data), strict=True):
                assert same(update, together[job])


def test_a_text_whose_targets_are_all_masked_has_no_loss_and_no_gradient():
    data, model = make_data("text", [3]), make_model("text")
    train = replace(data.train, y=torch.full_like(data.train.y, IGNORED))
    data = data.replaced(train=train, test=train)
    for kind in (LoopEngine, StackedEngine):
        _, (update,) = trained(kind, model, SGD1, data, [0])
        assert update.loss == 0.0
        assert update.weights.equal(update.job.start)


def test_a_masked_position_teaches_nothing():
    """Whatever stands at it: by hand, the loss of the positions that are left."""
    logits = torch.randn(2, 3, 5, dtype=torch.float64)
    y = torch.tensor([[0, IGNORED, 4], [IGNORED, 2, IGNORED]])
    logs = -logits.log_softmax(-1)
    expected = [(logs[0, 0, 0] + logs[0, 2, 4]).item() / 2, logs[1, 1, 2].item()]
    assert NextToken()(logits, y).tolist() == pytest.approx(expected, abs=1e-12)
    stacked, error = NextToken().error(logits[None], y[None], torch.ones(1, 2, dtype=torch.float64))
    assert stacked[0].tolist() == pytest.approx(expected, abs=1e-12)
    assert not error[0, 0, 1].any()
    assert not error[0, 1, 0].any()
    assert error[0, 1, 1].any()


# What a model may give -------------------------------------------------------------------------------


@dataclass
class Output:
    logits: torch.Tensor
    hidden: torch.Tensor


class Wrapped(nn.Module):
    """As transformers do: an object with logits, and what else was computed."""

    def __init__(self, form):
        super().__init__()
        self.network, self.form = make_model("mlp"), form

    def forward(self, x):
        logits = self.network(x)
        return {"logits": logits, "hidden": x} if self.form == "dict" else Output(logits, x)


@pytest.mark.parametrize("form", ["dict", "object"])
def test_a_model_may_give_an_object_with_logits(form):
    data, plain, model = make_data("mlp"), make_model("mlp"), Wrapped(form)
    model.network.load_state_dict(plain.state_dict())
    engine, updates = trained(StackedEngine, model, SGD1, data)
    assert engine.describe()["path"] == "vmap"
    assert "not batched: it" in engine.describe()["reason"]
    _, looped = trained(LoopEngine, model, SGD1, data)
    _, expected = trained(LoopEngine, plain, SGD1, data)
    for mine, loop, other in zip(updates, looped, expected, strict=True):
        assert float((mine.weights.vector - other.weights.vector).abs().max()) < 1e-9
        assert torch.equal(loop.weights.vector, other.weights.vector)
    weights = Weights.of(model).to(dtype=torch.float64)
    assert engine.evaluate(weights, data.train).samples == len(data.train)
    assert engine.predict(weights, data.train).shape == (len(data.train), 3)


def test_one_output_a_value_may_have_an_axis_to_itself():
    data = kind_of("mlp", "values", ())
    model = nn.Sequential(nn.Flatten(), nn.Linear(49, 5), nn.Tanh(), nn.Linear(5, 1))
    flat = nn.Sequential(model, nn.Flatten(0))
    engine, stacked = trained(StackedEngine, model, SGD1, data)
    _, looped = trained(LoopEngine, model, SGD1, data)
    assert_alike(stacked, looped)
    assert engine.predict(stacked[0].weights, data.train).shape == data.train.y.shape
    _, other = trained(LoopEngine, flat, SGD1, data)
    assert torch.equal(other[3].weights.vector, trained(LoopEngine, model, SGD1, data)[1][3].weights.vector)


@pytest.mark.parametrize(
    ("kind", "targets", "said"),
    [
        ("labels", (4,), r"outputs of shape \(3,\) a sample, but the targets are of shape \(4,\)"),
        ("values", (), r"outputs of shape \(3,\) a sample, but the targets are of shape \(\)"),
    ],
)
def test_outputs_that_do_not_fit_are_refused(kind, targets, said):
    with pytest.raises(ConfigError, match=said):
        LoopEngine(make_model("mlp")).examine(kind_of("mlp", kind, targets).train)


@pytest.mark.parametrize(
    ("loss", "kind", "said"),
    [
        (SquaredError(), "labels", "'squared-error' is for targets that are values, and these are labels"),
        (CrossEntropy(), "values", "'cross-entropy' is for targets that are classes.*'squared-error'"),
        (BinaryCrossEntropy((1.0,)), "labels", "1 weights, but there are 3 labels"),
    ],
)
def test_a_loss_for_other_targets_is_refused(loss, kind, said):
    with pytest.raises(ConfigError, match=said):
        LoopEngine(make_model("mlp"), task=Task(loss)).examine(kind_of("mlp", kind).train)


# A loss of one's own ---------------------------------------------------------------------------------


def test_own_losses_that_are_ours_give_what_ours_give():
    values, classes, labels = kind_of("mlp", "values"), make_data("mlp"), kind_of("mlp", "labels")
    for own, ours, data in (
        (nn.MSELoss(), SquaredError(), values),
        (nn.HuberLoss(reduction="none", delta=0.5), Huber(0.5), values),
        (nn.CrossEntropyLoss(label_smoothing=0.1), CrossEntropy(smoothing=0.1), classes),
        (
            nn.CrossEntropyLoss(torch.tensor([1.0, 2.0, 3.0]), reduction="none"),
            CrossEntropy((1, 2, 3)),
            classes,
        ),
        (F.binary_cross_entropy_with_logits, BinaryCrossEntropy(), labels),
    ):
        model = make_model("mlp")
        _, mine = trained(StackedEngine, model, replace(SGD1, loss=own), data, range(4))
        _, theirs = trained(StackedEngine, model, replace(SGD1, loss=ours), data, range(4))
        assert_alike(mine, theirs)


def test_what_goes_together_is_for_an_own_loss_to_say():
    data = kind_of("mlp", "values", ())
    model = nn.Sequential(nn.Flatten(), nn.Linear(49, 2))
    recipe = Recipe(SGD(0.001), batch_size=4, loss=gaussian)
    assert_alike(trained(StackedEngine, model, recipe, data)[1], trained(LoopEngine, model, recipe, data)[1])


def test_the_record_says_that_the_loss_is_the_users_and_how_it_is_computed():
    for name, said in (
        ("own", "pinball, computed for one job after the other"),
        ("own scalar", "sample by sample, by vmap"),
    ):
        make, loss = TASKS[name]
        data, model = make("mlp"), make_model("mlp")
        for kind in (LoopEngine, StackedEngine):
            engine, _ = trained(kind, model, replace(SGD1, loss=loss), data, [0])
            assert f"the loss is your own, {loss.name}, computed" in engine.describe()["reason"]
            assert said in engine.describe()["reason"]


calls = []


class Counting(nn.Module):
    def __init__(self):
        super().__init__()
        self.seen = 0

    def forward(self, outputs, targets):
        self.seen += 1
        return (outputs - targets).square().mean(1) * (1 if self.seen < 3 else 2)


def remembering(outputs, targets):
    calls.append(len(outputs))
    return (outputs - targets).square()


def overwriting(outputs, targets):
    return outputs.sub_(targets).square()


BAD = {
    "changes something that it holds": [Counting(), remembering],
    "draws from PyTorch's global generator": [lambda o, t: (o - t).square() * torch.rand(())],
    "mixes the samples of a batch": [
        lambda o, t: (o - o.mean(0)).square(),
        lambda o, t: (o - t).square() / len(o),
        lambda o, t: (o - t).square().mean(1).cumsum(0),
        lambda o, t: (o - t).square().mean(1) + F.pad(o.mean(1)[:-1], (1, 0)),
    ],
    "not the mean of what it gives for single samples": [
        lambda o, t: (o - t).square().sum(),
        lambda o, t: (o - t).square().mean().sqrt(),
    ],
    "cannot be differentiated": [lambda o, t: (o.detach() - t).square()],
    "gives a float, not a tensor": [lambda o, t: 1.0],
    "gives a torch.int64, not a tensor of floating-point numbers": [lambda o, t: o.argmax(-1)],
    r"gives a tensor of shape \(3, 2\) for|gives a tensor of shape \(9,\) for 3 samples": [
        lambda o, t: (o - t).flatten()
    ],
    r"cannot be computed for outputs of shape \(3, 3\) and targets of shape \(3, 3\): .*no_such": [
        lambda o, t: o.no_such_thing()
    ],
    "changes what it is given": [overwriting],
}


@pytest.mark.parametrize(("said", "loss"), [(said, loss) for said, some in BAD.items() for loss in some])
def test_an_own_loss_that_ties_samples_or_calls_together_is_refused(said, loss):
    engine = LoopEngine(make_model("mlp"), task=Task(OwnLoss(loss)))
    with pytest.raises(ConfigError, match=said):
        engine.examine(kind_of("mlp", "values").train)


def lopsided(outputs, targets):
    """Weighs by the share of negative targets in the batch."""
    negative = targets < 0
    share = negative.to(outputs.dtype).mean()
    return (outputs - targets).square() * torch.where(negative, 1.5 - share, 0.5 + share)


def balanced(outputs, targets):
    """Divides by how many of the batch are of a sample's class."""
    counts = torch.bincount(targets, minlength=outputs.shape[-1]).to(outputs.dtype)
    return F.cross_entropy(outputs, targets, reduction="none") / counts[targets]


def per_token(outputs, targets):
    """All tokens of a batch count alike."""
    flat = F.cross_entropy(outputs.flatten(0, -2), targets.flatten(), reduction="none").view(targets.shape)
    return flat.sum(1) * len(targets) / (targets != IGNORED).sum()


def rare(outputs, targets):
    """Looks at the batch only where all labels of some sample are 0."""
    losses = F.binary_cross_entropy_with_logits(outputs, targets.to(outputs.dtype), reduction="none")
    return losses.mean(1) * (1 + (targets.sum(1) == 0).sum())


def by_the_largest(outputs, targets):
    """A softmax that is kept from overflow by the largest output of all."""
    z = outputs - outputs.detach().max()
    return z.exp().sum(-1).log() - z.gather(-1, targets[:, None]).squeeze(-1)


def many_classes(count):
    data = make_data("mlp")
    return data.replaced(train=replace(data.train, classes=count), test=replace(data.test, classes=count))


def ends_in(outputs):
    return nn.Sequential(nn.Flatten(), nn.Linear(49, outputs))


MIXING = {
    "negative values": (lopsided, lambda: kind_of("mlp", "values"), lambda: make_model("mlp")),
    "10 classes": (balanced, lambda: many_classes(10), lambda: ends_in(10)),
    "30 classes": (balanced, lambda: many_classes(30), lambda: ends_in(30)),
    "100 classes": (balanced, lambda: many_classes(100), lambda: ends_in(100)),
    "masked positions": (per_token, lambda: masked(make_data("text")), lambda: make_model("text")),
    "no labels": (rare, lambda: kind_of("mlp", "labels"), lambda: make_model("mlp")),
    "large outputs": (by_the_largest, lambda: make_data("mlp"), lambda: make_model("mlp")),
}


@pytest.mark.parametrize("name", MIXING)
def test_a_loss_that_mixes_samples_of_some_kinds_only_is_refused(name):
    loss, make, model = MIXING[name]
    with pytest.raises(ConfigError, match="mixes the samples of a batch"):
        LoopEngine(model(), task=Task(OwnLoss(loss))).examine(make().train)


def test_so_is_one_that_is_a_class_from_outside():
    @dataclass(frozen=True)
    class Lopsided(SquaredError):
        def __call__(self, outputs, targets):
            return lopsided(outputs, targets).mean(1)

    with pytest.raises(ConfigError, match="the loss 'Lopsided' mixes the samples of a batch"):
        LoopEngine(make_model("mlp"), task=Task(Lopsided())).examine(kind_of("mlp", "values").train)


def test_a_loss_that_cannot_be_had_of_every_number_is_trained_by():
    """A model of probabilities, and a loss that takes no others; targets that must not be negative."""
    shares = nn.Sequential(nn.Flatten(), nn.Linear(49, 3), nn.Sigmoid())
    entropy = OwnLoss(lambda o, t: F.binary_cross_entropy(o, t.to(o.dtype), reduction="none"))
    LoopEngine(shares, task=Task(entropy)).examine(kind_of("mlp", "labels").train)

    def counts(outputs, targets):
        if (targets < 0).any():
            raise ValueError("counts are not negative")
        return F.poisson_nll_loss(outputs, targets, reduction="none")

    LoopEngine(make_model("mlp"), task=Task(OwnLoss(counts))).examine(kind_of("mlp", "values").train)


def test_a_mean_over_the_positions_of_a_text_is_trained_by():
    def mean(outputs, targets):
        return F.cross_entropy(outputs.flatten(0, -2), targets.flatten(), ignore_index=IGNORED)

    def unmasked(outputs, targets):
        return -outputs.log_softmax(-1).gather(-1, targets[..., None]).squeeze(-1)

    for loss in (mean, unmasked):
        LoopEngine(make_model("text"), task=Task(OwnLoss(loss))).examine(make_data("text").train)


def test_clients_do_not_meet_in_a_loss_that_no_made_batch_gives_away():
    """It looks at the whole batch, but only where a target is a number that nobody would try."""

    def hidden(outputs, targets):
        return (outputs - targets).square().mean(1) * (1 + (targets == 12.5).any(1).sum())

    data, model = kind_of("mlp", "values"), make_model("mlp")
    loud = data.train.y.clone()
    loud[torch.from_numpy(data[1].rows)] = 12.5
    recipe = replace(SGD1, loss=hidden)
    _, quiet = trained(StackedEngine, model, recipe, data, range(4))
    _, beside = trained(
        StackedEngine, model, recipe, data.replaced(train=replace(data.train, y=loud)), range(4)
    )
    for client in (0, 2, 3):
        assert same(quiet[client], beside[client])
    assert not same(quiet[1], beside[1])


@dataclass
class Pin:
    """It compares by its fields, and so has no hash."""

    slope: float = 0.5

    def __call__(self, outputs, targets):
        return ((targets - outputs).abs() * self.slope).mean(1)


def squeezed(outputs, targets):
    """Of one sample it gives a number without an axis."""
    return (outputs - targets).square().mean(1).squeeze()


@pytest.mark.parametrize("loss", [Pin(), squeezed], ids=["no hash", "squeezed"])
@pytest.mark.parametrize("kind", [LoopEngine, StackedEngine])
def test_a_loss_without_a_hash_and_one_that_squeezes_are_trained_by(kind, loss):
    data, model = kind_of("mlp", "values"), make_model("mlp")
    recipe = Recipe(SGD(0.1), batch_size=1, loss=loss)
    assert recipe == replace(recipe)
    assert hash(recipe) == hash(replace(recipe))
    engine, updates = trained(kind, model, recipe, data, range(3))
    assert all(np.isfinite(update.loss) for update in updates)
    engine = kind(model, task=Task(OwnLoss(loss)))
    assert np.isfinite(engine.evaluate(updates[0].weights.to(dtype=torch.float32), data.train).loss)


# What is said of samples -----------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["labels", "values"])
def test_predictions_and_ensembles_go_by_kind(kind):
    data, model = kind_of("mlp", kind), make_model("mlp")
    engine, updates = trained(LoopEngine, model, SGD1, data)
    parts = [update.weights for update in updates[:3]]
    answers = [engine.predict(weights, data.train) for weights in parts]
    outputs = parts[0].load_into(make_model("mlp").double())(data.train.x.double())
    assert torch.allclose(answers[0], outputs.sigmoid() if kind == "labels" else outputs)
    for vote in ("mean", "majority"):
        together = Ensemble(tuple((1.0, weights) for weights in parts), vote)
        assert torch.allclose(engine.predict(together, data.train), sum(answers) / 3)
        assert np.isfinite(engine.evaluate(together, data.train).loss)
