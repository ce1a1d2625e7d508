"""Folders of runs that somebody spoilt: bytes anywhere, or what they say with all checks made right again."""

import copy
import hashlib
import json
import os
import random
import sqlite3
import struct
from collections.abc import Callable
from pathlib import Path

from unknot.core.errors import UnknotError
from unknot.core.form import read
from unknot.store import Database
from unknot.store.entries import plain, read_named
from unknot.store.rows import START, Asked, entry_hash

CANARY = "hostile_canary"
"""A module that nobody may import."""
ODD = [
    None,
    True,
    -1,
    0,
    7,
    2**31,
    2**62,
    2**70,
    float("nan"),
    float("inf"),
    -0.5,
    "",
    "²",
    "x" * 3000,
    "../../outside/canary",
    "/etc/passwd",
    f"{CANARY}:run",
    "\x1b[2J\0",
    b"",
    b"\xff" * 40,
    [],
    {},
    [[[]]],
    {"name": {}},
    (1, 2),
    {"erase": {}, "join": 3},
    [None],
]


def spoilt_bytes(content: bytes, draw: random.Random) -> bytes:
    """The same bytes, but for something flipped, cut, put in, repeated or made huge."""
    made = bytearray(content)
    for _ in range(draw.choice((1, 1, 1, 3, 8))):
        place, size = draw.randrange(len(made) + 1), draw.randrange(1, 60)
        how = draw.randrange(7)
        if how == 0 and place < len(made):
            made[place] ^= 1 << draw.randrange(8)
        elif how == 1:
            del made[place:]
        elif how == 2:
            del made[place : place + size]
        elif how == 3:
            made[place:place] = draw.randbytes(size)
        elif how == 4:
            made[place:place] = made[place : place + size]
        elif how == 5:
            made[place : place + 8] = struct.pack("<Q", draw.choice((0, 1, 2**31, 2**62, 2**64 - 1)))
        elif place < len(made):
            made[place] = draw.choice(b"NTFKIJDSBAGXPCMRVWO\0\xff")
    return bytes(made)


def jumbled(value: object, draw: random.Random) -> object:
    """The same value, but for something in it that is another or not there."""
    if isinstance(value, dict) and value and draw.random() < 0.85:
        made, key = dict(value), draw.choice(list(value))
        how = draw.random()
        if how < 0.15:
            del made[key]
        elif how < 0.25:
            made[draw.choice(["odd", 3, "keys", "table", "request", "whole"])] = draw.choice(ODD)
        else:
            made[key] = jumbled(made[key], draw)
        return made
    if isinstance(value, list | tuple) and value and draw.random() < 0.85:
        items, place = list(value), draw.randrange(len(value))
        items[place] = jumbled(items[place], draw)
        if draw.random() < 0.2:
            items.insert(place, draw.choice(ODD))
        return type(value)(items)
    if hasattr(value, "__dataclass_fields__") and draw.random() < 0.9:
        twin, name = copy.copy(value), draw.choice(list(value.__dataclass_fields__))
        object.__setattr__(twin, name, jumbled(getattr(twin, name), draw))
        return twin
    return draw.choice(ODD)


def reworded(body: bytes, draw: random.Random) -> bytes:
    """What bytes in a written form say, but for something; or the bytes themselves spoilt."""
    if draw.random() < 0.7:
        try:
            return plain(jumbled(read(body), draw))
        except (UnknotError, ValueError):
            pass
    return spoilt_bytes(body, draw)


# Ways to spoil a folder; each says what it did -----------------------------------------------------------


def files_of(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file() and path.name != "run.db-shm")


def some_bytes(folder: Path, draw: random.Random) -> str:
    path = draw.choice(files_of(folder))
    path.write_bytes(spoilt_bytes(path.read_bytes(), draw))
    return f"bytes of {path.name}"


def gone(folder: Path, draw: random.Random) -> str:
    path = draw.choice(files_of(folder))
    path.unlink()
    return f"{path.name} gone"


def swapped(folder: Path, draw: random.Random) -> str:
    one, other = draw.sample(files_of(folder), 2)
    one.write_bytes(other.read_bytes())
    return f"{one.name} is {other.name}"


def led_outside(folder: Path, draw: random.Random) -> str:
    """A file or folder is a link to what lies outside, or no plain file."""
    path = draw.choice([*files_of(folder), folder / "state", folder / "weights", folder / "run.db-journal"])
    outside = folder.parent / "outside"
    if path.is_dir():
        path.rename(outside / path.name)
        path.symlink_to(outside / path.name)
        return f"{path.name} is a link"
    path.unlink(missing_ok=True)
    how = draw.randrange(4)
    if how == 0:
        path.symlink_to(outside / "canary")
    elif how == 1:
        path.mkdir()
    elif how == 2:
        os.mkfifo(path)
    else:
        path.symlink_to(path)
    return f"{path.name} is {('a link', 'a folder', 'a pipe', 'a circle')[how]}"


