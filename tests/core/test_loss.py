"""Losses: both forms give the same, and what PyTorch gives; by hand where there is nothing to go by."""

from __future__ import annotations

import math
from dataclasses import dataclass

import pytest
import torch
from torch import nn

from unknot.core.errors import ConfigError
from unknot.core.loss import (
    LOSSES,
    BinaryCrossEntropy,
    CrossEntropy,
    Huber,
    NextToken,
    OwnLoss,
    SoftTargets,
    SquaredError,
    as_loss,
    loss_for,
)
from unknot.core.samples import IGNORED, Samples
from unknot.core.training import Recipe

GENERATOR = torch.Generator().manual_seed(5)


def drawn(*shape):
    return 3 * torch.randn(shape, generator=GENERATOR, dtype=torch.float64)


OUTPUTS, VALUES = drawn(2, 4, 3), drawn(2, 4, 3)
CLASSES = torch.tensor([[0, 1, 2, 0], [1, 1, 2, 2]])
LABELS = (drawn(2, 4, 3) > 0).double()
TEXT = torch.tensor(
    [[[0, 1], [2, IGNORED], [IGNORED, IGNORED], [1, 1]], [[0, 0], [1, 2], [IGNORED, 0], [2, 2]]]
)
CASES = [
    (CrossEntropy(), OUTPUTS, CLASSES),
    (CrossEntropy((0.5, 2.0, 0.0)), OUTPUTS, CLASSES),
    (CrossEntropy(smoothing=0.3), OUTPUTS, CLASSES),
    (CrossEntropy((0.5, 2.0, 1.0), 0.3), OUTPUTS, CLASSES),
    (CrossEntropy((0.5, 2.0, 1.0), 0.3), drawn(2, 4, 2, 3), TEXT),
    (NextToken(), drawn(2, 4, 2, 3), TEXT),
    (BinaryCrossEntropy(), OUTPUTS, LABELS),
    (BinaryCrossEntropy((0.5, 4.0, 1.0)), OUTPUTS, LABELS),
    (SquaredError(), OUTPUTS, VALUES),
    (SquaredError(), drawn(2, 4), drawn(2, 4)),
    (Huber(1.5), OUTPUTS, VALUES),
    (SoftTargets(3.0), OUTPUTS, VALUES.softmax(-1)),
    (OwnLoss(nn.SmoothL1Loss(reduction="none")), OUTPUTS, VALUES),
    (OwnLoss(nn.L1Loss()), OUTPUTS, VALUES),
]


@pytest.mark.parametrize(("loss", "outputs", "targets"), CASES)
def test_both_forms_are_the_same_and_the_error_is_the_gradient(loss, outputs, targets):
    weights = torch.tensor([[0.25, 0.25, 0.5, 0.0], [1.0, 0.0, 0.2, 0.7]], dtype=torch.float64)
    leaf = outputs.clone().requires_grad_()
    plain = torch.stack([loss(o, t) for o, t in zip(leaf, targets, strict=True)])
    (slope,) = torch.autograd.grad((plain * weights).sum(), leaf)
    losses, error = loss.error(outputs, targets, weights)
    for found in (losses, loss.stacked(outputs, targets)):
        assert torch.allclose(found, plain, rtol=0, atol=1e-12)
    assert torch.allclose(error, slope, rtol=0, atol=1e-12)


def test_weights_of_classes_multiply_a_samples_loss_and_the_mean_is_over_samples():
    """PyTorch's mean divides by the weights of the batch: 0.5 + 2 + 1 + 0.5 here, in place of 4."""
    weights = torch.tensor([0.5, 2.0, 1.0], dtype=torch.float64)
    torchs = nn.functional.cross_entropy(OUTPUTS[0], CLASSES[0], weights)
    ours = CrossEntropy((0.5, 2.0, 1.0))(OUTPUTS[0], CLASSES[0]).mean()
    assert ours.item() == pytest.approx(torchs.item() * 4.0 / 4)
    assert CrossEntropy((0.5, 2.0, 1.0))(OUTPUTS[1], CLASSES[1]).mean().item() == pytest.approx(
        nn.functional.cross_entropy(OUTPUTS[1], CLASSES[1], weights).item() * 6.0 / 4
    )


