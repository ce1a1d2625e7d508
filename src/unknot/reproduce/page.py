"""What the page of every reproduction has, of federated runs and of games alike."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple, Protocol

from unknot.reproduce.verdicts import Verdict

COMMIT = re.compile("[0-9a-f]+")  # the first digits of it


class Recorded(Protocol):
    """A record: the machine and the code that it was made with, and when."""

    @property
    def machine(self) -> Mapping[str, Any]: ...
    @property
    def commit(self) -> str | None: ...
    @property
    def clean(self) -> bool | None: ...
    @property
    def made(self) -> str | None: ...


class Made(NamedTuple):
    """A record that a page shows, and where."""

    panel: str
    line: str
    record: Recorded
    seed: int | None = None


@dataclass(frozen=True)
class Page:
    """Its head, whether the claims held, and with what it was made."""

    name: str
    title: str
    paper: str
    figure: str
    claim: str
    scale: str
    verdicts: tuple[Verdict, ...]
    machines: tuple[str, ...]
    commits: tuple[str, ...]
    doubts: tuple[str, ...]
    """Which of its lines cannot be traced to a commit, and why."""

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def head(plan: object, scale: str, overrides: Sequence[str] = ()) -> dict[str, Any]:
    """What a page takes over from a plan of either kind; below what the paper claims, what was set."""
    names = ("name", "title", "paper", "figure", "claim")
    found = {**{name: getattr(plan, name) for name in names}, "scale": scale}
    if overrides:
        told = " and ".join(f"`{change}`" for change in overrides)
        found["claim"] += f"\n\nWith {told}, which is not the file's configuration."
    return found


def foot(made: Iterable[Made], words: Callable[[Mapping[str, Any]], str]) -> dict[str, Any]:
    """The machines, in `words`, the commits of records, with when they were made, and which have none."""
    shown = list(made)
    records = [item.record for item in shown]
    doubts: dict[str, list[Made]] = {}
    for item in shown:
        if why := doubt(item.record):
            doubts.setdefault(why, []).append(item)
    machines: dict[str, list[Made]] = {}
    for item in shown:
        machines.setdefault(words(item.record.machine), []).append(item)
    return {
        "machines": tuple(
            f"{machine}: {_places(items, shown)}" if len(machines) > 1 else machine
            for machine, items in sorted(machines.items())
        ),
        "commits": tuple(
            f"{commit}{_days(record.made for record in records if record.commit == commit)}"
            for commit in sorted({record.commit for record in records if record.commit})
        ),
        "doubts": tuple(f"{why}: {_places(items, shown)}" for why, items in sorted(doubts.items())),
    }


def doubt(record: Recorded) -> str | None:
    """Why a record cannot be traced to the code that made it."""
    if not record.commit:
        return "without a commit"
    if not COMMIT.fullmatch(record.commit):
        return f"from {record.commit!r}, which names no commit"
    return None if record.clean is True else f"from {record.commit} with changes to it"


def _days(moments: Iterable[str | None]) -> str:
    """`` (2026-03-01 to 2026-03-04)``; nothing where it is not known."""
    days = sorted({moment[:10] for moment in moments if moment})
    return f" ({' to '.join(dict.fromkeys((days[0], days[-1])))})" if days else ""


def _places(items: Iterable[Made], shown: Iterable[Made]) -> str:
    """By panel the lines; the panel alone where it is all of them, and all where it is every panel.

    Of lines that are in it with some of their seeds alone, which.
    """
    some, every = _seeds(items), _seeds(shown)
    if some == every:
        return "everything"
    found = []
    for panel in dict.fromkeys(panel for panel, _ in some):
        lines = {line: seeds for (where, line), seeds in some.items() if where == panel}
        parts = {line: _told(seeds, every[panel, line]) for line, seeds in lines.items()}
        alike = set(parts.values())
        if len(lines) == sum(where == panel for where, _ in every) and len(alike) == 1:
            found.append(panel + alike.pop())
        else:
            named = ", ".join(sorted(line + part for line, part in parts.items()))
            found.append(": ".join(filter(None, (panel, named))))
    return "; ".join(found)


def _told(seeds: set[int], whole: set[int]) -> str:
    """`` (seeds 0, 2)``; nothing where it is all of them."""
    if seeds == whole:
        return ""
    return f" (seed{'s' if len(seeds) > 1 else ''} {', '.join(map(str, sorted(seeds)))})"


def _seeds(items: Iterable[Made]) -> dict[tuple[str, str], set[int]]:
    """By panel and line; none where nobody knows."""
    found: dict[tuple[str, str], set[int]] = {}
    for panel, line, _, seed in items:
        found.setdefault((panel, line), set()).update(() if seed is None else (seed,))
    return found
