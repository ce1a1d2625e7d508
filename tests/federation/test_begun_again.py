"""A lane that begins again is as if it had never run: it owes nothing to what came before."""

import pytest

from support import small_data, toy_federation
from unknot.core.requests import erase
from unknot.federation import Clock, Synchronous, Trace
from unknot.unlearn import KNOT, RFS, FedCIO, Rapid

DATA = small_data([5, 8, 3, 6, 7, 4, 5, 6, 5, 4])
TWO = {"pace": Synchronous(2)}
RESTARTING = {"rfs": RFS(), "rapid": Rapid(), "fedcio": FedCIO(1), "knot": KNOT(1, by="random")}


def asked(rounds):
    return {client for record in rounds for client in record.clients}


@pytest.mark.parametrize("name", RESTARTING)
def test_who_was_asked_before_a_restart_alone_leaves_at_no_cost(name):
    """Two of ten are asked a round: somebody was asked before the lane began again, and not since."""
    fed = toy_federation(RESTARTING[name], DATA, **TWO)
    before = asked(fed.run(4).rounds)
    (lane,) = fed.lanes.values()
    first = min(before)
    since = asked(fed.run(1, requests=[erase(first, round=4)]).rounds[4:])
    assert lane.version == 1
    idle = min(before - since - {first})
    (_, served) = fed.run(1, requests=[erase(idle, round=5)]).served
    assert served.clients == (idle,)
    assert served.restarted == ()
    assert lane.version == 2


def test_no_lane_begins_again_before_the_request_came():
    """Cluster 0 is done with its second round at 2 s, and waits for cluster 1, which is at 8 s."""
    clock = Clock(Trace((1.0, 1.0, 4.0, 4.0)), seconds_per_sample=0.2)
    method = FedCIO(assignment=((0, 1), (2, 3)))
    fed = toy_federation(method, small_data([5] * 4), clock=clock)
    history = fed.run(4, requests=[erase([0, 2], round=2)])
    (served,) = history.served
    assert served.time == 8.0
    again = [r for r in history.rounds if r.round > 2]
    assert {(r.lane, r.round, r.time) for r in again} == {
        ("cluster 0", 3, 9.0),
        ("cluster 0", 4, 10.0),
        ("cluster 1", 3, 12.0),
        ("cluster 1", 4, 16.0),
    }
