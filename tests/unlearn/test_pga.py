"""PGA: the reference, the ball and the climb by hand; what is kept and what goes; that it is on record."""

import numpy as np
import pytest
import torch

import unknot
from exactness import forget_and_go_on
from support import LAYOUT, ToyEngine, small_data, toy_federation, toy_weights, with_vector
from unknot.audit import interference
from unknot.audit.backdoor import Trigger, answers_to, marked
from unknot.core.errors import ConfigError
from unknot.core.lineage import Ledger, LedgerView
from unknot.core.requests import erase, join
from unknot.core.training import SGD, Recipe
from unknot.core.weights import Weights
from unknot.federation import (
    Buffered,
    Clock,
    FedAvg,
    FedBuff,
    Guarantee,
    NormClipping,
    Pareto,
    Synchronous,
    Trace,
)
from unknot.unlearn import KNOT, PGA
from unknot.unlearn.pga import _third_of_the_way, _within

DATA = small_data((5, 8, 3, 6))
EQUAL = small_data((4, 4, 4, 4))


def visits(engine):
    """The calls to the engine that were a last visit."""
    return [call for call in engine.calls if call[0].node == "farewell"]


def last_models(engine, data):
    """What each client sent in the last round before the visit."""
    place = engine.calls.index(visits(engine)[0])
    return {u.client: u.weights.vector.double() for u in ToyEngine().train(engine.calls[place - 1], data)}


def run(method, data=DATA, request=None, rounds=5, engine=None, **options):
    engine = engine or ToyEngine()
    fed = toy_federation(method, data, engine, **options)
    history = fed.run(rounds, requests=[request or erase(1, round=3)])
    return fed, engine, history


# The record -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("at_once", [True, False])
def test_who_was_never_asked_has_no_part_in_it(at_once):
    """Neither what it holds nor how much: whoever is not on record as waived leaves no trace."""
    few = small_data((4, 6, 5, 7, 3, 6))

    def opened(data):
        return toy_federation(PGA(), data, pace=Synchronous(1), seed=3)

    asked = {client for record in opened(few).run(2).rounds for client in record.clients}
    one, other = min(asked), max(set(range(6)) - asked)
    requests = [erase([one, other], round=2)] if at_once else [erase(c, round=2) for c in (one, other)]
    history = opened(few).run(3, requests=requests)
    assert history.waived == [f"client {one}"]
    assert all(served.restarted == () for served in history.served)
    report = interference(
        lambda data: opened(data).run(3, requests=requests).model, few, erase(other, round=2).targets
    )
    assert report.none


def test_who_had_a_part_in_the_schedule_alone_is_on_record():
    """At a buffered pace others are waited for, or not, by how long the leaver takes: the model goes on."""
    fed = toy_federation(
        PGA(), DATA, pace=Buffered(3, 1), aggregate=FedBuff(), clock=Clock(Trace((1, 9, 9, 9)))
    )
    fed.run(1)
    flying = min(fed.lanes["global"].flying - fed.model.lineage.clients)
    assert fed.model.lineage.waived == set()
    history = fed.run(1, requests=[erase(flying, round=1)])
    assert history.waived == [f"client {flying}"]
    assert fed.model.lineage.waived == {flying}
    assert history.served[0].visits == ()


# The climb ------------------------------------------------------------------------------------------


def test_the_reference_is_the_mean_of_the_others():
    """Every client took part in the last round: without client 1, (5·w₀ + 3·w₂ + 6·w₃)/14."""
    _, engine, _ = run(PGA(radius=1.0))
    ((job,),) = visits(engine)
    last = last_models(engine, DATA)
    expected = (5 * last[0] + 3 * last[2] + 6 * last[3]) / 14
    assert torch.allclose(job.start.vector.double(), expected, atol=1e-6)


