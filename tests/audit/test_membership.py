"""The attacks find data that was not forgotten, and do not find data that was.

Three clients with 100 digits each, trained until every digit is known by heart; one of them leaves. All
models are trained as an audit trains them; which one is served is up to each test.
"""

from dataclasses import dataclass, field, replace

import numpy as np
import pytest
import torch
from audit_worlds import experiment, with_random_labels

from unknot.audit import ATTACKS, Figures, Shadows, Views, judged, matched
from unknot.audit.shadows import halves, joined
from unknot.audit.signals import confidence
from unknot.audit.verdict import TRACE
from unknot.core.keys import Key
from unknot.experiments.counterparts import Counterpart, erasures_of, parted, train
from unknot.experiments.simulate import assemble, data_of

NAMES = {"LiRA", "LiRA offline", "RMIA", "RMIA offline", "Shokri"}
SHADOWS, OTHERS = 12, 200


@dataclass
class World:
    asked: object
    engine: object
    points: object
    members: int
    shadows: object
    served: object
    twin: object
    controls: list
    kept: list

    seen: dict = field(default_factory=dict)

    def view(self, name, models):
        return np.stack([self.scores(name, model) for model in models])

    def scores(self, name, model):
        if (name, id(model)) not in self.seen:
            said = self.engine.predict(model, self.points)
            sure = confidence(said, self.points.y).numpy() if name == TRACE else None
            self.seen[name, id(model)] = ATTACKS[name].score(said, self.shadows) if sure is None else sure
        return self.seen[name, id(model)]

    def verdict(self, served, controls=None, kept=None):
        views = {}
        for name in (TRACE, *ATTACKS):
            given = (
                self.view(name, models) for models in (controls or self.controls[:19], kept or self.kept[:3])
            )
            views[name] = Views(self.view(name, [served])[0], *given, left=np.empty((0, len(self.points))))
        named = {TRACE if name == TRACE else ATTACKS[name].name: view for name, view in views.items()}
        return judged(named, (), self.points.y.numpy(), self.members)

    def outcomes(self, served, **others):
        return {finding.attack: finding.outcome for finding in self.verdict(served, **others).findings}


@pytest.fixture(scope="module")
def world():
    asked = experiment()
    data = data_of(asked)
    _, erased = parted(data, erasures_of(asked, data))
    members = data.train.subset(erased[1])
    mine, theirs = matched(members, data.test, Key.root(1), OTHERS)
    others = data.test.subset(theirs)
    points = joined(members.subset(mine), others)
    rows = np.concatenate([erased[1][mine], len(data.train) + np.arange(len(others))])
    fed = assemble(asked, data.replaced(train=joined(data.train, others)))
    inside = halves(SHADOWS, len(points), Key.root(2), SHADOWS * len(mine) // len(points))
    served, twin, *models = train(
        asked,
        fed.data,
        fed.engine,
        [
            Counterpart(0, whole=True),
            Counterpart(0),
            *(Counterpart(1 + k) for k in range(22)),
            *(Counterpart(100 + k, erased) for k in range(4)),
            *(Counterpart(200 + k, {1: rows[held]}) for k, held in enumerate(inside)),
        ],
    )
    answers = torch.stack([fed.engine.predict(model, points) for model in models[26:]])
    shadows = Shadows(points, len(mine), inside, answers)
    return World(asked, fed.engine, points, len(mine), shadows, served, twin, models[:22], models[22:26])


def test_what_was_kept_is_found_by_the_trace_and_by_every_attack(world):
    found = world.verdict(world.kept[3])
    assert {finding.attack for finding in found.findings} == {TRACE, *NAMES}
    assert {finding.outcome for finding in found.findings} == {"still shows"}
    assert all(finding.seen == (3, 3) for finding in found.findings)
    assert found.outcome == "still shows"
    assert found.p == pytest.approx(0.05)


def test_the_trace_sees_it_from_farther_than_any_attack(world):
    found = world.verdict(world.kept[3])
    by_name = {finding.attack: finding.deviation for finding in found.findings}
    assert by_name[TRACE] > max(by_name[name] for name in NAMES)


def test_an_exact_method_is_the_control_of_its_seed_and_is_not_found(world):
    assert world.served.equal(world.twin)
    assert set(world.outcomes(world.served).values()) == {"no trace found"}


@pytest.mark.parametrize("place", [0, 10, 19])
def test_another_control_passes(world, place):
    controls = [model for k, model in enumerate(world.controls[:20]) if k != place]
    found = world.verdict(world.controls[place], controls=controls)
    assert found.outcome == "no trace found"


def test_of_20_controls_just_one_is_the_oddest(world):
    """Each in turn among the other 19, by the trace alone."""
    seen, kept = world.view(TRACE, world.controls[:20]), world.view(TRACE, world.kept[:2])
    none = np.empty((0, len(world.points)))
    found = 0
    for i in range(20):
        view = Views(seen[i], np.delete(seen, i, axis=0), kept, none)
        test = judged({TRACE: view}, (), world.points.y.numpy(), world.members).findings[0]
        found += test.p <= 0.05
    assert found == 1


def test_what_was_unlearned_by_random_labels_is_over_forgotten(world):
    """It knows less of the samples than a model that never had them: that tells who was erased."""
    spoilt = with_random_labels(world.asked, world.kept[3])
    found = world.verdict(spoilt)
    assert found.outcome == "over-forgotten"
    assert found.findings[0].outcome == "over-forgotten"


def test_where_what_was_kept_does_not_show_nothing_else_is_said(world):
    """Controls in place of what kept the data: even a served model that did is not flagged."""
    found = world.verdict(world.kept[0], kept=world.controls[19:])
    assert {finding.outcome for finding in found.findings} == {"no power"}
    assert found.outcome == "no power"


def test_figures_by_hand():
    alike = Figures.of(np.array([1.0, 2.0, 1.0, 2.0, 3.0]), members=2)
    apart = Figures.of(np.array([4.0, 5.0, 1.0, 2.0, 3.0]), members=2, cut=3.5)
    assert apart.auc.value == 1
    assert alike.auc.value < 0.5
    assert alike.decided == {}
    assert apart.decided["f1"].value == 1
    assert apart.tpr == {0.01: None, 0.001: None}


def test_figures_are_plain_values():
    found = Figures.of(np.array([4.0, 5.0, 1.0, 2.0, 3.0]), members=2, cut=3.5).to_dict()
    assert found["auc"]["value"] == 1
    assert found["scores"] == {"members": [4, 5], "others": [1, 2, 3]}
    assert found["roc"]["tpr"][2] == 1
    assert found["tpr"] == {"0.01": None, "0.001": None}
    assert {"precision", "recall", "f1"} < set(found)


def test_the_attacks_on_offer_have_names_of_their_own():
    assert {attack.name for attack in ATTACKS.values()} == NAMES
    assert {name: attack.cut for name, attack in ATTACKS.items() if attack.cut is not None} == {"shokri": 0.5}
    assert replace(ATTACKS["rmia"], a=0.3) == ATTACKS["rmia-offline"]
