"""Requests are served in the order of their moments, once each, and none is ever lost."""

import math

import numpy as np
import pytest

from support import ToyEngine, grid, small_data, toy_federation
from unknot.core.errors import ConfigError, ForbiddenLineageError, RequestError
from unknot.core.requests import Moment, erase, join
from unknot.federation import Buffered, Clock, FedBuff, Pareto, Synchronous, Trace
from unknot.unlearn import BMT, FATS, KNOT, METHODS, MMT, RFS, SISA, FedCIO

ASYNC = {"pace": Buffered(4, 2, staleness_bound=3), "aggregate": FedBuff(), "clock": Clock(Pareto())}
SYNC = {"pace": Synchronous()}
PACES = pytest.mark.parametrize("pace", [SYNC, ASYNC], ids=["sync", "async"])
SECOND_A_ROUND = Clock(seconds_per_sample=0.2)


def served(history):
    return [(s.request, s.clients) for s in history.served]


@PACES
def test_requests_at_rounds_and_at_times_are_mixed_freely(pace):
    """The client is erased at 0.01 s: nothing is left of the request for two of its samples in round 4."""
    fed = toy_federation(RFS(), **pace)
    history = fed.run(8, requests=[erase({3: [0, 1]}, round=4), erase(3, time=0.01)])
    assert served(history) == [
        ("erase client 3", (3,)),
        ("erase 2 samples of client 3 (nothing was left to do)", ()),
    ]
    assert 3 not in fed.members
    assert history.unserved == []
    other = toy_federation(RFS(), **pace)
    after = other.run(8, requests=[erase({3: [0, 1]}, round=1), erase(3, time=1e3), erase(1, round=4)])
    assert served(after) == [("erase 2 samples of client 3", (3,)), ("erase client 1", (1,))]
    assert after.unserved == ["erase client 3 at 1000 s"]


def test_samples_that_went_with_another_request_are_not_erased_twice():
    fed = toy_federation(RFS())
    history = fed.run(6, requests=[erase({3: [0, 1]}, time=0.01), erase({3: [1, 2], 4: None}, round=3)])
    assert fed.data[3].ids.tolist() == [3, 4, 5]
    assert served(history)[1] == ("erase 2 samples of client 3, client 4", (3, 4))


@PACES
def test_a_client_joins_and_leaves_in_either_order(pace):
    data = small_data([5] * 8)
    comes = toy_federation(RFS(), data, **pace)
    history = comes.run(9, requests=[erase(6, round=5), join(6, round=2)])
    assert served(history) == [("join client 6", (6,)), ("erase client 6", (6,))]
    never = toy_federation(RFS(), data, **pace)
    history = never.run(9, requests=[join([6, 7], round=5), erase(6, round=2)])
    assert served(history) == [("erase client 6", (6,)), ("join client 6, client 7", (7,))]
    assert never.members == {0, 1, 2, 3, 4, 5, 7}
    assert all(job.client != 6 for call in never.engine.calls for job in call)


@pytest.mark.parametrize("method", [RFS(), BMT(), MMT(), SISA(), FedCIO(2), KNOT(2, by="random")])
def test_erasing_who_has_not_joined_leaves_everybody_else_as_they_were(method):
    data = small_data([5] * 8)
    with_it = toy_federation(method, data)
    with_it.run(6, requests=[erase(6, round=2), join(6, round=4)])
    without = toy_federation(method, data)
    without.run(6, requests=[join(6, round=9)])
    assert with_it.model.equal(without.model)


def test_samples_can_be_erased_before_a_client_joins():
    fed = toy_federation(RFS(), small_data([5] * 7))
    fed.run(6, requests=[erase({6: [0, 4]}, round=2), join(6, round=3)])
    assert fed.members == set(range(7))
    assert fed.data[6].ids.tolist() == [1, 2, 3]


@PACES
def test_what_does_not_come_in_one_run_comes_in_the_next(pace):
    whole = toy_federation(RFS(), **pace)
    whole.run(8, requests=[erase(3, round=5), join(5, round=6)])
    parts = toy_federation(RFS(), **pace)
    first = parts.run(3, requests=[erase(3, round=5), join(5, round=6)])
    assert first.unserved == ["erase client 3 at round 5", "join client 5 at round 6"]
    assert [str(r) for r in parts.pending] == ["erase client 3", "join client 5"]
    second = parts.run(5)
    assert second.unserved == []
    assert parts.pending == ()
    assert parts.model.equal(whole.model)
    assert parts.members == {0, 1, 2, 4, 5}


def test_a_request_at_the_last_round_is_served_when_that_is_done():
    fed = toy_federation(RFS())
    history = fed.run(4, requests=[erase(3, round=4)])
    assert history.unserved == []
    assert fed.model.equal(fed.initial)


