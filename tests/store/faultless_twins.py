"""What runs of faulty lives must have come to: their twins in memory and on the disk met no fault.

The twins are made the same calls, and told each request at the step at which the faulty run took it up.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from unittest.mock import patch

from faulty_lives import NEVER, Scenario, World, live_all
from kept_runs import NAMES, fast_folder, remove_tree, story

from unknot.core.errors import UnknotError
from unknot.core.requests import Request
from unknot.federation import Federation
from unknot.federation.letterbox import Ticket
from unknot.federation.watcher import Letter, Watcher
from unknot.store import inbox
from unknot.store.database import Database
from unknot.store.inbox import leave
from unknot.store.keeper import RunKeeper
from unknot.store.keyring import Keyring
from unknot.store.noted import DATABASE, KEYS
from unknot.store.rows import REFUSED, SERVED

NAMING = {"apart", "names", "recoveries", "requests", "rounds", "waived"}
"""What of a story tells more in memory: of those, too, who were erased."""


@dataclass(frozen=True)
class Played:
    """What came of a seed."""

    differs: str
    """What was not as it should be, and how it came to that; nothing where all was."""
    hurt: bool
    """Whether a checkpoint was damaged, and more went wrong after that."""


def play(seed: int) -> Played:
    """Live the lives of a seed's scenario, and compare the run with its twins."""
    world, differs = World(fast_folder(), Scenario.draw(seed)), ""
    try:
        try:
            live_all(world)
            _check(world)
        except (AssertionError, UnknotError) as error:
            differs = f"{type(error).__name__}: {error}"
        except Exception as error:
            error.add_note(f"seed {seed}")
            raise
        notes = list(world.notes.read())
    finally:
        remove_tree(world.base)
    if differs:
        lines = ["", *(" ".join(map(str, note)) for note in notes)]
        differs = f"seed {seed}, {differs}\nin {world.scenario}" + "\n  ".join(lines)
    kinds = [kind for kind, *_ in notes]
    damaged = kinds.index("damaged") if "damaged" in kinds else len(kinds)
    return Played(differs, not {"killed", "broken off"}.isdisjoint(kinds[damaged:]))


# The twins -------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Due:
    """A request that the faulty run took up, at which step, and what became of it."""

    number: int
    request: Request
    step: int
    state: str

    def __repr__(self) -> str:
        return f"<{self.number}: {self.request}, {self.state} at step {self.step}>"


class Postman(Watcher):
    """Who puts into a twin's inbox, of the requests that it may know by now, each just when it is due."""

    def __init__(self, fed: Federation, due: Sequence[Due], put: Callable[[Request], Ticket]) -> None:
        self._fed, self._put = fed, put
        self.left, self.tickets = list(due), dict[int, Ticket]()
        self.known: frozenset[int] = frozenset()

    def _deliver(self) -> None:
        for due in [one for one in self.left if one.number in self.known and one.step <= self._fed.steps]:
            assert due.step == self._fed.steps, f"at step {self._fed.steps} alone its twin could take {due}"
            self.left.remove(due)
            self.tickets[due.number] = self._put(due.request)

    def waiting(self) -> bool:
        self._deliver()
        return False

    def requests(self, fed: Federation) -> Sequence[Letter]:
        self._deliver()
        return ()


def _in_memory(world: World, due: Sequence[Due]) -> dict:
    fed = world.scenario.build()
    return _twin(world, fed, due, fed.inbox.put)


def _on_disk(world: World, due: Sequence[Due]) -> dict:
    fed, folder = world.scenario.build(), world.base / "twin"
    keeper, stored = RunKeeper.create(fed, folder, every=NEVER), fed.inbox
    try:
        return _twin(world, fed, due, lambda request: stored.ticket(_left_in(folder, request)))
    finally:
        keeper.close()


def _left_in(folder: Path, request: Request) -> int:
    """Leave a request, also beside its like: where the faulty run was asked, that had been done by then."""
    with patch.object(inbox, "_check_not_asked"), Database.open(folder / DATABASE) as db:
        return leave(db, request, Keyring(folder / KEYS))


