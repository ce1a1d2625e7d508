"""One loop over a simulated clock: jobs are launched, become due, are trained, are absorbed.

Synchronous and asynchronous runs differ in the pace alone. Erasures and joins are events of this
loop. A job is trained when it is due, not when it is launched: an erasure in between cancels it,
and all jobs that are due together are one call to the engine.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from unknot.core.archive import Keepsakes
from unknot.core.data import FederatedData
from unknot.core.ensemble import Model
from unknot.core.errors import ConfigError
from unknot.core.jobs import Engine, Job, Score, Update
from unknot.core.recipe import Recipe
from unknot.core.requests import Erase, Join, Request
from unknot.core.selection import Selector
from unknot.core.threads import one_thread
from unknot.core.weights import Weights
from unknot.federation.aggregate import Aggregate
from unknot.federation.bench import Bench
from unknot.federation.clock import SECOND, Clock
from unknot.federation.describe import beyond, concerned, counts, describe, members_of
from unknot.federation.environment import environment
from unknot.federation.history import Event, History, Round, Served, Trip
from unknot.federation.inspect import sort_out
from unknot.federation.lanes import Flight, Lane
from unknot.federation.method import Method
from unknot.federation.pace import Pace
from unknot.federation.schedule import Stop, check_requests
from unknot.federation.scores import Scores


class Federation(Bench):
    """A server and its clients, with a method that can make it forget.

    ``run`` may be called again to go on. `model` is what is served now. What a method's author uses
    is in `Bench`.
    """

    def __init__(
        self,
        engine: Engine,
        initial: Weights,
        data: FederatedData,
        method: Method,
        recipe: Recipe | None = None,
        *,
        pace: Pace | None = None,
        aggregate: Aggregate | None = None,
        clock: Clock | None = None,
        select: Selector | None = None,
        select_when: str = "always",
        seed: int = 0,
        evaluate_every: int = 1,
        evaluate_on: Sequence[str] = ("validation",),
        observers: Sequence[Callable[[Event], None]] = (),
    ) -> None:
        if evaluate_every < 0:
            raise ConfigError(f"evaluate_every must be 0 (never) or more, not {evaluate_every}")
        super().__init__(initial, data, recipe or Recipe(), pace, aggregate, select, select_when, seed)
        if not method.selects and (self.select.curious or self.select.learns):
            raise ConfigError(f"{method.name} draws its clients itself: leave select out")
        if self.select.learns and data.validation is None:
            raise ConfigError("a selector that learns is rewarded for accuracy on validation data: give some")
        self.engine = engine
        self.method = method
        if not method.exact:
            self._keepsakes = Keepsakes(self.ledger)
        self.clock = clock or Clock()
        self.now = 0
        self._evaluate_every = evaluate_every
        self.scores = Scores(engine, self.data, evaluate_on)
        self._observers = tuple(observers)
        self._pools: dict[str, NDArray[np.int64]] = {}
        self._apart: list[Trip] = []
        self._history: History | None = None

    # What a person calls -------------------------------------------------------------------------

    def run(
        self,
        rounds: int | None = None,
        *,
        seconds: float | None = None,
        accuracy: float | None = None,
        window: int = 1,
        deviation: float | None = None,
        judge: str = "served",
        requests: Iterable[Request] = (),
    ) -> History:
        """Train for so many more rounds, or simulated seconds, or until the accuracy is reached.

        With `window` and `deviation`, accuracy counts only once it has been steady: its standard
        deviation over the last `window` rounds is at most `deviation`. `judge` says whose it is: that
        of the model that is "served", or of the "best" lane's. All requests are checked before
        training starts.
        """
        stop = Stop(rounds, seconds, accuracy, window, deviation, judge)
        pending = list(requests)
        members = self.members if self._history else self._first_members(pending)
        done = max((lane.rounds for lane in self.lanes.values()), default=0)
        check_requests(pending, self.data, members, stop, done, self.now / SECOND)
        if accuracy is not None and "validation" not in self.scores.watched:
            raise ConfigError(
                "stopping at an accuracy needs validation data, and evaluate_on with 'validation' in it"
            )
        started = time.perf_counter()
        limit = None if seconds is None else self.now + round(seconds * SECOND)
        history = self._history or self._open(members)
        goals = {lane.name: lane.rounds + (rounds or 0) for lane in self.lanes.values()}

        while True:
            self._serve_due(pending, history)
            short = [
                lane
                for lane in self.lanes.values()
                if rounds is None or lane.rounds < goals.setdefault(lane.name, rounds)
            ]
            active = [lane for lane in short if lane.members or lane.flights] or short
            if not active or (self.members and not any(lane.members for lane in short)):
                history.stopped = "rounds"
                break
            if accuracy is not None and not pending and stop.steady(history.since_request):
                history.stopped = "accuracy"
                break
            for lane in active:
                self._launch(lane)
            ready = {lane.name: lane.ready for lane in active if lane.flights}
            wakes = [round(r.at.time * SECOND) for r in pending if r.at.time is not None]
            if not ready and not wakes:
                history.stopped = "no clients left"
                break
            at = min([*ready.values(), *wakes])
            if limit is not None and at > limit:
                self.now, history.stopped = max(self.now, limit), "seconds"
                break
            self.now = max(self.now, at)
            if at not in wakes:
                self._absorb([self.lanes[name] for name, due in ready.items() if due == at], history)

        history.unserved = [f"{request} at {request.at}" for request in pending]
        self.method.conclude(self)
        self._finish(history, time.perf_counter() - started)
        return history

    @property
    def model(self) -> Model:
        """What is served: refused if erased data shaped it."""
        with one_thread():
            model = self.method.serve(self)
        self.ledger.check(model, "serve the model")
        return model

    # What a method calls, beside the bench -------------------------------------------------------

    def train_apart(self, jobs: Sequence[Job]) -> list[Update]:
        """Train jobs that belong to no lane, at once, and wait for all of them: for profiling."""
        for job in jobs:
            self.ledger.check(job, f"train client {job.client}")
        good, bad = sort_out(jobs, self.engine.train(jobs, self.data))
        self.count(jobs, len(bad))
        slowness = self.key.child("slowness")
        times = [self.clock.duration(job.client, job.samples_read(self.data), slowness) for job in jobs]
        self._apart += [
            Trip(job.client, job.node, self.now / SECOND, (self.now + took) / SECOND)
            for job, took in zip(jobs, times, strict=True)
        ]
        self.now += max(times, default=0)
        return good

    def train_alone(self, lane: Lane, rounds: int) -> None:
        """Train one lane for some rounds while the others stand still: for what comes after a run."""
        assert self._history is not None
        goal = lane.rounds + rounds
        while lane.rounds < goal:
            self._launch(lane)
            if not lane.flights:
                break
            self.now = max(self.now, lane.ready)
            self._absorb([lane], self._history)
        self.cancel(lane, lane.flights)

    # The steps of the loop -----------------------------------------------------------------------

    def _launch(self, lane: Lane) -> None:
        """Send the model to as many clients as the pace has room for."""
        pool = self._pool(lane)
        if lane.meeting or lane.selector.curious:
            if not lane.flights:  # those who are out come back first
                self._introduce(lane, pool)
            return
        room = lane.pace.vacancies(len(lane.flights), len(pool))
        if room < 1 or not len(pool):
            return
        idle = pool[~np.isin(pool, list(lane.flying))] if lane.flights else pool
        for client in self.method.choose(self, lane, idle, room):
            # Who is asked must not depend on what it holds: a client with nothing to train on takes
            # its place in the round and comes back with nothing.
            self._send(lane, client, self.method.jobs(self, lane, client))

    def _send(self, lane: Lane, client: int, asked: Sequence[Job]) -> None:
        read = [job.samples_read(self.data) for job in asked]
        jobs = tuple(job for job, samples in zip(asked, read, strict=True) if samples)
        for job in jobs:
            self.ledger.check(job, f"send a model to client {client}")
        due = self.now + self.clock.duration(client, sum(read), self.key.child("slowness"))
        lane.flights.append(Flight(client, jobs, lane.version, self.now, due))
        lane.sent.update((client, *(other for job in asked for other in job.clients)))

    def _introduce(self, lane: Lane, pool: NDArray[np.int64]) -> None:
        """Everybody trains the lane's model for an epoch, for a selector that wants to know them first."""
        lane.meeting = True
        recipe, model = replace(lane.recipe, epochs=1), lane.model
        for client in pool.tolist():
            key = self.key.child("meet", lane.name, lane.version, client)
            unit = self.ledger.unit(client)
            self._send(lane, client, [Job(unit, model, key, recipe, "meet", lane.version)])

    def _absorb(self, lanes: Sequence[Lane], history: History) -> None:
        """Train what is due, in one call for all lanes, and put it into the models."""
        landed = {lane.name: [f for f in lane.flights if f.due <= self.now] for lane in lanes}
        jobs = [job for lane in lanes for flight in landed[lane.name] for job in flight.jobs]
        for job in jobs:
            self.ledger.check(job, f"train client {job.client}")
        started = time.perf_counter()
        updates = self.engine.train(jobs, self.data) if jobs else []
        history.seconds["train"] += time.perf_counter() - started
        position = 0
        records: dict[str, Round] = {}
        for lane in lanes:
            flights = landed[lane.name]
            count = sum(len(flight.jobs) for flight in flights)
            part = slice(position, position + count)
            position += count
            if lane.meeting:
                self._meet(lane, flights, jobs[part], updates[part])
            else:
                records[lane.name] = self._absorb_lane(lane, flights, jobs[part], updates[part])
        # What landed at one moment is measured once, when all of it is in.
        measures = any(self._measures(record.round) for record in records.values())
        scores = self._scores() if measures else {}
        for lane, record in ((self.lanes[name], record) for name, record in records.items()):
            measured = record
            if self._measures(record.round):
                measured = replace(record, scores=scores, own=self._own(lane))
            history.rounds.append(measured)
            self._tell(measured)

    def _absorb_lane(
        self, lane: Lane, flights: list[Flight], jobs: Sequence[Job], updates: Sequence[Update]
    ) -> Round:
        with one_thread():
            good, bad = sort_out(jobs, updates)
            self.method.absorb(self, lane, good)
            if lane.selector.learns:
                accuracy = self.scores.of(lane.model, "validation").accuracy
                key = self.key.child("learn", lane.name, lane.version)
                lane.selector.observe(lane.model, good, accuracy, key)
        staleness = float(np.mean([lane.version - flight.version for flight in flights]))
        gone = set(flights)
        lane.flights = [flight for flight in lane.flights if flight not in gone]
        lane.version += 1
        lane.rounds += 1
        self.count(jobs, len(bad))
        reasons: dict[str, int] = {}
        for _, reason in bad:
            reasons[reason] = reasons.get(reason, 0) + 1
        return Round(
            lane=lane.name,
            round=lane.rounds,
            version=lane.version,
            time=self.now / SECOND,
            clients=tuple(sorted(flight.client for flight in flights)),
            staleness=staleness,
            train_loss=float(np.mean([u.loss for u in good])) if good else float("nan"),
            used=len(good),
            set_aside=reasons,
            scores={},
            costs=self.costs,
            trips=tuple(lane.trip(flight, flight.due) for flight in flights),
        )

    def _meet(
        self, lane: Lane, flights: Sequence[Flight], jobs: Sequence[Job], updates: Sequence[Update]
    ) -> None:
        with one_thread():
            good, bad = sort_out(jobs, updates)
            lane.selector.meet(lane.model, good, self.key.child("meet", lane.name, lane.version))
        lane.flights, lane.meeting = [], False
        self.count(jobs, len(bad))
        self._apart += [lane.trip(flight, flight.due) for flight in flights]

    def _serve_due(self, pending: list[Request], history: History) -> None:
        """Serve the requests whose moment has come, in the order in which they were given."""
        for request in [request for request in pending if self._is_due(request)]:
            pending.remove(request)
            self._serve(request, history)

    def _is_due(self, request: Request) -> bool:
        if request.at.time is not None:
            return round(request.at.time * SECOND) <= self.now
        names = {t.client for t in request.targets} if isinstance(request, Erase) else set(request.clients)
        # The lanes that hold the client count the rounds; for a newcomer, all of them do.
        holders = [lane for lane in self.lanes.values() if lane.members & names]
        done = max((lane.rounds for lane in holders or self.lanes.values()), default=0)
        return request.at.round is not None and request.at.round <= done

    def _serve(self, request: Request, history: History) -> None:
        before = self._scores()
        (lanes, rounds), members = concerned(self.lanes, request), members_of(self.lanes)
        flying = [(lane, flight) for lane in self.lanes.values() for flight in lane.flights]
        self._restarted.clear()
        purged = 0
        if isinstance(request, Erase):
            clients = tuple(target.client for target in request.targets)
            purged = self._forget(request)
        else:
            clients = request.clients
            self.members.update(clients)
            self.method.admit(self, clients)
        self._pools.clear()
        still = {flight for lane in self.lanes.values() for flight in lane.flights}
        trips = [lane.trip(flight, self.now) for lane, flight in flying if flight not in still]
        record = Served(
            request=str(request),
            kind="erase" if isinstance(request, Erase) else "join",
            clients=clients,
            time=self.now / SECOND,
            round=rounds,
            place=len(history.rounds),
            restarted=tuple(self._restarted),
            cancelled=tuple(sorted(trip.client for trip in trips)),
            purged=purged,
            before=before,
            after=self._scores(),
            costs=self.costs,
            trips=tuple(trips),
            lanes=lanes,
            samples=counts(request),
            entered=beyond(members_of(self.lanes), members),
            left=beyond(members, members_of(self.lanes)),
        )
        history.served.append(record)
        self._tell(record)

    def _forget(self, request: Erase) -> int:
        """Close the door on the data, drop what carries it, and have the method repair the rest."""
        for target in request.targets:
            self.data.erase(target.client, target.samples)
            self.ledger.forbid(target.client, target.samples)
        named = {target.client for target in request.targets}
        gone = {target.client for target in request.targets if target.samples is None}
        touched = [lane for lane in self.lanes.values() if lane.sent & named or self._tainted(lane)]
        self.members -= gone
        for lane in self.lanes.values():
            lane.members -= gone
            for node in lane.nodes.values():
                node.members -= gone
            # By name too: a client without samples flies with no job that could be tainted.
            tainted = [f for f in lane.flights if any(self.ledger.taint(job) for job in f.jobs)]
            self.cancel(lane, [*tainted, *(f for f in lane.flights if f.client in gone)])
            if self.ledger.taint(lane.selector) or (self.select_when == "unlearning" and lane in touched):
                lane.selector = self.new_selector()
        purged = len(self.archive.purge()) + (self._keepsakes.purge() if self._keepsakes else 0)
        self.scores.forget()
        if self._history:
            self._history.model = None
        with one_thread():
            self.method.forget(self, request, touched)
        purged += self.memo.purge()
        for lane in self.lanes.values():
            for node in lane.nodes.values():
                self.ledger.check(node.weights, f"keep node {node.name!r} after {self.method.name} forgot")
            for flight in lane.flights:
                for job in flight.jobs:
                    self.ledger.check(job, f"keep client {flight.client} in flight")
        return purged

    # Small print ---------------------------------------------------------------------------------

    def _tainted(self, lane: Lane) -> bool:
        return any(self.ledger.taint(node.weights) for node in lane.nodes.values())

    def _promise(self) -> str:
        """What the method promises; a selector that knew everybody chose for models that go on."""
        said = self.method.promise
        if not (self.method.keeps and (self.select.curious or self.select.learns)):
            return said
        knew = "whom the selector asked, which it knew the erased client for"
        return f"{said}, but for {knew}" if self.method.exact else f"{said}; so is {knew}"

    def _first_members(self, requests: Sequence[Request]) -> set[int]:
        """Everybody, but for those whose joining is still to come."""
        late = {client for r in requests if isinstance(r, Join) for client in r.clients}
        return set(self.data.clients) - late

    def _open(self, members: set[int]) -> History:
        self.members = set(members)
        self.method.open(self)
        self._history = History(self.method.name, self._promise(), self.seed)
        self._history.setup, self._history.members = describe(self), members_of(self.lanes)
        return self._history

    def _finish(self, history: History, elapsed: float) -> None:
        started = time.perf_counter()
        history.environment = environment(self.engine)  # by now the engine knows which path it took
        history.model = self.model
        history.waived = self._keepsakes.waived.describe() if self._keepsakes else []
        history.apart = list(self._apart)
        history.scores = self.scores.all(history.model)
        with one_thread():
            choices = self.method.choices(self)
        for name, model in choices.items():
            self.ledger.check(model, f"show {name!r} as a choice")
            history.choices[name] = history.scores if model.equal(history.model) else self.scores.all(model)
        history.seconds["evaluate"] = self.scores.seconds
        history.seconds["total"] += elapsed + time.perf_counter() - started

    def _pool(self, lane: Lane) -> NDArray[np.int64]:
        if lane.name not in self._pools:
            self._pools[lane.name] = np.asarray(sorted(lane.members), dtype=np.int64)
        return self._pools[lane.name]

    def _measures(self, rounds: int) -> bool:
        return self._evaluate_every > 0 and rounds % self._evaluate_every == 0

    def _scores(self) -> dict[str, Score]:
        """How the served model does now."""
        return self.scores.now(self.model) if self._evaluate_every else {}

    def _own(self, lane: Lane) -> dict[str, Score]:
        """How a lane's own model does, where there are several."""
        if len(self.lanes) == 1 or "global" not in lane.nodes:
            return {}
        return {s: self.scores.of(lane.model, s) for s in self.scores.watched}

    def _tell(self, event: Event) -> None:
        for observer in self._observers:
            observer(event)
