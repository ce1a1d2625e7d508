"""Clients at work: who is sent out, what comes back, and how the models do that come of it.

A job is trained when it is due, not when it is launched: an erasure in between cancels it, and all jobs that
are due together are one call to the engine.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unknot.core.ensemble import Model
from unknot.core.errors import ConfigError
from unknot.core.jobs import Engine, Job, Score, Update
from unknot.core.keys import Key
from unknot.core.lineage import NOBODY
from unknot.core.metrics import Metric
from unknot.core.own import copies, handed, is_own
from unknot.core.selection import meets_in_a_round
from unknot.core.threads import one_thread
from unknot.core.training import Recipe
from unknot.core.weights import Weights
from unknot.federation.clock import SECOND
from unknot.federation.cohort import Call, Running, run_alone
from unknot.federation.desk import Desk
from unknot.federation.distil import distilled
from unknot.federation.events import Round, Trip
from unknot.federation.history import History
from unknot.federation.inspect import sort_out
from unknot.federation.lanes import Flight, Lane
from unknot.federation.method import Method
from unknot.federation.observers import Observers
from unknot.federation.own_parts import check_met
from unknot.federation.scores import Scores
from unknot.federation.state import State


class Work:
    """What clients do for a federation's lanes; the models are measured `every` so many rounds."""

    def __init__(
        self,
        engine: Engine,
        state: State,
        method: Method,
        scores: Scores,
        metric: Metric,
        every: int,
        observers: Observers,
    ) -> None:
        self.engine, self.state, self.method, self.scores = engine, state, method, scores
        self.history: History | None = None
        """The record of the run; none before its first step."""
        self.apart: list[Trip] = []
        """What clients did beside the rounds."""
        self._metric, self.every, self.observers = metric, every, observers
        self.launched: set[str] = set()
        """The lanes whose clients were sent out in this step: tried again, it finds them out."""
        self._pools: dict[str, NDArray[np.int64]] = {}
        state.desk = Desk(state, self)

    def forget_members(self) -> None:
        """Who may be asked is looked up anew: members have come or gone."""
        self._pools.clear()

    # Models, and how they do ---------------------------------------------------------------------------

    def serve(self) -> Model:
        """What is served: it carries all that was read to make it, and is refused if that was erased."""
        with one_thread(), self.state.ledger.reading() as read:
            model = self.method.serve(self.state.desk) if self.history else self.state.initial
        model = model.carrying(read())
        self.state.ledger.check(model, "serve the model")
        if waived := self.state.waived:
            model = model.carrying(NOBODY.waiving(waived.clients))
        return model

    def would_serve(self) -> Model:
        """What would be served now: a look that leaves no record, for it may come by the clock."""
        apart = len(self.apart)
        try:
            with self.state.unrecorded():
                return self.serve()
        finally:
            del self.apart[apart:]

    def _measures(self, rounds: int) -> bool:
        return self.every > 0 and rounds % self.every == 0

    def scores_now(self) -> dict[str, Score]:
        """How the served model does now."""
        return self.scores.now(self.serve()) if self.every else {}

    def initial_scores(self) -> dict[str, Score]:
        """How the model does that lanes begin with, on the split that a run is judged by."""
        initial = self.state.initial
        if self.state.ledger.taint(initial):  # an approximate method has let it pass, but it is not asked
            return {}
        return {split: self.scores.of(initial, split) for split in list(self.scores.there)[:1]}

    def _own(self, lanes: Sequence[Lane]) -> dict[str, dict[str, Score]]:
        """How the lanes' own models do, where there are several."""
        found: dict[str, dict[str, Score]] = {lane.name: {} for lane in lanes}
        asked = [lane for lane in lanes if len(self.state.lanes) > 1 and "global" in lane.nodes]
        for split in self.scores.watched if asked else ():
            for lane, score in zip(asked, self.scores.each([one.model for one in asked], split), strict=True):
                found[lane.name][split] = score
        return found

    # Out and back ---------------------------------------------------------------------------------------

    def launch(self, lane: Lane) -> None:
        """Send the model to as many clients as the pace has room for."""
        with self.state.midst():
            self._launch(lane)

    def _launch(self, lane: Lane) -> None:
        pool = self._pool(lane)
        if not len(pool):
            return
        if lane.meeting or lane.selector.curious:
            if not lane.flights:  # those who are out come back first
                self._introduce(lane, pool)
            return
        room = lane.pace.vacancies(len(lane.flights), len(pool))
        if room < 1:
            return
        idle = _without(pool, lane.flying) if lane.flights else pool
        if not len(idle):
            return
        own = is_own(self.method) or is_own(lane.selector)
        chosen = list(self.method.choose(self.state.desk, lane, idle.copy() if own else idle, room))
        self._check_chosen(lane, chosen, idle)
        self.method.send_out(self.state.desk, lane, chosen)
        for client in chosen:
            # Who is asked must not depend on what it holds: a client with nothing to train on takes
            # its place in the round and comes back with nothing.
            self._send(lane, client, self.method.jobs(self.state.desk, lane, client))

    def _check_chosen(self, lane: Lane, chosen: Sequence[int], idle: NDArray[np.int64]) -> None:
        """Refuse whom nobody may ask now: somebody who is out, is no member, or was named before."""
        asked = np.asarray(chosen)
        if asked.dtype.kind in "iu" and len(set(chosen)) == len(chosen) and _among(asked, idle).all():
            return
        free = set(idle.tolist())
        for client in chosen:
            if client in free:
                free.remove(client)
                continue
            own = getattr(self.method.choose, "__func__", None) is not Method.choose
            names = [f"the method {self.method.name}"] if own else []
            names += [f"the selector {type(lane.selector).__name__}"] if self.method.selects else []
            who = ", with ".join(names)
            why = "it was chosen already" if client in idle else "it is not among the idle clients"
            raise ConfigError(
                f"{who} chose {self.state.data.label(client)}, but {why}: choose(...) must give some of "
                "those that it is handed, each once"
            )

    def _send(self, lane: Lane, client: int, asked: Sequence[Job]) -> None:
        jobs, read = list[Job](), 0
        lane.sent.add(client)
        for job in asked:
            lane.sent.update(job.clients)
            if samples := job.samples_read(self.state.data):
                read += samples
                self.state.check_job(job, "send a model to")
                jobs.append(job)
        due = lane.at + self.state.duration(client, read)
        lane.flights.append(Flight(client, tuple(jobs), lane.version, lane.at, due))

    def _introduce(self, lane: Lane, pool: NDArray[np.int64]) -> None:
        """Everybody trains the lane's model, for a selector that wants to know them first.

        For an epoch, apart from the lane's rounds; or for a round that everybody is asked for.
        """
        lane.meeting = True
        self.method.send_out(self.state.desk, lane, pool.tolist())
        if meets_in_a_round(lane.selector):
            for client in pool.tolist():
                self._send(lane, client, self.method.jobs(self.state.desk, lane, client))
            return
        recipe, model = replace(lane.recipe, epochs=1), lane.model
        for client in pool.tolist():
            key = self.state.key.child("meet", lane.name, lane.version, client)
            unit = self.state.ledger.unit(client)
            self._send(lane, client, [Job(unit, model, key, recipe, "meet", lane.version)])

    def absorb(self, lanes: Sequence[Lane], history: History) -> Running[None]:
        """Train what is due, in one call for all lanes, and put it into the models."""
        now = self.state.now
        landed = {lane.name: [f for f in lane.flights if f.due <= now] for lane in lanes}
        jobs = [job for lane in lanes for flight in landed[lane.name] for job in flight.jobs]
        for job in jobs:
            self.state.check_clean(job, "train")
        started = time.perf_counter()
        updates: list[Update] = []
        if jobs:
            yield (call := Call(self.engine, jobs, self.state.data))
            updates = call.answer.result()
        history.spend(train=time.perf_counter() - started)
        with self.state.midst():
            self._take_in(lanes, landed, jobs, updates, history)

    def _take_in(
        self,
        lanes: Sequence[Lane],
        landed: Mapping[str, list[Flight]],
        jobs: Sequence[Job],
        updates: Sequence[Update],
        history: History,
    ) -> None:
        now, position = self.state.now, 0  # a method may take its time with the first of them
        records: dict[str, Round] = {}
        for lane in lanes:
            lane.at = now
            flights = landed[lane.name]
            count = sum(len(flight.jobs) for flight in flights)
            part = slice(position, position + count)
            position += count
            if lane.meeting and not meets_in_a_round(lane.selector):
                self._meet(lane, flights, jobs[part], updates[part])
            else:
                records[lane.name] = self._absorb_lane(lane, flights, jobs[part], updates[part])
        # What landed at one moment is measured once, when all of it is in.
        measures = any(self._measures(record.round) for record in records.values())
        scores = self.scores_now() if measures else {}
        own = self._own(
            [self.state.lanes[name] for name, record in records.items() if self._measures(record.round)]
        )
        for lane, record in ((self.state.lanes[name], record) for name, record in records.items()):
            measured = record
            if self._measures(record.round):
                measured = replace(record, scores=scores, own=own[lane.name])
            history.rounds.append(measured)
            self.observers.tell(measured, history)

    def _absorb_lane(
        self, lane: Lane, flights: list[Flight], jobs: Sequence[Job], updates: Sequence[Update]
    ) -> Round:
        with one_thread():
            good, bad = sort_out(jobs, updates)
            sent = lane.main.weights if lane.meeting else None
            with self.state.absorbing(good):
                self.method.absorb(self.state.desk, lane, copies(good) if is_own(self.method) else good)
            if sent is not None:
                self._acquaint(lane, sent, [update for update in good if update.job.node == lane.main.name])
            elif lane.selector.learns and "validation" in self.scores.there:
                merit = self.validate(lane.model)
                key = self.state.key.child("learn", lane.name, lane.version)
                # The merit is as much of those whose rows it was measured on as of the model.
                judged = lane.model.carrying(self.state.validators)
                lane.learn(judged, good)
                lane.selector.observe(*handed(lane.selector, judged, good), merit, key)
        staleness = float(np.mean([lane.version - flight.version for flight in flights]))
        gone = set(flights)
        lane.flights = [flight for flight in lane.flights if flight not in gone]
        lane.version += 1
        lane.rounds += 1
        self.state.count(jobs, len(bad))
        reasons: dict[str, int] = {}
        for _, reason in bad:
            reasons[reason] = reasons.get(reason, 0) + 1
        return Round(
            lane=lane.name,
            round=lane.rounds,
            version=lane.version,
            time=self.state.now / SECOND,
            clients=tuple(sorted(flight.client for flight in flights)),
            staleness=staleness,
            train_loss=float(np.mean([u.loss for u in good])) if good else float("nan"),
            used=len(good),
            set_aside=reasons,
            scores={},
            costs=self.state.costs,
            trips=tuple(lane.trip(flight, flight.due) for flight in flights),
        )

    def _meet(
        self, lane: Lane, flights: Sequence[Flight], jobs: Sequence[Job], updates: Sequence[Update]
    ) -> None:
        with one_thread():
            good, bad = sort_out(jobs, updates)
            self._acquaint(lane, lane.model, good)
        lane.flights = []
        self.state.count(jobs, len(bad))
        self.apart += [lane.trip(flight, flight.due) for flight in flights]

    def _acquaint(self, lane: Lane, sent: Weights, updates: Sequence[Update]) -> None:
        """Show a selector everybody's updates, and the model that they start from."""
        lane.learn(sent, updates)
        key = self.state.key.child("meet", lane.name, lane.version)
        lane.selector.meet(*handed(lane.selector, sent, updates), key)
        check_met(lane.selector)
        lane.meeting = False

    def _pool(self, lane: Lane) -> NDArray[np.int64]:
        if lane.name not in self._pools:
            self._pools[lane.name] = np.asarray(sorted(lane.members), dtype=np.int64)
        return self._pools[lane.name]

    # What a method asks for -------------------------------------------------------------------------------

    def train_apart(self, jobs: Sequence[Job]) -> list[Update]:
        """Train jobs that belong to no lane, at once, and wait for all of them.

        For profiling, and for a leaver's last visit.
        """
        for job in jobs:
            self.state.check_job(job, "train")
        good, bad = sort_out(jobs, self.engine.train(jobs, self.state.data))
        self.state.count(jobs, len(bad))
        now = self.state.now
        times = [self.state.duration(job.client, job.samples_read(self.state.data)) for job in jobs]
        self.apart += [
            Trip(job.client, job.node, now / SECOND, (now + took) / SECOND)
            for job, took in zip(jobs, times, strict=True)
        ]
        self.state.now += max(times, default=0)
        return good

    def train_alone(self, lane: Lane, rounds: int) -> None:
        """Train one lane for some rounds while the others stand still: for what comes after a run."""
        assert self.history is not None
        goal = lane.rounds + rounds
        while lane.rounds < goal:
            self.launch(lane)
            if not lane.flights:
                break
            self.state.now = lane.ready
            run_alone(self.absorb([lane], self.history))
        self.state.cancel(lane, lane.flights)

    def validate(self, model: Weights) -> float:
        """How a model does on the validation data, more is better: the main metric; 0 where none is left."""
        return self._merits([model])[0]

    def best(self, models: Sequence[Weights]) -> Weights:
        """The model that does best on the validation data; the first, where two do as well."""
        merits = self._merits(models)
        return models[merits.index(max(merits))]

    def _merits(self, models: Sequence[Weights]) -> list[float]:
        if "validation" not in self.scores.there:
            return [0.0] * len(models)
        return [self._metric.merit(score.value) for score in self.scores.each(models, "validation")]

    def distill(self, student: Weights, teacher: Weights, recipe: Recipe, key: Key) -> Weights:
        """Train a model on what another one says of the public samples: the server's own work.

        `recipe.loss` are `SoftTargets`. The result carries both lineages; should it be no numbers, it is
        the student as it was.
        """
        for weights in (student, teacher):
            self.state.ledger.check(weights, "distil a model")
        made, read = distilled(self.engine, self.state.data, student, teacher, recipe, key)
        self.state.costs = self.state.costs.plus(server_samples=read, set_aside=made is None)
        self.state.now += round(self.state.clock.seconds_per_sample * read * SECOND)
        return (student if made is None else made).carrying(teacher.lineage)


def _among(clients: NDArray[Any], pool: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Which clients are in a pool in the order of ids: without a look at all of a million."""
    places = np.searchsorted(pool, clients)
    found: NDArray[np.bool_] = places < len(pool)
    found[found] = pool[places[found]] == clients[found]
    return found


def _without(pool: NDArray[np.int64], clients: Iterable[int]) -> NDArray[np.int64]:
    """A pool in the order of ids, but for these."""
    out = np.fromiter(clients, dtype=np.int64)
    return np.delete(pool, np.searchsorted(pool, out[_among(out, pool)]))
