"""Runs that are kept through one faulty process after the other.

All about a run is drawn from its seed: what it is of, what is asked of it, and the lives of its processes, in
which writes fail, parts raise, Ctrl-C is pressed, somebody asks for something or says a word, and after which
the newest checkpoint may be damaged, and one that was may be put back. A last life is calm. What the run must
have come to by then, its twins know: see `faultless_twins`.
"""

from __future__ import annotations

import errno
import gc
import itertools
import logging
import os
import pickle
import random
import signal
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace

from kept_runs import METHODS, REQUESTS, SIZES, build, is_kept_by
from store_crashes import forked

from support import ToyEngine
from unknot.core.errors import RunStopped, StoreError, UnknotError
from unknot.core.requests import Request, erase, join
from unknot.federation import Federation
from unknot.store import files, keeper, post
from unknot.store.database import Database
from unknot.store.entries import read_named
from unknot.store.folder import is_kept
from unknot.store.inbox import leave
from unknot.store.keeper import RunKeeper, keeper_of
from unknot.store.keyring import Keyring
from unknot.store.noted import DATABASE, KEYS, unfinished
from unknot.store.rows import REQUESTS as KINDS
from unknot.store.rows import WAITING, Asked

TRIES = 25
"""How often a life calls again after a fault."""
NEVER = 1e9
"""Seconds between two checkpoints of which the second does not come."""
HELD = ("db:begin", "db:commit", "db:created")
"""Points at which the database is held: nobody else can ask there."""


class Injected(StoreError):
    """A write failed."""


class PartFails(RuntimeError):
    """The engine failed."""


# What is drawn ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class LifePlan:
    """A life, by its seed, and what happens when its process is gone."""

    seed: int
    damaged: bool
    asked: Request | None


@dataclass(frozen=True)
class Scenario:
    """What a run is of, what is asked of it, and the lives that it has before the calm one."""

    method: str
    pace: str
    selector: str | None
    rounds: int
    requests: tuple[Request, ...]
    calls: tuple[int | None, ...]
    """The rounds of each ``resume`` after ``run``, which are made in their order, each until it returned.

    Then, and where there are none, come any number of ``resume()``."""
    lives: tuple[LifePlan, ...]

    @staticmethod
    def draw(seed: int) -> Scenario:
        draw = random.Random(seed)
        by_calls = draw.random() < 0.2
        drawn = Scenario(
            draw.choice(sorted(METHODS)),
            draw.choice(["buffered", "sync"]),
            draw.choice([None, None, None, "k-center", "balanced", "dqn"]),
            draw.choice([3, 5, 7]),
            tuple(request for request in REQUESTS if draw.random() < 0.5),
            tuple(draw.choice([None, 1, 2, 2, 3]) for _ in range(draw.randrange(1, 5) if by_calls else 0)),
            tuple(_draw_life(draw, damages=not by_calls) for _ in range(draw.randrange(2, 6))),
        )
        plainer = replace(drawn, selector=None)
        return next(one for one in (drawn, plainer, replace(plainer, requests=())) if one._is_possible())

    def __str__(self) -> str:
        what = " ".join(filter(None, (self.method, self.pace, self.selector)))
        first = "".join(f", {request} at {request.at}" for request in self.requests)
        return f"{what}: run({self.rounds}{first}), then resume with {list(self.calls)}"

    def build(self, engine: ToyEngine | None = None) -> Federation:
        return build(self.method, self.pace, self.selector, engine=engine)

    def _is_possible(self) -> bool:
        """A method may choose its clients itself, or not know what to do with these requests."""
        try:
            self.build().begin(self.rounds, requests=self.requests)
        except UnknotError:
            return False
        return True


def _draw_life(draw: random.Random, damages: bool) -> LifePlan:
    """With calls that are counted nothing is damaged: what a run was asked may be in one checkpoint alone."""
    return LifePlan(
        seed=draw.randrange(1 << 30),
        damaged=damages and draw.random() < 0.7,
        asked=_draw_request(draw) if draw.random() < 0.4 else None,
    )


