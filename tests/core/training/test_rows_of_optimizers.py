"""An optimiser trains a row of a stack as it trains it alone."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import ClassVar

import pytest
import torch

from unknot.core.errors import ConfigError
from unknot.core.training import (
    SGD,
    Adagrad,
    AdaHessian,
    Adam,
    AdamW,
    NAdam,
    Optimizer,
    RAdam,
    Recipe,
    RMSprop,
    StepRule,
    numbers_kept,
)
from unknot.core.training.rows import kept_apart

VARIANTS = [
    SGD(0.1),
    SGD(0.1, momentum=0.9, weight_decay=0.1),
    SGD(0.1, momentum=0.8, nesterov=True),
    Adam(0.02),
    Adam(0.02, (0.5, 0.8), 1e-3, 0.1),
    AdamW(0.02),
    AdamW(0.03, (0.5, 0.8), 1e-3, 0.3),
    NAdam(0.02),
    NAdam(0.03, (0.5, 0.8), 1e-3, 0.3, 0.1),
    RAdam(0.02),
    RAdam(0.03, (0.5, 0.8), 1e-3, 0.3),
    AdaHessian(0.05),
    AdaHessian(0.06, (0.5, 0.8), 1e-2, 0.2, 0.7),
    Adagrad(0.1),
    Adagrad(0.2, lr_decay=0.3, weight_decay=0.1, initial_accumulator_value=0.5, eps=1e-3),
    RMSprop(0.02),
    RMSprop(0.03, alpha=0.8, eps=1e-3, weight_decay=0.1),
    RMSprop(0.03, momentum=0.9),
    RMSprop(0.03, momentum=0.7, centered=True),
]


def own(kind: type[Optimizer] = Optimizer) -> Iterator[type[Optimizer]]:
    """Every optimiser that the package has."""
    for child in kind.__subclasses__():
        if child.__module__.startswith("unknot."):
            yield child
        yield from own(child)


@pytest.mark.parametrize("kind", sorted(own(), key=lambda kind: kind.name), ids=lambda kind: kind.name)
def test_every_option_of_every_optimiser_is_in_a_variant(kind):
    usual = kind()
    variants = [variant for variant in VARIANTS if type(variant) is kind]
    for option in fields(kind):
        changed = [getattr(v, option.name) != getattr(usual, option.name) for v in variants]
        assert any(changed), f"add a variant of {kind.__name__} with another {option.name} than the default"


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("optimizer", VARIANTS, ids=str)
def test_a_row_has_the_same_bits_alone_and_in_company(optimizer, dtype):
    assert kept_apart(optimizer, dtype)


@pytest.mark.parametrize("optimizer", VARIANTS, ids=str)
def test_gradients_are_only_read(optimizer):
    gradient = torch.arange(15.0).view(3, 5)
    StepRule(Recipe(optimizer), 0, [torch.ones(3, 5)], [None]).take(0, [gradient], [gradient], [gradient])
    assert torch.equal(gradient, torch.arange(15.0).view(3, 5))


@pytest.mark.parametrize(
    ("optimizer", "numbers"),
    [(SGD(), 0), (SGD(momentum=0.9), 1), (AdamW(), 2), (AdaHessian(), 2), (RMSprop(0.1, centered=True), 2)],
)
def test_what_an_optimiser_keeps_is_counted(optimizer, numbers):
    assert numbers_kept(optimizer) == numbers


def test_what_has_no_place_for_the_diagonal_is_refused():
    @dataclass(frozen=True)
    class Curvy(SGD):
        curvature: ClassVar[bool] = True

    with pytest.raises(ConfigError, match=r"Curvy.*Curved"):
        StepRule(Recipe(Curvy(0.1)), 0, [torch.ones(3, 5)], [None])