def test_requests_of_one_moment_are_served_in_the_order_in_which_they_were_asked():
    fed = toy_federation(RFS(), small_data([5] * 6), clock=SECOND_A_ROUND)
    history = fed.run(5, requests=[erase(4, round=2), erase(1, round=2), erase(3, round=2)])
    assert [s.clients for s in history.served] == [(4,), (1,), (3,)]
    fed = toy_federation(RFS(), small_data([5] * 6), clock=SECOND_A_ROUND)
    history = fed.run(5, requests=[erase(4, round=3), erase(1, time=2.5), erase(3, round=2)])
    assert [s.clients for s in history.served] == [(3,), (1,), (4,)]
    fed = toy_federation(RFS(), small_data([5] * 6), clock=SECOND_A_ROUND)
    history = fed.run(5, requests=[erase(4, time=2.5), erase(1, time=2.5), erase(3, time=1.5)])
    assert [s.clients for s in history.served] == [(3,), (4,), (1,)]


def test_nothing_is_asked_twice_of_a_request_that_waits():
    fed = toy_federation(RFS())
    fed.run(2, requests=[erase(3, round=6)])
    with pytest.raises(RequestError, match="already erased"):
        fed.run(2, requests=[erase(3, round=7)])
    assert len(fed.pending) == 1


@pytest.mark.parametrize("moment", [{"round": -1}, {"time": -0.5}, {"time": math.inf}, {"time": math.nan}])
def test_a_moment_that_never_comes_is_refused_at_the_door(moment):
    with pytest.raises(RequestError):
        Moment(**moment)


def test_an_endless_number_of_seconds_is_refused():
    with pytest.raises(ConfigError, match="finite"):
        toy_federation(RFS()).run(seconds=math.inf)


# A method that fails -------------------------------------------------------------------------------


def failing(method, times=1):
    """The method, whose `forget` fails so many times, in the middle of its work."""

    class Fails(type(method)):
        left = times

        def forget(self, desk, request, touched):
            super().forget(desk, request, touched)
            if Fails.left:
                Fails.left -= 1
                raise RuntimeError("the disk is full")

    return Fails(**{name: getattr(method, name) for name in method.__dataclass_fields__})


FAIL = {name: kind() for name, kind in METHODS.items() if name not in ("knot", "fats", "fedcio")}
FAIL |= {"knot": KNOT(2, by="random", retrain=MMT()), "fedcio": FedCIO(2), "fats": FATS(5, 5, 20, 2, 8)}
AGAIN = [[], [erase(3, round=3)], [erase(3, round=4)], [erase({3: [1]}, round=3)]]


@pytest.mark.parametrize(("name", "again"), grid(FAIL, AGAIN))
def test_a_forget_that_failed_can_be_asked_again(name, again):
    in_step = Clock(seconds_per_sample=1e-9, latency=1.0)  # so that all clusters are in one round
    smooth = toy_federation(FAIL[name], clock=in_step)
    smooth.run(7, requests=[erase(3, round=3)])
    rough = toy_federation(failing(FAIL[name]), clock=in_step)
    with pytest.raises(RuntimeError, match="disk is full"):
        rough.run(7, requests=[erase(3, round=3)])
    assert [str(r) for r in rough.pending] == ["erase client 3"]
    assert 3 in rough.data.erased
    history = rough.run(4, requests=again)
    assert rough.pending == ()
    assert [s.clients for s in history.served] == [(3,)]
    assert rough.model.equal(smooth.model)


def test_between_a_failure_and_the_next_try_nothing_of_the_erased_client_is_served():
    class Never(RFS):
        def forget(self, desk, request, touched):
            raise RuntimeError("no")

    fed = toy_federation(Never())
    with pytest.raises(RuntimeError):
        fed.run(6, requests=[erase(3, round=3)])
    with pytest.raises(ForbiddenLineageError):
        _ = fed.model
    with pytest.raises(RuntimeError):
        fed.run(6)
    assert fed.history.model is None
    fed.work.method = RFS()
    fed.run(3)
    assert 3 not in fed.model.lineage.clients


def test_a_request_that_failed_comes_before_all_others_even_those_of_an_earlier_moment():
    """What it spoilt is not repaired yet: nothing else could be served."""
    fed = toy_federation(failing(RFS()))
    with pytest.raises(RuntimeError):
        fed.run(7, requests=[erase(3, round=3)])
    history = fed.run(4, requests=[erase(4, time=0.0)])
    assert [s.clients for s in history.served] == [(3,), (4,)]


def test_a_forget_that_failed_leaves_every_model_as_it_found_it():
    found = {}

    class Fails(MMT):
        def forget(self, desk, request, touched):
            nodes = desk.lanes["global"].nodes
            found.update({n: (node, node.weights, node.name, set(node.members)) for n, node in nodes.items()})
            super().forget(desk, request, touched)
            for node in nodes.values():
                node.weights = desk.initial
            raise RuntimeError("the disk is full")

    fed = toy_federation(Fails())
    with pytest.raises(RuntimeError):
        fed.run(7, requests=[erase(3, round=3)])
    nodes = fed.lanes["global"].nodes
    assert set(nodes) == set(found)
    for name, (node, weights, called, members) in found.items():
        assert nodes[name] is node
        assert node.weights is weights
        assert (node.name, node.members) == (called, members)


