"""Once a client is erased, no byte of a run's folder has anything of it; everybody else's is as it was."""

import shutil
import sqlite3
from contextlib import suppress
from itertools import count
from pathlib import Path

import numpy as np
import pytest
import torch
from kept_runs import SIZES, build, dies, fast_folder, remove_tree, story
from vaults import digests

from support import ToyEngine, grid, small_data, with_vector
from unknot.core.digests import digest_of, raw
from unknot.core.requests import erase
from unknot.store import Database, Keyring, Vault, erasing
from unknot.store.checkpoint import Checkpoint
from unknot.store.entries import read_named
from unknot.store.inbox import leave
from unknot.store.keeper import RunKeeper
from unknot.store.keyring import KeyGone

LEAVER = 1
NAME = "Hospital of Graz 7f3a91"
METHODS = {  # those that keep something of the past
    "rfs": "sync",
    "federaser": "sync",
    "fats": "sync",
    "exact-fun": "sync",
    "knot": "sync",
    "mmt": "sync",
    "pga": "sync",
    "standalone": "sync",
    "distillation": "sync",
    "knot back": "sync",
}
UPDATES = ("exact-fun", "mmt")
"""Methods that keep an update of the leaver as it came; others what they made of it."""
APPROXIMATE = ("federaser", "pga", "distillation")
"""What they serve may be what the leaver's last visit made of it."""
SEALING = ("federaser", "exact-fun", "mmt", "pga", "distillation")


def patterns(n: int, seed: int) -> torch.Tensor:
    """Rows of eight numbers, of which no four come by chance."""
    return torch.from_numpy(np.random.default_rng(seed).uniform(0.5, 1.0, (n, 8)).astype(np.float32))


def pieces(tensor: torch.Tensor) -> set[bytes]:
    """A tensor's bytes, by sixteen."""
    content = bytes(raw(tensor))
    return {content[i : i + 16] for i in range(0, len(content) - 15, 16)} or {content} - {content[:7]}


def windows(tensor: torch.Tensor) -> set[bytes]:
    """All runs of sixteen bytes in it: rounded models have a few numbers, which come again elsewhere."""
    content = bytes(raw(tensor))
    return pieces(tensor) | {content[i : i + 16] for i in range(0, len(content) - 15, 4)}


class Marking(ToyEngine):
    """Gives each client's updates numbers that are nobody else's, and notes them."""

    def __init__(self) -> None:
        super().__init__()
        self.marks: dict[int, set[bytes]] = {}

    def train(self, jobs, data):
        updates = []
        for update in super().train(jobs, data):
            words = int(update.job.key.uniform(np.arange(1))[0] * 2**50) + update.job.client
            made = with_vector(update, patterns(1, words)[0])
            self.marks.setdefault(update.job.client, set()).update(pieces(made.weights.vector))
            updates.append(made)
        return updates


def marked_data():
    """The leaver's rows are a thousand patterns of sixteen bytes."""
    sizes = [500 if client == LEAVER else size for client, size in enumerate(SIZES)]
    data = small_data(sizes)
    data.train.x[data[LEAVER].rows] = patterns(500, seed=7)
    return data.replaced(names={LEAVER: NAME, 4: "Hospital of Linz"})


def searched(folder: Path, wanted) -> list[bytes]:
    """Which of these bytes are in any file of a folder."""
    content = b"\0".join(path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file())
    return [one for one in wanted if one in content]


def opened(folder: Path) -> bytes:
    """All numbers in a folder that whoever has its keys can read, sealed or not."""
    vault = Vault(folder / "weights", Keyring(folder / "keys"))
    found = []
    for digest in digests(vault):
        with suppress(KeyGone):
            found.append(bytes(raw(vault.get(digest))))
    return b"\0".join(found)


def readable(folder: Path, wanted) -> set[bytes]:
    """Which of these bytes can be read there with the keys."""
    content = opened(folder)
    return {one for one in wanted if one in content}


def kept_items(monkeypatch) -> dict[str, tuple]:
    """What is put on the disk from now on: by digest, its numbers, owner and clients."""
    found: dict[str, tuple] = {}
    put = Vault.put

    def noting(self, items):
        found.update({name: (item.tensor.clone(), item.owner, item.clients) for name, item in items.items()})
        return put(self, items)

    monkeypatch.setattr(Vault, "put", noting)
    return found


