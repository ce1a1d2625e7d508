"""What each client of a kept run holds of its own rows, for data that is read without somebody one day."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import astuple, dataclass, field
from pathlib import Path

import numpy as np

from unknot.core.data import FederatedData
from unknot.core.errors import DataError, StoreError
from unknot.data.dataset import Dataset
from unknot.data.partition.federate import Drawn
from unknot.data.partition.places import Places, drawn_again, places_of
from unknot.experiments.config import Experiment
from unknot.experiments.simulate import draw

APART = "apart"
"""The log's word for the rows, held out, of owners who are no clients."""


@dataclass(frozen=True)
class Held:
    """Rows of owners, as `Places`, packed: of clients by number, for they are sealed; of others by name."""

    places: Mapping[int, bytes] = field(default_factory=dict)
    apart: Mapping[str, bytes] = field(default_factory=dict)

    def again(self, source: Dataset, names: Mapping[int, str]) -> Drawn | None:
        """What was drawn of a data set, by what those still hold whose names are known."""
        clients = {number: names[number] for number in sorted(self.places) if number in names}
        if not clients:
            return None
        kept = {clients[number]: _unpacked(self.places[number]) for number in clients}
        kept |= {name: _unpacked(part) for name, part in self.apart.items()}
        try:
            return drawn_again(source, list(clients.values()), kept)
        except DataError as error:
            raise StoreError(f"{error}: give the run the data that it was begun with") from None


def held_of(experiment: Experiment, source: Dataset | FederatedData, data: FederatedData) -> Held:
    """That of an experiment which is begun; nothing where clients are no owners of rows."""
    found = places_of(source, draw(experiment, source)) if isinstance(source, Dataset) else None
    clients = {data.names[number]: number for number in data if number in data.names}
    packed = {name: _packed(places) for name, places in (found or {}).items()}
    return Held(
        {clients[name]: part for name, part in packed.items() if name in clients},
        {name: part for name, part in packed.items() if name not in clients},
    )


def held_in(folder: str | Path, keys: str | Path | None = None) -> Held:
    """That of the run in a folder, as far as there are keys to open it."""
    from unknot.store import sealed
    from unknot.store.database import Database
    from unknot.store.noted import begun_in, database
    from unknot.store.own_keys import keyring_of

    with Database.open(database(folder), readonly=True) as db:
        parts = sealed.opened(db, keyring_of(folder, keys), sealed.PLACES)
        apart = begun_in(db, folder)[0].get(APART)
    if not isinstance(apart, Mapping):
        raise StoreError(f"{folder}: the log does not say who holds what: it was changed")
    return Held({client: part for client, part in parts.values() if part is not None}, apart)


def _packed(places: Places) -> bytes:
    from unknot.store.entries import plain
    from unknot.store.sealed import pack_ids

    return plain([pack_ids(part.tolist()) for part in astuple(places)])


def _unpacked(content: object) -> Places:
    from unknot.store.entries import read_plain
    from unknot.store.sealed import unpack_ids

    parts = read_plain(content) if isinstance(content, bytes) else None
    if not isinstance(parts, list) or len(parts) != 4 or not all(isinstance(one, bytes) for one in parts):
        raise StoreError("the log does not say which rows are whose: it was changed")
    return Places(*(np.asarray(unpack_ids(one), dtype=np.int64) for one in parts))