def test_the_rest_is_pytorchs():
    o, v = OUTPUTS[0], VALUES[0]
    for ours, torchs in (
        (BinaryCrossEntropy()(o, LABELS[0]), nn.BCEWithLogitsLoss(reduction="none")(o, LABELS[0]).mean(1)),
        (SquaredError()(o, v), nn.MSELoss(reduction="none")(o, v).mean(1)),
        (Huber(0.7)(o, v), nn.HuberLoss(reduction="none", delta=0.7)(o, v).mean(1)),
        (SoftTargets()(o, v.softmax(-1)), nn.CrossEntropyLoss(reduction="none")(o, v.softmax(-1))),
    ):
        assert torch.allclose(ours, torchs, rtol=0, atol=1e-12)


def test_a_temperature_softens_and_keeps_the_gradients_size():
    """Hinton et al. 2015: for high T the gradient tends to (z − v)/N, with v the teacher's logits about 0."""
    z, v = OUTPUTS[:1, :1] - OUTPUTS[:1, :1].mean(), VALUES[:1, :1] - VALUES[:1, :1].mean()
    _, error = SoftTargets(1e4).error(z, (v / 1e4).softmax(-1), torch.ones(1, 1, dtype=torch.float64))
    assert torch.allclose(error, (z - v) / 3, atol=1e-3)


def test_the_usual_loss_goes_by_the_kind_of_the_targets():
    x = torch.zeros(2, 4)
    for y, kind, expected in (
        (torch.tensor([0, 1]), "classes", CrossEntropy()),
        (torch.tensor([[0, 1], [1, 0]]), "classes", NextToken()),
        (torch.tensor([[0, 1], [1, 0]]), "labels", BinaryCrossEntropy()),
        (torch.tensor([0.5, 1.0]), "values", SquaredError()),
    ):
        assert loss_for(Samples(x, y, 1 if y.ndim == 1 and kind == "values" else 2, kind)) == expected


def test_a_loss_comes_by_name_by_place_or_as_a_function():
    assert [as_loss(name) for name in LOSSES] == [kind() for kind in LOSSES.values()]
    own = as_loss("torch.nn.functional:l1_loss")
    assert isinstance(own, OwnLoss)
    assert own.name == "l1_loss"
    assert Recipe(loss=nn.MSELoss()).loss.name == "MSELoss"
    assert Recipe(loss="huber").loss == Huber()


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: CrossEntropy(smoothing=1.0), r"smoothing must be in \[0, 1\)"),
        (lambda: CrossEntropy((1.0, -1.0)), "weights must be finite and not negative"),
        (lambda: CrossEntropy((1.0, math.inf)), "weights must be finite and not negative"),
        (lambda: BinaryCrossEntropy(()), "weights must be finite and not negative"),
        (lambda: Huber(0.0), "delta must be positive"),
        (lambda: SoftTargets(0.0), "temperature must be positive"),
        (lambda: as_loss("hubber"), "Did you mean 'huber'"),
        (lambda: as_loss(3), "a name, a loss, or a function"),
        (lambda: as_loss("torch.nn:NoSuchLoss"), "torch.nn has no 'NoSuchLoss'"),
    ],
)
def test_losses_that_are_none_are_refused(make, said):
    with pytest.raises(ConfigError, match=said):
        make()


def test_an_own_loss_with_parameters_is_refused():
    with pytest.raises(ConfigError, match="parameters of its own"):
        OwnLoss(nn.Bilinear(3, 3, 1))


def test_a_callable_without_a_hash_is_known_by_which_one_it_is():
    @dataclass
    class Pin:
        slope: float = 0.5

        def __call__(self, outputs, targets):
            return (outputs - targets).abs() * self.slope

        def twice(self, outputs, targets):
            return 2 * self(outputs, targets)

    pin = Pin()
    assert OwnLoss(pin) == OwnLoss(pin)
    assert OwnLoss(pin) != OwnLoss(Pin())
    assert hash(OwnLoss(pin)) == hash(OwnLoss(pin))
    assert len({Recipe(loss=pin), Recipe(loss=pin), Recipe(loss=Pin())}) == 2
    huber = nn.HuberLoss()
    assert len({OwnLoss(huber.forward), OwnLoss(huber.forward)}) == 1
