"""What misbehaving clients send is set aside and counted, and the round goes on."""

from dataclasses import replace

import pytest
import torch

from support import LAYOUT, ToyEngine, toy_federation, with_vector
from unknot.core.errors import UnknotError
from unknot.core.lineage import NOBODY
from unknot.core.weights import Layout, Weights
from unknot.federation import Buffered, Clock, FedBuff, Synchronous, Trace
from unknot.unlearn import RFS


def poke(value):
    def spoil(update):
        vector = update.weights.vector.clone()
        vector[3] = value
        return with_vector(update, vector)

    return spoil


def reshape(update):
    layout = Layout(("w",), ((3,),))
    return replace(update, weights=Weights(torch.zeros(3), layout, update.lineage))


def transpose(update):
    layout = Layout(LAYOUT.names, ((3, 2), (2,)))
    return replace(update, weights=Weights(update.weights.vector, layout, update.lineage))


BAD = {
    "nan": (poke(float("nan")), "not finite"),
    "infinite": (poke(float("inf")), "not finite"),
    "both infinities": (lambda u: poke(-float("inf"))(poke(float("inf"))(u)), "not finite"),
    "wrong size": (reshape, "wrong shape"),
    "transposed": (transpose, "wrong shape"),
    "wrong precision": (lambda u: with_vector(u, u.weights.vector.double()), "wrong type"),
    "negative count": (lambda u: replace(u, samples=-5), "impossible sample count"),
    "no samples": (lambda u: replace(u, samples=0), "impossible sample count"),
    "half a sample": (lambda u: replace(u, samples=2.5), "impossible sample count"),
    "nan samples": (lambda u: replace(u, samples=float("nan")), "impossible sample count"),
}
PACES = {
    "synchronous": {"pace": Synchronous()},
    "buffered": {"pace": Buffered(6, 3, staleness_bound=4), "aggregate": FedBuff()},
}


@pytest.mark.parametrize("pace", PACES)
@pytest.mark.parametrize("kind", BAD)
def test_a_bad_update_is_set_aside_and_counted(kind, pace):
    spoil, reason = BAD[kind]
    fed = toy_federation(RFS(), engine=ToyEngine(spoil={2: spoil}), **PACES[pace])
    history = fed.run(5)
    times = sum(2 in record.clients for record in history.rounds)
    assert times > 0
    assert history.costs.set_aside == times
    assert sum(record.set_aside.get(reason, 0) for record in history.rounds) == times
    assert torch.isfinite(fed.model.vector).all()
    assert 2 not in {unit.client for unit in fed.model.lineage}


def test_the_round_is_as_if_the_bad_client_had_not_reported():
    bad = toy_federation(RFS(), engine=ToyEngine(spoil={2: poke(float("nan"))})).run(5)
    absent = toy_federation(RFS())
    absent.data.erase(2)
    assert bad.model.equal(absent.run(5).model)


def test_a_round_of_bad_updates_alone_keeps_the_model():
    fed = toy_federation(RFS(), engine=ToyEngine(spoil={c: poke(float("nan")) for c in range(6)}))
    history = fed.run(3)
    assert len(history.rounds) == 3
    assert history.model.equal(fed.initial)


def test_huge_but_finite_numbers_are_not_called_infinite():
    """Their sum overflows; each of them is finite."""

    def huge(update):
        return with_vector(update, torch.full_like(update.weights.vector, 3e38))

    history = toy_federation(RFS(), engine=ToyEngine(spoil={2: huge})).run(1)
    assert history.costs.set_aside == 0


def test_updates_are_put_together_in_the_order_of_client_ids():
    """Whoever came back first: the order is in the bits."""
    seen = []

    def noting(current, updates, version, ledger):
        seen.append([update.client for update in updates])
        return FedBuff()(current, updates, version, ledger)

    pace, slow = Buffered(6, 3), Clock(Trace((6.0, 5.0, 4.0, 3.0, 2.0, 1.0)))  # the last are back first
    toy_federation(RFS(), pace=pace, clock=slow, aggregate=noting).run(4)
    assert max(map(len, seen)) > 2
    assert all(clients == sorted(clients) for clients in seen)


def test_an_engine_that_loses_lineage_is_an_error():
    def launder(update):
        return replace(update, weights=replace(update.weights, lineage=NOBODY))

    with pytest.raises(UnknotError, match="lost part of the lineage of client 2"):
        toy_federation(RFS(), engine=ToyEngine(spoil={2: launder})).run(1)


def test_an_engine_that_loses_jobs_is_an_error():
    class Forgetful(ToyEngine):
        def train(self, jobs, data):
            return super().train(jobs, data)[:-1]

    with pytest.raises(UnknotError, match="given 6 jobs and returned 5"):
        toy_federation(RFS(), engine=Forgetful()).run(1)
