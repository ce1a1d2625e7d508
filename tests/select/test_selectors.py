"""Selectors: whom they choose by hand, what they learn, and that they forget like everything else."""

import itertools
import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from support import LAYOUT, ToyEngine, grid, serve_now, small_data, toy_federation, toy_weights
from unknot.audit import interference
from unknot.core.errors import ConfigError
from unknot.core.jobs import Job
from unknot.core.keys import Key
from unknot.core.lineage import Lineage, Unit
from unknot.core.requests import erase, join
from unknot.core.training import Recipe
from unknot.core.weights import Weights
from unknot.experiments import Experiment, prepare
from unknot.federation import Buffered, Clock, FedBuff, Pareto, Synchronous
from unknot.select import DQN, AtRandom, Balanced, DQNSettings, KCenter, Policy
from unknot.select.dqn import Experience
from unknot.select.groups import centres
from unknot.unlearn import BMT, FATS, KNOT, MMT, RFS, SISA, ExactFun, FedCIO, FedEraser

SIZES = (5, 8, 3, 6, 7, 4, 9, 2, 6, 5)
DATA = small_data(SIZES)
KEY = Key.root(0)
SELECTORS = {
    "k-center": KCenter(3),
    "balanced": Balanced(),
    "dqn": DQN(DQNSettings(batch=2, target=0.5)),
    "dqn by a round": DQN(DQNSettings(batch=2, target=0.5, next="max", meeting="round")),
}
APART = [name for name in SELECTORS if name != "dqn by a round"]
"""Those who meet clients apart from the rounds."""


def update(client: int, step: list[float], samples: int = 5):
    job = Job(Unit(client), toy_weights(), KEY, Recipe())
    vector = torch.zeros(LAYOUT.size)
    vector[: len(step)] = torch.tensor(step)
    return job.done(job.start.vector + vector, samples, 0.1)


# K-Center ----------------------------------------------------------------------------------------


def test_groups_are_those_of_the_nearest_centre():
    """Three heaps on a line: whoever is drawn first, the farthest two heaps give the other centres."""
    points = {0: 0.0, 1: 0.1, 2: 10.0, 3: 10.1, 4: -7.0, 5: -7.1}
    vectors = {c: np.asarray([x], dtype=np.float32) for c, x in points.items()}
    for seed in range(6):
        group = centres(vectors, 3, Key.root(seed))
        assert [group[0] == group[1], group[2] == group[3], group[4] == group[5]] == [True] * 3
        assert len(set(group.values())) == 3


@given(
    st.lists(st.tuples(st.integers(-9, 9), st.integers(-9, 9)), min_size=2, max_size=7),
    st.integers(1, 3),
    st.integers(0, 99),
)
def test_nobody_is_farther_than_twice_the_best_possible(places, groups, seed):
    """Gonzalez' bound: the diameter of a group is at most four times the best radius; here by brute force."""
    groups = min(groups, len(places))
    points = np.asarray(places, dtype=np.float64)
    group = centres({i: p.astype(np.float32) for i, p in enumerate(points)}, groups, Key.root(seed))
    distance = np.linalg.norm(points[:, None] - points[None], axis=2)
    best = min(
        distance[list(some)].min(axis=0).max() for some in itertools.combinations(range(len(points)), groups)
    )
    apart = max(distance[i, j] for i in group for j in group if group[i] == group[j])
    assert apart <= 4 * best + 1e-6


def test_one_client_of_each_group_is_chosen():
    selector = KCenter(3)
    updates = [update(c, [10.0 * (c % 3), 0.1 * c]) for c in range(9)]
    selector.meet(toy_weights(), updates, KEY)
    for turn in range(20):
        chosen = selector.choose(np.arange(9), 3, KEY.child(turn))
        assert sorted(int(c) % 3 for c in chosen) == [0, 1, 2]
    seen = {int(c) for turn in range(60) for c in selector.choose(np.arange(9), 3, KEY.child(turn))}
    assert seen == set(range(9))
    assert selector.choose(np.arange(9), 20, KEY).tolist() == list(range(9))
    assert len(selector.choose(np.asarray([0, 3, 6, 1]), 3, KEY)) == 3  # fewer groups than seats


# The network -------------------------------------------------------------------------------------


