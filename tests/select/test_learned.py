"""The selector that has learned on other clients: whom it asks by hand, what it knows, what it forgets."""

import json
import math

import numpy as np
import pytest
import torch

from support import LAYOUT, small_data, toy_federation, toy_weights
from unknot.core.errors import ConfigError
from unknot.core.jobs import Job
from unknot.core.keys import Key
from unknot.core.lineage import NOBODY, Unit
from unknot.core.requests import erase, join
from unknot.core.saved import clients_of
from unknot.core.training import Recipe
from unknot.experiments import Experiment
from unknot.federation import Clock, Pareto, Synchronous
from unknot.select import Learned, Scorer
from unknot.select.learned import COMPANY, COURSE, FACTS, INPUTS, shipped
from unknot.unlearn import RFS

KEY = Key.root(0)
SURE = 1e9
"""So sharp that luck has no part in it."""
WIDTH = len(FACTS) + len(COURSE)


def scorer(lineage=NOBODY, **weights):
    """One layer that adds up some of what it looks at."""
    matrix = np.zeros((INPUTS, 1))
    for name, weight in weights.items():
        name = name.replace("_", " ")
        own = [*FACTS, *COURSE]
        matrix[own.index(name) if name in own else 2 * WIDTH + COMPANY.index(name)] = weight
    return Scorer(((matrix, np.zeros(1)),), lineage)


def update(client, step, samples=5, loss=0.1):
    job = Job(Unit(client), toy_weights(), KEY, Recipe())
    vector = torch.zeros(LAYOUT.size)
    vector[: len(step)] = torch.tensor(step)
    return job.done(job.start.vector + vector, samples, loss)


def acquainted(selector, updates, seconds=None):
    selector.watch(updates, seconds or {u.client: 1.0 for u in updates})
    selector.meet(toy_weights(), updates, KEY)
    return selector


def test_facts_are_those_of_the_steps_by_hand():
    """Steps (3, 4), (0, 2), (1, 0) of 1, 2, 1 samples; the others' sums are (1, 4), (4, 4), (3, 8)."""
    found = acquainted(
        Learned(scorer()), [update(0, [3.0, 4.0], 1), update(1, [0.0, 2.0], 2), update(2, [1.0, 0.0], 1)]
    )
    lengths = np.log([5.0, 2.0, 1.0])
    accord = np.asarray([19 / (5 * 17**0.5), 4 / 32**0.5, 3 / 73**0.5])
    for place, told in ((FACTS.index("length"), lengths), (FACTS.index("accord"), accord)):
        apart = told - np.median(told)
        wanted = np.clip(apart / (1.4826 * np.median(np.abs(apart))), -4, 4)
        assert found._facts[:, place] == pytest.approx(wanted, abs=1e-4)


def test_a_round_is_compared_with_its_own_median():
    selector = acquainted(Learned(scorer()), [update(c, [1.0, float(c)]) for c in range(5)])
    selector.watch([update(0, [1.0], loss=0.2), update(1, [2.0], loss=0.5), update(3, [1.0], loss=2.5)], {})
    assert selector._facts[:, FACTS.index("loss now")] == pytest.approx([-0.3, 0, 0, 2.0, 0])
    assert selector._facts[1, FACTS.index("length now")] == pytest.approx(np.log(2))


def test_the_fastest_are_asked_where_only_time_counts():
    seconds = {c: float(s) for c, s in enumerate([5, 1, 4, 2, 8, 3])}
    updates = [update(c, [1.0, 0.1 * c]) for c in range(6)]
    selector = acquainted(Learned(scorer(seconds=-1.0), SURE), updates, seconds)
    assert selector.choose(np.arange(6), 3, KEY).tolist() == [1, 3, 5]


def test_who_is_in_already_counts():
    """Two kinds of clients: where being alike is bad, the second is of the other kind."""
    updates = [update(c, [1.0, 0.0] if c % 2 else [0.0, 1.0]) for c in range(6)]
    for turn in range(8):
        selector = acquainted(Learned(scorer(alike=-1.0), SURE), updates)
        chosen = selector.choose(np.arange(6), 2, KEY.child(turn))
        assert sorted(int(c) % 2 for c in chosen) == [0, 1]


def test_it_knows_clients_by_what_they_send_and_not_by_their_numbers():
    steps = np.random.default_rng(0).normal(size=(8, 4))
    moved = np.asarray([40, 3, 17, 25, 8, 31, 2, 11])
    for network in (shipped(), scorer(accord=1.0, alike=-0.5, length=0.2)):
        plain = acquainted(Learned(network, SURE), [update(c, steps[c].tolist()) for c in range(8)])
        other = acquainted(
            Learned(network, SURE), [update(int(moved[c]), steps[c].tolist()) for c in range(8)]
        )
        first = plain.choose(np.arange(8), 3, KEY)
        assert set(other.choose(np.sort(moved), 3, KEY).tolist()) == set(moved[first].tolist())


