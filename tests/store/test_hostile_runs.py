"""A run's folder that somebody made up: it is refused in words, quickly, and nothing of it is executed."""

import copy
import hashlib
import io
import random
import resource
import shutil
import struct
import time
from contextlib import suppress
from dataclasses import asdict, replace
from pathlib import Path

import msgspec
import pytest
from kept_runs import REQUESTS, ROUNDS, build, fast_folder, go, remove_tree
from rich.console import Console

from unknot.core.errors import StoreError, UnknotError
from unknot.core.form import FORMAT, pack
from unknot.core.lineage import NOBODY, Lineage, Unit
from unknot.core.registry import imports
from unknot.core.requests import erase
from unknot.experiments import kept
from unknot.report.runs import sheet
from unknot.store import Database, Keyring
from unknot.store.checkpoint import Serves
from unknot.store.entries import plain, read_event, read_named, read_plain
from unknot.store.inbox import leave
from unknot.store.keeper import RunKeeper
from unknot.store.look import look
from unknot.store.rows import START, Asked, entry_hash
from unknot.store.sealed import IDS, MARKS, SAMPLES
from unknot.store.watching import Watching

CASE = ("federaser", "sync")


@pytest.fixture(scope="module")
def run():
    base = fast_folder()
    fed = build(*CASE)
    keeper = RunKeeper.create(fed, base / "run", every=0.0)
    fed.run(ROUNDS, requests=REQUESTS)
    leave(keeper.db, erase({2: [0]}), keeper.keyring, "why not")
    keeper.close()
    yield base / "run"
    remove_tree(base)


def log_of(run: Path) -> list[tuple[str, bytes]]:
    with Database.open(run / "run.db", readonly=True) as db:
        return [(entry.kind, entry.body) for entry in db.entries()]


def forge(run: Path, folder: Path, log, states=None, inbox=()) -> None:
    """The same folder with another log, with right hashes, and other state files under their own digests."""
    remove_tree(folder)
    shutil.copytree(run, folder)
    with Database.open(folder / "run.db", readonly=True) as db:
        sealed = {kind: db.sealed(kind) for kind in (SAMPLES, MARKS, IDS)}
    (folder / "run.db").unlink()
    for suffix in ("-wal", "-shm"):
        (folder / f"run.db{suffix}").unlink(missing_ok=True)
    with Database.create(folder / "run.db") as db:
        number, previous, rows = 0, START, []
        for number, (kind, body) in enumerate(log, 1):
            found = entry_hash(previous, number, kind, "then", body)
            rows.append((number, kind, body, "then", previous, found))
            previous = found
        db._many("INSERT INTO log VALUES (?, ?, ?, ?, ?, ?)", rows)
        for asked in inbox:
            db._put(asked)
        for kind, parts in sealed.items():
            db.keep_sealed(kind, parts)
    for content in states or ():
        (folder / "state" / f"{hashlib.sha256(content).hexdigest()}.state").write_bytes(content)


def but_for_checkpoints(log):
    """So that there is no older one to go back to."""
    return [entry for entry in log if entry[0] != "checkpoint"]


def mangled(content: bytes, draw: random.Random) -> bytes:
    """The same bytes, but for something."""
    made = bytearray(content)
    for _ in range(draw.choice((1, 1, 2, 5))):
        if not made:
            break
        place = draw.randrange(len(made))
        how = draw.randrange(7)
        if how == 0:
            made[place] = draw.randrange(256)
        elif how == 1:
            made[place : place + 8] = struct.pack(
                "<Q", draw.choice((0, 1, 2**31, 2**62, 2**64 - 1, len(made)))
            )
        elif how == 2:
            del made[place : place + draw.randrange(1, 40)]
        elif how == 3:
            other = draw.randrange(len(made))
            made[place:place] = made[other : other + draw.randrange(1, 60)]
        elif how == 4:
            made[place] = draw.choice(b"NTFKIJDSBAGXPCMRVWO")
        elif how == 5:
            made[place:] = b""
        else:
            made[place:place] = b"Cl" + struct.pack("<Q", 1) if draw.random() < 0.5 else b"R" + bytes(8)
    return bytes(made)


