"""How long a run goes on."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields, replace
from typing import TypedDict

from unknot.core.errors import ConfigError
from unknot.core.fields import convert, field_names, refuse_unknown
from unknot.core.metrics import Metric
from unknot.federation.history import History
from unknot.federation.steady import settled

_HOW = ("window", "deviation", "judge")
"""What says how a goal is judged."""


@dataclass(frozen=True)
class Length:
    """The length of a run: so many more rounds, so many simulated seconds, or until a steady `goal`.

    The goal is the main metric's, and is called `accuracy` where that is it. It is on validation data, of
    what is served or, as KNOT's paper has it, of the best lane: the one whose own model was best when it last
    reported. It counts once that has been steady: deviations are standard ones (of perplexities those of the
    logarithms).
    """

    rounds: int | None = None
    """How many (more) rounds are made: by the federation, or by each of its clusters."""
    seconds: float | None = None
    """How many (more) simulated seconds it goes on."""
    accuracy: float | None = None
    """Stop once validation accuracy is this high, in (0, 1]."""
    window: int = 1
    """Over how many of its latest measurements it must have been; of a cluster, over its own."""
    deviation: float | None = None
    """The greatest standard deviation that their values may have; left out: any."""
    judge: str = "served"
    """Whose value counts: what is "served", or that of the "best" cluster."""
    goal: float | None = None
    """As accuracy, for whatever the main metric is."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "rounds", convert(self.rounds, int | None, "rounds"))
        if self.rounds is None and self.seconds is None:
            raise ConfigError(
                "a run needs a length: give rounds or seconds (an accuracy alone may never be reached)"
            )
        if self.rounds is not None and self.rounds < 1:
            raise ConfigError(f"rounds must be at least 1, not {self.rounds}")
        if self.seconds is not None and not 0 < self.seconds < math.inf:
            raise ConfigError(f"seconds must be positive and finite, not {self.seconds}")
        if self.accuracy is not None and not 0 < self.accuracy <= 1:
            raise ConfigError(f"accuracy is a share: between 0 and 1, not {self.accuracy}")
        if self.accuracy is not None and self.goal is not None:
            raise ConfigError("a run stops at an accuracy or at a goal, not at both")
        if self.goal is not None and not math.isfinite(self.goal):
            raise ConfigError(f"goal must be finite, not {self.goal}")
        if self.window < 1:
            raise ConfigError(f"window must be at least 1, not {self.window}")
        if self.deviation is not None and not self.deviation >= 0:
            raise ConfigError(f"deviation must not be negative, not {self.deviation}")
        if self.judge not in ("served", "best"):
            raise ConfigError(f"judge of a run's end is 'served' or 'best', not {self.judge!r}")
        idle = [
            f"{part.name} = {said!r}"
            for part in fields(self)
            if part.name in _HOW and (said := getattr(self, part.name)) != part.default
        ]
        if idle and self.target is None:
            are, them = ("is", "it") if len(idle) == 1 else ("are", "them")
            raise ConfigError(
                f"{', '.join(idle)} {are} for a run that stops at a goal: give accuracy, or "
                f"goal, as well, or leave {them} out"
            )

    @staticmethod
    def of(length: int | Length | None, parts: LengthParts) -> Length:
        """From a number of rounds, or a length that there is, and the parts that are given beside it."""
        refuse_unknown(parts, [*field_names(Length), "requests"], "a run's length")
        if isinstance(length, Length):
            return replace(length, **parts)
        return Length(length, **parts)

    @property
    def target(self) -> float | None:
        """What the main metric is to reach, by either name."""
        return self.accuracy if self.goal is None else self.goal

    def check(self, metric: Metric) -> None:
        """Raise `ConfigError` for a target that is not the main metric's."""
        if self.accuracy is not None and metric.name != "accuracy":
            raise ConfigError(
                f"the main metric of this run is {metric.name}: stop at goal = ..., or name accuracy first"
            )
        if self.goal is not None:
            metric.check_goal(self.goal, "goals")

    def reached(self, history: History) -> bool:
        """Whether the main metric is at its target since the last request and, if asked for, settled."""
        if self.target is None:
            return False
        best = settled(self._reports(history), history.metric, self.window, self.deviation)
        return best is not None and history.metric.reached(best, self.target)

    def _reports(self, history: History) -> dict[str | None, list[float]]:
        """What each lane measured since the last request; of what is served, that is one lane."""
        found: dict[str | None, list[float]] = {}
        for record in history.since_request:
            if "validation" not in record.scores:
                continue
            # Where there is one lane, its model is what is served.
            scores = record.own if self.judge == "best" and record.own else record.scores
            lane = record.lane if self.judge == "best" else None
            found.setdefault(lane, []).append(scores["validation"].value)
        return found


class LengthParts(TypedDict, total=False):
    """The fields of `Length` but for the rounds, as keyword arguments."""

    seconds: float | None
    accuracy: float | None
    window: int
    deviation: float | None
    judge: str
    goal: float | None
