import json

import pytest
import torch

from support import ToyEngine, small_data, toy_federation
from unknot.core.errors import ConfigError, RequestError
from unknot.core.requests import erase, join
from unknot.core.selection import AtRandom
from unknot.federation import Buffered, Clock, FedBuff, Pareto, Synchronous, Trace
from unknot.unlearn import BMT, RFS, SISA, FedCIO

SYNC = {"pace": Synchronous(per_round=4)}
ASYNC = {"pace": Buffered(4, 2, staleness_bound=3), "aggregate": FedBuff(), "clock": Clock(Pareto())}
PACES = pytest.mark.parametrize("pace", [SYNC, ASYNC], ids=["sync", "async"])


@PACES
def test_the_same_seed_gives_the_same_weights(pace):
    a = toy_federation(RFS(), seed=5, **pace).run(10)
    b = toy_federation(RFS(), seed=5, **pace).run(10)
    c = toy_federation(RFS(), seed=6, **pace).run(10)
    assert a.model.equal(b.model)
    assert a.time == b.time
    assert not a.model.equal(c.model)


@PACES
def test_a_run_can_be_continued(pace):
    fed = toy_federation(RFS(), **pace)
    fed.run(4)
    assert fed.run(6).model.equal(toy_federation(RFS(), **pace).run(10).model)


@PACES
def test_without_client_3_everybody_elses_draws_are_the_same(pace):
    """Keys of jobs by (client, round), and with them batch orders; training times; who is drawn."""

    def draws(clients):
        data = small_data([5] * 12)
        for client in set(range(12)) - set(clients):
            data.erase(client)
        fed = toy_federation(RFS(), data, **pace)
        fed.run(1)
        lane, state = fed.lanes["global"], fed.state
        node = lane.nodes["global"]
        out = {}
        for client in clients:
            for lane.version in range(5):
                job = fed.state.job(lane, node, client)
                order = job.key.child("epoch", 0).order(fed.data[client].ids)
                out[client, lane.version] = (
                    job.key,
                    tuple(order),
                    state.clock.duration(client, 5, state.key),
                )
        ranks = {
            v: [int(c) for c in clients if c != 3 and c in state.key.child("select", v).smallest(clients, 6)]
            for v in range(5)
        }
        return out, ranks

    everybody, chosen = draws(range(12))
    others, chosen_without = draws([c for c in range(12) if c != 3])
    assert others == {name: value for name, value in everybody.items() if name[0] != 3}
    for version, clients in chosen.items():
        assert set(clients) <= set(chosen_without[version])


def test_a_synchronous_round_lasts_as_long_as_its_slowest_client():
    """0.01 s × 5 samples × slowness 1, 2, 4: rounds end at 0.2, 0.4, 0.6 s."""
    clock = Clock(Trace((1.0, 2.0, 4.0)), seconds_per_sample=0.01)
    history = toy_federation(RFS(), small_data([5, 5, 5]), clock=clock).run(3)
    assert [record.time for record in history.rounds] == [0.2, 0.4, 0.6]


def test_an_asynchronous_timeline_by_hand():
    """Training takes 1, 2 and 5 s. Two in flight of three clients at first (all three fly with
    per_round = 3); aggregation on the first arrival: at 1 s client 0, at 2 s clients 0 and 1 (both
    due), at 3 s client 0, at 4 s 0 and 1, at 5 s 0 and 2."""
    clock = Clock(Trace((1.0, 2.0, 5.0)), seconds_per_sample=0.2)
    fed = toy_federation(RFS(), small_data([5, 5, 5]), pace=Buffered(3, 1), aggregate=FedBuff(), clock=clock)
    history = fed.run(5)
    assert [r.time for r in history.rounds] == [1.0, 2.0, 3.0, 4.0, 5.0]
    assert [r.clients for r in history.rounds] == [(0,), (0, 1), (0,), (0, 1), (0, 2)]
    # Client 2 started from version 0 and lands at version 4, client 0 at 4 from 4: mean 2.
    assert history.rounds[-1].staleness == 2.0


