"""What a partition deals from, and what it hands back."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from unknot.core.errors import ConfigError
from unknot.core.keys import Key
from unknot.data.dataset import Dataset, Ints


@dataclass(frozen=True, eq=False)
class Pool:
    """The training rows of a data set that clients may be given: all but the validation rows."""

    dataset: Dataset
    rows: Ints

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def name(self) -> str:
        return self.dataset.name

    @property
    def classes(self) -> int:
        return self.dataset.classes

    @cached_property
    def labels(self) -> Ints:
        """The label of each row of the pool."""
        labels: Ints = self.dataset.train.y.numpy()[self.rows].astype(np.int64)
        return labels

    @cached_property
    def supply(self) -> Ints:
        """How many rows of each class there are."""
        return np.bincount(self.labels, minlength=self.classes).astype(np.int64)

    def queues(self, key: Key) -> list[Ints]:
        """The rows of each class in keyed order. A row's place depends on the key and the row alone."""
        order = key.order(self.rows)
        return by_class(self.rows[order], self.labels[order], self.classes)


@dataclass(frozen=True, eq=False)
class Deal:
    """The training rows of each client.

    A partition that knows each client's test rows names them (`test_rows`), counted through the test
    part and on through `held_out`: training rows that it has put aside for testing. Where clients
    are natural ones, `owners` says which owner each is: what that owner has elsewhere is the client's.
    """

    rows: list[Ints]
    test_rows: list[Ints] | None = None
    held_out: Ints | None = None
    owners: Ints | None = None


class Partition(ABC):
    """A rule by which the training rows are dealt out to clients 0, 1, 2..."""

    kind: ClassVar[str]
    by_label: ClassVar[bool] = True
    by_owner: ClassVar[bool] = False
    """Whether clients are the owners of the rows: then each owner gives its share for validation."""

    @abstractmethod
    def deal(self, pool: Pool, key: Key) -> Deal:
        """Rows for every client, at least one each, disjoint unless they may overlap; draws by `key`."""


def by_class(rows: Ints, labels: Ints, classes: int) -> list[Ints]:
    """The rows of each class, in the order in which they come."""
    order = np.argsort(labels, kind="stable")
    ends = np.cumsum(np.bincount(labels, minlength=classes))
    return np.split(rows[order], ends[:-1])


def own_words(key: Key, owner: Ints, names: Sequence[str]) -> NDArray[np.uint64]:
    """A draw for each row, by its owner's name and its place among the owner's rows: nobody else's matter."""
    words = np.empty(len(owner), dtype=np.uint64)
    for name, rows in zip(names, by_class(np.arange(len(owner)), owner, len(names)), strict=True):
        words[rows] = key.child(name).words(np.arange(len(rows)))
    return words


def group(rows: Ints, client: Ints, clients: int) -> list[Ints]:
    """The rows of each client, in ascending order."""
    order = np.lexsort((rows, client))
    ends = np.cumsum(np.bincount(client, minlength=clients))
    return np.split(rows[order], ends[:-1])


def deal_counts(pool: Pool, counts: Ints, key: Key, remedy: str) -> Deal:
    """Give client k ``counts[k, c]`` rows of class c: the next ones of the class's keyed order.

    Clients are served in the order of their ids, so the last one's absence changes nobody's rows.
    """
    check_supply(pool, counts, remedy)
    clients = len(counts)
    rows, owners = [], []
    for label, queue in enumerate(pool.queues(key)):
        wanted = counts[:, label]
        rows.append(queue[: wanted.sum()])
        owners.append(np.repeat(np.arange(clients), wanted))
    return Deal(group(np.concatenate(rows), np.concatenate(owners), clients))


def draw_counts(pool: Pool, counts: Ints, key: Key) -> Deal:
    """Client k draws ``counts[k, c]`` rows of class c for itself: others may have drawn the same."""
    for client, wanted in enumerate(counts):
        if len(over := np.flatnonzero(wanted > pool.supply)):
            raise ConfigError(
                f"{pool.name}: client {client} asks for {wanted[over[0]]} of class {over[0]}, there are "
                f"{pool.supply[over[0]]}. Lower samples or validation, or raise alpha"
            )
    classes = by_class(pool.rows, pool.labels, pool.classes)
    return Deal(
        [
            np.sort(
                np.concatenate(
                    [key.child(k).smallest(rows, n) for rows, n in zip(classes, mine, strict=True)]
                )
            )
            for k, mine in enumerate(counts)
        ]
    )


def check_supply(pool: Pool, counts: NDArray[np.int64], remedy: str) -> None:
    asked = counts.sum(axis=0)
    over = np.flatnonzero(asked > pool.supply)
    if len(over):
        worst = over[np.argmax(asked[over] - pool.supply[over])]
        raise ConfigError(
            f"{pool.name}: class {worst} runs out: {len(counts)} clients ask for {asked[worst]} of its "
            f"samples, there are {pool.supply[worst]} to deal out. {remedy}"
        )


def check_enough(pool: Pool, clients: int, samples: int | None) -> None:
    """At least one row a client, and ``clients × samples`` of them in all."""
    if samples is None and clients > len(pool):
        raise ConfigError(
            f"{pool.name}: {clients} clients but only {len(pool)} samples to deal out. Lower clients"
        )
    if samples is not None and clients * samples > len(pool):
        raise ConfigError(
            f"{pool.name}: {clients} clients × {samples} samples = {clients * samples}, but there are only "
            f"{len(pool)} to deal out. Lower clients, samples or validation"
        )
