"""What one run hands to another brings along whose data shaped it."""

import pytest
import torch
from torch import nn

import unknot
from support import LAYOUT, small_data, toy_federation, toy_weights
from unknot.core.errors import ForbiddenLineageError, RequestError
from unknot.core.lineage import Lineage, Unit
from unknot.core.requests import erase
from unknot.core.weights import Weights
from unknot.federation import Federation, Synchronous
from unknot.select import DQN, KCenter, Policy
from unknot.unlearn import BMT, KNOT, METHODS, MMT, RFS, SISA

DATA = small_data([5, 8, 3, 6, 7, 4, 5, 6])
FOUR = {"pace": Synchronous(4)}


def second(policy, method=None, **options):
    return toy_federation(method or RFS(), DATA, select=DQN(policy=policy), **{**FOUR, **options})


def learned(requests=(), rounds=6) -> Policy:
    fed = toy_federation(RFS(), DATA, select=DQN(), **FOUR)
    fed.run(rounds, requests=requests)
    return fed.lanes["global"].selector.policy


@pytest.mark.parametrize("way", ["file", "object"])
@pytest.mark.parametrize("what", [3, {3: [2]}], ids=["client", "samples"])
def test_a_policy_that_knew_a_client_goes_when_any_of_its_data_does(tmp_path, way, what):
    """The first run had erased samples of client 3: its units there are of a later revision."""
    policy = learned([erase({3: [0, 1]}, round=2)])
    assert Unit(3, 1) in policy.lineage
    if way == "file":
        policy.save(tmp_path / "policy.safetensors")
        policy = Policy.load(tmp_path / "policy.safetensors")
    fed = second(policy)
    fed.run(5, requests=[erase(what, round=3)])
    assert fed.state.select.policy is None
    assert not fed.ledger.taint(fed.lanes["global"])
    plain = toy_federation(RFS(), DATA, select=DQN(), **FOUR)
    plain.run(5, requests=[erase(what, round=3)])
    assert fed.model.equal(plain.model)  # as if the policy had never been given


def test_a_policy_of_somebody_who_left_before_is_refused():
    policy = learned()
    rest = DATA.fork()
    rest.erase(3)
    with pytest.raises(ForbiddenLineageError, match="client 3"):
        toy_federation(RFS(), rest, select=DQN(policy=policy), **FOUR)
    fewer = DATA.fork()
    fewer.erase(3, [0])
    with pytest.raises(ForbiddenLineageError, match="client 3"):
        toy_federation(RFS(), fewer, select=DQN(policy=policy), **FOUR)


def test_lanes_whose_clients_were_chosen_by_a_tainted_policy_begin_again():
    """Client 3 itself was never asked in this run."""
    fed = second(learned(), pace=Synchronous(1))
    fed.run(1)
    lane = fed.lanes["global"]
    lane.sent.discard(3)
    fed.run(1, requests=[erase(3, round=1)])
    assert lane.version == 1


# Models ---------------------------------------------------------------------------------------------


def start(*units) -> Weights:
    return Weights(torch.linspace(1, -1, LAYOUT.size), LAYOUT, Lineage(units))


def carried_on(method, initial, restart=None, **options):
    from support import ToyEngine

    return Federation(ToyEngine(), initial, DATA, method, restart=restart, **options)


def test_a_federation_carries_on_the_lineage_of_what_it_starts_from():
    fed = carried_on(RFS(), start(Unit(3, 5), Unit(40)))
    history = fed.run(3)
    assert {Unit(3), Unit(40)} <= set(fed.model.lineage)
    assert "client 40" in history.to_dict()["lineage"]


EVERY = [kind() for name, kind in METHODS.items()] + [KNOT(2, by="random", retrain=MMT())]


