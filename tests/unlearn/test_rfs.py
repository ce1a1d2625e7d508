"""Retraining from scratch and rapid retraining are exact: at either pace, for clients and samples."""

import math

import pytest

import unknot
from exactness import assert_as_if_never_there, assert_no_interference, forget_and_go_on
from support import ToyEngine, grid, small_data, toy_federation, with_vector
from unknot.core.data import Samples
from unknot.core.errors import ForbiddenLineageError
from unknot.core.requests import erase
from unknot.core.training import SGD, Recipe
from unknot.federation import Buffered, Clock, FedAvg, FedBuff, Guarantee, Method, Pareto, Synchronous
from unknot.unlearn import RFS, Rapid, Standalone

PACES = {
    "sync, all": {"pace": Synchronous()},
    "sync, some": {"pace": Synchronous(per_round=4)},
    "async, FedBuff": {"pace": Buffered(5, 2, 3), "aggregate": FedBuff(), "clock": Clock(Pareto())},
    "async, FedAvg": {"pace": Buffered(4, 1), "aggregate": FedAvg(), "clock": Clock(Pareto())},
}
ERASED = {
    "a client": {3: None},
    "two clients": {0: None, 4: None},
    "samples": {1: [0, 2, 7]},
    "a client and samples": {1: [3], 5: None},
    "all but one": dict.fromkeys(range(7)),
}
MOMENTS = {"at a round": {"round": 6}, "at a time": {"time": 0.11}, "at the start": {"round": 0}}
DATA = small_data((5, 8, 3, 6, 7, 4, 9, 2))
METHODS = {"rfs": RFS(), "rapid": Rapid(SGD(0.5))}


@pytest.mark.parametrize(("pace", "what", "moment", "method"), grid(PACES, ERASED, MOMENTS, METHODS))
def test_what_is_served_does_not_depend_on_the_erased_data(pace, what, moment, method):
    request = erase(ERASED[what], **MOMENTS[moment])
    assert_no_interference(
        lambda data: toy_federation(METHODS[method], data, **PACES[pace]), DATA, request, rounds=5
    )


@pytest.mark.parametrize(("pace", "what", "moment"), grid(PACES, ERASED, MOMENTS))
def test_rfs_is_as_if_the_client_had_never_been_there(pace, what, moment):
    request = erase(ERASED[what], **MOMENTS[moment])
    assert_as_if_never_there(lambda data: toy_federation(RFS(), data, **PACES[pace]), DATA, request, rounds=5)


def test_a_client_that_was_never_sent_a_model_costs_nothing_to_forget():
    """1 of 8 a round: after 3 rounds at least 5 have not been asked."""
    options = {"pace": Synchronous(per_round=1)}
    scout = toy_federation(RFS(), DATA, **options)
    asked = {client for record in scout.run(3).rounds for client in record.clients}
    idle = min(set(range(8)) - asked)
    fed = toy_federation(RFS(), DATA, **options)
    history = fed.run(6, requests=[erase(idle, round=3)])
    assert history.served[0].restarted == ()
    assert fed.lanes["global"].version == 6
    assert_as_if_never_there(
        lambda data: toy_federation(RFS(), data, **options), DATA, erase(idle, round=3), rounds=3
    )


def test_rapid_retraining_changes_the_optimiser_once_a_request_came():
    engine = ToyEngine()
    recipe = Recipe(SGD(0.1), epochs=3)
    fed = toy_federation(Rapid(), DATA, engine, recipe=recipe)
    fed.run(6, requests=[erase(2, round=4)])
    kinds = [{type(job.recipe.optimizer).__name__ for job in call} for call in engine.calls]
    assert kinds == [{"SGD"}] * 4 + [{"AdaHessian"}] * 2
    assert all(job.recipe.epochs == 3 for call in engine.calls for job in call)


def test_rapid_ends_where_a_federation_would_be_that_had_its_optimiser_from_the_start():
    """And not where plain training would be."""
    data = unknot.federate(unknot.load("digits"), unknot.Iid(clients=4, samples=12))
    plain, second = (Recipe(SGD(rate), batch_size=6) for rate in (0.05, 0.2))
    fed = unknot.simulate("mlp", data, Rapid(SGD(0.2)), plain, threads=1, evaluate_every=0)
    fed.run(4, requests=[erase(2, round=2)])
    rest = data.fork()
    rest.erase(2)
    twins = [
        unknot.simulate("mlp", rest, RFS(), recipe, threads=1, evaluate_every=0) for recipe in (plain, second)
    ]
    for twin in twins:
        twin.run(2)
    assert [fed.model.equal(twin.model) for twin in twins] == [False, True]


class Overflows(ToyEngine):
    """What large numbers had a part in is no number."""

    def train(self, jobs, data):
        found = []
        for update in super().train(jobs, data):
            large = bool((data.train.x[update.job.shard(data).rows] > 1e30).any())
            found.append(with_vector(update, update.weights.vector * math.nan) if large else update)
        return found


@pytest.mark.parametrize("method", [RFS(), Standalone()], ids=["rfs", "standalone"])
def test_whose_updates_were_all_set_aside_leaves_as_one_whose_were_not(method):
    """What client 5 has a part in is set aside in one run: it shapes no weights there, but did take turns."""
    x = DATA.train.x.clone()
    x[DATA[5].rows] = 3e38
    wild = DATA.replaced(train=Samples(x, DATA.train.y, DATA.train.classes))
    calm, spoilt = (toy_federation(method, data, Overflows()) for data in (DATA, wild))
    for fed in (calm, spoilt):
        fed.run(6, requests=[erase(5, round=3)])
    assert spoilt.costs.set_aside > calm.costs.set_aside == 0
    assert spoilt.lanes["global"].version == calm.lanes["global"].version == 3
    assert spoilt.model.equal(calm.model)


class Keeps(Method):
    """Broken on purpose: goes on with the model as it is."""

    name = "keeps"
    guarantee = Guarantee.EXACT

    def forget(self, fed, request, touched):
        pass


class Launders(Keeps):
    """Broken on purpose, and hides it: the old numbers under a clean lineage."""

    def forget(self, fed, request, touched):
        for lane in touched:
            for node in lane.nodes.values():
                old = node.weights
                node.weights = fed.initial.like(old.vector)


def test_a_method_that_keeps_the_model_is_refused_by_the_core():
    with pytest.raises(ForbiddenLineageError, match="client 3"):
        forget_and_go_on(toy_federation(Keeps(), DATA), erase(3, round=4), rounds=2)


@pytest.mark.parametrize("what", ERASED)
def test_a_method_that_launders_lineage_fails_the_check_of_values(what):
    """The lineage is clean; the values are not. So the check can fail."""

    def open(data):
        return toy_federation(Launders(), data)

    request = erase(ERASED[what], round=4)
    with pytest.raises(AssertionError):
        assert_no_interference(open, DATA, request, rounds=3)
    with pytest.raises(AssertionError):
        assert_as_if_never_there(open, DATA, request, rounds=3)
