"""What an actor does: it has engines of its own, and samples that it can overwrite."""

from __future__ import annotations

import gc
import os
import pickle
import signal
import socket
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from unknot.core.base import trained
from unknot.core.data import FederatedData, Samples
from unknot.core.ensemble import Ensemble, Model
from unknot.core.errors import ConfigError
from unknot.core.training import Recipe
from unknot.core.weights import Layout, Weights
from unknot.engine import checks
from unknot.engine.evaluate import SLICE, Tally
from unknot.engine.loop import LoopEngine
from unknot.engine.ray import cluster, parcels
from unknot.engine.ray.parcels import Bytes, Head, Parcel, Piece
from unknot.engine.stacked import StackedEngine

Machine = LoopEngine | StackedEngine


@dataclass(frozen=True)
class Asked:
    """A model that answers, without its lineage: how much each part counts, and how they vote."""

    factors: tuple[float, ...] | None
    """None where it is one model alone."""
    vote: str = "mean"

    @staticmethod
    def of(model: Model) -> tuple[Asked, NDArray[Any]]:
        if isinstance(model, Weights):
            return Asked(None), parcels.matrix([model.vector])
        vectors = parcels.matrix([weights.vector for _, weights in model.parts])
        return Asked(tuple(factor for factor, _ in model.parts), model.vote), vectors

    def model(self, vectors: NDArray[Any], layout: Layout) -> Model:
        weights = [Weights(vector, layout) for vector in parcels.vectors(vectors)]
        if self.factors is None:
            return weights[0]
        return Ensemble(tuple(zip(self.factors, weights, strict=True)), self.vote)


@dataclass(frozen=True)
class Heir:
    """Samples that stay when others go: the number that they have from now on, the rows that they lose."""

    token: int
    rows: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, dtype=np.int64))

    def of(self, held: Samples) -> Samples:
        """They keep their place; what was known of them is forgotten."""
        for values in (held.x, held.y):
            values.index_fill_(0, torch.from_numpy(self.rows).to(values.device), 0)
        return replace(held)


@dataclass
class _Desk:
    """What one engine of the driver has here."""

    engine: Machine
    samples: dict[int, Samples] = field(default_factory=dict)
    coming: dict[int, Samples] = field(default_factory=dict)
    data: dict[int, FederatedData] = field(default_factory=dict)
    recipes: dict[int, Recipe] = field(default_factory=dict)

    def overwrite(self, tokens: Sequence[int]) -> None:
        for token in tokens:
            self.data.pop(token, None)
            for held in (self.samples.pop(token, None), self.coming.pop(token, None)):
                if held is not None:
                    held.x.zero_()
                    held.y.zero_()


