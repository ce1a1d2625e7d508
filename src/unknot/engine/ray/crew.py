"""The crew at work: calls are given out, again when a worker dies, and what workers hold is overwritten."""

from __future__ import annotations

import time
import weakref
from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

import torch
from numpy.typing import NDArray

from unknot.core.errors import ConfigError, UnknotError
from unknot.engine.ray import cluster
from unknot.engine.ray.roster import ENOUGH, LOOK, REACHED, Member, Roster, deaths, last_line
from unknot.engine.ray.worker import Heir

AHEAD = 2
"""So many calls lie with a worker, so that it need not wait for the next."""


class Crew:
    """The workers of a roster, and the engines that share them."""

    _crews: ClassVar[weakref.WeakValueDictionary[tuple[object, ...], Crew]] = weakref.WeakValueDictionary()

    def __init__(self, ray: Any, address: str, workers: int | None, threads: int, gpus: int) -> None:
        self.ray = ray
        self.roster = Roster(ray, address, workers, threads, gpus)
        self._engines = 0
        self._gone: deque[tuple[str, int, int]] = deque()
        self.deaths = deaths(ray)
        self.full = (ray.exceptions.ObjectStoreFullError, ray.exceptions.OutOfDiskError)

    @staticmethod
    def of(address: str | None, workers: int | None, threads: int, gpus: int) -> Crew:
        """The one that there is for these numbers: engines of one process share it."""
        ray = cluster.connect(address, (workers or 1) * threads)
        where = ray.get_runtime_context().gcs_address
        session = ray.get_runtime_context().get_job_id()
        found = Crew._crews.get(key := (where, session, workers, threads, gpus))
        if found is None:
            found = Crew._crews[key] = Crew(ray, where, workers, threads, gpus)
        return found

    def number(self) -> int:
        """A number for one more engine."""
        self._engines += 1
        return self._engines

    def members(self) -> list[Member]:
        """Who is there now; between two rounds."""
        self.roster.look()
        self._tidy()
        return list(self.roster.there)

    # Work -----------------------------------------------------------------------------------------

    def work(
        self,
        calls: Sequence[Callable[[Member], Any]],
        prepare: Callable[[Sequence[Member]], None],
        take: Callable[[int, Any], None],
    ) -> None:
        """Have every call made by somebody; what a worker that dies had taken on is made by another.

        `prepare` sees to it that workers have what the calls need, `take` is given each result once.
        """
        try:
            self._work(calls, prepare, take)
        except self.full:
            raise self._no_room("what goes to the workers") from None

    def _work(
        self,
        calls: Sequence[Callable[[Member], Any]],
        prepare: Callable[[Sequence[Member]], None],
        take: Callable[[int, Any], None],
    ) -> None:
        waiting, tries = deque(range(len(calls))), Counter[int]()
        flying: dict[Any, tuple[Member, int]] = {}
        ready: set[Member] = set()
        unprepared, then = 0, set[Member]()

        def give_up(member: Member, error: Exception) -> None:
            ready.discard(member)
            self.roster.lose(member)
            for ref in [ref for ref, (by, _) in flying.items() if by is member]:
                tries[call := flying.pop(ref)[1]] += 1
                waiting.appendleft(call)
                if tries[call] >= ENOUGH:
                    raise UnknotError(
                        f"{ENOUGH} workers died one after the other of the same work ({last_line(error)}): "
                        "if they lacked memory, ask for fewer workers, or for fewer rows or less memory each"
                    ) from None

        while waiting or flying:
            there = self.members()
            if new := [member for member in there[: len(waiting) + len(flying)] if member not in ready]:
                try:
                    prepare(new)
                    ready.update(new)
                except Dead as dead:
                    give_up(dead.member, dead.error)
                    if dead.member not in then:  # those who were there then may have died with that one
                        unprepared, then = unprepared + 1, set(there)
                    if unprepared >= ENOUGH:
                        raise UnknotError(
                            f"{ENOUGH} workers died one after the other as they were given the model and the "
                            f"data ({last_line(dead.error)}): most likely they have too little memory; ask "
                            "for fewer workers, or for machines with more of it"
                        ) from None
            for _ in range(AHEAD):
                load = Counter(member for member, _ in flying.values())
                for member in sorted(ready, key=lambda member: load[member]):
                    if waiting and load[member] < AHEAD:
                        call = waiting.popleft()
                        flying[calls[call](member)] = member, call
            if not flying:
                continue
            done, _ = self.ray.wait(list(flying), num_returns=1, timeout=LOOK)
            for ref in done:
                if ref not in flying:
                    continue
                member, call = flying[ref]
                try:
                    result = self.get(member, ref)
                except Dead as dead:
                    give_up(member, dead.error)
                    continue
                del flying[ref]
                take(call, result)
                del result

    def put(self, array: NDArray[Any]) -> Any:
        """Into the object store, for as long as the reference is kept."""
        try:
            return self.ray.put(array)
        except self.full:
            raise self._no_room(f"{array.nbytes / 2**20:.1f} MiB on the way to the workers") from None

    def _no_room(self, what: str) -> ConfigError:
        return ConfigError(
            f"Ray's object store has no room for {what}: give it more (ray start --object-store-memory=...; "
            "in a container, more of /dev/shm: docker run --shm-size=...), or ask for fewer workers"
        )

    def get(self, member: Member, ref: Any) -> Any:
        """What a worker answers; raises `Dead` if it died, and what it raised as if that had been here."""
        ray = self.ray
        try:
            return ray.get(ref)
        except ray.exceptions.RayTaskError as error:
            cause = error.cause
            if isinstance(cause, UnknotError):
                raise cause from None
            if isinstance(cause, self.full):
                raise self._no_room(f"what a worker on {member.about['host']} gives back") from None
            if _is_memory(cause):
                raise ConfigError(
                    f"a worker on {member.about['host']} has too little memory ({last_line(cause)}): ask "
                    "for fewer workers, or for fewer rows or less memory each"
                ) from None
            raise cause from error
        except self.deaths as error:
            raise Dead(member, error) from None

    def all(self, members: Sequence[Member], refs: Sequence[Any]) -> None:
        """Wait for an answer of each."""
        for member, ref in zip(members, refs, strict=True):
            self.get(member, ref)

    # What is held ---------------------------------------------------------------------------------

    def wipe(self, number: int, heirs: Mapping[int, Heir]) -> None:
        """All workers overwrite what they hold for an engine, but `heirs`.

        One that does not answer is killed: when this returns, every copy is overwritten or its process
        is gone.
        """
        asked = [(member, member.call("wipe", number, heirs)) for member in self.roster.there]
        end = time.monotonic() + REACHED
        for member, ref in asked:
            if number in member.samples:
                held = member.samples[number]
                member.samples[number] = {heir.token for old, heir in heirs.items() if old in held}
            member.recipes.pop(number, None)
            try:
                self.ray.get(ref, timeout=max(0.0, end - time.monotonic()))
            except self.ray.exceptions.RayError:
                self.roster.lose(member)
        self.roster.settle_doubts()
        self._tidy()

    def retire(self, what: str, number: int, token: int = 0) -> None:
        """Samples or an engine are gone from the driver: workers hear of it when they are next spoken to."""
        self._gone.append((what, number, token))

    def _tidy(self) -> None:
        while self._gone:
            what, number, token = self._gone.popleft()
            for member in self.roster.there:
                if what == "samples" and token in member.samples.get(number, ()):
                    member.samples[number].discard(token)
                    member.call("drop", number, [token])
                elif what == "engine" and number in member.samples:
                    del member.samples[number]
                    member.call("close", number)


class Dead(Exception):
    """A worker that died at its work."""

    def __init__(self, member: Member, error: Exception) -> None:
        super().__init__(str(error))
        self.member = member
        self.error = error


def _is_memory(error: BaseException) -> bool:
    return isinstance(error, MemoryError | torch.OutOfMemoryError) or "can't allocate memory" in str(error)
