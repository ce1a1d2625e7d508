"""Requests from outside a run: from another thread or, where a run is kept, from another process.

They are taken up between two steps. Who puts one in gets a ticket, which says what became of it.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from unknot.core.errors import RequestError
from unknot.core.requests import Erase, Join, Named, Request
from unknot.federation.events import Event, Served
from unknot.federation.history import History

if TYPE_CHECKING:
    from unknot.federation.federation import Federation


@dataclass(frozen=True)
class Letter:
    """A request that has come, and its number."""

    number: int
    request: Request | Named


@dataclass(eq=False)
class Ticket:
    """What became of a request: "waiting", "served" or "refused".

    `why` it was refused or, still "waiting", why nobody serves it here any more.
    """

    number: int
    state: str = "waiting"
    why: str = ""
    served: Served | None = None
    _over: threading.Event = field(default_factory=threading.Event, repr=False)

    def wait(self, timeout: float | None = None) -> bool:
        """Until it is served or refused, or so many seconds have passed; whether it is.

        Not so, at once, where nobody here can serve it any more.
        """
        return self._over.wait(timeout) and self.state != "waiting"

    def close(self, state: str, why: str = "", served: Served | None = None) -> None:
        self.state, self.why, self.served = state, why, served
        self._over.set()

    def let_go(self, why: str) -> None:
        """Nobody serves it here any more: who waits need not."""
        self.why = why
        self._over.set()


class Letterbox:
    """``fed.inbox``: ask a federation from any thread while it runs; it takes that up at its next step."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._new: deque[tuple[Ticket, Request | Named]] = deque()
        self._open: dict[int, Ticket] = {}
        self._next = 1
        self.over = ""
        """Why nobody takes anything up here any more; nothing as long as somebody may."""

    def put(self, request: Request | Named) -> Ticket:
        """Ask for something: ``fed.inbox.put(unknot.erase("Graz"))``."""
        if not isinstance(request, Erase | Join | Named):
            raise RequestError(f"what is asked for is unknot.erase(...) or unknot.join(...), not {request!r}")
        with self._lock:
            ticket = Ticket(self._next)
            self._next += 1
            self._new.append((ticket, request))
            if self.over:
                ticket.let_go(self.over)
        return ticket

    def __len__(self) -> int:
        """How many have not been taken up yet."""
        return len(self._new)

    def take(self) -> list[Letter]:
        """What has come since; called by the federation."""
        if not self._new:
            return []
        with self._lock:
            found = list(self._new)
            self._new.clear()
        self._open |= {ticket.number: ticket for ticket, _ in found}
        return [Letter(ticket.number, request) for ticket, request in found]

    def close(self, number: int, state: str, why: str = "", served: Served | None = None) -> None:
        """Say what became of one."""
        if (ticket := self._open.pop(number, None)) is not None:
            ticket.close(state, why, served)

    def let_go(self, why: str) -> None:
        """Nothing is taken up here any more: who waits for a ticket need not.

        May be called within `put`, when memory is searched: it waits for nobody.
        """
        self.over = self.over or why  # first: who puts something in after this looks at it last
        for ticket in self._outstanding():
            ticket.let_go(self.over)

    def _outstanding(self) -> list[Ticket]:
        return [*(ticket for ticket, _ in list(self._new)), *list(self._open.values())]


class Keeper(Protocol):
    """Who keeps a run beyond its process: told before and after every step."""

    folder: Path
    said: list[str]
    """What is other than when the run was begun, in words."""
    interrupted: bool
    """Whether this process is to end: the run is kept before its next step, and broken off there."""

    @property
    def turned_away(self) -> Sequence[int]:
        """The numbers of the requests that this process refused."""
        ...

    def checkpoint(self, fed: Federation) -> None:
        """Keep all that the federation remembers, as it is now, between two steps."""
        ...

    def check(self) -> None:
        """Raise where the folder is not the one any more that this process took."""
        ...

    def close(self) -> None:
        """Let go of the folder: another process may take it up."""
        ...

    def letters(self, fed: Federation) -> Sequence[Letter]:
        """What is to be taken up before this step. May wait, and may raise to end the run here."""
        ...

    def goes(self, fed: Federation) -> None:
        """Somebody goes on with the run."""
        ...

    def rests(self, over: bool = False) -> None:
        """The run was broken off, or is `over`, and nobody goes on with it for now."""
        ...

    def asked(self) -> bool:
        """Whether there is a request that has not been taken up."""
        ...

    def refused(self, number: int, why: str, kind: str) -> None:
        """A request that came cannot be served; its `kind` of reason names nobody."""
        ...

    def erasing(self, fed: Federation, request: Erase) -> None:
        """An erasure is about to be served."""
        ...

    def stepped(self, fed: Federation, events: Sequence[Event], done: Sequence[tuple[int, Served]]) -> None:
        """A step was made; `done` are the requests from outside that it served."""
        ...

    def ended(self, fed: Federation, history: History) -> None:
        """The run is over, and who asked for it is about to be given its record."""
        ...