def test_a_learning_step_goes_towards_the_double_dqn_target():
    """r + γ · target(s')[argmax policy(s')], of the asked client alone, by hand; one plain gradient."""
    settings = DQNSettings(hidden=(4,), discount=0.5, lr=0.01, renew=1000)
    policy = Policy([3, 5, 8], settings, KEY)
    with torch.no_grad():
        for p in policy.target.parameters():
            p.mul_(-1.5)
    s, t = torch.tensor([0.1, -0.2, 0.3]), torch.tensor([0.5, 0.4, -0.1])
    best = int(policy.values(t).argmax())
    wanted = 2.0 + 0.5 * policy.target(t)[best].item()
    before = policy.values(s)[1].item()
    others = policy.values(s)[[0, 2]].detach().clone()
    loss = policy.learn([Experience(s, 5, 2.0, t)])
    assert loss == pytest.approx((wanted - before) ** 2, rel=1e-5)
    assert abs(policy.values(s)[1].item() - wanted) < abs(before - wanted)
    assert (policy.values(s)[[0, 2]] - others).abs().max() < abs(policy.values(s)[1].item() - before)


def test_the_printed_target_is_the_greatest_value_of_the_target_network():
    """r + γ max target(s'), by hand, where the policy would have chosen another."""
    settings = DQNSettings(hidden=(4,), discount=0.5, renew=1000, next="max")
    policy = Policy([3, 5, 8], settings, KEY)
    with torch.no_grad():
        for p in policy.target.parameters():
            p.mul_(-1.5)
    s, t = torch.tensor([0.1, -0.2, 0.3]), torch.tensor([0.5, 0.4, -0.1])
    assert policy.values(t).argmax() != policy.target(t).argmax()
    wanted = 2.0 + 0.5 * policy.target(t).max().item()
    before = policy.values(s)[1].item()
    assert policy.learn([Experience(s, 5, 2.0, t)]) == pytest.approx((wanted - before) ** 2, rel=1e-5)


def test_the_state_is_the_cosine_with_the_model_before_aggregation():
    """A step of (1, 1) from the model (3, 4): 7 / (5 · √2), whatever the model has become."""
    selector = DQN(DQNSettings(batch=2))
    sent = Weights(torch.tensor([3.0, 4.0] + [0.0] * (LAYOUT.size - 2)), LAYOUT)
    job = Job(Unit(0), sent, KEY, Recipe())
    vector = sent.vector.clone()
    vector[:2] += 1
    selector.meet(sent, [update(0, [1.0]), update(1, [1.0])], KEY)
    selector.observe(Weights(-sent.vector, LAYOUT), [job.done(vector, 5, 0.1)], 0.5, KEY)
    assert selector._state[0] == pytest.approx(7 / (5 * 2**0.5))


def test_the_first_state_can_come_of_a_whole_round_that_counts():
    """Everybody is asked as in any round, what they bring is aggregated, and nobody trains apart."""
    select = DQN(DQNSettings(batch=2, meeting="round"))
    for pace in (Synchronous(3), Buffered(4, 2)):
        options = {"pace": pace, "select": select, "recipe": Recipe(epochs=3), "clock": Clock(Pareto())}
        fed = toy_federation(RFS(), DATA, **options)
        history = fed.run(2)
        first, second = fed.engine.calls
        assert [job.client for job in first] == list(range(10))
        assert {job.recipe.epochs for job in first} == {3}
        assert history.rounds[0].clients == tuple(range(10))
        assert not history.apart
        assert len(second) < 10
        assert not second[0].start.equal(fed.initial)
        selector = fed.lanes["global"].selector
        assert not selector.curious
        assert selector.lineage.clients == frozenset(range(10))


def test_what_a_first_state_comes_of_must_be_one_that_there_is():
    for wrong in ({"meeting": "rounds"}, {"next": "mean"}):
        with pytest.raises(ConfigError, match="is not one that there is"):
            DQNSettings(**wrong)


