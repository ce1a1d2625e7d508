"""With several lanes: a run in parts is the run in one, and nobody's data shifts a round."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support import grid, small_data, toy_federation, watch
from unknot.audit import interference
from unknot.core.requests import erase, join
from unknot.federation import Buffered, Clock, FedBuff, Pareto, Synchronous, Uniform
from unknot.select import KCenter
from unknot.unlearn import BMT, KNOT, MMT, RFS, SISA, FedCIO, FedEraser

SIZES = (9, 3, 14, 6, 2, 11, 5, 8)
DATA = small_data(SIZES)
SLOW = Clock(Uniform(1.0, 4.0), seconds_per_sample=0.01)
PACES = {
    "sync": {"pace": Synchronous(), "clock": SLOW},
    "some": {"pace": Synchronous(per_round=4), "clock": SLOW},
    "async": {"pace": Buffered(6, 3, staleness_bound=3), "aggregate": FedBuff(), "clock": SLOW},
    "first": {"pace": Buffered(6, 2), "aggregate": FedBuff(), "clock": Clock(Pareto())},
}
SEVERAL = {
    "fedcio": FedCIO(clusters=3),
    "knot": KNOT(clusters=3, by="random"),
    "knot, mmt": KNOT(clusters=2, by="random", retrain=MMT()),
    "knot, profiled": KNOT(clusters=2),
    "knot, federaser": KNOT(clusters=2, by="random", retrain=FedEraser()),
}
ONE = {"rfs": RFS(), "bmt": BMT(), "sisa": SISA()}


def figures(history):
    """What a run gave, whatever it was cut into; real time aside."""
    by_time = sorted(history.rounds, key=lambda r: (r.lane, r.round))
    plain = [replace(r, costs=None, scores={}, own={}) for r in by_time]
    return plain, history.costs.client_epochs, history.time


@pytest.mark.parametrize(("name", "pace"), grid({**SEVERAL, **ONE}, PACES))
def test_a_run_in_parts_is_the_run_in_one(name, pace):
    method = {**SEVERAL, **ONE}[name]
    whole = toy_federation(method, DATA, **PACES[pace])
    one = whole.run(8)
    for cut in ([3, 5], [1, 1, 4, 2]):
        parts = toy_federation(method, DATA, **PACES[pace])
        for rounds in cut:
            last = parts.run(rounds)
        assert parts.model.equal(whole.model), cut
        assert figures(last) == figures(one), cut


@pytest.mark.parametrize(("name", "pace"), grid({**SEVERAL, **ONE}, reversed(PACES)))
def test_a_run_in_parts_with_requests_is_the_run_in_one(name, pace):
    method = {**SEVERAL, **ONE}[name]
    requests = [erase([1, 2], round=2), join(7, round=4), erase({5: [0, 3]}, round=6)]
    whole = toy_federation(method, DATA, **PACES[pace])
    one = whole.run(9, requests=requests)
    parts = toy_federation(method, DATA, **PACES[pace])
    parts.run(3, requests=requests)
    parts.run(2)
    last = parts.run(4)
    assert parts.model.equal(whole.model)
    assert figures(last) == figures(one)
    assert [(s.request, s.time, s.round) for s in last.served] == [
        (s.request, s.time, s.round) for s in one.served
    ]


def test_a_run_of_so_many_seconds_may_be_cut_as_well():
    whole = toy_federation(KNOT(3, by="random"), DATA, **PACES["async"])
    whole.run(seconds=2.0)
    parts = toy_federation(KNOT(3, by="random"), DATA, **PACES["async"])
    for seconds in (0.5, 1.0, 0.5):
        parts.run(seconds=seconds)
    assert parts.model.equal(whole.model)


# Nobody's data shifts a round ----------------------------------------------------------------------

SHIFTING = {
    "two leavers in two clusters": [erase([0, 1, 2, 3], round=3)],
    "one after the other": [erase(2, round=2), erase([0, 3], round=4)],
    "a later join": [erase(2, round=2), join(7, round=4)],
    "a join, then a leave": [join(7, round=2), erase([0, 2], round=5)],
    "samples": [erase({0: [1, 2], 2: None}, round=3)],
}
SCHEDULED = {**SEVERAL, **ONE}
del SCHEDULED["knot, federaser"], SCHEDULED["knot, profiled"]  # neither promises it


def gaps(method, requests, **pace):
    def served(data):
        fed = toy_federation(method, data, **pace)
        fed.run(9, requests=requests)
        return fed.model

    targets = [t for r in requests if hasattr(r, "targets") for t in r.targets]
    return interference(served, DATA, targets)


# Of every method every other of these, of the next method the others.
SYNCHRONOUS = [
    pytest.param(name, asked, pace, marks=[] if pace == "some" and (i + j) % 2 == 0 else [pytest.mark.slow])
    for i, name in enumerate(SCHEDULED)
    for j, asked in enumerate(SHIFTING)
    for pace in ("some", "sync")
]


@pytest.mark.parametrize(("name", "asked", "pace"), SYNCHRONOUS)
def test_at_a_synchronous_pace_the_moment_of_a_request_is_nobodys(name, asked, pace):
    """Also with a clock that goes by how much a client reads: a leaver without samples is a fast one."""
    report = gaps(SCHEDULED[name], SHIFTING[asked], **PACES[pace])
    assert report.none, report.gaps


@pytest.mark.parametrize(("name", "asked"), grid(["rfs", "fedcio", "knot"], SHIFTING))
def test_at_a_buffered_pace_too_where_models_begin_again(name, asked):
    requests = SHIFTING[asked]
    if any(t.samples for r in requests if hasattr(r, "targets") for t in r.targets):
        return  # who loses samples takes part again, and faster: in every variant alike
    report = gaps(SCHEDULED[name], requests, **PACES["async"])
    assert report.none, report.gaps


@settings(deadline=None, max_examples=15)
@given(data=st.data())
def test_lanes_wait_for_a_request_that_concerns_several(data):
    """Whoever is named, in however many lanes: each of those has had exactly so many rounds by then."""
    clients = data.draw(st.sets(st.integers(0, 7), min_size=1, max_size=4))
    at = data.draw(st.integers(0, 6))
    pace = PACES[data.draw(st.sampled_from(sorted(PACES)))]
    fed = toy_federation(FedCIO(clusters=3), DATA, **pace)
    held = {}

    def note(event):
        if hasattr(event, "request"):
            held.update({name: lane.rounds for name, lane in fed.lanes.items()})

    watch(fed, note)
    fed.run(8, requests=[erase(sorted(clients), round=at)])
    concerned = [name for name, lane in fed.lanes.items() if clients & set(DEALT[name])]
    assert concerned
    assert all(held[name] == at for name in concerned)
    assert all(lane.rounds == 8 for lane in fed.lanes.values() if lane.members)


def _dealt():
    fed = toy_federation(FedCIO(clusters=3), DATA)
    fed.run(1)
    return {name: set(lane.members) for name, lane in fed.lanes.items()}


DEALT = _dealt()


@pytest.mark.parametrize(("pace", "order"), grid(PACES, [0, 1]))
def test_requests_of_one_round_are_served_in_the_order_in_which_they_were_asked(pace, order):
    """Whichever lane gets there first: a join concerns all of them, and goes where the fewest are then."""
    for client in (0, 2, 5):
        requests = [join(7, round=3), erase(client, round=3)][:: 1 - 2 * order]
        fed = toy_federation(FedCIO(clusters=3), DATA, **PACES[pace])
        history = fed.run(6, requests=requests)
        assert [s.request for s in history.served] == [str(r) for r in requests]
        report = gaps(FedCIO(clusters=3), requests, **PACES[pace])
        assert report.none, (client, report.gaps)


def test_a_lane_that_a_request_does_not_concern_does_not_wait():
    lane = next(name for name, members in DEALT.items() if 1 not in members)
    plain = toy_federation(FedCIO(clusters=3), DATA, **PACES["async"]).run(8)
    asked = toy_federation(FedCIO(clusters=3), DATA, **PACES["async"]).run(8, requests=[erase(1, round=3)])
    of = [[(r.round, r.time, r.clients) for r in h.rounds if r.lane == lane] for h in (plain, asked)]
    assert of[0] == of[1]


def test_no_lane_waits_for_a_request_that_cannot_come_in_this_run():
    """The slower lanes end at round 5 or so: nobody stands still for a request at round 50."""
    fed = toy_federation(FedCIO(clusters=3), DATA, **PACES["async"])
    fed.run(5, requests=[erase([0, 1, 2, 3], round=50)])
    assert {lane.rounds for lane in fed.lanes.values()} == {5}


def test_a_selector_that_meets_everybody_is_cut_into_parts_as_well():
    for method in (RFS(), KNOT(2, by="random")):
        whole = toy_federation(method, DATA, select=KCenter(2), **PACES["async"])
        whole.run(7)
        parts = toy_federation(method, DATA, select=KCenter(2), **PACES["async"])
        parts.run(3)
        parts.run(4)
        assert parts.model.equal(whole.model)
