"""Whose data shaped a set of weights, and which of it has been forbidden since."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import reduce
from operator import or_
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from unknot.core.errors import ForbiddenLineageError, UnknotError
from unknot.core.ids import one_way

NO_NAMES: Mapping[int, str] = {}
NO_CLIENTS: frozenset[int] = frozenset()
BLOCK = 16
"""A block of a lineage has ``2 ** BLOCK`` clients."""
WITHIN = (1 << BLOCK) - 1
Place = tuple[int, int]
"""Which revision, which block of clients."""


class Clients(frozenset[int]):
    """Numbers of clients, in order, which can be asked by name where they have names."""

    names: Mapping[int, str] = NO_NAMES

    def called(self, names: Mapping[int, str]) -> Clients:
        self.names = names
        return self

    def __iter__(self) -> Iterator[int]:
        """Ascending: the order of a set depends on how it came about."""
        return iter(sorted(super().__iter__()))

    def __contains__(self, client: object) -> bool:
        return super().__contains__(client if not isinstance(client, str) else _number(client, self.names))


class ClientsInOrder(tuple[int, ...]):
    """The same, one after the other."""

    names: Mapping[int, str] = NO_NAMES

    def called(self, names: Mapping[int, str]) -> ClientsInOrder:
        self.names = names
        return self

    def __contains__(self, client: object) -> bool:
        return super().__contains__(client if not isinstance(client, str) else _number(client, self.names))


def _number(name: str, names: Mapping[int, str]) -> int | None:
    """Whose name it is; None if nobody's."""
    if not names:
        raise TypeError(f"clients are numbers here, and {name!r} is a name: ask data.number({name!r})")
    wanted = one_way(name)
    return next((client for client, called in names.items() if called == wanted), None)


@dataclass(frozen=True, slots=True, order=True)
class Unit:
    """One client's data in one revision, or one draw of it: what an erasure forbids.

    Erasing some of a client's samples raises its revision: the old unit is forbidden, the new one
    is not. Where a method draws samples and says which, each draw has a number of its own, and only
    the draws that hold an erased sample are forbidden.
    """

    client: int
    revision: int = 0

    def told(self, who: str) -> str:
        """In words, with the client as people call it."""
        return who + (f" (revision {self.revision})" if self.revision else "")

    def __str__(self) -> str:
        return self.told(_numbered(self.client))