@pytest.mark.parametrize(
    "wrong",
    [
        {"target": math.nan},
        {"target": math.inf},
        {"target": "high"},
        {"sensitivity": math.inf},
        {"sensitivity": math.nan},
        {"sensitivity": 0.0},
        {"sensitivity": 1.0},
        {"memory": 7},  # less than a batch
        {"sensitivity": 1e9},
        {"epsilon": math.nan},
        {"epsilon": 2.0},
        {"discount": -0.1},
        {"lr": 1e30},
        {"lr": math.nan},
        {"lr": 0.0},
        {"hidden": (0,)},
        {"hidden": (8, -1)},
        {"hidden": 8},
        {"hidden": (2.5,)},
        {"memory": 0},
        {"memory": math.inf},
        {"batch": 1.5},
        {"renew": 0},
        {"components": 0},
    ],
    ids=str,
)
def test_settings_of_the_network_that_make_no_sense_are_refused_by_their_names(wrong):
    (name,) = wrong
    with pytest.raises(ConfigError, match=rf"^DQN: {name}\b"):
        DQNSettings(**wrong)
    with pytest.raises(ConfigError, match=rf"^select\.{name}\b"):
        Experiment.of({"select": {"name": "dqn", name: as_in_a_file(wrong[name])}})


def as_in_a_file(value):
    return list(value) if isinstance(value, tuple) else value


def test_a_target_that_a_share_cannot_reach_is_refused():
    for target in (90.0, -0.1):
        with pytest.raises(ConfigError, match=rf"DQN: target = {target} is .*accuracy, .*between 0 and 1"):
            toy_federation(RFS(), DATA, select=DQN(target=target))
    table = {"data": {"clients": 4}, "select": {"name": "dqn", "target": 90}}
    with pytest.raises(ConfigError, match=r"^select\.target = 90\.0 is compared with the accuracy"):
        prepare(Experiment.of(table))
    by_loss = {**table, "select": {"name": "dqn", "target": -2.5}, "task": {"metrics": ["loss"]}}
    assert prepare(Experiment.of(by_loss)).lanes is not None


def test_the_network_takes_its_settings_by_name():
    assert DQN(target=0.5, batch=2).settings == DQNSettings(target=0.5, batch=2)
    assert DQN(DQNSettings(hidden=(4,), target=0.5), target=0.7).settings == DQNSettings((4,), target=0.7)
    assert DQN(target=0.5).fresh().settings.target == 0.5
    with pytest.raises(ConfigError, match=r"DQN\.tarjet.*target"):
        DQN(tarjet=0.5)
    with pytest.raises(ConfigError, match="settings are DQNSettings, not 'x'"):
        DQN(settings="x")


@pytest.mark.parametrize("groups", [math.nan, 1.5, "x", 0, None])
def test_groups_are_a_whole_number(groups):
    with pytest.raises(ConfigError, match=r"^KCenter: groups must be"):
        KCenter(groups)


def test_less_than_one_as_a_base_of_rewards_is_finite_too():
    assert math.isfinite(DQNSettings(sensitivity=0.5, target=0.0).reward(-1e6))


def test_rewards_are_the_papers():
    assert DQNSettings(target=0.9).reward(0.9) == 0.0
    assert DQNSettings(target=0.5).reward(1.0) == pytest.approx(7.0)  # 64^0.5 - 1
    assert DQNSettings(target=0.75).reward(0.25) == pytest.approx(-0.875)  # 64^-0.5 - 1


def test_it_finds_the_best_subset_of_a_toy_environment():
    """Of ten clients three are worth asking: accuracy is the share of them among those asked."""
    good = {1, 4, 8}
    selector = DQN(DQNSettings(target=0.5, epsilon=0.3))
    model = Weights(torch.ones(LAYOUT.size), LAYOUT)
    selector.meet(model, [update(c, [1.0 if c in good else -1.0, 0.3 * c]) for c in range(10)], KEY)
    for turn in range(1000):
        key = KEY.child(turn)
        chosen = [int(c) for c in selector.choose(np.arange(10), 3, key)]
        found = [update(c, [1.0 if c in good else -1.0, 0.3 * c]) for c in chosen]
        selector.observe(model, found, len(good & set(chosen)) / 3, key)
    values = selector.policy.rate(selector._seen())
    assert set(sorted(values, key=values.get)[-3:]) == good


