"""Small parts of a run that are one client's alone, in its database: sealed under its key, and gone with it.

What lies in a file that is named by its bytes cannot be sealed anew; a row can. So a client whose samples are
erased gets a new key, and what went before is noise in every copy.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress

import numpy as np

from unknot.core.errors import StoreError
from unknot.store.database import Database
from unknot.store.keyring import Keyring

SAMPLES = "samples"
"""The ids that a request of the run's own file names, by its place there."""
MARKS = "marks"
"""A digest of what a client holds, by its number: in the open, it would confirm who guesses at the data."""
IDS = "ids"
"""The ids that a checkpoint knows: of samples that were erased, and of such as are to be."""
PLACES = "places"
"""Which of its own rows a client holds, by its number, where data may be read without somebody one day."""
KINDS = (SAMPLES, MARKS, IDS, PLACES)
Parts = Mapping[int, tuple[int, bytes]]
"""By number: whose it is, and what."""


def keep(db: Database, keyring: Keyring, kind: str, parts: Parts) -> None:
    """Keep parts, each under the key of its client; of one whose key was destroyed, that there was one."""
    rows = {
        number: (
            client,
            b"" if keyring.destroyed(client) else keyring.seal(client, part, _about(kind, number)),
        )
        for number, (client, part) in parts.items()
    }
    db.keep_sealed(kind, rows)


def opened(db: Database, keyring: Keyring, kind: str) -> dict[int, tuple[int, bytes | None]]:
    """All parts of a kind; None for one that no key of its client opens."""
    found: dict[int, tuple[int, bytes | None]] = {}
    for number, (client, row) in db.sealed(kind).items():
        found[number] = (client, None)
        if keyring.holds(client):
            with suppress(StoreError):
                found[number] = (client, keyring.open(client, row, _about(kind, number)))
    return found


def seal_anew(db: Database, keyring: Keyring, clients: Collection[int]) -> None:
    """Seal all parts of these clients under their new keys; what cannot be opened stays as it is."""
    for kind in KINDS if clients else ():
        parts = opened(db, keyring, kind).items()
        keep(db, keyring, kind, {n: (c, part) for n, (c, part) in parts if c in clients and part is not None})


def pack_ids(ids: Sequence[int]) -> bytes:
    """Ids of samples as bytes: eight each, so that how many there are is seen from outside."""
    return np.asarray(ids, dtype="<i8").tobytes()


def unpack_ids(content: bytes) -> tuple[int, ...]:
    """What `pack_ids` was given, in order."""
    if len(content) % 8:
        raise StoreError("ids of samples are cut short: they were changed")
    return tuple(np.frombuffer(content, dtype="<i8").tolist())


def _about(kind: str, number: int) -> bytes:
    return f"{kind} {number}".encode()
