"""How long a run goes on."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypedDict

from unknot.core.errors import ConfigError
from unknot.federation.history import History, Round


@dataclass(frozen=True)
class Length:
    """The length of a run: so many more rounds, so many simulated seconds, or until a steady accuracy.

    The accuracy is on validation data, of what is "served" or, as KNOT's paper has it, of the "best"
    lane: the greatest of the latest that each lane's own model had. It counts once it has been steady
    for `window` rounds: their standard deviation is at most `deviation`.
    """

    rounds: int | None = None
    seconds: float | None = None
    accuracy: float | None = None
    window: int = 1
    deviation: float | None = None
    judge: str = "served"

    def __post_init__(self) -> None:
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
        if self.window < 1:
            raise ConfigError(f"window must be at least 1, not {self.window}")
        if self.deviation is not None and not self.deviation >= 0:
            raise ConfigError(f"deviation must not be negative, not {self.deviation}")
        if self.judge not in ("served", "best"):
            raise ConfigError(f"the judge of a run's end is 'served' or 'best', not {self.judge!r}")

    @staticmethod
    def of(length: int | Length | None, parts: LengthParts) -> Length:
        """From a number of rounds, or a length that there is, and the parts that are given beside it."""
        if isinstance(length, Length):
            return replace(length, **parts)
        return Length(length, **parts)

    def reached(self, history: History) -> bool:
        """Whether validation accuracy is at its target since the last request and, if asked for, settled."""
        if self.accuracy is None:
            return False
        recent = self._accuracies(history.since_request)[-self.window :]
        if len(recent) < self.window or recent[-1] < self.accuracy:
            return False
        return self.deviation is None or statistics.pstdev(recent) <= self.deviation

    def _accuracies(self, rounds: Sequence[Round]) -> list[float]:
        found, latest = [], {}
        for record in rounds:
            if "validation" not in record.scores:
                continue
            # Where there is one lane, its model is what is served.
            scores = record.own if self.judge == "best" and record.own else record.scores
            latest[record.lane if self.judge == "best" else ""] = scores["validation"].accuracy
            found.append(max(latest.values()))
        return found


class LengthParts(TypedDict, total=False):
    """The fields of `Length` but for the rounds, as keyword arguments."""

    seconds: float | None
    accuracy: float | None
    window: int
    deviation: float | None
    judge: str
