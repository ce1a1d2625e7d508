"""Requests to a run that is kept: left in its database, from its own process or another."""

from __future__ import annotations

import getpass
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable
from contextlib import suppress
from pathlib import Path

from unknot.core.commands import command
from unknot.core.data import FederatedData
from unknot.core.errors import RequestError, StoreError
from unknot.core.form import Unreadable, pack, read
from unknot.core.requests import Erase, Join, Label, Moment, Named, Request, Target, numbered
from unknot.federation.events import Served
from unknot.federation.letterbox import Letterbox, Ticket
from unknot.store.database import Database
from unknot.store.entries import plain
from unknot.store.keyring import Keyring
from unknot.store.lock import Process
from unknot.store.rows import REFUSED, SERVED, Asked
from unknot.store.sample_ids import Hidden, Told, count, hide, show


def leave(
    db: Database,
    request: Request,
    keyring: Keyring,
    reason: str = "",
    by: str | None = None,
    label: Label = numbered,
) -> int:
    """Leave a request in a run's database; its number. It comes as soon as it is taken up.

    What waits there already is refused, with clients called by `label`.

    The reason is sealed for the client of the request with the lowest number, and goes with the first of them
    all that is erased; of one that has no key it is not kept. No key is made here: the process that runs the
    run alone changes those. So are ids of samples sealed; who has no keys leaves them open until they are
    taken up.
    """
    told: Told
    if isinstance(request, Join):
        kind, told = "join", [(client, None) for client in request.clients]
    else:
        kind, told = "erase", [(target.client, target.samples) for target in request.targets]
    first, who = told[0][0], by or asker()
    with db.transaction():
        keys = Keyring(keyring.path)  # as they are now: while others write, a client may get a new one
        _check_not_asked(db, request, keys, label)
        if reason and not keys.holds(first):
            raise StoreError(f"there is no key of client {first} to seal the reason under: leave it out")
        sealed = keys.seal(first, reason.encode(), b"reason") if reason else b""
        number = db.ask(kind, body_of(hide(keys, told), sealed), who)
        db.append([("asked", plain({"request": number, "kind": kind, "by": who}))])
    db.bring_in()
    return number


def _check_not_asked(db: Database, request: Request, keyring: Keyring, label: Label) -> None:
    """Refuse an erasure of which nothing is left beside those that are still to be served.

    And a join of whom is to join already: all of it would be refused then. Ids of samples that cannot be
    read here are told when it is served.
    """
    whole, some, numbers = set[int](), defaultdict[int, set[int]](set), defaultdict[int, set[int]](set)
    kind = "join" if isinstance(request, Join) else "erase"
    for asked in db.unserved():
        with suppress(StoreError):  # what cannot be read is refused when it is taken up
            for client, ids in hidden_of(asked)[0] if asked.kind == kind else ():
                numbers[client].add(asked.number)
                if ids is None:
                    whole.add(client)
                elif isinstance(ids, tuple) or keyring.holds(client):
                    some[client].update(show(keyring, [(client, ids)])[0][1] or ())
    if isinstance(request, Join):
        if not (twice := tuple(client for client in request.clients if client in whole)):
            return
        request, named = Join(twice, request.at), twice
    else:
        for one in request.targets:
            known = some[one.client]
            if one.client not in whole and (one.samples is None or not known.issuperset(one.samples)):
                return
        named = tuple(one.client for one in request.targets)
    asking = sorted(set[int]().union(*(numbers[client] for client in named)))
    many = "requests" if len(asking) > 1 else "request"
    raise RequestError(
        f"{request.told(label)}: that is asked for already, and still to be served ({many} "
        f"{', '.join(map(str, asking))}). {command('show', db.path.parent)} tells what becomes of it; ask "
        "again if it is refused"
    )


def request_for(kind: str, numbers: Iterable[int], samples: list[int] | None) -> Erase | Join:
    """An erasure or a join of clients by their numbers, to be left in the inbox of a run."""
    clients = list(numbers)
    if kind == "join":
        return Join(tuple(clients), Moment())
    if samples is not None and len(clients) != 1:
        raise RequestError("samples belong to one client: ask for each client's by itself")
    ids = None if samples is None else tuple(samples)
    return Erase(tuple(Target(client, ids) for client in sorted(clients)), Moment())


def body_of(told: Hidden, sealed: bytes) -> bytes:
    """Whom a request names, and its sealed reason, as the inbox keeps them."""
    return pack([told, sealed])


def asker() -> str:
    """Who asks: the user of this process."""
    try:
        return getpass.getuser()
    except (OSError, KeyError):
        return "unknown"


def told_of(asked: Asked) -> tuple[Told, bytes]:
    """Whom a request names, how many samples of each, and its sealed reason; nobody where it was emptied."""
    told, sealed = hidden_of(asked)
    return count(told), sealed


def hidden_of(asked: Asked) -> tuple[Hidden, bytes]:
    """The same as it lies there: the ids of samples sealed."""
    if not asked.body:
        return [], b""
    try:
        told, sealed = read(asked.body)
        for client, samples in count(told):
            Target(client, samples)
        if not isinstance(sealed, bytes):
            raise TypeError("no sealed reason")
        return [(int(client), samples) for client, samples in told], sealed
    except (Unreadable, RequestError, TypeError, ValueError) as error:
        raise StoreError(f"request {asked.number} cannot be read: {error}") from None


