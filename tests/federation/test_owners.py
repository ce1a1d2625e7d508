"""A person's held-out rows go where the person goes, and so does what was decided by them."""

import numpy as np
import pytest
import torch

import unknot
from support import small_data, toy_federation, toy_weights
from unknot.audit import interference
from unknot.core.data import FederatedData, Samples
from unknot.core.errors import ConfigError
from unknot.core.requests import erase
from unknot.core.weights import Weights
from unknot.federation import Synchronous
from unknot.select import DQN, DQNSettings
from unknot.unlearn import BMT, KNOT, MMT, RFS

PLAIN = small_data([5, 8, 3, 6, 7, 4])


def owned(of=(0, 0, 1, 1, 2, 2, 3, 3, 4, 4, -1, -1)) -> FederatedData:
    """Two validation rows a client, and two that are nobody's."""
    owner = np.asarray(of)
    return PLAIN.replaced(validation_owner=owner)


class Judging:
    """An engine whose scores depend on the very rows that a model is measured on."""

    def __new__(cls):
        from support import ToyEngine

        class Engine(ToyEngine):
            def evaluate(self, model, samples):
                score = super().evaluate(model, samples)
                seen = float(torch.sin(samples.x.double().sum() + score.loss * 1e3)) / 2 + 0.5
                return type(score)({"accuracy": seen}, score.loss, score.samples)

        return Engine()


def served(method, **options):
    def run(data):
        fed = toy_federation(method, data, Judging(), **options)
        fed.run(8, requests=[erase(3, round=4), erase(1, round=5)])
        return fed.model

    return run


BEST = KNOT(3, by="random", served="best")
CASES = {
    "best": (BEST, {}),
    "best, mmt inside": (KNOT(2, by="random", served="best", retrain=MMT()), {}),
    "dqn": (RFS(), {"select": DQN(DQNSettings(batch=2)), "pace": Synchronous(3)}),
    "dqn in clusters": (KNOT(2, by="random"), {"select": DQN(DQNSettings(batch=2)), "pace": Synchronous(4)}),
}


@pytest.mark.parametrize("name", CASES)
def test_what_is_chosen_by_held_out_rows_does_not_depend_on_erased_ones(name):
    method, options = CASES[name]
    report = interference(served(method, **options), owned(), erase([1, 3], round=1).targets)
    assert report.none, report.gaps


def test_the_rows_are_gone_from_validation_and_from_what_is_measured():
    fed = toy_federation(RFS(), owned())
    fed.run(2)
    before = fed.scores.of(fed.model, "validation")
    fed.run(2, requests=[erase(3, round=2)])
    assert before.samples == 12
    assert fed.scores.of(fed.model, "validation").samples == 10
    assert fed.data.validation_clients == {0, 1, 2, 4}
    history = fed.run(1)
    assert history.scores["validation"].samples == 10


def test_a_model_chosen_by_somebodys_rows_carries_them():
    """Client 5 holds no validation rows; nobody but 0 to 4 had a say beside the clusters."""
    clusters = toy_federation(BEST, owned())
    assert clusters.run(2).model.lineage.clients >= {0, 1, 2, 3, 4}
    fed = toy_federation(RFS(), owned(), select=DQN(DQNSettings(batch=2)), pace=Synchronous(2))
    fed.run(4)
    lane = fed.lanes["global"]
    assert lane.selector.policy.lineage.clients >= {0, 1, 2, 3, 4}
    assert lane.knows.clients >= {0, 1, 2, 3, 4}


def test_a_selector_that_learned_by_somebodys_rows_begins_again_with_its_lane():
    """The client itself is no member yet: its rows alone had a part."""
    from unknot.core.requests import join

    fed = toy_federation(RFS(), owned(), select=DQN(DQNSettings(batch=2)), pace=Synchronous(3))
    fed.run(5, requests=[join(3, round=50)])
    lane = fed.lanes["global"]
    assert 3 in lane.knows.clients
    assert 3 not in lane.sent
    fed.run(1, requests=[erase(3, round=5)])
    assert lane.version == 1
    assert 3 not in lane.knows.clients


def test_when_nobodys_rows_are_left_the_run_goes_on():
    mine = PLAIN.replaced(validation_owner=np.zeros(12, dtype=np.int64))
    for method, options in CASES.values():
        fed = toy_federation(method, mine, **options)
        history = fed.run(5, requests=[erase(0, round=2)])
        assert len(fed.data.validation) == 0
        assert "validation" not in history.scores


@pytest.mark.parametrize("validation", [None, Samples(torch.zeros(0, 8), torch.zeros(0).long(), 3)])
def test_what_needs_validation_data_says_so_when_there_is_none(validation):
    data = PLAIN.replaced(validation=validation)
    with pytest.raises(ConfigError, match="validation data"):
        toy_federation(RFS(), data, select=DQN())
    with pytest.raises(ConfigError, match="validation data"):
        toy_federation(BEST, data).run(1)
    with pytest.raises(ConfigError, match="validation data"):
        toy_federation(RFS(), data).run(3, accuracy=0.5)
    assert toy_federation(BMT(), data).run(1).choices == {}


def test_natural_owners_of_the_built_in_digits():
    digits = unknot.load("digits")
    data = unknot.federate(digits, unknot.ByOwner(clients=8), validation=0.2)
    gone = next(iter(data.validation_clients))
    fed = unknot.simulate("mlp", data, KNOT(2, by="random", served="best"))
    history = fed.run(3, requests=[unknot.erase(gone, round=2)])
    assert gone not in fed.data.validation_clients
    assert len(fed.data.validation) < len(data.validation)
    assert history.scores["validation"].samples == len(fed.data.validation)
    assert gone not in history.model.lineage.clients


def test_weights_of_a_choice_are_those_of_the_chosen():
    fed = toy_federation(BEST, owned())
    model = fed.run(2).model
    assert isinstance(model, Weights)
    assert any(lane.nodes["global"].weights.equal(model) for lane in fed.lanes.values())
    assert not model.equal(toy_weights())
