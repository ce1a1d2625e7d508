"""When a run ends, and whether what is asked of it is possible: known before training starts."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from unknot.core.data import FederatedData
from unknot.core.errors import ConfigError, RequestError
from unknot.core.requests import Erase, Request
from unknot.federation.history import Round


@dataclass(frozen=True)
class Stop:
    """The end of a run: so many rounds, so many simulated seconds, or a steady accuracy.

    The accuracy is on validation data, of what is "served" or, as KNOT's paper has it, of the "best"
    lane: the greatest of the latest that each lane's own model had.
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
        if self.seconds is not None and not self.seconds > 0:
            raise ConfigError(f"seconds must be positive, not {self.seconds}")
        if self.accuracy is not None and not 0 < self.accuracy <= 1:
            raise ConfigError(f"accuracy is a share: between 0 and 1, not {self.accuracy}")
        if self.window < 1:
            raise ConfigError(f"window must be at least 1, not {self.window}")
        if self.deviation is not None and not self.deviation >= 0:
            raise ConfigError(f"deviation must not be negative, not {self.deviation}")
        if self.judge not in ("served", "best"):
            raise ConfigError(f"the judge of a run's end is 'served' or 'best', not {self.judge!r}")

    def steady(self, rounds: Sequence[Round]) -> bool:
        """Whether validation accuracy has reached its target and, if asked for, settled."""
        if self.accuracy is None:
            return False
        recent = self._accuracies(rounds)[-self.window :]
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


def check_requests(
    requests: Iterable[Request],
    data: FederatedData,
    members: Iterable[int],
    stop: Stop,
    rounds_done: int,
    seconds_done: float,
) -> None:
    """Raise `RequestError` for the first request that could not be served in its turn."""
    rehearsal = data.fork()
    present = set(members)
    # Rounds and times cannot be compared before the run: each kind is taken in its own order.
    for request in sorted(requests, key=lambda r: (r.at.time is not None, r.at.round or r.at.time or 0)):
        _check_moment(request, stop, rounds_done, seconds_done)
        if isinstance(request, Erase):
            for target in request.targets:
                rehearsal.check_erasable(target.client, target.samples)
                if target.client not in present:
                    raise RequestError(f"cannot erase client {target.client}: it has not joined by then")
                rehearsal.erase(target.client, target.samples)
        else:
            for client in request.clients:
                if client in rehearsal.erased:
                    raise RequestError(f"client {client} cannot join again: its data was erased")
                if client not in rehearsal:
                    raise RequestError(
                        f"cannot join client {client}: there is data of {data.describe_clients()}"
                    )
                if client in present:
                    raise RequestError(f"client {client} is a member already")
                present.add(client)


def _check_moment(request: Request, stop: Stop, rounds_done: int, seconds_done: float) -> None:
    at = request.at
    if at.round is not None and stop.rounds is not None and at.round >= rounds_done + stop.rounds:
        raise RequestError(
            f"'{request}' comes after round {at.round}, but the run ends after "
            f"{rounds_done + stop.rounds} rounds: nothing would be left to recover in. "
            "Ask earlier, or train for more rounds"
        )
    if at.time is not None and stop.seconds is not None and at.time >= seconds_done + stop.seconds:
        raise RequestError(
            f"'{request}' comes at {at.time:g} s, but the run ends at {seconds_done + stop.seconds:g} s"
        )
