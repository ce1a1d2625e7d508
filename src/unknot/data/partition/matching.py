"""A client's test share follows its training share."""

from __future__ import annotations

import numpy as np

from unknot.core.data import Samples
from unknot.core.errors import ConfigError
from unknot.core.keys import Key
from unknot.data.dataset import Dataset, Ints
from unknot.data.partition.apportion import apportion_like
from unknot.data.partition.pool import by_class, group


def matching_rows(dataset: Dataset, rows: list[Ints], test_samples: int | None, key: Key) -> list[Ints]:
    """For each client, rows of the test part with the labels in the proportions of its training rows.

    Each class's test rows stand in keyed order; clients take the next ones in the order of their
    ids, and begin again at the front when a class is used up. So no client has a row twice, and two
    clients share rows only of classes of which together they want more than there are.

    `test_samples` is each client's number. Without, it is the number of test rows over the number
    of clients (one at least), or less for a client whose proportions cannot be had with that many.
    """
    clients = len(rows)
    number = test_samples if test_samples is not None else max(1, len(dataset.test) // clients)
    if not dataset.labelled:
        return _unlabelled(dataset.test, clients, test_samples, number, key)
    wanted = _train_counts(dataset, rows)
    queues = _queues(dataset.test, key)
    supply = np.asarray([len(queue) for queue in queues], dtype=np.int64)
    if test_samples is None:
        wanted = wanted * (supply > 0)
        sums = wanted.sum(axis=1, keepdims=True)
        limits = np.where(wanted > 0, supply * sums // np.maximum(wanted, 1), number)
        counts = _apportion_nonempty(wanted, np.minimum(number, limits.min(axis=1)))
    else:
        counts = apportion_like(wanted, number)
        _check(dataset, counts, supply, test_samples)
    taken, owners = [], []
    for label, queue in enumerate(queues):
        total = int(counts[:, label].sum())
        if total:
            taken.append(queue[np.arange(total) % len(queue)])
            owners.append(np.repeat(np.arange(clients), counts[:, label]))
    if not taken:
        return [np.empty(0, dtype=np.int64) for _ in range(clients)]
    return group(np.concatenate(taken), np.concatenate(owners), clients)


def _train_counts(dataset: Dataset, rows: list[Ints]) -> Ints:
    labels = dataset.train.y.numpy()
    client = np.repeat(np.arange(len(rows)), [len(mine) for mine in rows])
    cells = client * dataset.classes + labels[np.concatenate(rows)]
    counts = np.bincount(cells, minlength=len(rows) * dataset.classes)
    return counts.reshape(len(rows), dataset.classes).astype(np.int64)


def _queues(test: Samples, key: Key) -> list[Ints]:
    order = key.order(np.arange(len(test)))
    return by_class(order, test.y.numpy()[order], test.classes)


def _apportion_nonempty(wanted: Ints, totals: Ints) -> Ints:
    """As `apportion_like`; a client none of whose classes is in the test part gets nothing."""
    counts = np.zeros_like(wanted)
    some = wanted.sum(axis=1) > 0
    counts[some] = apportion_like(wanted[some], totals[some])
    return counts


def _check(dataset: Dataset, counts: Ints, supply: Ints, test_samples: int) -> None:
    over = np.argwhere(counts > supply)
    if len(over):
        client, label = over[0]
        raise ConfigError(
            f"{dataset.name}: with {test_samples} test samples, client {client} would need "
            f"{counts[client, label]} of class {label}; the test part has {supply[label]}. Lower test_samples"
        )


def _unlabelled(test: Samples, clients: int, test_samples: int | None, number: int, key: Key) -> list[Ints]:
    """Without labels there is nothing to follow: each client the next rows in keyed order."""
    if test_samples is not None and test_samples > len(test):
        raise ConfigError(
            f"{test_samples} test samples a client are asked for, there are {len(test)}. Lower test_samples"
        )
    number = min(number, len(test))
    order = key.order(np.arange(len(test)))
    taken = order[np.arange(clients * number) % max(1, len(test))]
    return group(taken, np.repeat(np.arange(clients), number), clients)
