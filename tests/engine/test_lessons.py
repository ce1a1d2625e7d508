"""What a job's training is: the batches and their order, the loss, what is refused."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from unknot.core.data import Shard
from unknot.core.errors import ConfigError
from unknot.core.jobs import Job
from unknot.core.keys import Key
from unknot.core.lineage import Unit
from unknot.core.loss import NextToken
from unknot.core.training import SGD, Recipe
from unknot.core.weights import Layout, Weights
from unknot.engine import checks
from unknot.engine.outputs import fitted
from unknot.engine.ways import lessons
from unknot.engine.ways.lessons import Lesson
from unknot.engine.ways.stack import Roster, Stacking

WEIGHTS = Weights(torch.zeros(2), Layout(("w",), ((2,),)))


def job_of(**recipe: object) -> Job:
    return Job(Unit(0), WEIGHTS, Key.root(5), Recipe(SGD(0.1), **recipe))  # type: ignore[arg-type]


def test_an_epoch_is_the_keyed_order_cut_into_batches():
    job, shard = job_of(batch_size=3, epochs=2), Shard(np.array([10, 11, 12, 13]), np.array([0, 2, 5, 9]))
    expected = []
    for epoch in range(2):
        order = shard.rows[job.key.child("epoch", epoch).order(shard.ids)]
        expected += [order[:3].tolist(), order[3:].tolist()]
    assert [batch.tolist() for batch in lessons.batches(job, shard)] == expected


def test_max_steps_ends_training_within_an_epoch():
    job = job_of(batch_size=2, epochs=5, max_steps=3)
    assert [len(batch) for batch in lessons.batches(job, Shard.of([1, 2, 3]))] == [2, 1, 2]


@given(
    samples=st.integers(0, 30),
    batch=st.integers(1, 12),
    epochs=st.integers(1, 3),
    most=st.none() | st.integers(1, 9),
)
def test_a_lesson_has_the_same_batches_filled_up(samples, batch, epochs, most):
    job, shard = job_of(batch_size=batch, epochs=epochs, max_steps=most), Shard.of(range(100, 100 + samples))
    lesson, batches = Lesson.of(job, shard), list(lessons.batches(job, shard))
    assert lesson.steps == len(batches) == job.recipe.steps(samples)
    for rows, count, real in zip(lesson.rows, lesson.counts, batches, strict=True):
        assert rows[:count].tolist() == real.tolist()
        assert set(rows[count:]) <= {real[0]}  # of the batch itself: nothing else is read


def test_what_fills_a_batch_up_counts_nothing_and_the_others_alike():
    lesson = Lesson.of(job_of(batch_size=4), Shard.of([7, 8, 9, 10, 11, 12, 13]))
    roster = Roster([lesson], Stacking(WEIGHTS.layout, torch.device("cpu"), torch.float64, widths=(2,)))
    assert roster.weights.tolist() == [[[1 / 4] * 4] * 2, [[1 / 3] * 3 + [0.0]] * 2]


def test_the_mean_loss_counts_every_reading_once():
    lesson = Lesson.of(job_of(batch_size=2), Shard.of([7, 8, 9]))
    assert lesson.mean_loss(np.array([[1.0, 2.0], [6.0, 1000.0]])) == 3.0


def test_a_texts_loss_is_the_mean_over_its_positions():
    # Uniform over 4 classes: log 4 at each position; the second text is certain and right in one of two.
    logits = torch.zeros(2, 2, 4)
    logits[1, 0, 3] = 1000.0
    losses = NextToken()(logits, torch.tensor([[0, 1], [3, 2]]))
    assert losses.tolist() == pytest.approx([math.log(4), math.log(4) / 2])


def test_logits_that_do_not_fit_the_targets_are_refused():
    with pytest.raises(ConfigError, match="one row of logits a target"):
        fitted(torch.zeros(2, 3), torch.zeros(2, 5, dtype=torch.long), "classes", 1)


@pytest.mark.parametrize(
    ("layer", "said"),
    [
        (nn.BatchNorm2d(3), "'1' is a BatchNorm2d.*GroupNorm"),
        (nn.BatchNorm1d(3), "'1' is a BatchNorm1d.*GroupNorm"),
        (nn.Dropout(0.5), "'1' is a Dropout.*p=0"),
        (nn.LSTM(3, 3, 2, dropout=0.1), "'1' is a LSTM.*dropout"),
    ],
)
def test_layers_that_mix_clients_or_draw_unnamed_are_refused_by_name(layer, said):
    with pytest.raises(ConfigError, match=said):
        checks.check_model(nn.Sequential(nn.Linear(3, 3), layer))


def test_a_model_without_parameters_to_train_is_refused():
    with pytest.raises(ConfigError, match="no parameters to train"):
        checks.check_model(nn.Linear(2, 2).requires_grad_(False))
