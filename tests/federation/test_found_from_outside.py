"""Holes that adversarial testing found, each as the script that showed it."""

from dataclasses import dataclass, field

import pytest
import torch

from support import ToyEngine, grid, small_data, toy_federation, toy_weights
from unknot.audit import interference
from unknot.core.errors import RequestError
from unknot.core.lineage import Lineage, Unit
from unknot.core.requests import Target, erase, join
from unknot.core.weights import Weights
from unknot.federation import Buffered, Clock, Constant, FedBuff, Federation, Synchronous
from unknot.select import Balanced, KCenter
from unknot.unlearn import BMT, KNOT, RFS, SISA, FedCIO, Rapid

DATA = small_data([4] * 6)
CLOCK = Clock(Constant(), seconds_per_sample=0.1)


OVERTAKEN = [
    [erase(5, round=1), join(5, round=3)],
    [erase({3: [0]}, time=2.0), erase(3, round=1)],
    [erase(3, time=2.0), erase(3, round=1)],
    [erase([3, 4], time=2.0), erase(3, round=1)],
    [erase({3: [0]}, round=5), erase({3: [0]}, time=0.5)],
    [join(5, time=2.0), join(5, round=1)],
    [join(5, time=2.0), erase(5, round=1)],
]


@pytest.mark.parametrize("requests", OVERTAKEN, ids=lambda rs: " then ".join(f"{r} at {r.at}" for r in rs))
def test_a_request_that_waits_is_not_refused_for_what_was_served_since(requests):
    whole = toy_federation(RFS(), DATA, clock=CLOCK)
    whole.run(10, requests=requests)
    parts = toy_federation(RFS(), DATA, clock=CLOCK)
    parts.run(2, requests=requests)
    parts.run(8)
    assert parts.pending == whole.pending == ()
    assert parts.model.equal(whole.model)
    assert parts.members == whole.members


@dataclass(frozen=True)
class ServerMomentum:
    """Frozen, and yet with a state."""

    state: dict = field(default_factory=dict)

    def __call__(self, current, updates, version, ledger):
        step = torch.stack([u.step.vector for u in updates]).mean(0)
        self.state["m"] = step + 0.9 * self.state["m"] if self.state else step
        return current.like(current.vector + self.state["m"])


@pytest.mark.parametrize("method", [RFS(), BMT(), FedCIO(2)], ids=lambda m: m.name)
def test_a_frozen_aggregator_with_a_mutable_field_has_a_state(method):
    given = ServerMomentum()

    def served(data):
        return toy_federation(method, data, aggregate=given).run(8, requests=[erase(0, round=4)]).model

    assert interference(served, DATA, [Target(0)]).none
    assert not given.state


ASKED = {
    "a leave": [erase(0, time=2.5)],
    "a join": [join(5, time=1.7)],
    "several": [erase(0, time=1.1), erase(3, time=3.3), join(5, time=2.0)],
}


@pytest.mark.parametrize(
    ("asked", "cut", "pace"), grid(ASKED, [[3, 5], [1] * 8], [Synchronous(), Buffered(4, 2)])
)
def test_a_run_in_parts_is_the_run_in_one_with_requests_at_times_too(asked, cut, pace):
    """A lane that rests is led on to where the request would find it in a longer run."""
    requests = ASKED[asked]
    data = small_data([4, 4, 4, 40, 4, 4])
    aggregate = FedBuff() if isinstance(pace, Buffered) else None
    for method in (FedCIO(2), KNOT(3, by="random")):
        whole = toy_federation(method, data, pace=pace, aggregate=aggregate, clock=CLOCK)
        one = whole.run(8, requests=requests)
        parts = toy_federation(method, data, pace=pace, aggregate=aggregate, clock=CLOCK)
        parts.run(cut[0], requests=requests)
        for rounds in cut[1:]:
            last = parts.run(rounds)
        assert [(s.request, s.time, s.round) for s in last.served] == [
            (s.request, s.time, s.round) for s in one.served
        ]
        assert parts.model.equal(whole.model)


def test_lanes_that_waited_for_a_request_go_on_from_its_time():
    """A newcomer is not at work before it joined, nor is an erased client gone before its request."""
    data = small_data([4, 12, 4, 40, 4, 9, 6])
    for request in (join(6, round=3), erase([0, 1, 3], round=3)):
        fed = toy_federation(FedCIO(3), data, clock=CLOCK)
        history = fed.run(7, requests=[request])
        (served,) = history.served
        times = [record.time for record in history.rounds]
        assert times == sorted(times)
        later = history.rounds[served.place :]
        assert all(trip.launched >= served.time for r in later for trip in r.trips if trip.client == 6)
        assert all(record.time > served.time for record in later if record.lane in served.lanes)


def inherited(method, **options):
    start = Weights(torch.linspace(1, -1, 8), toy_weights().layout, Lineage([Unit(0, 4)]))
    return Federation(ToyEngine(), start, DATA, method, restart=toy_weights(), **options)


def test_what_a_request_changes_holds_for_a_federation_that_begins_anew():
    fed = inherited(Rapid())
    fed.run(4, requests=[erase(0, round=2)])
    assert fed.lanes["global"].recipe.optimizer == Rapid().optimizer
    fed = inherited(RFS(), select=KCenter(2), select_when="unlearning", pace=Synchronous(3))
    fed.run(4, requests=[erase(0, round=2)])
    assert isinstance(fed.lanes["global"].selector, KCenter)
    fed = inherited(FedCIO(2, assignment=((0, 1, 2), (3, 4, 5))))
    fed.run(4, requests=[erase(0, round=2)])
    assert sorted(map(sorted, (lane.members for lane in fed.lanes.values()))) == [[1, 2], [3, 4, 5]]


@pytest.mark.parametrize("select", [None, KCenter(2), Balanced()], ids=["uniform", "k-center", "balanced"])
@pytest.mark.parametrize("method", [RFS(), BMT(), SISA(), FedCIO(2)], ids=lambda m: m.name)
def test_when_everybody_has_left_a_newcomer_is_let_in(method, select):
    fed = toy_federation(method, DATA, select=select)
    history = fed.run(8, requests=[erase([0, 1, 2, 3, 4], round=3), join(5, round=4)])
    assert fed.members == {5}
    assert fed.pending == ()
    assert history.model.lineage.clients == {5}
    alone = toy_federation(method, DATA, select=select)
    alone.run(4, requests=[erase([0, 1, 2, 3, 4, 5], round=2)])
    assert alone.history.stopped == "no clients left"
    assert "no clients are left" in alone.history.warnings[0]


def test_an_erasure_has_the_engine_wiped():
    class Counting(ToyEngine):
        wiped = 0

        def wipe(self):
            self.wiped += 1

    fed = toy_federation(RFS(), DATA, Counting())
    fed.run(6, requests=[erase(0, round=2), join(5, round=3), erase({1: [0]}, round=4)])
    assert fed.engine.wiped == 2


def test_before_the_first_run_the_initial_model_is_served():
    for method in (RFS(), SISA(), KNOT(2, by="random")):
        assert toy_federation(method, DATA).model.equal(toy_weights())


def test_one_request_need_not_be_a_list_and_anything_else_is_named():
    fed = toy_federation(RFS(), DATA)
    fed.run(3, requests=erase(1, round=2))
    assert fed.members == {0, 2, 3, 4, 5}
    with pytest.raises(RequestError, match=r"unknot.erase or unknot.join; found 3"):
        fed.run(3, requests=[3])
