"""KNOT: clusters are isolated, and what is retrained is as if the client had never been there."""

import pytest

from support import ToyEngine, grid, small_data, toy_federation
from unknot.audit import interference
from unknot.core.data import Samples
from unknot.core.errors import ConfigError, ErasedDataError
from unknot.core.requests import erase, join
from unknot.experiments import Experiment
from unknot.federation import Buffered, Clock, FedBuff, Pareto, Synchronous
from unknot.unlearn import BMT, FATS, KNOT, MMT, RFS, SISA, ExactFun, FedCIO, FedEraser, Rapid, Standalone

SIZES = (5, 8, 3, 6, 7, 4, 9, 2, 6, 5, 7, 8)
DATA = small_data(SIZES)
ASYNC = {"pace": Buffered(9, 6, 3), "aggregate": FedBuff(), "clock": Clock(Pareto())}
SYNC = {"pace": Synchronous()}
RETRAIN = {
    "scratch": None,
    "rfs": RFS(),
    "rapid": Rapid(),
    "bmt": BMT(),
    "mmt": MMT(),
    "federaser": FedEraser(interval=1),
}
EXACT = [name for name in RETRAIN if name != "federaser"]


def knot(**options) -> KNOT:
    return KNOT(**{"clusters": 3, **options})


def rounds_of(history, lane):
    return [(r.round, r.version, r.time, r.clients) for r in history.rounds if r.lane == lane]


@pytest.mark.parametrize(
    ("retrain", "by", "pace"), grid(RETRAIN, ["knot", "random", "similar"], [ASYNC, SYNC])
)
def test_other_clusters_do_not_notice_a_request(retrain, by, pace):
    """Weights, versions and times of every other cluster are those of a run without the request."""
    method = knot(by=by, retrain=RETRAIN[retrain])
    quiet, disturbed = (toy_federation(method, DATA, **pace) for _ in range(2))
    calm = quiet.run(8)
    gone = calm.rounds[0].clients[0]
    at = (calm.rounds[0].time + calm.rounds[1].time) / 2
    noisy = disturbed.run(8, requests=[erase(gone, time=at)])
    (hit,) = [lane.name for lane in quiet.lanes.values() if gone in lane.members]
    assert set(noisy.served[0].restarted)
    for name, lane in quiet.lanes.items():
        other = disturbed.lanes[name]
        if name != hit:
            assert rounds_of(calm, name) == rounds_of(noisy, name)
            for node in lane.nodes:
                assert lane.nodes[node].weights.equal(other.nodes[node].weights)
        else:
            assert gone not in other.members
            assert gone not in {u.client for n in other.nodes.values() for u in n.weights.lineage}


@pytest.mark.parametrize("pace", [ASYNC, SYNC], ids=["async", "sync"])
@pytest.mark.parametrize("moment", [{"round": 4}, {"time": 0.2}], ids=["round", "time"])
def test_the_retrained_cluster_is_one_that_never_held_the_client(pace, moment):
    """Same clustering, same clock: a cluster of the others, trained for as long, on its own."""
    fed = toy_federation(knot(by="random"), DATA, **pace)
    fed.run(8, requests=[erase(4, **moment)])
    rest = DATA.fork()
    rest.erase(4)
    for name, lane in fed.lanes.items():
        alone = rest.replaced(shards={c: rest[c] for c in lane.members})
        twin = toy_federation(RFS(), alone, **{**pace, "pace": pace["pace"].share(3)})
        twin.state.members = set(alone.clients)
        twin.method.open(twin.desk)
        # Draws are keyed by the lane's name: give the twin's only lane that name.
        only = twin.lanes.pop("global")
        only.name = name
        twin.lanes[name] = only
        if lane.version:
            twin.work.history = toy_federation(RFS(), alone).run(1)
            twin.work.method = Quiet(name)
            twin.run(lane.version)
            assert lane.nodes["global"].weights.equal(only.nodes["global"].weights)


class Quiet(RFS):
    """Retraining from scratch whose lane has another name."""

    def __init__(self, lane: str) -> None:
        object.__setattr__(self, "lane", lane)

    def serve(self, fed):
        return fed.lanes[self.lane].nodes["global"].weights