def test_where_all_hold_as_much_it_is_the_papers():
    """w_ref = (N·w − wᵢ)/(N − 1)."""
    fed = toy_federation(PGA(radius=1.0), EQUAL, engine := ToyEngine())
    model = fed.run(3).model.vector.double()
    fed.run(1, requests=[erase(1, round=3)])
    ((job,),) = visits(engine)
    expected = (4 * model - last_models(engine, EQUAL)[1]) / 3
    assert torch.allclose(job.start.vector.double(), expected, atol=1e-6)


AGGREGATORS = {
    "fedavg": {},
    "fedavg, two a round": {"pace": Synchronous(2)},
    "fedbuff": {"aggregate": FedBuff(server_lr=0.3)},
    "norm clipping": {"aggregate": NormClipping(0.4)},
}


@pytest.mark.parametrize("how", AGGREGATORS)
def test_the_reference_is_the_last_round_without_the_leaver(how):
    """Whatever aggregates: the same updates of all but the leaver, put together by it."""
    options = AGGREGATORS[how]
    fed = toy_federation(PGA(radius=1.0), DATA, engine := ToyEngine(), **options)
    fed.run(3)
    last = ToyEngine().train(engine.calls[-1], DATA)
    leaver, *others = last
    fed.run(1, requests=[erase(leaver.client, round=3)])
    ((job,),) = visits(engine)
    expected = options.get("aggregate", FedAvg())(leaver.job.start, others, 2, LedgerView(Ledger()))
    assert torch.allclose(job.start.vector, expected.vector, atol=1e-6)


def test_one_who_was_not_in_the_last_round_climbs_from_the_model_as_it_is():
    fed = toy_federation(PGA(radius=1.0), DATA, engine := ToyEngine(), pace=Synchronous(1))
    history = fed.run(4)
    (last,) = history.rounds[-1].clients
    earlier = min(fed.model.lineage.clients - {last})
    model = fed.model
    fed.run(1, requests=[erase(earlier, round=4)])
    assert visits(engine)[0][0].start.equal(model)


def test_one_who_was_alone_in_the_last_round_climbs_from_the_model_before_it():
    fed = toy_federation(PGA(radius=1.0), DATA, engine := ToyEngine(), pace=Synchronous(1))
    (last,) = fed.run(4).rounds[-1].clients
    before = engine.calls[-1][0].start
    fed.run(1, requests=[erase(last, round=4)])
    assert visits(engine)[0][0].start.equal(before)


def test_a_second_request_starts_from_what_the_first_made():
    fed = toy_federation(PGA(radius=100.0), DATA, engine := ToyEngine())
    fed.run(4, requests=[erase(1, round=3), erase(3, round=3)])
    first, second = (call[0] for call in visits(engine))
    [made] = ToyEngine().train([first], DATA)
    assert second.start.equal(made.weights)


@pytest.mark.parametrize("method", [PGA(), KNOT(2, by="random", retrain=PGA())], ids=["alone", "in clusters"])
def test_an_aggregator_that_cannot_say_what_a_client_added_is_refused_before_training(method):
    for aggregate in ("median", "trimmed-mean", "fedadam", "fedyogi", "fedadagrad"):
        fed = toy_federation(method, DATA, engine := ToyEngine(), aggregate=aggregate)
        with pytest.raises(ConfigError, match=r"pga takes out what .*FedAvg, FedBuff or NormC"):
            fed.run(3)
        assert engine.calls == []


def test_the_leaver_climbs_its_own_loss_near_the_reference():
    method = PGA(radius=0.25, epochs=3, batch_size=2, lr=0.5, momentum=0.0, clip=1.5)
    _, engine, _ = run(method, recipe=Recipe(SGD(0.1), epochs=7, proximal=0.3))
    ((job,),) = visits(engine)
    assert (job.client, job.batches) == (1, None)
    assert job.recipe == Recipe(SGD(0.5), 3, 2, clip=1.5, radius=0.25, ascent=True)


