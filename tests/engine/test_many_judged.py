"""Several models are judged at once, each as if it had been judged alone."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from engine_worlds import make_data, make_model
from support import ToyEngine
from unknot.core.data import Samples
from unknot.core.ensemble import Ensemble, Model
from unknot.core.jobs import evaluate_all, predict_all
from unknot.core.keys import Key
from unknot.core.weights import Weights
from unknot.engine import LoopEngine, StackedEngine
from unknot.engine.checks import copied
from unknot.engine.cuda.exam import Exam
from unknot.engine.evaluate import SLICE


def world(name: str, samples: int = SLICE + 90) -> tuple[StackedEngine, list[Model], Samples]:
    """An engine, models (two of them ensembles, one diverged) and samples: a slice and a part of one."""
    network, some = make_model(name), make_data(name).test
    start = Weights.of(network)
    draws = [Key.root(i).generator().standard_normal(len(start.vector)) for i in range(4)]
    models = [start.like(start.vector + 0.1 * torch.from_numpy(draw).float()) for draw in draws]
    lost = start.like(torch.full_like(start.vector, torch.nan))
    both = [Ensemble(((1.0, models[0]), (3.0, models[1])), vote) for vote in ("mean", "majority")]
    rows = torch.arange(samples) % len(some)
    many = replace(some, x=some.x[rows], y=some.y[rows])
    return StackedEngine(network, threads=1), [*models, *both, lost], many


@pytest.mark.parametrize("name", ["mlp", "text"])
def test_an_exam_says_of_each_model_what_is_said_of_it_alone(name: str) -> None:
    engine, models, samples = world(name)
    exam = Exam(copied(engine._template), samples, engine._judge(samples))
    for _ in range(2):  # the second time, what the first one left is written over
        for model, tallies, answers in zip(models, exam.tallies(models), exam.answers(models), strict=True):
            alone = engine._judge(samples).score(tallies)
            assert repr(alone) == repr(engine.evaluate(model, samples))
            assert torch.equal(answers.nan_to_num(-1), engine.predict(model, samples).nan_to_num(-1))


@pytest.mark.parametrize("kind", [LoopEngine, StackedEngine])
def test_many_at_once_are_each_as_alone(kind: type[LoopEngine] | type[StackedEngine]) -> None:
    _, models, samples = world("mlp")
    engine = kind(make_model("mlp"), threads=1)
    alone = [engine.evaluate(model, samples) for model in models]
    assert repr(evaluate_all(engine, models, samples)) == repr(alone)
    for model, said in zip(models, predict_all(engine, models, samples), strict=True):
        assert torch.equal(said.nan_to_num(-1), engine.predict(model, samples).nan_to_num(-1))


def test_an_engine_that_judges_one_at_a_time_will_do() -> None:
    _, models, samples = world("mlp", 20)
    engine, some = ToyEngine(), models[:2]
    assert evaluate_all(engine, some, samples) == [engine.evaluate(model, samples) for model in some]
    assert len(predict_all(engine, some, samples)) == 2


def test_why_judging_is_not_captured_is_described(monkeypatch: pytest.MonkeyPatch) -> None:
    engine, _, samples = world("mlp")
    assert "judging" not in str(engine.describe()["reason"])
    monkeypatch.setattr("unknot.engine.cuda.exam.CAPTURED", 1)
    exam = Exam(copied(engine._template), samples, engine._judge(samples))
    engine._exams[samples] = exam
    assert "; judging not captured: too many samples for one graph" in str(engine.describe()["reason"])
