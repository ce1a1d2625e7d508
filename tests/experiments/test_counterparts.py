"""The models that an audit compares with: the same run, but for what was in it."""

import tomllib
from dataclasses import replace

import numpy as np
import pytest
import torch

import unknot
from support import grid, half_frozen, small_data
from unknot.core.data import FederatedData, Shard
from unknot.core.errors import ConfigError
from unknot.core.keys import Key
from unknot.core.requests import erase, join
from unknot.experiments import Experiment, run
from unknot.experiments.counterparts import (
    Counterpart,
    erasures_of,
    named,
    parted,
    quiet,
    some_of,
    train,
    without,
)
from unknot.experiments.simulate import assemble, data_of
from unknot.federation import Buffered, Clock, FedBuff, Guarantee, Pareto
from unknot.unlearn import (
    BMT,
    FATS,
    KNOT,
    METHODS,
    MMT,
    RFS,
    SISA,
    ExactFun,
    FedCIO,
    FedEraser,
    Rapid,
    Standalone,
)

DATA = small_data()
FILE = """
[data]
partition = "iid"
clients = 4
samples = 20
validation = 20
[train]
lr = 0.05
batch_size = 10
[federation]
rounds = 6
"""
BASE = Experiment.of(tomllib.loads(FILE))
REQUESTS = {
    "a client": [erase(1, round=3)],
    "two clients": [erase([1, 2], round=2)],
    "samples": [erase({1: [0, 3, 19]}, round=3)],
    "samples of a client, twice": [erase({1: [4]}, round=2), erase({1: [0]}, round=4)],
    "samples, then the client": [erase({1: [4, 5]}, round=2), erase(1, round=4)],
    "a client, then samples of another": [erase(1, round=2), erase({2: [1]}, round=4)],
}
EXACT = {
    "rfs": RFS(),
    "rapid": Rapid(),
    "bmt": BMT(),
    "mmt": MMT(change="rebuild"),
    "sisa": SISA(),
    "fedcio": FedCIO(clusters=2),
    "fedcio, ensemble": FedCIO(clusters=2, served="ensemble"),
    "knot": KNOT(clusters=2, by="random"),
    "knot, mmt": KNOT(clusters=2, by="random", retrain=MMT()),
    "exact-fun": ExactFun(),
    "fats": FATS(rho_client=5, rounds=20, local_steps=3, clients=4),
    "standalone": Standalone(),
}


@pytest.fixture(scope="module")
def data():
    return data_of(BASE)


def held(data):
    """Who holds which rows."""
    return {client: data[client].rows.tolist() for client in data}


def trained(experiment, data, *wanted):
    fed = assemble(experiment, data)
    return train(experiment, fed.data, fed.engine, wanted)


# Who holds what -----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", REQUESTS)
def test_erased_rows_are_held_by_nobody(name, data):
    _, erased = parted(data, REQUESTS[name])
    gone = set(np.concatenate(list(erased.values())).tolist())
    bare = without(data, REQUESTS[name])
    assert gone
    assert not gone & {row for rows in held(bare).values() for row in rows}


@pytest.mark.parametrize("name", REQUESTS)
def test_requests_find_what_they_ask_for_and_leave_what_they_left(name, data):
    bare, full = without(data, REQUESTS[name]), data.fork()
    for request in REQUESTS[name]:
        for target in request.targets:
            bare.erase(target.client, target.samples)
            full.erase(target.client, target.samples)
    assert held(bare) == held(full)
    assert all(np.array_equal(bare[client].ids, full[client].ids) for client in full)


def test_samples_that_stay_stand_in_for_a_client_that_is_erased_whole():
    bare = without(DATA, [erase([1, 4], round=1)])
    assert list(bare) == list(DATA)
    assert {client: len(bare[client]) for client in bare} == {client: len(DATA[client]) for client in DATA}
    others = {row for client in (0, 2, 3, 5) for row in DATA[client].rows.tolist()}
    assert set(bare[1].rows.tolist()) | set(bare[4].rows.tolist()) <= others
    assert all(held(bare)[client] == held(DATA)[client] for client in (0, 2, 3, 5))


def test_of_a_client_that_loses_samples_its_own_stand_in_for_them():
    bare = without(DATA, [erase({1: [0, 7]}, round=1)])
    assert np.array_equal(bare[1].ids, DATA[1].ids)
    own = DATA[1].rows.tolist()
    assert bare[1].rows.tolist()[1:7] == own[1:7]
    assert {bare[1].rows[0], bare[1].rows[7]} <= set(own[1:7])


def test_of_a_client_that_loses_every_sample_those_of_others_that_stay_do():
    """Client 1 is asked for all samples one by one, and client 0 goes: what is left are the others'."""
    requests = [erase({0: range(5)}, round=1), erase(1, round=2), erase({2: [0]}, round=3)]
    bare = without(DATA, requests)
    gone = {*held(DATA)[0], *held(DATA)[1], held(DATA)[2][0]}
    assert not gone & set(bare[0].rows.tolist())
    assert bare[0].ids.tolist() == list(range(5))


