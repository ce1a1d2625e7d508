"""The step rule by hand, and what can be written out without it."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pytest
import torch

from unknot.core.training import SGD, Adam, Cosine, Recipe, StepDecay, StepRule, only_adds


def stepped(recipe: Recipe, weights: list[float], gradient: list[float]) -> list[float]:
    """One step of one row."""
    stack = torch.tensor([weights], dtype=torch.float64)
    rule = StepRule(recipe, 0, [stack], [None])
    rule.take(0, [torch.tensor([gradient], dtype=torch.float64)])
    return stack[0].tolist()


def test_a_step_beyond_the_radius_ends_on_the_ball():
    """By hand: from (1, 1) by −(3, 4) is a step of length 5; of length 2 it is (−1.2, −1.6)."""
    recipe = Recipe(SGD(1.0), radius=2.0)
    assert stepped(recipe, [1, 1], [3, 4]) == pytest.approx([-0.2, -0.6], rel=1e-15)


def test_a_step_within_the_radius_keeps_its_bits():
    free = stepped(Recipe(SGD(0.1)), [0.1, 0.7], [0.3, 0.4])
    assert stepped(Recipe(SGD(0.1), radius=2.0), [0.1, 0.7], [0.3, 0.4]) == free


def test_ascent_climbs_and_decay_still_shrinks():
    """By hand, as torch's maximize: w − 0.1·(−g + 0.5·w) = 2 − 0.1·(−3 + 1) = 2.2."""
    recipe = Recipe(SGD(0.1, weight_decay=0.5), ascent=True)
    assert stepped(recipe, [2.0], [3.0]) == pytest.approx([2.2], rel=1e-15)


def test_only_the_rows_that_are_outside_are_moved_back():
    start = torch.tensor([[1.0, 0.0], [1.0, 0.0], [1.0, 0.0]])
    weights = start.clone()
    rule = StepRule(Recipe(SGD(1.0), radius=1.0), 0, [weights], [None])
    rule.take(0, [torch.tensor([[0.1, 0.2], [0.0, 4.0], [float("nan"), 0.0]])])
    assert torch.equal(weights[0], start[0] - torch.tensor([0.1, 0.2]))
    assert weights[1].tolist() == [1.0, -1.0]
    assert weights[2].isnan().any()


def test_fewer_rows_go_on_with_their_own_state():
    """A row that goes on after its neighbour is done ends where it ends alone."""
    recipe = Recipe(SGD(0.1, momentum=0.9), proximal=0.5, radius=1.0)
    pair, single = torch.tensor([[1.0], [2.0]]), torch.tensor([[1.0]])
    both, one = StepRule(recipe, 0, [pair], [None]), StepRule(recipe, 0, [single], [None])
    for step, rows in enumerate((2, 2, 1, 1)):
        both.take(step, [torch.full((rows, 1), 0.3)])
        one.take(step, [torch.full((1, 1), 0.3)])
    assert torch.equal(pair[:1], single)


def test_plain_sgd_is_known_by_what_it_keeps_and_adds():
    recipe = Recipe(SGD(0.5, weight_decay=0.1), epochs=3, batch_size=7, max_steps=2)
    assert only_adds(recipe) == (1 - 0.5 * 0.1, -0.5)
    halved = replace(recipe, schedule=StepDecay(2, 0.5, over="rounds"))
    assert only_adds(halved, 1) == (0.95, -0.5)
    assert only_adds(halved, 2) == (1 - 0.25 * 0.1, -0.25)


class OtherSGD(SGD):
    """One of somebody else's: its forms may be others."""


@dataclass(frozen=True)
class Wider(Recipe):
    extra: float = 0.0


@pytest.mark.parametrize(
    "recipe",
    [
        Recipe(SGD(0.1, momentum=0.5)),
        Recipe(Adam()),
        Recipe(OtherSGD(0.1)),
        Recipe(clip=1.0),
        Recipe(proximal=0.1),
        Recipe(radius=1.0),
        Recipe(ascent=True),
        Recipe(schedule=Cosine(3)),
        Wider(extra=1.0),
    ],
    ids=str,
)
def test_whatever_else_is_in_a_recipe_is_not_written_out(recipe):
    assert only_adds(recipe) is None