def test_jobs_due_together_are_one_call_to_the_engine():
    engine = ToyEngine()
    toy_federation(RFS(), engine=engine).run(3)
    assert [len(call) for call in engine.calls] == [6, 6, 6]


def test_requests_come_at_their_moment():
    clock = Clock(seconds_per_sample=0.2)
    data = small_data([5] * 6)  # a round lasts 1 s
    requests = [erase(1, round=2), erase(2, time=3.5), join(5, round=4)]
    history = toy_federation(RFS(), data, clock=clock).run(8, requests=requests)
    assert [(s.request, s.time, s.round) for s in history.served] == [
        ("erase client 1", 2.0, 2),
        ("erase client 2", 3.5, 3),
        # The erasure at 3.5 s restarted the round under way: the fourth ends at 4.5 s.
        ("join client 5", 4.5, 4),
    ]
    takes_part = [set(r.clients) for r in history.rounds]
    assert all(1 in c for c in takes_part[:2])
    assert not any(1 in c for c in takes_part[2:])
    assert not any(2 in c for c in takes_part[3:])
    assert not any(5 in c for c in takes_part[:4])
    assert all(5 in c for c in takes_part[4:])


def test_flights_of_the_erased_client_are_cancelled_and_never_trained():
    engine = ToyEngine()
    clock = Clock(Trace((1.0, 1.0, 9.0, 1.0, 1.0, 1.0)), seconds_per_sample=0.2)
    fed = toy_federation(
        RFS(), small_data([5] * 6), engine, pace=Buffered(6, 3), aggregate=FedBuff(), clock=clock
    )
    history = fed.run(20, requests=[erase(2, time=4.5)])
    (served,) = history.served
    assert 2 in served.cancelled
    assert history.costs.cancelled == len(served.cancelled)
    assert all(job.client != 2 for call in engine.calls for job in call)


@pytest.mark.parametrize("method", [RFS(), BMT(), SISA()], ids=["rfs", "bmt", "sisa"])
def test_a_client_without_samples_is_called_back_when_it_leaves(method):
    """It flies with no job that could be tainted: by its number alone it is known to be out."""
    clock = Clock(seconds_per_sample=0.2)
    fed = toy_federation(method, small_data([5, 0, 4, 5]), clock=clock)
    history = fed.run(3, requests=[erase(1, time=1.5)])
    (served,) = history.served
    assert 1 in served.cancelled
    assert not any(1 in record.clients for record in history.rounds[served.place :])


def test_those_who_are_asked_in_place_of_a_leaver_are_asked_from_the_request_on():
    """Two of four fly; client 2 is called back at 2.5 s, and nobody takes its place before that."""
    clock = Clock(Trace((1.0, 1.0, 9.0, 1.0)), seconds_per_sample=0.2)
    pace = {"pace": Buffered(2, 1), "aggregate": FedBuff(), "clock": clock}
    fed = toy_federation(SISA(), small_data([5] * 4), **pace)
    history = fed.run(12, requests=[erase(2, time=2.5)])
    (served,) = history.served
    assert served.cancelled == (2,)
    later = [trip for record in history.rounds[served.place :] for trip in record.trips]
    assert min(trip.launched for trip in later if trip.launched > 2.0) == 2.5
    assert sum(trip.launched == 2.0 for trip in later) == 1


def test_several_clients_and_samples_in_one_request():
    fed = toy_federation(RFS())
    history = fed.run(6, requests=[erase({1: None, 3: [0, 2], 4: None}, round=3)])
    assert history.served[0].clients == (1, 3, 4)
    assert fed.members == {0, 2, 3, 5}
    assert len(fed.data[3]) == 4
    units = {(u.client, u.revision) for u in fed.model.lineage}
    assert units == {(0, 0), (2, 0), (3, 1), (5, 0)}


def test_costs_by_hand():
    """2 rounds × 3 clients, 2 epochs each of 5, 8 and 3 samples; 8 numbers of 4 bytes a model."""
    from unknot.core.training import Recipe

    recipe = Recipe(epochs=2, batch_size=4)
    costs = toy_federation(RFS(), small_data([5, 8, 3]), recipe=recipe).run(2).costs
    assert costs.jobs == 6
    assert costs.client_epochs == 12
    assert costs.samples_read == 2 * 2 * 16
    assert costs.bytes_down == costs.bytes_up == 6 * 32
    assert costs.bytes_stored == 32


