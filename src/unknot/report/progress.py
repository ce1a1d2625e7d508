"""A live line while a run goes on: the main metric and simulated time, and the requests as they come."""

from __future__ import annotations

from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TaskProgressColumn, TextColumn

from unknot.federation import Event, Round
from unknot.federation.clustered import JOINT
from unknot.report.cells import shown
from unknot.report.summary import where


class Live:
    """An observer of a federation, and a context manager around its run.

    Lanes count their own rounds: how far a run is, is the mean over those that have reported.
    """

    def __init__(self, console: Console, rounds: int | None) -> None:
        self._done: dict[str, int] = {}
        self._progress = Progress(
            SpinnerColumn(),
            TextColumn("{task.description}"),
            BarColumn(),
            TaskProgressColumn(),
            TextColumn("{task.fields[metric]} [bold]{task.fields[value]}[/]  simulated {task.fields[time]}"),
            console=console,
            transient=True,
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

    def __call__(self, event: Event) -> None:
        if isinstance(event, Round):
            if event.value is not None:
                name = next(iter(event.scores.values())).name
                self._progress.update(self._task, metric=name, value=shown(event.value, name))
            if event.lane != JOINT:
                self._done[event.lane] = event.round
            whose = f"{event.lane}, " if len(self._done) > 1 else ""
            self._progress.update(
                self._task,
                completed=sum(self._done.values()) / max(len(self._done), 1),
                description=f"{whose}round {event.round}",
                time=f"{event.time:.1f} s",
            )
            return
        note = f"[yellow]▾[/] {where(event, len(self._done) > 1)}: {event.request}"
        if event.restarted:
            note += f"; started again: {', '.join(event.restarted)}"
        if event.visits:
            note += f"; {len(event.visits)} last visit{'' if len(event.visits) == 1 else 's'}"
        if event.cancelled:
            note += f"; {len(event.cancelled)} in flight called back"
        self._progress.console.print(note)