def whole(folder: Path) -> set[str]:
    """The digests of the last checkpoint, each of which is read."""
    with Database.open(folder / "run.db", readonly=True) as db:
        named = read_named(db.last("checkpoint").body)
    vault = Vault(folder / "weights", Keyring(folder / "keys"))
    tensors = Checkpoint.read(folder, named.state).tensors
    assert all(digest_of(vault.get(digest)) == digest for digest in tensors)
    return set(tensors)


def sealed_names(folder: Path) -> dict[int, bytes]:
    with Database.open(folder / "run.db", readonly=True) as db:
        return db.client_names()


def first_half(name: str, folder: Path) -> tuple[Marking, dict]:
    engine = Marking()
    fed = build(name, METHODS[name], data=marked_data(), at_once=8, per_sample=1e-4, engine=engine)
    RunKeeper.create(fed, folder, every=0.0)
    fed.run(3)
    fed.close()
    return engine, {}


def second_half(name: str, folder: Path, how: str, engine=None):
    """Go on, be asked to forget, and come to the end."""
    fed = build(
        name, METHODS[name], data=marked_data(), at_once=8, per_sample=1e-4, engine=engine or Marking()
    )
    keeper = RunKeeper.go_on(fed, folder, every=0.0)
    try:
        if fed.stint.length.rounds == 2:
            return story(fed.resume())
        if how == "inbox" and not keeper.db.asked():
            leave(keeper.db, erase(LEAVER), keeper.keyring, "he asked us to")
        return story(fed.run(2, requests=erase(LEAVER, round=3) if how == "run" else ()))
    finally:
        keeper.close()


@pytest.mark.parametrize(("name", "how"), grid(METHODS, ["run", "inbox"]))
def test_after_an_erasure_no_byte_of_the_client_is_left(monkeypatch, tmp_path, name, how):
    monkeypatch.setattr(erasing, "PATIENCE", 0.05)
    items = kept_items(monkeypatch)
    folder = tmp_path / "run"
    engine, _ = first_half(name, folder)
    features = pieces(marked_data().train.x[marked_data()[LEAVER].rows])
    assert len(features) == 1000
    own = {piece for tensor, owner, _ in items.values() if owner == LEAVER for piece in pieces(tensor)}
    shared = {c: t for c, (t, owner, clients) in items.items() if owner is None and LEAVER in clients}
    others = {c for c, (_, owner, _) in items.items() if owner not in (None, LEAVER)}
    assert bool(own) == (name in SEALING)
    # Features and names never lie there in the open, before or after: that they do not is no evidence of an
    # erasure. What is: models that the client had a part in could be read by all, and its own by its key.
    controls = features | {NAME.encode(), NAME.encode("utf-16-le")}
    markers = engine.marks.get(LEAVER, set()) | own
    assert not searched(folder, controls | markers)
    models = {p for t in shared.values() for p in pieces(t)}
    assert searched(folder, models)
    assert bool(readable(folder, own)) == (name in SEALING)
    assert bool(readable(folder, engine.marks.get(LEAVER, set()))) == (name in UPDATES)
    named = Keyring(folder / "keys").open(LEAVER, sealed_names(folder)[LEAVER], b"name")
    assert named.decode() == NAME
    before = whole(folder)

    reader = sqlite3.connect(folder / "run.db")
    reader.execute("BEGIN")
    reader.execute("SELECT count(*) FROM log").fetchall()
    second_half(name, folder, how, engine)
    after = whole(folder)
    left = {p for digest, tensor in shared.items() if digest not in after for p in pieces(tensor)}
    there = digests(Vault(folder / "weights", Keyring(folder / "keys")))
    untouched = {digest for digest in there if LEAVER not in items[digest][2]}  # that begins again, say
    clean = {p for digest in after | untouched for p in windows(items[digest][0])}
    gone = engine.marks.get(LEAVER, set()) | markers | (left - clean)
    assert left - clean
    assert not searched(folder, controls | gone)
    assert not readable(folder, gone)
    assert LEAVER not in sealed_names(folder)
    if name in ("federaser", "exact-fun"):
        assert others & before
        assert others & before <= after
    reader.close()
    assert not searched(folder, controls | gone)
    ring = Keyring(folder / "keys")
    assert ring.destroyed(LEAVER)
    assert not ring.holds(LEAVER)