def rewritten_log(folder: Path, draw: random.Random, change: Callable[[list], None]) -> None:
    """The log as `change` leaves its entries (kind, time, body), with right hashes."""
    with sqlite3.connect(folder / "run.db") as connection:
        rows = connection.execute("SELECT kind, at, body FROM log ORDER BY number").fetchall()
        change(rows)
        connection.execute("DELETE FROM log")
        previous = START
        for number, (kind, at, body) in enumerate(rows, 1):
            found = entry_hash(previous, number, kind, at, body)
            values = (number, kind, body, at, previous, found)
            connection.execute("INSERT INTO log VALUES (?, ?, ?, ?, ?, ?)", values)
            previous = found
    connection.close()


def log(folder: Path, draw: random.Random) -> str:
    said = []

    def change(rows: list) -> None:
        kinds = sorted({kind for kind, _, _ in rows})
        which = draw.choice(kinds)
        place = draw.choice([i for i, (kind, _, _) in enumerate(rows) if kind == which])
        how = draw.random()
        said.append(which)
        if how < 0.75:
            rows[place] = (which, rows[place][1], reworded(rows[place][2], draw))
        elif how < 0.85:
            del rows[place]
        elif how < 0.95:
            rows.insert(draw.randrange(len(rows) + 1), rows[place])
        else:
            rows[place] = (draw.choice([*kinds, "odd"]), draw.choice(["", "then", "9" * 99]), rows[place][2])

    rewritten_log(folder, draw, change)
    return f"entry {said[0]} of the log"


def inbox(folder: Path, draw: random.Random) -> str:
    with Database.open(folder / "run.db", readonly=True) as db:
        asked = draw.choice(db.asked())
    fields = {name: getattr(asked, name) for name in asked.__dataclass_fields__}
    name = draw.choice(
        ["kind", "body", "body", "body", "by", "asked_at", "step", "done_at", "state", "outcome"]
    )
    values: dict[str, list] = {
        "kind": ["erase", "join", "pause", "stop", "go", "odd", ""],
        "by": ["", "\x1b[2J", "x" * 5000],
        "asked_at": ["", "then"],
        "done_at": [None, "", "9"],
        "step": [None, -1, 0, 3, 2**62],
        "state": ["waiting", "taken", "served", "refused", "odd"],
    }
    if name in ("body", "outcome"):
        fields[name] = reworded(fields[name] or plain([[(1, None)], b""]), draw)
    else:
        fields[name] = draw.choice(values[name])
    if draw.random() < 0.3:
        fields["number"] = draw.choice([-5, 0, 99, 2**62, 2**63 - 1])
    made = Asked(**fields)
    with sqlite3.connect(folder / "run.db") as connection:
        row = [getattr(made, one) for one in made.__dataclass_fields__]
        marks = ", ".join("?" * (len(row) + 1))
        connection.execute(f"INSERT OR REPLACE INTO inbox VALUES ({marks})", [*row, made.check()])
    connection.close()
    return f"{name} of a request"


def clients(folder: Path, draw: random.Random) -> str:
    with sqlite3.connect(folder / "run.db") as connection:
        sealed = [name for (name,) in connection.execute("SELECT name FROM clients")]
        number = draw.choice([-1, 0, 1, 2, 3, 99, 2**62])
        name = draw.choice([b"", b"x" * 40, "text", *sealed])
        connection.execute("INSERT OR REPLACE INTO clients VALUES (?, ?)", (number, name))
    connection.close()
    return "name of a client"


def sealed(folder: Path, draw: random.Random) -> str:
    with sqlite3.connect(folder / "run.db") as connection:
        found = [content for (content,) in connection.execute("SELECT content FROM sealed")]
        kind = draw.choice(["samples", "marks", "ids", "marks", "", 3])
        numbers = [draw.choice([-1, 0, 1, 2, 3, 99, 2**62]) for _ in range(2)]
        content = draw.choice([b"", b"x" * 40, "text", None, *found])
        if content is None:
            connection.execute("DELETE FROM sealed WHERE kind = ? AND number = ?", (kind, numbers[0]))
        else:
            connection.execute("INSERT OR REPLACE INTO sealed VALUES (?, ?, ?, ?)", (kind, *numbers, content))
    connection.close()
    return "a sealed part"


def schema(folder: Path, draw: random.Random) -> str:
    statement = draw.choice(
        [
            "CREATE TRIGGER t AFTER INSERT ON inbox BEGIN DELETE FROM log; END",
            "CREATE VIEW v AS SELECT load_extension('/tmp/x')",
            "ALTER TABLE clients ADD COLUMN more TEXT",
            "DROP TABLE clients",
            "DELETE FROM log",
            "PRAGMA user_version = 7",
            "PRAGMA application_id = 7",
            "CREATE INDEX i ON log (kind)",
            "UPDATE log SET body = 'text'",
            "UPDATE inbox SET step = 'text'",
            "PRAGMA journal_mode = DELETE",
        ]
    )
    connection = sqlite3.connect(folder / "run.db", isolation_level=None)
    connection.execute(statement)
    connection.close()
    return statement


