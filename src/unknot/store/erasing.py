"""Erasure on the disk: what carries an erased client goes, and what stays of it is noise.

All of it can be done twice: a crash in between is taken up again.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from unknot.core.by_number import Numbers, texts_in
from unknot.core.errors import StoreError
from unknot.core.form import plain_data
from unknot.core.requests import Label, numbered
from unknot.federation.events import Served
from unknot.federation.promise import BUT_FOR, SO_IS
from unknot.store import sealed
from unknot.store.checkpoint import STATE, Checkpoint
from unknot.store.database import Database
from unknot.store.entries import orders_of, plain, read_at, read_begun, read_plain, served_in
from unknot.store.files import remove, sweep
from unknot.store.files import told as tell
from unknot.store.folder import RunFolder
from unknot.store.inbox import body_of, hidden_of, told_of
from unknot.store.keyring import Keyring
from unknot.store.results import RESULTS, results_in
from unknot.store.rows import REFUSED, SERVED, Asked, is_count
from unknot.store.sample_ids import hide_anew

if TYPE_CHECKING:
    from unknot.federation import Federation

EACH = "each"
"""The log's word, at the beginning of a run, for its settings that have a value for each client."""
PATIENCE = 2.0
"""Seconds that readers of the database are waited for."""
LONGEST = 2000
"""So many letters of a guarantee are noted."""


def scrub(place: RunFolder, clean: Checkpoint, state: str, told: Scrubbing) -> dict[str, Any]:
    """Remove all but the clean checkpoint, the keys of who left, and what the database has of them.

    Who was erased in part gets a new key: what the erased samples shaped was sealed under the old one.
    """
    folder, whole = place.path, told.whole
    place.check()
    sweep(folder / STATE, {f"{state}.state"})
    place.keyring.destroy(whole)
    place.vault.retain(set(clean.tensors))
    renewed = [client for client in told.parts if place.keyring.holds(client)]
    place.keyring.renew(renewed)
    place.vault.reseal(set(renewed))
    place.check()
    for name in results_in(place.db, folder):
        remove(folder / name)
    with place.db.transaction():
        every = place.db.asked()  # once: there may be many
        orders = orders_of(every, served_in(place.db)) if whole else {}
        for asked in every:
            if asked.number in told.requests or not _empty(place.db, set(whole), asked, orders):
                _say_anew(place.db, place.keyring, set(renewed), asked)
        place.db.drop_clients(whole)
        _seal_names_anew(place.db, place.keyring, set(renewed))
        place.db.drop_sealed(sealed.IDS, place.db.sealed(sealed.IDS).keys() - set(clean.ids))
        sealed.seal_anew(place.db, place.keyring, set(renewed))
    place.keyring.drop_old(renewed)
    return {
        "whole": list(whole),
        "parts": list(told.parts),
        "requests": list(told.requests),
        **told.there.less(There.of(place)),
        "keys": len(whole) + len(renewed),
        "keys_written": place.keyring.written,
        "approximate": told.approximate,
        "known": list(told.known),
        "settings": list(told.settings),
        "guarantee": told.guarantee,
        "truncated": place.db.truncate(PATIENCE),
    }


@plain_data
@dataclass(frozen=True)
class There:
    """What lies in a run's folder of which an erasure removes some, or all.

    It is logged before anything goes: what went before a crash is told of as well.
    """

    checkpoints: int = 0
    packs: int = 0
    tensors: int = 0
    bytes: int = 0
    """Of these files, and of results."""
    results: tuple[str, ...] = ()
    """A picture is called one, whatever its name says."""

    @staticmethod
    def of(place: RunFolder) -> There:
        """What there is now."""
        folder, (packs, weights, tensors) = place.path, place.vault.held
        results = results_in(place.db, folder)
        with tell("look through", folder):
            states = [path for path in (folder / STATE).iterdir() if path.suffix == ".state"]
            files = (*states, *(folder / name for name in results))
            sizes = sum(path.stat(follow_symlinks=False).st_size for path in files)
        shown = (name if name in RESULTS else "a picture" for name in results)
        return There(len(states), packs, tensors, weights + sizes, tuple(shown))

    def less(self, left: There) -> dict[str, Any]:
        """What has gone since, where so much is `left`."""
        counts = ("checkpoints", "packs", "tensors", "bytes")
        gone = {name: max(0, getattr(self, name) - getattr(left, name)) for name in counts}
        return {**gone, "results": [name for name in self.results if name not in left.results]}

    def check(self) -> bool:
        """Whether what was read is what a run writes."""
        counts = (self.checkpoints, self.packs, self.tensors, self.bytes)
        texts = type(self.results) is tuple and all(type(name) is str for name in self.results)
        return texts and all(map(is_count, counts))


