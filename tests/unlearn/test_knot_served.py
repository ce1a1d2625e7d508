"""KNOT: what is served of the clusters, when a run ends, and what of it is measured."""

import numpy as np
import pytest
import torch

from support import ToyEngine, serve_now, small_data, toy_federation, watch
from unknot.audit import interference
from unknot.core.errors import ConfigError
from unknot.core.jobs import Job
from unknot.core.requests import erase, join
from unknot.core.training import Recipe
from unknot.experiments import Experiment
from unknot.federation import Buffered, Clock, FedBuff, Pareto, Synchronous
from unknot.federation.clustered import best_cluster
from unknot.unlearn import KNOT, MMT, FedEraser

SIZES = (5, 8, 3, 6, 7, 4, 9, 2, 6, 5, 7, 8)
DATA = small_data(SIZES)
ASYNC = {"pace": Buffered(9, 6, 3), "aggregate": FedBuff(), "clock": Clock(Pareto())}


def knot(**options) -> KNOT:
    return KNOT(**{"clusters": 3, "by": "random", **options})


def test_joint_rounds_are_federated_averaging_from_the_mean():
    """Two rounds of all clients, by hand: mean of the clusters, then n-weighted means of what all trained."""
    fed, apart = (toy_federation(knot(served=served, joint_rounds=2), DATA) for served in ("joint", "mean"))
    history = fed.run(4)
    apart.run(4)
    weights, engine = apart.model, ToyEngine()
    for version in range(2):
        jobs = []
        for client in range(12):
            key = fed.state.key.child("train", "joint", version, client)
            jobs.append(Job(apart.ledger.unit(client), weights, key, fed.state.recipe))
        updates = engine.train(jobs, DATA)
        total = sum(SIZES)
        vector = sum(u.weights.vector.double() * SIZES[u.client] / total for u in updates)
        weights = weights.like(vector.float())
    assert (fed.model.vector - weights.vector).abs().max() < 1e-6
    assert [r.round for r in history.rounds if r.lane == "joint"] == [1, 2]


@pytest.mark.parametrize("retrain", [None, MMT(), FedEraser(interval=1)], ids=["scratch", "mmt", "federaser"])
def test_joining_leaves_the_clusters_as_they_are(retrain):
    joint, mean = (toy_federation(knot(served=s, retrain=retrain), DATA, **ASYNC) for s in ("joint", "mean"))
    for fed in (joint, mean):
        fed.run(5)
    assert set(joint.lanes) == set(mean.lanes)
    for name, lane in mean.lanes.items():
        assert lane.version == joint.lanes[name].version
        assert all(lane.nodes[n].weights.equal(joint.lanes[name].nodes[n].weights) for n in lane.nodes)
    assert not joint.model.equal(mean.model)


def test_a_joint_model_joins_lineages_and_goes_with_any_of_them():
    """It carries everybody, says so in the guarantee, and a request undoes it; the next end makes it anew."""
    fed = toy_federation(knot(served="joint"), DATA)
    history = fed.run(4)
    assert {unit.client for unit in history.model.lineage} == set(range(12))
    assert "joint rounds join the clusters' lineages" in history.guarantee
    joined = fed.model
    serve_now(fed, erase(4, round=4))
    assert not any(w.equal(joined) for w in (fed.model, *(fed.archive[name] for name in fed.archive)))
    assert 4 not in {unit.client for unit in fed.model.lineage}
    again = fed.run(2)
    assert {unit.client for unit in again.model.lineage} == set(range(12)) - {4}


@pytest.mark.parametrize("request_", [erase(4, round=3), erase({6: [0, 3]}, round=3)])
def test_a_joint_model_does_not_depend_on_the_erased_data(request_):
    def served(data):
        fed = toy_federation(knot(served="joint"), data, pace=Synchronous(6))
        fed.run(6, requests=[request_])
        return fed.model

    assert interference(served, DATA, request_.targets).none


