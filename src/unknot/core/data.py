"""The data of a federation: who holds which samples, and the door that closes when some are erased."""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from unknot.core.errors import ConfigError, DataError, ErasedDataError, RequestError, nearest
from unknot.core.ids import Id, client_id, one_way, sample_ids
from unknot.core.lineage import Clients, ClientsInOrder, Lineage, Unit
from unknot.core.mapped import is_mapped, stored
from unknot.core.samples import Samples, Shard
from unknot.core.wording import Wording

__all__ = ["NOBODYS", "FederatedData", "Samples", "Shard"]

Ints = NDArray[np.int64]
_PARTS = (
    *("train", "test", "validation", "test_rows", "name"),
    *("validation_owner", "test_owner", "names", "public", "wording"),
)
NOBODYS = -1
"""The owner of a held-out row that belongs to no client."""
FEW = 10
"""So many clients, or names of clients, are listed in a message."""


class FederatedData:
    """The data of a federation: a shard a client, and the server's validation and test samples.

    `train` has everybody's training samples, `shards` who holds which rows of it, by client; `test` and
    `validation` are what models are measured on, `test_rows` each client's share of the test samples. `name`
    is what the data is called.

    Held-out rows may belong to a client: `validation_owner` and `test_owner` name one for each row,
    -1 for nobody; None, and all of them are nobody's. They are erased with their client.

    `public` are inputs without targets that the server has of its own: nobody's, and never erased.

    `wording` is what is known of texts: whose tokens they are, what classes are called.

    Clients are numbers here. `names` says what people call them, where they have names: these stand for
    the numbers wherever a client is asked for, and in messages, records and pictures.

    What comes in is checked: a label or a feature that nobody can learn from, in a row that a client
    holds or that is held out, is a `DataError` that names it.

    Erasing is final: the shard (or the samples in it) is gone from here, and asking for it raises.
    Its rows are gone from the tensors, too. Those that were given are their giver's, and are never
    changed: the first erasure makes copies without what it erases (of what lies in a file, on disk).
    `fork()` gives a run its own copy
    of the bookkeeping, so that an erasure in one run does not reach into another; until then the
    tensors are shared.
    """

    def __init__(
        self,
        train: Samples,
        shards: Mapping[int, Shard],
        test: Samples,
        validation: Samples | None = None,
        test_rows: Mapping[int, Ints] | None = None,
        name: str = "data",
        *,
        validation_owner: Ints | None = None,
        test_owner: Ints | None = None,
        names: Mapping[int, str] | None = None,
        public: Tensor | None = None,
        wording: Wording | None = None,
    ) -> None:
        self.called(names or {})
        self.name = name
        self.train = train
        self.test = test
        self.validation = validation
        self.public = public
        self.wording = wording
        self._shards = {client_id(client): shard for client, shard in sorted(shards.items())}
        rows = (test_rows or {}).items()
        self.test_rows = {client: np.asarray(mine, dtype=np.int64) for client, mine in rows}
        self.validation_owner = self._owners(validation_owner, validation, "validation")
        self.test_owner = self._owners(test_owner, test, "test")
        self._erased: set[int] = set()
        self._reduced: dict[int, frozenset[int]] = {}
        self._own = self._lent = False
        self._check()

    def fork(self) -> FederatedData:
        """The same data with bookkeeping of its own: what is erased in one is not erased in the other."""
        self._own = False  # the tensors are shared from here on
        twin = copy.copy(self)
        twin._shards = dict(self._shards)
        twin.test_rows = dict(self.test_rows)
        twin._erased = set(self._erased)
        twin._reduced = dict(self._reduced)
        return twin

    def lent(self) -> FederatedData:
        """A fork whose tensors are on loan from somebody who keeps them anyhow, as an auditor does.

        Erasing closes the door there as everywhere, but copies and overwrites nothing.
        """
        twin = self.fork()
        twin._lent = True
        return twin

    def label(self, client: int) -> str:
        """What a client is called in messages: its name, or ``client 3``."""
        return self.names.get(client, f"client {client}")

    def known(self, lineage: Lineage) -> Lineage:
        """The lineage of what comes from another run, with its clients as they are numbered here.

        A name that nobody has here gets a number of its own: erasing it finds what it shaped. Whom that run
        let pass goes along.
        """
        if not lineage.names:
            return Lineage.of_clients(lineage.clients).waiving(lineage.waived)
        if not self.names:
            called = ", ".join(sorted(lineage.names.values())[:FEW])
            raise ConfigError(
                f"the weights to start from know clients by name ({called}), and here clients have numbers "
                "alone: give them names (unknot.clients, FederatedData(names=...))"
            )
        everybody = lineage.clients | lineage.waived
        names, free = dict(self.names), 1 + max([*self.names, *self._shards, *everybody])
        here: dict[int, int] = {}
        for client in sorted(everybody):
            called = lineage.names.get(client, f"client {client} of an earlier run")
            if called not in names.values():
                names[free], free = called, free + 1
            here[client] = next(number for number, name in names.items() if name == called)
        self.called(names)
        units = Lineage(Unit(here[client]) for client in lineage.clients)
        return units.waiving(here[client] for client in lineage.waived)

    def number(self, client: Id | str) -> int:
        """The number of a client that is called so; raises `RequestError` for a name that nobody has."""
        if not isinstance(client, str):
            return client_id(client)
        if (called := one_way(client)) in self._numbers:
            return self._numbers[called]
        known = [name for name, number in self._numbers.items() if number not in self._erased]
        hint = nearest(client, known) or f" This federation has {self.describe_clients()}."
        raise RequestError(f"there is no client {client!r}.{hint}")

    def __getitem__(self, client: int | str) -> Shard:
        client = self.number(client) if isinstance(client, str) else client
        if client in self._erased:
            raise ErasedDataError(f"{self.label(client)}'s data has been erased; nothing may read it")
        try:
            return self._shards[client]
        except KeyError:
            raise RequestError(
                f"there is no {self.label(client)}; this federation has {self.describe_clients()}"
            ) from None

    def pooled(self, clients: Sequence[int]) -> Shard:
        """Several clients' samples as one shard, for central training; ids are (client, id) in one number."""
        shards = {client: self[client] for client in sorted(clients)}
        rows = [shard.rows for shard in shards.values()]
        ids = [(client << 32) + shard.ids for client, shard in shards.items()]
        return Shard(np.concatenate(rows), np.concatenate(ids))

    def __contains__(self, client: int | str) -> bool:
        return (self._numbers.get(one_way(client)) if isinstance(client, str) else client) in self._shards

    def __iter__(self) -> Iterator[int]:
        return iter(self._shards)

    def __len__(self) -> int:
        return len(self._shards)

    @property
    def clients(self) -> ClientsInOrder:
        """The clients whose data is here, in the order of their ids."""
        return ClientsInOrder(self._shards).called(self.names)

    @property
    def erased(self) -> frozenset[int]:
        """The clients that were erased whole."""
        return Clients(self._erased).called(self.names)

    @property
    def reduced(self) -> dict[int, frozenset[int]]:
        """The ids of the samples that were erased from clients that are still here."""
        return dict(self._reduced)

    @property
    def validation_clients(self) -> frozenset[int]:
        """The clients whose rows are in the validation data now."""
        if self.validation_owner is None:
            return frozenset()
        return frozenset(self.validation_owner[self.validation_owner != NOBODYS].tolist())

    def describe_clients(self) -> str:
        ids = self.clients
        if not ids:
            return "no clients"
        if not self.names and ids == tuple(range(ids[0], ids[-1] + 1)):
            return f"clients {ids[0]} to {ids[-1]}"
        told = [self.names.get(client, str(client)) for client in ids[:FEW]]
        return f"clients {', '.join(told)}{', …' if len(ids) > FEW else ''}"

    def __repr__(self) -> str:
        held = sum(map(len, self._shards.values()))
        gone = f"; {len(self._erased)} erased" if self._erased else ""
        return (
            f"FederatedData({self.name!r}: {held} samples of {self.describe_clients()}, "
            f"{len(self.validation or ())} for validation, {len(self.test)} for testing{gone})"
        )

    def erase(self, client: Id | str, ids: Iterable[Id] | None = None) -> None:
        """Put a `client`'s data, or the samples of it with these `ids`, out of reach for good.

        With a client go the validation and test rows that belong to it. Ids name training samples:
        where single ones are erased, the client's held-out rows stay.
        """
        client, named = self.check_erasable(client, ids)
        shard = self._shards[client]
        if named is None:
            del self._shards[client]
            self._reduced.pop(client, None)
            self.drop_held_out(client)
            self.test_rows.pop(client, None)
            self._erased.add(client)
            self._wipe(shard.rows)
        else:
            self._shards[client] = shard.without(named)
            self._reduced[client] = self._reduced.get(client, frozenset()) | frozenset(named)
            self._wipe(shard.rows_of(np.asarray(named, dtype=np.int64)))

    def shut(self, client: int) -> None:
        """Note that a client was erased of whom there is nothing here: it stays erased, whatever comes."""
        if client in self._shards:
            raise DataError(f"{self.label(client)} is still here: erase it")
        self._erased.add(client)

    def without(self, clients: Iterable[int]) -> FederatedData:
        """A copy that these clients have no part in: neither samples, nor held-out rows, nor names."""
        twin, gone = self.fork(), set(clients)
        for client in sorted(gone):
            twin.erase(client)
        twin._erased -= gone
        twin.called({number: name for number, name in self.names.items() if number not in gone})
        return twin

    def called(self, names: Mapping[int, str]) -> None:
        """Let clients have these names, and no others."""
        self.names: dict[int, str] = checked_names(names)
        self._numbers = {called: client for client, called in self.names.items()}

    def check_erasable(
        self, client: Id | str, ids: Iterable[Id] | None = None
    ) -> tuple[int, tuple[int, ...] | None]:
        """Raise `RequestError` unless `erase(client, ids)` would work; what is named, as whole numbers."""
        client = self.number(client)
        who = self.label(client)
        if client in self._erased:
            raise RequestError(f"{who} was already erased")
        if client not in self._shards:
            raise RequestError(f"cannot erase {who}: this federation has {self.describe_clients()}")
        if ids is None:
            return client, None
        named = sample_ids(ids, who)
        unknown = np.setdiff1d(np.asarray(named, dtype=np.int64), self._shards[client].ids)
        if len(unknown):
            raise RequestError(
                f"{who} holds no sample {unknown[0]} "
                f"({len(unknown)} of {len(named)} unknown or already erased)",
                "samples that the client does not hold",
            )
        return client, named

    @property
    def own(self) -> bool:
        """Whether the tensors are nobody else's: so from the first erasure on, until there is a fork."""
        return self._own

    def unheld(self) -> NDArray[np.bool_]:
        """Which rows of `train` no client holds; in tensors that are its own, these have been overwritten."""
        free = np.ones(len(self.train), dtype=np.bool_)
        for shard in self._shards.values():
            free[shard.rows] = False
        return free

    def drop_held_out(self, client: int) -> None:
        """Take away the validation and test rows that belong to a client; the others keep their order."""
        if self.validation is not None and client in self.validation_clients:
            assert self.validation_owner is not None
            keep = self.validation_owner != client
            self.validation = self.validation.subset(np.flatnonzero(keep))
            self.validation_owner = self.validation_owner[keep]
        if self.test_owner is not None and (self.test_owner == client).any():
            keep = self.test_owner != client
            self.test = self.test.subset(np.flatnonzero(keep))
            self.test_owner = self.test_owner[keep]
            place = np.cumsum(keep) - 1
            self.test_rows = {other: place[rows[keep[rows]]] for other, rows in self.test_rows.items()}

    def renumbered(self, numbers: Mapping[int, int], names: Mapping[int, str]) -> FederatedData:
        """A copy in which each client has the number that it is given here, and is called so."""
        if len(set(numbers.values())) != len(numbers) or numbers.keys() != self._shards.keys():
            raise DataError("every client gets one number, and each another")

        def moved(owners: Ints | None) -> Ints | None:
            if owners is None:
                return None
            found = owners.copy()
            for client, number in numbers.items():
                found[owners == client] = number
            return found

        return self.replaced(
            shards={numbers[client]: shard for client, shard in self._shards.items()},
            test_rows={numbers[client]: rows for client, rows in self.test_rows.items()},
            names=names,
            validation_owner=moved(self.validation_owner),
            test_owner=moved(self.test_owner),
        )

    def replaced(self, **parts: Any) -> FederatedData:
        """A copy with `train`, `shards`, `test`... replaced: for tests and what-if runs.

        Held-out rows keep their owners: give new ones (`validation_owner`, `test_owner`) where rows
        move. Those of clients that the new shards do not have are nobody's.
        """
        self._own = False  # the tensors, or parts of them, are shared from here on
        now = {name: getattr(self, name) for name in _PARTS}
        now["shards"] = self._shards
        if "shards" in parts:
            for part in ("validation_owner", "test_owner"):
                if (owner := now[part]) is not None:
                    now[part] = np.where(np.isin(owner, [*parts["shards"]]), owner, NOBODYS)
        if parts.get("validation", self.validation) is None:
            now["validation_owner"] = None
        twin = FederatedData(**{**now, **parts})
        twin._lent = self._lent
        twin._erased = self._erased - twin._shards.keys()
        for client, gone in self._reduced.items():
            if client in twin._shards and (still := gone.difference(twin[client].ids.tolist())):
                twin._reduced[client] = still
        return twin

    def cast(self, dtype: torch.dtype) -> FederatedData:
        """The same with floating-point inputs and targets of another precision."""

        def convert(samples: Samples) -> Samples:
            x, y = _as(samples.x, dtype), _as(samples.y, dtype)
            return samples if x is samples.x and y is samples.y else replace(samples, x=x, y=y)

        validation = None if self.validation is None else convert(self.validation)
        public = None if self.public is None else _as(self.public, dtype)
        parts = {"train": convert(self.train), "test": convert(self.test), "validation": validation}
        try:
            return self.replaced(**parts, public=public)
        except DataError as error:  # what there is was sound: only the range can be to blame
            raise DataError(f"{error} (beyond the range of {dtype}: scale it, or train in float64)") from None

    def _owners(self, owner: Ints | None, samples: Samples | None, part: str) -> Ints | None:
        if owner is None:
            return None
        array = np.asarray(owner, dtype=np.int64)
        if samples is None or array.shape != (len(samples),):
            raise DataError(
                f"{part}_owner must be a whole number for each of the {len(samples or ())} {part} samples; "
                f"found shape {array.shape}"
            )
        strangers = np.setdiff1d(array, [NOBODYS, *self._shards])
        if len(strangers):
            raise DataError(
                f"a {part} sample belongs to {self.label(int(strangers[0]))}, but this federation has "
                f"{self.describe_clients()}; -1 stands for nobody"
            )
        return array

    def _check(self) -> None:
        """Raise `DataError` for the first thing that nobody could train or be measured with."""
        self._check_shards()
        for part, samples in (("validation", self.validation), ("test", self.test)):
            if samples is not None and (unlike := self.train.unlike(samples)):
                raise DataError(f"the {part} samples are of another kind than those to train on: {unlike}")
            if samples is not None and len(samples.flawed):
                row = int(samples.flawed[0])
                raise DataError(f"{part} sample {row}: {samples.flaw(row)}")
        public, x = self.public, self.train.x
        if public is not None:
            if public.shape[1:] != x.shape[1:] or public.is_floating_point() != x.is_floating_point():
                raise DataError(
                    f"public inputs must be like those to train on, {x.dtype} of shape {tuple(x.shape[1:])}; "
                    f"found {public.dtype} of shape {tuple(public.shape[1:])}"
                )
            if not len(public) or not public.isfinite().all():
                raise DataError("public inputs must be finite numbers, of one sample or more")

    def _check_shards(self) -> None:
        """Look at all shards at once, for there may be a million."""
        shards, train = [*self._shards.values()], self.train
        if not shards:
            return
        rows, ids = (np.concatenate([getattr(shard, name) for shard in shards]) for name in ("rows", "ids"))
        ends = np.cumsum([len(shard) for shard in shards])
        falls = np.diff(ids, prepend=-1) <= 0
        falls[ends[ends < len(ids)]] &= ids[ends[ends < len(ids)]] < 0  # the first of a shard need not rise
        for wrong, why in (
            ((rows < 0) | (rows >= len(train)), f"holds a row outside the {len(train)} training samples"),
            (falls, "ids must be 0 or more, and ascend"),
            (np.isin(rows, train.flawed) if len(train.flawed) else falls, ""),
        ):
            if wrong.any():
                place = int(wrong.argmax())
                client = [*self._shards][int(np.searchsorted(ends, place, side="right"))]
                raise DataError(
                    f"{self.label(client)}, sample {ids[place]}: {why or train.flaw(int(rows[place]))}"
                )

    def _wipe(self, rows: Ints) -> None:
        """Overwrite these rows, unless somebody still holds them, in tensors that are nobody else's.

        The first time, when the tensors are copied, so is every row that no client holds: a client's
        held-out rows may lie among them, too.
        """
        if self._lent or not len(self.train):
            return
        free = self.unheld()
        gone = np.flatnonzero(free) if not self._own else rows[free[rows]]
        if not len(gone):
            return
        if not self._own:
            self.train = _copy_of(self.train)
            self.test = _detached(self.test)
            self.validation = None if self.validation is None else _detached(self.validation)
            if self.public is not None and not _whole(self.public):
                self.public = _copied(self.public)
            self._own = True
        for values in (self.train.x, self.train.y):
            values.index_fill_(0, torch.from_numpy(gone).to(values.device), 0)


