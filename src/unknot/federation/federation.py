"""A server and its clients, as a person has them: asked to run, to go on and to forget, step by step.

A step serves a request whose moment has come, or is a turn of the loop (`unknot.federation.loop`).
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any, Unpack

from unknot.core.archive import Archive, Keepsakes
from unknot.core.data import FederatedData
from unknot.core.ensemble import Model
from unknot.core.errors import ConfigError, RequestError, UnknotError
from unknot.core.garbage import no_garbage_search
from unknot.core.jobs import Engine, Score
from unknot.core.lineage import Clients, Ledger
from unknot.core.own import Watch, is_own
from unknot.core.requests import Erase, Join, Named, Request, arrived, numbered, resolved
from unknot.core.saved import save_model
from unknot.core.selection import Rewarded, goes_by_clients
from unknot.core.threads import one_thread
from unknot.core.training import Recipe
from unknot.core.weights import Weights
from unknot.federation.aggregators import FedAvg
from unknot.federation.clock import SECOND
from unknot.federation.cohort import Running, run_alone
from unknot.federation.describe import describe, members_of, nodes_of
from unknot.federation.desk import Desk
from unknot.federation.environment import environment
from unknot.federation.events import Begun, Costs, Ended, Event, Served
from unknot.federation.history import History
from unknot.federation.inbox import Waiting, concerned_by
from unknot.federation.interrupts import between_steps, check_now
from unknot.federation.lanes import Lane
from unknot.federation.length import Length, LengthParts
from unknot.federation.letterbox import Letterbox
from unknot.federation.loop import advance
from unknot.federation.method import Method
from unknot.federation.observers import Observer, Observers
from unknot.federation.own_parts import Classes, check_metrics, name_of
from unknot.federation.parts import Unchanged, parts_of, settings_of
from unknot.federation.scores import Scores
from unknot.federation.serving import Serving
from unknot.federation.setup import Setup, SetupParts
from unknot.federation.snapshot import Snapshot, put, take
from unknot.federation.state import State
from unknot.federation.stint import Stint
from unknot.federation.watcher import Letter, Watcher
from unknot.federation.work import Work


class Federation:
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
        self.unchanged = Unchanged(
            {
                "method": method,
                "pace": setup.pace,
                "slowness": setup.clock.slowness,
                "aggregator": setup.aggregate,
                "selector": setup.select,
            }
        )
        self.state = State(initial, data, setup)
        self.built = self.state.initial
        chosen = self.state.select
        if not method.selects and goes_by_clients(chosen):
            raise ConfigError(f"{method.name} draws its clients itself: leave select out")
        if chosen.learns and not data.validation:
            raise ConfigError(
                "a selector that learns is rewarded for how it does on validation data: give some"
            )
        if method.exact and method.takes_leave:
            raise ConfigError(
                f"{method.name} says that it is exact, but it acts at a leaver's last visit (farewell): what "
                "comes of that knows the erased data. Make it approximate, or leave farewell out"
            )
        self.metrics = setup.task.metrics_for(data.train.kind)
        check_metrics(self.metrics, data.train)
        if isinstance(chosen, Rewarded):
            chosen.check_metric(self.metrics[0])
        if not method.exact:
            self.state.allow_keepsakes()
        self.scores = Scores(engine, self.state.data, setup.evaluate_on)
        looking, every = Observers(observers), setup.evaluate_every
        self.work = Work(engine, self.state, method, self.scores, self.metrics[0], every, looking)
        self.serving = Serving(self.work, restart)
        self.called = called
        self.architecture = ""
        """How the model is made, as a digest, where that is known: shapes alone do not tell it."""
        self.experiment: Mapping[str, Any] = {}
        self.stint: Stint | None = None
        """What it was last asked to do, and how far that is."""
        self._done: list[tuple[int, Served]] = []
        self._running = threading.Lock()
        self._broken = self._stepping = False
        self._since: float | None = None
        self.state.archive.copies = self.state.memo.copies = is_own(method)
        self._watch = Watch(f"the method {method.name}") if is_own(method) else None
        named = {f"metric {metric.name!r}": metric for metric in self.metrics}
        own = {"pace": setup.pace, "aggregator": setup.aggregate, "selector": setup.select}
        self._classes = Classes({**{f"{what} {name_of(part)}": part for what, part in own.items()}, **named})
        self._check_untouched()
        self.inbox = Letterbox()
        """Where requests come in from other threads: ``fed.inbox.put(unknot.erase("Graz"))``."""
        self.watchers: list[Watcher] = [self.inbox]
        self.retries = True
        """Whether a step that failed may be made again here; otherwise it is, from what is kept of it."""
        self.keeps_names = True
        """Whether erased clients keep their names in the record; otherwise they are numbers there."""
        self.steps = 0
        """How many there have been: see `step`."""
        self.numbers = settings_of(parts_of(self))
        """What its parts were given, whatever they count since: to compare with those of another process."""

    def __repr__(self) -> str:
        done = max((lane.rounds for lane in self.lanes.values()), default=0)
        parts = [f"{len(self.state.members if self.history else self.data)} clients of {self.data.name!r}"]
        parts += [f"{done} rounds so far", *(f"{one.told(self.data.label)} pending" for one in self.pending)]
        return f"Federation({self.method.name} ({self.method.guarantee.value}): {', '.join(parts)})"

    # What there is -------------------------------------------------------------------------------

    @property
    def desk(self) -> Desk:
        """Where its method works."""
        return self.state.desk

    @property
    def initial(self) -> Weights:
        """The weights that everything begins from."""
        return self.state.initial

    @property
    def data(self) -> FederatedData:
        """Who holds what, of those who are there."""
        return self.state.data

    @property
    def members(self) -> Clients:
        """The clients that take part now."""
        return self.desk.members

    @property
    def lanes(self) -> dict[str, Lane]:
        """The parts that have a pace of their own, by name."""
        return self.state.lanes

    @property
    def ledger(self) -> Ledger:
        """Whose data is whose, and which of it is forbidden."""
        return self.state.ledger

    @property
    def archive(self) -> Archive:
        """The weights that its method keeps."""
        return self.state.archive

    @property
    def keepsakes(self) -> Keepsakes:
        """What an approximate method keeps although erased data had a part in it."""
        return self.state.keepsakes

    @property
    def costs(self) -> Costs:
        """What has been spent so far."""
        return self.state.costs

    @property
    def now(self) -> int:
        """Simulated nanoseconds."""
        return self.state.now

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
        training starts; one whose moment does not come waits for the next run. A run that is kept and was
        broken off is finished first: by ``resume``.
        """
        return run_alone(self.running(rounds, requests=requests, **parts))

    def running(
        self,
        rounds: int | Length | None = None,
        *,
        requests: Request | Named | Iterable[Request | Named] = (),
        **parts: Unpack[LengthParts],
    ) -> Running[History]:
        """``run`` as a generator, which waits where something is to be trained: for `run_together`."""
        with self._alone():
            started = time.perf_counter()
            self.begin(rounds, requests=requests, **parts)
            assert self.history is not None
            return self._answered((yield from self._go_on(self.history, started)))

    def check(self, length: int | Length, requests: Request | Named | Iterable[Request | Named] = ()) -> None:
        """Raise what ``run`` would raise for this length and these requests; nothing is begun."""
        self._asked(Length.of(length, {}), requests)

    def watch(self, watcher: Watcher) -> None:
        """Have somebody look on between steps, who may bring requests; who came last is told first."""
        self.watchers.insert(0, watcher)

    def close(self) -> None:
        """Let go of what is held for it: of the folder, where the run is kept in one."""
        for watcher in self.watchers:
            watcher.close()

    def _asked(
        self, length: Length, requests: Request | Named | Iterable[Request | Named]
    ) -> tuple[Length, list[Request], set[int]]:
        """The length, the requests that are new, and who is there, where all of it can be."""
        self._check_whole()
        for watcher in self.watchers:
            watcher.begins(self)
        asked = [requests] if isinstance(requests, Erase | Join | Named) else requests
        new = self.serving.inbox.unknown(resolved(asked, self.data, self.state.now / SECOND))
        members = self.state.members if self.history else self._first_members(new)
        self.serving.check(new, members, self._label)
        length.check(self.metrics[0])
        if length.target is not None and "validation" not in self.scores.watched:
            raise ConfigError(
                f"stopping at {'an accuracy' if length.goal is None else 'a goal'} needs validation data, "
                "and evaluate_on with 'validation' in it"
            )
        return length, new, members

    def begin(
        self,
        rounds: int | Length | None = None,
        *,
        requests: Request | Named | Iterable[Request | Named] = (),
        **parts: Unpack[LengthParts],
    ) -> None:
        """Check what ``run`` is asked, and put it down: `step`, or `resume`, makes it happen."""
        length, new, members = self._asked(Length.of(rounds, parts), requests)
        limit = None if length.seconds is None else self.state.now + round(length.seconds * SECOND)
        history = self.history or self._open(members)
        history.begun = replace(history.begun, experiment=dict(self.experiment))
        self.serving.inbox.put(new)
        self.serving.uncovered.timed |= limit is not None
        if length.target is not None:
            self.serving.uncovered.judged = self.metrics[0].name
        goals: dict[str, int] = {}
        if length.rounds is not None:
            goals = {name: lane.rounds - lane.ahead + length.rounds for name, lane in self.lanes.items()}
        for lane in self.lanes.values():
            lane.ahead = 0
        before = self.stint
        rule = length if before is None else before.rule
        self.stint = Stint(length, rule, before is not None, limit, goals)

    def snapshot(self) -> Snapshot:
        """All that it remembers now, between two steps, as a value."""
        self._check_whole()
        if self._stepping:
            raise UnknotError("a step is being made: take a snapshot between two")
        return take(self)

    def restore(self, snapshot: Snapshot) -> None:
        """Be what another federation, built of the same data and settings, was; before the first run."""
        with self._alone():
            if self.history is not None:
                raise UnknotError("this federation has been run: build it anew, and restore that")
            with self._at_once():
                put(self, snapshot)
                self.inbox.number_from(waiting.asked for waiting in self.serving.inbox.waiting)

    def resume(self, rounds: int | None = None) -> History:
        """Go on with what the last ``run`` was asked to do, from where it was broken off.

        If that is over, and something was asked since (``fed.inbox``, ``unknot forget``) that can be served,
        it goes on until its stopping rule holds again, which is that of the first ``run``.

        With `rounds`, it is trained for so many more after what was under way; where nothing was, in place of
        what the rule asks for. If the same number of more rounds was under way, or was trained and never
        returned, that is ended, and nothing added: who says the same again after a crash gets what was first
        asked for.
        """
        return run_alone(self._resuming(rounds))

    def _resuming(self, rounds: int | None) -> Running[History]:
        with self._alone():
            if self.stint is None or self.history is None:
                raise UnknotError("there is nothing to go on with: this federation has not been run")
            more = asked = None if rounds is None else Length(rounds)
            self.history.begun = replace(self.history.begun, experiment=dict(self.experiment))
            if more is not None and self.over and not self.stint.is_more_by(more):
                self.begin(more)
            else:
                self._called_back(asked)
            if self.stint.is_more_by(more):
                more = None
            history = yield from self._go_on(self.history, time.perf_counter())
            if more is not None:
                self.begin(more)
                yield from self._go_on(history, time.perf_counter())
            while self._called_back(asked):
                yield from self._go_on(history, time.perf_counter())
            return self._answered(history)

    def _answered(self, history: History) -> History:
        """Note that who asked gets this, just before: the same, asked for after that, is asked for anew."""
        assert self.stint is not None
        for watcher in self.watchers:
            watcher.ended(self, history)
        self.stint.answered = True
        return history

    def _called_back(self, after: Length | None = None) -> bool:
        """Whether a run that is over goes on, for it was asked from outside for what it can do.

        What it cannot do is refused, and nothing is trained for it.
        """
        if not self.over or not any(watcher.waiting() for watcher in self.watchers):
            return False
        self._take_in()
        if not self.serving.inbox.called(self.state.now):
            return False
        assert self.stint is not None
        owed = after or self.stint.owed  # who asked for more, and was given nothing yet, may ask again
        self.begin(self.stint.rule)
        self.stint.more, self.stint.after = False, owed
        return True

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Refuse what would have a federation run while it runs: an observer, or another thread."""
        if not self._running.acquire(blocking=False):
            raise ConfigError(
                "the federation is running: an observer or another thread may look on, but not run it as well"
            )
        try:
            self._check_whole()
            for watcher in self.watchers:
                watcher.starts(self)
            yield
        except BaseException:
            for watcher in self.watchers:
                watcher.stops(self)
            raise
        finally:
            self._running.release()

    @property
    def engine(self) -> Engine:
        """What it trains by."""
        return self.work.engine

    @property
    def method(self) -> Method:
        """What it forgets by."""
        return self.work.method

    @property
    def history(self) -> History | None:
        """The record of what has happened so far; none before the first run."""
        return self.work.history

    @property
    def over(self) -> bool:
        """Whether there is nothing left to do of what ``run`` was last asked."""
        return self.stint is None or bool(self.stint.stopped)

    @property
    def length(self) -> Length:
        """How long the last ``run`` was to go on."""
        if self.stint is None:
            raise UnknotError("this federation has not been run")
        return self.stint.length

    def _go_on(self, history: History, started: float) -> Running[History]:
        assert self.stint is not None
        self._since = started
        try:
            with self.work.observers.during(history):
                with between_steps():
                    while not self.stint.stopped:
                        yield from self._step(self.stint, history)
                        check_now()  # who pressed Ctrl-C in the last step is heard
                self._finish(history)
        finally:
            self._since = None
        return history

    def step(self) -> tuple[Event, ...]:
        """Make the next thing happen: serve a request, or take in who is back first. What happened.

        The last step of a run happens to nobody: it is found that the run is over, and why.
        """
        self._check_whole()
        stint, history = self.stint, self.history
        if stint is None or history is None or stint.stopped:
            raise UnknotError("there is nothing to go on with: call run, and steps come of it")
        with self._alone():
            events = run_alone(self._step(stint, history))
            if stint.stopped:
                for watcher in self.watchers:
                    watcher.stops(self, over=True)
        return events

    def _step(self, stint: Stint, history: History) -> Running[tuple[Event, ...]]:
        started = time.perf_counter() if self._since is None else self._since
        self._take_in()
        rounds, served = len(history.rounds), len(history.served)
        self.state.whole = self._stepping = True  # a method may have caught what failed in the last one
        try:
            with no_garbage_search():
                stint.stopped = yield from self._turn(history, stint)
            if stint.stopped:
                self._conclude(history, stint)
                stint.answered |= self._since is None  # who makes the steps sees that it was the last
            self._check_untouched()
            self.steps += 1
        except Exception:  # of an engine that trains, or a method that forgets: what was before may be there
            self._break(not self.state.whole)
            raise
        except BaseException:
            self._break()
            raise
        finally:
            self._stepping = False
        events: tuple[Event, ...] = (*history.served[served:], *history.rounds[rounds:])
        self._count_time(history, started)
        for watcher in self.watchers:
            watcher.stepped(self, events, self._done)
        self._done = []
        self.work.observers.heard()
        return events

    def _count_time(self, history: History, started: float) -> None:
        """Real time up to here: with each step, so that a run which is kept has that of all its processes."""
        now = time.perf_counter()
        history.spend(total=now - started, evaluate=self.scores.seconds)
        self.scores.seconds = 0.0
        if self._since is not None:
            self._since = now

    def _check_untouched(self) -> None:
        """Refuse to go on with what somebody's own parts wrote into, and remember where nothing forgets."""
        with self.state.midst():
            self._classes.check()
            if self._watch is not None:
                self.state.check_untouched(self._watch)

    @contextmanager
    def _at_once(self) -> Iterator[None]:
        """Within: what fails cannot be gone on from."""
        self._broken = True
        try:
            yield
        except BaseException:
            self._break()
            raise
        self._broken = False

    def _break(self, broken: bool = True) -> None:
        """Note that a step was broken off in its middle: then nobody here is served any more."""
        self._broken = broken
        if broken:
            self.inbox.let_go(self._why_broken())

    def _check_whole(self) -> None:
        """Refuse to go on from the middle of a step."""
        if self._broken:
            raise UnknotError(self._why_broken())

    def _why_broken(self) -> str:
        what = "its beginning" if self.history is None else "the last step"
        return (
            f"{what} was broken off in its middle, and what is in memory is neither what was before it "
            "nor what comes after: call fed.close() and build the federation again (a run that is kept goes "
            "on from its folder)"
        )

    def _take_in(self) -> None:
        """Take up what was asked from outside; what cannot be served is refused there."""
        for watcher in self.watchers:  # what one brought is taken up though another ends the run here
            self._take_up(watcher.requests(self))

    def _take_up(self, letters: Sequence[Letter]) -> None:
        failed: BaseException | None = None
        with self._at_once():  # who is broken off here has letters that nobody else has
            for letter in letters:
                try:
                    new = [arrived(letter.request, self.data, self.state.now / SECOND)]
                    self.serving.check(new, self.state.members, self._label, outside=True)
                except RequestError as error:
                    try:
                        for watcher in self.watchers:
                            watcher.refused(letter.number, str(error), error.kind)
                    except BaseException as stopped:  # the others are heard all the same
                        failed = failed or stopped
                else:
                    self.serving.inbox.put(new, letter.number)
        if failed is not None:
            raise failed

    def _turn(self, history: History, stint: Stint) -> Running[str]:
        """Serve what is due, or let the loop go on; why, if that is the end."""
        due = self.serving.inbox.next_due(self.state, stint.goals)
        if due is not None and isinstance(request := due[0].request, Erase):
            for watcher in self.watchers:
                watcher.erasing(self, request)
        with nullcontext() if self.retries else self.state.midst():
            if due is not None:
                self.work.launched.clear()
                self._serve_due(*due, history)
                return ""
            stopped = yield from advance(self.work, self.serving.inbox, stint, history)
            self.work.launched.clear()
            return stopped

    def _serve_due(self, waiting: Waiting, moment: int, history: History) -> None:
        """Serve a request whose moment has come."""
        self.state.now = moment
        if waiting.request.at.round is not None and not waiting.begun:
            for lane in concerned_by(self.state, waiting.request):
                lane.wait_until(self.state.now)
        record = self.serving.serve(waiting, len(history.rounds))
        self.serving.inbox.remove(waiting)
        history.served.append(record)
        if not self.keeps_names:
            history.begun = replace(history.begun, names=dict(self.names))
        if waiting.asked is not None:
            self._done.append((waiting.asked, record))
        self.work.observers.tell(record, history)

    def _conclude(self, history: History, stint: Stint) -> None:
        """What is left to do when a run is over."""
        history.ended = replace(history.ended, stopped=stint.stopped)
        self.state.now = max([self.state.now, *(lane.at for lane in self.lanes.values())])
        for name, lane in self.lanes.items():
            lane.ahead = max(0, lane.rounds - stint.goals.get(name, lane.rounds))
        with self.state.midst():
            self.method.conclude(self.desk)

    @property
    def model(self) -> Model:
        """What is served: it carries all that was read to make it, and is refused if that was erased."""
        model = self.work.serve()
        return model.named(self.names) if self.names else model

    @property
    def names(self) -> Mapping[int, str]:
        """What clients are called; see `keeps_names`."""
        gone = () if self.keeps_names else self.state.forgotten
        return {client: name for client, name in self.data.names.items() if client not in gone}

    def _label(self, client: int) -> str:
        return self.names.get(client, numbered(client))

    def save(self, file: str | Path) -> None:
        """Write what is served now, with whose data shaped it, as safetensors: see `unknot.load_model`.

        Where the run is kept, to a file outside of its folder: an erasure would not reach it there.
        """
        for watcher in self.watchers:
            watcher.saving(self, file)
        save_model(self.model, file)

    @property
    def pending(self) -> tuple[Request, ...]:
        """The requests whose moment has not come yet, or that a method failed to serve."""
        return self.serving.inbox.requests

    # Small print ---------------------------------------------------------------------------------

    def _first_members(self, requests: Sequence[Request]) -> set[int]:
        """Everybody, but for those whose joining is still to come."""
        late = {client for r in requests if isinstance(r, Join) for client in r.clients}
        return set(self.data.clients) - late

    def _open(self, members: set[int]) -> History:
        self.state.members = set(members)
        with self._at_once():  # who fails to open has trained, maybe, and would a second time
            self.method.open(self.desk)
        if not self.method.aggregates and not isinstance(self.state.aggregate, FedAvg):
            raise ConfigError(f"{self.method.name} puts updates together itself: leave aggregate out")
        main = self.metrics[0]
        history = History(
            Begun(
                self.method.name,
                self.serving.uncovered.promise(self.method, self.state),
                self.state.seed,
                main.name,
                main.falls,
                main.share,
                setup=describe(self.method, self.state, self.metrics, self.called),
                members=members_of(self.lanes),
                nodes=nodes_of(self.lanes),
                names=dict(self.data.names),
            ),
            ended=Ended(waived=tuple(self.state.waived.describe(self.data.label))),
            judge=main,
        )
        self.work.history = history
        return history

    def _finish(self, history: History) -> None:
        model, choices = self.model, dict[str, Mapping[str, Score]]()
        scores = self.scores.all(model)
        with one_thread():
            found = self.method.choices(self.desk)
        for name, other in found.items():
            self.ledger.check(other, f"show {name!r} as a choice")
        others = [other for other in found.values() if not other.equal(model)]
        for split in self.scores.there:
            self.scores.each(others, split)
        for name, other in found.items():
            choices[name] = scores if other.equal(model) else self.scores.all(other)
        history.begun = replace(history.begun, names=dict(self.names))
        history.ended = replace(
            history.ended,
            environment=environment(self.engine),  # by now the engine knows which path it took
            guarantee=self.serving.uncovered.promise(self.method, self.state),
            unserved=tuple(f"{one.told(self._label)} at {one.at}" for one in self.serving.undone),
            waived=tuple(self.state.waived.describe(self._label)),
            apart=tuple(self.work.apart),
            scores=scores,
            initial=self.work.initial_scores(),
            choices=choices,
        )
        history.serves(model)
        self._check_untouched()
        assert self._since is not None
        self._count_time(history, self._since)
