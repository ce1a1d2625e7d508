"""A checkpoint on the disk: what a federation remembers, whose data it read, which tensors it names."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from unknot.core.data import NOBODYS, FederatedData
from unknot.core.digests import raw
from unknot.core.errors import StoreError
from unknot.core.form import Unreadable, pack, plain_data, read
from unknot.core.ids import MOST_CLIENTS
from unknot.core.lineage import BLOCK, WITHIN, Lineage
from unknot.store.files import inside, read_whole, write_whole
from unknot.store.rows import is_count

STATE = "state"
KEPT = 2
"""So many checkpoints are in a folder: the last ones."""
SERVER = ("validation", "test", "public")
MOST = 1 << 34  # bytes
Marks = dict[int, bytes]
"""A digest of what each client holds, by number: for the run alone, sealed under the client's key."""
Server = dict[str, bytes]
"""A digest of each part of the data that is the server's: what models are measured on, what is public."""


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


@plain_data
@dataclass(frozen=True)
class Serves:
    """What the federation would have served at a checkpoint: for who looks at the folder."""

    model: str | None
    """Its digest."""
    lineage: Lineage | None
    """Whose data shaped it: in words for who looks alone, for there may be a million of them."""
    unknown: str = ""
    """Why these are not known, in words that name nobody."""

    def __post_init__(self) -> None:
        known = type(self.model) is str and isinstance(self.lineage, Lineage) and _is_small(self.lineage)
        nothing = self.model is None and self.lineage is None
        if type(self.unknown) is not str or not (known or nothing):
            raise StoreError("a checkpoint does not say what would be served: it was changed")


@dataclass(frozen=True)
class Checkpoint:
    """The content of a state file."""

    content: bytes
    """The written form of the federation."""
    tensors: Mapping[str, int | None]
    """The digests that it names, with the owner of each that is one client's alone."""
    ids: tuple[int, ...]
    """Under which numbers the ids of samples lie that it knows, sealed: they are not in the file."""
    server: Server
    head: tuple[int, bytes]
    """The number and the hash of the log's last entry before it: a log that lost its end is found by it."""
    serves: Serves

    def write(self, folder: Path) -> str:
        """Put it into its place, durably; its digest."""
        raw = pack([self.content, dict(self.tensors), self.ids, self.server, self.head, self.serves])
        digest = hashlib.sha256(raw).hexdigest()
        write_whole(inside(folder / STATE, f"{digest}.state"), raw)
        return digest

    @staticmethod
    def read(folder: Path, digest: str, most: int = MOST) -> Checkpoint:
        """That of this digest, checked; a file of more than `most` bytes is refused before it is read."""
        path = inside(folder / STATE, f"{digest}.state")
        raw = read_whole(path, most)
        if hashlib.sha256(raw).hexdigest() != digest:
            raise StoreError(f"{path} is damaged: its bytes are not those that were written")
        try:
            content, tensors, ids, server, head, serves = read(raw)
            known = _digests(tensors) and _numbers(ids) and _server(server) and _head(head)
            if not isinstance(content, bytes) or not isinstance(serves, Serves) or not known:
                raise Unreadable("other parts")
        except (Unreadable, ValueError, TypeError) as error:
            raise StoreError(f"{path} is not a checkpoint of this version of unknot: {error}") from None
        return Checkpoint(content, tensors, ids, server, head, serves)


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


def server_marks(data: FederatedData) -> Server:
    """A digest of each part of what the server has that has any rows, and of whose those are."""
    found = {}
    held_out = {"validation": (data.validation, data.validation_owner), "test": (data.test, data.test_owner)}
    for part, (samples, owner) in held_out.items():
        if samples is not None and len(samples):
            whose = np.full(len(samples), NOBODYS, dtype=np.int64) if owner is None else owner
            mark = hashlib.sha256(whose.tobytes())
            for tensor in (samples.x, samples.y):
                mark.update(raw(tensor))
            found[part] = mark.digest()
    if data.public is not None:
        found["public"] = hashlib.sha256(raw(data.public)).digest()
    return found


def check_marks(
    data: FederatedData,
    marks: Mapping[int, bytes | None],
    kept: Server,
    folder: Path,
    asked: Collection[int] = (),
    partly: Collection[int] = (),
) -> None:
    """Raise `StoreError` if the server, or somebody who is still there, has other data than was kept.

    A mark that cannot be read any more says nothing: its client is erased before anything else. What to do
    is another thing for whose erasure was `asked` for and waits, and where it was `partly` erased.
    """
    now, server = marks_of(data), server_marks(data)
    other = sorted(c for c, mark in marks.items() if mark is not None and now.get(c, mark) != mark)
    lost = sorted(set(marks) - set(now))
    if unknown := sorted(set(now) - set(marks)):
        raise StoreError(
            f"{folder}: {data.label(unknown[0])} was not there when the run was begun, or its database is "
            "damaged: give the run the data that it was begun with, or take the database from a backup"
        )
    changed = [part for part in SERVER if kept.get(part) != server.get(part)]
    if other or lost or changed:
        whose = min(other or lost, key=lambda client: client in asked, default=None)
        who = f"the {changed[0]} data" if whose is None else f"the data of {data.label(whose)}"
        gone = not other and (lost or changed[0] not in server)
        what = "is not there any more" if gone else "is not what it was"
        raise StoreError(
            f"{folder}: {who} {what}, and the run cannot go on without a bit lost: "
            + _what_to_do(whose in asked, whose in partly and not gone)
        )


def _what_to_do(asked: bool, partly: bool) -> str:
    if asked:
        return (
            "its erasure was asked for, and waits: it is served with the data in place. Put it back as it "
            "was, and go on with the run; once that is served, it may go (of samples: their rows may be "
            "overwritten, not removed)"
        )
    if partly:
        return (
            "give it the data that it was begun with. Its rows stay where they are: those of erased samples "
            "may be overwritten, not removed"
        )
    return "give it the data that it was begun with; to take data away, ask for it: unknot forget"


def _is_small(lineage: Lineage) -> bool:
    """Whether it names no more clients, and no others, than a federation may have."""
    return len(lineage) <= MOST_CLIENTS and all(
        is_count(revision)
        and is_count(block)
        and block <= MOST_CLIENTS >> BLOCK
        and mask.bit_length() <= WITHIN + 1
        for (revision, block), mask in lineage.blocks.items()
    )


def _digests(found: object) -> bool:
    return isinstance(found, dict) and all(
        type(digest) is str and (owner is None or is_count(owner)) for digest, owner in found.items()
    )


def _head(found: object) -> bool:
    return isinstance(found, tuple) and len(found) == 2 and is_count(found[0]) and type(found[1]) is bytes


def _numbers(found: object) -> bool:
    return isinstance(found, tuple) and all(map(is_count, found))


def _server(found: object) -> bool:
    return isinstance(found, dict) and all(
        part in SERVER and type(mark) is bytes for part, mark in found.items()
    )
