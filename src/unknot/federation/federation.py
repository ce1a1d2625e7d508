"""One loop over a simulated clock: jobs are launched, become due, are trained, are absorbed.

Synchronous and asynchronous runs differ in the pace alone. Erasures and joins are events of this
loop. A job is trained when it is due, not when it is launched: an erasure in between cancels it,
and all jobs that are due together are one call to the engine.

Every lane has its own time: that of the last thing that happened in it. A lane that has had its
rounds rests while others finish theirs, and goes on from its own time when there is more to do: a
run in parts is the run in one.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Unpack

import numpy as np
from numpy.typing import NDArray

from unknot.core.data import FederatedData
from unknot.core.ensemble import Model
from unknot.core.errors import ConfigError, RequestError, UnknotError
from unknot.core.garbage import no_garbage_search
from unknot.core.jobs import Engine, Job, Score, Update
from unknot.core.keys import Key
from unknot.core.lineage import NOBODY, ClientsInOrder
from unknot.core.requests import Erase, Join, Label, Named, Request, arrived, numbered, resolved
from unknot.core.saved import save_model
from unknot.core.selection import goes_by_clients, meets_in_a_round
from unknot.core.threads import one_thread
from unknot.core.training import Recipe
from unknot.core.weights import Weights
from unknot.federation.aggregators import FedAvg
from unknot.federation.clock import SECOND
from unknot.federation.describe import beyond, counts, describe, members_of, nodes_of
from unknot.federation.distil import distilled
from unknot.federation.environment import environment
from unknot.federation.erasure import attempt, close, last_visit, left_to_erase, left_to_join, repair
from unknot.federation.history import NOBODY_LEFT, Event, History, Round, Served, Trip
from unknot.federation.inbox import Inbox, Waiting, check_requests, concerned_by, held_by
from unknot.federation.inspect import sort_out
from unknot.federation.lanes import Flight, Lane
from unknot.federation.length import Length, LengthParts
from unknot.federation.letterbox import Keeper, Letterbox
from unknot.federation.method import Method
from unknot.federation.observers import Observer, Observers
from unknot.federation.promise import Uncovered
from unknot.federation.scores import Scores
from unknot.federation.setup import Setup, SetupParts
from unknot.federation.state import Outside, State
from unknot.federation.stint import Stint
from unknot.federation.view import View


class Federation(View):
    """A server and its clients, with a method that can make it forget.

    ``run`` may be called again to go on. `model` is what is served now. A method works at the `state`,
    which has no engine; what a person looks at of it can be had here as well.

    It trains by an `engine`, from the `initial` weights, on `data`, and forgets by a `method`. `recipe` and
    the further `parts` are the fields of `Setup`, which may be given whole as `setup` instead. `restart` are
    weights to begin again from, should the data that shaped the `initial` ones be erased. `observers` are
    called with each event. `called` is the name of the model, and `experiment` the file that all of it
    comes from: for the record. `unknot.simulate` makes one of names.
    """

    def __init__(
        self,
        engine: Engine,
        initial: Weights,
        data: FederatedData,
        method: Method,
        recipe: Recipe | None = None,
        *,
        setup: Setup | None = None,
        restart: Weights | None = None,
        observers: Sequence[Observer] = (),
        called: str = "",
        **parts: Unpack[SetupParts],
    ) -> None:
        setup = Setup.of(setup, recipe, parts)
        self.given = setup
        self.state = State(initial, data, setup)
        self.built = self.state.initial
        chosen = self.state.select
        if not method.selects and goes_by_clients(chosen):
            raise ConfigError(f"{method.name} draws its clients itself: leave select out")
        if chosen.learns and not data.validation:
            raise ConfigError(
                "a selector that learns is rewarded for how it does on validation data: give some"
            )
        self.engine = engine
        self.method = method
        if method.exact and method.takes_leave:
            raise ConfigError(
                f"{method.name} says that it is exact, but it acts at a leaver's last visit (farewell): what "
                "comes of that knows the erased data. Make it approximate, or leave farewell out"
            )
        self.metrics = setup.task.metrics_for(data.train.kind)
        if not method.exact:
            self.state.allow_keepsakes()
        self.state.outside = Outside(self._train_apart, self._train_alone, self._validate, self._distill)
        self.scores = Scores(engine, self.state.data, setup.evaluate_on)
        self._restart = restart
        self._evaluate_every = setup.evaluate_every
        self.called = called
        self.experiment: Mapping[str, Any] = {}
        self._observers = Observers(observers)
        self._inbox = Inbox()
        self._pools: dict[str, NDArray[np.int64]] = {}
        self._apart: list[Trip] = []
        self._history: History | None = None
        self._stint: Stint | None = None
        self._uncovered = Uncovered()
        self._done: list[tuple[int, Served]] = []
        self.inbox = Letterbox()
        """Where requests come in from other threads: ``fed.inbox.put(unknot.erase("Graz"))``."""
        self.keeper: Keeper | None = None
        self.steps = 0
        """How many there have been: see `step`."""

    def __repr__(self) -> str:
        done = max((lane.rounds for lane in self.lanes.values()), default=0)
        parts = [f"{len(self.state.members if self._history else self.data)} clients of {self.data.name!r}"]
        parts += [f"{done} rounds so far", *(f"{one.told(self.data.label)} pending" for one in self.pending)]
        return f"Federation({self.method.name} ({self.method.guarantee.value}): {', '.join(parts)})"

    # What a person calls -------------------------------------------------------------------------

    def run(
        self,
        rounds: int | Length | None = None,
        *,
        requests: Request | Named | Iterable[Request | Named] = (),
        **parts: Unpack[LengthParts],
    ) -> History:
        """Train for so many more `rounds`, or simulated seconds, or until a goal is reached: a `Length`.

        Its other `parts` (``seconds=...``) may stand here as well. `requests` say who is to be forgotten and
        who joins, and when: `unknot.erase`, `unknot.join`. Those that cannot be served are refused before
        training starts; one whose moment does not come waits for the next run.
        """
        self._observers.check_idle()
        started = time.perf_counter()
        self.begin(rounds, requests=requests, **parts)
        assert self._history is not None
        return self._go_on(self._history, started)

    def begin(
        self,
        rounds: int | Length | None = None,
        *,
        requests: Request | Named | Iterable[Request | Named] = (),
        **parts: Unpack[LengthParts],
    ) -> None:
        """Check what ``run`` is asked, and put it down: `step`, or `resume`, makes it happen."""
        length = Length.of(rounds, parts)
        asked = [requests] if isinstance(requests, Erase | Join | Named) else requests
        new = self._inbox.unknown(resolved(asked, self.data, self.state.now / SECOND))
        members = self.state.members if self._history else self._first_members(new)
        self._check(new, members)
        length.check(self.metrics[0])
        if length.target is not None and "validation" not in self.scores.watched:
            raise ConfigError(
                f"stopping at {'an accuracy' if length.goal is None else 'a goal'} needs validation data, "
                "and evaluate_on with 'validation' in it"
            )
        limit = None if length.seconds is None else self.state.now + round(length.seconds * SECOND)
        history = self._history or self._open(members)
        history.experiment = dict(self.experiment)
        self._inbox.put(new)
        self._uncovered.timed |= limit is not None
        if length.target is not None:
            self._uncovered.judged = self.metrics[0].name
        goals: dict[str, int] = {}
        if length.rounds is not None:
            goals = {name: lane.rounds - lane.ahead + length.rounds for name, lane in self.lanes.items()}
        for lane in self.lanes.values():
            lane.ahead = 0
        self._stint = Stint(length, limit, goals)

    def resume(self) -> History:
        """Go on with what the last ``run`` was asked to do, from where it was broken off."""
        self._observers.check_idle()
        if self._stint is None or self._history is None:
            raise UnknotError("there is nothing to go on with: this federation has not been run")
        return self._go_on(self._history, time.perf_counter())

    @property
    def over(self) -> bool:
        """Whether there is nothing left to do of what ``run`` was last asked."""
        return self._stint is None or bool(self._stint.stopped)

    @property
    def length(self) -> Length:
        """How long the last ``run`` was to go on."""
        if self._stint is None:
            raise UnknotError("this federation has not been run")
        return self._stint.length

    def _go_on(self, history: History, started: float) -> History:
        assert self._stint is not None
        with self._observers.during(history):
            while not self._stint.stopped:
                self.step()
            self._finish(history, started)
            if self.keeper is not None:
                self.keeper.ended(self, history)
        return history

    def step(self) -> tuple[Event, ...]:
        """Make the next thing happen: serve a request, or take in who is back first. What happened.

        The last step of a run happens to nobody: it is found that the run is over, and why.
        """
        stint, history = self._stint, self._history
        if stint is None or history is None or stint.stopped:
            raise UnknotError("there is nothing to go on with: call run, and steps come of it")
        self._take_in()
        rounds, served = len(history.rounds), len(history.served)
        with no_garbage_search():
            stint.stopped = self._turn(history, stint)
        if stint.stopped:
            self._conclude(history, stint)
        self.steps += 1
        events: tuple[Event, ...] = (*history.served[served:], *history.rounds[rounds:])
        done, self._done = self._done, []
        if self.keeper is not None:
            self.keeper.stepped(self, events, done)
        for number, record in done:
            self.inbox.close(number, "served", served=record)
        return events

    def _take_in(self) -> None:
        """Take up what was asked from outside; what cannot be served is refused there."""
        for letter in [*self.inbox.take(), *(self.keeper.letters(self) if self.keeper else ())]:
            try:
                new = [arrived(letter.request, self.data, self.state.now / SECOND)]
                self._check(new, self.state.members, self._label)
            except RequestError as error:
                if self.keeper is not None:
                    self.keeper.refused(letter.number, str(error))
                self.inbox.close(letter.number, "refused", str(error))
            else:
                self._inbox.put(new, letter.number)

    def _turn(self, history: History, stint: Stint) -> str:
        """Serve what is due, or send clients out and take in who is back first; why, if that is the end."""
        length, goals, limit = stint.length, stint.goals, stint.limit
        if (due := self._inbox.next_due(self.state, goals)) is not None:
            if self.keeper is not None and isinstance(due[0].request, Erase):
                self.keeper.erasing(self, due[0].request)
            self._serve_due(*due, history)
            return ""
        if length.rounds is not None:
            goals |= {name: length.rounds for name in self.lanes if name not in goals}
        short = [lane for name, lane in self.lanes.items() if not goals or lane.rounds < goals[name]]
        active = [lane for lane in short if lane.members or lane.flights] or short
        if not active or (self.state.members and not any(lane.members for lane in short)):
            return "rounds"
        if length.reached(history) and not self._inbox.may_come(self.state, goals, limit):
            return "accuracy" if length.goal is None else "goal"
        halted = self._inbox.halted(self.state, goals)
        active = [lane for lane in active if lane.name not in halted]
        for lane in active:
            self._launch(lane)
        ready = {lane.name: lane.ready for lane in active if lane.flights}
        wakes = self._inbox.wakes()
        if not ready and not wakes:
            return NOBODY_LEFT
        ready |= self._led_on(wakes, ready, short, halted)
        at = min([*ready.values(), *wakes])
        if limit is not None and at > limit:
            self.state.now = max(self.state.now, limit)
            return "seconds"
        self.state.now = at
        if at not in wakes:
            self._absorb([self.lanes[name] for name, due_at in ready.items() if due_at == at], history)
        return ""

    def _conclude(self, history: History, stint: Stint) -> None:
        """What is left to do when a run is over."""
        history.stopped = stint.stopped
        self.state.now = max([self.state.now, *(lane.at for lane in self.lanes.values())])
        for name, lane in self.lanes.items():
            lane.ahead = max(0, lane.rounds - stint.goals.get(name, lane.rounds))
        self.method.conclude(self.desk)

    @property
    def model(self) -> Model:
        """What is served: it carries all that was read to make it, and is refused if that was erased."""
        with one_thread(), self.ledger.reading() as read:
            model = self.method.serve(self.desk) if self._history else self.initial
        model = model.carrying(read())
        self.ledger.check(model, "serve the model")
        if waived := self.state.waived:
            model = model.carrying(NOBODY.waiving(waived.clients))
        return model.named(self.names) if self.names else model

    @property
    def names(self) -> Mapping[int, str]:
        """What clients are called; in a run that is kept, those who were erased are numbers from then on."""
        if self.keeper is None:
            return self.data.names
        gone = self.state.forgotten
        return {client: name for client, name in self.data.names.items() if client not in gone}

    def _label(self, client: int) -> str:
        return self.names.get(client, numbered(client))

    def save(self, file: str | Path) -> None:
        """Write what is served now, with whose data shaped it, as safetensors: see `unknot.load_model`."""
        save_model(self.model, file)

    @property
    def pending(self) -> tuple[Request, ...]:
        """The requests whose moment has not come yet, or that a method failed to serve."""
        return self._inbox.requests

    # What the state hands on ----------------------------------------------------------------------

    def _train_apart(self, jobs: Sequence[Job]) -> list[Update]:
        for job in jobs:
            self.state.check_job(job, "train")
        good, bad = sort_out(jobs, self.engine.train(jobs, self.data))
        self.state.count(jobs, len(bad))
        now = self.state.now
        times = [self.state.duration(job.client, job.samples_read(self.data)) for job in jobs]
        self._apart += [
            Trip(job.client, job.node, now / SECOND, (now + took) / SECOND)
            for job, took in zip(jobs, times, strict=True)
        ]
        self.state.now += max(times, default=0)
        return good

    def _train_alone(self, lane: Lane, rounds: int) -> None:
        assert self._history is not None
        goal = lane.rounds + rounds
        while lane.rounds < goal:
            self._launch(lane)
            if not lane.flights:
                break
            self.state.now = lane.ready
            self._absorb([lane], self._history)
        self.state.cancel(lane, lane.flights)

    def _validate(self, models: Sequence[Weights]) -> list[float]:
        if "validation" not in self.scores.there:
            return [0.0] * len(models)
        return [self.metrics[0].merit(score.value) for score in self.scores.each(models, "validation")]

    def _distill(self, student: Weights, teacher: Weights, recipe: Recipe, key: Key) -> Weights:
        for weights in (student, teacher):
            self.ledger.check(weights, "distil a model")
        made, read = distilled(self.engine, self.data, student, teacher, recipe, key)
        self.state.costs = self.costs.plus(server_samples=read, set_aside=made is None)
        self.state.now += round(self.clock.seconds_per_sample * read * SECOND)
        return (student if made is None else made).carrying(teacher.lineage)

    def _led_on(
        self, wakes: Sequence[int], ready: Mapping[str, int], short: Sequence[Lane], halted: set[str]
    ) -> dict[str, int]:
        """The lanes that rest, but are not yet where a request at a time would find them in a longer run."""
        asked = min(wakes, default=0)
        if not ready or not wakes or asked > min(ready.values()):
            return {}
        concerned = {
            lane.name
            for request in self.pending
            if request.at.time is not None and round(request.at.time * SECOND) == asked
            for lane in concerned_by(self.state, request)
        }
        busy = {lane.name for lane in short} | halted
        found: dict[str, int] = {}
        for lane in self.lanes.values():
            if lane.name in concerned - busy and lane.at < asked:
                self._launch(lane)
                if lane.flights and lane.ready < asked:
                    found[lane.name] = lane.ready
        return found

    # The steps of the loop -----------------------------------------------------------------------

    def _launch(self, lane: Lane) -> None:
        """Send the model to as many clients as the pace has room for."""
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
        chosen = list(self.method.choose(self.desk, lane, idle, room))
        self._check_chosen(lane, chosen, idle)
        self.method.send_out(self.desk, lane, chosen)
        for client in chosen:
            # Who is asked must not depend on what it holds: a client with nothing to train on takes
            # its place in the round and comes back with nothing.
            self._send(lane, client, self.method.jobs(self.desk, lane, client))

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
                f"{who} chose {self.data.label(client)}, but {why}: choose(...) must give some of those "
                "that it is handed, each once"
            )

    def _send(self, lane: Lane, client: int, asked: Sequence[Job]) -> None:
        jobs, read = list[Job](), 0
        lane.sent.add(client)
        for job in asked:
            lane.sent.update(job.clients)
            if samples := job.samples_read(self.data):
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
        self.method.send_out(self.desk, lane, pool.tolist())
        if meets_in_a_round(lane.selector):
            for client in pool.tolist():
                self._send(lane, client, self.method.jobs(self.desk, lane, client))
            return
        recipe, model = replace(lane.recipe, epochs=1), lane.model
        for client in pool.tolist():
            key = self.key.child("meet", lane.name, lane.version, client)
            unit = self.ledger.unit(client)
            self._send(lane, client, [Job(unit, model, key, recipe, "meet", lane.version)])

    def _absorb(self, lanes: Sequence[Lane], history: History) -> None:
        """Train what is due, in one call for all lanes, and put it into the models."""
        now = self.state.now
        landed = {lane.name: [f for f in lane.flights if f.due <= now] for lane in lanes}
        jobs = [job for lane in lanes for flight in landed[lane.name] for job in flight.jobs]
        for job in jobs:
            self.state.check_clean(job, "train")
        started = time.perf_counter()
        updates = self.engine.train(jobs, self.data) if jobs else []
        history.seconds["train"] += time.perf_counter() - started
        position = 0
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
        scores = self._scores() if measures else {}
        own = self._own(
            [self.lanes[name] for name, record in records.items() if self._measures(record.round)]
        )
        for lane, record in ((self.lanes[name], record) for name, record in records.items()):
            measured = record
            if self._measures(record.round):
                measured = replace(record, scores=scores, own=own[lane.name])
            history.rounds.append(measured)
            self._observers.tell(measured, history)

    def _absorb_lane(
        self, lane: Lane, flights: list[Flight], jobs: Sequence[Job], updates: Sequence[Update]
    ) -> Round:
        with one_thread():
            good, bad = sort_out(jobs, updates)
            sent = lane.main.weights if lane.meeting else None
            with self.state.absorbing(good):
                self.method.absorb(self.desk, lane, good)
            lane.show(flights, good)
            if sent is not None:
                self._acquaint(lane, sent, [update for update in good if update.job.node == lane.main.name])
            elif lane.selector.learns and "validation" in self.scores.there:
                (merit,) = self._validate([lane.model])
                key = self.key.child("learn", lane.name, lane.version)
                # The merit is as much of those whose rows it was measured on as of the model.
                judged = lane.model.carrying(self.state.validators)
                lane.learn(judged, good)
                lane.selector.observe(judged, good, merit, key)
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
            clients=ClientsInOrder(sorted(flight.client for flight in flights)).called(self.data.names),
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
            lane.show(flights, good)
            self._acquaint(lane, lane.model, good)
        lane.flights = []
        self.state.count(jobs, len(bad))
        self._apart += [lane.trip(flight, flight.due) for flight in flights]

    def _acquaint(self, lane: Lane, sent: Weights, updates: Sequence[Update]) -> None:
        """Show a selector everybody's updates, and the model that they start from."""
        lane.learn(sent, updates)
        lane.selector.meet(sent, updates, self.key.child("meet", lane.name, lane.version))
        lane.meeting = False

    # Requests ------------------------------------------------------------------------------------

    def _check(self, new: Sequence[Request], members: set[int], outside: Label | None = None) -> None:
        """Raise for what cannot be served; one that came from `outside` is told by those names."""
        inherited = self.initial.lineage.clients
        known = inherited | self.state.select_knows.clients
        check_requests(new, self._inbox.untouched, self.data, members, known, outside)
        named = {t.client for r in new if isinstance(r, Erase) for t in r.targets}
        base = self.initial.layout.base.lineage
        if shaped := sorted(named & (base.clients | base.waived)):
            raise RequestError(
                f"{self._label(shaped[0])} had a part in the base of the model, which is frozen: nothing "
                "that is trained on it can forget that. Begin again on another base"
            )
        if self._restart is None and (shaped := sorted(named & inherited)):
            raise RequestError(
                f"{self._label(shaped[0])} had a part in the weights that this federation began with, "
                "and there are no others to begin again from: give the model by name or as a function"
            )

    def _serve_due(self, waiting: Waiting, moment: int, history: History) -> None:
        """Serve a request whose moment has come."""
        self.state.now = moment
        if waiting.request.at.round is not None and not waiting.begun:
            for lane in concerned_by(self.state, waiting.request):
                lane.wait_until(self.state.now)
        record = self._serve(waiting, len(history.rounds))
        self._inbox.remove(waiting)
        history.served.append(record)
        if waiting.asked is not None:
            self._done.append((waiting.asked, record))
        self._observers.tell(record, history)

    def _serve(self, waiting: Waiting, place: int) -> Served:
        """Serve a request. Should the method fail, it stays the first to be served."""
        request, state = waiting.request, self.state
        self._uncovered.timed |= request.at.time is not None
        if not waiting.begun:
            waiting.held = members_of(self.lanes)
            waiting.lanes = tuple(lane.name for lane in held_by(state, request))
            waiting.round = max(
                (lane.rounds for lane in held_by(state, request) or self.lanes.values()), default=0
            )
            waiting.before = self._scores()
        flying = [(lane, flight) for lane in self.lanes.values() for flight in lane.flights]
        state.restarted.clear()
        self._pools.clear()
        clients = self._forget(waiting, request) if isinstance(request, Erase) else self._admit(request)
        still = {flight for lane in self.lanes.values() for flight in lane.flights}
        trips = [lane.trip(flight, state.now) for lane, flight in flying if flight not in still]
        told = request.told(numbered if self.keeper else self.data.label)
        return Served(
            request=told if clients else f"{told} (nothing was left to do)",
            kind="erase" if isinstance(request, Erase) else "join",
            clients=ClientsInOrder(clients).called(self.data.names),
            time=state.now / SECOND,
            round=waiting.round,
            place=place,
            restarted=tuple(state.restarted),
            cancelled=tuple(sorted(trip.client for trip in trips)),
            purged=waiting.purged,
            before=waiting.before,
            after=self._scores(),
            costs=self.costs,
            trips=tuple(trips),
            visits=tuple(waiting.visits),
            lanes=waiting.lanes,
            samples=counts(waiting.left),
            entered=beyond(members_of(self.lanes), waiting.held),
            left=beyond(waiting.held, members_of(self.lanes)),
        )

    def _forget(self, waiting: Waiting, request: Erase) -> tuple[int, ...]:
        """A last visit; close the door on the data, drop what carries it, have the method repair the rest."""
        if not waiting.begun:
            left = left_to_erase(self.state, request)
            if left is None:
                return ()
            waiting.tried = True
            self._say_farewell(waiting, left)
            here = tuple(target for target in left.targets if target.client in self.state.members)
            waiting.touched, waiting.purged = close(self.state, left.targets)
            waiting.begun = True
            waiting.left = replace(left, targets=here or left.targets)
            waiting.idle = not (here or waiting.touched)
            self.engine.wipe()
            self.scores.forget()
            if self._history:
                self._history.model = None
            self._uncovered.erased = True
        assert waiting.left is not None
        if not waiting.idle:
            touched = [lane for lane in waiting.touched if lane in self.lanes.values()]
            waiting.purged += repair(self.state, self.method, waiting.left, touched, self._restart)
        return tuple(target.client for target in waiting.left.targets)

    def _say_farewell(self, waiting: Waiting, request: Erase) -> None:
        before = len(self._apart)
        try:
            last_visit(self.state, self.method, request)
        finally:  # what was done was done, also where it failed
            waiting.visits += self._apart[before:]
            del self._apart[before:]

    def _admit(self, request: Join) -> tuple[int, ...]:
        left = left_to_join(self.state, request)
        if left is None:
            return ()
        with attempt(self.state):
            held = {name: set(lane.members) for name, lane in self.lanes.items()}
            self.state.members.update(left.clients)
            self.method.admit(self.desk, left.clients)
        for name, lane in self.lanes.items():
            if lane.members != held.get(name):  # there is somebody to ask from now on
                lane.at = max(lane.at, self.state.now)
        return left.clients

    # Small print ---------------------------------------------------------------------------------

    def _first_members(self, requests: Sequence[Request]) -> set[int]:
        """Everybody, but for those whose joining is still to come."""
        late = {client for r in requests if isinstance(r, Join) for client in r.clients}
        return set(self.data.clients) - late

    def _open(self, members: set[int]) -> History:
        self.state.members = set(members)
        self.method.open(self.desk)
        if not self.method.aggregates and not isinstance(self.state.aggregate, FedAvg):
            raise ConfigError(f"{self.method.name} puts updates together itself: leave aggregate out")
        promise = self._uncovered.promise(self.method, self.state)
        self._history = History(self.method.name, promise, self.seed, self.metrics[0])
        self._history.setup = describe(self.method, self.state, self.metrics, self.called)
        self._history.members = members_of(self.lanes)
        self._history.nodes = nodes_of(self.lanes)
        self._history.names = dict(self.data.names)
        self._history.waived = self.state.waived.describe(self.data.label)
        return self._history

    def _finish(self, history: History, started: float) -> None:
        history.environment = environment(self.engine)  # by now the engine knows which path it took
        history.guarantee = self._uncovered.promise(self.method, self.state)
        history.unserved = [
            f"{request.told(self._label)} at {request.at}" for request in self._inbox.requests
        ]
        history.model = self.model
        history.names = dict(self.names)
        history.waived = self.state.waived.describe(self._label)
        history.apart = list(self._apart)
        history.scores = self.scores.all(history.model)
        history.initial = self._initial_scores()
        with one_thread():
            choices = self.method.choices(self.desk)
        for name, model in choices.items():
            self.ledger.check(model, f"show {name!r} as a choice")
        others = [model for model in choices.values() if not model.equal(history.model)]
        for split in self.scores.there:
            self.scores.each(others, split)
        for name, model in choices.items():
            history.choices[name] = history.scores if model.equal(history.model) else self.scores.all(model)
        history.seconds["evaluate"] = self.scores.seconds
        history.seconds["total"] += time.perf_counter() - started

    def _pool(self, lane: Lane) -> NDArray[np.int64]:
        if lane.name not in self._pools:
            self._pools[lane.name] = np.asarray(sorted(lane.members), dtype=np.int64)
        return self._pools[lane.name]

    def _measures(self, rounds: int) -> bool:
        return self._evaluate_every > 0 and rounds % self._evaluate_every == 0

    def _scores(self) -> dict[str, Score]:
        """How the served model does now."""
        return self.scores.now(self.model) if self._evaluate_every else {}

    def _initial_scores(self) -> dict[str, Score]:
        """How the model does that lanes begin with, on the split that a run is judged by."""
        if self.ledger.taint(self.initial):  # an approximate method has let it pass, but it is not asked
            return {}
        return {split: self.scores.of(self.initial, split) for split in list(self.scores.there)[:1]}

    def _own(self, lanes: Sequence[Lane]) -> dict[str, dict[str, Score]]:
        """How the lanes' own models do, where there are several."""
        found: dict[str, dict[str, Score]] = {lane.name: {} for lane in lanes}
        asked = [lane for lane in lanes if len(self.lanes) > 1 and "global" in lane.nodes]
        for split in self.scores.watched if asked else ():
            for lane, score in zip(asked, self.scores.each([one.model for one in asked], split), strict=True):
                found[lane.name][split] = score
        return found


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
