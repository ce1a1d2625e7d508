"""Whatever is done to a run's folder: it is told in words; nothing outside is touched, nothing executed."""

import contextlib
import io
import os
import random
import shutil
import sys
import sysconfig
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from kept_runs import REQUESTS, ROUNDS, build, fast_folder, remove_tree
from spoilt_folders import BLIND, CANARY, KNOWING, state
from typer.main import get_command

from events import heard_by
from unknot.cli import app
from unknot.core.errors import StoreError, UnknotError
from unknot.core.requests import erase
from unknot.experiments import kept
from unknot.store.inbox import leave
from unknot.store.keeper import RunKeeper

CASE = ("federaser", "sync")
TABLE = {
    "data": {"name": "digits", "partition": "iid", "clients": 8, "samples": 12, "validation": 20},
    "model": {"name": "mlp"},
    "train": {"batch_size": 12},
    "federation": {"rounds": 3, "per_round": 3},
    "method": {"name": "federaser"},
    "request": [{"erase": 1, "round": 1}],
}
COMMAND = get_command(app)
WRITES = (
    "os.remove",
    "os.rename",
    "os.link",
    "os.symlink",
    "os.mkdir",
    "os.rmdir",
    "os.truncate",
    "os.chmod",
)
READS = ("os.listdir", "os.scandir", "sqlite3.connect")
PYTHON = (*filter(None, sys.path), *sysconfig.get_paths().values())
RUNS = ("subprocess.Popen", "os.system", "os.exec", "os.posix_spawn", "pickle.find_class", "ctypes.dlopen")


class Seen:
    """What was read, written and executed while it is looked at, by Python's own account of it."""

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        self.read: set[str] = set()
        self.written: set[str] = set()
        self.executed: set[str] = set()

    def __call__(self, event: str, arguments: tuple) -> None:
        if event == "open" and isinstance(arguments[0], str | bytes):
            flags = arguments[2] or 0
            writes = flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC)
            (self.written if writes else self.read).add(os.fsdecode(arguments[0]))
        elif event in WRITES:
            self.written.update(os.fsdecode(one) for one in arguments[:2] if isinstance(one, str | bytes))
        elif event in READS and isinstance(arguments[0], str | bytes):
            self.read.add(os.fsdecode(arguments[0]))
        elif event in RUNS or (event == "import" and str(arguments[0]).startswith(CANARY)):
            self.executed.add(f"{event} {arguments[0]}")

    @contextlib.contextmanager
    def looking(self):
        self.clear()
        with heard_by(self):
            yield


SEEN = Seen()


def outside(paths: set[str], folder: Path) -> set[str]:
    """Those that do not lie in the folder; a name alone is one within a folder that was opened before."""
    places = {path.removeprefix("file:").split("?")[0] for path in paths}
    places = {path for path in places if not path.startswith(PYTHON)}  # what is imported late
    return {
        path
        for path in places
        if "/../" in path
        or (
            path != str(folder)
            and not path.startswith(f"{folder}/")
            and ("/" in path or path in ("", ".", ".."))
        )
    }


@pytest.fixture(scope="module")
def run():
    """A run that was broken off after an erasure, with requests that wait and names."""
    base = fast_folder().resolve()
    fed = build(*CASE)
    keeper = RunKeeper.create(fed, base / "run", every=0.0, table=TABLE)
    fed.begin(ROUNDS, requests=REQUESTS)
    while len(fed.history.served) < 3:
        fed.step()
    leave(keeper.db, erase({2: [0]}), keeper.keyring, "why not")
    leave(keeper.db, erase(3), keeper.keyring)
    keeper.close()
    yield base / "run"
    remove_tree(base)


def go_on(folder: Path, made_up: bool) -> None:
    """Some steps of the run.

    A checkpoint that somebody `made_up`, with right digests, may be one that no method can go on with: then
    what is raised is the method's own.
    """
    fed = build(*CASE)
    keeper = RunKeeper.go_on(fed, folder, every=0.0)
    try:
        for _ in range(3):
            fed.step()
    except Exception as error:
        raise (StoreError("no method can go on with it") if made_up else error) from error
    finally:
        keeper.close()


