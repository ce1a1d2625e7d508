"""Weights that carry erased data are refused wherever they could enter, planted ones too."""

from dataclasses import replace

import pytest

from support import LAYOUT, ToyEngine, serve_now, small_data, toy_federation
from unknot.core.errors import ErasedDataError, ForbiddenLineageError
from unknot.core.lineage import Lineage, Unit
from unknot.core.requests import erase
from unknot.core.weights import Weights
from unknot.federation import Buffered, Clock, FedBuff, Flight, Pareto, Synchronous
from unknot.unlearn import RFS

PACES = {
    "sync": {"pace": Synchronous()},
    "async": {
        "pace": Buffered(5, 2, staleness_bound=3),
        "aggregate": FedBuff(),
        "clock": Clock(Pareto(), seconds_per_sample=0.01),
    },
}
either_pace = pytest.mark.parametrize("pace", PACES)
CLIENT_3 = Lineage([Unit(3)])
REFUSED = pytest.raises(ForbiddenLineageError, match="client 3, whose data has been erased")


def after_erasing_3(pace, engine=None):
    fed = toy_federation(RFS(), engine=engine, **PACES[pace])
    fed.run(6, requests=[erase(3, round=3)])
    return fed


def tainted(fed) -> Weights:
    return replace(fed.initial, lineage=CLIENT_3)


@either_pace
def test_aggregating_a_planted_update_is_refused(pace):
    def plant(update):
        return replace(update, weights=replace(update.weights, lineage=update.lineage | CLIENT_3))

    engine = ToyEngine()
    fed = after_erasing_3(pace, engine)
    engine.spoil[0] = plant
    with REFUSED:
        fed.run(10)


@either_pace
def test_a_planted_flight_is_refused_before_it_is_trained(pace):
    """As if a job from before the request had slipped back into the lane."""
    engine = ToyEngine()
    fed = after_erasing_3(pace, engine)
    lane = fed.lanes["global"]
    job = replace(fed.state.job(lane, lane.nodes["global"], 0), start=tainted(fed))
    lane.flights.append(Flight(0, (job,), lane.version, fed.now, fed.now + 1))
    calls = len(engine.calls)
    with REFUSED:
        fed.run(10)
    assert all(planted is not job for call in engine.calls[calls:] for planted in call)


@either_pace
def test_a_model_of_erased_data_is_not_sent(pace):
    engine = ToyEngine()
    fed = after_erasing_3(pace, engine)
    calls = len(engine.calls)

    class Planting(RFS):
        def jobs(self, fed, lane, client):
            return [replace(job, start=tainted(fed)) for job in super().jobs(fed, lane, client)]

    fed.work.method = Planting()
    with pytest.raises(ForbiddenLineageError, match="send a model to"):
        fed.run(10)
    assert all(job.start.lineage.clients != {3} for call in engine.calls[calls:] for job in call)


@either_pace
def test_an_erased_client_cannot_be_trained(pace):
    """A job for the client itself: its unit is of a revision nobody holds, its data is out of reach."""
    fed = after_erasing_3(pace)
    lane = fed.lanes["global"]
    job = fed.state.job(lane, lane.nodes["global"], 3)
    lane.flights.append(Flight(3, (job,), lane.version, fed.now, fed.now + 1))
    with pytest.raises(ErasedDataError, match="client 3"):
        fed.run(10)


@either_pace
def test_storing_is_refused(pace):
    fed = after_erasing_3(pace)
    with REFUSED:
        fed.archive["checkpoint"] = tainted(fed)
    with REFUSED:
        fed.lanes["global"].nodes["global"].weights = tainted(fed)
    with REFUSED:
        fed.state.add_node(fed.lanes["global"], "another", [0], tainted(fed))


@either_pace
def test_serving_is_refused(pace):
    fed = after_erasing_3(pace)

    class Tainted(RFS):
        def serve(self, fed):
            return tainted(fed)

    fed.work.method = Tainted()
    with REFUSED:
        _ = fed.model
    with REFUSED:
        fed.run(1)


@either_pace
def test_the_archive_is_purged_by_the_request(pace):
    fed = toy_federation(RFS(), **PACES[pace])
    fed.run(2)
    fed.archive["with 3"] = tainted(fed)
    fed.archive["without"] = replace(fed.initial, lineage=Lineage([Unit(1)]))
    history = fed.run(3, requests=[erase(3, round=2)])
    assert list(fed.archive) == ["without"]
    assert history.served[-1].purged == 1


def test_what_was_in_flight_at_the_request_is_dropped():
    """Everybody is in flight, from weights that client 3 shaped: all flights end."""
    engine = ToyEngine()
    fed = toy_federation(RFS(), small_data([4] * 8), engine, **PACES["async"])
    fed.run(8)
    flying = {flight.client for flight in fed.lanes["global"].flights}
    shaped = fed.lanes["global"].nodes["global"].weights.lineage
    client = next(unit.client for unit in shaped)
    before = len(engine.calls)
    history = fed.run(8, requests=[erase(client, round=8)])
    assert set(history.served[0].cancelled) == flying
    for call in engine.calls[before:]:
        for job in call:
            assert client not in {unit.client for unit in job.lineage}


def test_who_is_out_is_called_back_whatever_the_method_does():
    """Who is erased, and who was sent what it shaped: the core does it, though the method forgets to."""

    class Forgetful(RFS):
        def forget(self, desk, request, touched):
            for lane in touched:
                lane.nodes["global"].weights = desk.initial

    engine = ToyEngine()
    fed = toy_federation(Forgetful(), small_data([4] * 8), engine, **PACES["async"])
    fed.run(8)
    before, client = len(engine.calls), min(fed.lanes["global"].model.lineage.clients)
    history = fed.run(8, requests=[erase(client, round=8)])
    assert history.served[0].cancelled
    assert all(client not in job.lineage.clients for call in engine.calls[before:] for job in call)


def test_samples_leave_the_new_revision_usable_and_the_old_one_not():
    fed = toy_federation(RFS())
    fed.run(6, requests=[erase({3: [0, 1]}, round=3)])
    assert Unit(3, 1) in fed.model.lineage
    assert Unit(3, 0) not in fed.model.lineage
    with pytest.raises(ForbiddenLineageError, match="client 3"):
        fed.archive["old"] = Weights(fed.initial.vector, LAYOUT, Lineage([Unit(3, 0)]))
    fed.archive["new"] = Weights(fed.initial.vector, LAYOUT, Lineage([Unit(3, 1)]))


def test_nothing_keeps_the_forgotten_model():
    """Neither the history of an earlier run nor the cache of scores."""
    fed = toy_federation(RFS())
    history = fed.run(4)
    old = history.model
    serve_now(fed, erase(3, round=4))
    assert history.model is None
    assert old not in fed.scores
