"""Files that are whole or not there, and gone when they are removed.

A file is written beside its place, synced and renamed into it: a crash leaves the old one or the new one.
Folders and files are opened without following symbolic links, so that what is done stays in the folder.
"""

from __future__ import annotations

import errno
import fcntl
import os
import re
import secrets
import stat
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from unknot.core.errors import StoreError

POINTS = (
    "write_whole:begin",
    "write_whole:half",
    "write_whole:part",
    "write_whole:renamed",
    "write_whole:done",
    "remove:begin",
    "remove:renamed",
    "remove:zeroed",
    "remove:unlinked",
    "remove:done",
    "keyring:aside",
    "keyring:replaced",
    "keyring:zeroed",
    "vault:rewritten",
    "db:created",
    "db:begin",
    "db:commit",
    "db:committed",
    "db:truncate",
    "db:truncated",
)
"""The moments before and after each step that writes or removes what a run goes by, by name."""

hook: Callable[[str], None] | None = None
"""Called at each of `POINTS`: tests end the process there."""

PART = ".part-"
_BESIDE = re.compile(r"\.part-(.+)-[0-9a-f]{16}((?:\.[^.-]+)?)(?:-journal|-wal|-shm)?", re.DOTALL)
_NAME = re.compile(r"[0-9a-f]{64}\.(state|safetensors)")
_HALF = re.compile(rf"{re.escape(PART)}{_NAME.pattern}-[0-9a-f]{{16}}")
_MIB = 2**20
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
WRITE = os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
"""How what is there is opened to be overwritten: no link is followed, and no pipe waited for."""
_REMEDIES = {
    errno.ENOSPC: "make room on the disk, and start again: what was whole before still is",
    errno.EDQUOT: "make room within the quota, and start again: what was whole before still is",
    errno.EROFS: "the file system is read-only: mount it for writing, or copy the folder elsewhere",
    errno.EACCES: "give the one who runs this the right to it",
    errno.EPERM: "give the one who runs this the right to it",
    errno.ENAMETOOLONG: "give it a shorter name",
    errno.ENOENT: "take it from a backup, or name the folder of a run",
    errno.ELOOP: "symbolic links are refused in the folder of a run: put the file itself there",
    errno.ENOTDIR: "it must be a folder, and no symbolic link: put the folder itself there",
}


def point(name: str) -> None:
    """One of `POINTS` is reached."""
    if hook is not None:
        hook(name)


@contextmanager
def told(doing: str, path: Path, new: bool = False) -> Iterator[None]:
    """What the system says about a file, said as `StoreError` with what to do; a `new` one has no backup."""
    try:
        yield
    except OSError as error:
        remedy = _REMEDIES.get(error.errno or 0, "look at the disk and at the rights to the folder")
        if new and error.errno == errno.ENOENT:
            remedy = "nothing can be made there: name another folder"
        raise StoreError(f"cannot {doing} {path}: {error.strerror or error}; {remedy}") from None
    except ValueError:  # a null character
        raise StoreError(
            f"cannot {doing} {str(path)!a}: no file can be called so; give another name"
        ) from None


def make_folder(path: Path) -> None:
    """Make a folder that is its owner's alone, unless it is there; its name is on the disk then."""
    with told("make the folder", path, new=True):
        with suppress(FileExistsError):
            path.mkdir(mode=0o700)
            with _folder(path.parent.resolve()) as above:
                os.fsync(above)
        with _folder(path):
            return


def check_name(path: Path) -> None:
    """Raise where nothing can be called so, or may be looked for there; in the way of it may be a file."""
    with told("look at", path), suppress(FileNotFoundError, NotADirectoryError):
        os.lstat(path)