@pytest.mark.parametrize(
    ("name", "stride"),
    [("federaser", 20), pytest.param("federaser", 1, marks=pytest.mark.slow)]
    + [pytest.param(name, 1, marks=pytest.mark.slow) for name in METHODS if name != "federaser"],
)
def test_killed_in_the_middle_of_it_likewise(monkeypatch, name, stride):
    monkeypatch.setattr(erasing, "PATIENCE", 0.05)
    base = fast_folder()
    items = kept_items(monkeypatch)
    try:
        engine, _ = first_half(name, base / "first")
        assert readable(
            base / "first", {p for t, _, who in items.values() if LEAVER in who for p in pieces(t)}
        )
        shared = {d: t for d, (t, owner, clients) in items.items() if LEAVER in clients}
        shutil.copytree(base / "first", base / "whole")
        expected = second_half(name, base / "whole", "inbox", engine)
        features = pieces(marked_data().train.x[marked_data()[LEAVER].rows])
        markers = features | engine.marks.get(LEAVER, set()) | {NAME.encode()}
        for moment in count(1, stride):
            folder = base / str(moment)
            shutil.copytree(base / "first", folder)
            died = dies(moment, lambda: second_half(name, folder, "inbox"))  # noqa: B023
            assert second_half(name, folder, "inbox", engine) == expected, f"killed at point {moment}"
            after = whole(folder)
            # Of the checkpoint before the last, too: whatever is there came after the erasure. Numbers go by
            # keys alone here, so that a model which begins again may have the bytes of one from before.
            there = digests(Vault(folder / "weights", Keyring(folder / "keys")))
            without = {d for d in there if name in APPROXIMATE or LEAVER not in items[d][2]}
            assert set(there) == without | after
            clean = {p for digest in without | after for p in windows(items[digest][0])}
            left = {p for digest, tensor in shared.items() if digest not in after for p in pieces(tensor)}
            own = engine.marks.get(LEAVER, set()) - (clean if name in APPROXIMATE else set())
            assert not searched(folder, (markers - clean) | own | (left - clean)), moment
            with Database.open(folder / "run.db") as db:
                assert [asked.state for asked in db.asked()] == ["served"]
            remove_tree(folder)
            if not died:
                break
        assert moment > 30
    finally:
        remove_tree(base)


@pytest.mark.parametrize("name", ["federaser", "exact-fun", "distillation"])
def test_whose_samples_are_erased_gets_a_new_key_and_the_old_one_opens_nothing(monkeypatch, tmp_path, name):
    items = kept_items(monkeypatch)
    folder = tmp_path / "run"
    first_half(name, folder)
    shutil.copytree(folder, tmp_path / "backup")
    old = Keyring(tmp_path / "backup" / "keys")
    own = [digest for digest, (_, owner, _) in items.items() if owner == LEAVER]
    there = Vault(tmp_path / "backup" / "weights", old)
    assert own
    fed = build(name, METHODS[name], data=marked_data(), at_once=8, per_sample=1e-4, engine=Marking())
    keeper = RunKeeper.go_on(fed, folder, every=0.0)
    samples = marked_data()[LEAVER].ids[:3].tolist()
    fed.run(1, requests=erase({LEAVER: samples}, round=3))
    keeper.close()
    new = Keyring(folder / "keys")
    backup = Vault(tmp_path / "backup" / "weights", new)
    readable = [digest for digest in own if digest in digests(there) and there.get(digest) is not None]
    assert readable
    for digest in readable:
        with pytest.raises(Exception, match="sealed"):
            backup.get(digest)
    with Database.open(folder / "run.db", readonly=True) as db:
        assert new.open(LEAVER, db.client_names()[LEAVER], b"name").decode() == NAME
    whole(folder)
    assert not searched(folder, pieces(marked_data().train.x[marked_data()[LEAVER].rows]) | {NAME.encode()})
