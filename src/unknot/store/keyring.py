"""One key a client: what holds one client's contribution alone is sealed under it, and noise once it is gone.

A file system, a flash drive or a backup may keep what was removed. Once the key is destroyed, what is sealed
under it is noise wherever it lies; and the keys are one file that is easy to keep apart.
"""

from __future__ import annotations

import hashlib
import hmac
import logging
import os
import struct
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from unknot.core.errors import StoreError, install
from unknot.store import files
from unknot.store.files import point, told, write_whole
from unknot.store.lock import Holder, Lock
from unknot.store.rows import HIGHEST

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

LOCK = ".lock-"
"""How the file beside the keys begins by which one run at a time has them."""
_MAGIC = b"unknot keys 2\n\0\0"
_HEAD = struct.Struct("<16s16sQ")  # the above, the file's mark, how often it was written
_MARK = 16
_ROW = struct.Struct("<QB32s")  # a client's number, which key it is, the key
_DESTROYED, _HELD, _NEXT = range(3)
_CHECK = 32
_MOST = 1 << 30  # bytes: the keys of 26 million clients
_NONCE = 12
OVERHEAD = _NONCE + 16
"""Bytes that sealing adds: a nonce and a tag."""
_GONE = bytes(32)


class KeyGone(StoreError):
    """A client's key was destroyed, or never was: what is sealed under it cannot be read."""


