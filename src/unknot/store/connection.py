"""A connection to a run's database: SQLite set up so that a commit lasts and what is deleted is overwritten.

A file that is not ours to the letter is refused.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote

from unknot.core.errors import StoreError

APPLICATION, VERSION = 0x756E6B74, 3
TABLES = {
    "log": "CREATE TABLE log (number INTEGER PRIMARY KEY, kind TEXT NOT NULL, body BLOB NOT NULL, "
    "at TEXT NOT NULL, previous BLOB NOT NULL, hash BLOB NOT NULL)",
    "inbox": "CREATE TABLE inbox (number INTEGER PRIMARY KEY, kind TEXT NOT NULL, body BLOB NOT NULL, "
    "asker TEXT NOT NULL, asked_at TEXT NOT NULL, step INTEGER, taken_at TEXT, done_at TEXT, "
    "state TEXT NOT NULL, outcome BLOB NOT NULL, hash BLOB NOT NULL)",
    "clients": "CREATE TABLE clients (number INTEGER PRIMARY KEY, name BLOB NOT NULL)",
    "sealed": "CREATE TABLE sealed (kind TEXT NOT NULL, number INTEGER NOT NULL, client INTEGER NOT NULL, "
    "content BLOB NOT NULL, PRIMARY KEY (kind, number)) WITHOUT ROWID",
}
BUSY = 5.0  # seconds that another process's writing is waited for
REMEDIES = {
    sqlite3.SQLITE_BUSY: "another process is writing: try again",
    sqlite3.SQLITE_LOCKED: "another process is writing: try again",
    sqlite3.SQLITE_FULL: "make room on the disk, and start again: what was written before still is",
    sqlite3.SQLITE_IOERR: "make room if the disk is full, look whether it fails, and start again: what was "
    "written before still is",
    sqlite3.SQLITE_READONLY: "give the one who runs this the right to write there",
    sqlite3.SQLITE_CANTOPEN: "look at the rights to the folder, and whether it is one of a run",
}


def examined(path: Path, readonly: bool) -> sqlite3.Connection:
    """A connection to a file that was found to be one of ours.

    To read a write-ahead log, SQLite must write beside the file. Where that may not be done, as in a mounted
    backup, the file is read alone, if there is no such log; nobody can be writing there then.
    """
    try:
        return _examined(path, "ro" if readonly else "rw")
    except sqlite3.OperationalError as error:
        refused = _code(error) in (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN)
        if not (readonly and refused) or os.access(path.parent, os.W_OK):
            raise
        log = path.with_name(f"{path.name}-wal")
        if log.exists() and log.stat().st_size:
            raise StoreError(
                f"{log} has what was written last, and cannot be read in a folder that you may not write "
                "into: copy the folder to where you may write, with all that is in it, and look at that"
            ) from None
        return _examined(path, "ro&immutable=1")


def _examined(path: Path, mode: str) -> sqlite3.Connection:
    connection = connect(path, mode)
    try:
        examine(path, connection, readonly=mode != "rw")
    except BaseException:
        connection.close()
        raise
    return connection


def connect(path: Path, mode: str) -> sqlite3.Connection:
    address = f"file:{quote(os.fspath(path.absolute()))}?mode={mode}"
    connection = sqlite3.connect(
        address, uri=True, timeout=BUSY, isolation_level=None, check_same_thread=False
    )
    try:
        # The schema of a file is not trusted: it must not call anything, and is compared with ours.
        for setting in (
            "trusted_schema = OFF",
            "cell_size_check = ON",
            "foreign_keys = ON",
            "secure_delete = ON",
        ):
            connection.execute(f"PRAGMA {setting}").close()
        connection.execute("PRAGMA synchronous = FULL").close()
        connection.execute("PRAGMA mmap_size = 0").close()
    except BaseException:
        connection.close()
        raise
    return connection


def mark_in(path: Path) -> int | None:
    """The mark of the program that made a database; None where it is none, or damaged.

    By SQLite, and not from the file: a process that closes any descriptor of a file loses its locks on it.
    """
    try:
        connection = connect(path, "ro&immutable=1")
        try:
            found = connection.execute("PRAGMA application_id").fetchone()
        finally:
            connection.close()
    except sqlite3.DatabaseError as error:
        if _code(error) in (sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT):
            return None
        raise
    return int(found[0]) if found and path.stat().st_size else None


def examine(path: Path, connection: sqlite3.Connection, readonly: bool) -> None:
    """Is it one of ours, of this version, with these tables and no others, and are its pages whole?"""

    def value(question: str) -> object:
        rows = connection.execute(question).fetchall()
        return rows[0][0] if rows else None

    if value("PRAGMA application_id") != APPLICATION:
        raise StoreError(f"{path} is not the database of a run: name the folder of one")
    version = value("PRAGMA user_version")
    if version != VERSION:
        raise StoreError(
            f"{path} is of version {version}, and this unknot knows {VERSION}: use the one that made it"
        )
    schema = connection.execute("SELECT type, name, tbl_name, sql FROM sqlite_master").fetchall()
    if sorted(schema, key=str) != sorted((("table", n, n, sql) for n, sql in TABLES.items()), key=str):
        raise StoreError(f"{path} has other tables than a run's database: it is damaged, or none of ours")
    if not readonly:
        if value("PRAGMA journal_mode = WAL") != "wal":
            raise StoreError(f"{path} cannot be written as a run needs it: is it on a network's file system?")
        if connection.execute("PRAGMA quick_check").fetchall() != [("ok",)]:
            raise StoreError(f"{path} is damaged: take it from a backup")


@contextmanager
def explained(path: Path) -> Iterator[None]:
    """What SQLite says, said as `StoreError` with what to do."""
    try:
        yield
    except (sqlite3.Error, sqlite3.Warning, OverflowError, UnicodeError) as error:
        remedy = REMEDIES.get(_code(error), "it is damaged or none of ours; take it from a backup")
        raise StoreError(f"{path}: {error}; {remedy}") from None


def _code(error: Exception) -> int:
    """SQLite's code, where the error is SQLite's own; the rest of it says more than anybody can act on."""
    return int(getattr(error, "sqlite_errorcode", 0)) & 0xFF
