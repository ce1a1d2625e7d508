"""What a method keeps of the past, in memory and within a limit: weights by name, and the results of jobs."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from torch import Tensor

from unknot.core.data import FederatedData
from unknot.core.errors import StoreFullError
from unknot.core.jobs import Job, Update
from unknot.core.lineage import NOBODY, Ledger, Lineage, Unit
from unknot.core.weights import Layout, Weights

MIB = 2**20


@dataclass
class Entry:
    """Something that is kept: its numbers, whose data shaped them, and what else is known of them."""

    vector: Tensor
    lineage: Lineage
    layout: Layout | None = None
    beside: Any = None
    unit: Unit | None = None
    loss: float = 0.0

    @property
    def weights(self) -> Weights:
        assert self.layout is not None
        return Weights(self.vector, self.layout, self.lineage)

    def is_of(self, units: Lineage) -> bool:
        """Whether it belongs to one of them."""
        return self.unit is not None and self.unit in units


class Kept:
    """Entries by name, in the order in which the names came, that take `limit` bytes at most; None: any.

    They lie in memory, on the device that they are from.
    """

    copies = False
    """Whether what is put in and given out is copied: for a method of somebody's own."""

    def __init__(self, ledger: Ledger, limit: int | None = None) -> None:
        self._ledger = ledger
        self.limit = limit
        self.nbytes = 0
        self._entries: dict[object, Entry] = {}

    def __contains__(self, name: object) -> bool:
        return name in self._entries

    def __len__(self) -> int:
        return len(self._entries)

    def entries(self) -> Iterator[tuple[object, Entry]]:
        """All that is kept, in order, as it is: whoever reads it is not asked, and nothing is given out."""
        return iter(self._entries.items())

    def drop(self, *start: object) -> None:
        """Keep no longer what is kept under names that begin so: ``("profile", 3)``."""
        self._remove(n for n in list(self._entries) if isinstance(n, tuple) and n[: len(start)] == start)

    def clear(self) -> None:
        self._entries.clear()
        self.nbytes = 0

    def keep(self, name: object, entry: Entry) -> None:
        """Keep it in place of what has its name; where there is no room, nothing is changed."""
        whole = entry.vector.untyped_storage().nbytes()  # a row of a stack keeps all of it
        if self.copies or whole > entry.vector.nbytes:
            entry.vector = entry.vector.clone()
        old = self._entries.get(name)
        needed = self.nbytes + entry.vector.nbytes - (old.vector.nbytes if old else 0)
        if self.limit is not None and needed > self.limit:
            raise StoreFullError(needed, self.limit)
        self._entries[name] = entry
        self.nbytes = needed

    def _given(self, entry: Entry) -> Entry:
        """As it is given out."""
        return replace(entry, vector=entry.vector.clone()) if self.copies else entry

    def _remove(self, names: Iterable[object]) -> int:
        """How many went."""
        gone = [self._entries.pop(name).vector.nbytes for name in names]
        self.nbytes -= sum(gone)
        return len(gone)


class Archive(Kept):
    """Weights by name: checked when they are put in and when they are read.

    An erasure purges it: whatever carries a forbidden unit is dropped, not hidden.
    """

    def __setitem__(self, name: object, weights: Weights) -> None:
        self.put(name, weights)

    def put(self, name: object, weights: Weights, beside: Any = None) -> None:
        """Keep weights, and a copy of something that has seen no more than they have: it goes with them."""
        self._ledger.check(weights, f"store {name!r}")
        self.keep(name, Entry(weights.vector, weights.lineage, weights.layout, copy.deepcopy(beside)))

    def beside(self, name: object) -> Any:
        """A copy of what was put beside these weights; None where nothing was."""
        self._ledger.read(self[name])
        return copy.deepcopy(self._entries[name].beside)

    def __getitem__(self, name: object) -> Weights:
        weights = self._given(self._entries[name]).weights
        self._ledger.check(weights, f"read {name!r} from the store")
        self._ledger.read(weights)
        return weights

    def __delitem__(self, name: object) -> None:
        self._remove([name])

    def __iter__(self) -> Iterator[object]:
        return iter(list(self._entries))

    def purge(self) -> list[object]:
        """Drop everything that carries a forbidden unit; the names that went."""
        gone = [name for name, kept in self._entries.items() if kept.lineage & self._ledger.forbidden]
        self._remove(gone)
        return gone