def request_of(asked: Asked, keyring: Keyring) -> Request:
    """The request itself."""
    told = show(keyring, hidden_of(asked)[0])
    if not told:
        raise StoreError(f"request {asked.number} names nobody")
    if asked.kind == "join":
        return Join(tuple(client for client, _ in told), Moment())
    return Erase(tuple(Target(client, samples) for client, samples in told), Moment())


class StoredInbox(Letterbox):
    """``fed.inbox`` of a run that is kept: what is put in is on the disk before it is taken up."""

    def __init__(self, path: Path, keyring: Keyring, data: FederatedData, before: Collection[int]) -> None:
        """`before`: who is in none of the data, and may have shaped what the run began with."""
        super().__init__()
        self._path, self._keyring, self._data, self._before = path, keyring, data, before
        self._process = Process()
        self._tickets: dict[int, Ticket] = {}
        self.closed = False
        """Whether the run was let go of: then nothing is asked here any more."""
        self.guard: Callable[[], None] | None = None
        """Raises where the folder is another one by now."""

    def put(self, request: Request | Named) -> Ticket:
        """Ask for something, from any thread.

        Raises `RequestError` where it names who, or what, was never there, or waits already.
        """
        if not isinstance(request, Erase | Join | Named):
            raise RequestError(f"what is asked for is unknot.erase(...) or unknot.join(...), not {request!r}")
        if not request.at.now:
            raise RequestError(
                "a request to a run that is kept comes as soon as it is asked: leave round and time out"
            )
        self._process.check(self._path)  # nobody would close the ticket
        if self.closed:
            raise StoreError(
                f"{self._path.parent} was let go of (close), and may be another run by now: build the "
                "federation again for its folder (store=), or ask by unknot forget"
            )
        made = request.resolve(self._data) if isinstance(request, Named) else request
        self._check_known(made)
        if self.guard is not None:
            self.guard()
        with self._lock:
            db = Database.open(self._path)
            try:
                number = leave(db, made, self._keyring, label=self._data.label)
            finally:
                db.close()
            self._tickets[number] = ticket = Ticket(number)
            if self.over:
                ticket.let_go(self.over)
        return ticket

    def ticket(self, number: int) -> Ticket:
        """That of a request which was put in before: by another process, or before this one was begun."""
        with self._lock:
            if number in self._tickets:
                return self._tickets[number]
            with Database.open(self._path, readonly=True) as db:
                asked = next((one for one in db.asked() if one.number == number), None)
            if asked is None:
                raise StoreError(f"there is no request {number}")
            ticket = Ticket(number)
            if asked.state == SERVED:
                ticket.close(SERVED, served=outcome_of(asked))
            elif asked.state == REFUSED:
                ticket.close(REFUSED, outcome_text(asked, self._keyring))
            else:
                self._tickets[number] = ticket
                if self.over:
                    ticket.let_go(self.over)
            return ticket

    def _check_known(self, request: Request) -> None:
        """A run's clients are known from its beginning: nobody else comes by the time it is taken up."""
        if isinstance(request, Erase):
            named, others = [target.client for target in request.targets], self._before
        else:
            named, others = list(request.clients), ()
        for client in named:
            if client in self._data:
                self._check_held(client, request)
                continue
            if client in self._data.erased or client in others:
                continue
            what = "there is data of" if isinstance(request, Join) else "this federation has"
            asked = "join" if isinstance(request, Join) else "erase"
            raise RequestError(f"cannot {asked} {numbered(client)}: {what} {len(self._data)} clients")

    def _check_held(self, client: int, request: Request) -> None:
        """So are its samples; those that were erased before are left out when it is served."""
        targets = request.targets if isinstance(request, Erase) else ()
        before = self._data.reduced.get(client, frozenset())
        for samples in (target.samples for target in targets if target.client == client):
            if left := [sample for sample in samples or () if sample not in before]:
                self._data.check_erasable(client, left)

    def shut(self) -> None:
        """The run was let go of: what waits is served by whoever goes on with it."""
        self.closed = True
        self.let_go(f"{self._path.parent} was let go of (close): it is served once the run is gone on with")

    def _outstanding(self) -> list[Ticket]:
        return list(self._tickets.values())

    def answer(self, number: int, state: str, why: str = "", served: Served | None = None) -> None:
        with self._lock:
            if (ticket := self._tickets.pop(number, None)) is not None:
                ticket.close(state, why, served)


def outcome_of(asked: Asked) -> Served | None:
    """What came of a request that was served; None where that was emptied."""
    if not asked.outcome:
        return None
    try:
        found = read(asked.outcome)
    except Unreadable as error:
        raise StoreError(f"what came of request {asked.number} cannot be read: {error}") from None
    return found if isinstance(found, Served) else None


def outcome_text(asked: Asked, keyring: Keyring) -> str:
    """Why a request was refused, as far as there is a key to read it with."""
    told, _ = told_of(asked)
    try:
        return keyring.open(told[0][0], asked.outcome, b"outcome").decode() if told and asked.outcome else ""
    except (StoreError, UnicodeDecodeError):
        return ""


def wait_for(folder_db: Path, number: int, timeout: float | None = None, every: float = 0.2) -> Asked:
    """Until a request was served or refused, looking into the database now and then."""
    until = None if timeout is None else time.monotonic() + timeout
    while True:
        with Database.open(folder_db, readonly=True) as db:
            asked = next((one for one in db.asked() if one.number == number), None)
        if asked is None:
            raise StoreError(f"there is no request {number}")
        if asked.state in (SERVED, REFUSED) or (until is not None and time.monotonic() > until):
            return asked
        threading.Event().wait(every)
