"""A course on a GPU takes the steps of a stack; here on a CPU, where it takes each as it comes."""

from __future__ import annotations

from dataclasses import replace
from threading import Event

import pytest
import torch

from engine_worlds import RECIPES, make_data, make_jobs, make_model, own_start
from unknot.core.loss import loss_for
from unknot.core.training import SGD, Adagrad, Adam, Cosine, Optimizer, Recipe, RMSprop, StepRule
from unknot.engine import StackedEngine
from unknot.engine.cuda.courses import Outcome
from unknot.engine.cuda.draws import Holdings
from unknot.engine.cuda.program import LastingRule, ProgramCourse
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


@pytest.mark.parametrize(
    "optimizer",
    [
        SGD(0.1, momentum=0.9),
        Adam(0.02, weight_decay=0.1),
        Adagrad(0.1, lr_decay=0.3, initial_accumulator_value=0.5),
        RMSprop(0.03, momentum=0.7, centered=True),
    ],
    ids=lambda optimizer: optimizer.name,
)
def test_a_rule_whose_tensors_stay_begins_again_as_a_new_one_does(optimizer: Optimizer) -> None:
    """Rows leave, and come back with the next stack; steps that a graph plays the optimiser does not see."""
    recipe = Recipe(optimizer, schedule=Cosine(9), proximal=0.1)
    stack = torch.zeros(4, 3, 5)
    lasting, places = LastingRule(recipe, 0, [stack], [None]), set[int]()
    for widths in ((4, 4, 2), (3, 3), (4, 4, 4, 2)):
        new = torch.randn(4, 3, 5)
        stack.copy_(new)
        new = new[: widths[0]].clone()
        lasting.begin()
        fresh = StepRule(recipe, 0, [new], [None])
        for step, rows in enumerate(widths):
            gradient = torch.randn(rows, 3, 5)
            for kept in lasting._optimizer.state.values():
                kept.get("step", torch.zeros(())).fill_(77)
            lasting.take(step, [gradient])
            fresh.take(step, [gradient])
            assert torch.equal(stack[:rows], new[:rows])
        kept = [v for state in lasting._optimizer.state.values() for k, v in state.items() if k != "step"]
        places |= {value.data_ptr() for value in kept}
    assert len(places) == len(kept)
