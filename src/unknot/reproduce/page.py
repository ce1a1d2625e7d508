"""What the page of every reproduction has, of federated runs and of games alike."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Protocol

from unknot.reproduce.claims import Verdict


class Made(Protocol):
    """A record: the machine and the commit that it was made with."""

    @property
    def machine(self) -> Mapping[str, Any]: ...
    @property
    def commit(self) -> str | None: ...


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

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def head(plan: object, scale: str) -> dict[str, Any]:
    """What a page takes over from a plan of either kind."""
    names = ("name", "title", "paper", "figure", "claim")
    return {**{name: getattr(plan, name) for name in names}, "scale": scale}


def foot(made: Iterable[Made], words: Callable[[Mapping[str, Any]], str]) -> dict[str, Any]:
    """The machines, in `words`, and the commits of records."""
    records = list(made)
    return {
        "machines": tuple(sorted({words(record.machine) for record in records})),
        "commits": tuple(sorted({record.commit for record in records if record.commit})),
    }
