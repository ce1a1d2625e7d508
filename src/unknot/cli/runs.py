"""``unknot runs``, ``show`` and ``watch``: look at runs in their folders, without running them."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import asdict
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.text import Text

from unknot.cli.app import PLAIN, app, errors_for_people
from unknot.cli.holding import Folder, Keys
from unknot.cli.screen import screen

if TYPE_CHECKING:
    from unknot.federation.events import Event, Served
    from unknot.store.look import Look
    from unknot.store.wanted import Wanted

EVERY = 0.5  # seconds between two looks
MANY = 5  # of more rounds in a row than these, the last is told
AsJson = Annotated[bool, typer.Option("--json", help="Print it as JSON, and nothing else.")]


@app.command(epilog=PLAIN)
def runs(
    folder: Annotated[Path, typer.Argument(metavar="[FOLDER]", help="Where to look, and below.")] = Path(),
    json_: AsJson = False,
) -> None:
    """List the runs that are kept in a folder and below: what each is, where it stands."""
    from unknot.core.errors import UnknotError
    from unknot.report.runs import table
    from unknot.store import look
    from unknot.store.noted import DATABASE

    with errors_for_people():
        found: list[dict[str, Any]] = []
        for place, closed in look.runs(folder):
            if closed:
                found.append({"folder": str(place), "error": closed})
                continue
            try:
                found.append(_told(look.look(place, for_people=not json_, through=True)))
            except (UnknotError, OSError) as error:
                if not (place / DATABASE).exists():  # taken away meanwhile
                    continue
                found.append({"folder": str(place), "error": str(error)})
        if json_:
            sys.stdout.write(json.dumps(found) + "\n")
        elif found:
            screen().print(table(found), crop=False)
        else:
            screen().print(f"no runs are kept in {folder} or below: unknot run FILE.toml --out DIR keeps one")


@app.command(epilog=PLAIN)
def show(folder: Folder, json_: AsJson = False, keys: Keys = None) -> None:
    """Say what a kept run is, where it stands, what was asked and erased, and what it keeps."""
    from unknot.report.runs import sheet
    from unknot.store.look import look

    with errors_for_people():
        found = _told(look(folder, keys, for_people=not json_, through=True))
        if json_:
            sys.stdout.write(json.dumps(found) + "\n")
        else:
            screen().print(sheet(found))


@app.command(epilog=PLAIN)
def watch(folder: Folder, keys: Keys = None) -> None:
    """Look on while a run goes on in another process, by its folder alone, until it ends."""
    from unknot.report.runs import standing
    from unknot.store.look import RUNNING
    from unknot.store.watching import Watching

    with errors_for_people(lambda: "the run goes on; only this looking on has ended"):
        console, watching = screen(), Watching(folder, keys)
        told = _Telling(watching.told)
        live = console.status("looking") if console.is_terminal else nullcontext()
        with live as status:
            while True:
                found, events, before = watching.look()
                for line in told.lines(found, events, before):
                    console.print(Text(line), soft_wrap=True)
                if found.state != RUNNING:
                    break
                if status is not None:
                    status.update(f"{standing(_told(found))}{told.last}")
                time.sleep(EVERY)
        console.print(Text(standing(_told(found))), soft_wrap=True)


def _told(found: Look) -> dict[str, Any]:
    return asdict(found)


class _Telling:
    """A run that is looked at again and again, in lines."""

    def __init__(self, told: Callable[[Served], str] = lambda served: served.request) -> None:
        self._told = told
        self._states: dict[int, str] = {}
        self._first = True
        self.last = ""
        """The last measurement, in words."""

    def lines(self, found: Look, events: Sequence[Event], before: int) -> list[str]:
        """A line for each event, and for each request whose state is another, in the order of what happened.

        Of many rounds in a row, which come with one checkpoint, the last has a line. `before`: how many
        requests had been served before these events.
        """
        from unknot.federation.events import Round
        from unknot.report.words import counted

        beside, late = self._news(found, events, before)
        lines: list[str] = []
        at = 0
        for is_round, some in groupby(events, lambda event: isinstance(event, Round)):
            each = list(some)
            skipped = len(each) - 1 if is_round and len(each) > MANY else 0
            if skipped:
                lines.append(f"… {counted(skipped, 'round')}")
            for place, event in list(enumerate(each, at))[skipped:]:
                lines += [self._event(event), *map(self._request, beside.get(place, ()))]
            at += len(each)
        return [*lines, *map(self._request, late)]

    def _news(
        self, found: Look, events: Sequence[Event], before: int
    ) -> tuple[dict[int, list[Wanted]], list[Wanted]]:
        """The requests whose state is another: by the place of the event that is theirs, or of now.

        At first those are left out that were over before the events that are told.
        """
        from unknot.federation.events import Served
        from unknot.store.look import RUNNING

        first, self._first = self._first, False
        served = [place for place, event in enumerate(events) if isinstance(event, Served)]
        places = dict(enumerate(served, before))
        late: list[Wanted] = []
        beside: dict[int, list[Wanted]] = {}
        for one in found.requests:
            if one.number is None or self._states.get(one.number) == one.state:
                continue
            over = one.state in ("served", "refused")
            if one.order in places and one.state == "served":
                beside.setdefault(places[one.order], []).append(one)
            elif found.state == RUNNING and self._is_ahead(one, before + len(served)):
                continue  # it comes with the next checkpoint, as the rounds before it do
            elif not (first and over):
                late.append(one)
            self._states[one.number] = one.state
        return beside, late

    @staticmethod
    def _is_ahead(one: Wanted, told: int) -> bool:
        """Whether a request was served, and the log did not have that yet when it was looked through."""
        return one.time is not None and (one.order is None or one.order >= told)

    def _event(self, event: Event) -> str:
        from unknot.federation.events import Round
        from unknot.report.cells import shown

        if not isinstance(event, Round):
            return f"▾ round {event.round}, {event.time:.1f} s: {self._told(event)}"
        score = next(iter(event.scores.values()), None)
        self.last = "" if score is None else f", {score.name} {shown(event.value, score.name)}"
        return f"{event.lane}, round {event.round}{self.last}, simulated {event.time:.1f} s"

    @staticmethod
    def _request(one: Wanted) -> str:
        return f"request {one.number}, {one.request}: {one.state}"
