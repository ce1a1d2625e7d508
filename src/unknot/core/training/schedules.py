"""How the learning rate changes, over the local steps of a job or over the rounds of a federation.

A schedule gives the share of the optimiser's learning rate. Local steps are counted from 0 in every job,
rounds are the version of the model that a job starts from: where an erasure begins again, so does the count.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar, final

from unknot.core.errors import ConfigError, nearest
from unknot.core.registry import schedules
from unknot.core.training.limits import at_least_one, not_negative, positive, share

OVER = ("steps", "rounds")


class Schedule(ABC):
    """A share of the learning rate for every count of what it goes `over`.

    In the first `warmup` of them the rate rises in equal parts, and `after` counts from where it is full.
    """

    name: ClassVar[str]
    over: str = "steps"
    warmup: int = 0

    def __post_init__(self) -> None:
        if self.over not in OVER:
            raise ConfigError(
                f"{type(self).__name__}: over is 'steps' or 'rounds', not {self.over!r}."
                f"{nearest(str(self.over), OVER)}"
            )
        not_negative(self, warmup=self.warmup)

    @final
    def scale(self, step: int, round: int) -> float:
        """The share in a job's local step (from 0) in a round (from 0)."""
        count = round if self.over == "rounds" else step
        if count < self.warmup:
            return (count + 1) / (self.warmup + 1)
        return self.after(count - self.warmup)

    @abstractmethod
    def after(self, count: int) -> float:
        """The share once so many steps or rounds have gone by since the warm-up."""


@dataclass(frozen=True)
class ConstantRate(Schedule):
    """The same rate always."""

    name: ClassVar[str] = "constant"

    def after(self, count: int) -> float:
        return 1.0


@dataclass(frozen=True)
class WarmUp(Schedule):
    """A rate that rises in equal parts for some steps or rounds, and stays."""

    length: int
    """How many steps or rounds it takes to rise, at least 1."""
    over: str = "steps"
    """What is counted: a job's local "steps", or the "rounds" of the model."""

    name: ClassVar[str] = "warm-up"

    def __post_init__(self) -> None:
        super().__post_init__()
        at_least_one(self, length=self.length)

    def after(self, count: int) -> float:
        return min(1.0, (count + 1) / (self.length + 1))


@dataclass(frozen=True)
class StepDecay(Schedule):
    """Times a factor, every so many steps or rounds: as `torch.optim.lr_scheduler.StepLR`."""

    every: int
    """After how many steps or rounds the rate changes, at least 1."""
    factor: float = 0.1
    """What it is multiplied by then, above 0."""
    over: str = "steps"
    """What is counted: a job's local "steps", or the "rounds" of the model."""
    warmup: int = 0
    """For so many of them at first the rate rises in equal parts."""

    name: ClassVar[str] = "step"

    def __post_init__(self) -> None:
        super().__post_init__()
        at_least_one(self, every=self.every)
        positive(self, factor=self.factor)

    def after(self, count: int) -> float:
        return float(self.factor ** (count // self.every))


@dataclass(frozen=True)
class Cosine(Schedule):
    """Half a cosine from the full rate down to a share of it.

    As `torch.optim.lr_scheduler.CosineAnnealingLR`; but at the end it stays at the floor, while PyTorch's
    goes up again.
    """

    length: int
    """How many steps or rounds it takes to come down, at least 1."""
    floor: float = 0.0
    """The share of the rate that is left at the end, from 0 to 1."""
    over: str = "steps"
    """What is counted: a job's local "steps", or the "rounds" of the model."""
    warmup: int = 0
    """For so many of them at first the rate rises in equal parts."""

    name: ClassVar[str] = "cosine"

    def __post_init__(self) -> None:
        super().__post_init__()
        at_least_one(self, length=self.length)
        share(self, floor=self.floor)

    def after(self, count: int) -> float:
        done = min(1.0, count / self.length)
        return self.floor + (1 - self.floor) * (1 + math.cos(math.pi * done)) / 2


SCHEDULES = schedules.open({kind.name: kind for kind in (ConstantRate, WarmUp, StepDecay, Cosine)}, Schedule)
