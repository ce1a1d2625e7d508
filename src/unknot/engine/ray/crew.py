"""The actors: started, counted, given work, replaced when they die, told to overwrite what they hold."""

from __future__ import annotations

import sys
import time
import weakref
from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import torch
from numpy.typing import NDArray

from unknot.core.errors import ConfigError, UnknotError
from unknot.engine.ray import cluster
from unknot.engine.ray.worker import Worker, ended

FIRST, OTHERS = 120.0, 10.0
"""So many seconds the first worker is waited for, and then the others, which may come later."""
REACHED = 30.0
"""So many seconds a worker has to overwrite what it holds, and then to be seen dead."""
LOOK = 2.0
"""The cluster is asked what it has no more often than this, in seconds."""
AHEAD = 2
"""So many calls lie with a worker, so that it need not wait for the next."""
ENOUGH = 3
"""Work that so many workers died of is not given to another."""


@dataclass(eq=False)
class Member:
    """A worker that is there, and what it has of each engine: samples and recipes by number."""

    handle: Any
    node: str
    about: Mapping[str, Any]
    samples: dict[int, set[int]] = field(default_factory=dict)
    recipes: dict[int, set[int]] = field(default_factory=dict)

    def call(self, what: str, *arguments: Any) -> Any:
        """Have it do something; gives the reference of the answer."""
        return getattr(self.handle, what).remote(*arguments)

    def told(self) -> dict[str, object]:
        place = {"host": self.about["host"], "node": self.node[:8], "pid": self.about["pid"]}
        return {**place, "chip": self.about["same"]["chip"]}