def call(*arguments: str) -> bool:
    """Whether a command does what it is asked; if not, it says why in words."""
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        try:
            COMMAND(list(arguments))
        except SystemExit as end:
            return not end.code
    raise AssertionError("a command ends its process")


def told(work: Callable[[], object]) -> bool:
    """Whether something can be done; if not, that is said on purpose."""
    try:
        work()
    except UnknotError:
        return False
    return True


def use(folder: Path, draw: random.Random, made_up: bool = False) -> list[bool]:
    """Look at the folder, ask it for something and go on with it: what of that could be done."""
    return [
        call("show", str(folder), *draw.choice(((), ("--json",)))),
        call("forget", str(folder), "--client", f"#{draw.choice('47')}", "--reason", "asked"),
        told(lambda: kept.experiment_of(folder)),
        told(lambda: go_on(folder, made_up)),
    ]


def contents(folder: Path) -> dict[str, bytes]:
    """What is never written in place: all but the database and the lock."""
    apart = ("lock", ".lock-keys", "run.db-shm", "run.db", "run.db-wal")
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and not path.is_symlink() and path.name not in apart
    }


def fuzz(run: Path, ways, cases: int, seed: int) -> tuple[Counter, list[str]]:
    """How often each way was refused somewhere; and what came out that must not."""
    folder, canary = run.parent / "spoilt", run.parent / "outside" / "canary"

    def lay() -> None:
        remove_tree(folder)
        remove_tree(canary.parent)
        shutil.copytree(run, folder)
        canary.parent.mkdir()
        canary.write_bytes(b"unknot keys 1\n\0\0 canary")

    for _ in range(2):  # the first time, what is imported late is imported
        lay()
        with SEEN.looking():
            assert use(folder, random.Random(0)) == [True] * 4
        usual = outside(SEEN.read, folder)
        assert not outside(SEEN.written, folder)
    refused, wrong = Counter(), []
    for case in range(cases):
        draw = random.Random(f"{seed} {case}")
        lay()
        way = draw.choice(ways)
        said = f"case {seed} {case}: {way.__name__}: {way(folder, draw)}"
        before = contents(folder)
        there = {path.name: path.read_bytes() for path in canary.parent.rglob("*") if path.is_file()}
        started = time.monotonic()
        try:
            with SEEN.looking():
                done = use(folder, draw, way is state)
        except Exception as error:
            wrong.append(f"{said}: {type(error).__name__}: {error}")
            continue
        refused[way.__name__] += not all(done)
        strange = outside(SEEN.read, folder) - usual
        if SEEN.executed or outside(SEEN.written, folder) or strange:
            wrong.append(f"{said}: {SEEN.executed} {outside(SEEN.written, folder)} {strange}")
        if there != {path.name: path.read_bytes() for path in canary.parent.rglob("*") if path.is_file()}:
            wrong.append(f"{said}: what lies outside was changed")
        if way in BLIND and not done[-1] and contents(folder) != before:
            wrong.append(f"{said}: it was refused, and something was changed")
        if time.monotonic() - started > 10:
            wrong.append(f"{said}: it took {time.monotonic() - started:.0f} s")
    return refused, wrong


@pytest.mark.parametrize("cases", [30, pytest.param(4000, marks=pytest.mark.slow)])
def test_damage_is_told_and_nothing_is_overwritten(run, cases):
    refused, wrong = fuzz(run, BLIND, cases, seed=1)
    assert not wrong
    assert min(refused[way.__name__] for way in BLIND) > cases // 20


@pytest.mark.parametrize("cases", [45, pytest.param(6000, marks=pytest.mark.slow)])
def test_what_somebody_made_up_is_told_and_nothing_is_executed(run, cases):
    refused, wrong = fuzz(run, KNOWING, cases, seed=2)
    assert not wrong
    assert set(refused) == {way.__name__ for way in KNOWING}
