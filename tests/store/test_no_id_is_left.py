"""The ids of samples that a request of the file names go with their client."""

import json
import shutil
import struct
from pathlib import Path

import msgspec
import pytest
from kept_runs import build
from test_no_name_is_left import call

from unknot.core.errors import RequestError
from unknot.core.requests import erase
from unknot.core.toml import to_toml
from unknot.experiments import Experiment
from unknot.federation.observers import Observers
from unknot.store import Database, Keyring, sample_ids
from unknot.store.checkpoint import Checkpoint
from unknot.store.entries import read_named
from unknot.store.keeper import RunKeeper
from unknot.store.sealed import IDS as IDS_KEPT

IDS = [11, 13, 17, 19, 23, 29, 31, 37, 41, 43]
SAYING = ["config.toml", "record.json", "report.html"]
"""The results that say what was run: they go with each erasure, and come again without who was erased."""
OTHERS = [12, 14, 18, 20, 24, 30, 32, 38, 42, 44]


@pytest.fixture
def file(tmp_path) -> Path:
    place = tmp_path / "towns"
    place.mkdir()
    for i, name in enumerate(("Graz", "Linz", "Wien", "test", "validation")):
        lines = "".join(f"0.{i}{j:02},{j % 2}\n" for j in range(50))
        (place / f"{name}.csv").write_text("age,ill\n" + lines)
    said = {
        "data": {"name": "folder", "path": str(place), "target": "ill"},
        "model": {"hidden": [4]},
        "federation": {"rounds": 3},
        "request": [
            {"erase": "Graz", "samples": IDS, "round": 1},
            {"erase": ["Linz"], "samples": OTHERS, "round": 2},
        ],
    }
    path = tmp_path / "towns.toml"
    path.write_text(to_toml(said))
    return path


def holding(folder: Path, ids: list[int]) -> list[str]:
    """The files of a folder that have these ids, as numbers or as text."""
    wanted = [struct.pack(f"<{len(ids)}q", *ids), ", ".join(map(str, ids)).encode()]
    wanted += [b"".join(map(msgspec.msgpack.encode, ids))]
    files = [path for path in sorted(folder.rglob("*")) if path.is_file()]
    return [path.name for path in files if any(one in path.read_bytes() for one in wanted)]


def test_ids_are_never_in_the_log_and_go_with_their_client(file, tmp_path):
    out = tmp_path / "run"
    call("run", file, "--out", out, "--quiet", "--checkpoint", 0)
    assert holding(out, IDS) == SAYING
    call("forget", out, "--client", "Graz")
    call("resume", out, "--quiet")
    assert holding(out, IDS) == []
    assert holding(out, OTHERS) == SAYING
    with Database.open(out / "run.db", readonly=True) as db:
        assert sample_ids.known(db, Keyring(out / "keys")) == {1: (1, OTHERS)}
    call("forget", out, "--client", "Linz")
    call("resume", out, "--quiet")
    assert holding(out, OTHERS) == []
    call("resume", out, "--quiet", "--rounds", 1)
    assert holding(out, IDS) == holding(out, OTHERS) == []


def test_config_of_a_run_has_its_ids_and_gives_it_again(file, tmp_path):
    out = tmp_path / "run"
    call("run", file, "--out", out, "--quiet")
    again = json.loads(call("run", out / "config.toml", "--json").stdout)
    assert again["model"] == json.loads((out / "record.json").read_text())["model"]
    call("forget", out, "--client", "Graz")
    call("resume", out, "--quiet")
    with pytest.raises(RequestError, match="names who was erased"):  # rather than another run
        Experiment.read(out / "config.toml")


def test_what_is_shown_of_them_is_how_many(file, tmp_path):
    out = tmp_path / "run"
    call("run", file, "--out", out, "--quiet")
    found = json.loads(call("show", out, "--json").stdout)["requests"]
    assert [(one["request"], one["state"], one["round"]) for one in found] == [
        ("erase 10 samples of Graz", "served", 1),
        ("erase 10 samples of Linz", "served", 2),
    ]
    call("forget", out, "--client", "Graz")
    call("resume", out, "--quiet")
    again = json.loads(call("show", out, "--json").stdout)["requests"]
    assert [one["state"] for one in again] == ["served"] * 3


def test_a_run_that_is_begun_again_keeps_the_ids_that_are_named_now(file, tmp_path):
    out = tmp_path / "run"
    call("run", file, "--out", out, "--quiet")
    call("run", file, "--out", out, "--quiet", "--force", "--set", "federation.rounds=2")
    with Database.open(out / "run.db", readonly=True) as db:
        assert sample_ids.known(db, Keyring(out / "keys")) == {0: (0, IDS), 1: (1, OTHERS)}


@pytest.fixture
def ids(tmp_path) -> Path:
    path = tmp_path / "ids"
    path.write_text("\n".join(map(str, IDS)))
    return path


