"""What owners hold is the same when a data set is read without one of them."""

import numpy as np
import pytest
import torch

from unknot.core.data import Samples
from unknot.core.errors import DataError
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
