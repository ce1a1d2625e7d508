"""Erasure on the disk: what carries an erased client goes, and what stays of it is noise.

All of it can be done twice: a crash in between is taken up again.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from unknot.store.checkpoint import STATE, Checkpoint
from unknot.store.files import remove, sweep
from unknot.store.inbox import told_of
from unknot.store.keyring import Keyring
from unknot.store.rows import Asked

if TYPE_CHECKING:
    from unknot.store.keeper import RunKeeper

_LEFT = ("record.json", "report.html", "model.safetensors", "timeline.png")
RESULTS = (*_LEFT, *(f".part.{name}" for name in _LEFT))
"""What an earlier end of the run left, whole or half: of a model that the erased client had a part in."""
PATIENCE = 2.0
"""Seconds that readers of the database are waited for."""


def scrub(keeper: RunKeeper, clean: Checkpoint, state: str, told: Mapping[str, Any]) -> dict[str, Any]:
    """Remove all but the clean checkpoint, the keys of who left, and what the database has of them."""
    whole, folder = list(told["whole"]), keeper.folder
    states = sweep(folder / STATE, {f"{state}.state"})
    keeper.keyring.destroy(whole)
    removed = keeper.vault.retain(set(clean.tensors))
    results = [name for name in RESULTS if os.path.lexists(folder / name)]
    for name in results:
        remove(folder / name)
    named = [a.number for a in keeper.db.asked() if {client for client, _ in told_of(a)[0]} & set(whole)]
    with keeper.db.transaction():
        keeper.db.blank([n for n in named if n not in told["requests"]])
        keeper.db.drop_clients(whole)
    truncated = keeper.db.truncate(PATIENCE)
    return {
        "whole": whole,
        "parts": list(told["parts"]),
        "requests": list(told["requests"]),
        "checkpoints": len(states),
        "packs": removed.files,
        "bytes": removed.bytes + sum(states.values()),
        "tensors": removed.tensors,
        "results": results,
        "keys": len(whole),
        "truncated": truncated,
    }


def sealed_for(keyring: Keyring, asked: Asked, text: str) -> bytes:
    """A text about a request, for who has the key of the client that it names first."""
    told, _ = told_of(asked)
    if not told or keyring.destroyed(told[0][0]):
        return b""
    return keyring.seal(told[0][0], text.encode(), b"outcome")