class Memo(Kept):
    """Results of jobs, to be looked up instead of trained again.

    A job's result is a function of the bits that it starts from, the samples that it reads, its key
    and its recipe. The same question has the same answer, bit for bit, whoever shaped the start: so
    an answer that was found from weights that erased data had a part in may be used again where
    the same bits come about without that data. Only jobs that name their batches are kept: what
    they read is known. What nobody asks for with a clean start while a request is served is dropped
    with the request.

    An entry's lineage is that of the start for which it was last asked; its unit is the client's.
    """

    def put(self, update: Update) -> None:
        job = update.job
        self._ledger.check(update, f"remember what client {job.client} sent")
        self.keep(
            _question(job), Entry(update.weights.vector, job.start.lineage, unit=job.unit, loss=update.loss)
        )

    def get(self, job: Job, data: FederatedData) -> Update | None:
        """The update that training this job would give, if it is known."""
        found = self._entries.get(_question(job))
        if found is None or found.unit is None or found.unit in self._ledger.forbidden:
            return None
        known = replace(job, unit=found.unit)
        self._ledger.check(known, f"look up a job of client {job.client}")
        found.lineage = job.start.lineage
        self._ledger.read(known)
        return known.done(self._given(found).vector, len(job.shard(data)), found.loss)

    @contextmanager
    def unrecorded(self) -> Iterator[None]:
        """Within: who asks for a result does not keep it from being dropped."""
        starts = [(result, result.lineage) for result in self._entries.values()]
        try:
            yield
        finally:
            for result, start in starts:
                result.lineage = start

    def purge(self) -> int:
        """Drop every result that a forbidden unit had a part in; how many went."""
        forbidden = self._ledger.forbidden
        return self._remove(
            [
                name
                for name, kept in self._entries.items()
                if kept.lineage & forbidden or kept.is_of(forbidden)
            ]
        )


class Keepsakes(Kept):
    """What an approximate method keeps although erased data had a part in it, on record.

    Each belongs to the unit that it was made from, and goes when that is erased; or to nobody in
    particular (None: the whole model, a mean), and stays. What stays is given out without the forbidden
    part of its lineage: `waived` says what was let pass.
    """

    def __init__(self, ledger: Ledger) -> None:
        super().__init__(ledger)
        self._waived = NOBODY

    @property
    def waived(self) -> Lineage:
        """The erased units that had a part in what was given out. It only ever grows."""
        return self._waived

    @property
    def tainted(self) -> Lineage:
        """The erased units that had a part in what is kept, given out or not."""
        found = NOBODY
        for kept in self._entries.values():
            found |= self._ledger.taint(kept)
        return found

    def let_pass(self, waived: Lineage) -> None:
        """Put on record what was let pass before."""
        self._waived |= waived

    def put(self, name: object, unit: Unit | None, weights: Weights) -> None:
        self.keep(name, Entry(weights.vector, weights.lineage, weights.layout, unit=unit))

    def get(self, name: object) -> Weights | None:
        if name not in self._entries:
            return None
        weights = self._entries[name].weights
        taint = self._ledger.taint(weights)
        self._waived |= taint
        allowed = weights.lineage
        if taint:
            rest = Lineage(unit for unit in allowed if unit not in taint)
            allowed = rest.waiving(allowed.waived | taint.clients)
        kept = Weights(weights.vector, weights.layout, allowed)
        self._ledger.read(kept)
        return kept

    def take(self, name: object) -> Weights | None:
        """Give it out, and keep it no longer."""
        found = self.get(name)
        if found is not None:
            self._remove([name])
        return found

    @contextmanager
    def attempt(self) -> Iterator[None]:
        """Within: should anything fail, what is kept is what was kept before."""
        entries, nbytes = dict(self._entries), self.nbytes
        try:
            yield
        except BaseException:
            self._entries, self.nbytes = entries, nbytes
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
        return self._remove([name for name, kept in self._entries.items() if kept.is_of(forbidden)])


def _question(job: Job) -> object:
    if job.batches is None:
        raise ValueError("only a job that names its batches can be remembered: what it read must be known")
    read = tuple(batch.tobytes() for batch in job.batches)
    steps = job.recipe.together(job.version)
    return job.start.fingerprint, job.client, job.node, job.key, steps, read