def test_a_joint_model_is_served_only_until_the_clusters_go_on():
    fed = toy_federation(knot(served="joint"), DATA)
    fed.run(3)
    joined = fed.model
    seen = []
    watch(fed, lambda event: seen.append(fed.model))
    fed.run(1)
    assert not seen[0].equal(joined)


def test_of_joint_models_the_last_one_alone_is_kept():
    fed = toy_federation(knot(served="joint"), DATA)
    for _ in range(3):
        history = fed.run(2)
    (name,) = fed.archive
    assert fed.archive[name].equal(history.model)
    assert fed.archive.nbytes == history.model.nbytes


def test_the_best_cluster_was_chosen_by_those_whose_rows_it_was_measured_on():
    """Client 40 is in no cluster yet: of its data nothing but validation rows has had a part."""
    shards = {**{client: DATA[client] for client in range(11)}, 40: DATA[11]}
    owner = np.asarray([40] * 3 + [-1] * 9)
    data = DATA.replaced(shards=shards, validation_owner=owner)
    fed = toy_federation(knot(served="best"), data)
    fed.run(2, requests=[join(40, round=9)])
    assert 40 in fed.model.lineage.clients
    with fed.ledger.reading() as read:
        best = best_cluster(fed.desk)
    assert 40 in best.lineage.clients
    assert 40 not in read().clients


def test_choices_are_reported_side_by_side():
    fed = toy_federation(knot(served="joint"), DATA)
    history = fed.run(4)
    assert set(history.choices) == {"mean", "best", "ensemble", "joint"}
    models = fed.method.choices(fed.desk)
    for name, scores in history.choices.items():
        assert scores["test"] == fed.engine.evaluate(models[name], DATA.test)
    assert history.choices["joint"] == history.scores
    assert set(toy_federation(knot(), DATA).run(2).choices) == {"mean", "best", "ensemble"}
    assert toy_federation(knot(), DATA.replaced(validation=None)).run(2).choices.keys() == {
        "mean",
        "ensemble",
    }


class Counting(ToyEngine):
    def __init__(self) -> None:
        super().__init__()
        self.looked: list[tuple[str, int]] = []

    def evaluate(self, model, samples):
        self.looked.append((model.digest(), id(samples)))
        return super().evaluate(model, samples)


def test_no_model_is_measured_twice():
    """Serving the best asks for every cluster's score at every look at the model: it is known by then."""
    fed = toy_federation(knot(served="best"), DATA, Counting(), **ASYNC)
    fed.run(6)
    looked = fed.engine.looked
    assert len(looked) == len(set(looked))


def test_each_cluster_is_measured_on_its_own():
    fed = toy_federation(knot(), DATA, **ASYNC)
    history = fed.run(4)
    for name, lane in fed.lanes.items():
        last = [r for r in history.rounds if r.lane == name][-1]
        expected = fed.engine.evaluate(lane.nodes["global"].weights, DATA.validation)
        assert last.own == {"validation": expected}
        assert last.own != last.scores


def test_a_run_ends_when_the_best_cluster_is_good_and_steady():
    """As the paper has it; what is served, the mean of the clusters, is below the target then."""
    quiet = toy_federation(knot(), DATA, **ASYNC).run(30)
    bests, latest = [], {}
    for record in quiet.rounds:
        latest[record.lane] = record.own["validation"].accuracy
        bests.append(max(latest.values()))
    served = [r.scores["validation"].accuracy for r in quiet.rounds]
    target = max(served) + 1e-4
    at = next(i for i, best in enumerate(bests) if best >= target)
    fed = toy_federation(knot(), DATA, **ASYNC)
    history = fed.run(30, accuracy=target, judge="best")
    assert history.stopped == "accuracy"
    # Several clusters may land at the same moment: the run ends after all of them.
    assert at < len(history.rounds) <= at + 3
    assert toy_federation(knot(), DATA, **ASYNC).run(30, accuracy=target).stopped == "rounds"
    window = toy_federation(knot(), DATA, **ASYNC).run(
        30, accuracy=target, judge="best", window=len(bests) + 1
    )
    assert window.stopped == "rounds"
    with pytest.raises(ConfigError, match="judge"):
        fed.run(1, accuracy=0.5, judge="worst")


