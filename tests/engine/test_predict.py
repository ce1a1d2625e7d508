"""`Engine.predict`: the same answers from both engines, and those that `evaluate` scores."""

import pytest
import torch

from engine_worlds import make_data, make_model
from unknot.core.ensemble import Ensemble
from unknot.core.errors import ConfigError
from unknot.core.weights import Weights
from unknot.engine import LoopEngine, StackedEngine
from unknot.engine.evaluate import SLICE

LONG = (SLICE + 88,)


def weights_of(model, shift=0.0):
    weights = Weights.of(model)
    return weights.like(weights.vector * (1 + shift))


@pytest.mark.parametrize("name", ["mlp", "lenet", "text", "vmap", "loop"])
def test_both_engines_answer_alike(name):
    model, samples = make_model(name), make_data(name, LONG).train
    weights = weights_of(model)
    slow, fast = (engine.predict(weights, samples) for engine in (LoopEngine(model), StackedEngine(model)))
    assert slow.shape == (*samples.y.shape, samples.classes)
    assert slow.dtype == fast.dtype == torch.float64
    assert torch.allclose(slow.sum(-1), torch.ones_like(slow.sum(-1)))
    assert torch.allclose(fast, slow, atol=1e-6)
    assert torch.allclose(slow, _plain(model, weights, samples), atol=1e-6)


@pytest.mark.parametrize("vote", ["mean", "majority"])
@pytest.mark.parametrize("name", ["mlp", "text"])
def test_an_ensemble_answers_by_its_votes(name, vote):
    model, samples = make_model(name), make_data(name, (40,)).train
    parts = [(1.0, weights_of(model)), (2.0, weights_of(model, 0.8)), (1.0, weights_of(model, -1.9))]
    voices = [_plain(model, weights, samples) for _, weights in parts]
    if vote == "majority":
        voices = [torch.nn.functional.one_hot(v.argmax(-1), v.shape[-1]).double() for v in voices]
    expected = (voices[0] + 2 * voices[1] + voices[2]) / 4
    ensemble = Ensemble(tuple(parts), vote)
    for engine in (LoopEngine(model), StackedEngine(model)):
        assert torch.allclose(engine.predict(ensemble, samples), expected, atol=1e-6)


def test_the_score_is_that_of_the_answers():
    model, samples = make_model("mlp"), make_data("mlp", LONG).train
    weights = weights_of(model)
    for engine in (LoopEngine(model), StackedEngine(model)):
        for judged in (weights, Ensemble(((1.0, weights), (1.0, weights_of(model, 0.5))))):
            answers, score = engine.predict(judged, samples), engine.evaluate(judged, samples)
            given = answers.gather(-1, samples.y[:, None]).squeeze(-1)
            assert (answers.argmax(-1) == samples.y).double().mean().item() == pytest.approx(score.accuracy)
            assert -given.log().mean().item() == pytest.approx(score.loss, rel=1e-5)


def test_no_samples_are_refused():
    model, data = make_model("mlp"), make_data("mlp", (4,))
    empty = data.train.subset(torch.arange(0).numpy())
    for engine in (LoopEngine(model), StackedEngine(model)):
        with pytest.raises(ConfigError, match="no samples"):
            engine.predict(Weights.of(model), empty)


@torch.no_grad()
def _plain(model, weights, samples):
    return weights.load_into(model)(samples.x).double().softmax(-1)