def test_ids_that_are_asked_from_outside_are_sealed_while_they_wait_and_once_they_are_served(
    file, ids, tmp_path
):
    out = tmp_path / "run"
    call("run", file, "--out", out, "--quiet", "--set", "request=[]")
    call("forget", out, "--client", "Graz", "--samples", ids)
    assert holding(out, IDS) == []
    assert (
        json.loads(call("show", out, "--json").stdout)["requests"][0]["request"] == "erase 10 samples of Graz"
    )
    call("resume", out, "--quiet")
    call("resume", out, "--quiet", "--rounds", 1)
    assert holding(out, IDS) == []
    found = json.loads(call("show", out, "--json").stdout)["requests"]
    assert [(one["request"], one["state"]) for one in found] == [("erase 10 samples of Graz", "served")]
    call("forget", out, "--client", "Graz", "--samples", ids)
    call(
        "resume", out, "--quiet", code=3
    )  # they are known for erased: the ids were taken up again as they were
    call("forget", out, "--client", "Graz")
    call("resume", out, "--quiet")
    assert holding(out, IDS) == []


def test_who_has_no_keys_leaves_ids_open_until_they_are_taken_up_and_is_told(file, ids, tmp_path):
    out, keys = tmp_path / "run", tmp_path / "keys"
    call("run", file, "--out", out, "--quiet", "--set", "request=[]", "--keys", keys)
    said = call("forget", out, "--client", "#0", "--samples", ids).stderr
    assert f"they lie in the open in {out} until the run takes the request up; add --keys FILE" in said
    assert holding(out, IDS) == ["run.db"]
    call("resume", out, "--quiet", "--keys", keys)
    assert holding(out, IDS) == []


@pytest.mark.parametrize("who", ["samples with keys", "a client without"])
def test_who_leaves_no_id_open_is_told_nothing_of_it(file, ids, tmp_path, who):
    out, keys = tmp_path / "run", tmp_path / "keys"
    call("run", file, "--out", out, "--quiet", "--set", "request=[]", "--keys", keys)
    more = ("--samples", ids, "--keys", keys) if who == "samples with keys" else ()
    assert "in the open" not in call("forget", out, "--client", "#0", *more).stderr


def test_a_folder_with_names_from_before_an_erasure_of_samples_is_refused_for_good(file, ids, tmp_path):
    out, keys, copy = tmp_path / "run", tmp_path / "keys", tmp_path / "copy"
    call("run", file, "--out", out, "--quiet", "--set", "request=[]", "--keys", keys)
    shutil.copytree(out, copy)
    call("forget", out, "--client", "Graz", "--samples", ids, "--keys", keys)
    call("resume", out, "--quiet", "--keys", keys)
    for refused in (("resume", copy, "--quiet"), ("forget", copy, "--client", "#0", "--samples", ids)):
        said = call(*refused, "--keys", keys, code=2).stderr
        assert "is a copy from before samples were erased (of these: 0)" in said


def test_the_ids_of_a_request_that_crossed_the_clients_erasure_go_with_its_key(tmp_path):
    def another(event):
        if getattr(event, "kind", "") == "erase":
            fed.inbox.put(erase({3: [0, 2, 3, 5]}))

    fed = build()
    fed.work.observers = Observers([another])
    keeper = RunKeeper.create(fed, tmp_path / "run", every=0.0)
    fed.run(4, requests=erase(3, round=2))
    keeper.close()
    assert holding(tmp_path / "run", [0, 2, 3, 5]) == []
    with Database.open(tmp_path / "run" / "run.db", readonly=True) as db:
        assert [one.state for one in db.asked()] == ["refused"]


def test_a_request_that_never_came_keeps_none_either_and_is_over_with_its_client(file, tmp_path):
    out = tmp_path / "run"
    text = file.read_text()
    file.write_text(text.replace("round = 1", "round = 9"))
    call("run", file, "--out", out, "--quiet", code=3)
    assert holding(out, IDS) == SAYING
    before = json.loads((out / "record.json").read_text())["unserved"]
    assert before == ["erase 10 samples of Graz at round 9"]
    call("forget", out, "--client", "Linz")
    call("resume", out, "--quiet", code=3)
    assert json.loads((out / "record.json").read_text())["unserved"] == before
    call("forget", out, "--client", "Graz")
    call("resume", out, "--quiet")
    assert holding(out, IDS) == []
    assert json.loads((out / "record.json").read_text())["unserved"] == []
    call("resume", out, "--quiet", "--rounds", 9)
    assert holding(out, IDS) == []


def test_what_a_checkpoint_no_longer_knows_of_is_not_kept_sealed_either(tmp_path):
    """Which samples had gone when fewer had; under a key that stays, for their client does."""
    fed = build()
    keeper = RunKeeper.create(fed, tmp_path / "run", every=0.0)
    fed.run(4, requests=[erase({4: [1]}, round=1), erase({4: [3]}, round=2), erase({4: [5]}, round=3)])
    named = read_named(keeper.db.last("checkpoint").body)
    known = Checkpoint.read(tmp_path / "run", named.state).ids
    assert len(known) == 1
    assert keeper.db.sealed(IDS_KEPT).keys() == set(known)
    keeper.close()