def test_the_others_go_on_from_what_came_of_it():
    fed, engine, history = run(PGA(radius=100.0))
    place = engine.calls.index(visits(engine)[0])
    [made] = ToyEngine().train(engine.calls[place], DATA)
    after = engine.calls[place + 1]
    assert {job.client for job in after} == {0, 2, 3}
    assert all(job.start.equal(made.weights) for job in after)
    assert [job.version for job in after] == [3, 3, 3]
    assert history.served[0].restarted == ()
    assert 1 not in fed.model.lineage.clients


def test_the_ball_by_hand():
    """From (1, 1, ...) to (4, 1, ...) is 3; back to a distance of 2 is (3, 1, ...)."""
    centre = Weights(torch.ones(LAYOUT.size, dtype=torch.float64), LAYOUT)
    far = centre.vector.clone()
    far[0] = 4.0
    outside = centre.like(far)
    assert _within(outside, centre, 3.0) is outside
    back = _within(outside, centre, 2.0).vector.tolist()
    assert back == [3.0] + [1.0] * (LAYOUT.size - 1)


def test_the_usual_radius_is_a_third_of_the_way_to_random_models():
    """Each random model has the initial one's numbers, layer by layer in another order."""
    fed = toy_federation(PGA(), DATA)
    fed.run(1)
    reference = toy_weights() * 3.0
    key = fed.state.key.child("x")
    found = _third_of_the_way(fed.desk, reference, key)
    layers = [part.reshape(-1).double().numpy() for part in toy_weights().tensors.values()]
    distances = []
    for number in range(10):
        generator = key.child("random model", number).generator()
        random = np.concatenate([layer[generator.permutation(len(layer))] for layer in layers])
        distances.append(np.linalg.norm(reference.vector.double().numpy() - random))
    assert found == pytest.approx(np.mean(distances) / 3, rel=1e-6)
    assert len({round(d, 6) for d in distances}) > 1
    _, engine, _ = run(PGA())
    assert visits(engine)[0][0].recipe.radius > 0


def test_only_the_samples_that_are_erased_are_climbed_on():
    fed, engine, history = run(
        PGA(radius=1.0, epochs=3, batch_size=2), request=erase({1: [0, 4, 7]}, round=3)
    )
    ((job,),) = visits(engine)
    assert [len(batch) for batch in job.batches] == [2, 1] * 3
    for epoch in range(3):
        assert sorted(np.concatenate(job.batches[2 * epoch : 2 * epoch + 2]).tolist()) == [0, 4, 7]
    assert len({tuple(np.concatenate(job.batches[i : i + 2])) for i in (0, 2, 4)}) > 1
    assert history.waived == ["client 1"]
    assert len(fed.data[1]) == 5
    assert fed.ledger.unit(1) in fed.model.lineage  # it trains on, with what it has left


def test_several_leave_from_one_reference_and_their_mean_is_taken():
    """(5·w₀ + 3·w₂)/8 is the reference of clients 1 and 3; where they get to counts 8 and 6."""
    _, engine, _ = run(PGA(radius=100.0), request=erase([1, 3], round=3))
    (jobs,) = visits(engine)
    last = last_models(engine, DATA)
    assert [job.client for job in jobs] == [1, 3]
    for job in jobs:
        assert torch.allclose(job.start.vector.double(), (5 * last[0] + 3 * last[2]) / 8, atol=1e-6)
    first, second = (u.weights.vector.double() for u in ToyEngine().train(jobs, DATA))
    start = engine.calls[engine.calls.index(jobs) + 1][0].start
    assert torch.allclose(start.vector.double(), (8 * first + 6 * second) / 14, atol=1e-6)


class Losing(ToyEngine):
    """The loss of a last visit rises by one with each; so does the distance."""

    def train(self, jobs, data):
        updates = super().train(jobs, data)
        for i, update in enumerate(updates):
            if update.job.node == "farewell":
                number = len(visits(self)) + 10 * (update.client == 3)
                moved = update.job.start.vector + 1.0
                updates[i] = update.job.done(moved, update.samples, float(number))
        return updates


