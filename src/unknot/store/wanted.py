"""A request to a run as people see it, and what became of it: from outside, or of the file it comes from."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from unknot.core.errors import StoreError, UnknotError
from unknot.core.requests import Erase, Join, Label, Moment, Target, numbered
from unknot.federation.clock import SECOND
from unknot.federation.events import NOTHING_LEFT, Served
from unknot.store.database import Database
from unknot.store.entries import orders_of, read_at, read_plain, served_in
from unknot.store.inbox import request_for, told_of
from unknot.store.keyring import Keyring
from unknot.store.naming import shown_names
from unknot.store.noted import database, table_in
from unknot.store.own_keys import keyring_of
from unknot.store.rows import REFUSED, REQUESTS, Asked, Entry, is_count
from unknot.store.shown import one_line


@dataclass(frozen=True)
class Wanted:
    """A request to a run, and what became of it."""

    request: str
    kind: str
    """"erase" or "join"; or a word to the process that runs it: "pause", "go" or "stop"."""
    clients: list[int]
    """The numbers of whom it names; nobody where that went with a client that was erased."""
    asked: str
    """When it came (UTC)."""
    state: str
    by: str
    number: int | None = None
    """Its number in the inbox; none where it stands in the file that the run comes from."""
    at: str = ""
    """When it is to be served, where the file says so."""
    served: str | None = None
    """When it was served (UTC)."""
    round: int | None = None
    time: float | None = None
    """In simulated seconds."""
    reason: str = ""
    """What was given as one, as long as the first client that it names is there."""
    order: int | None = None
    """How many requests of the run had been served before it; none where it was not, as far as is kept."""
    refused: str = ""
    """Why, of one that was refused; without that client's key, in words that name nobody."""


def outcome(folder: str | Path, asked: Asked, keys: str | Path | None = None) -> Wanted:
    """What became of a request, in words."""
    with Database.open(database(folder), readonly=True) as db:
        why = dict(map(refusal_in, db.entries(kind=REFUSED))) if asked.state == REFUSED else {}
        names = shown_names(db, folder, keys)
    return of_inbox(asked, names, keyring_of(folder, keys), why.get(asked.number, ""))


def of_inbox(
    asked: Asked,
    names: Mapping[int, str],
    keyring: Keyring | None,
    kind: str = "",
    order: int | None = None,
) -> Wanted:
    """A request, and what became of it; `kind` is why it was refused, where there is no key to read more."""
    told, reason = told_of(asked) if asked.kind in REQUESTS else ([], b"")
    what = "resume" if asked.kind == "go" else asked.kind  # as it was typed
    if told:

        def label(client: int) -> str:
            return names.get(client, f"client {client}")

        made = Erase(tuple(Target(*one) for one in told), Moment()) if asked.kind == "erase" else None
        what = made.told(label) if made else Join(tuple(c for c, _ in told), Moment()).told(label)
    elif asked.kind in REQUESTS:
        what = f"{asked.kind} …"
    at = read_at(asked.outcome) if asked.state == "served" else None
    refused = asked.outcome if asked.state == REFUSED else b""
    return Wanted(
        request=what,
        kind=asked.kind,
        clients=[client for client, _ in told],
        asked=asked.asked_at,
        state=asked.state,
        by=one_line(asked.by),
        number=asked.number,
        served=asked.done_at if asked.state == "served" else None,
        round=None if at is None else at.round,
        time=None if at is None else at.time,
        order=None if at is None else order,
        reason=_opened(keyring, told[0][0], reason, b"reason") if told else "",
        refused=(told and _opened(keyring, told[0][0], refused, b"outcome")) or kind,
    )


def from_outside(db: Database) -> dict[str, list[Any]]:
    """For the record of a run: the number of each request that was `served`, and those that were `refused`.

    None for one that came otherwise; nothing where nothing came so.
    """
    asked, served = db.asked(), served_in(db)
    numbers = {order: number for number, order in orders_of(asked, served).items()}
    found: dict[str, list[Any]] = {
        "asked": [numbers.get(order) for order in range(len(served))] if numbers else [],
        "refused": [one.number for one in asked if one.kind in REQUESTS and one.state == REFUSED],
    }
    return {name: told for name, told in found.items() if told}


