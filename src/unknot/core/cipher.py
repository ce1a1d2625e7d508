"""A cipher for what lies on a disk no longer than its process does: its keys are in memory only."""

from __future__ import annotations

import hashlib
import os
from functools import cache

import numpy as np

KEY = 32
_PIECE = 2**24  # bytes at a time
_BLOCK = 16


def new_key() -> bytearray:
    """A key for one content, and no other after it: in a room of its own, to be wiped."""
    return bytearray(os.urandom(KEY))


def apply(key: bytearray, content: memoryview) -> memoryview:
    """The content enciphered, or what was enciphered deciphered: the two are one."""
    room = bytearray(len(content) + _BLOCK)
    way = _with_aes if _is_there() else _with_shake
    way(key, content, room)
    return memoryview(room)[: len(content)]


def _with_aes(key: bytearray, content: memoryview, room: bytearray) -> None:
    """AES-256 in counter mode. The counter begins at zero: no key has two contents."""
    from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

    stream = Cipher(algorithms.AES256(key), modes.CTR(bytes(_BLOCK))).encryptor()
    into = memoryview(room)
    for start in range(0, len(content), _PIECE):
        stream.update_into(content[start : start + _PIECE], into[start:])


def _with_shake(key: bytearray, content: memoryview, room: bytearray) -> None:
    """SHAKE-256 of the key and of the piece's number as a stream of bits: without a package, and slower."""
    into = np.frombuffer(room, dtype=np.uint8)
    for number, start in enumerate(range(0, len(content), _PIECE)):
        piece = np.frombuffer(content[start : start + _PIECE], dtype=np.uint8)
        stream = hashlib.shake_256(key + number.to_bytes(8, "little")).digest(len(piece))
        np.bitwise_xor(piece, np.frombuffer(stream, dtype=np.uint8), out=into[start : start + len(piece)])


@cache
def _is_there() -> bool:
    """Whether the package is there that makes it ten times faster (`unknot[store]`)."""
    try:
        import cryptography.hazmat.primitives.ciphers  # noqa: F401
    except ImportError:
        return False
    return True
