"""A live line while a run goes on: the main metric and simulated time, and the requests as they come.

Or while several go on together: how far each is.
"""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, SpinnerColumn, TaskProgressColumn, TextColumn
from rich.text import Text

from unknot.federation import Begun, Event, Round, Served
from unknot.federation.clustered import JOINT
from unknot.report.cells import shown
from unknot.report.words import where

LINES = 10
"""Where there is no live line, as in a log, so many lines at most tell how far a run is (of each cluster)."""


class Live:
    """An observer of a federation, and a context manager around its run.

    Lanes count their own rounds: how far a run is, is the mean over those that have reported.
    """

    def __init__(self, console: Console, rounds: int | None) -> None:
        self._done: dict[str, int] = {}
        self.seen = 0
        """How many rounds it was told of, of all lanes together."""
        self._lanes: set[str] = set()
        self._told: Callable[[Served], str] = lambda served: served.request
        self._every = max(1, (rounds or 0) // LINES)
        self._progress = Progress(
            SpinnerColumn(),
            TextColumn("{task.description}"),
            BarColumn(),
            TaskProgressColumn(),
            TextColumn("{task.fields[metric]} [bold]{task.fields[value]}[/]  simulated {task.fields[time]}"),
            console=console,
            transient=True,
            disable=not console.is_terminal,
        )
        self._task = self._progress.add_task(
            "training", total=rounds, metric="accuracy", value="–", time="0 s"
        )

    def __enter__(self) -> Live:
        self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._progress.stop()

    def begin(self, begun: Begun) -> None:
        self._lanes, self._told = set(begun.members), begun.told
        self._progress.update(self._task, metric=escape(begun.metrics[0]))

    @property
    def rounds(self) -> int:
        """How far the furthest lane is."""
        return max(self._done.values(), default=0)

    def __call__(self, event: Event) -> None:
        if isinstance(event, Round):
            self.seen += 1
            self._lanes.add(event.lane)
            if event.value is not None:
                name = next(iter(event.scores.values())).name
                self._progress.update(self._task, metric=escape(name), value=shown(event.value, name))
                if not self._progress.console.is_terminal and event.round % self._every == 0:
                    at = f"{event.lane}, " if len(self._lanes) > 1 else ""
                    told = f"{at}round {event.round}: {name} {shown(event.value, name)}"
                    self._progress.console.print(Text(f"{told}, simulated {event.time:.1f} s"))
            if event.lane != JOINT:
                self._done[event.lane] = event.round
            whose = f"{event.lane}, " if len(self._lanes) > 1 else ""
            self._progress.update(
                self._task,
                completed=sum(self._done.values()) / max(len(self._done), 1),
                description=escape(f"{whose}round {event.round}"),
                time=f"{event.time:.1f} s",
            )
            return
        note = f" {where(event, len(self._lanes) > 1)}: {self._told(event)}"
        if event.restarted:
            note += f"; begins again: {', '.join(event.restarted)}"
        if event.visits:
            note += f"; {len(event.visits)} last visit{'' if len(event.visits) == 1 else 's'}"
        if event.cancelled:
            note += f"; {len(event.cancelled)} in flight called back"
        self._progress.console.print(Text.assemble(("▾", "yellow"), note))


class Together:
    """How far several runs are that go on side by side, by method and seed; a context manager around them."""

    def __init__(self, console: Console, runs: int, rounds: int | None) -> None:
        self._rounds, self._runs = rounds, runs
        self._done: dict[tuple[str, int], dict[str, int]] = {}
        self._progress = Progress(
            SpinnerColumn(),
            TextColumn("{task.description}"),
            BarColumn(),
            TaskProgressColumn(),
            console=console,
            transient=True,
            disable=not console.is_terminal,
        )
        self._task = self._progress.add_task(
            f"{runs} runs", total=None if rounds is None else float(rounds * runs)
        )

    def __enter__(self) -> Callable[[str, int, Event], None]:
        self._progress.start()
        return self._tell

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._progress.stop()

    def _tell(self, method: str, seed: int, event: Event) -> None:
        if not isinstance(event, Round) or event.lane == JOINT:
            return
        lanes = self._done.setdefault((method, seed), {})
        lanes[event.lane] = event.round
        done = sum(sum(found.values()) / len(found) for found in self._done.values())
        lane = f" of {event.lane}" if len(lanes) > 1 else ""
        self._progress.update(
            self._task,
            completed=done,
            description=escape(f"{self._runs} runs: {method}, seed {seed}, round {event.round}{lane}"),
        )
