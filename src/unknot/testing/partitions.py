"""Does a partition deal soundly, and by nothing but its key and what it says that it goes by?"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace

import numpy as np
import torch

from unknot.core.errors import ConfigError
from unknot.core.keys import Key
from unknot.data.dataset import Dataset
from unknot.data.partition import Deal, Partition, Pool, federate
from unknot.data.partition.kinds import make_partition
from unknot.testing.report import Checks, Report, named
from unknot.testing.worlds import small_data

KEY = Key.root(3).child("check partition")


def small_dataset(samples: int = 240, classes: int = 4, owners: int = 6) -> Dataset:
    """As many samples of each class, a test sample for every four, in turn of several owners."""
    whole = small_data((samples, samples // 4), classes)
    train, test = (replace(whole.train.subset(whole[k].rows)) for k in (0, 1))
    labels = [torch.arange(len(part)) % classes for part in (train, test)]
    whose = [np.arange(len(part), dtype=np.int64) // classes % owners for part in (train, test)]
    names = tuple(f"owner {k}" for k in range(owners))
    return Dataset(
        "small", replace(train, y=labels[0]), replace(test, y=labels[1]), whose[0], whose[1], names
    )


def check_partition(partition: Partition | str, dataset: Dataset | None = None, **options: object) -> Report:
    """Deal out a data set: every row at most once (unless they may overlap), somebody something, keyed.

    A deal depends on the data set and the key alone, never on a generator that is shared, and draws nothing
    from one; a partition that is not `by_label` deals the same whatever the labels are. It is given itself,
    or by its name with its options: ``check_partition("iid", clients=4)``.
    """
    if isinstance(partition, str):
        partition = make_partition(partition, **options)
    elif options:
        raise ConfigError(f"options ({', '.join(options)}) are for a partition that is given by name")
    checks = Checks(f"partition {named(partition)}")
    data = dataset or small_dataset()
    pool = Pool(
        data, np.arange(0, len(data.train)) if len(data.train) < 12 else np.arange(5, len(data.train))
    )
    with checks.during("it deals"):
        deal = partition.deal(pool, KEY)
    _is_sound(checks, partition, pool, deal)
    with _shared_generators(seed=1) as untouched:
        with checks.during("it deals again"):
            again = partition.deal(pool, KEY)
        checks.hold(
            "shared generators are left alone",
            untouched(),
            "it draws from NumPy's or PyTorch's own generator",
        )
    checks.hold(
        "the same key deals the same",
        _equal(deal, again),
        "a second deal by the same key is another one: all draws must come from the key",
    )
    if not partition.by_label:
        turned = replace(data, train=replace(data.train, y=data.train.y.flip(0)))
        checks.hold(
            "labels play no part",
            _equal(deal, partition.deal(Pool(turned, pool.rows), KEY)),
            "with other labels it deals otherwise: it goes by them, so it must say by_label = True",
        )
    with checks.during("a federation can be made of it"):
        made = federate(data, partition)
        checks.hold(
            "a federation has its clients", len(made) == len(deal.rows), f"{len(made)} of {len(deal.rows)}"
        )
    return checks.report()


def _is_sound(checks: Checks, partition: Partition, pool: Pool, deal: Deal) -> None:
    checks.hold("somebody is dealt to", len(deal.rows) > 0, "there are no clients")
    for client, rows in enumerate(deal.rows):
        whole = isinstance(rows, np.ndarray) and rows.dtype == np.int64 and rows.ndim == 1
        checks.hold("rows are whole numbers", whole, f"client {client}'s are no int64 array with one axis")
        checks.hold("every client has something", len(rows) > 0, f"client {client} has no row")
        strange = np.setdiff1d(rows, pool.rows)
        checks.hold(
            "rows come from the pool",
            not len(strange),
            f"client {client} has row {strange[:1]}, which is not to be dealt (it may be for validation)",
        )
        checks.hold(
            "nobody holds a row twice", len(np.unique(rows)) == len(rows), f"client {client} has one twice"
        )
    dealt = np.concatenate(deal.rows)
    twice = len(dealt) - len(np.unique(dealt))
    if getattr(partition, "overlap", False):
        checks.notes["rows that several clients hold"] = twice
    else:
        checks.hold(
            "a row is dealt at most once",
            not twice,
            f"{twice} are dealt to several: then an erasure by one leaves them with another. If that is "
            "meant, give the partition an option 'overlap'",
        )
    if deal.held_out is not None:
        both = np.intersect1d(deal.held_out, dealt)
        checks.hold("what is held out is dealt to nobody", not len(both), f"row {both[:1]} is both")


def _equal(one: Deal, other: Deal) -> bool:
    if len(one.rows) != len(other.rows):
        return False
    return all(np.array_equal(a, b) for a, b in zip(one.rows, other.rows, strict=True))


@contextmanager
def _shared_generators(seed: int) -> Iterator[Callable[[], bool]]:
    """Within: NumPy's and PyTorch's own generators are in a known state; tells whether they still are."""
    before = np.random.get_state()
    try:
        with torch.random.fork_rng(devices=[]):
            np.random.seed(seed)
            torch.manual_seed(seed)
            marks = _state()
            yield lambda: _state() == marks
    finally:
        np.random.set_state(before)


def _state() -> bytes:
    return pickle.dumps((np.random.get_state(), torch.get_rng_state().numpy()))