@plain_data
@dataclass(frozen=True)
class Scrubbing:
    """The log's entry of an erasure that is to reach the disk; a clean checkpoint is logged with it."""

    whole: tuple[int, ...]
    """Who was erased."""
    parts: tuple[int, ...]
    """Of whom samples were."""
    requests: tuple[int, ...]
    """The numbers of the requests from outside that asked for it."""
    approximate: str = ""
    """The method, where it is approximate: what it serves may know them still."""
    known: tuple[int, ...] = ()
    """Whom of them the method knowingly keeps something of."""
    settings: tuple[str, ...] = ()
    """The settings of the experiment that are a name of theirs, or have it, and stay."""
    there: There = There()
    """What there was before anything was removed."""
    guarantee: str = ""
    """What was promised, with what it does not cover, in words; clients go by number in it."""

    @staticmethod
    def of(
        place: RunFolder, fed: Federation, erased: Collection[Served], requests: Sequence[int]
    ) -> Scrubbing:
        """What is to go from a run's folder once these were `erased`, as `requests` from outside asked."""
        assert fed.history is not None
        whole = {client for event in erased for client in event.leavers}
        parts = {client for event in erased for client in event.parts} - whole
        return Scrubbing(
            tuple(sorted(whole)),
            tuple(sorted(parts)),
            tuple(requests),
            "" if fed.method.exact else fed.method.name,
            tuple(sorted((whole | parts) & fed.state.kept_of.clients)),
            called_so(place.db, place.keyring, whole, fed.history.setup),
            There.of(place),
            fed.serving.uncovered.promise(fed.method, fed.state, numbered)[:LONGEST],
        )

    def check(self) -> None:
        """Raise unless what was read is what a run writes."""
        if type(self.settings) is not tuple or not all(type(place) is str for place in self.settings):
            raise StoreError("an entry of the log names no settings: it was changed")
        for numbers in (self.whole, self.parts, self.requests, self.known):
            if type(numbers) is not tuple or not all(map(is_count, numbers)):
                raise StoreError("an entry of the log names no clients: it was changed")
        texts = type(self.approximate) is type(self.guarantee) is str
        if not texts or not isinstance(self.there, There) or not self.there.check():
            raise StoreError("an entry of the log does not say what is to be erased: it was changed")


def scrubbing_of(body: bytes) -> Scrubbing:
    """What an entry of the log says is to be removed, once it was found to be what a run writes."""
    told = read_plain(body)
    if not isinstance(told, Scrubbing):
        raise StoreError("an entry of the log does not say what is to be erased: it was changed")
    told.check()
    return told


def stays(erased: Mapping[str, Any], each: object = None, label: Label = numbered) -> list[str]:
    """What is left after an erasure that the log tells of, and why, a line each.

    `each` are the settings with a value for each client, by name.

    But for what a method knowingly keeps, no line names who was erased, by `label`: those of several erasures
    are the same, and need be said once. Results are what the run's end leaves: config.toml, record.json and
    report.html.
    """
    whole, parts, known = (_clients(erased.get(name), label) for name in ("whole", "parts", "known"))
    found = []
    if whole:
        found += [
            "an erased client's number, when it was erased, and who asked: so that it stays erased (log, "
            "requests, checkpoint, keys, results)",
            "when it was at work, in which cluster, and how long, which tells about how many samples it had "
            "(log, results)",
            "figures of the rounds that it was part of: mean training loss, costs, scores (log, results)",
            "what all data was like when the run was begun: samples in all, names of classes and of columns "
            "(log, checkpoint, results)",
        ]
        if settings := _of_each(each):
            found.append(f"settings with a value a client: {', '.join(settings)} (log, checkpoint, results)")
        found += [
            f"the setting {place} is its name, or has it: a run is what its settings say "
            "(log, checkpoint, results)"
            for place in erased.get("settings", ())
        ]
    if parts:
        found.append(
            "how many samples were erased; which, sealed until their client goes (config.toml has those that "
            "the run's own file names)"
        )
    if method := erased.get("approximate"):
        also = f", and keeps what {known} had a part in" if known else ""
        found.append(f"the model may still know what was erased: {str(method)[:100]} is approximate{also}")
    promised = str(erased.get("guarantee", ""))
    if any(sign in promised for sign in (BUT_FOR, SO_IS)):
        found.append(f"what the guarantee does not cover: {promised}")
    if whole or parts:
        found.append(
            "the files that it was read from, and copies (backups, snapshots, models): they are yours"
        )
    return found