def _draw_request(draw: random.Random) -> Request:
    """What can be served, or cannot: of whom is not there, or has joined, or of a sample too many."""
    kind, client = draw.random(), draw.randrange(len(SIZES))
    if kind < 0.2:
        return erase(client)
    if kind < 0.65:
        there = range(SIZES[client] + (draw.random() < 0.15))
        return erase({client: sorted(draw.sample(there, draw.choice([1, 1, 2])))})
    if kind < 0.7:
        return erase(sorted(draw.sample(range(len(SIZES)), 2)))
    return join(draw.sample([5, 6, 7, 0], draw.choice([1, 1, 2])))


@dataclass(frozen=True)
class Odds:
    """How likely each thing is at one of the points of a write; or that a part `fails`, or is `asked` in."""

    killed: float = 0.0
    unwritten: float = 0.0
    interrupted: float = 0.0
    asked: float = 0.0
    fails: float = 0.0

    @staticmethod
    def draw(draw: random.Random) -> Odds:
        return Odds(
            killed=draw.choice([0, 0.002, 0.01, 0.03]),
            unwritten=draw.choice([0, 0, 0.003, 0.015]),
            interrupted=draw.choice([0, 0, 0.003]),
            asked=draw.choice([0.001, 0.004, 0.015]),
            fails=draw.choice([0, 0, 0.01]),
        )


# What is written down on the way ---------------------------------------------------------------------


class Journal:
    """Notes of several processes, one after the other, which outlast each."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def note(self, *what: object) -> None:
        with open(self._path, "ab") as file:
            pickle.dump(what, file)

    def read(self, kind: str | None = None) -> Iterator[tuple]:
        if not self._path.exists():  # nobody noted anything
            return
        with open(self._path, "rb") as file, suppress(EOFError):
            while True:
                if (found := pickle.load(file))[0] == kind or kind is None:
                    yield found


class World:
    """Where a scenario is played: the run's folder, and beside it what happened, and what was trained."""

    def __init__(self, base: Path, scenario: Scenario) -> None:
        self.scenario, self.base, self.folder = scenario, base, base / "run"
        self.notes, self.updates = Journal(base / "notes"), Journal(base / "updates")

    def database(self, readonly: bool = False) -> Database:
        return Database.open(self.folder / DATABASE, readonly=readonly)

    def ask(self, request: Request, put: Callable[[Request], int] | None = None) -> None:
        """Ask for something, by `put` or else from outside, and note under which number."""
        try:
            if put is not None:
                number = put(request)
            else:
                with self.database() as db:
                    number = leave(db, request, Keyring(self.folder / KEYS))
        except UnknotError as error:
            self.notes.note("turned away", request, str(error).partition(": ")[2][:60])
        else:
            self.notes.note("asked", number, request)

    def requests(self) -> dict[int, Asked]:
        """What was asked for, by its number, as the database has it."""
        with self.database(readonly=True) as db:
            return {asked.number: asked for asked in db.asked() if asked.kind in KINDS}

    def ended(self) -> int:
        """The number of the log's last entry of a call that returned; 0 where there is none."""
        with self.database(readonly=True) as db:
            return 0 if (last := db.last("ended")) is None else last.number

    def returned(self) -> list[Returned]:
        return [one for _, one in self.notes.read("returned")]


@dataclass(frozen=True)
class Returned:
    """A call that returned: with how many rounds, which requests were taken by then, what the log says."""

    rounds: int | None
    taken: frozenset[int]
    ended: int


class NotingEngine(ToyEngine):
    """Notes each update that it trains; `before` may raise."""

    def __init__(self, updates: Journal, before: Callable[[str], None]) -> None:
        super().__init__()
        self._updates, self._before = updates, before

    def train(self, jobs, data):
        self._before("train")
        updates = super().train(jobs, data)
        for job, update in zip(jobs, updates, strict=True):
            samples = frozenset(job.shard(data).ids.tolist())
            self._updates.note("update", job.client, samples, update.weights.vector.numpy().tobytes())
        return updates

    def evaluate(self, model, samples):
        self._before("evaluate")
        return super().evaluate(model, samples)


# Lives -----------------------------------------------------------------------------------------------


