"""A run of the command line that Python holds, or whose end is computed again: what commands say of it."""

import json

import pytest
from kept_commands import FILE, call, shown, write_towns
from typer.testing import CliRunner

from unknot.cli import app
from unknot.core.errors import RunStopped
from unknot.engine.stacked import StackedEngine
from unknot.experiments import kept
from unknot.store.database import Database
from unknot.store.entries import read_named

pytest.importorskip("cryptography")


@pytest.fixture
def out(tmp_path):
    (tmp_path / "e.toml").write_text(FILE)
    call("run", tmp_path / "e.toml", "--out", tmp_path / "run", "--quiet")
    return tmp_path / "run"


def spoil_newest(out):
    with Database.open(out / "run.db", readonly=True) as db:
        state = read_named(db.last("checkpoint").body).state
    (out / "state" / f"{state}.state").write_bytes(b"damaged")


def test_a_run_of_the_command_line_that_python_holds_and_does_not_go_on_with_is_stopped(out):
    spoil_newest(out)
    fed = kept.resume(out)
    assert shown(out)["state"] == "stopped"
    assert "held by process" in call("show", out).stdout
    for word in ("stop", "pause"):
        assert "does nothing with it" in call(word, out, code=2).stderr
    for words in (("forget", out, "--client", 1, "--wait"), ("resume", out)):
        told = call(*words, code=2).stderr
        assert "fed.run or fed.resume" in told
        assert "writes its results" not in told
    assert "fed.run or fed.resume" in call("forget", out, "--client", 1).stdout
    fed.resume()
    assert shown(out)["state"] == "finished"
    assert [one["state"] for one in shown(out)["requests"]] == ["served"]
    assert "writes its results" not in call("show", out).stdout
    fed.close()


def test_told_to_stop_there_it_is_stopped(out):
    fed = kept.resume(out)
    fed.begin(2)
    fed.step()
    assert shown(out)["state"] == "running"
    call("stop", out)
    with pytest.raises(RunStopped):
        fed.step()
    assert shown(out)["state"] == "stopped"
    fed.close()


def test_a_run_whose_end_is_computed_again_runs_meanwhile_and_can_be_told_to_stop(out, monkeypatch):
    spoil_newest(out)
    train, seen = StackedEngine.train, []

    def looked_at(self, *args, **options):
        if not seen:
            seen.append(json.loads(CliRunner().invoke(app, ["show", str(out), "--json"]).stdout)["state"])
            call("stop", out)
        return train(self, *args, **options)

    with monkeypatch.context() as patch:
        patch.setattr(StackedEngine, "train", looked_at)
        assert "stopped, as it was asked to" in call("resume", out).stderr
    assert seen == ["running"]
    call("resume", out, "--quiet")
    assert (shown(out)["state"], shown(out)["rounds"]) == ("finished", 3)


def test_more_rounds_that_were_given_once_are_given_again_when_asked_for_also_after_damage(out):
    call("resume", out, "--rounds", 2, "--quiet")
    spoil_newest(out)
    call("resume", out, "--rounds", 2, "--quiet")
    assert shown(out)["rounds"] == 7


def test_what_is_said_of_damage_leaves_no_name_in_the_log_that_the_folders_path_has(tmp_path):
    names = ("Graz-on-Mur", "Linz-on-Danube", "Wels-on-Traun")
    out = tmp_path / f"with {names[1]}"
    call("run", write_towns(tmp_path, names, 3), "--out", out, "--quiet", "--checkpoint", 0)
    spoil_newest(out)
    call("forget", out, "--client", names[1])
    call("resume", out, "--quiet")
    kept_there = {path.name: path.read_bytes() for path in out.rglob("*") if path.is_file()}
    assert [name for name, content in kept_there.items() if names[1].encode() in content] == []