def called_so(
    db: Database, keyring: Keyring, clients: Collection[int], setup: Mapping[str, Any]
) -> tuple[str, ...]:
    """The settings of a run, or of its `setup` in Python, that are a name of these clients, or have it.

    Asked while names can still be opened. What lists clients has their numbers, and is none of these.
    """
    entry = db.last("begun")
    table = None if entry is None else read_begun(entry.body).get("table")
    names = {}
    for client, sealed_name in db.client_names().items():
        if client in clients:
            with suppress(StoreError, UnicodeDecodeError):
                names[client] = keyring.open(client, sealed_name, b"name").decode()
    theirs, settings = Numbers(names), setup if table is None else table
    found = (place for place, text in texts_in(settings) if place and theirs.within(text))
    return tuple(dict.fromkeys(found))


def _of_each(settings: object) -> list[str]:
    """The settings with a value a client, as the log notes them at the beginning."""
    listed = settings if isinstance(settings, list | tuple) else ()
    return [one for one in listed if isinstance(one, str)]


def _clients(numbers: object, label: Label) -> str:
    listed = [n for n in numbers if type(n) is int] if isinstance(numbers, list | tuple) else []
    return ", ".join(map(label, listed))


def _empty(db: Database, gone: Collection[int], asked: Asked, orders: Mapping[int, int]) -> bool:
    """Forget what had been asked about who left, whoever asked, once it is over; whether that was so."""
    if not gone or asked.state not in (SERVED, REFUSED):
        return False
    if not any(client in gone for client, _ in hidden_of(asked)[0]):
        return False
    db.blank({asked.number: _moment(asked, orders.get(asked.number))})
    return True


def _moment(asked: Asked, order: int | None) -> bytes:
    """When a request was served, and as which, without whom it named."""
    at = read_at(asked.outcome) if asked.state == SERVED else None
    return b"" if at is None else plain(replace(at, order=order))


def leave_ids_out(db: Database, keyring: Keyring, asked: Asked) -> bool:
    """Of whom nothing is left, a request names no samples any more; whether it did, and was changed."""
    return _say_anew(db, keyring, (), asked)


def _say_anew(db: Database, keyring: Keyring, renewed: Collection[int], asked: Asked) -> bool:
    """Leave out the ids of samples of whom nothing is left, and seal what is said of others under new keys.

    It comes to the same: whether all of an erased client is asked for or a part, it is gone. So is the
    reason, which may tell of any client of the request.
    """
    told, before = hidden_of(asked)
    if not told:
        return False
    reason = b"" if any(keyring.destroyed(client) for client, _ in told) else before
    first, outcome = told[0][0], asked.outcome
    said = [(client, None if keyring.destroyed(client) else samples) for client, samples in told]
    if any(client in renewed for client, _ in said):
        said = hide_anew(keyring, said, renewed)
    if first in renewed and reason:
        reason = _anew(keyring, first, reason, b"reason")
    if first in renewed and asked.state == REFUSED and outcome:
        outcome = _anew(keyring, first, outcome, b"outcome")
    if first not in renewed and said == told and reason == before:
        return False
    db.reword(asked.number, body_of(said, reason), outcome)
    return True


def _seal_names_anew(db: Database, keyring: Keyring, clients: Collection[int]) -> None:
    """Seal the names of these clients under their new keys."""
    names = {
        client: anew
        for client, sealed in db.client_names().items()
        if client in clients and (anew := _anew(keyring, client, sealed, b"name"))
    }
    db.name_clients(names)


def _anew(keyring: Keyring, client: int, sealed: bytes, about: bytes) -> bytes:
    """The same under the client's newest key; nothing where it cannot be read."""
    try:
        return keyring.seal(client, keyring.open(client, sealed, about), about)
    except StoreError:
        return b""


def sealed_for(keyring: Keyring, asked: Asked, text: str) -> bytes:
    """A text about a request, for who has the key of the client that it names first."""
    told, _ = told_of(asked)
    if not told or keyring.destroyed(told[0][0]):
        return b""
    return keyring.seal(told[0][0], text.encode(), b"outcome")