def check_ours(path: Path) -> None:
    """Whether a folder, if it is there, can be made ours alone: not if it is another user's, or shared.

    Nor if it is one that people live in: it would be closed to everybody else, with all that lies below it.
    """
    check_name(path)
    if not os.path.lexists(path):
        return
    if what := _lived_in(path):
        raise StoreError(
            f"{path.absolute()} is {what}, and a run's folder is its owner's alone: name a folder of its "
            "own, such as runs/NAME"
        )
    with told("look at", path):
        found = os.stat(path, follow_symlinks=False)
    if found.st_uid != os.geteuid() or found.st_mode & stat.S_ISVTX:
        whose = "is shared" if found.st_uid == os.geteuid() else f"belongs to user {found.st_uid}"
        raise StoreError(f"{path} {whose}, and a run's folder is its owner's alone: name another one")


def _lived_in(path: Path) -> str:
    """What a folder is that nobody means by the folder of a run; nothing where it is no such."""
    place = path.resolve()
    if place == place.parent:
        return "the root of the file system"
    for find, what in ((Path.home, "your home folder"), (Path.cwd, "the folder that you are in")):
        with suppress(RuntimeError, OSError):  # there may be no home, and the folder may be gone
            found = find().resolve()
            if place in (found, *found.parents):
                return what if place == found else f"above {what}"
    return ""


def make_private(path: Path) -> None:
    """Give the rights to a folder that is there to its owner alone."""
    with told("change the rights to", path), _folder(path) as folder:
        if stat.S_IMODE(os.fstat(folder).st_mode) != 0o700:
            os.fchmod(folder, 0o700)


def make_folders(path: Path) -> None:
    """Make a folder, and those above it, each its owner's alone, unless they are there."""
    place = path.absolute()
    for one in (*reversed(place.parents), place):
        with told("make the folder", one):
            there = one.is_dir()
        if not there:
            make_folder(one)


def write_whole(path: Path, *content: bytes | memoryview) -> None:
    """Put a file with this `content` in its place, durably: a crash leaves what was there, or all of it."""
    with told("write", path), _folder(path.parent) as folder:
        part = part_name(path.name)
        point("write_whole:begin")
        descriptor = os.open(part, _NEW, 0o600, dir_fd=folder)
        try:
            with open(descriptor, "wb", buffering=_MIB) as stream:
                half = len(content[0]) // 2
                stream.write(content[0][:half])
                stream.flush()
                point("write_whole:half")
                stream.write(content[0][half:])
                for piece in content[1:]:
                    stream.write(piece)
                stream.flush()
                os.fsync(descriptor)
            point("write_whole:part")
            os.rename(part, path.name, src_dir_fd=folder, dst_dir_fd=folder)
        except BaseException:
            with suppress(OSError):
                _remove(folder, part)
            raise
        point("write_whole:renamed")
        os.fsync(folder)
        point("write_whole:done")


def begin(path: Path, rights: int = 0o600) -> Path:
    """A new empty file beside a place, with its ending, for what writes files by name: see `put_in_place`."""
    part = path.with_name(part_name(path.name) + path.suffix)
    with told("write", path), _folder(path.parent) as folder:
        os.close(os.open(part.name, _NEW, rights, dir_fd=folder))
    return part


@contextmanager
def drafting(folder: Path, names: Collection[str]) -> Iterator[None]:
    """Within: what is begun in a `folder` is left alone by others who come to it by this.

    Before that, where nobody else is at it, what was begun for `names` goes: who began it is gone.
    """
    with _folder(folder) as descriptor:
        with suppress(OSError):  # others are at it, or the file system has no locks: it stays
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            for found in os.listdir(descriptor):
                if whole_name(found) in names:
                    with suppress(OSError):
                        _remove(descriptor, found)
        with suppress(OSError):
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        yield


def put_in_place(part: Path, path: Path) -> None:
    """Give a file that was begun beside a place, and is written, its name, durably."""
    sync(part)
    with told("write", path), _folder(path.parent) as folder:
        os.rename(part.name, path.name, src_dir_fd=folder, dst_dir_fd=folder)
        os.fsync(folder)


