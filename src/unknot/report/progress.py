"""A live line while a run goes on: accuracy and simulated time, and the requests as they come."""

from __future__ import annotations

from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TaskProgressColumn, TextColumn

from unknot.federation import Event, Round
from unknot.federation.clustered import JOINT
from unknot.report.summary import share, where


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
            TextColumn("accuracy [bold]{task.fields[accuracy]}[/]  simulated {task.fields[time]}"),
            console=console,
            transient=True,
        )
        self._task = self._progress.add_task("training", total=rounds, accuracy="–", time="0 s")

    def __enter__(self) -> Live:
        self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._progress.stop()

    def __call__(self, event: Event) -> None:
        if isinstance(event, Round):
            if event.accuracy is not None:
                self._progress.update(self._task, accuracy=share(event.accuracy))
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
        if event.cancelled:
            note += f"; {len(event.cancelled)} in flight called back"
        self._progress.console.print(note)
