"""From a data set to a federation's data: hold out, deal out, give everyone a test share."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from unknot.core.data import NOBODYS, FederatedData, Shard
from unknot.core.errors import ConfigError
from unknot.core.keys import Key
from unknot.data.dataset import Dataset, Ints
from unknot.data.partition.apportion import apportion_like
from unknot.data.partition.matching import matching_rows
from unknot.data.partition.owners import owners_of
from unknot.data.partition.pool import Deal, Partition, Pool, by_class

_INSTEAD = {
    "classes": "a target for every character",
    "labels": "several labels a sample",
    "values": "numbers to predict",
}


def federate(
    dataset: Dataset | str,
    partition: Partition,
    *,
    key: Key | int = 0,
    validation: int | float = 0.1,
    test_samples: int | None = None,
    public: int = 0,
) -> FederatedData:
    """Deal a `dataset` out to clients; one that `load` knows, by its name.

    1. `validation` training samples (a whole number, or a share below 1) become the server's own,
       each class by its frequency; 0: none. They belong to no client, unless clients are natural:
       then each owner gives that share of its own, drawn by its name, which is erased with it.
    2. `public` further ones give up their targets and are nobody's: inputs that the server may use.
    3. The `partition` deals the rest.
    4. Each client gets a test share with its own label distribution (`test_samples` of them, by
       default its part of the test samples; natural clients have their own, of which `test_samples` are
       drawn). Natural clients' own rows are erased with them; rows that are only drawn to measure with
       are nobody's, and stay.

    `key` is a key or a seed. What is held out depends on the key and the data alone, not on the clients; of
    a natural client's rows on the key and these rows alone.
    """
    dataset = _loaded(dataset)
    if not isinstance(partition, Partition):
        raise ConfigError(f"partition must be one, such as unknot.Iid(clients=10), not {partition!r}")
    return put_together(dataset, drawn(dataset, partition, key, validation, test_samples, public))


@dataclass(frozen=True, eq=False)
class Drawn:
    """Which rows of a data set are whose."""

    deal: Deal
    """The clients' own."""
    validation: Ints
    public: Ints
    shares: list[Ints]
    """What each client is tested with, counted through the test part and on through what was held out."""


def drawn(
    dataset: Dataset,
    partition: Partition,
    key: Key | int,
    validation: int | float,
    test_samples: int | None,
    public: int,
) -> Drawn:
    """Draw them, as `federate` says."""
    base = (key if isinstance(key, Key) else Key.root(key)).child("partition")
    if partition.by_label and not dataset.labelled:
        raise ConfigError(
            f"{partition.kind} goes by labels, and {dataset.name} has "
            f"{_INSTEAD[dataset.train.kind]} instead. Use iid or by-owner"
        )
    if test_samples is not None and (not _is_whole(test_samples) or test_samples < 1):
        raise ConfigError(f"test_samples must be a whole number of at least 1, not {test_samples!r}")
    rule = _owners_share if partition.by_owner else _validation_rows
    held = rule(dataset, validation, base.child("validation"))
    free = np.ones(len(dataset.train), dtype=np.bool_)
    free[held] = False
    shared = _public_rows(partition, public, np.flatnonzero(free), base.child("public"))
    free[shared] = False
    deal = partition.deal(Pool(dataset, np.flatnonzero(free)), base.child("deal", partition.kind))
    shares = deal.test_rows
    if shares is None:
        shares = matching_rows(dataset, deal.rows, test_samples, base.child("test"))
    elif test_samples is not None:
        named = range(len(shares)) if deal.owners is None else [dataset.owner_names[o] for o in deal.owners]
        shares = [
            own[base.child("test", name).smallest(np.arange(len(own)), test_samples)]
            for name, own in zip(named, shares, strict=True)
        ]
    return Drawn(deal, held, shared, shares)


def put_together(dataset: Dataset, rows: Drawn) -> FederatedData:
    """What of a data set is whose, as it was drawn."""
    deal, held, test = rows.deal, rows.validation, dataset.test
    if deal.held_out is not None and len(deal.held_out):
        test = test.extended(dataset.train.subset(deal.held_out))
    owners = _held_out_owners(dataset, deal, held)
    return FederatedData(
        dataset.train,
        {client: Shard.of(rows) for client, rows in enumerate(deal.rows)},
        test,
        dataset.train.subset(held) if len(held) else None,
        dict(enumerate(rows.shares)),
        dataset.name,
        validation_owner=owners.get("validation_owner"),
        test_owner=owners.get("test_owner"),
        names=_names(dataset, deal),
        public=dataset.train.x[torch.from_numpy(rows.public)] if len(rows.public) else None,
        wording=None if dataset.tokenizer is None else dataset.tokenizer.wording(dataset.labels),
    )