def opens(folder: Path) -> bool:
    """Whether it can be gone on with; if not, that is said in words."""
    fed = build(*CASE)
    try:
        keeper = RunKeeper.go_on(fed, folder)
    except UnknotError:
        return False
    try:
        with suppress(UnknotError):
            keeper.requests(fed)
    finally:
        keeper.close()
    return True


def fuzz(run: Path, folder: Path, kind: str, cases: int, seed: int) -> int:
    """How many were refused."""
    draw, log, refused = random.Random(seed), log_of(run), 0
    last = max(i for i, (what, _) in enumerate(log) if what == "checkpoint")
    named = read_named(log[last][1])
    state = (run / "state" / f"{named.state}.state").read_bytes()
    with Database.open(run / "run.db", readonly=True) as db:
        inbox = db.asked()
    for _ in range(cases):
        made, states, asked = list(log), [], inbox
        if kind == "state":
            content = mangled(state, draw)
            states = [content]
            changed = copy.copy(named)
            object.__setattr__(changed, "state", hashlib.sha256(content).hexdigest())
            made = [*but_for_checkpoints(log), ("checkpoint", plain(changed))]
        elif kind == "log":
            place = draw.randrange(len(log))
            made[place] = (log[place][0], mangled(log[place][1], draw))
            if draw.random() < 0.3:
                del made[draw.randrange(len(made))]
        else:
            body = mangled(inbox[0].body, draw)
            asked = [Asked(1, draw.choice(("erase", "join", "stop", "odd")), body, "x", "then")]
        forge(run, folder, made, states, asked)
        started = time.monotonic()
        refused += not opens(folder)
        assert time.monotonic() - started < 5
    return refused


@pytest.mark.parametrize("kind", ["state", "log", "inbox"])
@pytest.mark.parametrize("cases", [40, pytest.param(3400, marks=pytest.mark.slow)])
def test_whatever_it_says_it_is_refused_in_words_or_read(run, kind, cases):
    folder = run.parent / f"forged {kind}"
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    refused = fuzz(run, folder, kind, cases, seed=cases)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 500_000
    if kind != "inbox":
        assert refused > cases // 4


def written(told) -> bytes:
    return msgspec.msgpack.encode([FORMAT, told])


def nested(depth: int) -> list:
    return ["l", nested(depth - 1)] if depth else ["l"]


HOSTILE = {
    "an unknown class": written(["o", ["os:system"]]),
    "a class of Python's": written(["o", ["builtins:eval"]]),
    "deep": written(nested(500)),
    "a reference to nothing": written(["R", 7]),
    "a reference to itself": written(["o", ["unknot.core.requests:Moment", "round", "time"], ["R", 0], None]),
    "an array of objects": written(["n", "|O", [1], bytes(8)]),
    "an array too large": written(["n", "<f8", [2**30, 2**30], b""]),
    "another format": msgspec.msgpack.encode([FORMAT + 1, None]),
    "no format": msgspec.msgpack.encode("x"),
    "nothing": b"",
}


@pytest.mark.parametrize("where", ["begun", "checkpoint", "scrubbing", "event"])
@pytest.mark.parametrize("content", HOSTILE.values(), ids=HOSTILE)
def test_hostile_entries_of_the_log_are_refused(run, where, content):
    folder = run.parent / "hostile"
    log = log_of(run)
    place = max(i for i, (what, _) in enumerate(log) if what == where)
    if where == "scrubbing":
        log = [entry for entry in log if entry[0] != "erased"]
    else:
        log[place] = (where, content)
    log = [(what, content if what == where == "scrubbing" else body) for what, body in log]
    forge(run, folder, log)
    with pytest.raises(UnknotError):
        RunKeeper.go_on(build(*CASE), folder)