def _twin(world: World, fed: Federation, due: Sequence[Due], put: Callable[[Request], Ticket]) -> dict:
    """The story of a twin, in which each request comes to what it came to in the faulty run."""
    fed.watch(postman := Postman(fed, due, put))
    fed.begin(world.scenario.rounds, requests=world.scenario.requests)
    for rounds, postman.known in _calls(world, due):
        history = fed.resume(rounds)
    assert not postman.left, f"its twin was over at step {fed.steps}, before {postman.left}"
    for one in due:
        found = postman.tickets[one.number]
        assert found.state == one.state, f"{one} was {found.state} by its twin: {found.why}"
    return story(history)


def _calls(world: World, due: Sequence[Due]) -> list[tuple[int | None, frozenset[int]]]:
    """The rounds of the calls that returned, and what each may know of; those of no rounds are as one."""
    if not world.scenario.calls:
        return [(None, frozenset(one.number for one in due))]
    return [(one.rounds, one.taken) for one in world.returned()]


# The comparison --------------------------------------------------------------------------------------


def _check(world: World) -> None:
    with world.database(readonly=True) as db:
        db.verify()
    due = _done(world)
    memory, disk = _in_memory(world, due), _on_disk(world, due)
    fed, told = _as_kept(world)
    on_disk, in_memory = _others(told, disk), _others(told, memory) - NAMING
    if len(told["rounds"]) != len(memory["rounds"]):
        in_memory.add("how many rounds")
    assert not on_disk, f"other than its twin on the disk in {sorted(on_disk)}, in memory {sorted(in_memory)}"
    assert not in_memory, f"other than its twin in memory in {sorted(in_memory)}"
    _check_nothing_is_left(world, fed)


def _done(world: World) -> list[Due]:
    """The requests of the faulty run, which are all done, in their order."""
    noted = {number: request for _, number, request in world.notes.read("asked")}
    there = world.requests()
    assert there.keys() == noted.keys(), f"asked for were {sorted(noted)}, and there are {sorted(there)}"
    due = [Due(number, noted[number], one.step, one.state) for number, one in sorted(there.items())]
    waiting = [one for one in due if one.state not in (SERVED, REFUSED)]
    assert not waiting, f"the calls returned, but these wait: {waiting}"
    if not _is_in_order(due):  # what was refused at a step that was lost is not refused again
        due = [one for one in due if one.state == SERVED]
        assert _is_in_order(due), f"not served in their order: {due}"
    return due


def _is_in_order(due: Sequence[Due]) -> bool:
    return all(first.step <= second.step for first, second in pairwise(due))


def _as_kept(world: World) -> tuple[Federation, dict]:
    """The run as its folder has it, which is over, and its story."""
    fed = world.scenario.build()
    keeper = RunKeeper.go_on(fed, world.folder, every=NEVER)
    try:
        over, steps = fed.over, fed.steps
        told = story(fed.resume())
        assert over, f"the calls returned, but the run was not over at step {steps}"
        assert fed.steps == steps, f"the calls returned, but {fed.steps - steps} steps were left"
        return fed, told
    finally:
        keeper.close()


def _others(told: dict, expected: dict) -> set[str]:
    """The parts in which a story is other than it should be."""
    return {part for part in told.keys() | expected.keys() if told.get(part) != expected.get(part)}


def _check_nothing_is_left(world: World, fed: Federation) -> None:
    """No name of who was erased and, where the method is exact, no update that knows what was."""
    content = b"\0".join(path.read_bytes() for path in world.folder.rglob("*") if path.is_file())
    gone, reduced = fed.data.erased, fed.data.reduced
    for client in gone:
        assert NAMES[client].encode() not in content, f"the name of client {client}, erased, is left"
    for _, client, samples, vector in world.updates.read() if fed.method.exact else ():
        if client in gone or not samples.isdisjoint(reduced.get(client, ())):
            assert vector not in content, f"an update of client {client} is left that knows erased data"