@pytest.mark.parametrize("retrain", EXACT)
@pytest.mark.parametrize(
    "request_", [erase(4, time=0.2), erase([1, 4, 7], time=0.15), erase({6: [0, 3]}, time=0.2)]
)
def test_what_is_served_does_not_depend_on_the_erased_data(retrain, request_):
    method = knot(by="random", retrain=RETRAIN[retrain])

    def served(data):
        fed = toy_federation(
            method, data, pace=Synchronous(3), clock=Clock(seconds_per_sample=1e-9, latency=0.03)
        )
        fed.run(9, requests=[request_])
        return fed.model

    assert interference(served, DATA, request_.targets).none


@pytest.mark.parametrize("by", ["knot", "similar", "shares"])
@pytest.mark.parametrize("what", [{4: None}, {0: None, 9: None}, {6: [0, 3]}])
def test_reassigned_without_the_client_it_is_the_federation_that_never_had_it(by, what):
    """Every cluster, at the version that it has reached; clusters that changed have begun again."""
    shares = ((0.1, 0.4, 0.5), (0.8, 0.1, 0.1)) if by == "shares" else ()
    method = knot(by=by, reassign="without", shares=shares)
    fed = toy_federation(method, DATA)
    fed.run(8, requests=[erase(what, round=4)])
    rest = DATA.fork()
    for client, ids in what.items():
        rest.erase(client, ids)
    for name, lane in fed.lanes.items():
        twin = toy_federation(method, rest)
        twin.run(max(lane.version, 1))
        assert twin.lanes[name].members == lane.members
        if lane.version:
            assert twin.lanes[name].nodes["global"].weights.equal(lane.nodes["global"].weights)


def test_the_promise_names_what_the_clustering_learned():
    assert "clustering learned" in knot().promise
    assert knot(by="random").promise == "exact"
    assert knot(reassign="without").promise == "exact, but for which clusters had to begin again"
    history = toy_federation(knot(), DATA).run(1)
    assert "clustering learned" in history.guarantee


class Tripwire(Samples):
    """Raises when one of the guarded rows is read."""

    guarded: frozenset[int] = frozenset()

    def take(self, rows):
        if self.guarded & set(rows.tolist()):
            raise ErasedDataError("an erased sample was read")
        return super().take(rows)


@pytest.mark.parametrize("retrain", RETRAIN)
def test_erased_samples_are_never_read_again(retrain):
    train = Tripwire(DATA.train.x, DATA.train.y, DATA.train.classes)
    data = DATA.replaced(train=train)
    fed = toy_federation(knot(retrain=RETRAIN[retrain]), data, **ASYNC)
    fed.run(5)
    guarded = {*data[4].rows.tolist(), *data[6].rows[:2].tolist()}
    object.__setattr__(train, "guarded", frozenset(guarded))
    with pytest.raises(ErasedDataError):  # the wire is there
        fed.run(3)
    object.__setattr__(train, "guarded", frozenset())
    fed = toy_federation(knot(retrain=RETRAIN[retrain]), data, **ASYNC)
    fed.run(5)
    object.__setattr__(train, "guarded", frozenset(guarded))
    fed.run(6, requests=[erase({4: None, 6: [0, 1]}, time=fed.now / 1e9)])
    object.__setattr__(train, "guarded", frozenset())


def test_a_cluster_that_loses_its_last_client_is_left_out():
    fed = toy_federation(knot(by="random"), DATA)
    fed.run(3)
    name, lane = next(iter(fed.lanes.items()))
    gone = sorted(lane.members)
    history = fed.run(3, requests=[erase(gone, round=3)])
    assert history.stopped == "rounds"
    assert {unit.client for unit in fed.model.lineage} == set(DATA.clients) - set(gone)
    assert fed.lanes[name].nodes["global"].weights.equal(fed.initial)
    assert fed.run(2).stopped == "rounds"


def test_newcomers_go_where_the_fewest_are_and_stay_out_of_the_profiling():
    fed = toy_federation(knot(), DATA)
    fed.run(6, requests=[join(11, round=2), erase(11, round=4)])
    assert ("profile", 11) not in fed.archive
    assert all(11 not in lane.members for lane in fed.lanes.values())


def test_profiling_is_one_round_and_is_counted():
    engine = ToyEngine()
    fed = toy_federation(knot(), DATA, engine, clock=Clock(Pareto()))
    fed.run(1)
    assert sorted(job.client for job in engine.calls[0]) == list(range(12))
    assert {job.node for job in engine.calls[0]} == {"profile"}
    assert fed.costs.jobs == 24
    slowness = fed.state.key.child("slowness")
    assert fed.now > max(fed.state.clock.duration(c, SIZES[c], slowness) for c in range(12))


