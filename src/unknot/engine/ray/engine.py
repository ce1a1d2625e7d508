"""The engine as a federation sees it: jobs go out to the crew, updates come back in the order of the jobs."""

from __future__ import annotations

import itertools
import weakref
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from unknot.core.data import FederatedData, Samples
from unknot.core.ensemble import Ensemble, Model
from unknot.core.errors import ConfigError, nearest
from unknot.core.jobs import Job, Score, Update
from unknot.core.loss import loss_for
from unknot.core.task import Task
from unknot.core.training import Recipe
from unknot.core.weights import Layout
from unknot.engine import checks
from unknot.engine.evaluate import Judge, Tally
from unknot.engine.ray import parcels
from unknot.engine.ray.crew import Crew
from unknot.engine.ray.parcels import Head, Parcel
from unknot.engine.ray.roster import Member
from unknot.engine.ray.worker import Asked, Heir, packed_engine, parts
from unknot.engine.workers import check_threads

INNER = ("stacked", "loop")
ROWS = 10
"""The jobs of a stack that no parcel cuts in two, where `rows` does not say it."""


class RayEngine:
    """The jobs of a round over the workers of a Ray cluster, bit for bit as in process.

    The `model` is a template: its own weights never matter.

    `address`: where the cluster is, ``host:6379``, or "auto" for the one that this machine is part of; left
    out: $RAY_ADDRESS, or a cluster of this machine's own, which ends with the process. `workers`: how many;
    left out: as many as the cluster has room for, and more when machines join. `gpus`: how many GPUs each
    worker takes, 0 or 1; left out: one where the device is "cuda", else none. `inner`: what a worker trains
    with, "stacked" or "loop". `device` and `dtype`: where and in which precision. `threads`: how many cores
    each worker takes; left out: 1. `memory`: the bytes that the stacks of one worker may take; left out:
    2 GiB, on a GPU three quarters of it. `rows`: the most jobs in a worker's stack. `path`: the way to train,
    as the stacked engine has it. `precision`: how products are rounded, "float32" (not at all), "tf32" or
    "bf16". `task`: what models are judged by, and trained by where a recipe does not say it.
    """

    name = "ray"

    def __init__(
        self,
        model: nn.Module,
        *,
        address: str | None = None,
        workers: int | None = None,
        gpus: int | None = None,
        inner: str = "stacked",
        device: str | torch.device = "cpu",
        dtype: torch.dtype = torch.float32,
        threads: int | None = None,
        memory: int | None = None,
        rows: int | None = None,
        path: str | None = None,
        precision: str | None = None,
        task: Task | None = None,
    ) -> None:
        checks.check_model(model)
        if workers is not None and workers < 1:
            raise ConfigError(f"workers must be at least 1, not {workers}")
        if inner not in INNER:
            raise ConfigError(
                f"inner = {inner!r}: there is no such engine for a worker.{nearest(inner, INNER)}"
            )
        self.device = torch.device(device)
        self.dtype = dtype
        self.threads = check_threads(threads) or 1
        self.task = task or Task()
        self.layout = Layout.of(model)
        self.gpus = gpus if gpus is not None else int(self.device.type == "cuda")
        _check_device(self.device, self.gpus)
        options: dict[str, Any] = {
            "device": "cuda" if self.gpus else "cpu",
            "dtype": dtype,
            "threads": self.threads,
            "task": task,
        }
        own = {"memory": memory, "rows": rows, "path": path, "precision": precision}
        given = {name: value for name, value in own.items() if value is not None}
        if given and inner != "stacked":
            raise ConfigError(f"the {inner} engine does not take {next(iter(given))}: leave it out")
        self._rows = rows or ROWS
        self._crew = Crew.of(address, workers, self.threads, self.gpus)
        self._number = self._crew.number()
        self._packed = self._pickled(
            partial(packed_engine, name=inner, model=model, options=options | given), type(model).__name__
        )
        self._tokens: weakref.WeakKeyDictionary[Samples, int] = weakref.WeakKeyDictionary()
        self._readers: weakref.WeakKeyDictionary[FederatedData, int] = weakref.WeakKeyDictionary()
        self._next = itertools.count()
        self._recipes: dict[Recipe, tuple[int, bytes]] = {}
        weakref.finalize(self, self._crew.retire, "engine", self._number)

    def examine(self, samples: Samples) -> None:
        """Refuse a model, or a loss, whose result depends on more than what it is given; by a worker."""
        self._ask(lambda member: member.call("examine", self._number, Head.of(samples)))

    def train(self, jobs: Sequence[Job], data: FederatedData) -> list[Update]:
        checks.check_jobs(jobs, self.layout)
        if not jobs:
            return []
        shards = [job.shard(data) for job in jobs]
        steps = [
            job.recipe.steps(len(shard)) if job.batches is None else len(job.batches)
            for job, shard in zip(jobs, shards, strict=True)
        ]
        groups = [job.recipe.together(job.version) for job in jobs]
        workers = len(self._crew.members())
        rows = len(jobs) if self.gpus else self._rows * self.threads
        cut = parcels.calls(steps, groups, workers, rows)
        recipes = [self._recipe(job.recipe) for job in jobs]
        starts = {id(job.start.vector): job.start.vector for job in jobs}
        used = Counter(start for call in cut for start in {id(jobs[place].start.vector) for place in call})
        shared = [start for start in starts if used[start] > 1]
        common = self._crew.put(parcels.matrix([starts[s] for s in shared])) if shared else None
        token = self._readers[data] = self._token(data.train)
        done: list[Update | None] = [None] * len(jobs)

        def send(call: list[int], member: Member) -> Any:
            mine = list(dict.fromkeys(id(jobs[place].start.vector) for place in call))
            own = [start for start in mine if used[start] == 1]
            place_of = {start: place for place, start in enumerate([*shared, *own])}
            parcel = Parcel.of(
                [jobs[place] for place in call],
                [shards[place] for place in call],
                [place_of[id(jobs[place].start.vector)] for place in call],
                [recipes[place] for place in call],
            )
            self._teach(member, parcel.recipes)
            sent = parcels.matrix([starts[start] for start in own]) if own else None
            return member.call("train", self._number, token, parcel, common, sent)

        def take(which: int, result: tuple[Any, list[int], list[float]]) -> None:
            trained, samples, losses = result
            for place, vector, many, loss in zip(
                cut[which], parcels.vectors(trained), samples, losses, strict=True
            ):
                job = jobs[place]
                done[place] = job.done(vector.to(job.start.vector.device), many, loss)

        self._crew.work([partial(send, call) for call in cut], partial(self._place, data.train, token), take)
        return [update for update in done if update is not None]

    def evaluate(self, model: Model, samples: Samples) -> Score:
        """The task's metrics and loss; slices of one size go to the workers, however many there are."""
        checks.check_targets(samples)
        found: list[list[Tally]] = self._answers("tallies", model, samples)
        judge = Judge(samples.kind, loss_for(samples), self.task.metrics_for(samples.kind))
        return judge.score([tally for some in found for tally in some])

    def predict(self, model: Model, samples: Samples) -> Tensor:
        """The probability of every class or label, or the values, by the same slices."""
        said = self._answers("predict", model, samples)
        return torch.cat([torch.from_numpy(part.copy()) for part in said])

    def wipe(self) -> None:
        """Every worker overwrites what was erased; when this returns, all have, or are gone.

        Data whose tensors are its own has lost the rows that no client holds, and no others: workers keep
        the rest of it. All other samples go altogether, and are sent again if they are read again.
        """
        self._recipes.clear()
        self._crew.wipe(self._number, self._heirs())

    def describe(self) -> dict[str, object]:
        inner = self._ask(lambda member: member.call("describe", self._number))
        shown = {name: inner[name] for name in ("path", "reason", "device", "dtype", "torch")}
        return {
            "engine": self.name,
            **shown,
            "threads": self.threads,
            **self._crew.roster.told(),
            "inner": inner,
        }

    # How it is asked ------------------------------------------------------------------------------

    def _answers(self, what: str, model: Model, samples: Samples) -> list[Any]:
        """What workers say of their slices, in the order of the samples."""
        if not len(samples):
            raise ConfigError("there are no samples to evaluate on")
        every = [model] if not isinstance(model, Ensemble) else [weights for _, weights in model.parts]
        if any(weights.layout != self.layout for weights in every):
            raise ValueError("the model's parameters do not have these weights' names and shapes")
        asked, vectors = Asked.of(model)
        lent = self._crew.put(vectors)
        token = self._token(samples)
        cut = parts(len(samples), len(self._crew.members()))
        said: list[Any] = [None] * len(cut)

        def send(part: slice, member: Member) -> Any:
            return member.call(what, self._number, token, part, asked, lent)

        self._crew.work(
            [partial(send, part) for part in cut], partial(self._place, samples, token), said.__setitem__
        )
        return said

    def _ask(self, call: Callable[[Member], Any]) -> Any:
        """One answer, by whoever is there."""
        said: list[Any] = [None]
        self._crew.work([call], self._open, said.__setitem__)
        return said[0]

    # What workers have ----------------------------------------------------------------------------

    def _token(self, samples: Samples) -> int:
        """The number of some samples; workers hear of it when they are gone from here."""
        if samples not in self._tokens:
            token = self._tokens[samples] = next(self._next)
            weakref.finalize(samples, self._crew.retire, "samples", self._number, token).atexit = False
        return self._tokens[samples]

    def _heirs(self) -> dict[int, Heir]:
        """What workers are to keep, by the number that it had: now it is known by another."""
        before, readers = dict(self._tokens), dict(self._readers)
        self._tokens.clear()
        self._readers.clear()
        kept: dict[int, Heir] = {}
        for data, token in readers.items():
            if not data.own or token in kept:
                continue
            self._readers[data] = self._token(data.train)
            kept[token] = Heir(self._readers[data], np.flatnonzero(data.unheld()))
            for samples in (data.test, data.validation):
                if samples in before and before[samples] not in kept:
                    kept[before[samples]] = Heir(self._token(samples))
        return kept

    def _open(self, members: Sequence[Member]) -> None:
        """Make the engine of those that have none."""
        new = [member for member in members if self._number not in member.samples]
        self._crew.all(new, [member.call("open", self._number, self._packed) for member in new])
        for member in new:
            member.samples[self._number] = set()

    def _place(self, samples: Samples, token: int, members: Sequence[Member]) -> None:
        """Send the samples to those that do not have them, piece by piece; nothing of it stays on the way."""
        self._open(members)
        new = [member for member in members if token not in member.samples[self._number]]
        if not new:
            return
        head = Head.of(samples)
        before: list[Any] = []
        for piece, closed in parcels.pieces(samples):
            lent = self._crew.put(closed)
            refs = [m.call("receive", self._number, token, head, piece, lent) for m in new]
            self._crew.all(new if before else [], before)
            before = refs
        self._crew.all(new if before else [], before)
        self._crew.all(new, [member.call("settle", self._number, token, head) for member in new])
        for member in new:
            member.samples[self._number].add(token)

    def _recipe(self, recipe: Recipe) -> int:
        if recipe not in self._recipes:
            packed = self._pickled(lambda dumps: dumps(recipe), "the recipe")
            self._recipes[recipe] = next(self._next), packed
        return self._recipes[recipe][0]

    def _teach(self, member: Member, recipes: Sequence[int]) -> None:
        known = member.recipes.setdefault(self._number, set())
        if new := set(recipes) - known:
            packed = {number: packed for number, packed in self._recipes.values() if number in new}
            member.call("learn", self._number, packed)
            known |= new

    def _pickled(self, pack: Callable[[Any], bytes], what: str) -> bytes:
        from ray import cloudpickle

        try:
            return pack(cloudpickle.dumps)
        except Exception as error:
            raise ConfigError(
                f"{what} cannot be sent to workers: {type(error).__name__}: {error}. Take out what cannot be "
                "pickled (an open file, a lock, a thread), or make it where it is used"
            ) from error


def _check_device(device: torch.device, gpus: int) -> None:
    if device.type not in ("cpu", "cuda"):
        raise ConfigError(f"device = {str(device)!r}: with Ray workers train on 'cpu' or 'cuda'")
    if device.type == "cuda" and device.index is not None:
        raise ConfigError(
            f"device = {str(device)!r}: with Ray each worker has a GPU of its own: say 'cuda' (which of them "
            "Ray may use, CUDA_VISIBLE_DEVICES says when it is started)"
        )
    if gpus not in (0, 1):
        raise ConfigError(
            f"gpus = {gpus:g}: a worker takes one GPU or none; for more GPUs ask for more workers"
        )
    if device.type == "cuda" and not gpus:
        raise ConfigError(f"gpus = {gpus:g} does not go with the device {str(device)!r}")


__all__ = ["RayEngine"]
