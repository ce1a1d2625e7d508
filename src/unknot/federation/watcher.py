"""Who looks on between a federation's steps: what keeps a run in a folder does, and so does its inbox."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from unknot.core.requests import Erase, Named, Request
from unknot.federation.events import Event, Served
from unknot.federation.history import History

if TYPE_CHECKING:
    from unknot.federation.federation import Federation


@dataclass(frozen=True)
class Letter:
    """A request that has come, and its number."""

    number: int
    request: Request | Named


class Watcher:
    """Is told before and after every step, and may bring requests; of itself it does nothing.

    See `Federation.watch`. What it raises ends the run there. It holds no federation, so that both may go:
    each method is handed it.
    """

    def begins(self, fed: Federation) -> None:
        """``run`` asks for more: raise to refuse."""

    def starts(self, fed: Federation) -> None:
        """Somebody makes steps from now on."""

    def stops(self, fed: Federation, over: bool = False) -> None:
        """Nobody makes steps for now: the run was broken off, or was stepped through until it was `over`."""

    def requests(self, fed: Federation) -> Sequence[Letter]:
        """What is to be taken up before this step. May wait."""
        return ()

    def waiting(self) -> bool:
        """Whether there is a request that has not been taken up."""
        return False

    def refused(self, number: int, why: str, kind: str) -> None:
        """A request that came cannot be served; its `kind` of reason names nobody."""

    def erasing(self, fed: Federation, request: Erase) -> None:
        """An erasure is about to be served."""

    def stepped(self, fed: Federation, events: Sequence[Event], done: Sequence[tuple[int, Served]]) -> None:
        """A step was made; `done` are the requests that came so, by their numbers, and were served in it."""

    def ended(self, fed: Federation, history: History) -> None:
        """The run is over, and who asked for it is about to be given its record."""

    def saving(self, fed: Federation, file: str | Path) -> None:
        """What is served is about to be written to a file: raise to refuse."""

    def close(self) -> None:
        """Let go of what it holds."""
