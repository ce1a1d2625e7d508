"""Several federations in step: what all of them want trained is one call to the engine.

A model that an audit compares with is a federation of its own, and there are dozens of them. One after the
other, each would leave the engine with a handful of jobs at a time. Here every federation runs in a thread;
only one thread is awake at any moment, and where it asks for training it waits until all others have asked,
or ended. Since a job's result depends on that job alone, each federation ends as if it had run by itself;
only the seconds that it notes, and the paths that the engine took, are those of all.

For the same reason what several of them want trained alike, as methods do until something is to be
forgotten, need be trained only once, and each gets numbers of its own; whoever compares runs to find them
equal lets each be trained.

The engine is used by nobody but the thread that called: it finds the settings of that thread.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import ExitStack
from dataclasses import dataclass, field, fields, replace
from functools import partial
from threading import Semaphore, Thread
from typing import Any, Generic, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray

from unknot.core.data import FederatedData, Samples, Shard
from unknot.core.ensemble import Model
from unknot.core.errors import UnknotError
from unknot.core.jobs import Engine, Job, Score, Update, evaluate_all, predict_all
from unknot.core.weights import Layout

T = TypeVar("T")


class Abandoned(BaseException):
    """This federation need not go on: another one of the cohort failed.

    No `Exception`: code that gets over those must not get over this.
    """


def run_together(engine: Engine, runs: Sequence[Callable[[Engine], T]], *, once: bool = False) -> list[T]:
    """What each run gives; each is handed the engine that it has to train with.

    Runs whose data lies in the same `Samples` are trained in one call; with `once`, jobs of theirs that are
    alike in all that a result depends on are one job. If one raises, so does this, and the
    others end where they are. What an erasure wants the engine to drop goes before anything else is trained.
    """
    ended = dict(as_they_end(engine, runs, once=once))
    return [ended[place] for place in range(len(runs))]


def as_they_end(
    engine: Engine, runs: Sequence[Callable[[Engine], T]], *, once: bool = False
) -> Iterator[tuple[int, T]]:
    """The same, each as soon as it has ended, with its place among the runs."""
    members = [_Member(engine, run) for run in runs]
    with ExitStack() as after:
        after.callback(torch.set_num_threads, torch.get_num_threads())  # threads set the default of new ones
        after.callback(_wipe, engine, members)
        for member in members:
            after.callback(member.abandon)
        left = dict(enumerate(members))
        while left:
            wishes = []
            for place, member in list(left.items()):
                if (wish := member.go_on()) is not None:
                    wishes.append(wish)
                else:
                    del left[place]
                    yield place, member.outcome.result()
            _wipe(engine, members)
            _train(engine, wishes, once)


@dataclass(frozen=True, eq=False)
class _Wish:
    """What a federation waits to have trained."""

    jobs: Sequence[Job]
    data: FederatedData
    answer: Future[list[Update]] = field(default_factory=Future)


@dataclass(frozen=True, eq=False)
class _Errand(Generic[T]):
    """What else a federation asks of the engine; nobody else has a part in it."""

    do: Callable[[], T]
    answer: Future[T] = field(default_factory=Future)

    def run(self) -> None:
        try:
            self.answer.set_result(self.do())
        except Exception as error:  # the federation's own, to be met where it asked
            self.answer.set_exception(error)


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


def _train(engine: Engine, wishes: Sequence[_Wish], once: bool) -> None:
    """Train what is wanted: in one call what reads the same samples."""
    groups: dict[Samples, list[_Wish]] = {}
    for wish in wishes:
        groups.setdefault(wish.data.train, []).append(wish)
    for group in groups.values():
        wanted = [_Placed.of(job, wish.data) for wish in group for job in wish.jobs]
        jobs, places = _without_twins(wanted) if once else (wanted, range(len(wanted)))
        updates = engine.train(jobs, group[0].data)
        if len(updates) != len(jobs):
            raise UnknotError(f"the engine was given {len(jobs)} jobs and returned {len(updates)} updates")
        mine, given = iter(places), set[int]()
        for wish in group:
            answers = []
            for job, place in zip(wish.jobs, mine, strict=False):  # the next wish goes on where this one ends
                answers.append(_answer(updates[place], job, again=place in given))
                given.add(place)
            wish.answer.set_result(answers)


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


def _wipe(engine: Engine, members: Sequence[_Member[Any]]) -> None:
    """Have the engine drop what it holds, once for all members that want it to."""
    if any(member.wipes for member in members):
        engine.wipe()
        for member in members:
            member.wipes = False


class _Member(Generic[T]):
    """A federation in a thread, which sleeps until it is told to go on."""

    def __init__(self, engine: Engine, run: Callable[[Engine], T]) -> None:
        self.outcome: Future[T] = Future()
        self.wipes = False
        self._asked: _Wish | _Errand[Any] | None = None
        self._abandoned = False
        self._go, self._rest = Semaphore(0), Semaphore(0)
        life = partial(self._live, run, _Seat(engine, self), torch.get_num_threads())
        self._thread = Thread(target=life, name="unknot federation", daemon=True)

    def go_on(self) -> _Wish | None:
        """Let it run until it wants something trained, which is given back, or has ended; do its errands."""
        while not self.outcome.done():
            if self._thread.ident is None:
                self._thread.start()
            else:
                self._go.release()
            self._rest.acquire()
            if isinstance(self._asked, _Wish):
                return self._asked
            if self._asked is not None:
                self._asked.run()
        self.outcome.result()  # raises what the run did
        return None

    def abandon(self) -> None:
        """End it where it waits or, should it be awake, where it next asks for something."""
        self._abandoned = True
        self._go.release()
        if self._thread.is_alive():
            self._thread.join()

    def wait_for(self, asked: _Wish | _Errand[Any]) -> Any:
        """Sleep until there is an answer; called by the federation."""
        if not self._abandoned:
            self._asked = asked
            self._rest.release()
            self._go.acquire()
            self._asked = None
        if self._abandoned:
            raise Abandoned
        return asked.answer.result()

    def _live(self, run: Callable[[Engine], T], seat: _Seat, threads: int) -> None:
        try:
            torch.set_num_threads(threads)
            self.outcome.set_result(run(seat))
        except BaseException as error:
            self.outcome.set_exception(error)
        finally:
            seat.leave()
            self._rest.release()


class _Seat:
    """The engine as one federation of the cohort sees it; once the run has ended, the engine itself."""

    def __init__(self, engine: Engine, member: _Member[Any]) -> None:
        self._engine = engine
        self._member: _Member[Any] | None = member

    @property
    def name(self) -> str:
        return self._engine.name

    @property
    def layout(self) -> Layout | None:
        """Of the models that it trains, where it says so."""
        return getattr(self._engine, "layout", None)

    def examine(self, samples: Samples) -> None:
        self._ask(partial(self._engine.examine, samples))

    def train(self, jobs: Sequence[Job], data: FederatedData) -> list[Update]:
        if self._member is None:
            return self._engine.train(jobs, data)
        updates: list[Update] = self._member.wait_for(_Wish(jobs, data))
        return updates

    def evaluate(self, model: Model, samples: Samples) -> Score:
        return self._ask(partial(self._engine.evaluate, model, samples))

    def predict(self, model: Model, samples: Samples) -> torch.Tensor:
        return self._ask(partial(self._engine.predict, model, samples))

    def evaluate_all(self, models: Sequence[Model], samples: Samples) -> list[Score]:
        return self._ask(partial(evaluate_all, self._engine, models, samples))

    def predict_all(self, models: Sequence[Model], samples: Samples) -> list[torch.Tensor]:
        return self._ask(partial(predict_all, self._engine, models, samples))

    def wipe(self) -> None:
        if self._member is None:
            self._engine.wipe()
        else:
            self._member.wipes = True

    def describe(self) -> dict[str, object]:
        return self._ask(self._engine.describe)

    def leave(self) -> None:
        """Wait for nobody from now on."""
        self._member = None

    def _ask(self, do: Callable[[], T]) -> T:
        if self._member is None:
            return do()
        answer: T = self._member.wait_for(_Errand(do))
        return answer