@pytest.mark.parametrize("more", [[3, 4], {3: None, 4: [0]}], ids=["a client", "samples"])
def test_a_request_that_asks_for_more_than_the_one_that_failed_is_not_taken_for_it(more):
    """It is refused by name, since client 3 is gone: nobody is left to think that 4 was erased, too."""
    fed = toy_federation(failing(RFS()))
    with pytest.raises(RuntimeError):
        fed.run(7, requests=[erase(3, round=3)])
    with pytest.raises(RequestError, match="client 3 was already erased"):
        fed.run(4, requests=[erase(more, round=4)])
    fed.run(4, requests=[erase(4, round=4)])
    assert {3, 4} <= fed.data.erased


def test_between_a_failure_and_the_next_try_no_score_keeps_the_model():
    fed = toy_federation(failing(RFS()))
    old = fed.run(3).model
    assert old in fed.scores
    with pytest.raises(RuntimeError):
        fed.run(4, requests=[erase(3, round=3)])
    assert old not in fed.scores


def test_a_request_for_a_time_that_is_over_is_served_when_its_lanes_are():
    """Cluster 1 is at 8 s, cluster 0 at 2 s, when somebody asks for 3 s: no lane goes back in time."""
    clock = Clock(Trace((1.0, 1.0, 4.0, 4.0)), seconds_per_sample=0.2)
    times = {}
    for client in (0, 2):
        fed = toy_federation(FedCIO(assignment=((0, 1), (2, 3))), small_data([5] * 4), clock=clock)
        fed.run(2)
        times[client] = fed.run(1, requests=[erase(client, time=3.0)]).served[0].time
    assert times == {0: 3.0, 2: 8.0}


def test_a_lane_does_not_wait_for_one_that_has_had_its_rounds():
    """After 4 s cluster 0 has had 4 rounds, cluster 1 has had 1: of two more, the fifth is in 0 alone."""
    clock = Clock(Trace((1.0, 1.0, 4.0, 4.0)), seconds_per_sample=0.2)
    fed = toy_federation(FedCIO(assignment=((0, 1), (2, 3))), small_data([5] * 4), clock=clock)
    fed.run(seconds=4.0)
    assert [lane.rounds for lane in fed.lanes.values()] == [4, 1]
    history = fed.run(2, requests=[erase([0, 2], round=5)])
    assert [lane.rounds for lane in fed.lanes.values()] == [6, 3]
    assert history.unserved == ["erase client 0, client 2 at round 5"]


def test_a_run_that_has_its_accuracy_does_not_go_on_for_a_request_that_cannot_come():
    clock = Clock(Trace((1.0, 1.0, 4.0, 4.0)), seconds_per_sample=0.2)
    fed = toy_federation(FedCIO(assignment=((0, 1), (2, 3))), small_data([5] * 4), clock=clock)
    fed.run(seconds=4.0)
    history = fed.run(20, accuracy=0.01, requests=[erase([0, 2], round=23)])
    assert history.stopped == "accuracy"
    assert [lane.rounds for lane in fed.lanes.values()] == [4, 1]


def test_a_join_that_failed_can_be_asked_again():
    class Shy(RFS):
        times = 0

        def admit(self, desk, clients):
            super().admit(desk, clients)
            Shy.times += 1
            if Shy.times == 1:
                raise RuntimeError("not now")

    fed = toy_federation(Shy())
    with pytest.raises(RuntimeError):
        fed.run(6, requests=[join(5, round=3)])
    assert fed.members == set(range(5))
    fed.run(3)
    assert fed.members == set(range(6))
    whole = toy_federation(RFS())
    whole.run(6, requests=[join(5, round=3)])
    assert fed.model.equal(whole.model)


def test_an_engine_that_fails_loses_no_request():
    class Breaks(ToyEngine):
        def train(self, jobs, data):
            if len(self.calls) == 2:
                self.calls.append([])
                raise RuntimeError("power cut")
            return super().train(jobs, data)

    fed = toy_federation(RFS(), engine=Breaks())
    with pytest.raises(RuntimeError):
        fed.run(6, requests=[erase(3, round=4)])
    fed.run(4)
    assert fed.pending == ()
    assert np.all([3 not in lane.members for lane in fed.lanes.values()])


@pytest.mark.parametrize("member", [True, False])
def test_who_is_asked_to_be_erased_cannot_be_asked_to_join_after_that(member):
    fed = toy_federation(RFS(), small_data([5] * 8))
    fed.run(1, requests=[join([7] if member else [6, 7], round=100)])
    erased, joins, both = (fed.inbox.put(request) for request in (erase(6), join(6), join([6, 7])))
    fed.run(1)
    assert erased.state == "served"
    for ticket in (joins, both):
        assert ticket.state == "refused"
        assert ticket.why == "client 6 cannot join again: its data is erased by then"
    assert 6 not in fed.members
    later = fed.inbox.put(join(6))
    fed.run(1)
    assert later.why == "client 6 cannot join again: its data was erased"
