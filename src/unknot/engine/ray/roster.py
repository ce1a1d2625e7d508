"""Who is there: workers that are asked for, taken in, refused, missed; and seen dead."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import torch

from unknot.core.errors import ConfigError, UnknotError, install
from unknot.engine.ray import cluster
from unknot.engine.ray.worker import Worker, ended

FIRST, OTHERS = 120.0, 10.0
"""So many seconds the first worker is waited for, and then the others, which may come later."""
REACHED = 30.0
"""So many seconds a worker has to overwrite what it holds, and then to be seen dead."""
LOOK = 2.0
"""The cluster is asked what it has no more often than this, in seconds."""
ENOUGH = 3
"""So many workers may die of the same, and no more."""


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


class Roster:
    """Workers with so many threads (or GPUs) each, as many as are wanted or as the cluster has room for."""

    def __init__(self, ray: Any, address: str, workers: int | None, threads: int, gpus: int) -> None:
        self.there: list[Member] = []
        self.lost = 0
        self._ray = ray
        self._address = address
        self._workers = workers
        self._threads = threads
        self._gpus = gpus
        self._coming: dict[Any, Any] = {}
        self._doubtful: list[Member] = []
        self._owed = False
        self._others: dict[str, str] = {}
        self._chip: str | None = None
        self._cuda = ("here", cluster.cuda())
        self._looked = -LOOK
        self._class = ray.remote(Worker)
        self._check_room()

    def look(self) -> None:
        """See who has come or could be started; between two rounds."""
        if self._owed:
            self.settle_doubts()
        now = time.monotonic()
        if not self.there or now - self._looked >= LOOK:
            self._looked = now
            self._start()
        if not self.there:
            self._wait()
        elif self._coming:
            self._welcome(0)

    def told(self) -> dict[str, object]:
        """Where the work is."""
        nodes = {member.node for member in self.there}
        found: dict[str, object] = {
            "address": self._address,
            "nodes": len(nodes),
            "workers": len(self.there),
            "where": [member.told() for member in self.there],
            "lost": self.lost,
        }
        return found | ({"left_out": list(dict.fromkeys(self._others.values()))} if self._others else {})

    def _room(self) -> int:
        """How many workers the machines of our kind have room for, were they ours alone."""
        room = 0
        for node in self._ray.nodes():
            if node["Alive"] and node["NodeID"] not in self._others:
                cores, gpus = (node["Resources"].get(what, 0) for what in ("CPU", "GPU"))
                room += int(min(cores // self._threads, gpus) if self._gpus else cores // self._threads)
        return room

    def _check_room(self) -> None:
        room = self._room()
        if room < (self._workers or 1):
            there = self._ray.cluster_resources()
            needs = f"{self._threads} CPU{'s' * (self._threads > 1)}" + (" and 1 GPU" if self._gpus else "")
            asked = f"{self._workers} workers" if self._workers else "a worker"
            raise ConfigError(
                f"{asked} with {needs} each do not fit into the Ray cluster at {self._address}, which has "
                f"{there.get('CPU', 0):g} CPUs and {there.get('GPU', 0):g} GPUs: ask for fewer workers or "
                "threads, or let more machines join"
            )

    def _start(self) -> None:
        """Ask for as many as are missing; they come when they come."""
        missing = (self._workers or self._room()) - len(self.there) - len(self._coming)
        if missing <= 0:
            return
        actor = self._class.options(
            num_cpus=self._threads,
            num_gpus=self._gpus,
            max_restarts=0,
            max_task_retries=0,
            scheduling_strategy=self._not_on_others(),
        )
        for _ in range(missing):
            handle = actor.remote(list(sys.path), self._threads, "cuda" if self._gpus else "cpu")
            self._coming[handle.about.remote()] = handle

    def _not_on_others(self) -> Any:
        """Where to start workers: on any machine that is not known to be of another kind."""
        if not self._others:
            return None
        known = self._ray.util.scheduling_strategies
        node = self._ray.nodes()[0]
        label = next(name for name, value in node["Labels"].items() if value == node["NodeID"])
        return known.NodeLabelSchedulingStrategy(hard={label: known.NotIn(*self._others)})

    def _wait(self) -> None:
        """Until somebody is there, and a little longer for the others."""
        end = time.monotonic() + FIRST
        while not self.there:
            self._start()
            if not self._coming or time.monotonic() > end:
                raise UnknotError(
                    f"no worker is left on the Ray cluster at {self._address} and none could be started in "
                    f"{FIRST:.0f} s ({self.lost} died): see 'ray status' for what the cluster has, and "
                    "whether others use it"
                )
            self._welcome(1.0)
        end = time.monotonic() + OTHERS
        while self._coming and time.monotonic() < end:
            self._welcome(0.2)

    def _welcome(self, seconds: float) -> None:
        """Take in who has come, and refuse who would compute other bits."""
        ready, _ = self._ray.wait(list(self._coming), num_returns=1, timeout=seconds)
        for ref in ready:
            handle = self._coming.pop(ref)
            try:
                about = self._ray.get(ref)
                node = self._node_of(handle)
            except self._ray.exceptions.RayError as error:
                self._refuse_birth(error)
                continue
            self._check_same(about)
            chip = about["same"]["chip"]
            self._chip = self._chip or chip
            if chip != self._chip:
                self._others[node] = f"{about['host']}: {chip}, where the others have {self._chip}"
                self._ray.kill(handle)
                continue
            self.there.append(Member(handle, node, about))

    def _node_of(self, handle: Any) -> str:
        found: str = self._ray.get(handle.__ray_call__.remote(_node))
        return found

    def _check_same(self, about: Mapping[str, Any]) -> None:
        here = cluster.about_here(torch.device("cpu"))
        right: dict[str, tuple[str, str | None]] = {what: ("here", own) for what, own in here.items()}
        if "CUDA" in about["same"]:
            if self._cuda[1] is None:
                self._cuda = f"on {about['host']}", about["same"]["CUDA"]
            right["CUDA"] = self._cuda
        for what, there in about["same"].items():
            if what != "chip" and there != right[what][1]:
                where, own = right[what]
                raise ConfigError(
                    f"the worker on {about['host']} has {what} {there}, and {where} it is {own}: bits "
                    "would depend on where a job is trained; install the same on every machine of the cluster"
                )

    def _refuse_birth(self, error: Exception) -> None:
        """A worker that cannot be made says why; one that died while it came is replaced like any other."""
        text = str(error)
        if "No module named" in text:
            missing = text.partition("No module named")[2].split("'")[1]
            remedy = (
                f"install unknot, the same version, on every machine ({install('ray')})"
                if missing.partition(".")[0] == "unknot"
                else "install it on every machine of the cluster"
            )
            raise ConfigError(f"a worker on the Ray cluster has no module {missing!r}: {remedy}") from None
        if not isinstance(error, deaths(self._ray)):
            raise ConfigError(f"a worker cannot be started on the Ray cluster: {last_line(error)}") from None
        self.lost += 1
        if self.lost > ENOUGH and not self.there:
            raise UnknotError(f"workers on the Ray cluster die as they start: {last_line(error)}") from None

    def lose(self, member: Member) -> None:
        """It is dead, or as good as that."""
        if member in self.there:
            self.there.remove(member)
            self._doubtful.append(member)
            self.lost += 1
            self._ray.kill(member.handle)
            self._looked = -LOOK

    def settle_doubts(self) -> None:
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
        ray, process = self._ray, (member.about["pid"], member.about["born"])
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


def deaths(ray: Any) -> tuple[type[Exception], ...]:
    """What Ray raises where a worker is gone, or what it held."""
    known = ray.exceptions
    return (
        known.RayActorError,
        known.NodeDiedError,
        known.WorkerCrashedError,
        known.OutOfMemoryError,
        known.ObjectLostError,
    )


def last_line(error: BaseException) -> str:
    """What an error of Ray's comes down to."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[-1].partition(" Some common causes")[0] if lines else "no reason is known"


def _node(worker: Worker) -> str:
    import ray

    found: str = ray.get_runtime_context().get_node_id()
    return found
