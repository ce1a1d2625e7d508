"""A checkpoint on the disk: what a federation remembers, whose data it read, which tensors it names."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from unknot.core.data import FederatedData
from unknot.core.digests import raw
from unknot.core.errors import StoreError
from unknot.core.written import Reader, Unreadable, Writer, plain_data
from unknot.store.files import inside, read_whole, write_whole
from unknot.store.rows import is_count

STATE = "state"
MOST = 1 << 34  # bytes
Marks = dict[int, bytes]
"""A digest of what each client holds, by number."""


@plain_data
@dataclass(frozen=True)
class Named:
    """The log's entry of a checkpoint."""

    step: int
    state: str
    """The digest of its file."""
    events: int
    """How many events of the run came before it."""
    stopped: str
    """Why the run is over; nothing while it goes on."""
    letters: int
    """The number of the last request from outside that had been taken up."""
    rounds: int
    served: int
    time: float
    """Simulated seconds."""

    def __post_init__(self) -> None:
        counts = (self.step, self.events, self.letters, self.rounds, self.served)
        told = (type(self.state), type(self.stopped), type(self.time))
        if told != (str, str, float) or not all(map(is_count, counts)):
            raise StoreError("an entry of the log is no checkpoint of ours: it was changed")


@dataclass(frozen=True)
class Checkpoint:
    """The content of a state file."""

    content: bytes
    """The written form of the federation."""
    tensors: Mapping[str, int | None]
    """The digests that it names, with the owner of each that is one client's alone."""
    marks: Marks
    head: tuple[int, bytes]
    """The number and the hash of the log's last entry before it: a log that lost its end is found by it."""

    def write(self, folder: Path) -> str:
        """Put it into its place, durably; its digest."""
        out = Writer()
        out.put([self.content, dict(self.tensors), self.marks, self.head])
        raw = out.written().content
        digest = hashlib.sha256(raw).hexdigest()
        write_whole(inside(folder / STATE, f"{digest}.state"), raw)
        return digest

    @staticmethod
    def read(folder: Path, digest: str) -> Checkpoint:
        path = inside(folder / STATE, f"{digest}.state")
        raw = read_whole(path, MOST)
        if hashlib.sha256(raw).hexdigest() != digest:
            raise StoreError(f"{path} is damaged: its bytes are not those that were written")
        try:
            content, tensors, marks, head = Reader(raw, _no_tensors).read()
            if not isinstance(content, bytes) or not (_digests(tensors) and _marks(marks) and _head(head)):
                raise Unreadable("other parts")
        except (Unreadable, ValueError, TypeError) as error:
            raise StoreError(f"{path} is not a checkpoint of this version of unknot: {error}") from None
        return Checkpoint(content, tensors, marks, head)


def marks_of(data: FederatedData) -> Marks:
    """A digest of what each client holds: its samples' numbers, targets and ids."""
    return {client: mark_of(data, client) for client in data.clients}


def mark_of(data: FederatedData, client: int) -> bytes:
    """That of one client."""
    shard = data[client]
    mark = hashlib.sha256(shard.ids.tobytes())  # which processors have instructions for
    for part in data.train.take(torch.from_numpy(shard.rows)):
        mark.update(raw(part))
    return mark.digest()


def check_marks(data: FederatedData, marks: Mapping[int, bytes], folder: Path) -> None:
    """Raise `StoreError` if somebody who is still there holds other data than when the run was kept."""
    now = marks_of(data)
    other = sorted(client for client in marks if client in now and now[client] != marks[client])
    lost = sorted(set(marks) - set(now))
    if other or lost:
        who = data.label((other or lost)[0])
        what = "is not what it was" if other else "is not there any more"
        raise StoreError(
            f"{folder}: the data of {who} {what}, and the run cannot go on without a bit lost: give it the "
            "data that it was begun with; to take data away, ask for it: unknot forget"
        )


def _digests(found: object) -> bool:
    return isinstance(found, dict) and all(
        type(digest) is str and (owner is None or is_count(owner)) for digest, owner in found.items()
    )


def _head(found: object) -> bool:
    return isinstance(found, tuple) and len(found) == 2 and is_count(found[0]) and type(found[1]) is bytes


def _marks(found: object) -> bool:
    return isinstance(found, dict) and all(
        is_count(client) and type(mark) is bytes for client, mark in found.items()
    )


def _no_tensors(digest: str) -> Tensor:
    raise Unreadable("a checkpoint's head has no tensors")
