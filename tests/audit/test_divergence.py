import math

import pytest
import torch
from torch import nn

from unknot.audit import divergence
from unknot.core.data import Samples
from unknot.core.ensemble import Ensemble
from unknot.core.weights import Weights
from unknot.engine import LoopEngine


class Fixed(nn.Module):
    """Gives every sample the logits that are its weights."""

    def __init__(self) -> None:
        super().__init__()
        self.logits = nn.Linear(1, 2, bias=False)

    def forward(self, x):
        return self.logits(torch.ones_like(x[:, :1]))


def says(*p):
    """A model that gives two classes these probabilities."""
    weights = Weights.of(Fixed())
    return weights.like(torch.tensor(p).log())


ENGINE = LoopEngine(Fixed())
ERASED = Samples(torch.zeros(4, 1), torch.tensor([0, 0, 0, 1]), 2)
TEST = Samples(torch.zeros(2, 1), torch.tensor([0, 1]), 2)


def test_two_models_by_hand():
    """The model names class 0 and the control class 1: right on 3 of 4 erased samples against 1 of 4.

    KL(control ‖ model) = 0.25 log (0.25 / 0.75) + 0.75 log (0.75 / 0.25) = 0.5 log 3.
    ‖w − w'‖ = √2 |log 0.75 − log 0.25| = √2 log 3.
    """
    found = divergence(ENGINE, says(0.75, 0.25), says(0.25, 0.75), ERASED, TEST)
    assert (found.erased, found.forgetting_error, found.test, found.agreement) == (0.75, 0.5, 0.5, 0.0)
    assert found.kl == pytest.approx(0.5 * math.log(3), rel=1e-6)
    assert found.distance == pytest.approx(math.sqrt(2) * math.log(3), rel=1e-6)


def test_a_model_does_not_diverge_from_itself():
    found = divergence(ENGINE, says(0.75, 0.25), says(0.75, 0.25), ERASED, TEST)
    assert (found.forgetting_error, found.distance, found.kl, found.agreement) == (0, 0, 0, 1)


def test_an_ensemble_has_no_distance():
    both = Ensemble(((1.0, says(0.75, 0.25)), (1.0, says(0.75, 0.25))))
    found = divergence(ENGINE, both, says(0.75, 0.25), ERASED, TEST)
    assert found.distance is None
    assert found.kl == pytest.approx(0, abs=1e-9)
    assert found.to_dict()["distance"] is None
