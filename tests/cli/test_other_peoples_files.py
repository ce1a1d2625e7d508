"""A kept run takes no folder in which somebody else's files lie, whatever they are called."""

import os
import sqlite3
import stat

import pytest
from kept_commands import call, shown

from unknot.store import folder, keeper

pytest.importorskip("cryptography")

WORK = "three months of work"


def put(out, *names):
    out.mkdir(mode=0o755)
    for name in names:
        (out / name).parent.mkdir(exist_ok=True)
        (out / name).write_text(WORK)


def seen(out):
    return {str(path.relative_to(out)): path.read_bytes() for path in out.rglob("*") if path.is_file()}


@pytest.mark.parametrize("force", [[], ["--force"]])
@pytest.mark.parametrize(
    "names",
    [
        ["weights/pretrained.pt", "state/tyrol.csv"],
        ["weights/resnet.safetensors"],
        ["config.toml", "weights/pretrained.pt"],
        [f"weights/{'a' * 64}.safetensors"],
        ["config.toml"],
        ["keys"],
        ["lock"],
        [".part-mine"],
        ["run.db"],
        ["run.db-wal"],
        ["report.html", "record.json"],
        ["pic.png"],
    ],
)
def test_names_that_a_run_has_too_make_a_folder_no_runs(file, tmp_path, names, force):
    out = tmp_path / "exp"
    put(out, *names)
    before = seen(out)
    plot = ["--plot", out / "pic.png"] if names == ["pic.png"] and not force else []
    told = call("run", file, "--out", out, "--quiet", *force, *plot, code=2).stderr
    assert f"{out} has other things in it (" in told
    assert names[-1] in told or names[0] in told
    assert f"such as {out}/NAME" in told
    assert told.count("\n") == 1
    assert seen(out) == before
    assert stat.S_IMODE(out.stat().st_mode) == 0o755


@pytest.mark.parametrize("force", [[], ["--force"], ["--no-keep", "--force"]])
def test_a_database_of_another_program_is_no_run(file, tmp_path, force):
    out = tmp_path / "exp"
    out.mkdir()
    with sqlite3.connect(out / "run.db") as db:
        db.execute("PRAGMA journal_mode = WAL")
        db.execute("CREATE TABLE mine (work TEXT)")
    db.close()
    before = seen(out)
    kept = "--no-keep" not in force
    told = call("run", file, "--out", out, "--quiet", *force, code=2 if kept else 0).stderr
    assert ("has other things in it ('run.db')" in told) is kept
    after = seen(out)
    assert {name: after[name] for name in before} == before
    assert kept is (after == before)


def test_results_alone_are_written_over_by_force_and_not_without(file, tmp_path):
    out = tmp_path / "run"
    call("run", file, "--out", out, "--no-keep", "--quiet")
    before = seen(out)
    assert "holds a run already (config.toml" in call("run", file, "--out", out, code=2).stderr
    assert seen(out) == before
    call("run", file, "--out", out, "--force", "--quiet")
    call("run", file, "--out", out, "--force", "--no-keep", "--quiet")  # the run goes, its lock stays
    call("run", file, "--out", out, "--force", "--quiet")
    assert shown(out)["state"] == "finished"


@pytest.mark.parametrize("how", [[], ["--no-keep"]])
def test_a_folder_in_which_results_were_left_half_written_alone_is_taken_and_tidied(file, tmp_path, how):
    half = tmp_path / "run" / ".part-record.json-0123456789abcdef.json"
    half.parent.mkdir()
    half.write_text("half")
    call("run", file, "--out", tmp_path / "run", "--quiet", *how)
    assert not half.exists()


def test_what_others_put_into_a_runs_folder_later_outlives_erasures_and_force(file, tmp_path):
    out = tmp_path / "run"
    call("run", file, "--out", out, "--quiet")
    others = ["notes.txt", "state/tyrol.csv", "state/.part-mine"]
    others += ["weights/pretrained.pt", "weights/mine.safetensors", "weights/.part-x"]
    for name in others:
        (out / name).write_text(WORK)
    call("forget", out, "--client", "1")
    call("resume", out, "--quiet")
    call("run", file, "--out", out, "--force", "--quiet")
    call("run", file, "--out", out, "--force", "--no-keep", "--quiet")
    assert [name for name in others if (out / name).read_text() != WORK] == []
    ours = {path.name for part in ("state", "weights") for path in (out / part).iterdir()}
    assert ours == {os.path.basename(name) for name in others[1:]}


@pytest.mark.parametrize("how", [["--force"], ["--force", "--no-keep"]])
def test_a_request_that_comes_while_a_run_is_about_to_be_written_over_keeps_it(
    file, tmp_path, monkeypatch, how
):
    out, discard = tmp_path / "run", folder.discard
    call("run", file, "--out", out, "--quiet")

    def asked_just_before(place, keys=None):
        call("forget", out, "--client", "1")
        discard(place, keys)

    for where in (folder, keeper):
        monkeypatch.setattr(where, "discard", asked_just_before)
    told = call("run", file, "--out", out, "--quiet", *how, code=2).stderr
    assert "still to serve what was asked of it (request 1), and is not written over" in told
    assert [one["state"] for one in shown(out)["requests"]] == ["waiting"]


def test_one_file_is_not_both_keys_and_a_picture(file, tmp_path):
    same = tmp_path / "k.png"
    told = call("run", file, "--out", tmp_path / "run", "--keys", same, "--plot", same, code=2).stderr
    assert f"--plot and --keys name the same file, {same}" in told
    assert not same.exists()
