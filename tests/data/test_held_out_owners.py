"""With natural clients, what is held out of a person's rows is that person's."""

from __future__ import annotations

import numpy as np
import torch
from data_toys import owned

from unknot.core.data import FederatedData, Samples
from unknot.data import ByOwner, Dataset, Iid, federate, load
from unknot.experiments.simulate import _tested_on_shares

# Owner 2 has the most rows, then 0, 1, 3; owner 3 is no client where three are asked for.
WHOLE = owned([0] * 30 + [1] * 20 + [2] * 40 + [3] * 10, [0, 0, 1, 3, 3, 1])
RANK = {2: 0, 0: 1, 1: 2, 3: -1}


def whose(samples: Samples | None, whole: Dataset = WHOLE) -> list[int]:
    """Each row's client: a toy's input is the number of its row, test rows from 1,000,000."""
    assert samples is not None
    assert whole.train_owner is not None
    assert whole.test_owner is not None
    rows = samples.x[:, 0].long().tolist()
    first = 1_000_000
    return [
        RANK[int(whole.test_owner[row - first] if row >= first else whole.train_owner[row])] for row in rows
    ]


def dealt() -> FederatedData:
    return federate(WHOLE, ByOwner(clients=3), validation=0.4, key=5)


def test_validation_and_test_rows_belong_to_their_owners_clients() -> None:
    data = dealt()
    assert data.validation_owner is not None
    assert data.test_owner is not None
    assert data.validation_owner.tolist() == whose(data.validation)
    assert data.test_owner.tolist() == whose(data.test)
    assert data.validation_clients == {0, 1, 2}
    assert -1 in data.validation_owner  # owner 3, who is no client
    for client, rows in data.test_rows.items():
        assert set(data.test_owner[rows]) == {client}  # the rows put aside for testing, too


def test_an_erased_person_is_on_the_server_no_more() -> None:
    before, data = dealt(), dealt()
    data.erase(0)  # owner 2, whose test rows were all put aside from its training rows
    assert 0 not in whose(data.validation)
    assert 0 not in whose(data.test)
    assert before.validation is not None
    assert data.validation is not None
    stays = [
        row for row, client in zip(before.validation.x[:, 0], whose(before.validation), strict=True) if client
    ]
    assert data.validation.x[:, 0].tolist() == stays
    for client in (1, 2):
        assert torch.equal(
            data.test.subset(data.test_rows[client]).x, before.test.subset(before.test_rows[client]).x
        )
    assert 2 in np.unique(WHOLE.train_owner)  # the data set itself is its reader's
    assert WHOLE.train.x[50:90].min() == 50


def test_without_natural_clients_held_out_rows_are_nobodys() -> None:
    data = federate(WHOLE, Iid(4), validation=40)
    assert data.validation_owner is None
    assert data.test_owner is None
    validation, test = data.validation, data.test
    data.erase(1)
    assert data.validation is validation
    assert data.test is test


def test_owners_move_with_the_rows_when_shares_are_the_test_set() -> None:
    data = _tested_on_shares(dealt())
    assert data.test_owner is not None
    assert data.test_owner.tolist() == whose(data.test)
    assert len(data.test) < len(dealt().test)
    data.erase(1)
    assert 1 not in whose(data.test)


def test_no_validation_and_real_writers() -> None:
    data = federate(load("digits"), ByOwner(), validation=0)
    assert data.validation is None
    assert data.validation_owner is None
    assert data.test_owner is not None
    for client in data.clients[:-1]:
        data.erase(client)
        assert client not in data.test_owner
