"""Impossible numbers are refused with a word on what to change; partitions by name; speed."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
import pytest
import torch
from data_toys import balanced, labelled, owned

from unknot.core.data import Samples
from unknot.core.errors import ConfigError
from unknot.data import (
    PARTITIONS,
    ByOwner,
    Dataset,
    Dirichlet,
    DominantClass,
    Iid,
    Labels,
    MajorityClass,
    Partition,
    federate,
    make_partition,
)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Iid(0), "Iid: clients must be a whole number of at least 1, not 0"),
        (lambda: Iid(2.0), "clients must be a whole number"),  # type: ignore[arg-type]
        (lambda: Iid(True), "clients must be a whole number"),
        (lambda: Iid(3, samples=0), "samples must be a whole number of at least 1"),
        (lambda: Dirichlet(3, alpha=0), "alpha must be positive, not 0"),
        (lambda: Dirichlet(3, alpha=-1.0), "alpha must be positive"),
        (lambda: Dirichlet(3, alpha=float("nan")), "alpha must be positive, not nan"),
        (lambda: Dirichlet(3, alpha=1, samples=4, min_samples=5), "fewer than min_samples = 5"),
        (lambda: DominantClass(3, share=0), "share must be above 0 and at most 1, not 0"),
        (lambda: DominantClass(3, share=1.1), "share must be above 0 and at most 1"),
        (lambda: MajorityClass(3, ratio=-0.1), r"ratio must be in 0\.\.1"),
        (lambda: MajorityClass(3, ratio=1.5), r"ratio must be in 0\.\.1"),
        (lambda: Labels(3, k=0), "k must be a whole number of at least 1"),
        (lambda: Labels(3, k=4, samples=3), "3 samples cannot hold 4 labels"),
        (lambda: ByOwner(clients=0), "clients must be a whole number of at least 1"),
        (lambda: ByOwner(min_samples=0), "min_samples must be a whole number of at least 1"),
        (lambda: ByOwner(test_share=1), "test_share must be at least 0 and below 1"),
    ],
)
def test_impossible_setting_is_refused_when_made(make: Callable[[], Partition], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        make()


@pytest.mark.parametrize(
    ("partition", "message"),
    [
        (Iid(101), "101 clients but only 100 samples to deal out. Lower clients"),
        (Iid(10, 11), "10 clients × 11 samples = 110, but there are only 100"),
        (Dirichlet(60, 1.0, min_samples=2), "60 clients × 2 samples = 120, but there are only 100"),
        (Dirichlet(11, 1.0, samples=10), "11 clients × 10 samples = 110"),
        (Dirichlet(2, 1e-3, samples=45), "class . runs out: 2 clients ask for .* raise alpha"),
        (DominantClass(101), "101 clients but only 100"),
        (DominantClass(1, 1.0, samples=26), "class 0 runs out: 1 clients ask for 26 .* there are 25 "),
        (MajorityClass(1, 0, samples=26), "class 0 runs out"),
        (Labels(3, k=5), "k = 5, but toy has 4 classes. Lower k"),
        (Labels(5, k=1, samples=15), "class 0 runs out: 5 clients ask for 30 .* there are 25 "),
        (Labels(100, k=2), "runs out: .* clients hold it, there are 25 samples"),
        (ByOwner(), "toy does not say whose its samples are"),
    ],
)
def test_more_than_there_is_says_what_was_asked_and_what_there_is(partition: Partition, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        federate(balanced(classes=4, train=25, test=5), partition, validation=0)


def test_classes_too_scarce_for_the_clients_are_named() -> None:
    with pytest.raises(
        ConfigError, match="the scarcest class has 1 samples to deal out, too few for 6 clients"
    ):
        federate(labelled([0] * 20 + [1], [0, 1]), DominantClass(6, share=1.0), validation=0)


def test_more_owners_than_there_are_is_refused() -> None:
    whole = owned([0, 0, 1, 1, 1], [0, 1])
    with pytest.raises(ConfigError, match="3 owners with at least 1 samples are asked for, there are 2"):
        federate(whole, ByOwner(clients=3), validation=0)
    with pytest.raises(ConfigError, match="some owners with at least 9 samples are asked for, there are 0"):
        federate(whole, ByOwner(min_samples=9), validation=0)


@pytest.mark.parametrize("validation", [-1, 100, 1.0, -0.1, float("nan"), True, "10 %"])
def test_impossible_validation_is_refused(validation: float) -> None:
    with pytest.raises(ConfigError, match="validation"):
        federate(balanced(classes=4, train=25), Iid(2), validation=validation)


@pytest.mark.parametrize("test_samples", [0, 1.5, True])
def test_impossible_test_samples_are_refused(test_samples: int) -> None:
    with pytest.raises(ConfigError, match="test_samples must be a whole number of at least 1"):
        federate(balanced(), Iid(2), test_samples=test_samples)


def test_of_natural_clients_own_rows_so_many_are_drawn() -> None:
    owners = [0] * 9 + [1] * 5
    data = federate(owned(owners, owners), ByOwner(samples=6), validation=0, test_samples=4)
    assert [len(data[client]) for client in (0, 1)] == [6, 5]
    assert [len(data.test_rows[client]) for client in (0, 1)] == [4, 4]
    assert all((data.test_owner[data.test_rows[client]] == client).all() for client in (0, 1))
    other = federate(owned(owners, owners), ByOwner(samples=6), validation=0, test_samples=4, key=1)
    assert data[0].rows.tolist() != other[0].rows.tolist()
    assert data.test_rows[0].tolist() != other.test_rows[0].tolist()


def test_fewer_samples_than_the_least_are_refused() -> None:
    with pytest.raises(ConfigError, match="samples = 3 is less than min_samples = 5"):
        ByOwner(samples=3, min_samples=5)


def _text(rows: int = 40) -> Dataset:
    tokens = torch.arange(rows * 3).view(rows, 3) % 7
    owner = np.arange(rows, dtype=np.int64) % 4
    samples = Samples(tokens, tokens, 7)
    return Dataset("speech", samples, samples, owner, owner, ("A", "B", "C", "D"), "abcdefg")


@pytest.mark.parametrize(
    "partition", [Dirichlet(2, 1), DominantClass(2), MajorityClass(2, 0.1), Labels(2, 1)]
)
def test_text_cannot_be_dealt_by_label(partition: Partition) -> None:
    with pytest.raises(ConfigError, match=r"goes by labels.*Use iid or by-owner"):
        federate(_text(), partition)


@pytest.mark.parametrize("partition", [Iid(4), ByOwner()])
def test_text_can_be_dealt_at_random_or_by_speaker(partition: Partition) -> None:
    data = federate(_text(), partition, validation=0.1)
    assert sum(len(data[client]) for client in data) == 36
    assert [len(data.test_rows[client]) for client in data] == [10] * 4
    assert sorted(row for rows in data.test_rows.values() for row in rows.tolist()) == list(range(40))


def test_every_kind_is_made_by_its_name() -> None:
    assert sorted(PARTITIONS) == [
        "by-owner",
        "dirichlet",
        "dominant-class",
        "iid",
        "labels",
        "majority-class",
    ]
    assert make_partition("iid", clients=3) == Iid(3)
    assert make_partition("dirichlet", clients=3, alpha=5) == Dirichlet(3, 5)
    assert make_partition("dominant-class", clients=3, share=0.5) == DominantClass(3, 0.5)
    assert make_partition("majority-class", clients=3, ratio=0.1, samples=9) == MajorityClass(3, 0.1, 9)
    assert make_partition("labels", clients=3, k=2) == Labels(3, 2)
    assert make_partition("by-owner") == ByOwner()


@pytest.mark.parametrize(
    ("kind", "options", "message"),
    [
        ("dirichelt", {"clients": 3}, "no partition 'dirichelt'.* Did you mean 'dirichlet'"),
        (
            "iid",
            {"clients": 3, "sample": 4},
            "'iid' has no option 'sample'. Did you mean 'samples'",
        ),
        ("dirichlet", {"clients": 3}, "'dirichlet': the option 'alpha' is missing"),
        ("labels", {"clients": 3, "k": "two"}, "k must be a whole number"),
    ],
)
def test_unknown_or_missing_names_say_what_is_known(
    kind: str, options: dict[str, object], message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        make_partition(kind, **options)


@pytest.mark.parametrize(
    "partition",
    [
        Iid(10_000),
        Dirichlet(10_000, 0.5),
        Dirichlet(10_000, 5.0, samples=4),
        DominantClass(10_000),
        MajorityClass(10_000, 0.02),
        Labels(10_000, 2),
        ByOwner(),
    ],
    ids=lambda partition: partition.kind,
)
def test_ten_thousand_clients_take_seconds_at_most(partition: Partition) -> None:
    whole = balanced(train=6000, test=1000)
    owner = np.arange(60_000, dtype=np.int64) % 10_000
    names = tuple(map(str, range(10_000)))
    dataset = Dataset("big", whole.train, whole.test, owner, owner[:10_000], names)
    start = time.process_time()
    assert len(federate(dataset, partition)) == 10_000
    assert time.process_time() - start < 5  # about 0.3 on an idle machine