def test_principal_components_tell_apart_what_differs():
    """Two kinds of clients that differ along one axis: the first component is that axis, up to its sign."""
    selector = DQN(DQNSettings(components=2, batch=2))
    updates = [update(c, [3.0 if c % 2 else -3.0, 0.01 * c]) for c in range(6)]
    selector.meet(toy_weights(), updates, KEY)
    basis = selector.policy.basis
    assert basis.shape == (6, 2)
    assert (basis.T @ basis - torch.eye(2)).abs().max() < 1e-5
    kinds = torch.tensor([-1.0, 1.0] * 3) / 6**0.5
    assert abs(float(kinds @ basis[:, 0])) > 0.999
    selector.choose(np.arange(6), 3, KEY)
    selector.observe(toy_weights(), updates[:3], 0.9, KEY)
    assert next(selector.policy.values.parameters()).shape == (8, 2)
    with pytest.raises(ConfigError, match="components"):
        DQNSettings(components=0)


def test_a_policy_is_saved_with_its_lineage_and_loaded(tmp_path):
    policy = Policy([2, 4], DQNSettings(hidden=(3,)), KEY)
    policy.lineage = Lineage([Unit(2), Unit(4, 1)])
    policy.save(tmp_path / "policy.safetensors")
    again = Policy.load(tmp_path / "policy.safetensors")
    state = torch.tensor([0.3, -0.7])
    assert again.rate(state) == policy.rate(state)
    assert set(again.lineage) == {Unit(2), Unit(4)}  # as any run's first erasure of theirs finds it
    with pytest.raises(ConfigError, match="hidden layers"):
        Policy.load(tmp_path / "policy.safetensors", DQNSettings(hidden=(8,)))
    with pytest.raises(ConfigError, match="cannot read"):
        Policy.load(tmp_path / "nothing.safetensors")


# Balanced ----------------------------------------------------------------------------------------


def rounds_of(selector, clients, k, rounds):
    idle = np.arange(clients)
    return [selector.choose(idle, k, KEY.child("round", i)).tolist() for i in range(rounds)]


@given(st.integers(2, 30), st.integers(1, 30), st.integers(0, 99))
def test_everybody_is_asked_once_before_anybody_twice(clients, k, seed):
    draws = np.random.default_rng(seed).normal(size=(clients, 3))
    selector = Balanced()
    selector.meet(toy_weights(), [update(i, step.tolist()) for i, step in enumerate(draws)], KEY)
    asked = np.zeros(clients, dtype=int)
    for chosen in rounds_of(selector, clients, k, 12):
        assert len(chosen) == len(set(chosen)) == min(k, clients)
        asked[chosen] += 1
        assert asked.max() - asked.min() <= 1


def test_every_round_has_one_of_each_kind():
    """Four kinds of clients, three of each: whoever is drawn first, a round of four has all kinds."""
    kinds = [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0], [-1.0, -1.0, -1.0]]
    selector = Balanced()
    selector.meet(toy_weights(), [update(client, kinds[client % 4]) for client in range(12)], KEY)
    for chosen in rounds_of(selector, 12, 4, 9):
        assert {client % 4 for client in chosen} == {0, 1, 2, 3}


def test_a_client_counts_by_its_samples():
    """One of 9 samples that steps up against two of 3 that step down: their mean is 0.2."""
    selector = Balanced()
    steps = [update(0, [1.0], 9), update(1, [-1.0], 3), update(2, [-1.0], 3)]
    selector.meet(toy_weights(), steps, KEY)
    apart = np.array([9 * 0.8, 3 * -1.2, 3 * -1.2])
    assert selector._pairs == pytest.approx(np.outer(apart, apart), abs=1e-4)


def test_rounds_are_far_closer_to_the_whole_than_drawn_ones():
    draws = np.random.default_rng(0).normal(size=(60, 4))
    selector = Balanced()
    selector.meet(toy_weights(), [update(i, step.tolist()) for i, step in enumerate(draws)], KEY)

    def distance(rounds):
        return np.mean([np.sum((draws[chosen].mean(0) - draws.mean(0)) ** 2) for chosen in rounds])

    assert distance(rounds_of(selector, 60, 6, 40)) < 0.2 * distance(rounds_of(AtRandom(), 60, 6, 40))