def test_a_network_that_says_nothing_draws_everybody_alike():
    updates = [update(c, [1.0, float(c)]) for c in range(6)]
    selector = acquainted(Learned(scorer()), updates)
    asked = np.zeros(6)
    for turn in range(600):
        asked[selector.choose(np.arange(6), 2, KEY.child(turn))] += 1
    assert asked.sum() == 1200
    assert np.abs(asked - 200).max() < 50  # 200 ± 11.5 each


def test_a_newcomer_is_asked_at_once_and_once_only():
    selector = acquainted(Learned(scorer(asked=-1.0), SURE), [update(c, [1.0, float(c)]) for c in range(6)])
    rounds = [selector.choose(np.arange(7), 2, KEY.child(i)).tolist() for i in range(7)]
    assert 6 in rounds[0]
    assert sum(6 in chosen for chosen in rounds) == 2  # 14 seats for seven


def test_how_long_clients_take_is_what_the_clock_says():
    clock = Clock(Pareto(), latency=0.2)
    sizes = (5, 8, 3, 6, 7)
    fed = toy_federation(RFS(), small_data(sizes), pace=Synchronous(2), clock=clock, select=Learned())
    fed.run(2)
    slowness = fed.key.child("slowness")
    wanted = [clock.duration(c, n, slowness) / 1e9 for c, n in enumerate(sizes)]
    selector = fed.lanes["global"].selector
    assert selector._seconds == pytest.approx(wanted)
    assert selector._rounds == 2
    assert selector._asked.sum() == 4


def test_it_needs_no_validation_data():
    fed = toy_federation(
        RFS(), small_data((5, 8, 3, 6)).replaced(validation=None), pace=Synchronous(2), select=Learned()
    )
    assert len(fed.run(2).rounds) == 2


def test_a_network_that_learned_from_the_erased_client_is_dropped():
    """It names whom it learned from; ours, which nobody here had a part in, takes its place."""
    mine = scorer(clients_of([1, 3]), seconds=-1.0)
    data = small_data((5, 8, 3, 6, 7, 4))
    fed = toy_federation(RFS(), data, pace=Synchronous(3), select=Learned(mine))
    fed.run(4, requests=[erase(0, round=2)])
    assert fed.lanes["global"].selector.scorer.lineage.clients == {1, 3}
    fed.run(2, requests=[erase(3, round=5)])
    assert fed.lanes["global"].selector.scorer.lineage == NOBODY
    assert fed.lanes["global"].selector.scorer.trained == shipped().trained


def test_a_scorer_is_saved_and_loaded(tmp_path):
    file = tmp_path / "scorer.json"
    mine = scorer(clients_of([2]), seconds=-1.23456, loss=0.5)
    mine.save(file)
    again = Scorer.load(file)
    looked = np.random.default_rng(0).normal(size=(3, INPUTS))
    assert again.rate(looked) == pytest.approx(mine.rate(looked), rel=1e-5)
    assert again.lineage.clients == {2}
    made = Experiment.of({"select": {"name": "learned", "scorer": str(file), "sharpness": 2.0}}).setup.select
    assert made.scorer.lineage.clients == {2}
    assert made.sharpness == 2.0
    assert Experiment.of({"select": {"name": "learned"}}).setup.select.scorer is shipped()


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("{", "no JSON"),
        ("[]", "not a saved scorer"),
        ('{"kind": "policy"}', "kind 'policy'"),
        ('{"kind": "whom to ask"}', "lacks 'layers'"),
        (
            '{"kind": "whom to ask", "layers": [[[[1.0]], [0.0]]], "lineage": [], "trained": {}}',
            "numbers to one",
        ),
        ('{"kind": "whom to ask", "layers": [], "lineage": [], "trained": {}}', "numbers to one"),
    ],
)
def test_what_is_no_scorer_is_refused(tmp_path, content, said):
    file = tmp_path / "x.json"
    file.write_text(content)
    with pytest.raises(ConfigError, match=said):
        Scorer.load(file)
    with pytest.raises(ConfigError, match="leave it out"):
        Experiment.of({"select": {"name": "learned", "scorer": str(file)}})


def test_a_file_that_is_not_there_and_a_wrong_sharpness_are_refused(tmp_path):
    with pytest.raises(ConfigError, match="cannot read"):
        Scorer.load(tmp_path / "nothing.json")
    for sharpness in (0.0, math.inf, math.nan, 1e308, "x"):
        with pytest.raises(ConfigError, match=r"^Learned: sharpness must be"):
            Learned(scorer(), sharpness)
    for wrong in ("ours", None):
        with pytest.raises(ConfigError, match="scorer is a Scorer, not"):
            Learned(wrong)


def test_ours_says_how_it_was_trained():
    trained = shipped().trained
    assert trained["by"] == "python -m benchmarks.selection_training"
    assert trained["trainings in all"] > 0
    assert trained["commit"]
    assert json.dumps(trained)


def test_a_member_that_joins_and_one_that_holds_nothing_are_no_trouble():
    data = small_data((5, 8, 0, 6, 7, 4))
    fed = toy_federation(RFS(), data, pace=Synchronous(3), select=Learned())
    history = fed.run(6, requests=[join(4, round=2), erase(0, round=3)])
    assert all(len(record.clients) == 3 for record in history.rounds)
