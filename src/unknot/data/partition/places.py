"""Who holds which of an owner's own rows: what was drawn among all owners, said of each by itself.

What is drawn depends on everybody's rows. Once an owner has left, and a data set is read without it, nothing
can be drawn as it was; but the others still hold what they held.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from unknot.core.errors import DataError
from unknot.data.dataset import Dataset, Ints
from unknot.data.partition.federate import Drawn
from unknot.data.partition.pool import Deal


@dataclass(frozen=True, eq=False)
class Places:
    """Of one owner: places among its own training rows, and for `tested` among its own test rows.

    Those are counted on through what was put `aside` of its training rows to be tested with.
    """

    train: Ints
    validation: Ints
    aside: Ints
    tested: Ints


def places_of(dataset: Dataset, drawn: Drawn) -> dict[str, Places] | None:
    """The places of each owner, by name; None where clients are not owners."""
    if drawn.deal.owners is None or dataset.train_owner is None or dataset.test_owner is None:
        return None
    nothing = np.empty(0, dtype=np.int64)
    aside = nothing if drawn.deal.held_out is None else drawn.deal.held_out
    client_of = {owner: client for client, owner in enumerate(drawn.deal.owners.tolist())}
    found = {}
    for owner, name in enumerate(dataset.owner_names):
        mine, tests = (
            np.flatnonzero(dataset.train_owner == owner),
            np.flatnonzero(dataset.test_owner == owner),
        )
        rows, shares, away = nothing, nothing, aside[dataset.train_owner[aside] == owner]
        if (client := client_of.get(owner)) is not None:
            rows, shares = drawn.deal.rows[client], drawn.shares[client]
        own = np.concatenate([tests, len(dataset.test) + np.flatnonzero(dataset.train_owner[aside] == owner)])
        found[name] = Places(
            np.searchsorted(mine, rows),
            np.searchsorted(mine, drawn.validation[dataset.train_owner[drawn.validation] == owner]),
            np.searchsorted(mine, away),
            np.searchsorted(own, shares),
        )
    return found


def drawn_again(dataset: Dataset, clients: Sequence[str], places: Mapping[str, Places]) -> Drawn:
    """What was drawn, of a data set that some owners have left; its `clients`, in order, and all places."""
    numbers = {name: number for number, name in enumerate(dataset.owner_names)}
    if dataset.train_owner is None or dataset.test_owner is None or places.keys() - numbers.keys():
        raise DataError(f"{dataset.name} has not the owners any more whose rows were dealt out")
    train = {name: np.flatnonzero(dataset.train_owner == numbers[name]) for name in places}
    test = {name: np.flatnonzero(dataset.test_owner == numbers[name]) for name in places}
    if any(_beyond(train[name], test[name], kept) for name, kept in places.items()):
        raise DataError(f"{dataset.name}: an owner has fewer rows than were dealt out")
    nothing = [np.empty(0, dtype=np.int64)]
    aside = {name: train[name][places[name].aside] for name in clients}
    starts = np.cumsum([len(dataset.test), *(len(aside[name]) for name in clients)])
    own = {
        name: np.concatenate([test[name], np.arange(start, start + len(aside[name]))])
        for name, start in zip(clients, starts[:-1], strict=True)
    }
    shares = [own[name][places[name].tested] for name in clients]
    deal = Deal(
        [train[name][places[name].train] for name in clients],
        shares,
        np.concatenate([*nothing, *aside.values()]),
        np.asarray([numbers[name] for name in clients], dtype=np.int64),
    )
    validation = [train[name][kept.validation] for name, kept in places.items()]
    return Drawn(deal, np.sort(np.concatenate([*nothing, *validation])), nothing[0], shares)


def _beyond(train: Ints, test: Ints, kept: Places) -> bool:
    rows = [len(train)] * 3 + [len(test) + len(kept.aside)]
    parts = zip((kept.train, kept.validation, kept.aside, kept.tested), rows, strict=True)
    return any(len(part) and not 0 <= part.min() <= part.max() < count for part, count in parts)
