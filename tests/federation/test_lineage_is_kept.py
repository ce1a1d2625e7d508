"""Honest code cannot lose lineage: the core unites it from what goes in and what is read."""

from dataclasses import replace

import pytest
import torch
from torch import nn

import unknot
from aggregators import FedAdam, Momentum
from support import grid, small_data, toy_federation
from unknot.audit import interference
from unknot.core.ensemble import Ensemble
from unknot.core.errors import ConfigError, ForbiddenLineageError, UnknotError
from unknot.core.lineage import Unit
from unknot.core.requests import erase, join
from unknot.core.weights import Layout, Weights, weighted_sum
from unknot.federation import Buffered, Clock, FedAvg, FedBuff, Guarantee, Method, Pareto, Synchronous
from unknot.federation.aggregators import check_aggregator
from unknot.unlearn import BMT, FATS, KNOT, MMT, RFS, SISA, FedCIO, FedEraser, Rapid

DATA = small_data([5, 8, 3, 6, 7, 4, 5, 6])
EVERYBODY = set(range(8))


# Aggregators ----------------------------------------------------------------------------------------


STATEFUL = {"fedadam": FedAdam, "momentum": Momentum}
PACES = {
    "sync": {"pace": Synchronous(5)},
    "async": {"pace": Buffered(5, 2, staleness_bound=3), "clock": Clock(Pareto())},
}


@pytest.mark.parametrize("name", STATEFUL)
def test_the_lineage_of_an_aggregate_is_that_of_all_that_went_in(name):
    """Also where the aggregator forgets to say so."""
    fed = toy_federation(RFS(), DATA, aggregate=STATEFUL[name]())
    assert fed.run(3).model.lineage.clients == EVERYBODY


EXACT = {
    "rfs": RFS(),
    "rapid": Rapid(),
    "bmt": BMT(),
    "mmt": MMT(),
    "mmt rebuilt": MMT(change="rebuild"),
    "sisa": SISA(),
    "fedcio": FedCIO(2),
    "knot": KNOT(3, by="random"),
    "knot, mmt": KNOT(2, by="random", retrain=MMT()),
}
SCRIPTS = {
    "a client": [erase(3, round=3)],
    "several": [erase([1, 6], round=2), erase({4: [0, 2]}, round=4)],
    "with a join": [erase(3, round=2), join(7, round=3), erase(5, round=5)],
}


@pytest.mark.parametrize(("name", "kind", "script"), grid(EXACT, STATEFUL, SCRIPTS))
def test_an_exact_method_is_exact_with_an_aggregator_that_has_a_state(name, kind, script):
    given = STATEFUL[kind]()

    def served(data):
        fed = toy_federation(EXACT[name], data, aggregate=given, **PACES["sync"])
        fed.run(7, requests=SCRIPTS[script])
        return fed.model

    targets = [t for r in SCRIPTS[script] if hasattr(r, "targets") for t in r.targets]
    report = interference(served, DATA, targets)
    assert report.none, report.gaps
    assert given == STATEFUL[kind]()  # the one that was given is never called


@pytest.mark.parametrize("name", ["rfs", "fedcio", "knot"])
@pytest.mark.parametrize("pace", PACES)
def test_after_an_erasure_the_state_is_that_of_a_federation_that_never_had_the_client(name, pace):
    fed = toy_federation(EXACT[name], DATA, aggregate=FedAdam(), **PACES[pace])
    fed.run(7, requests=[erase(3, round=3)])
    lane = next(lane for lane in fed.lanes.values() if lane.version == 4)
    members = sorted(lane.members)
    alone = toy_federation(
        RFS(), DATA.replaced(shards={c: DATA[c] for c in members}), aggregate=FedAdam(), **PACES[pace]
    )
    alone.state.pace = lane.pace
    alone.state.members = set(members)
    own = alone.state.add_lane(lane.name, members)
    own.pace = lane.pace
    alone.state.add_node(own, "global", members)
    alone.work.method = Named(lane.name)
    from unknot.federation import Begun, History

    alone.work.history = History(Begun("rfs", "exact", 0))
    alone.run(4)
    assert own.nodes["global"].weights.equal(lane.nodes["global"].weights)


class Named(RFS):
    def __init__(self, lane):
        object.__setattr__(self, "lane", lane)

    def serve(self, desk):
        return desk.lanes[self.lane].nodes["global"].weights


def test_every_node_has_a_state_of_its_own():
    fed = toy_federation(MMT(), DATA, aggregate=Momentum())
    fed.run(2)
    nodes = fed.lanes["global"].nodes.values()
    assert len({id(node.aggregate) for node in nodes}) == len(nodes) > 8


def test_models_that_go_on_keep_their_state_and_those_that_begin_again_do_not():
    fed = toy_federation(MMT(), DATA, aggregate=Momentum())
    fed.run(3)
    nodes = dict(fed.lanes["global"].nodes)
    spoilt = {name for name, node in nodes.items() if 3 in node.members}
    states = {name: node.aggregate.state["m"] for name, node in nodes.items()}
    fed.run(1, requests=[erase(3, round=3)])
    after = fed.lanes["global"].nodes
    kept = set(nodes) - spoilt
    assert kept & set(after)
    for name in kept & set(after):
        assert after[name].aggregate is nodes[name].aggregate
    assert not fed.ledger.taint(after["global"].weights)
    assert after["global"].aggregate is not nodes["global"].aggregate
    assert not any(after["global"].aggregate.state["m"].equal(m) for m in states.values())