def test_rounds_of_lanes_side_by_side_are_counted_once():
    """Three clusters in step: a round of each is one round of recovery, not three."""
    fed = toy_federation(FedCIO(clusters=3), clock=Clock(seconds_per_sample=1e-9, latency=1.0))
    history = fed.run(9, requests=[erase(1, round=4)])
    never = history.recovery(history.served[0], fraction=10.0)
    assert len(history.rounds) == 27
    assert (never.reached, never.rounds) == (False, 5)


def test_the_cost_of_recovery_is_counted_from_the_request():
    history = toy_federation(RFS()).run(20, requests=[erase(3, round=8)])
    (served,) = history.served
    recovery = history.recovery(served, fraction=0.5)
    assert recovery.reached
    record = history.rounds[8 + recovery.rounds - 1]
    assert recovery.seconds == record.time - served.time
    assert recovery.client_epochs == pytest.approx(5 * recovery.rounds)
    never = history.recovery(served, fraction=10.0)
    assert not never.reached
    assert never.rounds == 12


def test_erasing_everybody_leaves_the_initial_model():
    history = toy_federation(RFS()).run(9, requests=[erase(range(6), round=3)])
    assert history.stopped == "no clients left"
    assert len(history.rounds) == 3
    assert history.model.equal(toy_federation(RFS()).initial)
    assert not history.model.lineage


def test_a_client_without_samples_takes_its_place_and_trains_nothing():
    """Who is asked must not depend on the data, or an erasure could be told from the others' turns."""
    engine = ToyEngine()
    history = toy_federation(RFS(), small_data([5, 0, 4]), engine).run(3)
    assert {job.client for call in engine.calls for job in call} == {0, 2}
    assert all(record.clients == (0, 1, 2) for record in history.rounds)
    assert history.costs.set_aside == 0
    nobody = toy_federation(RFS(), small_data([0, 0])).run(2)
    assert nobody.model.equal(toy_federation(RFS()).initial)


def test_a_run_ends_at_its_simulated_second():
    clock = Clock(seconds_per_sample=0.2)
    history = toy_federation(RFS(), small_data([5, 5]), clock=clock).run(seconds=3.5)
    assert [r.time for r in history.rounds] == [1.0, 2.0, 3.0]
    assert history.stopped == "seconds"


def test_a_request_whose_moment_never_came_is_named():
    clock = Clock(seconds_per_sample=0.2)
    fed = toy_federation(RFS(), small_data([5, 5]), clock=clock)
    history = fed.run(seconds=3.5, requests=[erase(1, round=50)])
    assert history.unserved == ["erase client 1 at round 50"]


def test_stopping_at_a_steady_accuracy():
    loose = toy_federation(RFS()).run(60, accuracy=0.5)
    assert loose.stopped == "accuracy"
    assert loose.rounds[-1].accuracy >= 0.5
    assert all(r.accuracy < 0.5 for r in loose.rounds[:-1])
    steady = toy_federation(RFS()).run(60, accuracy=0.5, window=4, deviation=0.01)
    assert len(steady.rounds) > len(loose.rounds)
    waits = toy_federation(RFS()).run(60, accuracy=0.5, requests=[erase(1, round=30)])
    assert len(waits.rounds) > 30


def test_evaluation_is_as_rare_as_asked_for():
    history = toy_federation(RFS(), evaluate_every=3, evaluate_on=("validation", "test")).run(7)
    assert [bool(r.scores) for r in history.rounds] == [False, False, True, False, False, True, False]
    assert set(history.rounds[2].scores) == {"validation", "test"}
    quiet = toy_federation(RFS(), evaluate_every=0).run(3, requests=[erase(1, round=1)])
    assert not any(r.scores for r in quiet.rounds)
    assert set(quiet.scores) == {"validation", "test"}


