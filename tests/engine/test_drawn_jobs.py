"""Jobs that name their batches, jobs on pooled data, and models that vote: on both engines."""

import numpy as np
import pytest
import torch
from torch import nn

from engine_worlds import make_data, make_model
from unknot.core.data import Samples
from unknot.core.ensemble import Ensemble
from unknot.core.errors import ConfigError, ErasedDataError
from unknot.core.jobs import Job
from unknot.core.keys import Key
from unknot.core.lineage import Unit
from unknot.core.training import SGD, Recipe
from unknot.core.weights import Weights
from unknot.engine import LoopEngine, StackedEngine

RECIPE = Recipe(SGD(0.1), epochs=2, batch_size=4)
MODEL = "mlp"


def engines(model: nn.Module):
    return [LoopEngine(model, dtype=torch.float64, threads=1), StackedEngine(model, dtype=torch.float64)]


def test_both_engines_read_the_batches_that_a_job_names():
    model, data = make_model(MODEL), make_data(MODEL)
    start = Weights.of(model).to(dtype=torch.float64)
    drawn = (np.asarray([3, 0, 2]), np.asarray([1]), np.asarray([6, 5, 4, 3]))
    job = Job(Unit(0), start, Key.root(1), RECIPE, batches=drawn)
    slow, fast = (engine.train([job], data)[0].weights.vector for engine in engines(model))
    assert torch.allclose(slow, fast, atol=1e-10)
    # By hand: three plain gradient steps on those rows.
    network = start.load_into(make_model(MODEL).double())
    optimizer = torch.optim.SGD(network.parameters(), lr=0.1)
    for ids in drawn:
        x, y = data.train.take(torch.from_numpy(data[0].rows[ids]))
        optimizer.zero_grad()
        nn.functional.cross_entropy(network(x.double()), y).backward()
        optimizer.step()
    assert torch.allclose(slow, Weights.of(network).vector, atol=1e-10)


def test_a_batch_with_an_erased_sample_is_refused_by_both_engines():
    model, data = make_model(MODEL), make_data(MODEL)
    start = Weights.of(model).to(dtype=torch.float64)
    job = Job(Unit(0), start, Key.root(1), RECIPE, batches=(np.asarray([0, 3]),))
    data.erase(0, [3])
    for engine in engines(model):
        with pytest.raises(ErasedDataError, match=r"\[3\]"):
            engine.train([job], data)


def test_a_batch_larger_than_the_recipes_is_an_error():
    model, data = make_model(MODEL), make_data(MODEL)
    job = Job(Unit(0), Weights.of(model), Key.root(1), Recipe(batch_size=2), batches=(np.asarray([0, 1, 2]),))
    with pytest.raises(ConfigError, match="batch_size is 2"):
        StackedEngine(model).train([job], data)


def test_pooled_data_is_read_as_one_client_would():
    """Both engines agree, everybody's samples are read, and everybody is in the lineage."""
    model, data = make_model(MODEL), make_data(MODEL)
    start = Weights.of(model).to(dtype=torch.float64)
    job = Job(Unit(0), start, Key.root(1), RECIPE, others=(Unit(2), Unit(4)))
    updates = [engine.train([job], data)[0] for engine in engines(model)]
    assert torch.allclose(updates[0].weights.vector, updates[1].weights.vector, atol=1e-9)
    assert {u.samples for u in updates} == {sum(len(data[c]) for c in (0, 2, 4))}
    assert {unit.client for unit in updates[0].lineage} == {0, 2, 4}
    assert job.samples_read(data) == 2 * updates[0].samples


def test_taking_a_client_out_of_the_pool_leaves_the_others_order():
    data = make_data(MODEL)
    key = Key.root(5)
    all_three, two = data.pooled([0, 2, 4]), data.pooled([0, 4])
    left = [row for row in all_three.rows[key.order(all_three.ids)] if row not in data[2].rows]
    assert left == two.rows[key.order(two.ids)].tolist()


class Fixed(nn.Module):
    """Gives its three numbers as logits, whatever it is shown."""

    def __init__(self) -> None:
        super().__init__()
        self.logits = nn.Linear(1, 3, bias=False)

    def forward(self, x):
        return self.logits(torch.ones_like(x[:, :1]))


def fixed(*logits: float) -> Weights:
    weights = Weights.of(Fixed())
    return weights.like(torch.tensor(logits))


@pytest.mark.parametrize("vote", ["mean", "majority"])
def test_models_vote_by_hand(vote):
    """Two are mildly for class 0, one strongly for class 1: the majority says 0, the mean 1."""
    mild, strong = fixed(0.2, 0.0, -4.0), fixed(0.0, 9.0, -9.0)
    ensemble = Ensemble(((1.0, mild), (1.0, mild), (1.0, strong)), vote)
    samples = Samples(torch.zeros(4, 1), torch.tensor([0, 0, 0, 1]), 3)
    share = torch.stack([mild.vector, mild.vector, strong.vector]).double().softmax(1).mean(0)
    if vote == "majority":
        share = torch.tensor([2 / 3, 1 / 3, 0.0]).double()
    loss = -(3 * share[0].log() + share[1].log()) / 4
    for engine in (LoopEngine(Fixed()), StackedEngine(Fixed())):
        score = engine.evaluate(ensemble, samples)
        assert score.accuracy == (0.75 if vote == "majority" else 0.25)
        assert score.loss == pytest.approx(float(loss), rel=1e-6)


def test_an_ensemble_of_one_scores_as_its_model():
    model, data = make_model(MODEL), make_data(MODEL)
    weights = Weights.of(model)
    for engine in (LoopEngine(model), StackedEngine(model)):
        alone = engine.evaluate(weights, data.train)
        together = engine.evaluate(Ensemble(((0.3, weights),)), data.train)
        assert together.accuracy == alone.accuracy
        assert together.loss == pytest.approx(alone.loss, rel=1e-6)
