"""Weights on disk by their digests: packs of tensors, those of one client alone sealed under its key."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from pathlib import Path

from torch import Tensor

from unknot.core.digests import digest, digest_of, dtype_name, raw
from unknot.core.errors import StoreError
from unknot.store import files
from unknot.store.files import inside, make_folder, opened, point, read_at, told, write_whole
from unknot.store.keyring import KeyGone, Keyring
from unknot.store.lock import Process
from unknot.store.numbers import clients_text, pack_form, tensor_of, unpack_form
from unknot.store.pack import SEALED, Part, Place, head, places

__all__ = ["Item", "Removed", "Vault", "digest_of"]

WEIGHTS = "weights"
_SUFFIX = ".safetensors"


@dataclass(frozen=True, eq=False)
class Item:
    """A tensor to be kept; `owner` is whose contribution alone it is, `clients` whose data shaped it."""

    tensor: Tensor
    owner: int | None = None
    clients: tuple[int, ...] = ()


@dataclass(frozen=True)
class Removed:
    """How many files, bytes and tensors went."""

    files: int = 0
    bytes: int = 0
    tensors: int = 0


class Vault:
    """The packs of a `folder`, which is made where it is not; what has an owner is sealed by the `keyring`.

    A digest may lie there more than once, for several owners: who is erased takes nothing from the others,
    even where their numbers are the same. Who opened it alone changes the folder, and
    no process that is forked from it; `guard` raises where it is not its own any more.
    """

    def __init__(self, folder: str | Path, keyring: Keyring, guard: Callable[[], None] | None = None) -> None:
        self.folder = Path(folder).absolute()
        self._process, self._guard = Process(), guard
        self._keyring = keyring
        self._packs: dict[str, list[Place]] = {}
        self._sizes: dict[str, int] = {}
        self._places: dict[str, list[Place]] = {}
        self.damaged: dict[str, str] = {}
        """The packs of which something cannot be read, and why: nothing is added to them any more."""
        make_folder(self.folder)
        self._changing = True  # who was interrupted while files changed does not know what is there
        self._look()

    @property
    def nbytes(self) -> int:
        """How many bytes the packs take on the disk."""
        return sum(self._sizes.values())

    @property
    def held(self) -> tuple[int, int, int]:
        """How many packs, bytes and tensors there are."""
        self._look()
        return len(self._packs), self.nbytes, sum(map(len, self._packs.values()))

    def put(self, items: Mapping[str, Item]) -> str | None:
        """Write what is not there yet into one new pack, durably; its name, or None if nothing is new.

        What is there already, in the open or under the same owner's key, keeps the `clients` it came with.
        """
        self._check()
        self._look()
        fresh = {digest: item for digest, item in items.items() if not self.keeps(digest, item.owner)}
        if not fresh:
            return None
        owners = {item.owner for item in fresh.values() if item.owner is not None}
        self._keyring.make(owner for owner in owners if not self._keyring.destroyed(owner))
        texts: dict[int, str] = {}  # by the tuple itself: most items share theirs
        for item in fresh.values():
            if id(item.clients) not in texts:
                texts[id(item.clients)] = clients_text(item.clients)
        return self._write([self._part(name, item, texts[id(item.clients)]) for name, item in fresh.items()])

    def get(self, digest: str) -> Tensor:
        """The tensor of that digest, which it is checked against."""
        self._look()
        kept = self._places.get(digest)
        if not kept:
            why = "".join(f"; {why}" for why in self.damaged.values())
            raise StoreError(
                f"no pack in {self.folder} has the tensor {digest}: take the folder from a backup{why}"
            )
        kept = sorted(
            kept, key=lambda place: place.owner is not None and not self._keyring.holds(place.owner)
        )
        for last, place in enumerate(kept, 1 - len(kept)):
            try:
                return self._open(place)
            except KeyGone:
                if not last:
                    raise
            except StoreError as error:  # another copy may be whole
                self.damaged[place.pack] = str(error)
                if not last:
                    raise
        raise AssertionError("unreachable")

    def retain(self, digests: Collection[str], slack: float = 0.0) -> Removed:
        """Drop all but these `digests`, what nobody can open any more among them, and whatever a crash left.

        A pack with some left is written anew without the others, unless these are less than that part
        (`slack`) of it; all that is new is on the disk before anything goes.
        """
        self._check()
        keep = digests if isinstance(digests, set | frozenset | dict) else set(digests)
        before = self.held
        wanted = {name: [p for p in kept if self._wanted(p, keep)] for name, kept in self._packs.items()}
        for name in self.damaged.keys() & wanted.keys():
            wanted[name] = [place for place in wanted[name] if self._whole(place)]
        staying: set[str] = set()
        there: set[tuple[str, int | None]] = set()
        # Packs of which all stays come first: what lies in them too need not be written again.
        for name in sorted(wanted, key=lambda name: (len(wanted[name]) < len(self._packs[name]), name)):
            left = [place for place in wanted[name] if (place.digest, place.owner) not in there]
            if not left:
                continue
            there.update((place.digest, place.owner) for place in left)
            every = self._packs[name]
            less = len(left) < len(every) and _size(left) <= (1 - slack) * _size(every)
            if less or name in self.damaged:
                name = self._rewrite(name, left)
            staying.add(name)
        point("vault:rewritten")
        gone = [name for name in self._packs if name not in staying]
        self._check()
        self._changing = True
        files.sweep(self.folder, staying)
        self._leave_out(gone)
        self.damaged = {}
        tensors = before[2] - sum(map(len, self._packs.values()))
        return Removed(len(gone), before[1] - self.nbytes, tensors)

    def reseal(self, owners: Collection[int]) -> None:
        """Write what lies under the keys of these `owners` anew, under the newest of each; the old goes.

        What cannot be opened is left out: nobody could have read it.
        """
        self._check()
        self._look()
        old = [name for name, kept in self._packs.items() if any(p.owner in owners for p in kept)]
        for name in old:
            path = self._path(name)
            with opened(path) as (descriptor, _):
                parts = [
                    Part(p.digest, p.dtype, p.shape, content, p.owner, p.clients)
                    for p in self._packs[name]
                    if (content := self._sealed_anew(self._bytes(descriptor, p, path), p, owners)) is not None
                ]
            if parts:
                self._write(parts)
        self._check()
        self._changing = True
        for name in old:
            files.remove(self._path(name))
        self._leave_out(old)

    def _check(self) -> None:
        """Before anything is written or removed: is the folder still ours?"""
        self._process.check(self.folder)
        if self._guard is not None:
            self._guard()

    def keeps(self, digest: str, owner: int | None) -> bool:
        """Whether a tensor lies here in the open, or under this owner's key."""
        self._look()
        there = {p.owner for p in self._places.get(digest, ()) if p.pack not in self.damaged}
        return None in there or (owner in there and owner is not None and self._keyring.holds(owner))

    def _wanted(self, place: Place, keep: Collection[str]) -> bool:
        readable = place.owner is None or not self._keyring.destroyed(place.owner)
        return readable and place.digest in keep

    def _whole(self, place: Place) -> bool:
        try:
            self._open(place)
        except StoreError:
            return False
        return True

    def _sealed_anew(self, content: bytes, place: Place, owners: Collection[int]) -> bytes | None:
        if place.owner is None or place.owner not in owners:
            return content
        about = place.digest.encode()
        try:
            return self._keyring.seal(place.owner, self._keyring.open(place.owner, content, about), about)
        except StoreError:
            return None

    def _look(self) -> None:
        """Find what is there, unless it is known."""
        if not self._changing:
            return
        self._packs, self._sizes, self._places = {}, {}, {}
        with told("look through", self.folder):
            there = sorted(os.listdir(self.folder))
        names = [name for name in there if files.is_named(name) and name.endswith(_SUFFIX)]
        self.damaged = {name: why for name, why in self.damaged.items() if name in names}
        for name in names:
            self._path(name)  # a link is none of ours
            try:
                self._enter(name)
            except StoreError as error:  # what lies in others can be read all the same
                self.damaged[name] = str(error)
        self._changing = False

    def _leave_out(self, names: Collection[str]) -> None:
        """These packs are gone."""
        for name in names:
            del self._packs[name], self._sizes[name]
        self._places = {}
        for kept in self._packs.values():
            for place in kept:
                self._places.setdefault(place.digest, []).append(place)
        self._changing = False

    def _part(self, name: str, item: Item, clients: str) -> Part:
        dtype, shape, content = dtype_name(item.tensor), tuple(item.tensor.shape), raw(item.tensor)
        if digest(dtype, shape, content) != name:
            raise StoreError(
                f"the tensor that is to be kept as {name} has another digest: was it changed since?"
            )
        if item.owner is None:
            return Part(name, dtype, shape, content, None, clients)
        sealed = self._keyring.seal(item.owner, pack_form(dtype, shape) + content, name.encode())
        return Part(name, SEALED, (len(sealed),), sealed, item.owner, clients)

    def _write(self, parts: list[Part]) -> str:
        top, found = head(parts), hashlib.sha256()
        for piece in (top, *(part.content for part in parts)):
            found.update(piece)
        name = found.hexdigest() + _SUFFIX
        self._check()
        self._changing = True
        write_whole(self._path(name), top, *(part.content for part in parts))
        if name not in self._packs:
            self._enter(name)
        self._changing = False
        return name

    def _rewrite(self, name: str, left: list[Place]) -> str:
        path = self._path(name)
        with opened(path) as (descriptor, _):
            return self._write(
                [
                    Part(p.digest, p.dtype, p.shape, self._bytes(descriptor, p, path), p.owner, p.clients)
                    for p in left
                ]
            )

    def _enter(self, name: str) -> None:
        path = self._path(name)
        self._packs[name] = places(path)
        with told("read", path):
            self._sizes[name] = path.stat(follow_symlinks=False).st_size
        for place in self._packs[name]:
            self._places.setdefault(place.digest, []).append(place)

    def _open(self, place: Place) -> Tensor:
        path = self._path(place.pack)
        with opened(path) as (descriptor, _):
            content = self._bytes(descriptor, place, path)
        dtype, shape = place.dtype, place.shape
        try:
            if place.owner is not None:
                about = place.digest.encode()
                dtype, shape, content = unpack_form(self._keyring.open(place.owner, content, about))
            if digest(dtype, shape, content) != place.digest:
                raise ValueError("its numbers have another digest")
            return tensor_of(dtype, shape, content)
        except KeyGone:
            raise
        except (ValueError, RecursionError, StoreError) as error:
            raise StoreError(
                f"{path} is damaged, or was changed, where the tensor {place.digest} lies ({error}): "
                "take it from a backup"
            ) from None

    def _path(self, name: str) -> Path:
        return inside(self.folder, name)

    @staticmethod
    def _bytes(descriptor: int, place: Place, path: Path) -> bytes:
        return read_at(descriptor, place.start, place.stop - place.start, path)


def _size(kept: list[Place]) -> int:
    return sum(place.stop - place.start for place in kept)