def test_a_newcomer_is_asked_at_once_and_then_like_the_others():
    selector = Balanced()
    selector.meet(toy_weights(), [update(client, [float(client)]) for client in range(20)], KEY)
    rounds_of(selector, 20, 4, 50)
    asked = rounds_of(selector, 21, 4, 42)
    assert 20 in asked[0]
    assert 7 <= sum(20 in chosen for chosen in asked) <= 9


# In a federation ---------------------------------------------------------------------------------


@pytest.mark.parametrize("name", APART)
def test_everybody_is_met_before_the_first_choice(name):
    """One epoch each, from the lane's model; timed by the slowest, counted, and no round of training."""
    clock = Clock(Pareto())
    fed = toy_federation(
        RFS(), DATA, pace=Synchronous(3), clock=clock, select=SELECTORS[name], recipe=Recipe(epochs=3)
    )
    history = fed.run(2)
    first = fed.engine.calls[0]
    assert [job.client for job in first] == list(range(10))
    assert {job.recipe.epochs for job in first} == {1}
    assert all(len(call) == 3 for call in fed.engine.calls[1:])
    assert fed.costs.jobs == 16
    slowness = fed.state.key.child("slowness")
    slowest = max(clock.duration(c, SIZES[c], slowness) for c in range(10)) / 1e9
    assert max(trip.ended for trip in history.apart) == pytest.approx(slowest)
    assert min(trip.launched for trip in history.rounds[0].trips) == pytest.approx(slowest)


RESTARTED = {"rfs": RFS(), "fedcio": FedCIO(3), "knot": KNOT(3, by="random")}


@pytest.mark.parametrize(
    ("name", "when", "method", "what"),
    grid(SELECTORS, ["always", "unlearning"], RESTARTED, ([1, 4, 7], {6: [0, 3]}, 4)),
)
def test_whom_it_asks_does_not_depend_on_the_erased_data(name, when, method, what):
    """After one request, and after another that the first made the selector's business.

    On a clock that everybody takes alike: who is asked takes its time, and clusters do not wait.
    """
    requests = [erase(2, round=2), erase(what, round=5)]
    options = {"pace": Synchronous(6), "clock": Clock(seconds_per_sample=1e-12, latency=0.03)}

    def served(data):
        fed = toy_federation(RESTARTED[method], data, select=SELECTORS[name], select_when=when, **options)
        fed.run(8, requests=requests)
        return fed.model

    assert interference(served, DATA, [target for r in requests for target in r.targets]).none


@pytest.mark.parametrize("method", [BMT(), MMT(), SISA(), KNOT(3, by="random", retrain=BMT())])
def test_where_models_outlive_a_request_the_guarantee_names_what_the_selector_knew(method):
    """Who trained them was chosen with the erased client's updates in mind: the run says so."""

    def guarantee(select):
        return toy_federation(method, DATA, pace=Synchronous(6), select=select).run(1).guarantee

    assert guarantee(AtRandom()) == "exact"
    for selector in SELECTORS.values():
        assert guarantee(selector).startswith("exact, but for whom the selector asked")
    for clean in (RFS(), FedCIO(3), KNOT(3, by="random")):
        assert toy_federation(clean, DATA, select=Balanced()).run(1).guarantee == "exact"


@pytest.mark.parametrize("name", SELECTORS)
def test_after_an_erasure_it_is_that_of_a_federation_that_never_had_the_client(name):
    fed = toy_federation(RFS(), DATA, pace=Synchronous(4), select=SELECTORS[name])
    fed.run(8, requests=[erase(4, round=3)])
    rest = DATA.fork()
    rest.erase(4)
    twin = toy_federation(
        RFS(),
        rest.replaced(shards={c: rest[c] for c in range(10) if c != 4}),
        pace=Synchronous(4),
        select=SELECTORS[name],
    )
    twin.run(5)
    assert fed.model.equal(twin.model)


@pytest.mark.parametrize("name", SELECTORS)
def test_what_it_has_seen_is_dropped_with_the_erased_client(name):
    fed = toy_federation(FedEraser(interval=1), DATA, pace=Synchronous(4), select=SELECTORS[name])
    fed.run(4)
    old = fed.lanes["global"].selector
    assert 4 in {unit.client for unit in old.lineage}
    serve_now(fed, erase(4, round=4))
    new = fed.lanes["global"].selector
    assert new is not old
    assert not new.lineage


