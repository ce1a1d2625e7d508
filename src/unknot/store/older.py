"""A folder that is older than its keys, as a copy that was put back is: it knows nothing of an erasure.

The keys do: those of who was erased are destroyed. What was sealed under them is noise in the copy too, but
models that several clients shaped lie in the open there, and the run would train on with who was erased.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from unknot.core.errors import StoreError
from unknot.core.requests import Erase, Moment, Target
from unknot.store.database import Database
from unknot.store.entries import read_named
from unknot.store.erasing import scrubbing_of
from unknot.store.folder import RunFolder
from unknot.store.inbox import leave, told_of
from unknot.store.keyring import Keyring
from unknot.store.noted import begun_in
from unknot.store.rows import TAKEN, WAITING
from unknot.store.sealed import MARKS

if TYPE_CHECKING:
    from unknot.federation import Federation

ASKER = "the keys"
"""Who asks for an erasure that the folder does not know of."""


def unknown(db: Database, keyring: Keyring) -> frozenset[int]:
    """Whose keys were destroyed, though the log does not know that they were to be erased."""
    told = [scrubbing_of(entry.body) for entry in db.entries(kind="scrubbing")]
    return keyring.gone - {client for one in told for client in one.whole}


def check_named(db: Database, keyring: Keyring, folder: str | Path) -> None:
    """Refuse what nobody could serve: a run of a file reads data by name, and names went with the keys."""
    late = unknown(db, keyring)
    if late & db.client_names().keys() and isinstance(begun_in(db, folder)[0].get("table"), Mapping):
        raise StoreError(_refused(folder, late))


def _refused(folder: str | Path, late: Collection[int], why: str = "") -> str:
    return (
        f"{told(folder, late)}, and without the keys that were destroyed then it cannot be gone on with"
        f"{why}. Put a copy from after that erasure there, or begin the run anew, without the data of "
        f"{listed(late)}"
    )


def told(folder: str | Path, late: Collection[int]) -> str:
    """What is said of such a folder, and of whom."""
    return f"{folder} is older than its keys: it knows nothing of the erasure of {listed(late)}"


def go_on(
    place: RunFolder, fed: Federation, late: Collection[int], restore: Callable[[Federation], None]
) -> None:
    """Make a federation what its folder says, and ask it to erase these clients: before anything else.

    Where the folder cannot be read without the keys that are gone, it is said why, and what to do.
    """
    older = told(place.path, late)
    place.said.append(f"{older}, as a copy that was put back does not; it comes again, before anything else")
    marked = place.db.sealed(MARKS)
    if any(client in marked and client not in fed.data for client in late):  # not to be given back either
        raise StoreError(_refused(place.path, late))
    try:
        restore(fed)
        newest = place.db.last("checkpoint")
        if newest is None or read_named(newest.body).step != fed.steps:
            raise StoreError("; ".join(["its last checkpoint cannot be read", *place.said[1:]]))
    except StoreError as error:
        raise StoreError(_refused(place.path, late, f" ({error})")) from None
    asked = {
        client
        for one in place.db.asked()
        if one.kind == "erase" and one.state in (WAITING, TAKEN)
        for client, samples in told_of(one)[0]
        if samples is None
    }
    if missing := sorted(set(late) - asked):
        request = Erase(tuple(Target(client) for client in missing), Moment())
        leave(place.db, request, place.keyring, by=ASKER)


def listed(clients: Collection[int]) -> str:
    """Clients by their numbers, the first ten of them."""
    some = ", ".join(map(str, sorted(clients)[:10]))
    return f"client{'s' if len(clients) > 1 else ''} {some}{', …' if len(clients) > 10 else ''}"