def sync(path: Path) -> None:
    """The bytes of a file are on the disk."""
    with opened(path) as (descriptor, _), told("write", path):
        os.fsync(descriptor)


def part_name(name: str) -> str:
    """What a file is called beside the place of the one with this `name`, until it is whole."""
    return f"{PART}{name}-{secrets.token_hex(8)}"


def is_part(found: str, name: str) -> bool:
    """Whether a file is called as one beside the place of `name`, or as SQLite does one beside that.

    To the letter: what is called `name` and more is somebody else's.
    """
    return whole_name(found) == name


def whole_name(found: str) -> str:
    """What the file in whose place a file would come is called; nothing where it is called as no such."""
    match = _BESIDE.fullmatch(found)
    return match[1] if match and match[2] in ("", Path(match[1]).suffix) else ""


def is_named(found: str) -> bool:
    """Whether a file is called as one that `inside` leads to: what is called otherwise is not ours."""
    return bool(_NAME.fullmatch(found))


def is_half(found: str) -> bool:
    """Whether a file is called as `part_name` calls one for a file that `inside` leads to."""
    return bool(_HALF.fullmatch(found))


def read_whole(path: Path, most: int) -> bytes:
    """The bytes of a file, which may be `most` at the most."""
    with opened(path) as (descriptor, size), told("read", path):
        if size > most:
            raise StoreError(
                f"{path} has {size} bytes, and may have {most}: this is not how unknot left it; look at it"
            )
        return read_at(descriptor, 0, size, path)


@contextmanager
def opened(path: Path) -> Iterator[tuple[int, int]]:
    """A file's descriptor, for reading, and its size; only a plain file is opened."""
    with told("read", path), _folder(path.parent) as folder:
        try:
            descriptor = os.open(path.name, _READ, dir_fd=folder)
        except OSError as error:
            if error.errno in (errno.ELOOP, errno.ENXIO):  # a link; a socket
                raise StoreError(_no_file(path, os.lstat(path.name, dir_fd=folder).st_mode)) from None
            raise
    try:
        found = os.fstat(descriptor)
        check_found(path, found, alone=False)
        yield descriptor, found.st_size
    finally:
        os.close(descriptor)


def check_plain(path: Path, alone: bool = False) -> None:
    """Raise unless this is a plain file, and, where it will be written, has this one name `alone`.

    It is not opened: SQLite has locks on its files, and a process that closes any descriptor of a file loses
    all that it has on it.
    """
    with told("read", path), _folder(path.parent) as folder:
        found = os.stat(path.name, dir_fd=folder, follow_symlinks=False)
    check_found(path, found, alone)


def check_found(path: Path, found: os.stat_result, alone: bool = True) -> None:
    """The same of what was found there: another name of a file may lie anywhere, and be written over too."""
    if not stat.S_ISREG(found.st_mode):
        raise StoreError(_no_file(path, found.st_mode))
    if alone and found.st_nlink > 1:
        raise StoreError(
            f"{path} has another name too (a hard link, as some backups make), under which it would be "
            "written over as well: once nobody runs the run, put a copy of it in its place (cp, then mv)"
        )


def kind(mode: int) -> str:
    """What a file is, by its mode, in words."""
    for is_one, words in (
        (stat.S_ISREG, "a plain file"),
        (stat.S_ISDIR, "a folder"),
        (stat.S_ISLNK, "a symbolic link"),
        (stat.S_ISFIFO, "a pipe"),
        (stat.S_ISSOCK, "a socket"),
    ):
        if is_one(mode):
            return words
    return "a device"


def _no_file(path: Path, mode: int) -> str:
    return f"{path} should be a plain file, and is {kind(mode)}: this is not how unknot left it; look at it"