@pytest.mark.parametrize("name", SELECTORS)
def test_clusters_have_selectors_of_their_own_and_do_not_notice_a_request(name):
    options = {"pace": Buffered(9, 6, 3), "aggregate": FedBuff(), "clock": Clock(Pareto())}
    method = KNOT(clusters=3, by="random")
    quiet, disturbed = (toy_federation(method, DATA, select=SELECTORS[name], **options) for _ in range(2))
    calm = quiet.run(6)
    noisy = disturbed.run(6, requests=[erase(4, time=0.2)])
    (hit,) = noisy.served[0].restarted
    for lane in quiet.lanes:
        if lane != hit:
            assert quiet.lanes[lane].model.equal(disturbed.lanes[lane].model)
            times = [[r.time for r in h.rounds if r.lane == lane] for h in (calm, noisy)]
            assert times[0] == times[1]
        seen = {unit.client for unit in quiet.lanes[lane].selector.lineage}
        assert seen <= quiet.lanes[lane].members


@pytest.mark.parametrize("name", SELECTORS)
def test_newcomers_are_asked_too(name):
    fed = toy_federation(RFS(), DATA, pace=Synchronous(4), select=SELECTORS[name])
    history = fed.run(25, requests=[join(9, round=2)])
    assert any(9 in record.clients for record in history.rounds)


@pytest.mark.parametrize("name", APART)
def test_after_an_erasure_that_leaves_others_in_flight_everybody_is_met_again(name):
    """BMT goes on from what is left, asynchronously: those who are out come back first."""
    options = {"pace": Buffered(6, 3), "aggregate": FedBuff(), "clock": Clock(Pareto())}
    fed = toy_federation(BMT(), DATA, select=SELECTORS[name], **options)
    fed.run(12, requests=[erase(4, round=4)])
    meetings = [call for call in fed.engine.calls if call and call[0].node == "meet"]
    assert [len(call) for call in meetings] == [10, 9]
    assert not fed.lanes["global"].selector.curious
    assert 4 not in {unit.client for unit in fed.lanes["global"].selector.lineage}


def test_a_learned_policy_goes_on_and_is_refused_once_it_is_tainted(tmp_path):
    file = tmp_path / "policy.safetensors"
    first = toy_federation(RFS(), DATA, pace=Synchronous(4), select=SELECTORS["dqn"])
    first.run(6)
    first.lanes["global"].selector.policy.save(file)
    learned = Policy.load(file, SELECTORS["dqn"].settings)
    patient = DQN(DQNSettings(batch=64), learned)
    second = toy_federation(RFS(), DATA, pace=Synchronous(4), select=patient)
    second.run(1)
    mine = second.lanes["global"].selector.policy
    state = torch.zeros(10)
    assert mine.rate(state) == learned.rate(state)  # not yet enough experience to learn from
    serve_now(second, erase(4, round=1))
    assert second.lanes["global"].selector.policy is None
    others = DQN(DQNSettings(), Policy([0, 1, 2], DQNSettings(), KEY))
    with pytest.raises(ConfigError, match=r"without clients \[3, 4, 5, 6, 7\]"):
        toy_federation(RFS(), DATA, pace=Synchronous(4), select=others).run(1)


@pytest.mark.parametrize("name", APART)
def test_where_nobody_has_anything_to_show_the_run_goes_on(name):
    """Clients without samples are met with nothing; who is asked is then drawn."""
    empty = small_data((0, 0, 0, 0))
    history = toy_federation(RFS(), empty, pace=Synchronous(2), select=SELECTORS[name]).run(3)
    assert [len(record.clients) for record in history.rounds] == [2, 2, 2]
    some = toy_federation(RFS(), small_data((0, 4, 0, 5)), pace=Synchronous(2), select=SELECTORS[name])
    some.run(6, requests=[erase([1, 3], round=3)])
    assert some.model.equal(some.initial)