@pytest.mark.parametrize("content", HOSTILE.values(), ids=HOSTILE)
def test_hostile_states_are_refused(run, content):
    folder = run.parent / "hostile"
    log = log_of(run)
    place = max(i for i, (what, _) in enumerate(log) if what == "checkpoint")
    for state in (content, pack([content, {}, {}])):
        named = copy.copy(read_named(log[place][1]))
        object.__setattr__(named, "state", hashlib.sha256(state).hexdigest())
        forge(run, folder, [*but_for_checkpoints(log), ("checkpoint", plain(named))], [state])
        with pytest.raises(StoreError):
            RunKeeper.go_on(build(*CASE), folder)


@pytest.mark.parametrize("name", ["../../../etc/passwd", "/etc/passwd", "x" * 64, "a\0b", ""])
def test_a_checkpoint_that_lies_elsewhere_is_not_looked_at(run, name):
    folder = run.parent / "hostile"
    log = log_of(run)
    place = max(i for i, (what, _) in enumerate(log) if what == "checkpoint")
    named = copy.copy(read_named(log[place][1]))
    object.__setattr__(named, "state", name)
    forge(run, folder, [*but_for_checkpoints(log), ("checkpoint", plain(named))])
    with pytest.raises(StoreError, match="not the name of a file of ours"):
        RunKeeper.go_on(build(*CASE), folder)


def test_keys_are_not_looked_for_where_a_log_says(run, tmp_path):
    folder = run.parent / "hostile"
    log = log_of(run)
    begun = {"environment": {}, "table": None, "keys": str(tmp_path / "elsewhere"), "clients": 8}
    forge(run, folder, [("begun", plain(begun)), *log[1:]])
    with pytest.raises(StoreError, match="are kept apart"):
        RunKeeper.go_on(build(*CASE), folder)
    assert not list(tmp_path.iterdir())


def test_the_same_folder_forged_without_a_change_is_gone_on_with(run):
    """So that the others are refused for what is wrong with them."""
    forge(run, run.parent / "same", log_of(run))
    assert opens(run.parent / "same")
    go(build(*CASE), run.parent / "same")


TABLE = {
    "data": {"name": "digits", "partition": "iid", "clients": 4, "samples": 12},
    "model": {"name": "mlp"},
    "train": {"batch_size": 32},
    "federation": {"rounds": 1},
    "method": {"name": "rfs"},
}


def begun_with(run: Path, table) -> Path:
    folder = run.parent / "hostile table"
    mark = Keyring(run / "keys").mark
    entry = {"environment": {}, "table": table, "keys": None, "mark": mark, "clients": 8}
    forge(run, folder, [("begun", plain(entry)), *log_of(run)[1:]])
    return folder


@pytest.mark.parametrize(
    "table",
    [
        {"model": {"name": "antigravity_of_somebody:run"}},
        {"method": {"name": "os:system", "command": "touch /tmp/hostile"}},
        {"method": {"name": "knot", "retrain": {"name": "os:system"}}},
        {"data": {"name": "os.path:join"}},
        {"data": {"partition": "os:system"}},
        {"train": {"optimizer": "\u2118x:run"}},  # a name in Python, and none in a pattern of words
        {"task": {"metrics": ["os:system"]}},
        {"task": {"loss": {"name": "os:system"}}},
        {"engine": {"name": " os:system"}},
        {"modules": "/tmp", "select": {"name": "a-b:Thing"}},
    ],
)
def test_what_a_folder_names_of_pythons_is_not_imported(run, table, monkeypatch):
    monkeypatch.setattr(imports, "_module", lambda *_: pytest.fail("it was imported"))
    with pytest.raises(StoreError, match="names code"):
        kept.resume(begun_with(run, table))


