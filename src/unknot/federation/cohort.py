"""Several federations in step: what all of them want trained is one call to the engine.

A model that an audit compares with is a federation of its own, and there are dozens of them. One after the
other, each would leave the engine with a handful of jobs at a time. So a run is a generator
(`Federation.running`): where it wants something trained it yields a `Call`, and waits until all others have
yielded one, or ended. Since a job's result depends on that job alone, each federation ends as if it had run
by itself; only the seconds that it notes, and the paths that the engine took, are those of all.

For the same reason what several of them want trained alike, as methods do until something is to be
forgotten, need be trained only once, and each gets numbers of its own; whoever compares runs to find them
equal lets each be trained.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from concurrent.futures import Future
from contextlib import ExitStack
from dataclasses import dataclass, field, fields, replace
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from unknot.core.data import FederatedData, Shard
from unknot.core.errors import UnknotError
from unknot.core.jobs import Engine, Job, Update
from unknot.federation.interrupts import between_steps

T = TypeVar("T")


@dataclass(frozen=True, eq=False)
class Call:
    """What a federation waits to have trained, by which engine."""

    engine: Engine
    jobs: Sequence[Job]
    data: FederatedData
    answer: Future[list[Update]] = field(default_factory=Future)


Running = Generator[Call, None, T]
"""A federation that runs, as a generator: it yields calls, and gives what comes of it."""


def run_alone(run: Running[T]) -> T:
    """What a run gives by itself."""
    return run_together([run])[0]


def run_together(runs: Sequence[Running[T]], *, once: bool = False) -> list[T]:
    """What each run gives.

    Runs whose data lies in the same `Samples` are trained in one call of the engine that they share; with
    `once`, jobs of theirs that are alike in all that a result depends on are one job. If one raises, so does
    this, and the others are closed where they wait.
    """
    ended = dict(as_they_end(runs, once=once))
    return [ended[place] for place in range(len(runs))]


def as_they_end(runs: Sequence[Running[T]], *, once: bool = False) -> Iterator[tuple[int, T]]:
    """The same, each as soon as it has ended, with its place among the runs."""
    left = list(range(len(runs)))
    with ExitStack() as after:
        if len(runs) > 1:  # one alone hears Ctrl-C between its own steps
            after.enter_context(between_steps())
        for run in runs:
            after.callback(run.close)
        while left:
            calls: list[Call] = []
            for place in list(left):
                try:
                    calls.append(next(runs[place]))
                except StopIteration as end:
                    found = end.value
                else:
                    continue
                left.remove(place)
                yield place, found
            _answer_all(calls, once)


def _answer_all(calls: Sequence[Call], once: bool) -> None:
    """In one call what reads the same samples; what fails of one alone is met where that asked for it."""
    groups: dict[tuple[int, int], list[Call]] = {}
    for call in calls:
        groups.setdefault((id(call.engine), id(call.data.train)), []).append(call)
    for group in groups.values():
        try:
            _train(group, once)
        except BaseException as error:
            if len(group) > 1:
                raise
            group[0].answer.set_exception(error)


def _train(group: Sequence[Call], once: bool) -> None:
    first = group[0]
    if len(group) == 1 and not once:
        first.answer.set_result(first.engine.train(first.jobs, first.data))
        return
    wanted = [_Placed.of(job, call.data) for call in group for job in call.jobs]
    jobs, places = _without_twins(wanted) if once else (wanted, range(len(wanted)))
    updates = first.engine.train(jobs, first.data)
    if len(updates) != len(jobs):
        raise UnknotError(f"the engine was given {len(jobs)} jobs and returned {len(updates)} updates")
    mine, given = iter(places), set[int]()
    for call in group:
        answers = []
        for job, place in zip(call.jobs, mine, strict=False):  # the next call goes on where this one ends
            answers.append(_answer(updates[place], job, again=place in given))
            given.add(place)
        call.answer.set_result(answers)


@dataclass(frozen=True, eq=False, kw_only=True)
class _Placed(Job):
    """A job among those of other federations: it reads what its own one lets it read."""

    own: Job
    home: FederatedData

    @staticmethod
    def of(job: Job, home: FederatedData) -> _Placed:
        return _Placed(**{part.name: getattr(job, part.name) for part in fields(Job)}, own=job, home=home)

    def shard(self, data: FederatedData) -> Shard:
        return self.own.shard(self.home)

    def samples_read(self, data: FederatedData) -> int:
        return self.own.samples_read(self.home)


def _answer(update: Update, job: Job, *, again: bool) -> Update:
    """What was trained, as this job's: of a twin's numbers, whose data shaped them is what this job says.

    What is given out `again` is a copy: should a method change it in place, the others do not notice.
    """
    trained = update.job.own if isinstance(update.job, _Placed) else update.job
    weights = update.weights
    if again:
        weights = replace(weights, vector=weights.vector.clone())
    if trained is not job:
        weights = replace(weights, lineage=job.lineage)
    return replace(update, job=job, weights=weights)


def _without_twins(wanted: Sequence[_Placed]) -> tuple[list[_Placed], list[int]]:
    """The jobs with one of each that are alike, and where among them the one of each that is wanted is."""
    jobs: list[_Placed] = []
    places: list[int] = []
    asked: dict[object, list[int]] = {}
    starts: dict[tuple[int, int], bool] = {}
    for job in wanted:
        others = asked.setdefault((job.clients, job.key), [])
        place = next((place for place in others if _alike(jobs[place], job, starts)), len(jobs))
        if place == len(jobs):
            jobs.append(job)
            others.append(place)
        places.append(place)
    return jobs, places


def _alike(one: _Placed, other: _Placed, starts: dict[tuple[int, int], bool]) -> bool:
    """Whether two jobs of the same clients and key come to the same, bit for bit.

    `starts` keeps which weights were found equal: a round's jobs start from few.
    """
    if one.recipe.together(one.version) != other.recipe.together(other.version):
        return False
    mine, theirs = one.shard(one.home), other.shard(other.home)
    if mine is not theirs and not _same((mine.rows, mine.ids), (theirs.rows, theirs.ids)):
        return False
    if (one.batches is None) != (other.batches is None) or not _same(one.batches or (), other.batches or ()):
        return False
    pair = id(one.start), id(other.start)
    if pair not in starts:
        bases = (start.layout.base.lineage for start in (one.start, other.start))
        starts[pair] = one.start.equal(other.start) and next(bases) == next(bases)
    return starts[pair]


def _same(some: Sequence[NDArray[np.int64]], others: Sequence[NDArray[np.int64]]) -> bool:
    return len(some) == len(others) and all(map(np.array_equal, some, others))