def test_an_observer_sees_everything_in_order():
    seen = []
    history = toy_federation(RFS(), observers=[seen.append]).run(4, requests=[erase(1, round=2)])
    assert seen == [*history.rounds[:2], *history.served, *history.rounds[2:]]


def test_the_record_names_what_the_bits_depend_on():
    record = toy_federation(RFS(), seed=3).run(2, requests=[erase(1, round=1)]).to_dict()
    assert {"torch", "cpu", "threads", "engine", "python"} <= set(record["environment"])
    assert record["seed"] == 3
    assert record["guarantee"] == "exact"
    assert record["lineage"] == ["client 0", "client 2", "client 3", "client 4", "client 5"]
    assert record["rounds"][0]["train_loss"] > 0


def test_a_history_says_what_it_is_in_a_line():
    text = repr(toy_federation(RFS()).run(2, requests=[erase(1, round=1)]))
    assert text.startswith("History(rfs, 2 rounds, 0.1 s, erase client 1 at round 1, validation accuracy 0.")


def test_the_record_is_valid_json_even_where_a_number_is_missing():
    """A round in which nobody had anything to train on has no loss."""
    record = toy_federation(RFS(), small_data([0, 0])).run(1).to_dict()
    assert record["rounds"][0]["train_loss"] is None
    json.dumps(record, allow_nan=False)


@pytest.mark.parametrize(
    ("requests", "message"),
    [
        ([erase(17, round=2)], "cannot erase client 17: this federation has clients 0 to 5"),
        ([erase(3, round=2), erase(3, round=4)], "client 3 was already erased"),
        ([erase(3, round=2), erase({3: [0]}, round=4)], "client 3 was already erased"),
        ([erase({3: [0]}, round=2), erase({3: [0]}, round=4)], "already erased"),
        ([erase({3: [99]}, round=2)], "holds no sample 99"),
        ([join(3, round=2), join(3, round=4)], "is a member already"),
        ([join(9, round=2)], "cannot join client 9"),
    ],
)
def test_an_impossible_request_is_refused_before_training(requests, message):
    engine = ToyEngine()
    with pytest.raises(RequestError, match=message):
        toy_federation(RFS(), engine=engine).run(10, requests=requests)
    assert engine.calls == []


def test_later_runs_know_who_is_gone():
    fed = toy_federation(RFS())
    fed.run(4, requests=[erase(3, round=2)])
    with pytest.raises(RequestError, match="already erased"):
        fed.run(4, requests=[erase(3, round=6)])
    with pytest.raises(RequestError, match="its data was erased"):
        fed.run(4, requests=[join(3, round=6)])


@pytest.mark.parametrize(
    "options",
    [{}, {"rounds": 0}, {"seconds": -1.0}, {"accuracy": 0.9}, {"rounds": 3, "accuracy": 90}],
)
def test_an_endless_or_impossible_run_is_refused(options):
    with pytest.raises(ConfigError):
        toy_federation(RFS()).run(**options)


def test_stopping_by_accuracy_never_looks_at_the_test_data():
    with pytest.raises(ConfigError, match="validation"):
        toy_federation(RFS(), evaluate_on=("test",)).run(5, accuracy=0.5)


def test_training_does_not_touch_the_global_generator():
    torch.manual_seed(1)
    before = torch.random.get_rng_state()
    toy_federation(RFS()).run(3)
    assert torch.equal(before, torch.random.get_rng_state())


class AsksAStranger(AtRandom):
    def choose(self, idle, k, key):
        return [int(idle[0]), 99]


class AsksTwice(RFS):
    name = "asks-twice"

    def choose(self, desk, lane, idle, room):
        return [int(idle[0])] * 2


def test_a_client_that_is_not_idle_cannot_be_chosen():
    with pytest.raises(ConfigError, match=r"selector AsksAStranger chose .*99, but it is not among the idle"):
        toy_federation(RFS(), select=AsksAStranger()).run(1)
    with pytest.raises(ConfigError, match=r"method asks-twice, .*chose .*0, but it was chosen already"):
        toy_federation(AsksTwice()).run(1)