def _copy_of(samples: Samples) -> Samples:
    return replace(samples, x=_copied(samples.x), y=_copied(samples.y))


def _copied(values: Tensor) -> Tensor:
    return stored([values], values.dtype) if is_mapped(values) else values.detach().clone()


def _as(values: Tensor, dtype: torch.dtype) -> Tensor:
    if not values.is_floating_point() or values.dtype == dtype:
        return values
    return stored([values], dtype) if is_mapped(values) else values.to(dtype)


def _detached(samples: Samples) -> Samples:
    """The same samples, cut out of any larger tensors that they are views of."""
    return samples if all(map(_whole, (samples.x, samples.y))) else _copy_of(samples)


def _whole(values: Tensor) -> bool:
    """Whether there is no more behind it than what it shows; a file may hold anything."""
    size = values.numel() * values.element_size()
    return values.untyped_storage().nbytes() == size and not is_mapped(values)


def is_name(called: object) -> bool:
    """Whether a client can be called so: a text in one line, without spaces around it."""
    return isinstance(called, str) and called.isprintable() and called.strip() == called != ""


def checked_names(names: Mapping[int, str]) -> dict[int, str]:
    """Names by number: texts in one line, written in one way, and no two alike."""
    found: dict[int, str] = {}
    for client, called in names.items():
        if not is_name(called):
            raise DataError(
                f"the name of client {client} must be a text in one line that neither begins nor ends with "
                f"a space, not {called!r}"
            )
        found[client_id(client)] = one_way(called)
    if twice := [called for called, count in Counter(found.values()).items() if count > 1]:
        raise DataError(f"two clients are called {twice[0]!r}: names tell clients apart")
    return dict(sorted(found.items()))
