"""Which way jobs are trained: a rule by model, recipe and device, never by a stopwatch.

Two ways of computing the same differ in the last bits, so the choice is part of a run's definition.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass

from unknot.core.errors import ConfigError, nearest
from unknot.core.loss import OwnLoss
from unknot.core.training.rows import kept_apart, ours
from unknot.engine.ways.kinds import Alone, Batched, Fused, Vmapped
from unknot.engine.ways.traits import Traits
from unknot.engine.ways.way import Case, Way, Workshop

WAYS: tuple[Way, ...] = (Fused(), Batched(), Vmapped(), Alone())
"""The fastest first. The last can train whatever there is."""


@dataclass(frozen=True)
class Choice:
    """The way that is taken, and why: its strength, and what speaks against those before it."""

    way: Way
    reason: str


def named(path: str) -> Way | None:
    """The way that was asked for; None for "auto"."""
    known = {way.name: way for way in WAYS}
    if path != "auto" and path not in known:
        raise ConfigError(f"unknown path {path!r}.{nearest(path, ['auto', *known])}")
    return known.get(path)


def usual(traits: Traits, wanted: Way | None = None) -> Choice:
    """The way for a model as such, with plain SGD; raises for one that is wanted and cannot train it."""
    if wanted is not None and (why := wanted.lacks(traits)):
        raise ConfigError(f"path {wanted.name!r} cannot run this model: {why}")
    return Choice(wanted, "asked for") if wanted else _first(lambda w: w.lacks(traits) or w.unwise(traits))


def choose(
    case: Case, workshop: Workshop, wanted: Way | None = None, unstable: Collection[Way] = ()
) -> Choice:
    """The first way that can and is wise to take, or the one that is wanted.

    `unstable` are ways on which company would change bits here: they are not taken.
    """
    optimizer = case.recipe.optimizer
    mixes = not ours(optimizer) and not kept_apart(optimizer)

    def against(way: Way) -> str:
        if way in unstable:
            return "its rows are not kept apart"
        lack = way.lacks(case.traits) or way.unwise(case.traits, case.loss)
        return lack or why_not(way)

    def why_not(way: Way) -> str:
        if way.stacks and mixes:
            return f"{optimizer.name!r} trains a row of a stack otherwise than alone"
        return way.why_not(case, workshop)

    if wanted is None:
        choice = _first(against)
    elif why := why_not(wanted):
        raise ConfigError(f"path {wanted.name!r} cannot run this: {why}")
    else:
        choice = Choice(wanted, "asked for")
    if not isinstance(case.loss, OwnLoss):
        return choice
    return Choice(choice.way, f"{choice.reason}; {case.loss.said()}")


def _first(against: Callable[[Way], str]) -> Choice:
    """The first that nothing speaks against."""
    passed: list[str] = []
    for way in WAYS:
        if not (why := against(way)):
            return Choice(way, "; ".join([way.strength, *passed]))
        passed.append(f"not {way.name}: {why}")
    raise AssertionError("the last way takes everything")