@pytest.mark.parametrize("method", EVERY, ids=lambda m: f"{m.name} {getattr(m, 'retrain', '') or ''}")
@pytest.mark.parametrize("who", [3, 40], ids=["a client of this run", "of an earlier run alone"])
def test_who_shaped_the_start_can_be_erased_and_the_federation_begins_again_without(method, who):
    """It ends as one that began with the other start, and never had the client."""
    fed = carried_on(method, start(Unit(3, 5), Unit(40)), restart=toy_weights())
    fed.run(6, requests=[erase(who, round=3)])
    assert who not in fed.model.lineage.clients
    assert fed.initial is not None
    assert not fed.initial.lineage
    rest = DATA.fork()
    if who in rest:
        rest.erase(who)
    if method.name not in ("knot", "fedcio") or who == 40:  # clusters are dealt again, without the client
        twin = toy_federation(method, rest)
        twin.run(3)
        assert fed.model.equal(twin.model)


def test_samples_of_who_shaped_the_start_are_enough():
    fed = carried_on(RFS(), start(Unit(3)), restart=toy_weights())
    fed.run(4, requests=[erase({3: [0]}, round=2)])
    assert not fed.initial.lineage


def test_where_there_is_no_other_start_the_request_is_refused_before_anything_happens():
    fed = carried_on(RFS(), start(Unit(3)))
    with pytest.raises(RequestError, match="had a part in the weights that this federation began with"):
        fed.run(4, requests=[erase(3, round=2)])
    fed.run(2, requests=[erase(4, round=1)])
    assert 4 not in fed.model.lineage.clients


def test_a_start_of_somebody_who_left_before_is_refused():
    rest = DATA.fork()
    rest.erase(3)
    with pytest.raises(ForbiddenLineageError, match="client 3"):
        toy_federation(RFS(), rest).__class__(None, start(Unit(3, 4)), rest, RFS())


def test_a_client_known_from_the_start_alone_is_erased_once():
    fed = carried_on(RFS(), start(Unit(40)), restart=toy_weights())
    fed.run(3, requests=[erase(40, round=2)])
    with pytest.raises(RequestError, match="cannot erase client 40"):
        fed.run(3, requests=[erase(40, round=4)])


# The same with a real engine ------------------------------------------------------------------------

DIGITS = unknot.federate(unknot.load("digits"), unknot.Iid(clients=4, samples=20))


def test_a_served_model_starts_a_new_federation_with_its_lineage(tmp_path):
    first = unknot.simulate("mlp", DIGITS).run(2)
    unknot.save_model(first.model, tmp_path / "served.safetensors")
    for initial in (first.model, tmp_path / "served.safetensors", str(tmp_path / "served.safetensors")):
        fed = unknot.simulate("mlp", DIGITS, initial=initial)
        assert fed.initial.equal(first.model)
        assert fed.initial.lineage.clients == {0, 1, 2, 3}
    fed.run(4, requests=[unknot.erase(2, round=2)])
    rest = DIGITS.fork()
    rest.erase(2)
    twin = unknot.simulate("mlp", rest)
    twin.run(2)
    assert fed.model.equal(twin.model)
    named = {"data": {"clients": 4}, "model": {"initial": str(tmp_path / "served.safetensors")}}
    fed = unknot.prepare(unknot.Experiment.of(named))
    assert fed.initial.lineage.clients == {0, 1, 2, 3}


def test_a_module_that_a_served_model_was_put_into_keeps_its_lineage():
    model = unknot.simulate("mlp", DIGITS).run(1).model
    net = nn.Sequential(nn.Flatten(), nn.Linear(784, 80), nn.ReLU(), nn.Linear(80, 10))
    assert unknot.simulate(net, DIGITS).initial.lineage == Lineage()
    renamed = Weights(model.vector, Weights.of(net).layout, model.lineage)
    renamed.load_into(net)
    assert unknot.simulate(net, DIGITS).initial.lineage.clients == {0, 1, 2, 3}


def test_a_start_of_another_kind_is_refused():
    ensemble = unknot.simulate("mlp", DIGITS, SISA()).run(1).model
    with pytest.raises(unknot.ConfigError, match="ensemble"):
        unknot.simulate("mlp", DIGITS, initial=ensemble)
    with pytest.raises(unknot.ConfigError, match="another model"):
        unknot.simulate("lenet5", DIGITS, initial=toy_weights())


def test_a_selector_that_learned_nothing_taints_nothing():
    fed = toy_federation(BMT(), DATA, select=KCenter(2), **FOUR)
    assert fed.state.select_knows == Lineage()