@pytest.mark.parametrize("name", APART)
@pytest.mark.parametrize("method", [RFS(), BMT(), FedEraser(interval=1)])
def test_a_selector_for_the_unlearning_leaves_the_training_as_it_was(name, method):
    plain = toy_federation(method, DATA, pace=Synchronous(4))
    late = toy_federation(method, DATA, pace=Synchronous(4), select=SELECTORS[name], select_when="unlearning")
    before, after = plain.run(5), late.run(5)
    assert plain.model.equal(late.model)
    assert [r.clients for r in before.rounds] == [r.clients for r in after.rounds]
    assert not late.work.apart
    gone = before.rounds[0].clients[0]
    serve_now(late, erase(gone, round=5))
    late.run(5)
    assert isinstance(late.lanes["global"].selector, type(SELECTORS[name]))
    assert {trip.client for trip in late.work.apart} == set(range(10)) - {gone}


def test_only_the_cluster_that_unlearns_gets_a_selector_for_it():
    fed = toy_federation(
        KNOT(clusters=3, by="random"), DATA, pace=Synchronous(9), select=KCenter(2), select_when="unlearning"
    )
    (hit,) = fed.run(8, requests=[erase(4, round=5)]).served[0].restarted
    kinds = {name: type(lane.selector) for name, lane in fed.lanes.items()}
    assert kinds == {name: KCenter if name == hit else AtRandom for name in fed.lanes}


def test_a_selector_serves_always_or_the_unlearning():
    assert (
        Experiment.of({"select": {"name": "k-center", "when": "unlearning"}}).setup.select_when
        == "unlearning"
    )
    with pytest.raises(ConfigError, match="select_when"):
        toy_federation(RFS(), DATA, select_when="sometimes")


def test_selected_clients_calibrate_if_so_asked():
    kept, selected = (
        toy_federation(FedEraser(interval=1, calibrate=by), DATA, pace=Synchronous(3))
        for by in ("kept", "selected")
    )
    gone = toy_federation(RFS(), DATA, pace=Synchronous(3)).run(1).rounds[0].clients[0]
    for fed in (kept, selected):
        fed.run(6, requests=[erase(gone, round=3)])
    rounds = [[r.clients for r in fed.history.rounds] for fed in (kept, selected)]
    assert [set(b) == set(a) - {gone} for a, b in zip(rounds[0][:3], rounds[0][3:], strict=True)] == [
        True
    ] * 3
    assert all(len(clients) == 3 for clients in rounds[1])
    with pytest.raises(ConfigError, match="calibrate"):
        FedEraser(calibrate="some")


def test_who_draws_its_clients_itself_takes_no_selector():
    for method in (ExactFun(), FATS()):
        with pytest.raises(ConfigError, match="draws its clients itself"):
            toy_federation(method, DATA, select=KCenter())
    with pytest.raises(ConfigError, match="validation"):
        toy_federation(RFS(), DATA.replaced(validation=None), select=DQN())


def test_selectors_are_read_from_a_file(tmp_path):
    assert isinstance(Experiment.of({}).setup.select, AtRandom)
    assert Experiment.of({"select": {"name": "k-center", "groups": 4}}).setup.select == KCenter(4)
    assert isinstance(Experiment.of({"select": {"name": "balanced"}}).setup.select, Balanced)
    made = Experiment.of({"select": {"name": "dqn", "epsilon": 0.2, "hidden": [8, 16]}}).setup.select
    assert made.settings == DQNSettings(hidden=(8, 16), epsilon=0.2)
    Policy([0, 1], DQNSettings(), KEY).save(tmp_path / "p.safetensors")
    assert Experiment.of(
        {"select": {"name": "dqn", "policy": str(tmp_path / "p.safetensors")}}
    ).setup.select.policy.clients == (0, 1)
    for wrong in (
        {"name": "k-centre"},
        {"groups": 3},
        {"name": "dqn", "epsilon": 2},
        {"name": "k-center", "k": 1},
    ):
        with pytest.raises(ConfigError):
            Experiment.of({"select": wrong})


def test_a_meeting_reads_no_erased_sample():
    """The tripwire of the data: erased shards raise when they are read."""
    engine = ToyEngine()
    fed = toy_federation(RFS(), DATA, engine, pace=Synchronous(4), select=KCenter(3))
    fed.run(6, requests=[erase(4, round=3)])
    meetings = [call for call in engine.calls if call and call[0].node == "meet"]
    assert [4 in {job.client for job in call} for call in meetings] == [True, False]