def test_it_stops_as_soon_as_its_loss_is_high_enough():
    _, engine, history = run(PGA(radius=100.0, epochs=5, stop=3.0), engine=Losing())
    assert [job.recipe.epochs for (job,) in visits(engine)] == [1, 1, 1]
    first, second, third = (call[0] for call in visits(engine))
    assert torch.equal(second.start.vector, first.start.vector + 1)
    assert torch.equal(third.start.vector, first.start.vector + 2)
    assert len({job.key for (job,) in visits(engine)}) == 3
    assert len(history.served[0].visits) == 3
    _, engine, _ = run(PGA(radius=100.0, epochs=2, stop=3.0), engine=Losing())
    assert len(visits(engine)) == 2


def test_one_that_has_stopped_waits_for_the_other():
    _, engine, _ = run(PGA(radius=100.0, epochs=5, stop=3.0), request=erase([1, 3], round=3), engine=Losing())
    assert [[job.client for job in call] for call in visits(engine)] == [[1, 3], [1], [1]]


def test_between_passes_it_comes_back_into_the_ball():
    """Each pass moves by 1 in 8 numbers, √8 in all; the ball's radius is 1."""
    _, engine, _ = run(PGA(radius=1.0, epochs=3, stop=100.0), engine=Losing())
    reference, *others = (call[0].start for call in visits(engine))
    for start in others:
        assert float((start - reference).vector.double().norm()) == pytest.approx(1.0, rel=1e-6)


# What is kept ---------------------------------------------------------------------------------------


SHARE = 8
"""Bytes of how much a client counted."""


def test_what_the_last_rounds_clients_changed_is_kept_and_the_model_before_it():
    fed = toy_federation(PGA(), DATA, pace=Synchronous(2))
    fed.run(3)
    assert fed.keepsakes.nbytes == 3 * toy_weights().nbytes + 2 * SHARE
    fed.run(1, requests=[erase(fed.run(1).rounds[-1].clients[0], round=4)])
    assert fed.keepsakes.nbytes == 3 * toy_weights().nbytes + 2 * SHARE


def test_the_waiver_and_the_visit_are_on_record():
    fed, _, history = run(PGA(radius=1.0))
    assert history.waived == ["client 1"]
    assert history.guarantee.startswith("approximate: the model that goes on was shaped by the erased client")
    (trip,) = history.served[0].visits
    assert trip.client == 1
    assert not fed.method.exact


PACES = {
    "all": {"pace": Synchronous()},
    "some": {"pace": Synchronous(2)},
    "async": {"pace": Buffered(3, 2, 3), "aggregate": FedBuff(), "clock": Clock(Pareto())},
}


@pytest.mark.parametrize("pace", PACES)
@pytest.mark.parametrize("inside", [False, True], ids=["alone", "in clusters"])
def test_the_interference_audit_says_that_it_is_not_exact(pace, inside):
    data = small_data((5, 8, 3, 6, 7, 4, 5, 6))
    method = KNOT(2, by="random", retrain=PGA(radius=1.0)) if inside else PGA(radius=1.0)
    request = erase([1, 2], round=6)
    report = interference(
        lambda variant: forget_and_go_on(toy_federation(method, variant, **PACES[pace]), request, 3).model,
        data,
        request.targets,
    )
    assert not report.none
    assert PGA.guarantee is Guarantee.APPROXIMATE


@pytest.mark.parametrize("pace", PACES)
def test_requests_one_after_the_other_joins_samples_and_everybody_but_one(pace):
    data = small_data((5, 8, 3, 6, 7, 4))
    fed = toy_federation(PGA(radius=1.0), data, **PACES[pace])
    requests = [erase(1, round=3), join(5, round=4), erase({0: [2]}, round=6), erase([0, 3, 4, 5], round=9)]
    history = fed.run(14, requests=requests)
    assert fed.model.lineage.clients <= {2}
    assert all(text.startswith("client") for text in history.waived)
    assert torch.isfinite(fed.model.vector).all()


