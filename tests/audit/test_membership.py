"""The attacks find data that was not forgotten, and do not find data that was.

Three clients with 100 digits each, trained until every digit is known by heart; the first one leaves.
"""

from dataclasses import dataclass

import numpy as np
import pytest

import unknot
from support import ToyEngine, small_data, toy_weights
from unknot.audit import RMIA, Curve, Figures, Finding, LiRA, Shokri, membership, train_shadows
from unknot.core.keys import Key
from unknot.core.recipe import SGD, Recipe
from unknot.core.weights import Weights
from unknot.experiments.audited import central
from unknot.models import build

ROUNDS = 60
RECIPE = Recipe(SGD(0.05), epochs=2, batch_size=10)
KEY = Key.root(9)


def federation(data, seed=0, model="mlp"):
    return unknot.simulate(model, data, recipe=RECIPE, seed=seed, evaluate_every=0)


@dataclass
class World:
    data: object
    without: object
    engine: object
    shadows: object
    kept: object
    control: object

    def look(self, served):
        found = membership(self.engine, self.shadows, served, self.control, self.kept, KEY)
        return {finding.attack: finding for finding in found}


@pytest.fixture(scope="module")
def world():
    data = unknot.federate(unknot.load("digits"), unknot.Iid(clients=3, samples=100), key=0, validation=50)
    without = data.fork()
    without.erase(0)
    fed = federation(data)
    kept = fed.run(ROUNDS).model
    shadows = train_shadows(
        fed.engine,
        fed.initial,
        data.train.subset(np.concatenate([data[1].rows, data[2].rows])),
        data.train.subset(data[0].rows),
        data.test.subset(np.arange(200)),
        central(RECIPE, ROUNDS * RECIPE.steps(100), 350),
        16,
        Key.root(5),
    )
    return World(data, without, fed.engine, shadows, kept, federation(without).run(ROUNDS).model)


def far_apart(found):
    """LiRA catches a quarter of the erased samples or more, and hardly any in the control."""
    tpr, usual = found["LiRA"].served.tpr[0.01], found["LiRA"].control.tpr[0.01]
    return tpr.value > 0.25 and tpr.low > 2 * usual.high and usual.value < 0.05


def test_a_model_that_was_left_as_it_is_is_flagged_by_every_attack(world):
    found = world.look(world.kept)
    assert set(found) == {"LiRA", "LiRA offline", "RMIA", "RMIA offline", "Shokri"}
    assert all(finding.verdict == "flagged" for finding in found.values())
    assert far_apart(found)
    assert found["LiRA"].flagged == ("AUC", "TPR at 1 %")
    assert found["LiRA"].served.auc.value > 0.85
    f1, usual = (found["Shokri"].__dict__[name].decided["f1"] for name in ("served", "control"))
    assert f1.value > 0.6 > usual.value


def test_a_model_that_was_fine_tuned_a_little_is_flagged(world):
    """Two more rounds without the leaver, and the lineage wiped: what some call unlearning."""
    module = build("mlp", (1, 28, 28), 10)
    Weights(world.kept.vector, world.kept.layout).load_into(module)
    tuned = federation(world.without, seed=3, model=module).run(2).model
    assert not tuned.equal(world.kept)
    found = world.look(tuned)
    assert far_apart(found)
    assert found["RMIA"].verdict == "flagged"


def test_an_exact_method_passes(world):
    served = federation(world.data).run(2 * ROUNDS, requests=[unknot.erase(0, round=ROUNDS)]).model
    assert served.equal(world.control)
    assert {finding.verdict for finding in world.look(served).values()} == {"passed"}


@pytest.mark.parametrize("seed", [7, 8, 9])
def test_another_control_passes(world, seed):
    another = federation(world.without, seed=seed).run(ROUNDS).model
    assert not another.equal(world.control)
    assert {finding.verdict for finding in world.look(another).values()} == {"passed"}


def figures(members, others):
    return Figures.of(Curve.of(members, others), None, KEY)


def test_verdicts_on_hand_made_scores():
    low, high = np.linspace(0, 1, 200), np.linspace(1, 2, 100)
    alike, apart = figures(low[::2], low), figures(high, low)
    assert Finding("x", served=apart, control=alike, kept=apart).verdict == "flagged"
    assert Finding("x", served=alike, control=alike, kept=apart).verdict == "passed"
    assert Finding("x", served=alike, control=alike, kept=alike).verdict == "no power"
    assert apart.above(alike) == ("AUC", "TPR at 1 %")
    assert alike.above(apart) == ()


def test_a_control_that_looks_like_a_member_excuses_the_served_model():
    """Samples that stand out by themselves: without a control, both would be found guilty."""
    low, high = np.linspace(0, 1, 200), np.linspace(1, 2, 100)
    odd = figures(high, low)
    assert Finding("x", served=odd, control=odd, kept=odd).flagged == ()


def test_few_others_leave_the_area_to_judge():
    alike, apart = figures(np.arange(40), np.arange(40)), figures(np.arange(40, 80), np.arange(40))
    assert apart.tpr == {0.01: None, 0.001: None}
    assert apart.above(alike) == ("AUC",)


def test_a_finding_is_plain_values():
    alike, apart = figures([1, 2], [1, 2, 3]), figures([4, 5], [1, 2, 3])
    found = Finding("x", served=apart, control=alike, kept=apart).to_dict()
    assert found["served"]["auc"]["value"] == 1
    assert found["served"]["scores"] == {"members": [4, 5], "others": [1, 2, 3]}
    assert found["served"]["roc"]["tpr"][2] == 1
    assert found["control"]["tpr"] == {"0.01": None, "0.001": None}


def test_text_is_not_put_to_shokris_attack():
    """A toy that answers every position alike: enough to see which attacks are made."""

    class Texts(ToyEngine):
        def predict(self, model, samples):
            return super().predict(model, samples).unsqueeze(1).expand(-1, samples.y.shape[1], -1)

    data = small_data()
    y = data.train.y[:, None].repeat(1, 4)
    texts = type(data.train)(data.train.x, y, data.train.classes)
    rest, members, others = (texts.subset(np.arange(*span)) for span in ((0, 10), (10, 20), (20, 33)))
    engine, start = Texts(), toy_weights()
    shadows = train_shadows(engine, start, rest, members, others, RECIPE, 4, KEY)
    found = membership(engine, shadows, start, start, start, KEY)
    assert [f.attack for f in found] == ["LiRA", "LiRA offline", "RMIA", "RMIA offline"]
    only = membership(engine, shadows, start, start, start, KEY, [LiRA(), RMIA(gamma=2)])
    assert [f.attack for f in only] == ["LiRA", "RMIA"]
    assert Shokri().name not in {f.attack for f in found}
