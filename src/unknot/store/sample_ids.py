"""The ids of samples that an experiment's own requests name: apart from the log, sealed a client each.

What the log says stays; ids go with their client. So the log has how many a request names, and no more.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from contextlib import suppress
from typing import Any

from unknot.core.errors import StoreError
from unknot.store.database import Database
from unknot.store.entries import plain, read_plain
from unknot.store.keyring import Keyring
from unknot.store.rows import is_count

Named = dict[int, tuple[int, list[int]]]
"""By the place of a request among those of its experiment: the client, and the ids."""
ABOUT = b"samples"


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
    db.keep_samples(
        {place: (client, keyring.seal(client, plain(ids), ABOUT)) for place, (client, ids) in named.items()}
    )


def known(db: Database, keyring: Keyring) -> Named:
    """The ids that can still be opened."""
    found: Named = {}
    for place, (client, sealed) in db.samples().items():
        if keyring.holds(client):
            with suppress(StoreError):
                ids = read_plain(keyring.open(client, sealed, ABOUT))
                if isinstance(ids, list) and all(map(is_count, ids)):
                    found[place] = (client, ids)
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


def seal_anew(db: Database, keyring: Keyring, clients: Collection[int]) -> None:
    """Seal the ids of these clients under their new keys."""
    keep(db, keyring, {place: one for place, one in known(db, keyring).items() if one[0] in clients})


def _unknown(request: object) -> bool:
    return isinstance(request, Mapping) and is_count(request.get("samples"))
