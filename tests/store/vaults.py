"""What tests look up in a vault that no run has to."""

import base64
import hashlib

import numpy as np

from unknot.core.errors import StoreError
from unknot.store import Vault


def digests(vault: Vault) -> set[str]:
    """All that lies there."""
    return set(vault._places)


def packs(vault: Vault) -> dict[str, int]:
    """The names of the packs, with their sizes in bytes."""
    return dict(vault._sizes)


def owners(vault: Vault, digest: str) -> set[int | None]:
    """Under whose keys a tensor lies; None: in the open."""
    return {place.owner for place in vault._places.get(digest, ())}


def clients(vault: Vault, digest: str) -> tuple[int, ...]:
    """Whose data shaped a tensor, in all its copies."""
    return tuple(sorted({c for place in vault._places.get(digest, ()) for c in clients_of(place.clients)}))


def clients_of(text: str) -> tuple[int, ...]:
    """The clients that `clients_text` wrote."""
    if text.startswith("="):
        packed = np.frombuffer(base64.b64decode(text[1:], validate=True), dtype=np.uint8)
        return tuple(np.flatnonzero(np.unpackbits(packed, bitorder="little")).tolist())
    found: list[int] = []
    for piece in filter(None, text.split(",")):
        start, _, end = piece.partition("-")
        found.extend(range(int(start), int(end or start) + 1))
    return tuple(found)


def verify(vault: Vault) -> None:
    """Each pack must be what its name says, to the byte."""
    for why in vault.damaged.values():
        raise StoreError(why)
    for name in packs(vault):
        if hashlib.sha256((vault.folder / name).read_bytes()).hexdigest() != name.partition(".")[0]:
            raise StoreError(f"{name} has other bytes than its name says")
