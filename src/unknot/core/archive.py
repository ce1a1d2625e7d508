"""What a method keeps of the past: weights by name, and the results of jobs."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch
from torch import Tensor

from unknot.core.data import FederatedData
from unknot.core.errors import StoreFullError
from unknot.core.jobs import Job, Update
from unknot.core.lineage import NOBODY, Ledger, Lineage, Unit
from unknot.core.store import MIB, Shelf
from unknot.core.weights import Layout, Weights


@dataclass(frozen=True)
class Entry:
    """Something that is kept, for its written form: its numbers by digest, and how to get them."""

    digest: str
    load: Callable[[], Tensor]
    device: torch.device
    lineage: Lineage
    layout: Layout | None = None
    beside: Any = None
    unit: Unit | None = None
    loss: float = 0.0


class Archive:
    """Weights by name: checked when they are put in and when they are read.

    An erasure purges it: whatever carries a forbidden unit is dropped, not hidden. `memory` and
    `disk` are the bytes that it may take; without them it takes what it needs, in memory.
    """

    copies = False
    """Whether what is put in and given out is copied: for a method of somebody's own."""

    def __init__(self, ledger: Ledger, memory: int | None = None, disk: int = 0) -> None:
        self._ledger = ledger
        self._shelf = Shelf(memory, disk)
        self._about: dict[object, tuple[Layout, Lineage]] = {}
        self._beside: dict[object, Any] = {}

    def __setitem__(self, name: object, weights: Weights) -> None:
        self.put(name, weights)

    def put(self, name: object, weights: Weights, beside: Any = None) -> None:
        """Keep weights, and a copy of something that has seen no more than they have: it goes with them."""
        self._ledger.check(weights, f"store {name!r}")
        self._shelf[name] = weights.vector.clone() if self.copies else weights.vector
        self._about[name] = (weights.layout, weights.lineage)
        self._beside.pop(name, None)
        if beside is not None:
            self._beside[name] = copy.deepcopy(beside)

    def beside(self, name: object) -> Any:
        """A copy of what was put beside these weights; None where nothing was."""
        self._ledger.read(self[name])
        return copy.deepcopy(self._beside.get(name))

    def __getitem__(self, name: object) -> Weights:
        vector = self._shelf[name]
        weights = Weights(vector.clone() if self.copies else vector, *self._about[name])
        self._ledger.check(weights, f"read {name!r} from the store")
        self._ledger.read(weights)
        return weights

    def __delitem__(self, name: object) -> None:
        del self._shelf[name], self._about[name]
        self._beside.pop(name, None)

    def __contains__(self, name: object) -> bool:
        return name in self._about

    def __iter__(self) -> Iterator[object]:
        return iter(list(self._about))

    def __len__(self) -> int:
        return len(self._about)

    @property
    def nbytes(self) -> int:
        return self._shelf.nbytes

    @property
    def room(self) -> tuple[int | None, int]:
        """How many bytes it may take in memory, and on disk."""
        return self._shelf.room

    def entries(self) -> Iterator[tuple[object, Entry]]:
        """All that is kept, in order, as it is: whoever reads it is not asked."""
        for name, (layout, lineage) in self._about.items():
            entry = Entry(
                self._shelf.digest(name),
                partial(self._shelf.__getitem__, name),
                self._shelf.device(name),
                lineage,
                layout,
                self._beside.get(name),
            )
            yield name, entry

    def clear(self, room: tuple[int | None, int] | None = None) -> None:
        """Keep nothing; with so much room from now on, or as much as before."""
        self._shelf = Shelf(*(self.room if room is None else room))
        self._about.clear()
        self._beside.clear()

    def restore(self, name: object, vector: Tensor, layout: Layout, lineage: Lineage, beside: Any) -> None:
        """Keep again what `entries` gave."""
        self.put(name, Weights(vector, layout, lineage))
        if beside is not None:
            self._beside[name] = beside

    def drop(self, kind: str) -> None:
        """Drop what is kept under names that begin so: ``("profile", 3)``."""
        for name in [name for name in self._about if isinstance(name, tuple) and name[0] == kind]:
            del self[name]

    def purge(self) -> list[object]:
        """Drop everything that carries a forbidden unit; the names that went."""
        gone = [name for name, (_, lineage) in self._about.items() if lineage & self._ledger.forbidden]
        for name in gone:
            del self[name]
        return gone


