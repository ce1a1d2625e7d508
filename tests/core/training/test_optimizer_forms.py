"""An optimiser's stacked form is held to its plain form, and neither can be forgotten."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import ClassVar

import pytest
import torch
from torch import Tensor

from unknot.core.errors import ConfigError
from unknot.core.keys import Key
from unknot.core.training import (
    SGD,
    Adagrad,
    AdaHessian,
    Adam,
    AdamW,
    Cosine,
    Optimizer,
    Recipe,
    RMSprop,
    StepRule,
)

VARIANTS = [
    SGD(0.1),
    SGD(0.1, momentum=0.9, weight_decay=0.1),
    SGD(0.1, momentum=0.8, nesterov=True),
    Adam(0.02),
    Adam(0.02, (0.5, 0.8), 1e-3, 0.1),
    AdamW(0.02),
    AdamW(0.03, (0.5, 0.8), 1e-3, 0.3),
    AdaHessian(0.05),
    AdaHessian(0.06, (0.5, 0.8), 1e-2, 0.2, 0.7),
    Adagrad(0.1),
    Adagrad(0.2, lr_decay=0.3, weight_decay=0.1, initial_accumulator_value=0.5, eps=1e-3),
    RMSprop(0.02),
    RMSprop(0.03, alpha=0.8, eps=1e-3, weight_decay=0.1),
    RMSprop(0.03, momentum=0.9),
    RMSprop(0.03, momentum=0.7, centered=True),
]
SHAPES = ((3, 5), (7,), (2, 3, 2, 2))  # odd sizes, and a convolution
KERNELS = (None, None, (3, 4))
ROWS, STEPS = 3, 6


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


def drawn(name: str, step: int, dtype: torch.dtype) -> list[Tensor]:
    """Made tensors ``[rows, ...]``: other numbers in every row."""
    generator = Key.root(5).child(name, step).generator()
    return [torch.from_numpy(generator.standard_normal((ROWS, *shape))).to(dtype) for shape in SHAPES]


def trained(optimizer: Optimizer, rows: slice, dtype: torch.dtype, alone: bool) -> list[Tensor]:
    """Some rows after several steps, at a falling rate, with gradients that depend on the weights."""
    weights = [w[rows].clone() for w in drawn("start", 0, dtype)]
    rule = StepRule(Recipe(optimizer, schedule=Cosine(9)), 0, weights, KERNELS, alone=alone)
    for step in range(STEPS):
        noise, signs = drawn("noise", step, dtype), drawn("signs", step, dtype)
        gradients = [0.5 * w + n[rows] for w, n in zip(weights, noise, strict=True)]
        signs = [s[rows].sign() for s in signs]
        products = [g * s for g, s in zip(gradients, signs, strict=True)]
        rule.take(step, gradients, products, signs)
    return weights


@pytest.mark.parametrize("optimizer", VARIANTS, ids=str)
def test_a_row_of_a_stack_steps_as_the_plain_form_does(optimizer):
    stacked = trained(optimizer, slice(None), torch.float64, alone=False)
    for row in range(ROWS):
        plain = trained(optimizer, slice(row, row + 1), torch.float64, alone=True)
        for a, b in zip(stacked, plain, strict=True):
            assert torch.allclose(a[row], b[0], rtol=0, atol=1e-12)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("optimizer", VARIANTS, ids=str)
def test_a_row_has_the_same_bits_alone_and_in_company(optimizer, dtype):
    together = trained(optimizer, slice(None), dtype, alone=False)
    for row in range(ROWS):
        single = trained(optimizer, slice(row, row + 1), dtype, alone=False)
        assert all(torch.equal(a[row], b[0]) for a, b in zip(together, single, strict=True))


@pytest.mark.parametrize("optimizer", VARIANTS, ids=str)
def test_gradients_are_only_read_and_the_state_is_as_large_as_it_says(optimizer):
    weights, gradients = drawn("start", 0, torch.float64), drawn("noise", 0, torch.float64)
    kept = [g.clone() for g in gradients]
    state = [[torch.zeros_like(w) for w in weights] for _ in range(optimizer.states())]
    optimizer.stacked(1, 0.1, weights, gradients, state, kept)
    assert all(torch.equal(a, b) for a, b in zip(gradients, kept, strict=True))
    assert all(part.any() for parts in state for part in parts)  # nothing is kept that is not used


def plain(self, parameters):
    return torch.optim.SGD(parameters, lr=self.lr)


def stacked(self, step, rate, parameters, gradients, state, curvatures):
    torch._foreach_add_(parameters, gradients, alpha=-rate)


def states(self):
    return 0


WHOLE = {"name": "mine", "plain": plain, "stacked": stacked, "states": states}


@pytest.mark.parametrize("missing", WHOLE)
def test_a_class_that_lacks_a_form_is_refused_when_it_is_written(missing):
    parts = {name: part for name, part in WHOLE.items() if name != missing}
    with pytest.raises(ConfigError, match=rf"Mine has no '?{missing}'?: write {missing}"):
        type("Mine", (Optimizer,), parts)
    assert type("Mine", (Optimizer,), WHOLE)(lr=0.1).lr == 0.1


@pytest.mark.parametrize(("form", "other"), [("plain", "stacked"), ("stacked", "plain")])
def test_a_class_that_changes_one_form_alone_is_refused(form, other):
    with pytest.raises(ConfigError, match=rf"changes its {form} form and inherits the {other} one"):
        type("Mine", (Adam,), {form: WHOLE[form]})


def test_a_plain_form_without_a_place_for_the_diagonal_is_refused():
    @dataclass(frozen=True)
    class Curvy(Optimizer):
        name: ClassVar[str] = "curvy"
        curvature: ClassVar[bool] = True
        plain = plain
        stacked = stacked
        states = states

    with pytest.raises(ConfigError, match=r"plain form of Curvy.*Curved"):
        StepRule(Recipe(Curvy(0.1)), 0, drawn("start", 0, torch.float64), KERNELS, alone=True)