class Life:
    """What a process does: it takes the run up and makes the calls that are left, whatever comes between."""

    def __init__(self, world: World, seed: int, calm: bool = False) -> None:
        self.world, self.calm, self.draw = world, calm, random.Random(seed)
        self.odds = Odds() if calm else Odds.draw(self.draw)
        self.fed: Federation | None = None
        self.returned = world.returned()

    def live(self) -> None:
        """In a process of its own, whose clock goes by how often it is looked at."""
        gc.disable()  # what is let go of is let go of there and then, and not whenever memory is searched
        gc.freeze()
        logging.disable()
        clock = itertools.count()
        keeper.time = SimpleNamespace(monotonic=lambda: float(next(clock)))
        post.time = SimpleNamespace(sleep=self._while_paused)
        files.hook = self._at_point
        try:
            self._live()
        except BaseException:
            files.hook = None
            self.world.notes.note("raised", traceback.format_exc())
            raise

    def _live(self) -> None:
        for _ in range(TRIES):
            try:
                if self.fed is None:
                    self._open()
                    self._note_what_was_answered()
                self._call()
            except (UnknotError, PartFails, KeyboardInterrupt) as fault:
                self._go_on_after(fault)
            else:
                if self._is_enough():
                    break
        else:
            assert not self.calm, f"{TRIES} calls returned, and some are left"
        self._let_go()

    def _open(self) -> None:
        self.fed = self.world.scenario.build(NotingEngine(self.world.updates, self._before_part))
        take = RunKeeper.go_on if is_kept(self.world.folder) else RunKeeper.create
        take(self.fed, self.world.folder, every=self.draw.choice([0.0, 6.0, NEVER]))

    def _let_go(self) -> None:
        while self.fed is not None and is_kept_by(self.fed):
            with suppress(StoreError, KeyboardInterrupt):
                self.fed.close()
                break
        self.fed = None
        with self._aside():
            gc.collect()

    def _rounds(self) -> int | None:
        """Those of the call that is next."""
        calls = (None, *self.world.scenario.calls)  # the first is ``run``, if it was not broken off
        return calls[len(self.returned)] if len(self.returned) < len(calls) else None

    def _call(self) -> None:
        scenario = self.world.scenario
        if self.fed.stint is None:
            self.fed.run(scenario.rounds, requests=scenario.requests)
        else:
            self.fed.resume(self._rounds())
        self._note_return()

    def _note_return(self) -> None:
        with self._aside():
            taken = (number for number, one in self.world.requests().items() if one.state != WAITING)
            found = Returned(self._rounds(), frozenset(taken), self.world.ended())
            self.world.notes.note("returned", found)
        self.returned.append(found)

    def _note_what_was_answered(self) -> None:
        """A call counts as returned once the log says so, though its process may have died just then."""
        if not self.fed.over or self.fed.stint is None or not self.fed.stint.answered:
            return
        with self._aside():
            ended = self.world.ended()
        if ended > max((one.ended for one in self.returned), default=0):
            self._note_return()

    def _is_enough(self) -> bool:
        """Whether the life is over after a call that returned; else, maybe, something is asked for."""
        left = len(self.returned) <= len(self.world.scenario.calls)
        if self.calm:
            return not left
        for _ in range(self.draw.choice([0, 0, 1, 2])):
            self._ask_or_say()
        if self.draw.random() < 0.3:
            self._let_go()
        return not left and self.draw.random() < 0.7

    def _go_on_after(self, fault: BaseException) -> None:
        """After what was put in its way; anything else ends the process, and the test."""
        ours = isinstance(fault, Injected | PartFails | KeyboardInterrupt | RunStopped)
        midst = "broken off in its middle" in str(fault)
        if self.calm or not (ours or midst or "No space" in str(fault)):
            raise fault
        self.world.notes.note("broken off", type(fault).__name__, str(fault)[:80], self._step())
        if not is_kept_by(self.fed) or midst or self.draw.random() < 0.4:
            self._let_go()

    def _step(self) -> int:
        return -1 if self.fed is None else self.fed.steps

    # What comes between.

    @contextmanager
    def _aside(self) -> Iterator[None]:
        """Within: what somebody else does, or a look; no fault meets it."""
        before, files.hook = files.hook, None
        try:
            yield
        finally:
            files.hook = before

    def _happens(self, odds: float) -> bool:
        return self.draw.random() < odds

    def _at_point(self, name: str) -> None:
        if self._happens(self.odds.killed):
            self._die(name)
        if self._happens(self.odds.unwritten):
            if name.startswith(("write_whole", "remove")) and self._happens(0.5):
                raise OSError(errno.ENOSPC, "No space left on device")
            raise Injected(f"nothing can be written at {name}")
        if self._happens(self.odds.interrupted):
            raise KeyboardInterrupt(name)
        if name not in HELD and self._happens(self.odds.asked):
            self._ask_or_say()

    def _before_part(self, name: str) -> None:
        if self._happens(self.odds.fails):
            raise PartFails(name)
        if self._happens(5 * self.odds.asked):
            self._ask_or_say()

    def _while_paused(self, _: float) -> None:
        """A pause looks for words now and then; a calm life's is ended at once."""
        what = 0.0 if self.calm else self.draw.random()
        if what < 0.4:
            self._say("go")
        elif what < 0.5:
            self._say("stop")
        elif what < 0.7:
            self._ask_or_say()
        elif what < 0.75:
            self._say("pause")
        elif what < 0.8:
            raise KeyboardInterrupt("while it is paused")
        elif what < 0.83:
            self._die("while it is paused")

    def _die(self, where: str) -> None:
        self.world.notes.note("killed", where, self._step())
        os.kill(os.getpid(), signal.SIGKILL)

    def _ask_or_say(self) -> None:
        """From this process or, as it were, from another; not within a transaction of this one's."""
        if self.fed is None or not is_kept_by(self.fed) or keeper_of(self.fed).db._inside:
            return
        if self._happens(0.25):
            self._say(self.draw.choice(["pause", "pause", "go", "stop"]))
            return
        request = _draw_request(self.draw)
        here = self._happens(0.5)
        with self._aside():
            self.world.ask(request, (lambda one: self.fed.inbox.put(one).number) if here else None)

    def _say(self, word: str) -> None:
        with self._aside(), self.world.database() as db:
            db.ask(word, b"", "somebody")
        self.world.notes.note("said", word, self._step())


