"""A federation in memory that failed goes on as if it had not, or refuses to: it never does a thing twice."""

import numpy as np
import pytest

from support import ToyEngine, small_data, toy_federation
from unknot.core.errors import UnknotError
from unknot.core.lineage import NOBODY
from unknot.core.requests import erase, join
from unknot.federation import Buffered, Clock, FedBuff, Pareto, Synchronous
from unknot.unlearn import KNOT, RFS

ASYNC = {
    "pace": Buffered(5, 2),
    "aggregate": FedBuff(),
    "clock": Clock(Pareto(alpha=1.5, cap=5.0), seconds_per_sample=0.1),
}
PACES = {"sync": {"pace": Synchronous(4)}, "async": ASYNC}


class FailsOnce(ToyEngine):
    """An engine of which one call, of that name and number, fails."""

    def __init__(self, name, number):
        super().__init__()
        self.name_of_call, self.left = name, number

    def _maybe(self, name):
        if name == self.name_of_call:
            self.left -= 1
            if self.left == 0:
                raise RuntimeError("out of memory")

    def train(self, jobs, data):
        self._maybe("train")
        return super().train(jobs, data)

    def wipe(self):
        self._maybe("wipe")
        super().wipe()


class Shifts:
    """Counts how often it was asked, and chooses by that."""

    lineage, curious, learns = NOBODY, False, False

    def __init__(self):
        self.turn = 0

    def fresh(self):
        return Shifts()

    def meet(self, model, updates, key):
        pass

    def choose(self, idle, k, key):
        drawn = idle[key.order(idle)]
        on_duty = drawn % 2 == self.turn % 2
        self.turn += 1
        return np.sort(np.concatenate([drawn[on_duty], drawn[~on_duty]])[:k])

    def observe(self, model, updates, accuracy, key):
        pass


@pytest.mark.parametrize("pace", PACES)
@pytest.mark.parametrize("number", [1, 3, 6])
def test_an_engine_that_failed_to_train_is_asked_again_for_the_same(pace, number):
    """Room for more clients than there are at first: whom to ask is asked whenever there is room."""
    requests = [join([3, 4, 5, 6, 7], round=2), erase(1, round=4)]

    def built(engine):
        return toy_federation(RFS(), small_data([5] * 8), engine, select=Shifts(), **PACES[pace])

    whole = built(ToyEngine())
    whole.run(8, requests=requests)
    fed = built(FailsOnce("train", number))
    with pytest.raises(RuntimeError, match="out of memory"):
        fed.run(8, requests=requests)
    history = fed.resume()
    assert fed.model.equal(whole.model)
    assert fed.state.now == whole.state.now
    assert history.rounds[-1].costs == whole.history.rounds[-1].costs
    turns = [[lane.selector.turn for lane in one.lanes.values()] for one in (fed, whole)]
    assert turns[0] == turns[1] != [0]


@pytest.mark.parametrize("first", [1.0, 2.3])
def test_a_run_in_parts_asks_its_selector_as_often_as_the_run_in_one(first):
    runs = []
    for parts in ([7.0], [first, 7.0 - first]):
        fed = toy_federation(RFS(), small_data([5] * 8), select=Shifts(), **ASYNC)
        for place, seconds in enumerate(parts):
            fed.run(seconds=seconds, requests=[] if place else [join([3, 4, 5, 6, 7], round=20)])
        runs.append(([lane.selector.turn for lane in fed.lanes.values()], fed.model))
    (turns, model), (turns_in_one, whole) = runs
    assert turns == turns_in_one
    assert model.equal(whole)


def test_an_erasure_does_not_count_as_served_where_the_engine_could_not_be_wiped():
    fed = toy_federation(RFS(), engine=FailsOnce("wipe", 1))
    with pytest.raises(RuntimeError, match="out of memory"):
        fed.run(4, requests=[erase(1, round=2)])
    assert fed.history.served == []
    with pytest.raises(UnknotError, match="broken off in its middle"):
        fed.resume()


def test_a_request_that_could_not_be_looked_at_is_not_lost_by_going_on_without_it(monkeypatch):
    fed = toy_federation(RFS())
    fed.run(1)
    fed.inbox.put(erase(1))

    def fails(*_, **__):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(fed.serving, "check", fails)
        with pytest.raises(KeyboardInterrupt):
            fed.resume()
    with pytest.raises(UnknotError, match="broken off in its middle"):
        fed.resume()


def test_a_method_that_failed_to_open_does_not_open_twice():
    class Opens(KNOT):
        def open(self, desk):
            super().open(desk)
            raise RuntimeError("not today")

    fed = toy_federation(Opens(clusters=2))
    with pytest.raises(RuntimeError, match="not today"):
        fed.run(3)
    for again in (fed.run, fed.begin):
        with pytest.raises(UnknotError, match=r"its beginning was broken off.*build the federation again"):
            again(3)


def called_back(method, request):
    """Who was called back, their trips and how many that were in all; a method that failed is asked again."""
    fed = toy_federation(method, small_data([5] * 8), **ASYNC)
    try:
        fed.run(6, requests=request)
    except RuntimeError:
        fed.resume()
    found = fed.history.served[0]
    trips = sorted(found.trips, key=lambda trip: trip.client)
    return found.cancelled, trips, found.costs.cancelled, fed.history.costs.cancelled


@pytest.mark.parametrize("late", [False, True], ids=["at once", "when all was done"])
def test_who_was_called_back_for_an_erasure_is_told_once_also_where_the_method_failed_first(late):
    class Fails(RFS):
        left = 1

        def forget(self, desk, request, touched):
            if late:
                super().forget(desk, request, touched)
            if Fails.left:
                Fails.left -= 1
                raise RuntimeError("not now")
            if not late:
                super().forget(desk, request, touched)

    request = [erase([0, 1], time=0.7)]
    whole = called_back(RFS(), request)
    assert called_back(Fails(), request) == whole
    assert Fails.left == 0
    assert len(set(whole[0]) - {0, 1}) > 0  # the method called others back, too


def test_a_ticket_ends_where_the_federation_cannot_go_on():
    """Who waits for it is not left waiting: nobody is there to serve it any more."""
    fed = toy_federation(RFS(), engine=FailsOnce("wipe", 1))
    fed.run(1)
    asked = fed.inbox.put(erase(1))
    with pytest.raises(RuntimeError, match="out of memory"):
        fed.resume()
    for ticket in (asked, fed.inbox.put(erase(2))):
        assert not ticket.wait()  # at once
        assert ticket.state == "waiting"
        assert "broken off in its middle" in ticket.why
