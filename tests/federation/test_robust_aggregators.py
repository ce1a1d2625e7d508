"""Median, trimmed mean and norm clipping: by hand, and against a plain twin in numpy."""

import math

import numpy as np
import pytest
import torch

from support import LAYOUT, toy_weights
from unknot.core.errors import ConfigError, ForbiddenLineageError
from unknot.core.jobs import Job, Update
from unknot.core.keys import Key
from unknot.core.lineage import Ledger, Lineage, Unit
from unknot.core.training import Recipe
from unknot.core.weights import Weights
from unknot.federation import Median, NormClipping, TrimmedMean
from unknot.federation.aggregators import robust

ALL = {"median": Median(), "trimmed-mean": TrimmedMean(0.2), "norm-clipping": NormClipping(0.5)}


def weights(values, *clients: int) -> Weights:
    vector = torch.as_tensor(values, dtype=torch.float64).expand(LAYOUT.size).clone()
    return Weights(vector, LAYOUT, Lineage(Unit(c) for c in clients))


def update(client: int, change, samples: int = 1, start: float = 1.0, version: int = 0) -> Update:
    job = Job(Unit(client), weights(start, 9), Key.root(0), Recipe(), version=version)
    return job.done(weights(start).vector + weights(change).vector, samples, 0.0)


def test_a_median_by_hand():
    """The current model is 10. Of changes 1, 5, 2 it is 2; with 100 beside them, (2 + 5)/2 = 3.5."""
    updates = [update(c, change) for c, change in enumerate((1.0, 5.0, 2.0))]
    assert Median()(weights(10.0), updates, 0, Ledger()).vector.tolist() == [12.0] * LAYOUT.size
    wild = [*updates, update(3, 100.0, samples=1000)]
    assert Median()(weights(10.0), wild, 0, Ledger()).vector.tolist() == [13.5] * LAYOUT.size


def test_a_trimmed_mean_by_hand():
    """Of changes 1, 5, 2, −50, 100, a fifth at either end is one client: (1 + 5 + 2)/3."""
    updates = [update(c, change) for c, change in enumerate((1.0, 5.0, 2.0, -50.0, 100.0))]
    new = TrimmedMean(0.2)(weights(10.0), updates, 0, Ledger())
    assert new.vector.tolist() == pytest.approx([10 + 8 / 3] * LAYOUT.size, rel=1e-15)
    whole = TrimmedMean(0.19)(weights(10.0), updates, 0, Ledger())  # not even one client
    assert whole.vector.tolist() == pytest.approx([10 + 58 / 5] * LAYOUT.size, rel=1e-15)


def test_norm_clipping_by_hand():
    """8 numbers each: changes of ½ have length √2 and stay under a bound of 2; those of 8 have length 8√8
    and become 2/√8 = 1/√2. With 30 and 10 samples: (30·½ + 10/√2)/40."""
    assert LAYOUT.size == 8
    updates = [update(0, 0.5, samples=30), update(1, 8.0, samples=10)]
    new = NormClipping(2.0)(weights(10.0), updates, 0, Ledger())
    assert new.vector.tolist() == pytest.approx([10 + (15 + 10 / math.sqrt(2)) / 40] * 8, rel=1e-14)
    heads = NormClipping(2.0, by_samples=False)(weights(10.0), updates, 0, Ledger())
    assert heads.vector.tolist() == pytest.approx([10 + (0.5 + 1 / math.sqrt(2)) / 2] * 8, rel=1e-14)


def test_an_old_change_counts_less_where_changes_are_weighed_and_as_much_where_they_are_ranked():
    """Changes ½ and ½, the second three versions old: clipping counts it half, a median and a trimmed mean
    do not tell them apart."""
    updates = [update(0, 0.5, version=3), update(1, 0.5, version=0)]
    assert NormClipping(9.0)(weights(1.0), updates, 3, Ledger()).vector.tolist() == [1.375] * 8
    for aggregate in (Median(), TrimmedMean()):
        assert aggregate(weights(1.0), updates, 3, Ledger()).vector.tolist() == [1.5] * 8


def test_nobody_moves_the_model_when_nobody_moved():
    updates = [update(client, 0.0) for client in range(3)]
    for aggregate in ALL.values():
        assert aggregate(weights(2.0), updates, 0, Ledger()).equal(weights(2.0))


@pytest.mark.parametrize("number", [1, 2, 5, 8, 21])
@pytest.mark.parametrize("chunk", [3, 1 << 20], ids=["in parts", "at once"])
def test_a_plain_twin_gives_the_same(number, chunk, monkeypatch):
    monkeypatch.setattr(robust, "_CHUNK", chunk * number)
    changes = np.random.default_rng(number).normal(size=(number, LAYOUT.size)).round(2)
    updates = [update(c, torch.from_numpy(change), start=0.0) for c, change in enumerate(changes)]
    current = weights(toy_weights().vector.double())
    median = Median()(current, updates, 0, Ledger())
    np.testing.assert_allclose(median.vector, current.vector.numpy() + np.median(changes, 0), rtol=1e-14)
    for trim in (0.0, 0.1, 0.25, 0.49):
        ends = int(trim * number)
        mean = np.sort(changes, 0)[ends : number - ends].mean(0)
        found = TrimmedMean(trim)(current, updates, 0, Ledger())
        np.testing.assert_allclose(found.vector, current.vector.numpy() + mean, rtol=1e-13)


@pytest.mark.parametrize("name", ALL)
def test_whoever_sent_an_update_is_in_the_lineage_even_if_it_was_left_out(name):
    updates = [update(client, change) for client, change in enumerate((1.0, 2.0, 1e6, -1e6, 1.5))]
    assert ALL[name](weights(10.0, 5), updates, 0, Ledger()).lineage.clients == {0, 1, 2, 3, 4, 5, 9}


@pytest.mark.parametrize("name", ALL)
def test_an_update_that_carries_erased_data_is_refused(name):
    ledger = Ledger()
    ledger.forbid(1)
    with pytest.raises(ForbiddenLineageError, match="refused to aggregate an update: it carries client 1"):
        ALL[name](weights(0.0), [update(0, 1.0), update(1, 2.0)], 0, ledger)


def test_impossible_settings_are_refused():
    for make, message in (
        (lambda: TrimmedMean(0.5), r"TrimmedMean: trim must be at least 0 and below 0\.5, not 0\.5"),
        (lambda: TrimmedMean(-0.1), "trim"),
        (lambda: NormClipping(0.0), "NormClipping: bound must be positive"),
        (lambda: NormClipping(1.0, exponent=-1), "exponent"),
    ):
        with pytest.raises(ConfigError, match=message):
            make()
