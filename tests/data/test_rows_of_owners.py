"""What owners hold is the same when a data set is read without one of them."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import unknot
from unknot.core.data import FederatedData, Samples
from unknot.core.errors import ConfigError, DataError
from unknot.data.dataset import Dataset
from unknot.data.partition import ByOwner
from unknot.data.partition.federate import drawn, put_together
from unknot.data.partition.places import drawn_again, places_of

SIZES = {"Graz": (12, 3), "Linz": (20, 0), "Wien": (15, 4), "Bregenz": (4, 2)}


def towns(*names: str) -> Dataset:
    def part(which: int) -> tuple[Samples, np.ndarray]:
        rows = [(1000 * ord(n[0]) + 100 * which + i, i % 3) for n in names for i in range(SIZES[n][which])]
        owner = np.repeat(np.arange(len(names)), [SIZES[name][which] for name in names])
        x, y = (torch.tensor(column) for column in zip(*rows, strict=True))
        return Samples(x[:, None].float(), y, 3), owner

    (train, whose), (test, tested) = part(0), part(1)
    return Dataset("towns", train, test, whose, tested, names, by_name=True)


@pytest.mark.parametrize("gone", ["Graz", "Linz", "Wien"])
@pytest.mark.parametrize("test_samples", [None, 2])
@pytest.mark.parametrize("validation", [0, 0.3])
@pytest.mark.parametrize("partition", [ByOwner(), ByOwner(clients=3, samples=5), ByOwner(test_share=0.4)])
def test_the_others_hold_what_they_held(gone, partition, validation, test_samples):
    everybody = towns(*SIZES)
    rows = drawn(everybody, partition, 5, validation, test_samples, 0)
    before, places = put_together(everybody, rows), places_of(everybody, rows)
    left = [name for name in SIZES if name != gone]
    clients = [name for name in before.names.values() if name != gone]
    source = towns(*left)
    kept = {name: places[name] for name in left}
    now = put_together(source, drawn_again(source, clients, kept))
    before.erase(before.number(gone))
    assert list(now.names.values()) == clients
    assert torch.equal(before.test.x, now.test.x)
    assert validation == 0 or torch.equal(before.validation.x, now.validation.x)
    for name in clients:
        then, here = before.number(name), now.number(name)
        assert torch.equal(before.train.x[before[then].rows], now.train.x[now[here].rows])
        assert torch.equal(before.test.x[before.test_rows[then]], now.test.x[now.test_rows[here]])


def test_an_owner_with_fewer_rows_is_found():
    everybody = towns("Graz", "Linz")
    places = places_of(everybody, drawn(everybody, ByOwner(), 5, 0.1, None, 0))
    with pytest.raises(DataError, match="not the owners"):
        drawn_again(towns("Graz", "Wien"), ["Linz"], {"Linz": places["Linz"]})
    with pytest.raises(DataError, match="fewer rows"):
        drawn_again(towns("Graz", "Wien"), ["Graz"], {"Graz": places["Linz"]})


def of_people(rows: dict[str, list[int]], tested: dict[str, int]) -> Dataset:
    """Each person's training rows by their labels, and as many test rows; an input says whose it is."""
    names = tuple(rows)
    train = [(1000 * ord(n) + i, label, at) for at, n in enumerate(names) for i, label in enumerate(rows[n])]
    test = [(1000 * ord(n) + 500 + i, 0, at) for at, n in enumerate(names) for i in range(tested[n])]
    parts = [torch.tensor(part).T for part in (train, test)]
    samples = [Samples(x[:, None].float(), y, 3) for x, y, _ in parts]
    return Dataset("people", *samples, *(part[2].numpy() for part in parts), names, by_name=True)


def held_by(data: FederatedData) -> dict[str, list[list[float]]]:
    """What each person trains with, is measured by on the way, and is tested with."""
    found = {}
    for client in data:
        measured = data.validation.x[data.validation_owner == client] if data.validation else torch.empty(0)
        parts = data.train.x[data[client].rows], measured, data.test.x[data.test_rows[client]]
        found[data.names[client]] = [part.flatten().tolist() for part in parts]
    return found


@settings(deadline=None, max_examples=60)
@given(
    st.fixed_dictionaries({n: st.lists(st.integers(0, 2), min_size=1, max_size=30) for n in "abcd"}),
    st.fixed_dictionaries({n: st.integers(0, 4) for n in "abcd"}),
    st.sampled_from([0, 0.1, 0.3]),
    st.sampled_from([None, 2]),
    st.sampled_from("abcd"),
    st.lists(st.integers(0, 2), max_size=30),
)
def test_whatever_one_person_has_the_others_hold_the_same(rows, tested, share, test_samples, who, others):
    rows, tested = rows | {"z": [0, 1, 2] * 3}, tested | {"z": 1}
    asked = {"validation": share, "test_samples": test_samples, "key": 3}
    before = held_by(unknot.federate(of_people(rows, tested), ByOwner(), **asked))
    altered = {name: others if name == who else labels for name, labels in rows.items()}
    for now in (altered, {name: labels for name, labels in altered.items() if name != who}):
        after = held_by(unknot.federate(of_people(now, tested), ByOwner(), **asked))
        assert before.keys() - {who} == after.keys() - {who}
        assert all(after[name] == before[name] for name in before if name != who)


def test_each_owner_gives_its_share_for_validation_and_keeps_something():
    rows = {chr(97 + k): [k % 3] * size for k, size in enumerate([1] * 10 + [30, 20, 7])}
    data = unknot.federate(of_people(rows, dict.fromkeys(rows, 1)), ByOwner(), validation=0.3, key=1)
    given = {data.names[c]: int((data.validation_owner == c).sum()) for c in data}
    assert (given["k"], given["l"]) == (9, 6)
    assert given["m"] in (2, 3)  # 2.1: up or down by a draw
    assert not any(given[name] for name in "abcdefghij")
    with pytest.raises(ConfigError, match="share"):
        unknot.federate(of_people(rows, dict.fromkeys(rows, 1)), ByOwner(), validation=12)