def _names(dataset: Dataset, deal: Deal) -> dict[int, str]:
    """What natural clients are called, where their owners' names are more than numbers."""
    if not dataset.by_name or deal.owners is None:
        return {}
    return {client: dataset.owner_names[owner] for client, owner in enumerate(deal.owners.tolist())}


def _loaded(given: object) -> Dataset:
    if isinstance(given, str):
        from unknot.data.registry import load

        given = load(given)
    if not isinstance(given, Dataset):
        raise ConfigError(
            f"federate deals out a data set, or one by its name: found {type(given).__name__}. Data of your "
            "own is put together by unknot.clients(...)"
        )
    return given


def _held_out_owners(dataset: Dataset, deal: Deal, validation: Ints) -> dict[str, Ints]:
    """With natural clients: whose each validation and test row is, -1 for owners who are no clients."""
    if deal.owners is None or dataset.train_owner is None or dataset.test_owner is None:
        return {}
    client = np.full(len(dataset.owner_names), NOBODYS, dtype=np.int64)
    client[deal.owners] = np.arange(len(deal.owners))
    aside = np.empty(0, dtype=np.int64) if deal.held_out is None else deal.held_out
    tested = np.concatenate([dataset.test_owner, dataset.train_owner[aside]])
    owners = {"test_owner": client[tested]}
    return owners | ({"validation_owner": client[dataset.train_owner[validation]]} if len(validation) else {})


def _public_rows(partition: Partition, public: int, free: Ints, key: Key) -> Ints:
    """The rows whose inputs are nobody's."""
    if not _is_whole(public) or not 0 <= public < max(len(free), 1):
        raise ConfigError(
            f"public must be a number of samples, and leave clients some of {len(free)}; not {public!r}"
        )
    if public and partition.by_owner:
        raise ConfigError(f"{partition.kind}: every sample is somebody's, and public ones are nobody's")
    return key.smallest(free, public) if public else np.empty(0, dtype=np.int64)


def _owners_share(dataset: Dataset, share: int | float, key: Key) -> Ints:
    """Of each owner's rows such a share, by draws of its own; one at least is left to it.

    Whether a part of a row counts as one is drawn, so that owners with few rows give as much in all.
    """
    owner, names = owners_of(dataset)[0], dataset.owner_names
    if _validation_count(share, len(owner)) and isinstance(share, int):
        raise ConfigError(
            f"validation must be a share below 1 of each owner's samples, such as 0.1, not {share}: how many "
            "of an owner's are held out must not depend on what others have"
        )
    held = [np.empty(0, dtype=np.int64)]
    for name, rows in zip(names, by_class(np.arange(len(owner)), owner, len(names)), strict=True):
        mine = key.child(name)
        count = int(share * len(rows) + mine.child("count").uniform(0))
        held.append(rows[mine.smallest(np.arange(len(rows)), max(0, min(count, len(rows) - 1)))])
    return np.sort(np.concatenate(held))


def _validation_rows(dataset: Dataset, validation: int | float, key: Key) -> Ints:
    rows = np.arange(len(dataset.train))
    count = _validation_count(validation, len(rows))
    if not dataset.labelled:
        return key.smallest(rows, count)
    labels = dataset.train.y.numpy()
    sizes = np.bincount(labels, minlength=dataset.classes)
    quota = apportion_like(sizes[None, :], count)[0]
    order = np.lexsort((key.words(rows), labels))
    rank = rows - np.repeat(np.cumsum(sizes) - sizes, sizes)
    return np.sort(order[rank < np.repeat(quota, sizes)])


def _validation_count(validation: int | float, available: int) -> int:
    """How many samples a number or a share of them is."""
    most = available if _is_whole(validation) else 1
    if isinstance(validation, bool) or not isinstance(validation, int | float) or not 0 <= validation < most:
        raise ConfigError(
            "validation must be a share below 1, or a whole number of samples that leaves clients some of "
            f"the {available} training samples; not {validation!r}"
        )
    return validation if isinstance(validation, int) else int(validation * available + 0.5)


def _is_whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)