class InPlace(RFS):
    """Puts the initial weights into its node, and leaves the aggregator to the federation."""

    def forget(self, desk, request, touched):
        for lane in touched:
            desk.cancel(lane, lane.flights)
            lane.version = 0
            lane.sent.clear()
            lane.nodes["global"].weights = desk.initial


@pytest.mark.parametrize("name", STATEFUL)
def test_the_aggregator_of_a_spoilt_model_goes_whatever_the_method_does(name):
    fed = toy_federation(InPlace(), DATA, aggregate=STATEFUL[name]())
    fed.run(6, requests=[erase(3, round=3)])
    whole = toy_federation(RFS(), DATA, aggregate=STATEFUL[name]())
    whole.run(6, requests=[erase(3, round=3)])
    assert fed.model.equal(whole.model)


def test_a_copy_of_a_model_has_a_state_of_its_own():
    fed = toy_federation(RFS(), DATA, aggregate=Momentum())
    fed.run(2)
    lane = fed.lanes["global"]
    node = lane.nodes["global"]
    twin = fed.state.copy_node(lane, node, "twin", lane.members)
    before = twin.aggregate.state["m"]
    assert before.equal(node.aggregate.state["m"])
    fed.state.drop_node(lane, "twin")
    fed.run(1)
    assert not node.aggregate.state["m"].equal(before)
    assert twin.aggregate.state["m"] is before


def test_a_state_that_copies_share_is_refused():
    seen = []

    class Global:
        def __call__(self, current, updates, version, ledger):
            seen.append(updates)
            return current * float(len(seen))

    with pytest.raises(ConfigError, match="remembers what another one like it was given"):
        toy_federation(RFS(), DATA, aggregate=Global())


def test_so_is_one_whose_mean_is_plain():
    """What it is tried with must not cancel: neither weighted by samples, nor plainly."""

    def shared():
        step = None

        def mean(current, updates, version, ledger):
            nonlocal step
            new = weighted_sum([(1 / len(updates), update.step) for update in updates], ledger, "add")
            step = new if step is None else new + step * 0.9
            return current + step

        return mean

    for numbers in (torch.tensor([1.0, -2.0]), torch.zeros(2)):
        with pytest.raises(ConfigError, match="remembers what another one like it was given"):
            check_aggregator(shared(), Weights(numbers, Layout(("a",), ((2,),))))


def test_a_method_that_puts_updates_together_itself_takes_no_aggregator():
    with pytest.raises(ConfigError, match="leave aggregate out"):
        toy_federation(FATS(clients=8), DATA, aggregate=FedAdam()).run(1)


def test_an_aggregator_that_gives_another_kind_of_model_is_named():
    class Other:
        def __call__(self, current, updates, version, ledger):
            return current.to(dtype=torch.float64)

    with pytest.raises(UnknotError, match="Other gave a model of another kind"):
        toy_federation(RFS(), DATA, aggregate=Other()).run(1)


# Methods --------------------------------------------------------------------------------------------


class Careless(Method):
    """Computes with the numbers and leaves the lineage behind, without meaning harm."""

    name = "careless"
    guarantee = Guarantee.EXACT

    def absorb(self, desk, lane, updates):
        node = lane.nodes["global"]
        mean = torch.stack([u.weights.vector for u in updates]).mean(0)
        node.weights = Weights(mean, node.weights.layout)

    def serve(self, desk):
        node = desk.lanes["global"].nodes["global"]
        return Weights(node.weights.vector * 1.0, node.weights.layout)

    def forget(self, desk, request, touched):
        """Forgets nothing."""


def test_what_absorb_makes_carries_what_went_in():
    fed = toy_federation(Careless(), DATA, pace=Synchronous(3))
    fed.run(1)
    first = fed.lanes["global"].nodes["global"].weights.lineage.clients
    assert len(first) == 3
    fed.run(4)
    assert first < fed.lanes["global"].nodes["global"].weights.lineage.clients


class InTwoSteps(Careless):
    """Replaces the model twice in a round, each time without a lineage."""

    def absorb(self, desk, lane, updates):
        super().absorb(desk, lane, updates)
        node = lane.nodes["global"]
        node.weights = Weights(0.5 * node.weights.vector, node.weights.layout)


def test_a_model_that_is_replaced_twice_in_a_round_carries_what_it_did_before_the_first():
    """One update a round, from a start that is some rounds old: it does not bring along what came since."""
    fed = toy_federation(InTwoSteps(), DATA, pace=Buffered(6, 1), clock=Clock(Pareto()))
    carried = set()
    for _ in range(8):
        fed.run(1)
        found = fed.lanes["global"].nodes["global"].weights.lineage.clients
        assert carried <= found
        carried = set(found)
    assert len(carried) > 1


