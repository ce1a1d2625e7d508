"""Randomness has names.

A `Key` is a path such as ``seed 0 / "batches" / client 3 / round 7``. Every draw comes from a
key, so a draw depends on its name alone: removing a client, or one of its samples, changes nobody
else's draws. There is no generator whose state one consumer could advance for another.

The bits are defined here (BLAKE2b for names, the SplitMix64 finaliser for per-item draws), not by
a library's generator, so they stay the same across versions and machines.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray

Name = int | str
GOLDEN, M1, M2 = map(np.uint64, (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB))
S30, S27, S31 = map(np.uint64, (30, 27, 31))


@dataclass(frozen=True, slots=True)
class Key:
    """A named source of randomness: 64 bits that a path of names hashes to."""

    bits: int

    @staticmethod
    def root(seed: int) -> Key:
        return Key(_hashed(0, _told("seed") + _told(seed)))

    def child(self, *names: Name) -> Key:
        """The key of `names` below this one; ``k.child(a, b) == k.child(a).child(b)``."""
        bits = self.bits
        for name in names[:-1]:
            bits = _below(bits, name)
        return Key(_hashed(bits, _told(names[-1])) if names else bits)

    @staticmethod
    def below(keys: Iterable[Key], *names: Name) -> list[int]:
        """The bits of ``key.child(*names)`` for each of many keys; none is kept in mind."""
        told, found = [_told(name) for name in names], list[int]()
        for key in keys:
            bits = key.bits
            for name in told:
                bits = _hashed(bits, name)
            found.append(bits)
        return found

    def words(self, ids: ArrayLike) -> NDArray[np.uint64]:
        """64 random bits for each id: a function of (key, id) alone."""
        z = np.array(ids, dtype=np.int64, order="C").view(np.uint64)
        flat = z.reshape(-1)  # in place, for which a number alone must be an array
        flat *= GOLDEN
        flat += np.uint64(self.bits)
        # Twice the SplitMix64 finaliser: neighbouring ids and keys must not correlate.
        for _ in range(2):
            flat ^= flat >> S30
            flat *= M1
            flat ^= flat >> S27
            flat *= M2
            flat ^= flat >> S31
        return z

    def uniform(self, ids: ArrayLike) -> NDArray[np.float64]:
        """A draw from [0, 1) for each id."""
        return (self.words(ids) >> np.uint64(11)).astype(np.float64) * 2.0**-53

    def order(self, ids: ArrayLike) -> NDArray[np.int64]:
        """The positions of `ids` in random order; taking an id out leaves the others' order."""
        return np.argsort(self.words(ids), kind="stable").astype(np.int64)

    def smallest(self, ids: ArrayLike, k: int) -> NDArray[np.int64]:
        """k of the ids, drawn without replacement (the k smallest draws), in id order."""
        pool = np.asarray(ids, dtype=np.int64)
        if k >= len(pool):
            return np.sort(pool)
        return np.sort(pool[np.argpartition(self.words(pool), k)[:k]])

    def generator(self) -> np.random.Generator:
        """A NumPy generator, for one-off draws that no id names (a Dirichlet, say)."""
        return np.random.Generator(np.random.Philox(key=self.bits))

    def signs(self, numel: int) -> torch.Tensor:
        """`numel` independent ±1, as int8 (Rademacher, for Hutchinson's estimate)."""
        words = self.words(np.arange((numel + 63) // 64))
        bits = np.unpackbits(words.astype("<u8").view(np.uint8), count=numel)
        return torch.from_numpy(bits.astype(np.int8) * 2 - 1)

    @contextmanager
    def torch_seed(self) -> Iterator[None]:
        """Within: PyTorch's global generator is seeded by this key; after: as it was before."""
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(self.bits & (2**63 - 1))
            yield


@lru_cache(1024, typed=True)
def _below(bits: int, name: Name) -> int:
    """Kept for a while: a cohort's keys have all but the last name in common."""
    return _hashed(bits, _told(name))


def _hashed(bits: int, told: bytes) -> int:
    return int.from_bytes(
        hashlib.blake2b(bits.to_bytes(8, "little") + told, digest_size=8).digest(), "little"
    )


def _told(name: Name) -> bytes:
    # Type-tagged and length-prefixed: 1 and "1", ("ab", "c") and ("a", "bc") are different names.
    if isinstance(name, str):
        text = name.encode()
        return b"s" + len(text).to_bytes(4, "little") + text
    text = b"%d" % name
    return b"i" + len(text).to_bytes(4, "little") + text