class Lineage:
    """An immutable set of units.

    Kept as bit masks over clients, a block of 65,536 at a time for each revision. What is made of others
    shares their blocks: a client more is a new block and not a new mask over a million clients, cheap enough
    to be taken for every update of every round. What leaves a federation
    whose clients have names takes these along (`names`): numbers are its own affair. And it takes along whom
    an approximate method has let pass (`waived`): they are none of its units any more, but had a part in it.
    """

    __slots__ = ("_blocks", "names", "waived")
    _blocks: Mapping[Place, int]
    names: Mapping[int, str]
    waived: frozenset[int]

    def __init__(self, units: Iterable[Unit] = ()) -> None:
        blocks: dict[Place, int] = {}
        for unit in units:
            if unit.client < 0 or unit.revision < 0:
                raise ValueError(f"a unit has no negative parts: {unit!r}")
            place = (unit.revision, unit.client >> BLOCK)
            blocks[place] = blocks.get(place, 0) | 1 << (unit.client & WITHIN)
        self._blocks = blocks
        self.names = NO_NAMES
        self.waived = NO_CLIENTS

    @classmethod
    def _of(cls, blocks: Mapping[Place, int]) -> Lineage:
        """Of blocks none of which is empty."""
        lineage = cls.__new__(cls)
        lineage._blocks = blocks
        lineage.names = NO_NAMES
        lineage.waived = NO_CLIENTS
        return lineage

    @classmethod
    def of_clients(cls, clients: Iterable[int]) -> Lineage:
        """The first units of many clients, all at once."""
        numbers = np.fromiter(clients, dtype=np.int64)
        flags = np.zeros(int(numbers.max(initial=-1)) + 1, dtype=np.bool_)
        flags[numbers] = True
        masks = (_mask(flags[first : first + WITHIN + 1]) for first in range(0, len(flags), WITHIN + 1))
        return cls._of({(0, block): mask for block, mask in enumerate(masks) if mask})

    @classmethod
    def of_blocks(cls, blocks: Mapping[Place, int]) -> Lineage:
        """The inverse of `blocks`."""
        return cls._of(dict(blocks))

    @property
    def blocks(self) -> Mapping[Place, int]:
        """The masks that it is kept as: for its written form."""
        return self._blocks

    def union(self, *others: Lineage) -> Lineage:
        """This and all others. A block that many share is looked at once."""
        if len(others) < 2:
            return self | others[0] if others else self
        parts: dict[Place, dict[int, int]] = {}
        for lineage in (self, *others):
            for place, mask in lineage._blocks.items():
                if place in parts:
                    parts[place][id(mask)] = mask
                else:
                    parts[place] = {id(mask): mask}
        return self._joined({place: reduce(or_, masks.values()) for place, masks in parts.items()}, others)

    def __or__(self, other: Lineage) -> Lineage:
        blocks, more = self._blocks, {}
        for place, mask in other._blocks.items():
            mine = blocks.get(place, 0)
            if mine is not mask and (both := mine | mask) != mine:
                more[place] = both
        if not more and other.waived <= self.waived and other.names.keys() <= self.names.keys():
            return self
        return self._joined({**blocks, **more} if more else blocks, (other,))

    def _joined(self, blocks: Mapping[Place, int], others: Iterable[Lineage]) -> Lineage:
        """These blocks, with the names of all, and whom any of them let pass."""
        united = Lineage._of(blocks)
        united.names, united.waived = self.names, self.waived
        for other in others:
            if other.names:
                united.names = {**other.names, **united.names}
            if other.waived:
                united.waived |= other.waived
        return united

    def __and__(self, other: Lineage) -> Lineage:
        short, long = sorted((self._blocks, other._blocks), key=len)
        blocks = {}
        for place, mask in short.items():
            theirs = long.get(place, 0)
            if both := mask if theirs is mask else mask & theirs:
                blocks[place] = both
        common = Lineage._of(blocks)
        if self.waived and other.waived:
            common.waived = self.waived & other.waived
        return common

    def __ge__(self, other: Lineage) -> bool:
        """Whether all that is in the other one is in this one."""
        if self is other:
            return True
        both = ((self._blocks.get(place, 0), mask) for place, mask in other._blocks.items())
        return other.waived <= self.waived and all(mine is mask or mine & mask == mask for mine, mask in both)

    def __contains__(self, unit: Unit) -> bool:
        return bool(self._blocks.get((unit.revision, unit.client >> BLOCK), 0) >> (unit.client & WITHIN) & 1)

    def __iter__(self) -> Iterator[Unit]:
        for (revision, block), mask in sorted(self._blocks.items()):
            for client in _clients(block, mask):
                yield Unit(client, revision)

    def __len__(self) -> int:
        return sum(mask.bit_count() for mask in self._blocks.values())

    def __bool__(self) -> bool:
        return bool(self._blocks or self.waived)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Lineage) and self._blocks == other._blocks and self.waived == other.waived

    def __hash__(self) -> int:
        return hash(frozenset(self._blocks.items()))

    @property
    def clients(self) -> frozenset[int]:
        """Whose data it is, whatever the revision."""
        found = (client for (_, block), mask in self._blocks.items() for client in _clients(block, mask))
        return Clients(found).called(self.names)

    def named(self, names: Mapping[int, str]) -> Lineage:
        """The same, with what its clients are called."""
        twin = Lineage._of(self._blocks)
        twin.names = {client: names[client] for client in self.clients | self.waived if client in names}
        twin.waived = self.waived
        return twin

    def waiving(self, clients: Iterable[int]) -> Lineage:
        """The same, with these as well that were let pass."""
        twin = Lineage._of(self._blocks)
        twin.names, twin.waived = self.names, self.waived | frozenset(clients)
        return twin

    def inherited(self) -> Lineage:
        """The same clients, as another run's ledger names them.

        Revisions and draws count anew in every run. What comes from another one is therefore taken for
        its clients' first unit: the one that an erasure of any part of a client's data forbids. Whom an
        earlier run let pass counts again.
        """
        return Lineage.of_clients(self.clients | self.waived)

    def describe(self, label: Callable[[int], str] | None = None) -> list[str]:
        """By client: ``client 3``, ``client 3 (revision 1)``, or ``client 3 (12 units)``; or by its label."""
        label = label or self._label
        by_client: dict[int, list[Unit]] = {}
        for unit in self:
            by_client.setdefault(unit.client, []).append(unit)
        return [
            units[0].told(label(client)) if len(units) == 1 else f"{label(client)} ({len(units)} units)"
            for client, units in sorted(by_client.items())
        ]

    def __repr__(self) -> str:
        units = list(self)
        shown = ", ".join(unit.told(self._label(unit.client)) for unit in units[:5])
        return f"Lineage({shown}{f', … ({len(units)} units)' if len(units) > 5 else ''})"

    def _label(self, client: int) -> str:
        return self.names.get(client, _numbered(client))