def test_a_client_that_never_sent_anything_leaves_no_trace_and_costs_nothing():
    scout = toy_federation(PGA(), DATA, pace=Synchronous(1))
    idle = min(set(range(4)) - {c for record in scout.run(2).rounds for c in record.clients})
    fed, engine, history = run(PGA(), request=erase(idle, round=2), pace=Synchronous(1))
    assert visits(engine) == []
    assert history.waived == []
    assert fed.lanes["global"].version == 5


def test_a_climb_that_overflows_leaves_the_reference():
    def wild(update):
        vector = update.weights.vector * float("inf") if update.job.node == "farewell" else None
        return update if vector is None else with_vector(update, vector)

    for stop in (None, 3.0):
        fed, engine, _ = run(PGA(radius=1.0, stop=stop), engine=ToyEngine(spoil={1: wild}))
        ((job,),) = visits(engine)
        after = engine.calls[engine.calls.index([job]) + 1]
        assert after[0].start.equal(job.start)
        assert fed.costs.set_aside == 1


@pytest.mark.parametrize("sizes", [(5,), (5, 8, 3)], ids=["one", "all"])
def test_the_last_clients_leave_the_initial_model(sizes):
    fed = toy_federation(PGA(radius=1.0), small_data(sizes), engine := ToyEngine())
    history = fed.run(3, requests=[erase(range(len(sizes)), round=2)])
    assert fed.model.equal(fed.initial)
    assert visits(engine) == []
    assert history.waived == []


def test_a_cluster_that_everybody_leaves_goes_back_to_the_initial_model():
    data = small_data((5, 8, 3, 6, 7, 4))
    fed = toy_federation(KNOT(3, by="random", retrain=PGA(radius=1.0)), data)
    fed.run(2)
    lane = fed.lanes["cluster 0"]
    fed.run(1, requests=[erase(lane.members, round=2)])
    assert lane.model.equal(fed.initial)


def test_impossible_settings_are_refused():
    for options in (
        {"radius": 0.0},
        {"epochs": 0},
        {"batch_size": 0},
        {"lr": 0.0},
        {"clip": 0.0},
        {"stop": 0.0},
    ):
        with pytest.raises(ConfigError, match=next(iter(options))):
            PGA(**options)


# On real models -------------------------------------------------------------------------------------

TRIGGER = Trigger(target=0)


def test_the_climb_ends_within_the_ball_and_loses_what_the_leaver_taught():
    """The mark is known before, and unknown after; two rounds later accuracy is within 5 points."""
    digits = unknot.load("digits")
    data = marked(unknot.federate(digits, unknot.Iid(5, samples=80), validation=200), [3], TRIGGER)
    recipe = Recipe(SGD(0.1), epochs=3, batch_size=20)
    fed = unknot.simulate("mlp", data, PGA(radius=2.0, batch_size=20), recipe, threads=1)
    before = fed.run(6).model
    train, climbs = fed.engine.train, []

    def watched(jobs, data):
        updates = train(jobs, data)
        climbs.extend(update for update in updates if update.job.node == "farewell")
        return updates

    fed.engine.train = watched
    history = fed.run(2, requests=[unknot.erase(3, round=6)])
    (climb,) = climbs
    assert 1.99 < float(climb.step.vector.norm()) < 2.001  # it went as far as it may
    assert answers_to(fed.engine, before, data.test, TRIGGER).value > 0.6
    assert answers_to(fed.engine, climb.weights, data.test, TRIGGER).value < 0.05
    assert answers_to(fed.engine, fed.model, data.test, TRIGGER).value < 0.1
    served = history.served[0]
    assert history.scores["validation"].accuracy > served.before["validation"].accuracy - 0.05