def test_profiles_take_an_epoch_and_the_time_of_an_epoch():
    clock = Clock(Pareto())
    fed = toy_federation(knot(by="knot"), DATA, recipe=Recipe(epochs=5), clock=clock)
    history = fed.run(1)
    slowness = fed.state.key.child("slowness")
    expected = {c: clock.duration(c, SIZES[c], slowness) / 1e9 for c in range(12)}
    assert {trip.client: trip.ended for trip in history.apart} == pytest.approx(expected)
    assert {job.recipe.epochs for job in fed.engine.calls[0]} == {1}
    longer = toy_federation(knot(by="knot", profile_epochs=5), DATA, recipe=Recipe(epochs=5), clock=clock)
    assert max(trip.ended for trip in longer.run(1).apart) > 4 * max(expected.values())


def test_profiling_is_part_of_a_run_of_so_many_seconds():
    fed = toy_federation(knot(by="knot"), DATA, **ASYNC)
    history = fed.run(seconds=2.0)
    assert history.apart
    assert fed.now == 2_000_000_000
    assert all(record.time <= 2.0 for record in history.rounds)


def test_profiles_are_kept_only_where_clients_may_be_assigned_anew():
    for reassign, kept in (("keep", 0), ("without", 12)):
        fed = toy_federation(knot(by="knot", reassign=reassign), DATA)
        fed.run(2)
        assert len(fed.archive) == kept


def test_trips_say_who_was_away_when_and_what_a_request_cut_short():
    fed = toy_federation(knot(), DATA, **ASYNC)
    history = fed.run(6, requests=[erase(4, time=0.05)])
    for record in history.rounds:
        assert tuple(sorted(trip.client for trip in record.trips)) == record.clients
        assert all(trip.launched < trip.ended <= record.time for trip in record.trips)
        assert {trip.lane for trip in record.trips} == {record.lane}
    (served,) = history.served
    assert tuple(sorted(trip.client for trip in served.trips)) == served.cancelled
    assert served.cancelled
    assert {trip.ended for trip in served.trips} == {served.time}
    assert {trip.lane for trip in served.trips} == set(served.restarted)


def test_the_mean_of_clusters_trained_apart_is_their_data_weighted_mean_in_the_choices_too():
    fed = toy_federation(knot(served="best"), DATA)
    fed.run(3)
    lanes = list(fed.lanes.values())
    held = torch.tensor([float(sum(SIZES[c] for c in lane.members)) for lane in lanes])
    stack = torch.stack([lane.nodes["global"].weights.vector for lane in lanes])
    mean = (stack * (held / held.sum())[:, None]).sum(0)
    assert (fed.method.choices(fed.desk)["mean"].vector - mean).abs().max() < 1e-6


SHARES = ((0.1, 0.4, 0.5), (0.8, 0.1, 0.1))


def test_clusters_by_the_shares_of_a_game():
    """Six clients with the least data, six with the most: 1, 2, 3 and 5, 1, 0, the largest remainders."""
    fed = toy_federation(KNOT(by="shares", shares=SHARES), DATA)
    assert fed.run(2).apart == []  # nobody is profiled
    small = set(sorted(range(12), key=lambda client: (SIZES[client], client))[:6])
    found = [(len(lane.members & small), len(lane.members - small)) for lane in fed.lanes.values()]
    assert found == [(1, 5), (2, 1), (3, 0)]
    made = Experiment.of({"method": {"name": "knot", "by": "shares", "shares": [[0.5, 0.5]]}}).method
    assert made == KNOT(by="shares", shares=((0.5, 0.5),))
    for wrong in ({"by": "shares"}, {"shares": ((1.0,),)}):
        with pytest.raises(ConfigError, match="shares"):
            KNOT(**wrong)
