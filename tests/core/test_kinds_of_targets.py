"""Targets are classes, several labels or values; whatever is made of samples is of their kind."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from unknot.audit.interference import variants
from unknot.core.data import FederatedData, Samples, Shard
from unknot.core.errors import ConfigError, DataError
from unknot.core.keys import Key
from unknot.core.requests import Target
from unknot.core.samples import IGNORED
from unknot.data import Dataset, Dirichlet, Iid, federate
from unknot.data.corrupt import corrupt

X = torch.arange(24.0).view(6, 4)
TARGETS = {
    "classes": torch.tensor([0, 1, 2, 0, 1, 2]),
    "labels": torch.tensor([[0, 1], [1, 1], [0, 0], [1, 0], [0, 1], [1, 1]]).float(),
    "values": torch.tensor([0.5, -1.0, 3.0, 2.0, 8.0, 0.0]),
}
MANY = {"classes": 3, "labels": 2, "values": 1}
KINDS = list(TARGETS)


def samples(kind: str, y: torch.Tensor | None = None) -> Samples:
    return Samples(X, TARGETS[kind] if y is None else y, MANY[kind], kind)


def data(kind: str) -> FederatedData:
    made = samples(kind)
    shards = {0: Shard.of([0, 1, 2]), 1: Shard.of([3, 4]), 2: Shard.of([5])}
    owner = np.array([1, 1, -1, -1, -1, 0])
    return FederatedData(made, shards, made, made, validation_owner=owner, test_owner=owner)


def parts(federation: FederatedData) -> list[Samples]:
    return [part for part in (federation.train, federation.test, federation.validation) if part is not None]


def erased(federation: FederatedData) -> FederatedData:
    federation.erase(1)
    return federation


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "make",
    [
        lambda d: d.fork(),
        lambda d: d.lent(),
        lambda d: d.cast(torch.float64),
        lambda d: erased(d.fork()),
        lambda d: d.replaced(name="twin"),
        lambda d: corrupt(d, [1], "labels"),
        lambda d: corrupt(d, [1], "noise"),
        lambda d: variants(d, [Target(1)])["other samples"],
        lambda d: variants(d, [Target(1)])["random labels"],
        lambda d: variants(d, [Target(1)])["no samples"],
    ],
    ids=["fork", "lent", "cast", "erased", "replaced", "labels", "noise", "other", "random", "none"],
)
def test_what_is_made_of_samples_is_of_their_kind(make, kind):
    for part in parts(make(data(kind))):
        assert part.kind == kind
        assert part.classes == MANY[kind]
        assert not len(part.flawed)


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_dealt_out_is_of_its_kind(kind):
    dataset = Dataset("toy", samples(kind), samples(kind))
    for part in parts(federate(dataset, Iid(2), validation=2)):
        assert part.kind == kind


def test_only_classes_are_dealt_out_by_class():
    for kind, told in (("labels", "several labels"), ("values", "numbers to predict")):
        with pytest.raises(ConfigError, match=f"goes by labels, and toy has {told}"):
            federate(Dataset("toy", samples(kind), samples(kind)), Dirichlet(2, 1.0))


@pytest.mark.parametrize("kind", KINDS)
def test_random_targets_are_others_of_the_kind_and_depend_on_no_others(kind):
    made = samples(kind)
    old = made.y[:5]
    drawn = made.random_targets(old, Key.root(1).generator())
    assert drawn.dtype == old.dtype
    assert drawn.shape == old.shape
    assert not torch.equal(drawn, old)
    others = replace(made, y=made.y.clone())
    others.y[5] = 1  # somebody else's
    assert torch.equal(drawn, others.random_targets(old, Key.root(1).generator()))


def test_a_single_value_is_drawn_anew_as_well():
    made = samples("values")
    assert made.random_targets(made.y[:1], Key.root(0).generator()) != made.y[0]


@pytest.mark.parametrize(
    ("kind", "y", "classes", "message"),
    [
        ("value", TARGETS["values"], 1, "no targets of kind 'value'. Did you mean 'values'"),
        ("labels", TARGETS["classes"], 3, "targets must be a tensor of 0 and 1 with two axes.* found int64"),
        ("labels", TARGETS["labels"], 3, "classes is 3, but there are 2"),
        ("labels", TARGETS["labels"].bool(), 2, "found bool"),
        ("values", TARGETS["classes"], 1, "targets must be a tensor of floating-point numbers.* found int64"),
        ("values", TARGETS["values"], 2, "classes is 2, but there are 1"),
        ("values", torch.zeros(6, 2, 2), 2, "with one axis, or two"),
        ("classes", TARGETS["values"], 3, "targets must be a tensor of whole numbers"),
    ],
)
def test_targets_that_are_not_of_their_kind_are_refused(kind, y, classes, message):
    with pytest.raises(DataError, match=message):
        Samples(X, y, classes, kind)


@pytest.mark.parametrize(
    ("kind", "place", "value", "message"),
    [
        ("labels", (3, 1), 0.5, "client 1, sample 0: label 0.5 at position 1"),
        ("labels", (3, 0), math.nan, "client 1, sample 0: label nan at position 0"),
        ("values", (4,), math.inf, "client 1, sample 1: label inf"),
        ("classes", (5,), IGNORED, "client 2, sample 0: label -100, but there are 3 classes"),
    ],
)
def test_a_wrong_target_is_refused_by_client_and_sample(kind, place, value, message):
    y = TARGETS[kind].clone()
    y[place] = value
    with pytest.raises(DataError, match=message):
        data(kind).replaced(train=samples(kind, y))


def test_masked_positions_of_a_text_are_fine_and_other_negative_ones_are_not():
    tokens = torch.arange(6).view(2, 3)
    masked = tokens.clone()
    masked[0, 1] = IGNORED
    assert not len(Samples(tokens, masked, 6).flawed)
    masked[1, 2] = -1
    wrong = Samples(tokens, masked, 6)
    assert wrong.flawed.tolist() == [1]
    assert wrong.flaw(1) == "label -1 at position 2, but there are 6 classes (0 to 5)"
    drawn = Samples(tokens, tokens, 6).random_targets(masked, Key.root(0).generator())
    assert (drawn == IGNORED).nonzero().tolist() == [[0, 1]]


def test_held_out_samples_are_of_the_same_kind():
    table = Samples(X, TARGETS["labels"], 2, "values")
    with pytest.raises(DataError, match=r"another kind .* targets of kind values, not labels"):
        data("labels").replaced(test=table)


def test_samples_say_of_what_kind_they_are():
    assert repr(samples("classes")) == "Samples(6 of 4 float32, labels of 3 classes)"
    assert repr(samples("labels")) == "Samples(6 of 4 float32, 2 labels each)"
    assert repr(samples("values")) == "Samples(6 of 4 float32, 1 value each)"
