"""Who looks on while a federation runs, and what becomes of one that fails.

An observer is called with each `Round` and each `Served` as it happens. One that has the methods `begin` and
`end` is told what the run is made of, and how it ended. All that it is handed is its own copy: whatever it
does with that, the run stays as it is.
"""

from __future__ import annotations

import copy
import logging
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from unknot.core.errors import said
from unknot.core.jobs import Score
from unknot.federation.events import Costs, Event, Round
from unknot.federation.history import History, SetAside
from unknot.federation.recovery import Recovery

Observer = Callable[[Event], None]


@dataclass(frozen=True)
class Begun:
    """A run is about to begin."""

    method: str
    """The method's name."""
    guarantee: str
    """What is promised, in words."""
    seed: int
    """The seed of every draw."""
    metrics: tuple[str, ...]
    """By name, the main one first."""
    setup: dict[str, Any]
    """What the federation is made of, as in the record: method, recipe, pace, clock, model, data."""
    experiment: dict[str, Any]
    """The file that the run comes from, where it comes from one."""
    members: dict[str, tuple[int, ...]]
    """The clients of each lane when the first run began."""
    names: dict[int, str]
    """What clients are called, where they have names."""
    rounds: int
    """How many were recorded before: not 0 where a federation goes on."""

    @staticmethod
    def of(history: History) -> Begun:
        return Begun(
            method=history.method,
            guarantee=history.guarantee,
            seed=history.seed,
            metrics=tuple(history.setup["metrics"]),
            setup=copy.deepcopy(history.setup),
            experiment=copy.deepcopy(history.experiment),
            members=dict(history.members),
            names=dict(history.names),
            rounds=len(history.rounds),
        )


@dataclass(frozen=True)
class Ended:
    """A run is over, or was broken off: then `error` says by what, and there are no scores and no model."""

    stopped: str
    """Why: "rounds", "seconds", "accuracy", "goal", "no clients left"."""
    error: str
    """What broke it off; nothing where it ended by itself."""
    guarantee: str
    """What was promised, in words."""
    time: float
    """Simulated seconds."""
    scores: dict[str, Score]
    """How the served model does, on all data that it can be measured on."""
    costs: Costs
    """What the run has cost."""
    recoveries: tuple[Recovery, ...]
    """What it took to be as good as before, a request each."""
    seconds: dict[str, float]
    """Real ones: to train, to evaluate, in total."""
    warnings: tuple[str, ...]
    """What went wrong without an error, a sentence each."""
    unserved: tuple[str, ...]
    """Requests whose moment has not come yet."""
    waived: tuple[str, ...]
    """Erased units that what an approximate method kept had been shaped by."""
    model: str | None
    """The served model's digest."""

    @staticmethod
    def of(history: History, error: str = "") -> Ended:
        over = not error
        return Ended(
            stopped=history.stopped if over else "",
            error=error,
            guarantee=history.guarantee,
            time=history.time,
            scores=_copies(history.scores) if over else {},
            costs=replace(history.costs),
            recoveries=tuple(map(replace, history.recoveries)),
            seconds=dict(history.seconds),
            warnings=tuple(history.warnings),
            unserved=tuple(history.unserved) if over else (),
            waived=tuple(history.waived),
            model=history.model.digest() if over and history.model is not None else None,
        )


class Observers:
    """Those who look on, in the order in which they were given. One that raises is asked no more."""

    def __init__(self, observers: Sequence[Observer]) -> None:
        self._there = list(observers)
        self._interruption: BaseException | None = None

    @contextmanager
    def during(self, history: History) -> Iterator[None]:
        """Tell those who want to know it that a run begins; and that it ended, in whatever way."""
        error = ""
        try:
            self._each("begin", "the start", lambda: Begun.of(history), history)
            yield
        except BaseException as raised:
            error = said(raised)
            raise
        finally:
            self._end(history, error)

    def tell(self, event: Event, history: History) -> None:
        said = f"round {event.round} of {event.lane}" if isinstance(event, Round) else f"'{event.request}'"
        try:
            self._each("__call__", said, lambda: _copy(event), history)
        except (KeyboardInterrupt, SystemExit) as error:  # heard when the step is made
            self._interruption = self._interruption or error

    def heard(self) -> None:
        """Between two steps: raise what an observer interrupts the run with."""
        error, self._interruption = self._interruption, None
        if error is not None:
            raise error

    def _end(self, history: History, error: str) -> None:
        """Tell all of the end: one that interrupts is heard when the others have been told."""
        with ExitStack() as interruptions:
            for observer in reversed(self._there):
                interruptions.callback(
                    self._one, observer, "end", "the end", lambda: Ended.of(history, error), history
                )

    def _each(self, method: str, when: str, made: Callable[[], Any], history: History) -> None:
        for observer in list(self._there):
            self._one(observer, method, when, made, history)

    def _one(
        self, observer: Observer, method: str, when: str, made: Callable[[], Any], history: History
    ) -> None:
        try:
            call = getattr(observer, method, None)
            if call is not None:
                call(made())
        except Exception as error:
            self._there = [one for one in self._there if one is not observer]
            aside = SetAside(_name(observer), when, said(error) + _where(error))
            history.set_aside(aside)
            logging.getLogger(__name__).warning("%s", aside)


def _copy(event: Event) -> Event:
    """The event, with values and tables of its own."""
    costs, trips = replace(event.costs), tuple(map(replace, event.trips))
    if isinstance(event, Round):
        scores, own = _copies(event.scores), _copies(event.own)
        aside = dict(event.set_aside)
        return replace(event, set_aside=aside, scores=scores, own=own, costs=costs, trips=trips)
    return replace(
        event,
        costs=costs,
        trips=trips,
        visits=tuple(map(replace, event.visits)),
        before=_copies(event.before),
        after=_copies(event.after),
        entered=dict(event.entered),
        left=dict(event.left),
    )


def _copies(scores: Mapping[str, Score]) -> dict[str, Score]:
    return {split: replace(score, metrics=dict(score.metrics)) for split, score in scores.items()}


def _name(observer: Observer) -> str:
    """What a function is called; of anything else, its class."""
    try:
        return str(getattr(observer, "__name__", type(observer).__name__))
    except Exception:
        return type(observer).__name__


def _where(error: BaseException) -> str:
    """The line that raised it: without a traceback, that is what its writer needs."""
    frame = traceback.extract_tb(error.__traceback__)[-1]
    return f" ({Path(frame.filename).name}:{frame.lineno})"