def refusal_in(entry: Entry) -> tuple[int, str]:
    """The number of a request that was refused, and why, in words that name nobody."""
    told = table_in(read_plain(entry.body))
    return told["request"], one_line(told["kind"])


def of_file(
    table: Mapping[str, Any],
    when: str,
    served: Sequence[tuple[Served, Entry]],
    outside: Collection[int],
    names: Mapping[int, str],
) -> list[Wanted]:
    """The requests of the file that a run comes from, with what became of them; others' are `outside`.

    One whose moment has not come is served with those from outside that did all of it, as the run's end says.
    """
    left = [(order, *pair) for order, pair in enumerate(served) if order not in outside]
    found: dict[int, Wanted] = {}
    items = [table_in(one) for one in table.get("request") or []]
    for place, item in sorted(enumerate(items), key=lambda pair: _comes(pair[1])):  # two may say the same
        if (made := _written(item)) is None:
            continue
        clients, told = made
        words = (told(numbered), f"{told(numbered)}{NOTHING_LEFT}")
        done = next((one for one in left if one[1].request in words and _had_come(item, one[1])), None)
        if done is not None:
            left.remove(done)
        own = done is not None
        if done is None:
            done = _done_by_others(clients, "join" if "join" in item else "erase", served)
        found[place] = Wanted(
            request=told(lambda client: names.get(client, numbered(client))),
            kind="erase" if "erase" in item else "join",
            clients=clients,
            asked=when,
            state="waiting" if done is None else "served",
            by="its file",
            at=str(Moment(item.get("round"), item.get("time"))),
            served=None if done is None else done[2].at,
            round=None if done is None else done[1].round,
            time=None if done is None else done[1].time,
            order=done[0] if own and done is not None else None,
        )
    return [found[place] for place in sorted(found)]


def _done_by_others(
    clients: Sequence[int], kind: str, served: Sequence[tuple[Served, Entry]]
) -> tuple[int, Served, Entry] | None:
    """The last of the requests that left nothing to do of one for these clients; None where something is."""
    left, last = set(clients), None
    for order, (event, entry) in enumerate(served):
        over = {*event.leavers, *(event.clients if kind == event.kind == "join" else ())}
        if left & over:
            left, last = left - over, (order, event, entry)
    return None if left else last


def _comes(item: Mapping[str, Any]) -> tuple[float, float]:
    """When a request of a file comes: by its round, or by its time."""
    at = Moment(item.get("round"), item.get("time"))
    return at.round or 0, at.time or 0.0


def _had_come(item: Mapping[str, Any], served: Served) -> bool:
    """Whether the moment of a request of a file had come when that was served."""
    at = Moment(item.get("round"), item.get("time"))
    if at.time is not None:
        return round(served.time * SECOND) >= round(at.time * SECOND)
    return served.round >= (at.round or 0)


def _written(item: Mapping[str, Any]) -> tuple[list[int], Callable[[Label], str]] | None:
    """Whom a request of a file names, and how it is told; None where it is none."""
    kind = "erase" if "erase" in item else "join"
    who = item.get(kind, [])
    clients = list(who) if isinstance(who, list | tuple) else [who]
    try:
        made = request_for(kind, clients, None)
    except UnknotError:
        return None
    if not is_count(count := item.get("samples")):
        return clients, made.told
    some = f"erase {count} sample{'s' if count > 1 else ''} of"  # their ids are not for the log
    return clients, lambda label: f"{some} {label(clients[0])}"


def _opened(keyring: Keyring | None, client: int, sealed: bytes, about: bytes) -> str:
    if not sealed or keyring is None or not keyring.holds(client):
        return ""
    with suppress(StoreError, UnicodeDecodeError):
        return one_line(keyring.open(client, sealed, about).decode())
    return ""
