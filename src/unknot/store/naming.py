"""Who is who in a run's folder: its clients' sealed names, and their numbers."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from unknot.core.errors import RequestError, StoreError, nearest
from unknot.core.ids import one_way
from unknot.store.database import Database
from unknot.store.keyring import check_installed
from unknot.store.noted import begun_in, database, erased_in
from unknot.store.own_keys import check_not_older, keyring_of
from unknot.store.sealed import MARKS
from unknot.store.shown import one_line, span


class AlreadyErased(RequestError):
    """Who is named was erased from the run before."""


def client_names(db: Database, folder: str | Path, keys: str | Path | None = None) -> dict[int, str]:
    """What clients are called, as far as their sealed names can be opened; who was erased has none."""
    sealed, keyring = db.client_names(), keyring_of(folder, keys)
    found = {}
    for client, name in sealed.items():
        if keyring.holds(client):
            check_installed()
            with suppress(StoreError, UnicodeDecodeError):
                found[client] = keyring.open(client, name, b"name").decode()
    return found


def shown_names(db: Database, folder: str | Path, keys: str | Path | None = None) -> dict[int, str]:
    """The same to be shown, as they are typed; a run goes by the names themselves."""
    return {client: typed(one_line(name)) for client, name in client_names(db, folder, keys).items()}


def typed(name: str) -> str:
    """How a name is given to a command: one that begins with ``#`` has one more, for ``#3`` is a number."""
    return f"#{name}" if name.startswith("#") else name


def named_in(folder: str | Path, keys: str | Path | None = None) -> dict[int, str]:
    """What the clients of a run are called, as far as the keys are there."""
    with Database.open(database(folder), readonly=True) as db:
        return client_names(db, folder, keys)


def shown_in(folder: str | Path, keys: str | Path | None = None) -> dict[int, str]:
    """The same to be shown: see `shown_names`."""
    with Database.open(database(folder), readonly=True) as db:
        return shown_names(db, folder, keys)


def number_of(folder: str | Path, who: str, keys: str | Path | None = None) -> int:
    """The number of a client that is called so, or that ``#3`` gives; who cannot be known is refused.

    Who is called ``#3`` is written ``##3`` (see `typed`): what is a number must not depend on who is still
    there. Where clients have names, a plain number is a name as well: nobody is taken for somebody else.
    """
    with Database.open(database(folder), readonly=True) as db:
        sealed, names = db.client_names(), client_names(db, folder, keys)
        check_not_older(db, keyring_of(folder, keys), folder)
        named = bool(sealed or begun_in(db, folder)[0].get("named"))
        gone, there = erased_in(db), set(db.sealed(MARKS))
    for client, name in names.items():
        if one_way(typed(name)) == one_way(who):
            return client
    digits = who.removeprefix("#")
    if is_number(digits) and (who != digits or not named):
        number = int(digits)
        if any(one_way(name) == one_way(who) for client, name in names.items() if client != number):
            other = (
                f"is {typed(one_line(names[number]))!r}" if number in names else "was erased, or never there"
            )
            raise RequestError(
                f"{who!r} may be either of two clients of {folder}: who is called so is {typed(who)!r}, who "
                f"has number {number} {other}: name the one that you mean so"
            )
        if number in gone:
            raise AlreadyErased(f"client {number} was erased from {folder}: there is nothing left of it")
        if not there or number in there:
            return number
        raise RequestError(f"there is no client {number} in {folder}: it has {span(there)}")
    if not named:
        raise RequestError(f"clients of {folder} have no names: give a number, such as 3, not {who!r}")
    if sealed and not names:
        raise RequestError(
            f"who {who!r} is in {folder} cannot be said, for names are sealed: add --keys FILE, or give the "
            "number that the client has in this run, written '#N'"
        )
    more = f"; a number is written '#{digits}'" if is_number(digits) else ""
    if who.startswith("#"):
        more = "; a name that begins with '#' is written with one more '#' in front"
    raise RequestError(
        f"there is no client {who!r} in {folder} (never there, or erased: names of erased clients are not "
        f"kept){more}.{nearest(who, (typed(one_line(name)) for name in names.values()))}"
    )


def is_number(text: str) -> bool:
    """Whether it is a number as one is written: ``00`` is none, for somebody may be called so."""
    return text.isascii() and text.isdigit() and len(text) < 19 and text == str(int(text))
