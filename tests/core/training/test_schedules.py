"""Learning rates over steps and rounds, against PyTorch's own schedulers."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch.optim.lr_scheduler import CosineAnnealingLR, LinearLR, LRScheduler, SequentialLR, StepLR

from unknot.core.errors import ConfigError
from unknot.core.training import SCHEDULES, SGD, ConstantRate, Cosine, Recipe, Schedule, StepDecay, WarmUp

Build = Callable[[torch.optim.Optimizer], LRScheduler]


def warmed(length: int, then: Build) -> Build:
    """PyTorch's linear warm-up, then another scheduler."""

    def build(optimizer: torch.optim.Optimizer) -> LRScheduler:
        rise = LinearLR(optimizer, start_factor=1 / (length + 1), total_iters=length)
        return SequentialLR(optimizer, [rise, then(optimizer)], milestones=[length])

    return build


CASES: list[tuple[Callable[[str], Schedule], Build]] = [
    (lambda over: StepDecay(3, 0.5, over), lambda o: StepLR(o, 3, 0.5)),
    (lambda over: Cosine(11, 0.0, over), lambda o: CosineAnnealingLR(o, 11)),
    (lambda over: Cosine(11, 0.2, over), lambda o: CosineAnnealingLR(o, 11, eta_min=0.2 * 0.3)),
    (lambda over: WarmUp(4, over), lambda o: LinearLR(o, start_factor=1 / 5, total_iters=4)),
    (lambda over: StepDecay(3, 0.5, over, warmup=4), warmed(4, lambda o: StepLR(o, 3, 0.5))),
    (lambda over: Cosine(7, 0.0, over, warmup=4), warmed(4, lambda o: CosineAnnealingLR(o, 7))),
]


@pytest.mark.parametrize("over", ["steps", "rounds"])
@pytest.mark.parametrize(("make", "build"), CASES)
def test_rates_are_those_of_torchs_schedulers(make, build, over):
    recipe = Recipe(SGD(0.3), schedule=make(over))
    optimizer = torch.optim.SGD([torch.zeros(1)], lr=0.3)
    scheduler = build(optimizer)
    for count in range(12):
        step, round = (count, 5) if over == "steps" else (5, count)
        assert recipe.rate(step, round) == pytest.approx(
            optimizer.param_groups[0]["lr"], rel=1e-12, abs=1e-15
        )
        optimizer.step()
        scheduler.step()


def test_a_constant_rate_is_the_optimisers_own_in_its_bits():
    assert {Recipe(SGD(0.1)).rate(step, round) for step in range(3) for round in range(3)} == {0.1}


def test_what_has_come_to_its_end_stays_there():
    assert [Cosine(4, 0.25).scale(count, 0) for count in (4, 5, 100)] == [0.25] * 3
    assert WarmUp(4).scale(100, 0) == 1.0


def test_jobs_of_one_rate_go_together_and_others_do_not():
    over_rounds = Recipe(schedule=StepDecay(3, over="rounds"))
    assert over_rounds.together(0) == over_rounds.together(2) != over_rounds.together(3)
    over_steps = Recipe(schedule=StepDecay(3))
    assert over_steps.together(0) == over_steps.together(3)
    assert over_steps.together(0) != Recipe().together(0)


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: Cosine(0), "length must be at least 1"),
        (lambda: Cosine(5, floor=1.5), r"floor must be in \[0, 1\]"),
        (lambda: Cosine(5, over="round"), "'rounds'"),
        (lambda: Cosine(5, warmup=-1), "warmup must not be negative"),
        (lambda: StepDecay(0), "every must be at least 1"),
        (lambda: StepDecay(2, factor=0.0), "factor must be positive"),
        (lambda: WarmUp(0), "length must be at least 1"),
        (lambda: Recipe(schedule=3), "schedule must be of the kind schedule, or the name of one"),
        (lambda: Recipe(optimizer=3), "optimizer must be of the kind optimiser, or the name of one"),
    ],
)
def test_impossible_schedules_are_refused(make, said):
    with pytest.raises(ConfigError, match=said):
        make()


def test_schedules_have_their_names():
    assert {"constant": ConstantRate, "warm-up": WarmUp, "step": StepDecay, "cosine": Cosine} == SCHEDULES