class Worker:
    """One process of the crew. Engines are known by numbers, and so are samples and recipes of each."""

    def __init__(self, paths: Sequence[str], threads: int, device: str) -> None:
        sys.path += [path for path in paths if path not in sys.path and os.path.isdir(path)]
        torch.set_num_threads(threads)
        self._device = torch.device(device)
        self._desks: dict[int, _Desk] = {}
        gc.freeze()  # what is there by now stays: no wipe need look through it

    def about(self) -> dict[str, Any]:
        """What bits depend on, and where this is."""
        place = {"host": socket.gethostname(), "pid": os.getpid(), "born": born(os.getpid())}
        return {"same": cluster.about_here(self._device), **place}

    def open(self, number: int, packed: bytes) -> None:
        """Make an engine of what the driver's was made of."""
        from unknot.engine import make_engine

        name, model, options = pickle.loads(packed)
        engine = make_engine(name, model, **options)
        if not isinstance(engine, Machine):
            raise ConfigError(
                "a worker on the Ray cluster sees several GPUs, where it was to have one: start Ray without "
                "RAY_EXPERIMENTAL_NOSET_CUDA_VISIBLE_DEVICES"
            )
        self._desks[number] = _Desk(engine)

    def learn(self, number: int, recipes: Mapping[int, bytes]) -> None:
        """Keep recipes: a loss of one's own is to be the same object in every round."""
        self._desks[number].recipes |= {known: pickle.loads(packed) for known, packed in recipes.items()}

    def receive(self, number: int, token: int, head: Head, piece: Piece, closed: Bytes) -> None:
        """A piece of some samples; `settle` says that it was the last."""
        coming = self._desks[number].coming
        if token not in coming:
            coming[token] = head.empty()
        parcels.put_in(coming[token], piece, closed)

    def settle(self, number: int, token: int, head: Head) -> None:
        """All pieces are here: put the samples where they are read, in one copy that can be overwritten."""
        desk = self._desks[number]
        given = desk.coming.pop(token, None) or head.empty()
        placed = checks.on_device(given, desk.engine.device, desk.engine.dtype)
        for ours, theirs in ((given.x, placed.x), (given.y, placed.y)):
            if ours.data_ptr() != theirs.data_ptr():
                ours.zero_()
        desk.overwrite([token])  # they come again where another worker died in between
        desk.samples[token] = placed

    def train(
        self, number: int, token: int, parcel: Parcel, shared: NDArray[Any] | None, own: NDArray[Any] | None
    ) -> tuple[NDArray[Any], list[int], list[float]]:
        desk = self._desks[number]
        vectors = [*parcels.vectors(shared), *parcels.vectors(own)]
        if token not in desk.data:
            samples = desk.samples[token]
            nothing = samples.subset(np.empty(0, dtype=np.int64))
            desk.data[token] = FederatedData(samples, {}, nothing)
        jobs = parcel.jobs(desk.engine.layout, [v.to(self._device) for v in vectors], desk.recipes)
        updates = desk.engine.train(jobs, desk.data[token])
        trained = parcels.matrix([update.weights.vector for update in updates])
        return trained, [update.samples for update in updates], [update.loss for update in updates]

    def tallies(
        self, number: int, token: int, part: slice, asked: Asked, vectors: NDArray[Any]
    ) -> list[Tally]:
        engine, model, samples = self._asked(number, token, part, asked, vectors)
        return engine.tallies(model, samples)

    def predict(
        self, number: int, token: int, part: slice, asked: Asked, vectors: NDArray[Any]
    ) -> NDArray[Any]:
        engine, model, samples = self._asked(number, token, part, asked, vectors)
        said: NDArray[Any] = engine.predict(model, samples).numpy()
        return said

    def examine(self, number: int, head: Head) -> None:
        self._desks[number].engine.examine(head.empty(0))

    def describe(self, number: int) -> dict[str, object]:
        return self._desks[number].engine.describe()

    def drop(self, number: int, tokens: Sequence[int]) -> None:
        """Samples that the driver no longer has."""
        self._desks[number].overwrite(tokens)

    def close(self, number: int) -> None:
        """The driver's engine is gone."""
        self.wipe(number, {})
        self._desks.pop(number, None)

    def wipe(self, number: int, heirs: Mapping[int, Heir]) -> None:
        """Overwrite all samples that this engine reads, but what is kept, and drop all that was trained."""
        if (desk := self._desks.get(number)) is None:
            return
        kept = {
            heir.token: heir.of(desk.samples.pop(old)) for old, heir in heirs.items() if old in desk.samples
        }
        desk.overwrite([*desk.samples, *desk.coming])
        desk.samples = kept
        desk.data.clear()
        desk.recipes.clear()
        desk.engine.wipe()
        gc.collect()
        if self._device.type == "cuda":
            torch.cuda.synchronize()  # what was asked of it has been done

    def _asked(
        self, number: int, token: int, part: slice, asked: Asked, vectors: NDArray[Any]
    ) -> tuple[Machine, Model, Samples]:
        desk = self._desks[number]
        samples = desk.samples[token]
        some = replace(samples, x=samples.x[part], y=samples.y[part])
        return desk.engine, asked.model(vectors, desk.engine.layout), some


def parts(samples: int, workers: int) -> list[slice]:
    """Whole slices of the evaluation for each worker: the same sums, whoever takes them."""
    many = -(-samples // SLICE)
    ends = [many * (i + 1) // min(workers, many) * SLICE for i in range(min(workers, many))]
    return [slice(a, b) for a, b in zip([0, *ends], ends, strict=False)]


def born(pid: int) -> str | None:
    """When a process was started, by the clock of its machine; None if it is gone. Numbers are used again."""
    if not os.path.isdir("/proc/self"):
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return None
        return ""
    try:
        with open(f"/proc/{pid}/stat") as file:
            state, *rest = file.read().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return None
    return None if state in "ZX" else rest[18]


def ended(pid: int, started: str | None, seconds: float) -> bool:
    """Kill this process of this machine, and see that it is gone."""
    end = time.monotonic() + seconds
    while born(pid) == started is not None:
        if time.monotonic() > end:
            return False
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            return True
        except PermissionError:
            return False
        time.sleep(0.01)
    return True


def packed_engine(dumps: Any, name: str, model: nn.Module, options: Mapping[str, Any]) -> bytes:
    """What a worker makes its engine of: the model as it is built, with nobody's weights in it."""
    template = checks.copied(model).cpu()
    with torch.no_grad():
        for parameter in trained(template).values():
            parameter.zero_()
    packed: bytes = dumps((name, template, dict(options)))
    return packed