def test_what_is_left_of_a_whole_client_is_with_one_that_no_request_names():
    left = {1: DATA[1].rows[:3], 4: DATA[4].rows[2:]}
    bare = without(DATA, [erase([1, 4], round=1)], left)
    assert sorted(bare) == [*DATA, 6, 7]
    assert bare[6].rows.tolist() == left[1].tolist()
    assert bare[7].rows.tolist() == left[4].tolist()
    assert not set(left[1].tolist()) & set(bare[1].rows.tolist())


def test_what_is_left_of_samples_is_the_clients_under_other_ids():
    rows = DATA[1].rows[[0, 7]]
    bare = without(DATA, [erase({1: [0, 7]}, round=1)], {1: rows})
    assert list(bare) == list(DATA)
    assert bare[1].ids.tolist() == list(range(10))
    assert bare[1].rows.tolist()[-2:] == rows.tolist()
    bare.erase(1, [0, 7])
    assert set(rows.tolist()) <= set(bare[1].rows.tolist())


def test_held_out_rows_of_the_erased_client_are_gone_and_those_of_others_stay():
    owner = np.array([0, 1, 2, 3] * 3)
    owned = DATA.replaced(validation_owner=owner, test_owner=owner, test_rows={1: [1, 5], 2: [2, 6]})
    bare = without(owned, [erase(1, round=1)])
    for part, owners in ((bare.validation, bare.validation_owner), (bare.test, bare.test_owner)):
        assert len(part) == 9
        assert owners.tolist() == [0, 2, 3] * 3
    assert torch.equal(bare.test.x, DATA.test.x[torch.from_numpy(owner != 1)])
    assert bare.test.x[bare.test_rows[2]].tolist() == DATA.test.x[[2, 6]].tolist()
    assert len(without(owned, [erase({1: [0]}, round=1)]).test) == 12


def test_the_data_that_it_is_made_of_is_not_changed():
    before = held(DATA)
    without(DATA, [erase({1: [0]}, round=1), erase(2, round=1)], {1: DATA[1].rows[:1]})
    assert held(DATA) == before
    assert len(DATA.test) == 12


def test_tensors_are_shared_so_that_all_train_in_one_call():
    assert without(DATA.lent(), [erase(1, round=1)]).train is DATA.train


# What is erased -----------------------------------------------------------------------------------


def test_the_members_are_the_erased_samples_that_nobody_else_holds():
    shards = {0: Shard.of([0, 1, 2, 3]), 1: Shard.of([2, 3, 4, 5]), 2: Shard.of([6, 7])}
    shared = FederatedData(DATA.train, shards, DATA.test)
    rest, erased = parted(shared, [erase(1, round=1)])
    assert {client: rows.tolist() for client, rows in erased.items()} == {1: [4, 5]}
    assert sorted(rest.tolist()) == [0, 1, 2, 3, 6, 7]
    rest, erased = parted(shared, [erase({1: [3, 0]}, round=1), erase(2, round=2)])
    assert {client: rows.tolist() for client, rows in erased.items()} == {1: [5], 2: [6, 7]}
    assert sorted(rest.tolist()) == [0, 1, 2, 3, 3, 4]


def test_samples_and_then_their_client_are_erased_whichever_is_written_first():
    requests = [erase(1, round=4), erase({1: [0, 2]}, round=2)]
    for order in (requests, requests[::-1]):
        _, erased = parted(DATA, order)
        assert {client: rows.tolist() for client, rows in erased.items()} == {1: DATA[1].rows.tolist()}


def test_what_leaves_nothing_to_audit_is_said():
    with pytest.raises(ConfigError, match="everybody is erased"):
        parted(DATA, [erase(list(DATA), round=1)])
    twins = DATA.replaced(shards={0: DATA[0], 1: DATA[0]})
    with pytest.raises(ConfigError, match="nobody else holds"):
        parted(twins, [erase(1, round=1)])


@pytest.mark.parametrize("requests", [(), (join(1, round=2),), (erase(1, round=2), join(2, round=1))])
def test_only_erasures_are_audited(requests):
    with pytest.raises(ConfigError, match="erase requests, and with no others"):
        erasures_of(replace(BASE, requests=requests), DATA)


def test_what_is_audited_may_go_by_names():
    data = DATA.replaced(names={1: "Graz", 2: "Linz"})
    asked = replace(BASE, requests=(erase("Graz", round=2), erase({"Linz": [0, 1]}, round=3)))
    assert erasures_of(asked, data) == [erase(1, round=2), erase({2: [0, 1]}, round=3)]
    assert named(asked, data) == "Graz, 2 samples of Linz"
    with pytest.raises(ConfigError, match="erase requests, and with no others"):
        erasures_of(replace(BASE, requests=(join("Graz", round=1),)), data)