def _numbered(client: int) -> str:
    return f"client {client}"


def _mask(flags: NDArray[np.bool_]) -> int:
    return int.from_bytes(np.packbits(flags, bitorder="little").tobytes(), "little")


def _clients(block: int, mask: int) -> list[int]:
    """The clients in a block, ascending."""
    raw = np.frombuffer(mask.to_bytes((mask.bit_length() + 7) // 8, "little"), dtype=np.uint8)
    return (np.flatnonzero(np.unpackbits(raw, bitorder="little")) + (block << BLOCK)).tolist()


NOBODY = Lineage()


def of_runs(*lineages: Lineage) -> Lineage:
    """All of these, each from a run of its own, where a number may be another client's.

    Whose number is taken by somebody of another name gets one that is free.
    """
    united = NOBODY
    for lineage in lineages:
        united |= _beside(united, lineage)
    return united


def _beside(there: Lineage, lineage: Lineage) -> Lineage:
    if lineage.names == there.names:
        return lineage
    mine, theirs = (one.clients | one.waived for one in (lineage, there))
    taken = {client for client in mine & theirs if lineage.names.get(client) != there.names.get(client)}
    if not taken:
        return lineage
    free = 1 + max(mine | theirs)
    moved = {client: free + place for place, client in enumerate(sorted(taken))}
    names = {c: lineage.names.get(c, f"{_numbered(c)} of an earlier run") for c in taken}
    twin = Lineage(Unit(moved.get(unit.client, unit.client), unit.revision) for unit in lineage)
    twin.names = {moved.get(client, client): called for client, called in {**lineage.names, **names}.items()}
    twin.waived = frozenset(moved.get(client, client) for client in lineage.waived)
    return twin


class Traced(Protocol):
    """Anything that was shaped by somebody's data."""

    @property
    def lineage(self) -> Lineage: ...


Entries = tuple[dict[int, int], dict[int, int], dict[int, dict[Unit, frozenset[int]]], Lineage]
"""All that is in a ledger."""


class Ledger:
    """The units that exist and those that are forbidden. It only ever forbids more.

    `label` is what it calls a client when it refuses something.
    """

    def __init__(self, label: Callable[[int], str] = _numbered) -> None:
        self._label = label
        self._revision: dict[int, int] = {}
        self._next: dict[int, int] = {}
        self._draws: dict[int, dict[Unit, frozenset[int]]] = {}
        self._forbidden = NOBODY
        self._read: list[Lineage] | None = None

    @property
    def forbidden(self) -> Lineage:
        return self._forbidden

    def unit(self, client: int) -> Unit:
        """The unit under which this client trains on all its data now."""
        return Unit(client, self._revision.get(client, 0))

    def units(self, clients: Iterable[int]) -> Lineage:
        """The present units of these clients, all at once: there may be thousands of them."""
        everybody = set(clients)
        revised = everybody & self._revision.keys()
        return Lineage(map(self.unit, revised)) | Lineage.of_clients(everybody - revised)

    def draw(self, client: int, samples: Iterable[int]) -> Unit:
        """A unit of its own for a draw of some of the client's samples: nothing else is read."""
        unit = Unit(client, self._fresh(client))
        self._draws.setdefault(client, {})[unit] = frozenset(samples)
        return unit

    def check_given(self, unit: Unit, read: Iterable[NDArray[np.int64]] | None) -> None:
        """Raise unless this is a unit that was given out, and covers what is `read`; None is all there is."""
        if unit.revision == self._revision.get(unit.client, 0):
            return
        who, held = self._label(unit.client), self._draws.get(unit.client, {}).get(unit)
        if held is None:
            raise UnknotError(
                f"refused a job under {unit.told(who)}, which is no unit that the ledger gave out: take "
                "ledger.unit(client), or ledger.draw(client, samples)"
            )
        if read is None or not all(held.issuperset(batch.tolist()) for batch in read):
            what = "all samples" if read is None else "samples"
            raise UnknotError(
                f"refused a job that reads {what} of {who} under a draw of {len(held)} of them: a draw must "
                "hold all that is read, and the job name its batches"
            )

    def forbid(self, client: int, samples: Iterable[int] | None = None) -> Unit:
        """Forbid the client's present unit, and its draws: all, or those that hold one of `samples`.

        The next revision is clean.
        """
        unit = self.unit(client)
        erased = None if samples is None else frozenset(samples)
        draws = self._draws.get(client, {})
        gone = [draw for draw, held in draws.items() if erased is None or held & erased]
        for draw in gone:
            del draws[draw]
        self._forbidden |= Lineage([unit, *gone])
        self._revision[client] = self._fresh(client)
        return unit

    def entries(self) -> Entries:
        """All that is in it: revisions, the next numbers, draws with their samples, what is forbidden."""
        return self._revision, self._next, self._draws, self._forbidden

    def restore(self, entries: Entries) -> None:
        """The inverse of `entries`."""
        self._revision, self._next, self._draws, self._forbidden = entries

    def _fresh(self, client: int) -> int:
        number = self._next.get(client, 1)
        self._next[client] = number + 1
        return number

    @contextmanager
    def reading(self) -> Iterator[Callable[[], Lineage]]:
        """Within: what is read of models and stores is noted; the function gives whose data that was."""
        noted = self._read = [NOBODY]
        try:
            yield lambda: noted[0]
        finally:
            self._read = None

    @contextmanager
    def unrecorded(self) -> Iterator[None]:
        """Within: units that are given out are given out again, for nobody keeps what comes of them."""
        given, draws = dict(self._next), {client: dict(held) for client, held in self._draws.items()}
        try:
            yield
        finally:
            self._next, self._draws = given, draws

    def read(self, thing: Traced) -> None:
        """Note that somebody reads this."""
        if self._read is not None:
            self._read[0] |= thing.lineage

    def taint(self, thing: Traced) -> Lineage:
        """The forbidden units that `thing` carries."""
        return thing.lineage & self._forbidden

    def check(self, thing: Traced, action: str) -> None:
        """Raise if `thing` carries a forbidden unit; `action` completes "refused to ...".

        >>> ledger.check(weights, "serve the model")
        """
        if not self._forbidden:
            return
        taint = self.taint(thing)
        if taint:
            units = ", ".join(unit.told(self._label(unit.client)) for unit in taint)
            raise ForbiddenLineageError(
                f"refused to {action}: it carries {units}, whose data has been erased. "
                "Start it again from weights that the erased data never shaped."
            )


class LedgerView:
    """A ledger as methods and aggregators see it: it can be asked, and told of draws; it forbids nothing."""

    __slots__ = ("__ledger",)

    def __init__(self, ledger: Ledger) -> None:
        self.__ledger = ledger

    @property
    def forbidden(self) -> Lineage:
        return self.__ledger.forbidden

    def unit(self, client: int) -> Unit:
        """The unit under which this client trains on all its data now."""
        return self.__ledger.unit(client)

    def units(self, clients: Iterable[int]) -> Lineage:
        """The present units of these clients."""
        return self.__ledger.units(clients)

    def draw(self, client: int, samples: Iterable[int]) -> Unit:
        """A unit of its own for a draw of some of the client's samples: nothing else is read."""
        return self.__ledger.draw(client, samples)

    def taint(self, thing: Traced) -> Lineage:
        """The forbidden units that `thing` carries."""
        return self.__ledger.taint(thing)

    def check(self, thing: Traced, action: str) -> None:
        """Raise if `thing` carries a forbidden unit; `action` completes "refused to ..."."""
        self.__ledger.check(thing, action)
