"""How a federation is set up: one value, for whoever makes one, describes one or reads one from a file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TypedDict

from unknot.core import registry
from unknot.core.errors import ConfigError
from unknot.core.fields import convert, field_names, refuse_unknown
from unknot.core.metrics import Metric, MetricFunction, as_metrics
from unknot.core.selection import WHEN, AtRandom, Selector
from unknot.core.task import Task
from unknot.core.training import Recipe
from unknot.federation.aggregators import Aggregate, FedAvg
from unknot.federation.clock import Clock
from unknot.federation.pace import Pace, Synchronous


@dataclass(frozen=True)
class Setup:
    """What a client does, who is asked when, how updates are put together, and how often is measured.

    Pace, aggregator, clock (its slowness) and selector may be given by name, or as "package.module:Thing".
    """

    recipe: Recipe = field(default_factory=Recipe)
    """How clients train."""
    pace: Pace = field(default_factory=Synchronous)
    """How many clients are asked, and for how many the server waits."""
    aggregate: Aggregate = field(default_factory=FedAvg)
    """How updates become a model."""
    clock: Clock = field(default_factory=Clock)
    """How long clients take in simulated time; may be the name of a slowness."""
    select: Selector = field(default_factory=AtRandom)
    """Who is asked."""
    select_when: str = "always"
    """When it chooses: "always", or when "unlearning": a lane's rounds from its first request on."""
    seed: int = 0
    """The seed of every draw."""
    evaluate_every: int = 1
    """The served model is measured every so many rounds; 0: never."""
    evaluate_on: Sequence[str] = ("validation",)
    """On what it is measured then: "validation", "test"."""
    metrics: Sequence[Metric] = ()
    """By what, the main one first: names, metrics or functions; left out: the usual one for the data."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "metrics", as_metrics(self.metrics))
        object.__setattr__(self, "clock", _clock(self.clock))
        object.__setattr__(self, "seed", convert(self.seed, int, "seed"))
        for name, known in _BY_NAME.items():
            object.__setattr__(self, name, known.given(getattr(self, name), name))
        if not isinstance(self.recipe, Recipe):
            raise ConfigError(f"recipe must be a Recipe: write unknot.Recipe(...), not {self.recipe!r}")
        if self.select_when not in WHEN:
            raise ConfigError(f"select_when is 'always' or 'unlearning', not {self.select_when!r}")
        if self.evaluate_every < 0:
            raise ConfigError(f"evaluate_every must be 0 (never) or more, not {self.evaluate_every}")

    @property
    def task(self) -> Task:
        """What models are trained and judged by."""
        return Task(self.recipe.loss, tuple(self.metrics))

    @staticmethod
    def of(setup: Setup | None, recipe: Recipe | None, parts: SetupParts) -> Setup:
        """The whole that is given, or what is made of the parts; None stands for what is usual."""
        given = {**parts, "recipe": recipe} if recipe is not None else dict(parts)
        refuse_unknown(given, field_names(Setup), "a federation's setup")
        if setup is not None and given:
            raise ConfigError(f"give a federation's setup, or its parts ({', '.join(given)}), not both")
        return setup or Setup(**{name: part for name, part in given.items() if part is not None})  # type: ignore[arg-type]


_BY_NAME = {"pace": registry.paces, "aggregate": registry.aggregators, "select": registry.selectors}


def _clock(given: object) -> Clock:
    """A clock, or one that goes by the slowness of this name."""
    if isinstance(given, Clock):
        return given
    slowness = registry.clocks.given(given, "clock")
    if not isinstance(given, str):
        raise ConfigError(f"clock is a Clock, or the name of a slowness: write unknot.Clock({given!r})")
    return Clock(slowness)


class SetupParts(TypedDict, total=False):
    """The fields of `Setup` but for the recipe, as keyword arguments."""

    pace: Pace | str | None
    aggregate: Aggregate | str | None
    clock: Clock | str | None
    select: Selector | str | None
    select_when: str
    seed: int
    evaluate_every: int
    evaluate_on: Sequence[str]
    metrics: Sequence[Metric | MetricFunction | str]