def state(folder: Path, draw: random.Random) -> str:
    """The newest checkpoint says something else, under a digest that is right, and there is no older one."""

    def change(rows: list) -> None:
        last = max(i for i, (kind, _, _) in enumerate(rows) if kind == "checkpoint")
        named = copy.copy(read_named(rows[last][2]))
        content = (folder / "state" / f"{named.state}.state").read_bytes()
        if draw.random() < 0.6:
            parts = read(content)
            place = draw.choice((0, 0, 0, 1, 2))
            parts[place] = spoilt_bytes(parts[0], draw) if not place else jumbled(parts[place], draw)
            try:
                content = plain(parts)
            except UnknotError:
                content = spoilt_bytes(content, draw)
        else:
            content = spoilt_bytes(content, draw)
        object.__setattr__(named, "state", hashlib.sha256(content).hexdigest())
        (folder / "state" / f"{named.state}.state").write_bytes(content)
        row = ("checkpoint", rows[last][1], plain(named))
        rows[:] = [one for one in rows[:last] if one[0] != "checkpoint"] + [row] + rows[last + 1 :]

    rewritten_log(folder, draw, change)
    return "a checkpoint"


def pack(folder: Path, draw: random.Random) -> str:
    """A pack has another head, with a check that is right, under the digest that it has now."""
    path = draw.choice(sorted((folder / "weights").iterdir()))
    content = path.read_bytes()
    length = int.from_bytes(content[:8], "little")
    told, rest = json.loads(content[8 : 8 + length]), content[8 + length :]
    notes = json.loads(told["__metadata__"]["unknot"])
    name = draw.choice([one for one in told if one != "__metadata__"])
    how = draw.randrange(7)
    hostile = [0, 1, -1, -8, 2**31, 2**53, 2**63, 2**64, 10**400, True, None, "0", 1.5, [], {}]
    if how == 0:
        told[name]["data_offsets"] = [draw.choice(hostile), draw.choice(hostile)]
    elif how == 1:
        told[name]["shape"] = [draw.choice(hostile) for _ in range(draw.choice((0, 1, 2, 70)))]
    elif how == 2:
        told[name]["dtype"] = draw.choice(["F64", "BOOL", "O", "", None, 3])
    elif how == 3:
        told[draw.choice(["../../outside/canary", "/etc/passwd", "", "0" * 64])] = told.pop(name)
    elif how == 4:
        notes["items"][name] = [draw.choice(hostile), draw.choice(hostile)]
    elif how == 5:
        notes["sets"] = [draw.choice(["0-99999999", "=" + "A" * 4000, "5-1", "x", "", "0-16777215"])] * 3
    else:
        rest = spoilt_bytes(rest, draw)
    told["__metadata__"] = {"check": "0" * 64, "unknot": json.dumps(notes, separators=(",", ":"))}
    text = bytearray(json.dumps(told, separators=(",", ":")).encode())
    text += b" " * (-len(text) % 8)
    start = len(b'{"__metadata__":{"check":"')
    if how == 3 and draw.random() < 0.5:
        text = bytearray(b"[" * len(text))  # deep, and no head at all
    else:
        again = {"__metadata__": told.pop("__metadata__"), **told}
        text = bytearray(json.dumps(again, separators=(",", ":")).encode())
        text += b" " * (-len(text) % 8)
        text[start : start + 64] = hashlib.sha256(text).hexdigest().encode()
    size = draw.choice([len(text)] * 6 + [2**63, 2**26, 0])
    made = size.to_bytes(8, "little") + bytes(text) + rest
    path.unlink()
    (path.parent / f"{hashlib.sha256(made).hexdigest()}.safetensors").write_bytes(made)
    return "the head of a pack"


def keys(folder: Path, draw: random.Random) -> str:
    path = folder / "keys"
    body = bytearray(path.read_bytes()[:-32])
    row = 16 + 41 * draw.randrange((len(body) - 16) // 41)
    how = draw.randrange(5)
    if how == 0:
        body[row : row + 8] = struct.pack("<Q", draw.choice((0, 2**63 - 1, 2**63, 2**64 - 1)))
    elif how == 1:
        body[row + 8] = draw.choice((0, 1, 2, 3, 255))
    elif how == 2:
        body[row + 9 : row + 41] = draw.choice((bytes(32), draw.randbytes(32)))
    elif how == 3:
        del body[row : row + 41]
    else:
        body[row:row] = body[row : row + 41]
    path.write_bytes(bytes(body) + hashlib.sha256(body).digest())
    return "a row of the keys"


def lock(folder: Path, draw: random.Random) -> str:
    note = {"pid": draw.choice(ODD[:8]), "host": "\x1b[2J" * 9, "since": draw.choice(["", "x" * 9999])}
    text = draw.choice(["[" * 100_000, "{}", json.dumps(note), "\0" * 5000, "9" * 5000])
    (folder / "lock").write_text(text)
    return "the lock"


BLIND = (some_bytes, gone, swapped)
"""Damage that checksums must find."""
KNOWING = (log, inbox, clients, sealed, schema, state, pack, keys, lock, led_outside)
"""What somebody does who knows the form, with checksums made right where there are any."""
