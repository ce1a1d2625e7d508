"""A course on a GPU takes the steps of a stack; here on a CPU, where it takes each as it comes."""

from __future__ import annotations

from dataclasses import replace
from threading import Event

import pytest
import torch

from engine_worlds import RECIPES, make_data, make_jobs, make_model, own_start
from unknot.core.loss import loss_for
from unknot.core.training import Recipe
from unknot.engine import StackedEngine
from unknot.engine.cuda.courses import Outcome
from unknot.engine.cuda.draws import Holdings
from unknot.engine.cuda.program import ProgramCourse
from unknot.engine.layers.program import Forward, Vmapped
from unknot.engine.ways.lessons import Lesson, shards_of
from unknot.engine.ways.stack import Roster, train_stack


@pytest.mark.parametrize("recipe", ["adamw", "adahessian", "adahessian-power"])
@pytest.mark.parametrize("model", ["mlp", "norm", "vmap"])
def test_a_course_ends_where_the_stack_ends(model: str, recipe: str) -> None:
    """The same signs, gradients and curvatures: in double precision to 1e-12."""
    network, data = make_model(model).double(), make_data(model)
    data = data.cast(torch.float64)
    asked: Recipe = RECIPES[recipe]
    engine = StackedEngine(network, dtype=torch.float64, threads=1)
    jobs = [own_start(job) for job in make_jobs(network, asked, data.clients, torch.float64)]
    lessons = [Lesson.of(job, shard) for job, shard in zip(jobs, shards_of(jobs, data), strict=True)]
    setting = replace(engine.setting, widths=(len(lessons),))
    program = engine.traits.twice if asked.optimizer.curvature else engine.traits.program
    forward: Forward = Vmapped(network) if program is None else program
    samples, loss, guarded = data.train, loss_for(data.train), program is None
    outcome = Outcome(Roster(lessons, setting))
    steps, batch = outcome.roster.steps, asked.batch_size
    course = ProgramCourse(forward, asked, 0, loss, guarded, len(lessons), steps, batch, samples, setting)
    course.why_not_captured = "a CPU captures nothing"
    for _ in course.run(outcome, Holdings(), Event()):
        pass
    expected = {id(one): update for one, update in train_stack(forward, lessons, samples, setting, Event())}
    for one, update in outcome:
        told = expected[id(one)]
        assert update.loss == pytest.approx(told.loss, rel=1e-12)
        assert float((update.weights.vector - told.weights.vector).abs().max()) < 1e-12
