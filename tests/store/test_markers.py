"""A thousand markers of an erased client, whoever selects and however a run goes: none is left."""

import shutil
import sqlite3
from pathlib import Path

import pytest
from kept_runs import build, fast_folder, remove_tree, story
from killed_walks import Watch, chosen, moments_of
from store_crashes import killed
from test_nothing_is_left import (
    LEAVER,
    NAME,
    Marking,
    kept_items,
    marked_data,
    pieces,
    readable,
    searched,
    whole,
)

from unknot.core.requests import erase
from unknot.store import Database, Keyring, erasing
from unknot.store.checkpoint import Checkpoint
from unknot.store.entries import read_named
from unknot.store.inbox import leave
from unknot.store.keeper import RunKeeper

CASES = [
    ("bmt", "sync", None),
    ("rapid", "sync", None),
    ("sisa", "sync", None),
    ("fedcio", "buffered", None),
    ("knot mmt", "sync", None),
    ("knot", "buffered", None),
    ("federaser", "buffered", None),
    ("mmt", "buffered", "balanced"),
    ("standalone", "sync", None),
    ("rfs", "buffered", "dqn"),
    ("rfs", "sync", "dqn"),
    ("rfs", "sync", "k-center"),
    ("federaser", "sync", "k-center"),
    ("rapid", "buffered", "balanced"),
]
KILLED = [*CASES, ("fats", "sync", None), ("exact-fun", "sync", None), ("federaser", "sync", None)]
FEW = [("federaser", "sync", "k-center"), ("rfs", "sync", "dqn")]


def federation(case, engine):
    name, pace, selector = case
    return build(name, pace, selector, data=marked_data(), at_once=8, per_sample=1e-4, engine=engine)


def before(case, folder: Path, engine: Marking) -> None:
    """A run that is over; long enough for the leaver, who is slow, to come back."""
    fed = federation(case, engine)
    keeper = RunKeeper.create(fed, folder, every=0.0)
    fed.run(6 if case[1] == "buffered" else 3)
    keeper.close()


def erased(case, folder: Path, engine: Marking) -> dict:
    """Ask the run to forget, unless it was asked, and go on to its end."""
    fed = federation(case, engine)
    keeper = RunKeeper.go_on(fed, folder, every=0.0)
    try:
        if fed.stint.length.rounds == 2:
            return story(fed.resume())
        if not keeper.db.asked():
            leave(keeper.db, erase(LEAVER), keeper.keyring, "he asked us to")
        return story(fed.run(2))
    finally:
        keeper.close()


class Markers:
    """What must not be found after the erasure, and what must.

    Features and the name (`controls`) are in no file in the open, before or after. The evidence is in models
    that the leaver shaped and in its updates: those could be read before, with the keys.
    """

    def __init__(self, items, engine: Marking) -> None:
        self.items, self.engine = items, engine
        rows = marked_data().train.x[marked_data()[LEAVER].rows]
        self.shaped = {d: t for d, (t, _, clients) in items.items() if LEAVER in clients}
        self.controls = pieces(rows) | {NAME.encode(), NAME.encode("utf-16-le")}
        assert len(self.controls) > 1000

    def readable_in(self, folder: Path) -> set[bytes]:
        """Pieces of models and updates that whoever has the keys can read."""
        models = {piece for tensor in self.shaped.values() for piece in pieces(tensor)}
        return readable(folder, models | self.engine.marks.get(LEAVER, set()))

    def left_in(self, folder: Path) -> list[bytes]:
        """Those that are there; what the checkpoints since the erasure name was made without the leaver.

        It may have the same numbers: those of quantized models, or of a training that was drawn again.
        """
        whole(folder)
        with Database.open(folder / "run.db", readonly=True) as db:
            since = db.last("scrubbing").number
            named = {read_named(entry.body).state for entry in db.entries(since, kind="checkpoint")}
        states = {path.stem for path in (folder / "state").iterdir()}
        assert states <= named  # no checkpoint from before it
        digests = {digest for state in states for digest in Checkpoint.read(folder, state).tensors}
        clean = {piece for digest in digests for piece in pieces(self.items[digest][0])}
        models = {piece for tensor in self.shaped.values() for piece in pieces(tensor)} - clean
        return searched(folder, self.controls | self.engine.marks.get(LEAVER, set()) | models)


@pytest.mark.parametrize(
    "case",
    [c if i % 3 == 0 else pytest.param(c, marks=pytest.mark.slow) for i, c in enumerate(CASES)],
    ids=str,
)
def test_none_is_left_though_somebody_reads_and_others_keep_theirs(monkeypatch, tmp_path, case):
    monkeypatch.setattr(erasing, "PATIENCE", 0.05)
    items, engine, folder = kept_items(monkeypatch), Marking(), tmp_path / "run"
    before(case, folder, engine)
    markers = Markers(items, engine)
    assert markers.readable_in(folder)
    assert not searched(folder, markers.controls)
    assert LEAVER in engine.marks or case[0] == "standalone"  # where all is trained in one place
    others = {client for client in engine.marks if client != LEAVER}
    sealed = {d for d, (_, owner, _) in items.items() if owner in others} & whole(folder)
    reader = sqlite3.connect(folder / "run.db")
    reader.execute("BEGIN")
    reader.execute("SELECT count(*) FROM log").fetchall()
    erased(case, folder, engine)
    assert not markers.left_in(folder)
    reader.close()
    assert not markers.left_in(folder)
    keyring = Keyring(folder / "keys")
    assert keyring.destroyed(LEAVER)
    assert all(keyring.holds(client) for client in others)
    if case[0] == "federaser":  # its archive of the others stays
        assert sealed
        assert sealed <= whole(folder)
    with Database.open(folder / "run.db", readonly=True) as db:
        assert keyring.open(4, db.client_names()[4], b"name") == b"Hospital of Linz"


def killed_in_the_erasure(monkeypatch, case, stride: int) -> int:
    """Kill it at each point up to the erasure's end; go on, and search. How often it was killed."""
    monkeypatch.setattr(erasing, "PATIENCE", 0.05)
    base, items, engine = fast_folder(), kept_items(monkeypatch), Marking()
    try:
        before(case, base / "first", engine)
        markers = Markers(items, engine)
        assert markers.readable_in(base / "first")

        def serve(_: Watch) -> None:
            found.append(erased(case, base / "whole", engine))

        found: list[dict] = []
        shutil.copytree(base / "first", base / "whole")
        moments = moments_of(serve)
        last = max(n for n, (phase, _) in enumerate(moments, 1) if phase == "erasure")
        places = chosen(moments[:last])[::stride]  # with the clean checkpoint that comes first
        for number in places:
            folder = base / str(number)
            shutil.copytree(base / "first", folder)
            assert killed(number, lambda: erased(case, folder, Marking()))  # noqa: B023
            assert erased(case, folder, engine) == found[0], f"killed at {moments[number - 1]}"
            assert not markers.left_in(folder), f"killed at {moments[number - 1]}"
            with Database.open(folder / "run.db") as db:
                assert [asked.state for asked in db.asked()] == ["served"]
            remove_tree(folder)
        return len(places)
    finally:
        remove_tree(base)


@pytest.mark.parametrize("case", FEW, ids=str)
def test_killed_at_some_points_of_the_erasure_likewise(monkeypatch, case):
    assert killed_in_the_erasure(monkeypatch, case, stride=13) > 2


@pytest.mark.slow
@pytest.mark.parametrize("case", KILLED, ids=str)
def test_killed_at_every_point_of_the_erasure_likewise(monkeypatch, case):
    assert killed_in_the_erasure(monkeypatch, case, stride=1) > 30
