"""Requests from outside a run: from another thread or, where a run is kept, from another process.

They are taken up between two steps. Who puts one in gets a ticket, which says what became of it.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from unknot.core.errors import RequestError
from unknot.core.requests import Erase, Join, Named, Request
from unknot.federation.events import Event, Served
from unknot.federation.watcher import Letter, Watcher

if TYPE_CHECKING:
    from unknot.federation.federation import Federation


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


class Letterbox(Watcher):
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

    def number_from(self, taken: Iterable[int | None]) -> None:
        """Give no number again that a request has which was taken up before."""
        self._next = max([self._next, *(number + 1 for number in taken if number is not None)])

    def __len__(self) -> int:
        """How many have not been taken up yet."""
        return len(self._new)

    def requests(self, fed: Federation) -> Sequence[Letter]:
        if not self._new:
            return ()
        with self._lock:
            found = list(self._new)
            self._new.clear()
        self._open |= {ticket.number: ticket for ticket, _ in found}
        return [Letter(ticket.number, request) for ticket, request in found]

    def waiting(self) -> bool:
        return bool(self._new)

    def refused(self, number: int, why: str, kind: str) -> None:
        self.answer(number, "refused", why)

    def stepped(self, fed: Federation, events: Sequence[Event], done: Sequence[tuple[int, Served]]) -> None:
        for number, record in done:
            self.answer(number, "served", served=record)

    def answer(self, number: int, state: str, why: str = "", served: Served | None = None) -> None:
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