@dataclass
class _Result:
    unit: Unit
    start: Lineage
    loss: float


class Memo:
    """Results of jobs, to be looked up instead of trained again.

    A job's result is a function of the bits that it starts from, the samples that it reads, its key
    and its recipe. The same question has the same answer, bit for bit, whoever shaped the start: so
    an answer that was found from weights that erased data had a part in may be used again where
    the same bits come about without that data. Only jobs that name their batches are kept: what
    they read is known. What nobody asks for with a clean start while a request is served is dropped
    with the request.
    """

    copies = False
    """As in an `Archive`."""

    def __init__(self, ledger: Ledger, memory: int | None = None, disk: int = 0) -> None:
        self._ledger = ledger
        self._shelf = Shelf(memory, disk)
        self._results: dict[object, _Result] = {}

    def put(self, update: Update) -> None:
        job = update.job
        self._ledger.check(update, f"remember what client {job.client} sent")
        name = _question(job)
        vector = update.weights.vector
        self._shelf[name] = vector.clone() if self.copies else vector
        self._results[name] = _Result(job.unit, job.start.lineage, update.loss)

    def get(self, job: Job, data: FederatedData) -> Update | None:
        """The update that training this job would give, if it is known."""
        name = _question(job)
        found = self._results.get(name)
        if found is None or found.unit in self._ledger.forbidden:
            return None
        known = replace(job, unit=found.unit)
        self._ledger.check(known, f"look up a job of client {job.client}")
        found.start = job.start.lineage
        self._ledger.read(known)
        vector = self._shelf[name]
        return known.done(vector.clone() if self.copies else vector, len(job.shard(data)), found.loss)

    def __len__(self) -> int:
        return len(self._results)

    @property
    def room(self) -> tuple[int | None, int]:
        """How many bytes it may take in memory, and on disk."""
        return self._shelf.room

    def entries(self) -> Iterator[tuple[object, Entry]]:
        """All that is kept, in order, as it is."""
        for name, result in self._results.items():
            entry = Entry(
                self._shelf.digest(name),
                partial(self._shelf.__getitem__, name),
                self._shelf.device(name),
                result.start,
                unit=result.unit,
                loss=result.loss,
            )
            yield name, entry

    def clear(self, room: tuple[int | None, int] | None = None) -> None:
        """Keep nothing; with so much room from now on, or as much as before."""
        for name in list(self._results):
            del self._results[name], self._shelf[name]
        if room is not None:
            self._shelf = Shelf(*room)

    def restore(self, name: object, vector: Tensor, unit: Unit, start: Lineage, loss: float) -> None:
        """Keep again what `entries` gave."""
        self._shelf[name] = vector
        self._results[name] = _Result(unit, start, loss)

    @contextmanager
    def unrecorded(self) -> Iterator[None]:
        """Within: who asks for a result does not keep it from being dropped."""
        starts = [(result, result.start) for result in self._results.values()]
        try:
            yield
        finally:
            for result, start in starts:
                result.start = start

    @property
    def nbytes(self) -> int:
        return self._shelf.nbytes

    def purge(self) -> int:
        """Drop every result that a forbidden unit had a part in; how many went."""
        forbidden = self._ledger.forbidden
        gone = [
            name
            for name, result in self._results.items()
            if result.start & forbidden or result.unit in forbidden
        ]
        for name in gone:
            del self._results[name], self._shelf[name]
        return len(gone)