class Keyring:
    """The keys in the file `path`, which may lie anywhere; a file that is not there holds none yet.

    One process at a time may change it. A client whose key was destroyed is remembered, so that it gets no
    new one by accident: `make` alone gives it one.

    The file has a random `mark`, made with it, by which a run knows its own from another's. It is no secret.
    And it says how often it was `written`, by which an older copy is known.
    """

    def __init__(self, path: str | Path) -> None:
        with told("read", Path(path)):
            self.path = place_of(path)
            there = os.path.lexists(self.path)
        self.mark, self.written = os.urandom(_MARK), 0
        self.said: list[str] = []
        """What whoever runs the run must know: that keys which were destroyed lie elsewhere."""
        self.guard: Callable[[], None] | None = None
        """Raises where what lies there is not this process's to write any more."""
        self._check = self._tried = b""  # the last bytes of the file as it was read, as it was to be written
        self._keys: dict[int, bytes] = {}
        self._next: dict[int, bytes] = {}
        self._destroyed: set[int] = set()
        if there:
            self._read()

    def holds(self, client: int) -> bool:
        """Whether there is a key of that client."""
        return client in self._keys

    def destroyed(self, client: int) -> bool:
        """Whether that client's key was destroyed, and none made since."""
        return client in self._destroyed

    @property
    def gone(self) -> frozenset[int]:
        """Whose keys were destroyed, and none made since."""
        return frozenset(self._destroyed)

    def code(self) -> hmac.HMAC | None:
        """Makes codes for which all keys are needed: once one is destroyed or another, nobody can make them.

        So what they are of cannot be guessed by whom has the codes. None where there are no keys.
        """
        if not self._keys:
            return None
        every = b"".join(self._keys[client] for client in sorted(self._keys))
        return hmac.new(hashlib.sha256(every).digest(), digestmod="sha256")

    def make(self, clients: Iterable[int]) -> None:
        """A key for each of `clients` that has none, also where one was destroyed; all in one writing."""
        wanted = {_number(client) for client in clients}
        if wanted <= self._keys.keys():
            return
        self._compare()
        fresh = sorted(wanted - self._keys.keys())
        if not fresh:
            return
        drawn = os.urandom(32 * len(fresh))
        made = {client: drawn[32 * i : 32 * i + 32] for i, client in enumerate(fresh)}
        self._replace(self._keys | made, self._next, self._destroyed.difference(fresh))

    def renew(self, clients: Iterable[int]) -> None:
        """Draw a second key for each of `clients` that has one; from now on it is sealed under that.

        What was sealed before can be read until `drop_old`: so that it is sealed anew, a crash in between.
        """
        wanted = {_number(client) for client in clients}
        if not wanted & (self._keys.keys() - self._next.keys()):
            return
        self._compare()
        fresh = sorted(wanted & (self._keys.keys() - self._next.keys()))
        if fresh:
            drawn = {client: os.urandom(32) for client in fresh}
            self._replace(self._keys, self._next | drawn, self._destroyed)

    def drop_old(self, clients: Iterable[int]) -> None:
        """Destroy the first key of each of `clients` that has a second one."""
        self._compare()
        moved = {client: self._next[client] for client in clients if client in self._next}
        if not moved:
            self._sweep()
            return
        left = {client: key for client, key in self._next.items() if client not in moved}
        self._replace(self._keys | moved, left, self._destroyed)

    def destroy(self, clients: Iterable[int]) -> None:
        """Destroy the keys of `clients`; the old file is overwritten with zeros before it goes."""
        gone = {_number(client) for client in clients}
        self._compare()
        if gone <= self._destroyed:
            self._sweep()  # a crash may have come between the new file and the zeros
            return
        kept = {client: key for client, key in self._keys.items() if client not in gone}
        following = {client: key for client, key in self._next.items() if client not in gone}
        self._replace(kept, following, self._destroyed | gone)

    def seal(self, client: int, content: bytes, about: bytes) -> bytes:
        """The `content`, to be read by who has the client's key and says what it is `about`."""
        if client not in self._keys and client not in self._destroyed:
            self.make([client])
        nonce = os.urandom(_NONCE)
        try:
            sealed: bytes = self._ciphers(client)[0].encrypt(nonce, content, about)
        except OverflowError:
            raise StoreError(f"{len(content)} bytes cannot be sealed in one piece: split them") from None
        return nonce + sealed

    def open(self, client: int, sealed: bytes, about: bytes) -> bytes:
        """What `seal` was given."""
        ciphers = self._ciphers(client)
        from cryptography.exceptions import InvalidTag

        for cipher in ciphers:
            try:
                content: bytes = cipher.decrypt(sealed[:_NONCE], sealed[_NONCE:], about)
            except (InvalidTag, ValueError, OverflowError):
                continue
            return content
        raise StoreError(
            f"a part sealed for client {client} is damaged, or was sealed under another key or for "
            "another place: take it from a backup"
        )

    def _ciphers(self, client: int) -> list[AESGCM]:
        """The client's keys, the newest first."""
        if client not in self._keys:
            why = "was destroyed" if client in self._destroyed else "is not there"
            raise KeyGone(
                f"{self.path}: the key of client {client} {why}: what is sealed under it cannot be read"
            )
        check_installed()
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM

        keys = [keys[client] for keys in (self._next, self._keys) if client in keys]
        return [AESGCM(key) for key in keys]

    def _compare(self) -> None:
        """Before it is written anew: the file must be what was last read here, or written.

        What somebody else wrote since would be undone, and a key that is destroyed would be there again. Who
        was interrupted in a writing cannot know whether it came to its end: then it is read from the file.
        """
        if self.guard is not None:
            self.guard()
        if not os.path.lexists(self.path):
            if self._check:
                raise StoreError(
                    f"{self.path} is not there any more: put it back, and go on with the run again"
                )
            return
        found = Keyring(self.path)
        if found._check not in (self._check, self._tried):
            raise StoreError(
                f"{self.path} was written by somebody else since it was read here, and nothing is written "
                "over that: go on with the run again, once nobody else has its keys (a copy of its folder?)"
            )
        if found._check != self._check:
            self.mark, self.written, self._check = found.mark, found.written, found._check
            self._keys, self._next, self._destroyed = found._keys, found._next, found._destroyed

    def _replace(self, keys: dict[int, bytes], following: dict[int, bytes], destroyed: set[int]) -> None:
        """Write the file anew, and zeros over the old one, which keeps a name till then.

        A crash in between leaves it under that name, and the next writing takes it away.
        """
        rows = [(client, _HELD, key) for client, key in keys.items()]
        rows += [(client, _NEXT, key) for client, key in following.items()]
        rows += [(client, _DESTROYED, _GONE) for client in destroyed]
        content = _HEAD.pack(_MAGIC, self.mark, self.written + 1) + b"".join(
            _ROW.pack(*row) for row in sorted(rows)
        )
        self._tried = hashlib.sha256(content).digest()
        content += self._tried
        old, aside = None, self.path.with_name(files.part_name(self.path.name))
        with told("write", self.path):
            if os.path.lexists(self.path):
                old = os.open(self.path, files.WRITE)
        try:
            if old is not None:
                with suppress(OSError):  # some file systems have one name a file: its descriptor must do
                    os.link(self.path, aside, follow_symlinks=False)
                point("keyring:aside")
            write_whole(self.path, content)
            self._keys, self._next, self._destroyed = keys, following, destroyed
            self._check, self.written = self._tried, self.written + 1
            point("keyring:replaced")
            if old is not None and os.fstat(old).st_nlink <= 1:  # else that name may be a backup's
                with told("overwrite the old keys of", self.path):
                    files.zero(old)
                point("keyring:zeroed")
        except StoreError:
            with suppress(StoreError):
                self._sweep()
            raise
        finally:
            if old is not None:
                os.close(old)
        self._sweep()

    def _sweep(self) -> None:
        """Take away what a writing left beside the file; say so if it stays under another name."""
        with told("look through", self.path.parent):
            beside = [n for n in sorted(os.listdir(self.path.parent)) if files.is_part(n, self.path.name)]
            parts = [os.lstat(self.path.parent / name) for name in beside]
            names = Counter(one.st_ino for one in parts)
            if os.path.lexists(self.path):
                names[os.lstat(self.path).st_ino] += 1
        for name in beside:
            files.remove(self.path.parent / name)
        if any(one.st_nlink > names[one.st_ino] for one in parts):
            text = (
                f"the old file of {self.path} has another name too (a hard link, as of a backup): it was not "
                "overwritten, and keeps the keys that were destroyed since; remove it there"
            )
            self.said.append(text)
            logging.getLogger(__name__).warning(text)

    def _read(self) -> None:
        """Read the file, again if need be: another process may put a new one there, and zeros over this one.

        The new one has the name by then. So what is read twice from one file, and is wrong, is damaged.
        """
        before = None
        while True:
            with files.opened(self.path) as (descriptor, size):
                if size > _MOST:
                    raise StoreError(f"{self.path} has {size} bytes: it is no file of keys of ours")
                content = files.read_at(descriptor, 0, size, self.path)
                found = os.fstat(descriptor)
            read = (found.st_ino, found.st_mtime_ns, content)
            try:
                return self._take(content)
            except StoreError:
                if read == before:
                    raise
            before = read

    def _take(self, content: bytes) -> None:
        """What a file's `content` says, once all of it is known to be right."""
        body, check = content[:-_CHECK], content[-_CHECK:]
        rows = body[_HEAD.size :]
        if not body.startswith(_MAGIC) or len(body) < _HEAD.size or len(rows) % _ROW.size:
            raise StoreError(
                f"{self.path} is not a file of keys, or one of another version: take them from their backup"
            )
        if hashlib.sha256(body).digest() != check:
            raise StoreError(f"{self.path} is damaged: take the keys from their backup")
        keys: dict[int, bytes] = {}
        following: dict[int, bytes] = {}
        destroyed: set[int] = set()
        last = -1
        for client, which, key in _ROW.iter_unpack(rows):
            in_order = client == last and client in keys if which == _NEXT else client > last
            if not in_order or client >= HIGHEST or which > _NEXT or (which == _DESTROYED) != (key == _GONE):
                raise StoreError(
                    f"{self.path} is not a file of keys that unknot wrote: take them from a backup"
                )
            last = client
            if which == _DESTROYED:
                destroyed.add(client)
            else:
                (keys if which == _HELD else following)[client] = key
        _, self.mark, self.written = _HEAD.unpack_from(body)
        self._check = check
        self._keys, self._next, self._destroyed = keys, following, destroyed


class KeyLock(Lock):
    """While it is held, no other run has the keys in the file `path`, a copy of the same one neither."""

    def __init__(self, path: str | Path) -> None:
        self.keys = place_of(path)
        super().__init__(self.keys.parent, f"{LOCK}{self.keys.name}")

    def _refusal(self, holder: Holder) -> str:
        return (
            f"the keys {self.keys} are held by the run of process {holder.pid} on {holder.host} since "
            f"{holder.since}, and keys are for one run at a time: wait until it ends, or stop it"
        )


def place_of(path: str | Path) -> Path:
    """Where a file of keys lies, whatever leads there; it is no link itself."""
    return Path(path).parent.resolve() / Path(path).name


def is_installed() -> bool:
    """Whether what seals is there."""
    return find_spec("cryptography") is not None


def check_installed() -> None:
    """It must be; otherwise it is said what to install."""
    if not is_installed():
        raise StoreError(f"the package cryptography is needed to keep a run: {install('store')}")


def _number(client: int) -> int:
    if not 0 <= client < HIGHEST:
        raise StoreError(f"{client} is no client's number")
    return client