def read_at(descriptor: int, start: int, size: int, path: Path) -> bytes:
    """So many bytes from there, or `StoreError`: the file was cut."""
    with told("read", path):
        pieces = []
        while size:
            piece = os.pread(descriptor, min(size, 1 << 30), start)
            if not piece:
                raise StoreError(f"{path} ends too early: it was cut; take it from a backup")
            pieces.append(piece)
            start, size = start + len(piece), size - len(piece)
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)


def remove(path: Path) -> None:
    """Overwrite a file with zeros, as far as the file system lets one, and take it away, durably.

    A file that has another name too is not overwritten: that name may lie outside the folder.
    """
    with told("remove", path), _folder(path.parent) as folder:
        _remove(folder, path.name)


def sweep(folder: Path, keep: Collection[str]) -> dict[str, int]:
    """Remove every file of ours in a `folder` that is not named in `keep`; their names and sizes.

    What is called otherwise is somebody else's, and stays.
    """
    with told("look through", folder), _folder(folder) as descriptor:
        gone = {}
        for name in sorted(os.listdir(descriptor)):
            if name in keep or not (is_named(name) or is_half(name)):
                continue
            found = os.stat(name, dir_fd=descriptor, follow_symlinks=False)
            if not stat.S_ISDIR(found.st_mode):
                _remove(descriptor, name)
                gone[name] = found.st_size
        return gone


def inside(folder: Path, name: object) -> Path:
    """The path in a `folder` of a name that a file or database gave; anything but a digest's is refused."""
    if not isinstance(name, str) or not is_named(name):
        raise StoreError(
            f"{folder}: {str(name)[:80]!a} is not the name of a file of ours; it is not looked at"
        )
    path = folder / name
    if folder.is_symlink() or path.is_symlink():
        raise StoreError(f"{path} is a symbolic link, or lies behind one: put the file itself there")
    return path


def zero(descriptor: int) -> None:
    """Overwrite a file with zeros where it lies, synced; holes stay holes, or they would fill the disk."""
    zeros, disk = bytes(_MIB), os.fstatvfs(descriptor)
    most = disk.f_blocks * disk.f_frsize
    for start, end in _written(descriptor):
        if most and end - start > most:  # a hole, where the file system does not tell
            continue
        while start < end:
            start += os.pwrite(descriptor, zeros[: min(_MIB, end - start)], start)
    os.fsync(descriptor)


def _written(descriptor: int) -> Iterator[tuple[int, int]]:
    """From where to where a file has bytes; all of it, where there is no way to ask."""
    size, end = os.fstat(descriptor).st_size, 0
    if not hasattr(os, "SEEK_DATA"):
        yield 0, size
        return
    while end < size:
        try:
            start = os.lseek(descriptor, end, os.SEEK_DATA)
        except OSError as error:
            if error.errno == errno.ENXIO:  # the rest is a hole
                return
            raise
        end = os.lseek(descriptor, start, os.SEEK_HOLE)
        yield start, end


def _remove(folder: int, name: str) -> None:
    point("remove:begin")
    found = os.stat(name, dir_fd=folder, follow_symlinks=False)
    if stat.S_ISREG(found.st_mode) and found.st_nlink == 1:
        if not name.startswith(PART):  # half in zeros, it must not be taken for what it was
            name, old = part_name(name), name
            os.rename(old, name, src_dir_fd=folder, dst_dir_fd=folder)
            os.fsync(folder)
            point("remove:renamed")
        with suppress(OSError):  # what cannot be overwritten is taken away all the same
            descriptor = os.open(name, WRITE, dir_fd=folder)
            try:
                zero(descriptor)
            finally:
                os.close(descriptor)
    point("remove:zeroed")
    os.unlink(name, dir_fd=folder)
    point("remove:unlinked")
    os.fsync(folder)
    point("remove:done")


@contextmanager
def _folder(path: Path) -> Iterator[int]:
    """A folder's descriptor; one that is a symbolic link is not opened."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        yield descriptor
    finally:
        os.close(descriptor)
