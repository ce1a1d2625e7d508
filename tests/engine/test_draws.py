"""What a GPU draws for a whole stack at once is what each job draws alone."""

from __future__ import annotations

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st

from unknot.core.data import Shard
from unknot.core.jobs import Job
from unknot.core.keys import Key
from unknot.core.lineage import Unit
from unknot.core.training import SGD, Recipe
from unknot.core.weights import Layout, Weights
from unknot.engine.cuda import draws
from unknot.engine.cuda.draws import Holdings
from unknot.engine.ways.lessons import Lesson
from unknot.engine.ways.stack import Roster, Stacking

WEIGHTS = Weights(torch.zeros(2), Layout(("w",), ((2,),)))
SETTING = Stacking(WEIGHTS.layout, torch.device("cpu"), torch.float32, widths=(2, 8))


@given(
    sizes=st.lists(st.integers(1, 30), min_size=1, max_size=6),
    batch=st.integers(1, 12),
    epochs=st.integers(1, 3),
    most=st.none() | st.integers(1, 9),
    seed=st.integers(0, 2**62),
)
def test_all_orders_at_once_are_those_of_the_keys(sizes, batch, epochs, most, seed):
    recipe, first, lessons = Recipe(SGD(0.1), epochs, batch, max_steps=most), 100, []
    for client, size in enumerate(sizes):
        ids = np.sort(np.random.default_rng(client).choice(1000, size, replace=False))
        job = Job(Unit(client), WEIGHTS, Key.root(seed).child(client), recipe)
        lessons.append(Lesson.of(job, Shard(np.arange(first, first + size), ids)))
        first += size
    roster = Roster(lessons, SETTING)
    reads, counts = draws.reads(roster, Holdings())
    real = torch.arange(batch) < counts.unsqueeze(-1)
    assert torch.equal(counts, roster.counts)
    assert torch.equal(reads[real], roster.reads[real])
    assert torch.equal(reads, roster.reads)


def test_batches_of_a_methods_own_are_read_as_they_are():
    shard = Shard.of(range(10, 20))
    own = (np.array([3, 1]), np.array([7]), np.array([0, 9]))
    jobs = [Job(Unit(0), WEIGHTS, Key.root(0), Recipe(SGD(0.1), batch_size=2), batches=own)]
    reads, counts = draws.reads(Roster([Lesson.of(job, shard) for job in jobs], SETTING), Holdings())
    assert reads[:, 0].tolist() == [[13, 11], [17, 17], [10, 19]]
    assert counts[:, 0].tolist() == [2, 1, 2]


def test_what_shards_hold_is_sent_once_and_found_whoever_asks_next(monkeypatch):
    shards = [Shard.of(range(10 * k, 10 * k + k + 1)) for k in range(6)]
    monkeypatch.setattr(draws, "MOST_HELD", 15)
    held, device = Holdings(), torch.device("cpu")
    for asked in ([0, 1], [1, 2, 0], [5], [3, 5], [4, 3], [0, 1]):
        places, rows, ids = held.of([shards[k] for k in asked], device)
        for place, k in zip(places, asked, strict=True):
            assert rows[place : place + k + 1].tolist() == shards[k].rows.tolist()
            assert ids[place : place + k + 1].tolist() == shards[k].ids.tolist()
        assert len(rows) <= 15
    once = held.of([shards[0], shards[1]], device)
    assert held.of([shards[1]], device)[1] is once[1]


@given(size=st.integers(1, 300), seeds=st.lists(st.integers(0, 2**62), min_size=1, max_size=4))
def test_all_signs_at_once_are_those_of_the_keys(size, seeds):
    keys = [Key.root(seed) for seed in seeds]
    bits = torch.from_numpy(np.array([key.bits for key in keys], dtype=np.uint64).view(np.int64))
    found = draws.Signs(size, torch.device("cpu")).of(bits, torch.float32)
    assert torch.equal(found, torch.stack([key.signs(size) for key in keys]).float())


def test_the_keys_of_signs_are_those_that_each_job_draws_by():
    lessons = [
        Lesson.of(Job(Unit(i), WEIGHTS, Key.root(i), Recipe(SGD(0.1), batch_size=2)), Shard.of(range(size)))
        for i, size in enumerate((5, 3, 8))
    ]
    roster = Roster(lessons, SETTING)
    keys = draws.sign_keys(roster)
    assert keys.shape == (4, 8)  # filled up
    for step in range(4):
        for row, lesson in enumerate(roster.rows):
            child = lesson.job.key.child("hutchinson", step)
            assert keys[step, row].item() % 2**64 == child.bits