def _damage(world: World, draw: random.Random) -> None:
    """The newest checkpoint is lost, or a bit of it is; where there is an older one to go on from."""
    steps = _kept_states(world)[-2:]
    if len(steps) < 2 or not all(path.exists() for _, path in steps) or steps[0][1] == steps[1][1]:
        return
    (before, _), (step, newest) = steps
    content = bytearray(newest.read_bytes())
    (world.base / f"away.{newest.name}").write_bytes(content)
    content[draw.randrange(len(content))] ^= 1
    if draw.random() < 0.3:
        newest.unlink()
    else:
        newest.write_bytes(content)
    world.notes.note("damaged", f"the checkpoint of step {step}; the one before it is of step {before}")


def _put_back(world: World) -> None:
    """What was damaged or lost is there again, as from a backup; not what is from before an erasure."""
    for step, path in _kept_states(world):
        if (away := world.base / f"away.{path.name}").exists():
            path.write_bytes(away.read_bytes())
            path.chmod(0o600)
            away.unlink()
            world.notes.note("put back", f"the checkpoint of step {step}")


def _kept_states(world: World) -> list[tuple[int, Path]]:
    """The step and the file of each checkpoint since the last erasure, which must be at its end."""
    with suppress(StoreError), world.database(readonly=True) as db:  # it may not be there yet
        if unfinished(db) is None:
            after = 0 if (scrubbed := db.last("scrubbing")) is None else scrubbed.number
            kept = [read_named(entry.body) for entry in db.entries(after, kind="checkpoint")]
            return [(one.step, world.folder / "state" / f"{one.state}.state") for one in kept]
    return []


def live_all(world: World) -> None:
    """Each life in a process of its own, and at last the calm one."""
    for number, plan in enumerate(world.scenario.lives):
        ended = forked(Life(world, plan.seed).live)
        world.notes.note("life", number, "ended with", ended)
        assert ended in (0, -signal.SIGKILL), "a life met an error that nobody put in its way"
        if random.Random(plan.seed + 1).random() < 0.4:
            _put_back(world)
        if plan.damaged:
            _damage(world, random.Random(plan.seed))
        if plan.asked is not None and all((world.folder / name).exists() for name in (DATABASE, KEYS)):
            world.ask(plan.asked)
    assert forked(Life(world, seed=1, calm=True).live) == 0, "a life without a fault met an error"