class Crew:
    """Workers with so many threads (or GPUs) each, as many as are wanted or as the cluster has room for."""

    _crews: ClassVar[weakref.WeakValueDictionary[tuple[object, ...], Crew]] = weakref.WeakValueDictionary()

    def __init__(self, ray: Any, address: str, workers: int | None, threads: int, gpus: float) -> None:
        self.ray = ray
        self.address = address
        self.lost = 0
        self._workers = workers
        self._threads = threads
        self._gpus = gpus
        self._members: list[Member] = []
        self._coming: dict[Any, Any] = {}
        self._doubtful: list[Member] = []
        self._owed = False
        self._left_out: dict[str, None] = {}
        self._chip: str | None = None
        self._looked = -LOOK
        self._engines = 0
        self._gone: deque[tuple[str, int, int]] = deque()
        self._actor = ray.remote(Worker).options(
            num_cpus=threads, num_gpus=gpus, max_restarts=0, max_task_retries=0
        )
        died = ray.exceptions
        self.deaths = (
            died.RayActorError,
            died.NodeDiedError,
            died.WorkerCrashedError,
            died.OutOfMemoryError,
            died.ObjectLostError,
        )
        self.full = (died.ObjectStoreFullError, died.OutOfDiskError)
        self._check_room()

    @staticmethod
    def of(address: str | None, workers: int | None, threads: int, gpus: float) -> Crew:
        """The one that there is for these numbers: engines of one process share it."""
        ray = cluster.connect(address, (workers or 1) * threads)
        where = ray.get_runtime_context().gcs_address
        session = ray.get_runtime_context().get_job_id()
        found = Crew._crews.get(key := (where, session, workers, threads, gpus))
        if found is None:
            found = Crew._crews[key] = Crew(ray, where, workers, threads, gpus)
        return found

    # Who is there ---------------------------------------------------------------------------------

    def number(self) -> int:
        """A number for one more engine."""
        self._engines += 1
        return self._engines

    def members(self) -> list[Member]:
        """Who is there now, after a look at who has come or could be started; between two rounds."""
        if self._owed:
            self._settle_doubts()
        now = time.monotonic()
        if not self._members or now - self._looked >= LOOK:
            self._looked = now
            self._start()
        if not self._members:
            self._wait()
        elif self._coming:
            self._welcome(0)
        self._tidy()
        return list(self._members)

    def told(self) -> dict[str, object]:
        """Where the work is."""
        nodes = {member.node for member in self._members}
        found: dict[str, object] = {
            "address": self.address,
            "nodes": len(nodes),
            "workers": len(self._members),
            "where": [member.told() for member in self._members],
            "lost": self.lost,
        }
        return found | ({"left_out": list(self._left_out)} if self._left_out else {})

    def _room(self) -> int:
        """How many workers the cluster has room for, were it ours alone."""
        there = self.ray.cluster_resources()
        rooms = [int(there.get("CPU", 0) // self._threads)]
        if self._gpus:
            rooms.append(int(there.get("GPU", 0) // self._gpus))
        return min(rooms)

    def _check_room(self) -> None:
        room = self._room()
        if room < (self._workers or 1):
            there = self.ray.cluster_resources()
            needs = f"{self._threads} CPU{'s' * (self._threads > 1)}" + (
                f" and {self._gpus:g} GPU{'s' * (self._gpus > 1)}" if self._gpus else ""
            )
            asked = f"{self._workers} workers" if self._workers else "a worker"
            raise ConfigError(
                f"{asked} with {needs} each do not fit into the Ray cluster at {self.address}, which has "
                f"{there.get('CPU', 0):g} CPUs and {there.get('GPU', 0):g} GPUs: ask for fewer workers or "
                "threads, or let more machines join"
            )

    def _start(self) -> None:
        """Ask for as many as are missing; they come when they come."""
        wanted = self._workers or self._room()
        for _ in range(wanted - len(self._members) - len(self._coming) - len(self._left_out)):
            device = "cuda" if self._gpus else "cpu"
            handle = self._actor.remote(list(sys.path), self._threads, device)
            self._coming[handle.about.remote()] = handle

    def _wait(self) -> None:
        """Until somebody is there, and a little longer for the others."""
        end = time.monotonic() + FIRST
        while not self._members:
            self._start()
            if not self._coming or time.monotonic() > end:
                raise UnknotError(
                    f"no worker is left on the Ray cluster at {self.address} and none could be started in "
                    f"{FIRST:.0f} s ({self.lost} died): see 'ray status' for what the cluster has, and "
                    "whether others use it"
                )
            self._welcome(1.0)
        end = time.monotonic() + OTHERS
        while self._coming and time.monotonic() < end:
            self._welcome(0.2)

    def _welcome(self, seconds: float) -> None:
        """Take in who has come, and refuse who would compute other bits."""
        ready, _ = self.ray.wait(list(self._coming), num_returns=1, timeout=seconds)
        for ref in ready:
            handle = self._coming.pop(ref)
            try:
                about = self.ray.get(ref)
            except self.ray.exceptions.RayError as error:
                self._refuse_birth(error)
                continue
            self._check_same(about)
            chip = about["same"]["chip"]
            self._chip = self._chip or chip
            if chip != self._chip:
                self._left_out.setdefault(f"{about['host']}: {chip}, where the others have {self._chip}")
                self.ray.kill(handle)
                continue
            self._members.append(Member(handle, self._node_of(handle), about))

    def _node_of(self, handle: Any) -> str:
        found: str = self.ray.get(handle.__ray_call__.remote(_node))
        return found

    def _check_same(self, about: Mapping[str, Any]) -> None:
        here = cluster.about_here(torch.device("cpu"))
        for what, there in about["same"].items():
            if what != "chip" and there != here[what]:
                raise ConfigError(
                    f"the worker on {about['host']} has {what} {there}, and here it is {here[what]}: bits "
                    "would depend on where a job is trained; install the same on every machine of the cluster"
                )

    def _refuse_birth(self, error: Exception) -> None:
        """A worker that cannot be made says why; one that died while it came is replaced like any other."""
        text = str(error)
        if "No module named" in text:
            missing = text.partition("No module named")[2].split("'")[1]
            remedy = (
                "install unknot, the same version, on every machine (pip install 'unknot[ray]')"
                if missing.partition(".")[0] == "unknot"
                else "install it on every machine of the cluster"
            )
            raise ConfigError(f"a worker on the Ray cluster has no module {missing!r}: {remedy}") from None
        if not isinstance(error, self.deaths):
            raise ConfigError(f"a worker cannot be started on the Ray cluster: {_last(text)}") from None
        self.lost += 1
        if self.lost > ENOUGH and not self._members:
            raise UnknotError(f"workers on the Ray cluster die as they start: {_last(text)}") from None

    def lose(self, member: Member) -> None:
        """It is dead, or as good as that."""
        if member in self._members:
            self._members.remove(member)
            self._doubtful.append(member)
            self.lost += 1
            self.ray.kill(member.handle)
            self._looked = -LOOK

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
        waiting, tries = deque(range(len(calls))), Counter[int]()
        flying: dict[Any, tuple[Member, int]] = {}
        ready: set[Member] = set()

        def give_up(member: Member, error: Exception) -> None:
            ready.discard(member)
            self.lose(member)
            for ref in [ref for ref, (by, _) in flying.items() if by is member]:
                tries[call := flying.pop(ref)[1]] += 1
                waiting.appendleft(call)
                if tries[call] >= ENOUGH:
                    raise UnknotError(
                        f"{ENOUGH} workers died one after the other of the same work ({_last(str(error))}): "
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
        except self.full as error:
            raise self._no_room(error, f"{array.nbytes / 2**20:.1f} MiB on the way to the workers") from None

    def _no_room(self, error: BaseException, what: str) -> ConfigError:
        return ConfigError(
            f"Ray's object store has no room for {what} ({type(error).__name__}): start Ray with more "
            "(ray start --object-store-memory=...), or ask for fewer workers"
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
                raise self._no_room(cause, f"what a worker on {member.about['host']} gives back") from None
            if _is_memory(cause):
                raise ConfigError(
                    f"a worker on {member.about['host']} has too little memory ({_last(str(cause))}): ask "
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

    def wipe(self, number: int) -> None:
        """All workers overwrite what they hold for an engine; one that does not answer is killed.

        When this returns, every copy is overwritten or its process is gone.
        """
        self._tidy()
        asked = [(member, member.call("wipe", number)) for member in self._members]
        end = time.monotonic() + REACHED
        for member, ref in asked:
            member.samples.get(number, set()).clear()
            member.recipes.pop(number, None)
            try:
                self.ray.get(ref, timeout=max(0.0, end - time.monotonic()))
            except self.ray.exceptions.RayError:
                self.lose(member)
        self._settle_doubts()

    def retire(self, what: str, number: int, token: int = 0) -> None:
        """Samples or an engine are gone from the driver: workers hear of it when they are next spoken to."""
        self._gone.append((what, number, token))

    def _tidy(self) -> None:
        while self._gone:
            what, number, token = self._gone.popleft()
            for member in self._members:
                if what == "samples" and token in member.samples.get(number, ()):
                    member.samples[number].discard(token)
                    member.call("drop", number, [token])
                elif what == "engine" and number in member.samples:
                    del member.samples[number]
                    member.call("close", number)

    def _settle_doubts(self) -> None:
        """Who has died, or was given up, must be seen dead where it was: Ray takes a process for dead that
        it cannot reach."""
        while self._doubtful:
            self._owed = True
            member = self._doubtful[-1]
            if not self._ended(member):
                raise UnknotError(
                    f"the worker on {member.about['host']} (process {member.about['pid']}) can neither be "
                    "reached nor be seen dead, so that nobody knows whether it still holds what was erased: "
                    "end it, or its machine, and go on"
                )
            self._doubtful.pop()
        self._owed = False

    def _ended(self, member: Member) -> bool:
        """Kill it for good, on its own machine; one that has left the cluster counts as off.

        The cluster takes a while to see that a machine has left.
        """
        ray, process = self.ray, (member.about["pid"], member.about["born"])
        if member.node == ray.get_runtime_context().get_node_id():
            return ended(*process, REACHED)
        there = ray.util.scheduling_strategies.NodeAffinitySchedulingStrategy(member.node, soft=False)
        hand = ray.remote(ended).options(num_cpus=0, max_retries=0, scheduling_strategy=there)
        end = time.monotonic() + 2 * REACHED
        while time.monotonic() < end:
            if not any(node["Alive"] for node in ray.nodes() if node["NodeID"] == member.node):
                return True
            try:
                if ray.get(hand.remote(*process, LOOK), timeout=REACHED):
                    return True
            except ray.exceptions.RayError:
                time.sleep(0.5)
        return False


class Dead(Exception):
    """A worker that died at its work."""

    def __init__(self, member: Member, error: Exception) -> None:
        super().__init__(str(error))
        self.member = member
        self.error = error


def _node(worker: Worker) -> str:
    import ray

    found: str = ray.get_runtime_context().get_node_id()
    return found


def _is_memory(error: BaseException) -> bool:
    return isinstance(error, MemoryError | torch.OutOfMemoryError) or "can't allocate memory" in str(error)


def _last(text: str) -> str:
    """What an error of Ray's comes down to."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1] if lines else "no reason is known"
