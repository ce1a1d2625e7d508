"""A run's folder, looked at without running it: what it is, where it stands, what was asked, what it keeps.

Also who may be named in a request, and how a run is taken away. Nothing here trusts what it reads.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from unknot.core.errors import ConfigError, RequestError, StoreError, UnknotError, nearest
from unknot.core.requests import Erase, Join, Moment, Target
from unknot.core.written import Reader, Unreadable
from unknot.federation.history import Event, Round, Served
from unknot.store import files
from unknot.store.checkpoint import STATE, Checkpoint
from unknot.store.database import Database
from unknot.store.erasing import RESULTS
from unknot.store.inbox import told_of
from unknot.store.keeper import DATABASE, KEYS, WEIGHTS, read_named, read_plain
from unknot.store.keyring import Keyring
from unknot.store.lock import Holder, Lock, holder
from unknot.store.rows import Asked

RUNNING, STOPPED, FINISHED = "running", "stopped", "finished"
LOCK, CONFIG = "lock", "config.toml"


@dataclass(frozen=True)
class Wanted:
    """A request to a run, and what became of it."""

    request: str
    asked: str
    """When it came (UTC)."""
    state: str
    by: str
    number: int | None = None
    """Its number in the inbox; none where it stands in the file that the run comes from."""
    at: str = ""
    """When it is to be served, where the file says so."""
    served: str | None = None
    """When it was served (UTC)."""
    round: int | None = None
    time: float | None = None
    """In simulated seconds."""
    why: str = ""
    """Of one that was refused; of any other, the reason that was given."""


@dataclass(frozen=True)
class Look:
    """What a folder says of its run."""

    folder: str
    name: str
    method: str
    state: str
    paused: bool
    holder: Holder | None
    rounds: int
    time: float
    """Simulated seconds."""
    clients: int
    """When it was begun."""
    begun: str
    """When (UTC)."""
    kept: str | None
    """When its last checkpoint was written (UTC)."""
    stopped: str
    """Why it is over; nothing while it is not."""
    model: str | None
    """The digest of what is served, where the run is over."""
    lineage: list[str] | None
    requests: list[Wanted]
    erased: list[dict[str, Any]]
    """What was removed from the disk, an erasure each, with when."""
    sizes: dict[str, int] = field(default_factory=dict)
    """What is kept, in bytes."""
    resumed: int = 0
    """How often it was gone on with."""


def database(folder: str | Path) -> Path:
    """Where the database of the run in a folder is."""
    path = Path(folder) / DATABASE
    if not os.path.lexists(path):
        raise StoreError(f"{folder} holds no run: name the folder of one (unknot runs shows them)")
    return path


def begun(folder: str | Path) -> Mapping[str, Any]:
    """What was noted when the run was begun."""
    with Database.open(database(folder), readonly=True) as db:
        return _begun(db, folder)[0]


def check_keys(folder: str | Path, keys: str | Path | None) -> None:
    """Whether the keys of a run are named, where they lie apart from it: it is not gone on with without."""
    apart = begun(folder).get("keys")
    if apart is not None and keys is None and not (Path(folder) / KEYS).exists():
        raise StoreError(f"the keys of {folder} lie apart from it, in {_line(apart)}: name them with --keys")
    if keys is not None and not Path(keys).exists():
        raise StoreError(f"there are no keys in {keys}: name the file that the run was begun with")


def look(folder: str | Path, keys: str | Path | None = None) -> Look:
    """All that can be said of a run without running it; names where there are `keys` to open them."""
    held = holder(folder) if (Path(folder) / DATABASE).exists() else None
    with Database.open(database(folder), readonly=True) as db:
        noted, when = _begun(db, folder)
        names = client_names(db, folder, keys)
        asked = db.asked()
        last, ended, again = db.last("checkpoint"), db.last("ended"), list(db.entries(kind="resumed"))
        named = None if last is None else read_named(last.body)
        served = [
            (event, entry.at)
            for entry in db.entries(kind="event")
            if b"Served" in entry.body[:80] and isinstance(event := event_of(entry.body), Served)
        ]
        erased = [{**_table(read_plain(e.body)), "at": e.at} for e in db.entries(kind="erased")]
    over = ended is not None and last is not None and ended.number > last.number
    told = _table(read_plain(ended.body)) if over and ended is not None else {}
    since = again[-1].at if again else when
    words = [one for one in asked if one.kind in ("pause", "go", "stop") and (one.done_at or "") > since]
    table = _table(noted.get("table") or {})
    method = _table(table.get("method") or {}).get("name", "rfs" if table else "–")
    done = "" if named is None else named.stopped
    keyring = _keyring(folder, keys)
    return Look(
        folder=str(folder),
        name=_line(table.get("name", Path(folder).name)),
        method=_line(method),
        state=RUNNING if held else FINISHED if done else STOPPED,
        paused=held is not None and bool(words) and words[-1].kind == "pause",
        holder=held,
        rounds=0 if named is None else named.rounds,
        time=0.0 if named is None else named.time,
        clients=int(noted.get("clients", 0)),
        begun=when,
        kept=None if last is None else last.at,
        stopped=done,
        model=told.get("model"),
        lineage=_called(told["lineage"], names) if over else None,
        requests=[*_of_file(table, when, served, asked), *(_of(one, names, keyring) for one in asked)],
        erased=erased,
        sizes=sizes(folder, keys),
        resumed=len(again),
    )


def event_of(body: bytes) -> Event | None:
    """An event of the log: a round, or a request that was served. None where it cannot be read here."""
    with suppress(Unreadable, ValueError):
        event = Reader(body, _no_tensors).read()
        return event if isinstance(event, Round | Served) else None
    return None


def client_names(db: Database, folder: str | Path, keys: str | Path | None = None) -> dict[int, str]:
    """What clients are called, as far as their sealed names can be opened; who was erased has none."""
    sealed, keyring = db.client_names(), _keyring(folder, keys)
    found = {}
    for client, name in sealed.items():
        if keyring is not None and keyring.holds(client):
            with suppress(StoreError, UnicodeDecodeError):
                found[client] = _line(keyring.open(client, name, b"name").decode())
    return found


def named_in(folder: str | Path, keys: str | Path | None = None) -> dict[int, str]:
    """What the clients of a run are called, as far as the keys are there."""
    with Database.open(database(folder), readonly=True) as db:
        return client_names(db, folder, keys)


def number_of(folder: str | Path, who: str, keys: str | Path | None = None) -> int:
    """The number of a client that is called so, or has that number; who cannot be known is refused."""
    with Database.open(database(folder), readonly=True) as db:
        sealed, names = db.client_names(), client_names(db, folder, keys)
        gone = {c for e in db.entries(kind="erased") for c in _table(read_plain(e.body)).get("whole", [])}
        last = db.last("checkpoint")
    for client, name in names.items():
        if name == who:
            return client
    there: set[int] = set()
    with suppress(StoreError):  # one that is swept away meanwhile: then the run itself says who is not there
        there = (
            set() if last is None else set(Checkpoint.read(Path(folder), read_named(last.body).state).marks)
        )
    if who.isascii() and who.isdigit() and len(who) < 19:
        number = int(who)
        if number in gone:
            raise RequestError(f"client {number} was erased from {folder}: there is nothing left of it")
        if not there or number in there:
            return number
        raise RequestError(f"there is no client {number} in {folder}: it has {_span(there)}")
    if sealed and not names:
        raise RequestError(
            f"who {who!r} is cannot be known without the keys: name their file with --keys, or give a number"
        )
    if not sealed:
        raise RequestError(f"clients of {folder} have no names: give a number, such as 3, not {who!r}")
    raise RequestError(f"there is no client {who!r} in {folder}.{nearest(who, names.values())}")


def request(kind: str, numbers: Iterable[int], samples: list[int] | None) -> Erase | Join:
    """What is left in the inbox of a run."""
    clients = list(dict.fromkeys(numbers))
    if kind == "join":
        return Join(tuple(clients), Moment())
    if samples is not None and len(clients) != 1:
        raise RequestError("samples belong to one client: ask for each client's by itself")
    ids = None if samples is None else tuple(samples)
    return Erase(tuple(Target(client, ids) for client in sorted(clients)), Moment())


def outcome(folder: str | Path, asked: Asked, keys: str | Path | None = None) -> Wanted:
    """What became of a request, in words."""
    with Database.open(database(folder), readonly=True) as db:
        return _of(asked, client_names(db, folder, keys), _keyring(folder, keys))


def runs(folder: str | Path, deep: int = 4) -> list[Path]:
    """The folders of runs in and below a folder, a few levels deep; no symbolic link is followed."""
    place, found = Path(folder), []
    if not place.is_dir():
        raise ConfigError(f"there is no folder {place}")
    if (place / DATABASE).exists():
        found.append(place)
    if deep:
        with suppress(OSError):
            for entry in sorted(os.scandir(place), key=lambda one: one.name):
                if entry.is_dir(follow_symlinks=False) and not entry.name.startswith("."):
                    found += runs(entry.path, deep - 1)
    return found


def sizes(folder: str | Path, keys: str | Path | None = None) -> dict[str, int]:
    """What a run keeps, in bytes: its checkpoints, weights, database, keys, and what its end left."""
    place = Path(folder)
    left = [place / name for name in (CONFIG, *RESULTS)]
    parts = {
        "checkpoints": _files(place / STATE),
        "weights": _files(place / WEIGHTS),
        "database": [place / f"{DATABASE}{end}" for end in ("", "-wal", "-shm")],
        "keys": [Path(keys) if keys is not None else place / KEYS],
        "results": left,
    }
    return {what: sum(map(_size, paths)) for what, paths in parts.items()}


def discard(folder: str | Path, keys: str | Path | None = None) -> None:
    """Take a run away, overwritten as far as that goes; not while somebody runs it.

    Keys that lie apart go where they are named, and are this run's: another file is left alone.
    """
    place = Path(folder)
    if not (place / DATABASE).exists():
        return
    with Lock(place):
        apart = None
        with suppress(UnknotError):  # what is damaged is taken away all the same
            apart = begun(place).get("keys")
        if keys is not None and apart == str(Path(keys).absolute()) and os.path.lexists(keys):
            files.remove(Keyring(keys).path)
        if os.path.lexists(place / KEYS):
            files.remove(place / KEYS)
        for below in (STATE, WEIGHTS):
            if (place / below).is_dir() and not (place / below).is_symlink():
                files.sweep(place / below, ())
        for name in (CONFIG, *RESULTS, f"{DATABASE}-wal", f"{DATABASE}-shm", DATABASE):
            if os.path.lexists(place / name):
                files.remove(place / name)


def _begun(db: Database, folder: str | Path) -> tuple[Mapping[str, Any], str]:
    entry = next(iter(db.entries(kind="begun")), None)
    if entry is None:
        raise StoreError(f"{folder}: nothing was begun there yet: remove it, and begin again")
    return _table(read_plain(entry.body)), entry.at


def _keyring(folder: str | Path, keys: str | Path | None) -> Keyring | None:
    """The keys, where they are there and can be read: without them there are numbers."""
    path = Path(folder) / KEYS if keys is None else Path(keys)
    if keys is not None and not path.exists():
        raise StoreError(f"there are no keys in {path}: name the file that the run was begun with")
    return Keyring(path) if os.path.lexists(path) else None


def _of(asked: Asked, names: Mapping[int, str], keyring: Keyring | None) -> Wanted:
    told, reason = told_of(asked) if asked.kind in ("erase", "join") else ([], b"")
    what = asked.kind
    if told:

        def label(client: int) -> str:
            return names.get(client, f"client {client}")

        made = Erase(tuple(Target(*one) for one in told), Moment()) if what == "erase" else None
        what = made.told(label) if made else Join(tuple(c for c, _ in told), Moment()).told(label)
    elif asked.kind in ("erase", "join"):
        what = f"{asked.kind} (emptied: of a client that was erased since)"
    event = event_of(asked.outcome) if asked.state == "served" and asked.outcome else None
    refused = asked.state == "refused"
    why = _opened(keyring, told[0][0], asked.outcome if refused else reason, refused) if told else ""
    return Wanted(
        request=what,
        asked=asked.asked_at,
        state=asked.state,
        by=_line(asked.by),
        number=asked.number,
        served=asked.done_at if asked.state == "served" else None,
        round=event.round if isinstance(event, Served) else None,
        time=event.time if isinstance(event, Served) else None,
        why=why,
    )


def _opened(keyring: Keyring | None, client: int, sealed: bytes, refused: bool) -> str:
    if not sealed or keyring is None or not keyring.holds(client):
        return ""
    with suppress(StoreError, UnicodeDecodeError):
        return _line(keyring.open(client, sealed, b"outcome" if refused else b"reason").decode())
    return ""


def _of_file(
    table: Mapping[str, Any], when: str, served: list[tuple[Served, str]], asked: Iterable[Asked]
) -> list[Wanted]:
    """The requests of the file that a run comes from, with what became of them."""
    outside = [event_of(one.outcome) for one in asked if one.outcome and one.state == "served"]
    left = [(event, at) for event, at in served if event not in outside]
    found = []
    for one in table.get("request") or []:
        item = _table(one)
        kind = "erase" if "erase" in item else "join"
        who = item.get(kind, [])
        clients = list(who) if isinstance(who, list | tuple) else [who]
        try:
            made = request(kind, clients, item.get("samples"))
        except UnknotError:
            continue
        done = next((pair for pair in left if pair[0].request.startswith(made.told())), None)
        if done is not None:
            left.remove(done)
        found.append(
            Wanted(
                request=made.told(),
                asked=when,
                state="waiting" if done is None else "served",
                by="its file",
                at=str(Moment(item.get("round"), item.get("time"))),
                served=None if done is None else done[1],
                round=None if done is None else done[0].round,
                time=None if done is None else done[0].time,
            )
        )
    return found


def _called(lineage: object, names: Mapping[int, str]) -> list[str]:
    """``client 3 (2 units)`` by its name, where there is one."""
    found = []
    for line in lineage if isinstance(lineage, list | tuple) else ():
        word, _, rest = str(line).removeprefix("client ").partition(" ")
        name = names.get(int(word)) if word.isdigit() else None
        found.append(_line(line) if name is None else f"{name} {rest}".rstrip())
    return found


def _span(numbers: set[int]) -> str:
    listed = sorted(numbers)
    if len(listed) > 15:
        return f"{len(listed)} clients from {listed[0]} to {listed[-1]}"
    return f"these: {', '.join(map(str, listed))}"


def _table(value: object) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise StoreError("an entry of the log is not what it should be: it was changed")
    return value


def _line(text: object) -> str:
    """Without what would steer a terminal."""
    return "".join(letter if letter.isprintable() else "?" for letter in str(text)[:2000])


def _files(folder: Path) -> list[Path]:
    with suppress(OSError):
        return [Path(entry.path) for entry in os.scandir(folder)]
    return []


def _size(path: Path) -> int:
    with suppress(OSError):
        found = path.stat(follow_symlinks=False)
        return found.st_size if stat.S_ISREG(found.st_mode) else 0
    return 0


def _no_tensors(digest: str) -> Any:
    raise Unreadable("the log has no tensors")