def test_a_text_with_a_colon_is_no_code(run):
    said = {"data": {"name": "texts", "path": "/nowhere", "label": "a", "prompt": "Text:{text}"}}
    assert kept.experiment_of(begun_with(run, said)).data.options["prompt"] == "Text:{text}"
    said = {"data": {"name": "folder", "path": "/nowhere", "target": "column:Thing"}}
    assert kept.experiment_of(begun_with(run, said)).data.options["target"] == "column:Thing"


def test_every_file_that_a_folder_names_can_be_shown(run):
    said = {"data": {"name": "folder", "path": "../near"}, "model": {"initial": "/far/model.safetensors"}}
    said["select"] = {"name": "dqn", "policy": "/far/policy"}
    assert kept.reads(begun_with(run, said)) == ["../near", "/far/model.safetensors", "/far/policy"]
    said = {"data": {"name": "texts", "path": "/far/texts.csv", "tokenizer": "bytes"}}
    assert kept.reads(begun_with(run, said)) == ["/far/texts.csv"]


@pytest.mark.parametrize("harm", ["log", "keys"])
def test_no_file_that_a_folder_names_is_opened_before_the_folder_is_known_to_be_whole(run, harm, monkeypatch):
    folder = begun_with(run, {"data": {"name": "folder", "path": "/nowhere"}})
    monkeypatch.setattr(kept, "read", lambda _: pytest.fail("it was read"))
    if harm == "keys":
        (folder / "keys").write_bytes(b"rubbish")
    else:
        with Database.open(folder / "run.db") as db:
            db._many("UPDATE log SET body = ? WHERE number = ?", [(b"other", 2)])
    with pytest.raises(StoreError):
        kept.resume(folder)


def jumbled(table, draw: random.Random):
    """The same table, but for something."""
    odd = [
        None,
        -1,
        2**70,
        float("nan"),
        "x" * 1000,
        "../..",
        {},
        [],
        [[[]]],
        {"name": {}},
        "os:system",
        True,
        0.5,
    ]
    made = copy.deepcopy(table)
    part, name = made, draw.choice(list(made))
    if isinstance(part[name], dict) and draw.random() < 0.7:
        part, name = part[name], draw.choice([*part[name], "seed", "odd"])
    part[name] = draw.choice(odd)
    return made


@pytest.mark.parametrize("cases", [30, pytest.param(400, marks=pytest.mark.slow)])
def test_an_experiment_that_somebody_made_up_is_refused_in_words(run, cases):
    draw = random.Random(5)
    for _ in range(cases):
        table = draw.choice([jumbled(TABLE, draw), draw.choice([None, 3, "text", [], {}, {"model": 3}])])
        with pytest.raises(UnknotError):
            kept.resume(begun_with(run, table))


def test_the_table_that_others_are_made_of_is_an_experiment(run):
    """So that those are refused for what is wrong with them."""
    assert kept.experiment_of(begun_with(run, TABLE)).method.name == "rfs"


@pytest.mark.parametrize("kind", ["begun", "erased", "checkpoint", "resumed", "event"])
def test_looked_at_an_entry_that_somebody_made_up_is_told_in_words(run, kind):
    folder, log = run.parent / "hostile look", log_of(run)
    known = {"environment": {}, "table": TABLE, "keys": None, "clients": 8}
    erased = read_plain(next(body for what, body in log if what == "erased"))
    told = {"begun": known, "erased": erased}.get(kind, {})
    odd = [
        {},
        [],
        3,
        None,
        *({**told, name: value} for name in told for value in ([{}], {}, "x", None, b"x")),
    ]
    for value in odd:
        body = plain(value)
        forge(run, folder, [(what, body if what == kind else old) for what, old in log])
        with suppress(UnknotError):
            console = Console(file=io.StringIO())
            console.print(sheet(asdict(look(folder))))


HUGE = 10**5000


