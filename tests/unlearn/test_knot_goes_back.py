"""KNOT's clusters go back to before a client was first sent a model, and nothing of it is in what follows."""

import pytest

from aggregators import FedAdam as Outside
from aggregators import Momentum
from exactness import assert_as_if_never_there, assert_no_interference, never_had
from support import small_data, toy_federation
from unknot.audit import interference
from unknot.core.errors import ConfigError
from unknot.core.requests import erase, join
from unknot.experiments import Experiment
from unknot.federation import Buffered, Clock, FedAdam, FedBuff, Pareto, Synchronous
from unknot.select import DQN, DQNSettings, KCenter
from unknot.unlearn import KNOT, RFS

SIZES = (5, 8, 3, 6, 7, 4, 9, 2, 6, 5, 7, 8)
DATA = small_data(SIZES)
ASYNC = {"pace": Buffered(6, 4, 3), "aggregate": FedBuff(), "clock": Clock(Pareto())}
SYNC = {"pace": Synchronous(3)}
PACES = pytest.mark.parametrize("pace", [ASYNC, SYNC], ids=["async", "sync"])


def knot(**options) -> KNOT:
    return KNOT(**{"clusters": 2, "by": "random", "restart": "before", **options})


def last_sent(pace, rounds=8):
    """A client that is first sent a model late, and its cluster."""
    fed = toy_federation(knot(), DATA, **pace)
    fed.run(rounds)
    first = {c: (v, lane.name) for lane in fed.lanes.values() for c, v in lane.notes["first"].items()}
    client = max(first, key=lambda c: first[c])
    version, name = first[client]
    assert version
    return client, version, name


@PACES
def test_the_cluster_goes_back_to_the_version_from_which_the_client_was_first_sent_out(pace):
    client, version, name = last_sent(pace)
    calm, fed = (toy_federation(knot(), DATA, **pace) for _ in range(2))
    calm.run(version)
    fed.run(8)
    kept = fed.archive[f"version of {name}", version]
    assert kept.equal(calm.lanes[name].model)
    assert client not in {unit.client for unit in kept.lineage}
    history = fed.run(1, requests=[erase(client, time=fed.now / 1e9)])
    assert history.served[0].restarted == (name,)
    (again,) = [r for r in history.rounds[-2:] if r.lane == name]
    assert (again.version, again.round) == (version + 1, 9)


@PACES
@pytest.mark.parametrize(
    "what", [{"late": None}, {"late": [0, 1]}, {"late": None, 0: None}, {0: None, 1: None}]
)
def test_nothing_of_the_erased_data_is_in_what_follows(pace, what):
    """Not even how much of it there was: one of the variants has no samples, and takes no time."""
    client, _, _ = last_sent(pace)
    asked = {client if who == "late" else who: ids for who, ids in what.items()}
    assert_no_interference(
        lambda data: toy_federation(knot(), data, **pace), DATA, erase(asked, round=8), rounds=4
    )


@pytest.mark.parametrize("by", ["random", "knot", "similar"])
def test_in_one_cluster_it_is_the_federation_that_never_had_the_client(by):
    """Synchronously: an asynchronous lane goes on with nobody in flight, which the other one is not."""
    one = knot(clusters=1, by=by)
    fed = toy_federation(one, DATA, **SYNC)
    fed.run(6)
    first = fed.lanes["cluster 0"].notes["first"]
    for client in (max(first, key=first.__getitem__), min(first, key=first.__getitem__)):
        assert_as_if_never_there(
            lambda data: toy_federation(one, data, **SYNC), DATA, erase(client, round=6), rounds=3
        )


@PACES
def test_one_request_after_the_other_leaves_nothing_of_either(pace):
    client, _, _ = last_sent(pace)

    def after_the_first(data):
        fed = toy_federation(knot(), data, **pace)
        fed.run(8, requests=[erase(client, round=8)])
        return fed

    assert_no_interference(after_the_first, DATA, erase(0, round=1), rounds=4)

    def after_both(data):
        fed = after_the_first(data)
        fed.run(4, requests=[erase(0, round=10)])
        return fed.model

    assert interference(after_both, DATA, erase(client, round=8).targets).none


def test_what_a_selector_knew_is_not_gone_back_to():
    """K-Center meets everybody before the first round: the course of every version knows them."""
    fed = toy_federation(knot(), DATA, select=KCenter(groups=2), **SYNC)
    fed.run(6)
    client = min(fed.lanes["cluster 0"].members)
    fed.run(1, requests=[erase(client, round=6)])
    assert fed.lanes["cluster 0"].version == 1
    assert_no_interference(
        lambda data: toy_federation(knot(), data, select=KCenter(groups=2), **SYNC),
        DATA,
        erase(client, round=6),
        rounds=3,
    )