class WithAShadow(Careless):
    """A second model that nobody trains is made of the updates of the first."""

    def lay_out(self, desk, lane):
        super().lay_out(desk, lane)
        desk.add_node(lane, "shadow", [])

    def absorb(self, desk, lane, updates):
        super().absorb(desk, lane, updates)
        shadow = lane.nodes["shadow"]
        mean = torch.stack([u.weights.vector for u in updates]).mean(0)
        shadow.weights = Weights(0.5 * mean, shadow.weights.layout)


def test_a_model_that_no_job_was_for_carries_all_updates_of_the_round():
    fed = toy_federation(WithAShadow(), DATA)
    fed.run(1)
    assert fed.lanes["global"].nodes["shadow"].weights.lineage.clients == EVERYBODY


def test_what_serve_makes_carries_what_was_read():
    fed = toy_federation(Careless(), DATA)
    assert fed.run(2).model.lineage.clients == EVERYBODY


def test_a_method_that_forgets_nothing_is_stopped():
    """At the request, which does not count as served, also where nothing is measured then."""
    fed = toy_federation(Careless(), DATA, evaluate_every=0)
    with pytest.raises(ForbiddenLineageError, match="client 3"):
        fed.run(4, requests=[erase(3, round=2)])
    assert fed.history.served == []
    assert len(fed.pending) == 1


def test_a_kept_model_that_is_read_to_serve_counts():
    class FromStore(RFS):
        def absorb(self, desk, lane, updates):
            super().absorb(desk, lane, updates)
            desk.archive["last"] = lane.nodes["global"].weights

        def serve(self, desk):
            if "last" not in desk.archive:
                return desk.initial
            kept = desk.archive["last"]
            return Ensemble(((1.0, Weights(kept.vector, kept.layout)),))

    fed = toy_federation(FromStore(), DATA)
    assert fed.run(2).model.lineage.clients == EVERYBODY
    fed.run(2, requests=[erase(3, round=2)])
    assert fed.model.lineage.clients == EVERYBODY - {3}


def test_which_cluster_is_best_was_decided_by_all_of_them():
    fed = toy_federation(KNOT(3, by="random", served="best"), DATA)
    assert fed.run(2).model.lineage.clients == EVERYBODY


def test_inner_models_of_a_tree_carry_their_own_clients_and_no_others():
    fed = toy_federation(MMT(), DATA)
    fed.run(3)
    for node in fed.lanes["global"].nodes.values():
        assert node.weights.lineage.clients == node.members


def test_methods_see_a_desk_without_an_engine():
    seen = {}

    class Curious(RFS):
        def open(self, desk):
            seen["desk"] = desk
            super().open(desk)

    fed = toy_federation(Curious(), DATA)
    fed.run(1)
    assert seen["desk"] is fed.desk
    assert not hasattr(fed.desk, "engine")


def test_what_is_trained_apart_is_checked_billed_and_takes_its_time():
    fed = toy_federation(RFS(), DATA)
    fed.run(2, requests=[erase(3, round=1)])
    before, now = fed.costs, fed.now
    lane = fed.lanes["global"]
    jobs = [fed.state.job(lane, lane.nodes["global"], 2)]
    fed.desk.train_apart(jobs)
    assert fed.costs.jobs == before.jobs + 1
    assert fed.now == now + fed.state.duration(2, 3)
    tainted = replace(jobs[0], unit=Unit(3))
    with pytest.raises(ForbiddenLineageError):
        fed.desk.train_apart([tainted])


# Frozen parameters ----------------------------------------------------------------------------------


class HalfFrozen(nn.Module):
    def __init__(self):
        super().__init__()
        self.base = nn.Linear(8, 16)
        self.head = nn.Linear(16, 3)
        self.base.requires_grad_(False)

    def forward(self, x):
        return self.head(torch.tanh(self.base(x)))

    @staticmethod
    def of(other):
        twin = HalfFrozen()
        twin.load_state_dict(other.state_dict())
        return twin


FROZEN = {"rfs": RFS(), "mmt": MMT(), "knot": KNOT(2, by="random"), "federaser": FedEraser()}
AVERAGED = {"fedavg": FedAvg(), "fedbuff": FedBuff(), "momentum": Momentum()}


@pytest.mark.parametrize(("method", "aggregate", "engine"), grid(FROZEN, AVERAGED, ["loop", "stacked"]))
def test_what_is_frozen_is_served_as_it_was(method, aggregate, engine):
    with torch.random.fork_rng():
        torch.manual_seed(0)
        net = HalfFrozen()
    fed = unknot.simulate(net, DATA, FROZEN[method], aggregate=AVERAGED[aggregate], engine=engine)
    before = [p.clone() for p in net.base.parameters()]
    fed.run(5, requests=[erase(3, round=3)])
    assert fed.model.layout.names == ("head.weight", "head.bias")
    assert not torch.equal(fed.model["head.weight"], net.head.weight)
    served = fed.model.load_into(HalfFrozen.of(net))
    assert all(torch.equal(a, b) for a, b in zip(served.base.parameters(), before, strict=True))