class Keepsakes:
    """What an approximate method keeps although erased data had a part in it, on record.

    Each belongs to the unit that it was made from, and goes when that is erased; or to nobody in
    particular (None: the whole model, a mean), and stays. What stays is given out without the forbidden
    part of its lineage: `waived` says what was let pass. They take `limit` bytes at most.
    """

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self.limit: int | None = None
        self._items: dict[object, tuple[Unit | None, Weights]] = {}
        self.nbytes = 0
        self._waived = NOBODY

    @property
    def waived(self) -> Lineage:
        """The erased units that had a part in what was given out. It only ever grows."""
        return self._waived

    @property
    def tainted(self) -> Lineage:
        """The erased units that had a part in what is kept, given out or not."""
        found = NOBODY
        for _, weights in self._items.values():
            found |= self._ledger.taint(weights)
        return found

    def entries(self) -> list[tuple[object, Unit | None, Weights]]:
        """All that is kept, in order, as it is: nothing is given out."""
        return [(name, unit, weights) for name, (unit, weights) in self._items.items()]

    def let_pass(self, waived: Lineage) -> None:
        """Put on record what was let pass before."""
        self._waived |= waived

    def put(self, name: object, unit: Unit | None, weights: Weights) -> None:
        self._drop(name)
        if weights.vector.untyped_storage().nbytes() > weights.nbytes:  # a row of a stack keeps all of it
            weights = replace(weights, vector=weights.vector.clone())
        if self.limit is not None and self.nbytes + weights.nbytes > self.limit:
            raise StoreFullError(
                f"the history is full: {self.limit / MIB:g} MiB. Allow the method more memory (in MiB), "
                "keep fewer rounds (a greater interval), or train for fewer"
            )
        self._items[name] = (unit, weights)
        self.nbytes += weights.nbytes

    def get(self, name: object) -> Weights | None:
        if name not in self._items:
            return None
        _, weights = self._items[name]
        taint = self._ledger.taint(weights)
        self._waived |= taint
        allowed = weights.lineage
        if taint:
            rest = Lineage(unit for unit in allowed if unit not in taint)
            allowed = rest.waiving(allowed.waived | taint.clients)
        kept = Weights(weights.vector, weights.layout, allowed)
        self._ledger.read(kept)
        return kept

    def drop(self, *start: object) -> None:
        """Keep no longer what is kept under names that begin so: ``("sum", "global", 3)``."""
        names = [name for name in self._items if isinstance(name, tuple) and name[: len(start)] == start]
        for name in names:
            self._drop(name)

    def take(self, name: object) -> Weights | None:
        """Give it out, and keep it no longer."""
        found = self.get(name)
        self._drop(name)
        return found

    @contextmanager
    def attempt(self) -> Iterator[None]:
        """Within: should anything fail, what is kept is what was kept before."""
        items, nbytes = dict(self._items), self.nbytes
        try:
            yield
        except BaseException:
            self._items, self.nbytes = items, nbytes
            raise

    @contextmanager
    def unrecorded(self) -> Iterator[None]:
        """Within: what is let pass is not on record afterwards, for nobody keeps what comes of it."""
        waived = self._waived
        try:
            yield
        finally:
            self._waived = waived

    def purge(self) -> int:
        """Drop what belongs to forbidden units; how many went."""
        forbidden = self._ledger.forbidden
        gone = [name for name, (unit, _) in self._items.items() if unit is not None and unit in forbidden]
        for name in gone:
            self._drop(name)
        return len(gone)

    def clear(self) -> None:
        self._items.clear()
        self.nbytes = 0

    def _drop(self, name: object) -> None:
        if name in self._items:
            self.nbytes -= self._items.pop(name)[1].nbytes


def _question(job: Job) -> object:
    if job.batches is None:
        raise ValueError("only a job that names its batches can be remembered: what it read must be known")
    read = tuple(batch.tobytes() for batch in job.batches)
    steps = job.recipe.together(job.version)
    return job.start.fingerprint, job.client, job.node, job.key, steps, read