def test_what_is_served_is_a_choice():
    feds = {
        served: toy_federation(knot(by="random", served=served), DATA)
        for served in ("mean", "best", "ensemble")
    }
    for fed in feds.values():
        fed.run(4)
    models = [lane.nodes["global"].weights for lane in feds["mean"].lanes.values()]
    assert any(feds["best"].model.equal(weights) for weights in models)
    assert [w.digest() for _, w in feds["ensemble"].model.parts] == [w.digest() for w in models]
    held = [sum(len(DATA[c]) for c in lane.members) for lane in feds["mean"].lanes.values()]
    mean = sum(w.vector.double() * n for n, w in zip(held, models, strict=True)) / sum(held)
    assert (feds["mean"].model.vector.double() - mean).abs().max() < 1e-6


def test_a_client_may_be_in_several_clusters():
    fed = toy_federation(knot(c1=2, c2=6, c3=12), DATA)
    fed.run(4)
    homes = {c: [lane.name for lane in fed.lanes.values() if c in lane.members] for c in range(12)}
    assert max(map(len, homes.values())) == 2
    assert all(len(lane.members) >= 6 for lane in fed.lanes.values())
    client = next(c for c, home in homes.items() if len(home) == 2)
    history = fed.run(2, requests=[erase(client, round=4)])
    assert set(history.served[0].restarted) == set(homes[client])


def test_knot_is_read_from_a_file_with_its_inner_method():
    table = {"method": {"name": "knot", "clusters": 4, "retrain": {"name": "mmt", "tree": "balanced"}}}
    assert Experiment.of(table).method == KNOT(clusters=4, retrain=MMT(tree="balanced"))
    assert Experiment.of({"method": {"name": "knot", "retrain": "bmt"}}).method == KNOT(retrain=BMT())
    for wrong in ({"by": "size"}, {"served": "worst"}, {"reassign": "never"}, {"clusters": 0}):
        with pytest.raises(ConfigError):
            Experiment.of({"method": {"name": "knot", **wrong}})


@pytest.mark.parametrize(
    "method", [KNOT(clusters=99), KNOT(clusters=10**6, by="random"), FedCIO(clusters=99)]
)
def test_more_clusters_than_clients_are_refused(method):
    with pytest.raises(ConfigError, match=rf"method.clusters is {method.clusters}, .* clients are 6"):
        toy_federation(method).run(1)


@pytest.mark.parametrize("by", ["knot", "random", "similar"])
def test_clusters_that_nobody_asked_for_are_no_more_than_clients(by):
    few = small_data((5, 8, 3, 6))
    left_out, asked = (toy_federation(KNOT(n, by=by), few).run(3) for n in (None, 4))
    assert left_out.model.equal(asked.model)
    left_out, asked = (toy_federation(KNOT(n, by=by), DATA).run(3) for n in (None, 5))
    assert left_out.model.equal(asked.model)


def test_fedcio_has_no_more_clusters_than_clients_unless_asked():
    pair = small_data((5, 8))
    assert toy_federation(FedCIO(), pair).run(3).model.equal(toy_federation(FedCIO(2), pair).run(3).model)
    assert toy_federation(FedCIO(), DATA).run(3).model.equal(toy_federation(FedCIO(3), DATA).run(3).model)


def test_how_many_clusters_there_are_does_not_depend_on_who_left():
    few = small_data((5, 8, 3, 6))
    fed = toy_federation(KNOT(), few)
    fed.run(3, requests=[erase(1, round=1)])
    assert len(fed.lanes) == 4
    again = toy_federation(KNOT(), fed.state.data)
    again.run(1)
    assert len(again.lanes) == 4


@pytest.mark.parametrize("method", [KNOT(clusters=6), KNOT(clusters=6, by="random"), FedCIO(clusters=6)])
def test_clients_that_left_or_are_still_to_join_count_for_how_many_clusters_there_may_be(method):
    fed = toy_federation(method)
    fed.run(2, requests=[join(5, round=1), erase(1, round=1)])
    toy_federation(method, fed.state.data).run(1)


@pytest.mark.parametrize("inner", [SISA(), FATS(), ExactFun(), Standalone(), FedCIO(), KNOT()])
def test_a_method_that_lays_out_a_whole_federation_is_refused_in_a_cluster(inner):
    with pytest.raises(ConfigError, match=f"retrain = '{inner.name}'.* rfs, rapid, bmt, mmt or federaser"):
        KNOT(retrain=inner)
