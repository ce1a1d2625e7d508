"""A cohort is cut into stacks of equal work, none too wide; tasks run on the workers, in order."""

from __future__ import annotations

import threading
import time

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from unknot.core.data import Shard
from unknot.core.jobs import Job
from unknot.core.keys import Key
from unknot.core.lineage import Unit
from unknot.core.training import Recipe
from unknot.core.weights import Layout, Weights
from unknot.engine.ways.chunks import cut
from unknot.engine.ways.lessons import Lesson
from unknot.engine.workers import run

WEIGHTS = Weights(torch.zeros(1), Layout(("w",), ((1,),)))


def lessons_of(sizes: list[int]) -> list[Lesson]:
    return [
        Lesson.of(Job(Unit(i), WEIGHTS, Key.root(i), Recipe(batch_size=1)), Shard.of(range(size)))
        for i, size in enumerate(sizes)
    ]


@given(
    sizes=st.lists(st.integers(1, 20), min_size=1, max_size=40),
    stacks=st.integers(1, 5),
    most=st.integers(2, 12),
)
def test_every_job_is_in_one_stack_and_none_is_too_wide(sizes, stacks, most):
    lessons = lessons_of(sizes)
    chunks = cut(lessons, stacks, most)
    assert sorted(lesson.job.client for chunk in chunks for lesson in chunk) == list(range(len(sizes)))
    assert all(1 <= len(chunk) <= most for chunk in chunks)
    steps = [lesson.steps for chunk in chunks for lesson in chunk]
    assert steps == sorted(steps, reverse=True)
    assert len(chunks) >= min(stacks, len(sizes))


@pytest.mark.parametrize(
    ("jobs", "stacks", "most", "expected"),
    [(10, 2, 10, [5, 5]), (11, 2, 10, [6, 5]), (21, 2, 10, [6, 5, 5, 5]), (3, 2, 10, [2, 1]), (1, 4, 9, [1])],
)
def test_equal_jobs_are_shared_out_evenly(jobs, stacks, most, expected):
    assert (
        sorted((len(chunk) for chunk in cut(lessons_of([7] * jobs), stacks, most)), reverse=True) == expected
    )


def test_unequal_jobs_are_shared_out_by_their_work():
    chunks = cut(lessons_of(list(range(1, 11))), 2, 10)
    assert [sum(lesson.steps for lesson in chunk) for chunk in chunks] == [27, 28]


def test_tasks_run_side_by_side_each_with_one_thread_and_results_keep_their_order():
    meeting = threading.Barrier(2, timeout=20)

    def task(number: int):
        def work(stop: threading.Event) -> tuple[int, int]:
            if number < 2:
                meeting.wait()  # passes only if two tasks are at work at once
            return number, torch.get_num_threads()

        return work

    before = torch.get_num_threads()
    assert run([task(number) for number in range(5)], 2) == [(number, 1) for number in range(5)]
    assert torch.get_num_threads() == before


def test_one_failure_stops_the_others_and_is_raised():
    stopped = threading.Event()

    def failing(stop: threading.Event) -> None:
        raise KeyError("this one")

    def waiting(stop: threading.Event) -> None:
        end = time.monotonic() + 20
        while not stop.is_set() and time.monotonic() < end:
            time.sleep(0.001)
        if stop.is_set():
            stopped.set()

    with pytest.raises(KeyError, match="this one"):
        run([waiting, failing], 2)
    assert stopped.is_set()