@PACES
@pytest.mark.parametrize("when", ["always", "unlearning"])
def test_a_meeting_that_is_a_round_of_its_own_is_gone_back_behind(pace, when):
    """Everybody is sent the model that the round begins from, not the one that comes of it."""
    parts = {"select": DQN(DQNSettings(batch=2, meeting="round")), "select_when": when, **pace}
    requests = [erase(4, round=4), erase(1, round=6)]
    versions = set()

    def served(data):
        fed = toy_federation(knot(), data, **parts)
        fed.run(9, requests=requests)
        versions.add(tuple(lane.version for lane in fed.lanes.values()))
        return fed.model

    assert interference(served, DATA, [target for r in requests for target in r.targets]).none
    assert len(versions) == 1


def test_what_is_kept_is_counted_and_is_no_more_than_needed():
    plain, fed = (toy_federation(knot(restart=how), DATA, **SYNC) for how in ("initial", "before"))
    plain.run(8), fed.run(8)
    versions = {(lane.name, v) for lane in fed.lanes.values() for v in lane.notes["first"].values() if v}
    assert len(fed.archive) == len(versions)
    assert len(plain.archive) == 0
    size = fed.initial.nbytes
    assert fed.costs.bytes_stored == plain.costs.bytes_stored + size * len(versions)


def test_the_other_clusters_and_newcomers_do_not_notice():
    client, _, name = last_sent(ASYNC)
    calm, noisy = (toy_federation(knot(), DATA, **ASYNC) for _ in range(2))
    calm.run(12, requests=[join(11, round=2)])
    noisy.run(12, requests=[join(11, round=2), erase(client, round=8)] if client != 11 else [])
    for other in set(calm.lanes) - {name}:
        assert calm.lanes[other].model.equal(noisy.lanes[other].model)


def test_reassigned_clusters_begin_again_and_keep_nothing_of_before():
    method = knot(by="similar", reassign="without", clusters=3)
    fed = toy_federation(method, DATA, **SYNC)
    fed.run(6)
    fed.run(4, requests=[erase(4, round=6)])
    twins = {}
    for name, lane in fed.lanes.items():
        twin = twins.setdefault(
            lane.version, toy_federation(method, never_had(DATA, erase(4, round=1)), **SYNC)
        )
        if not twin.lanes:
            twin.run(lane.version)
        assert twin.lanes[name].members == lane.members
        assert twin.lanes[name].model.equal(lane.model)


@pytest.mark.parametrize("restart", ["initial", "before"])
def test_assigned_anew_clusters_have_the_seats_of_the_federation_that_never_had_the_client(restart):
    """One that keeps its members begins again where it has other seats."""
    method = knot(by="similar", reassign="without", clusters=3, seats="members", restart=restart)
    pace = {"pace": Synchronous(6)}
    seats = set()
    for client in (2, 3, 5):
        fed = toy_federation(method, DATA, **pace)
        fed.run(9, requests=[erase(client, round=6)])
        for name, lane in fed.lanes.items():
            twin = toy_federation(method, never_had(DATA, erase(client, round=1)), **pace)
            twin.run(lane.version)
            assert (twin.lanes[name].members, twin.lanes[name].pace) == (lane.members, lane.pace)
            assert twin.lanes[name].model.equal(lane.model)
        seats.add(tuple(lane.pace.per_round for lane in fed.lanes.values()))
    assert len(seats) > 1


@pytest.mark.parametrize("aggregate", [FedAdam(), Momentum(), Outside()], ids=lambda a: type(a).__module__)
def test_an_aggregator_with_a_state_goes_back_with_the_model(aggregate):
    one, parts = knot(clusters=1), {"aggregate": aggregate, **SYNC}
    fed = toy_federation(one, DATA, **parts)
    fed.run(6)
    first = fed.lanes["cluster 0"].notes["first"]
    client = max(first, key=first.__getitem__)
    assert first[client] > 1
    assert_as_if_never_there(
        lambda data: toy_federation(one, data, **parts), DATA, erase(client, round=6), rounds=3
    )


def test_it_is_read_from_a_file_and_goes_with_nothing_that_forgets_its_own_way():
    table = {"method": {"name": "knot", "restart": "before"}}
    assert Experiment.of(table).method == KNOT(restart="before")
    assert KNOT(by="random", restart="before").promise == "exact"
    with pytest.raises(ConfigError, match="Did you mean 'before'"):
        KNOT(restart="befor")
    with pytest.raises(ConfigError, match="leave retrain out"):
        KNOT(restart="before", retrain=RFS())
