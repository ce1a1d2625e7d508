import numpy as np
import pytest
import torch

from support import small_data
from unknot.core.errors import ConfigError, RequestError
from unknot.core.keys import Key
from unknot.data.corrupt import corrupt


def held(data, client):
    return data.train.take(torch.from_numpy(data[client].rows))


@pytest.mark.parametrize("corruption", ["noise", "labels", "zero"])
def test_nobody_elses_data_changes(corruption):
    clean = small_data()
    spoilt = corrupt(clean, [1, 4], corruption, key=3)
    for client in clean.clients:
        same = all(torch.equal(a, b) for a, b in zip(held(clean, client), held(spoilt, client), strict=True))
        assert same == (client not in (1, 4))
        assert np.array_equal(clean[client].ids, spoilt[client].ids)
    assert torch.equal(clean.train.x, spoilt.train.x[: len(clean.train)])
    assert spoilt.test is clean.test


def test_each_corruption_spoils_what_it_says():
    clean = small_data(sizes=(300, 300), classes=3)
    x, y = held(clean, 1)
    noise, labels, zero = (held(corrupt(clean, [1], kind, key=0), 1) for kind in ("noise", "labels", "zero"))
    assert torch.equal(noise[1], y)
    assert abs(float(noise[0].mean())) < 0.1
    assert abs(float(noise[0].std()) - 1) < 0.1
    assert torch.equal(labels[0], x)
    # Of labels drawn from three classes, a third stays as it was: 100 of 300, give or take 4 deviations.
    assert abs(int((labels[1] == y).sum()) - 100) < 4 * (300 * 1 / 3 * 2 / 3) ** 0.5
    assert not zero[0].any()
    assert torch.equal(zero[1], y)


def test_a_clients_draws_are_its_own():
    clean = small_data()
    both, one = corrupt(clean, [1, 4], key=Key.root(5)), corrupt(clean, [4], key=5)
    assert torch.equal(held(both, 4)[0], held(one, 4)[0])
    assert not torch.equal(held(corrupt(clean, [4], key=6), 4)[0], held(one, 4)[0])


def test_what_cannot_be_corrupted_is_refused():
    with pytest.raises(ConfigError, match="Did you mean 'noise'"):
        corrupt(small_data(), [1], "nois")
    with pytest.raises(RequestError, match="no client 9"):
        corrupt(small_data(), [9])
