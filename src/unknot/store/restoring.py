"""A run goes on: a federation that was built anew is made what its last checkpoint that is whole says."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from unknot.core.errors import ConfigError, StoreError
from unknot.core.form import NotPlain
from unknot.federation.describe import describe
from unknot.federation.snapshot import close, load
from unknot.store import sealed
from unknot.store.checkpoint import KEPT, STATE, Checkpoint, Named, check_marks
from unknot.store.compare import check_model, check_setup, differences, lost_end, lost_requests
from unknot.store.database import Database
from unknot.store.entries import events_in, read_event, read_named, until_in
from unknot.store.files import inside
from unknot.store.folder import RunFolder, nothing_kept
from unknot.store.inbox import told_of
from unknot.store.noted import DATABASE, removed_in
from unknot.store.rows import TAKEN, WAITING
from unknot.store.sealed import IDS, MARKS

if TYPE_CHECKING:
    from torch import Tensor

    from unknot.federation import Federation


@dataclass(frozen=True)
class Private:
    """What is one client's alone in a checkpoint, as far as there are keys for it."""

    numbers: dict[tuple[int, bytes], int] = field(default_factory=dict)
    """By client and content, the numbers under which it lies."""
    highest: int = 0
    """Of all numbers that were ever given."""


@dataclass(frozen=True)
class Restored:
    """Where a federation stands that was made what a run's folder says."""

    named: Named
    """The checkpoint that it stands at."""
    number: int
    """That of its entry in the log."""
    newest: Named
    """The last one that the log names."""
    until: int
    """The step that the run had come to: those before it are taken again as they were."""
    kept: Checkpoint
    private: Private
    said: list[str]
    """What could not be read, is lost, or is other than it was, in words."""


def restore(place: RunFolder, fed: Federation) -> Restored:
    """Make a federation what the run was at its last checkpoint; raise where it was built otherwise."""
    erased = place.db.last("scrubbing")  # what was kept before is gone, and must not come back
    after = 0 if erased is None else erased.number
    entries = list(place.db.entries(after, kind="checkpoint"))
    checkpoints = [read_named(entry.body) for entry in entries]
    if not checkpoints:
        raise nothing_kept(place.path)
    said = [*lost_end(place.db, place.path, checkpoints), *lost_requests(place.db)]
    said += differences(fed, place.db, place.path)
    built = describe(fed.method, fed.state, fed.metrics, fed.called)
    named, found, tensors, troubles = _last_whole(place, checkpoints, said)
    number = next(e.number for e, one in zip(entries[::-1], checkpoints[::-1], strict=True) if one is named)
    bodies = [entry.body for entry in events_in(place.db, number)]
    setups: list[Mapping[str, Any]] = []

    def check_first(setup: Mapping[str, Any]) -> None:
        check_setup(fed, built, place.db, place.path)(setup)
        setups.append(setup)

    def check_rest() -> None:
        marks = dict(sealed.opened(place.db, place.keyring, MARKS).values())
        check_marks(fed.data, marks, found.server, place.path, *_asked_and_partly(place.db))
        check_model(setups[0], built, place.path)

    try:
        private = _private(place, found)
        told = load(fed, found.content, tensors.__getitem__, dict(iter(private.numbers)))
        close(fed, told)
        check_first(told.begun.setup)
        events = tuple(event for body in bodies if (event := read_event(body)) is not None)
        fed.restore(replace(told, events=events))
        check_rest()
    except (ConfigError, StoreError, NotPlain):
        raise
    except Exception as error:  # Unreadable, or whatever comes of what somebody made up
        if setups:  # what is of other data, or another model, does not fit: that is told better
            check_rest()
        raise StoreError(f"{place.path}: {error}; was the federation set up as it was?") from None
    if troubles:
        troubles.append(
            f"it goes on from the checkpoint before that, of round {named.rounds}: what came since is "
            "computed again, as it was"
        )
    until = until_in(place.db, after)
    return Restored(named, number, checkpoints[-1], until, found, private, [*troubles, *said])


def _last_whole(
    place: RunFolder, checkpoints: Sequence[Named], said: Sequence[str]
) -> tuple[Named, Checkpoint, dict[str, Tensor], list[str]]:
    """The last checkpoint that can be read with all its tensors, and why later ones cannot be."""
    troubles: list[str] = []
    for named in reversed(checkpoints):
        try:
            found = Checkpoint.read(place.path, named.state)
            return named, found, {digest: place.vault.get(digest) for digest in found.tensors}, troubles
        except StoreError as error:
            troubles.append(str(error))
    state, last = place.path / STATE, checkpoints[: -KEPT - 1 : -1]  # of all before, the log has names alone
    gone = [named for named in last if not os.path.lexists(inside(state, f"{named.state}.state"))]
    told = [why for named, why in zip(last, troubles, strict=False) if named not in gone]
    if gone:
        names = " and ".join(f"{named.state[:8]}….state" for named in gone)
        told.append(f"{names} {'are' if len(gone) > 1 else 'is'} not in {state}: take state/ from a backup")
    raise StoreError(f"no checkpoint of {place.path} can be read: {'; '.join([*said[:1], *told])}")


def _asked_and_partly(db: Database) -> tuple[set[int], set[int]]:
    """Whose erasure waits, all of it or some samples; and of whom some samples were erased."""
    waiting = [one for one in db.asked() if one.kind == "erase" and one.state in (WAITING, TAKEN)]
    asked = {client for one in waiting for client, _ in told_of(one)[0]}
    return asked, {client for entry in db.entries(kind="erased") for client in removed_in(entry)["parts"]}


def _private(place: RunFolder, kept: Checkpoint) -> Private:
    """The parts of a checkpoint that are one client's alone."""
    parts = sealed.opened(place.db, place.keyring, IDS)
    if not parts.keys() >= set(kept.ids):
        raise StoreError(f"{place.path}: ids of samples are missing: take {DATABASE} from a backup")
    found = {(parts[n][0], part): n for n in kept.ids if (part := parts[n][1]) is not None}
    return Private(found, max(parts, default=0))
