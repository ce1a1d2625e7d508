"""The ids of samples that requests name, of an experiment or from outside: sealed a client each.

What the log says stays; ids go with their client. So the log has how many a request names, and no more.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from contextlib import suppress
from typing import Any

from unknot.core.errors import StoreError
from unknot.store import sealed
from unknot.store.database import Database
from unknot.store.keyring import OVERHEAD, Keyring
from unknot.store.rows import is_count
from unknot.store.sealed import SAMPLES, pack_ids, unpack_ids

Named = dict[int, tuple[int, list[int]]]
"""By the place of a request among those of its experiment: the client, and the ids."""
Told = list[tuple[int, tuple[int, ...] | None]]
"""Whom a request from outside names, and which samples of it; None for all of it."""
Hidden = list[tuple[int, tuple[int, ...] | bytes | None]]
"""The same as the inbox has it: sealed, where there was a key to seal with."""
_ABOUT = b"asked"


def counted(table: Mapping[str, Any]) -> dict[str, Any]:
    """The same experiment, by numbers, with how many samples its requests name in the place of their ids."""
    if not (ids := ids_in(table)):
        return dict(table)
    requests = [
        {**one, "samples": len(ids[place][1])} if place in ids else one
        for place, one in enumerate(table["request"])
    ]
    return {**table, "request": requests}


def ids_in(table: Mapping[str, Any]) -> Named:
    """The ids that the requests of an experiment, by numbers, name."""
    found: Named = {}
    for place, one in enumerate(table.get("request", ())):
        if isinstance(one.get("samples"), list | tuple):
            [client] = one["erase"] if isinstance(one["erase"], list | tuple) else [one["erase"]]
            found[place] = (int(client), [int(number) for number in one["samples"]])
    return found


def keep(db: Database, keyring: Keyring, named: Named) -> None:
    """Keep ids, those of each request under the key of its client."""
    parts = {place: (client, pack_ids(ids)) for place, (client, ids) in named.items()}
    sealed.keep(db, keyring, SAMPLES, parts)


def known(db: Database, keyring: Keyring) -> Named:
    """The ids that can still be opened."""
    found: Named = {}
    for place, (client, part) in sealed.opened(db, keyring, SAMPLES).items():
        if part is not None:
            with suppress(StoreError):
                found[place] = (client, list(unpack_ids(part)))
    return found


def put_back(table: Mapping[str, Any], ids: Named) -> dict[str, Any]:
    """An experiment with the ids that are known; of others, how many there were."""
    requests = [
        {**one, "samples": ids[place][1]} if place in ids and is_count(one.get("samples")) else one
        for place, one in enumerate(table.get("request", ()))
    ]
    return {**table, "request": requests} if requests else dict(table)


def without(table: Mapping[str, Any]) -> dict[str, Any]:
    """An experiment without the requests whose ids are not there: a run in a folder knows its own anyhow."""
    said = table.get("request", [])
    if not isinstance(said, list):  # not ours to judge
        return dict(table)
    requests = [one for one in said if not _unknown(one)]
    rest = {name: value for name, value in table.items() if name != "request"}
    return {**rest, "request": requests} if requests else rest


# Of requests from outside -----------------------------------------------------------------------------


def hide(keyring: Keyring, told: Hidden | Told) -> Hidden:
    """Seal the ids that lie open, each client's under its key, as far as that is there.

    Of who was erased they are left out: it comes to the same, for all of it is gone.
    """
    found: Hidden = []
    for client, ids in told:
        if isinstance(ids, tuple) and keyring.destroyed(client):
            found.append((client, None))
        elif isinstance(ids, tuple) and keyring.holds(client):
            found.append((client, keyring.seal(client, pack_ids(ids), _ABOUT)))
        else:
            found.append((client, ids))
    return found


def show(keyring: Keyring, told: Hidden) -> Told:
    """The ids themselves; of who was erased meanwhile, as many, and not which."""
    return [(client, _shown(keyring, client, ids)) for client, ids in told]


def count(told: Hidden) -> Told:
    """As many ids as there are, whichever they are: for whoever only asks how many."""
    return [(client, tuple(range(_count(ids))) if isinstance(ids, bytes) else ids) for client, ids in told]


def hide_anew(keyring: Keyring, told: Hidden, clients: Collection[int]) -> Hidden:
    """The same, sealed under the new keys of these clients; what cannot be opened stays as it is."""
    found: Hidden = []
    for client, ids in told:
        anew = ids
        if client in clients:
            with suppress(StoreError):
                anew = hide(keyring, [(client, _shown(keyring, client, ids))])[0][1]
        found.append((client, anew))
    return found


def _shown(keyring: Keyring, client: int, ids: tuple[int, ...] | bytes | None) -> tuple[int, ...] | None:
    if not isinstance(ids, bytes):
        return ids
    if keyring.destroyed(client):
        return tuple(range(_count(ids)))
    return unpack_ids(keyring.open(client, ids, _ABOUT))


def _count(sealed: bytes) -> int:
    return (len(sealed) - OVERHEAD) // 8


def _unknown(request: object) -> bool:
    return isinstance(request, Mapping) and is_count(request.get("samples"))
