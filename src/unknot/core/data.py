"""Samples, who holds which, and the door that closes when some are erased."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from unknot.core.errors import ConfigError, ErasedDataError, RequestError


@dataclass(frozen=True, eq=False)
class Samples:
    """Inputs and targets, one a row. Targets are class numbers: ``[n]``, or ``[n, t]`` for text."""

    x: Tensor
    y: Tensor
    classes: int

    def __post_init__(self) -> None:
        if len(self.x) != len(self.y):
            raise ConfigError(f"{len(self.x)} inputs but {len(self.y)} targets")

    def __len__(self) -> int:
        return len(self.x)

    def take(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        """Inputs and targets of some rows: the one way in which training reads data."""
        return self.x.index_select(0, rows), self.y.index_select(0, rows)

    def subset(self, rows: NDArray[np.int64]) -> Samples:
        index = torch.from_numpy(np.asarray(rows, dtype=np.int64))
        return Samples(self.x[index], self.y[index], self.classes)


@dataclass(frozen=True, eq=False)
class Shard:
    """The training samples of one client.

    `rows` point into the shared `Samples`. `ids` name the samples within the client (0, 1, 2...
    as first dealt out, ascending): they stay when others are erased, and draws are keyed by them.
    """

    rows: NDArray[np.int64]
    ids: NDArray[np.int64]

    @staticmethod
    def of(rows: Sequence[int] | NDArray[np.int64]) -> Shard:
        array = np.asarray(rows, dtype=np.int64).reshape(-1)
        return Shard(array, np.arange(len(array), dtype=np.int64))

    def __len__(self) -> int:
        return len(self.rows)

    def rows_of(self, ids: NDArray[np.int64]) -> NDArray[np.int64]:
        """The rows of the samples with these ids; raises for one that is not (or no longer) here."""
        places = np.searchsorted(self.ids, ids)
        if len(ids) and (places.max() >= len(self.ids) or (self.ids[places] != ids).any()):
            raise ErasedDataError(
                f"samples {sorted(set(ids.tolist()) - set(self.ids.tolist()))} are not here"
            )
        return self.rows[places]

    def without(self, ids: Sequence[int]) -> Shard:
        keep = ~np.isin(self.ids, np.asarray(ids, dtype=np.int64))
        return Shard(self.rows[keep], self.ids[keep])


class FederatedData:
    """The data of a federation: a shard a client, and the server's validation and test samples.

    Erasing is final: the shard (or the samples in it) is gone from here, and asking for it raises.
    `fork()` gives a run its own copy of the bookkeeping, so that an erasure in one run does not
    reach into another; the tensors are shared.
    """

    def __init__(
        self,
        train: Samples,
        shards: Mapping[int, Shard],
        test: Samples,
        validation: Samples | None = None,
        test_rows: Mapping[int, NDArray[np.int64]] | None = None,
        name: str = "data",
    ) -> None:
        for client, shard in shards.items():
            if client < 0:
                raise ConfigError(f"client ids are 0, 1, 2...; found {client}")
            if len(shard) and (shard.rows.min() < 0 or shard.rows.max() >= len(train)):
                raise ConfigError(f"client {client} holds a row outside the {len(train)} training samples")
        self.name = name
        self.train = train
        self.test = test
        self.validation = validation
        self.test_rows = dict(test_rows or {})
        self._shards = dict(sorted(shards.items()))
        self._erased: set[int] = set()

    def fork(self) -> FederatedData:
        twin = FederatedData(self.train, self._shards, self.test, self.validation, self.test_rows, self.name)
        twin._erased = set(self._erased)
        return twin

    def __getitem__(self, client: int) -> Shard:
        if client in self._erased:
            raise ErasedDataError(f"client {client}'s data has been erased; nothing may read it")
        try:
            return self._shards[client]
        except KeyError:
            raise RequestError(
                f"there is no client {client}; this federation has {self.describe_clients()}"
            ) from None

    def pooled(self, clients: Sequence[int]) -> Shard:
        """Several clients' samples as one shard, for central training; ids are (client, id) in one number."""
        shards = {client: self[client] for client in sorted(clients)}
        rows = [shard.rows for shard in shards.values()]
        ids = [(client << 32) + shard.ids for client, shard in shards.items()]
        return Shard(np.concatenate(rows), np.concatenate(ids))

    def __contains__(self, client: int) -> bool:
        return client in self._shards

    def __iter__(self) -> Iterator[int]:
        return iter(self._shards)

    def __len__(self) -> int:
        return len(self._shards)

    @property
    def clients(self) -> tuple[int, ...]:
        """The clients whose data is here, in the order of their ids."""
        return tuple(self._shards)

    @property
    def erased(self) -> frozenset[int]:
        return frozenset(self._erased)

    def describe_clients(self) -> str:
        ids = self.clients
        if not ids:
            return "no clients"
        if ids == tuple(range(ids[0], ids[-1] + 1)):
            return f"clients {ids[0]} to {ids[-1]}"
        return "clients " + ", ".join(map(str, ids[:10])) + (", …" if len(ids) > 10 else "")

    def erase(self, client: int, ids: Sequence[int] | None = None) -> None:
        """Put a client's data, or the samples of it with these ids, out of reach for good."""
        self.check_erasable(client, ids)
        if ids is None:
            del self._shards[client]
            self.test_rows.pop(client, None)
            self._erased.add(client)
        else:
            self._shards[client] = self._shards[client].without(ids)

    def check_erasable(self, client: int, ids: Sequence[int] | None = None) -> None:
        """Raise `RequestError` unless `erase(client, ids)` would work."""
        if client in self._erased:
            raise RequestError(f"client {client} was already erased")
        if client not in self._shards:
            raise RequestError(f"cannot erase client {client}: this federation has {self.describe_clients()}")
        if ids is not None:
            if not len(ids):
                raise RequestError(f"no samples of client {client} are named")
            if len(set(ids)) != len(ids):
                raise RequestError(f"a sample of client {client} is named twice")
            unknown = np.setdiff1d(np.asarray(ids, dtype=np.int64), self._shards[client].ids)
            if len(unknown):
                raise RequestError(
                    f"client {client} holds no sample {unknown[0]} "
                    f"({len(unknown)} of {len(ids)} unknown or already erased)"
                )

    def replaced(self, **parts: object) -> FederatedData:
        """A copy with `train`, `shards`, `test`... replaced: for tests and what-if runs."""
        now: dict[str, object] = {
            "train": self.train,
            "shards": self._shards,
            "test": self.test,
            "validation": self.validation,
            "test_rows": self.test_rows,
            "name": self.name,
        }
        return FederatedData(**{**now, **parts})  # type: ignore[arg-type]

    def cast(self, dtype: torch.dtype) -> FederatedData:
        """The same with floating-point inputs of another precision."""

        def convert(samples: Samples) -> Samples:
            if not samples.x.is_floating_point():
                return samples
            return replace(samples, x=samples.x.to(dtype))

        validation = None if self.validation is None else convert(self.validation)
        return self.replaced(train=convert(self.train), test=convert(self.test), validation=validation)