def test_a_share_of_each_client_is_left_in_and_at_least_one_sample():
    erased = {1: DATA[1].rows, 2: DATA[2].rows, 3: DATA[3].rows[:0]}
    some = some_of(erased, 0.5, Key.root(0))
    assert {client: len(rows) for client, rows in some.items()} == {1: 4, 2: 2}
    assert all(set(some[client].tolist()) <= set(erased[client].tolist()) for client in some)
    assert {len(rows) for rows in some_of(erased, 0.01, Key.root(0)).values()} == {1}
    draws = {tuple(some_of(erased, 0.5, Key.root(k))[1].tolist()) for k in range(10)}
    assert len(draws) > 1
    everything = some_of(erased, 1.0, Key.root(0))
    assert sorted(everything[1].tolist()) == sorted(erased[1].tolist())


# The models ---------------------------------------------------------------------------------------


def test_every_exact_method_is_put_to_the_question():
    asked = {type(method) for method in EXACT.values()}
    assert asked == {method for method in METHODS.values() if method.guarantee is Guarantee.EXACT}


@pytest.mark.parametrize(("name", "requests"), grid(EXACT, ["a client", "samples"]))
def test_what_an_exact_method_serves_is_its_counterpart_without_the_data_bit_for_bit(name, requests, data):
    asked = replace(BASE, method=EXACT[name], requests=tuple(REQUESTS[requests]))
    served, twin, another = trained(asked, data, Counterpart(0, whole=True), Counterpart(0), Counterpart(1))
    assert served.equal(twin)
    assert not served.equal(another)


@pytest.mark.parametrize(
    ("method", "name"),
    grid(["rfs", "exact-fun", "mmt"], [name for name in REQUESTS if name not in ("a client", "samples")]),
)
def test_so_it_is_after_several_requests(method, name, data):
    asked = replace(BASE, method=EXACT[method], requests=tuple(REQUESTS[name]))
    served, twin = trained(asked, data, Counterpart(0, whole=True), Counterpart(0))
    assert served.equal(twin)


@pytest.mark.parametrize("name", ["rfs", "knot"])
def test_so_it_is_at_an_asynchronous_pace(name, data):
    """How long clients take depends on how much they hold: what stands in takes as long."""
    asked = replace(
        BASE,
        method=EXACT[name],
        requests=(erase(1, round=3),),
        setup=replace(BASE.setup, pace=Buffered(3, 2, 3), aggregate=FedBuff(), clock=Clock(Pareto())),
    )
    served, twin = trained(asked, data, Counterpart(0, whole=True), Counterpart(0))
    assert served.equal(twin)


@pytest.mark.parametrize("requests", ["a client", "samples"])
def test_what_an_approximate_method_serves_is_not(requests, data):
    asked = replace(BASE, method=FedEraser(interval=1), requests=tuple(REQUESTS[requests]))
    served, twin = trained(asked, data, Counterpart(0, whole=True), Counterpart(0))
    assert not served.equal(twin)


@pytest.mark.parametrize("requests", ["a client", "samples"])
def test_what_is_left_in_shows_in_the_weights(requests, data):
    asked = replace(BASE, requests=tuple(REQUESTS[requests]))
    _, erased = parted(data, asked.requests)
    twin, one, kept = trained(
        asked,
        data,
        Counterpart(0),
        Counterpart(0, some_of(erased, 0.01, Key.root(0))),
        Counterpart(0, erased),
    )
    assert not twin.equal(one)
    assert not one.equal(kept)


def test_each_of_a_cohort_is_as_if_trained_alone_and_the_whole_one_is_the_experiments_own(data):
    asked = replace(BASE, requests=tuple(REQUESTS["a client"]))
    wanted = [Counterpart(0, whole=True), Counterpart(3), Counterpart(3, {1: data[1].rows})]
    together = trained(asked, data, *wanted)
    for model, one in zip(together, wanted, strict=True):
        (alone,) = trained(asked, data, one)
        assert model.equal(alone)
    assert together[0].equal(run(asked).model)


def test_a_run_that_ends_before_its_erasure_is_refused(data):
    late = replace(BASE, requests=(erase(1, round=7),))
    with pytest.raises(ConfigError, match="ended before the erasure"):
        trained(late, data, Counterpart(0))


def test_counterparts_are_not_measured_on_the_way_unless_their_length_depends_on_it():
    assert quiet(BASE).setup.evaluate_every == 0
    until = replace(BASE, length=replace(BASE.length, accuracy=0.9))
    assert quiet(until) is until


def test_what_an_audit_compares_with_has_the_base_of_what_is_audited(monkeypatch):
    """A base that the seed draws: the engine has one, and what is trained on it is drawn by other seeds."""
    monkeypatch.setitem(unknot.registry.models._added, "half-frozen", half_frozen)
    asked = replace(
        Experiment.of(tomllib.loads(FILE), ["model.name=half-frozen"]), requests=[erase(1, round=3)]
    )
    audited = assemble(asked, data_of(asked))
    models = train(asked, audited.data, audited.engine, [Counterpart(seed=5), Counterpart(seed=6)])
    assert {model.layout.base for model in models} == {audited.initial.layout.base}
    assert not models[0].equal(models[1])