@pytest.mark.parametrize("kind", ["begun", "erased", "checkpoint", "event", "ended"])
def test_numbers_that_no_run_counts_to_are_refused_where_they_are_read(run, kind):
    folder, log = run.parent / "hostile counts", log_of(run)
    first = read_plain(next(body for what, body in log if what == kind)) if kind != "event" else None
    if kind == "checkpoint":
        odd = [_changed(first, **{name: HUGE}) for name in ("step", "events", "letters", "rounds", "served")]
    elif kind == "event":
        odd = [
            _changed(event, **{name: value})
            for event in (read_event(body) for what, body in log if what == "event")
            for name, value in (("round", HUGE), ("round", -1), ("time", HUGE), ("time", "soon"))
        ]
    else:
        names = [name for name, value in first.items() if isinstance(value, int | list)]
        odd = [{**first, name: made} for name in names for made in (HUGE, -HUGE, [HUGE], [[HUGE]])]
        odd += [{**first, "clients": made} for made in (-5, 2**62)] if kind == "begun" else []
    assert odd
    for value in odd:
        body = pack(value)
        forge(run, folder, [(what, body if what == kind else old) for what, old in log])
        console = Console(file=io.StringIO())
        if kind == "event":
            found, events, _ = Watching(folder).look()
            console.print(sheet(asdict(found)))
            assert events == []
        else:
            with pytest.raises(StoreError):
                look(folder)


def _changed(value, **parts):
    made = copy.copy(value)
    for name, part in parts.items():
        object.__setattr__(made, name, part)
    return made


def changed(thing, **fields):
    """The same with other fields, past what checks them."""
    thing = copy.copy(thing)
    for name, value in fields.items():
        object.__setattr__(thing, name, value)
    return thing


def looked_at_with(run, folder, serves):
    """A run whose last checkpoint says that it would serve this, looked at."""
    state = pack([b"", {}, (), {}, (0, b""), serves])
    log = [entry for entry in log_of(run) if entry[0] != "ended"]
    named = next(read_named(body) for kind, body in reversed(log) if kind == "checkpoint")
    told = replace(named, state=hashlib.sha256(state).hexdigest(), stopped="")
    forge(run, folder, [*but_for_checkpoints(log), ("checkpoint", plain(told))], [state])
    return look(folder)


@pytest.mark.parametrize(
    "serves",
    [
        None,
        ["\x1b[2Jdigest", Lineage([Unit(1)]), ""],
        {"model": 1},
        changed(Serves("digest", NOBODY), model=1),
        changed(Serves("digest", NOBODY), model=None),
        changed(Serves("digest", NOBODY), lineage=("client 1",)),
        changed(Serves("digest", NOBODY), lineage=Lineage([Unit(2**24 + 2**16)])),
        changed(Serves("digest", NOBODY), lineage=Lineage.of_blocks({(0, 0): 1 << 70_000})),
        changed(Serves("digest", NOBODY), lineage=Lineage.of_blocks({(0, 0): 1, (1, 2**40): 1})),
    ],
)
def test_what_would_be_served_is_shown_of_no_state_that_says_anything_else(run, tmp_path, serves):
    found = looked_at_with(run, tmp_path / "run", serves)
    assert (found.model, found.lineage) == (None, None)
    assert "its last checkpoint cannot be read" in found.model_unknown


def test_what_would_be_served_steers_no_terminal(run, tmp_path):
    serves = Serves("\x1b[2Jdigest", Lineage([Unit(1), Unit(99999)]))
    found = looked_at_with(run, tmp_path / "run", serves)
    assert (found.model, found.lineage) == ("?[2Jdigest", ["client 1", "client 99999"])


def test_a_checkpoint_that_is_longer_than_any_is_not_read_to_be_looked_at(run, tmp_path):
    log = [entry for entry in log_of(run) if entry[0] != "ended"]
    named = next(read_named(body) for kind, body in reversed(log) if kind == "checkpoint")
    forge(run, tmp_path / "run", log)
    with (tmp_path / "run" / "state" / f"{named.state}.state").open("r+b") as long:
        long.truncate(1 << 33)
    found = look(tmp_path / "run")
    assert (found.rounds, found.model) == (named.rounds, None)
    assert "bytes" in found.model_unknown
