"""Which folders a kept run takes, and what is said of those that hold none."""

import json
import os
import shutil
import stat
from pathlib import Path

import pytest
from kept_commands import call, shown

from unknot.store import look
from unknot.store.database import Database

pytest.importorskip("cryptography")


def test_no_run_takes_the_folder_that_one_is_in_or_one_above_it(file, tmp_path, monkeypatch):
    here = tmp_path / "project" / "deep"
    here.mkdir(parents=True, mode=0o755)
    monkeypatch.chdir(here)
    for out in (".", "", "..", "/", here, tmp_path / "project" / "deep" / "." / "..", "../deep"):
        for more in ([], ["--force"]):
            told = call("run", file, "--out", out, *more, code=2).stderr
            assert told.count("\n") == 1, told
            assert "name a folder of its own, such as runs/" in told
    assert stat.S_IMODE(here.stat().st_mode) == 0o755
    assert list(here.iterdir()) == []
    call("run", file, "--out", ".", "--no-keep", "--quiet")
    assert stat.S_IMODE(here.stat().st_mode) == 0o755


def test_no_run_takes_the_home_folder(file, tmp_path, monkeypatch):
    home = tmp_path / "home"
    home.mkdir()
    (tmp_path / "link").symlink_to(home)
    monkeypatch.setenv("HOME", str(home))
    for out in (home, tmp_path / "link"):
        assert "your home folder" in call("run", file, "--out", out, code=2).stderr
    assert list(home.iterdir()) == []


@pytest.mark.parametrize("other", ["thesis.tex", ".git", "data"])
def test_no_run_takes_a_folder_with_other_things_in_it(file, tmp_path, other):
    out = tmp_path / "project"
    out.mkdir(mode=0o755)
    (out / other).mkdir() if other != "thesis.tex" else (out / other).write_text("years of work")
    for more in ([], ["--force"]):
        told = call("run", file, "--out", out, *more, code=2).stderr
        assert other in told
        assert f"such as {out}/NAME" in told
        assert told.count("\n") == 1
    assert [path.name for path in out.iterdir()] == [other]
    assert stat.S_IMODE(out.stat().st_mode) == 0o755
    call("run", file, "--out", out, "--no-keep", "--quiet")
    assert stat.S_IMODE(out.stat().st_mode) == 0o755


def test_an_empty_folder_a_half_begun_run_and_with_force_a_former_one_are_taken(file, tmp_path):
    out = tmp_path / "run"
    out.mkdir()
    (out / "lock").touch()
    (out / ".part-run.db-0123456789abcdef").touch()
    call("run", file, "--out", out, "--quiet")
    (out / "notes.txt").touch()  # the folder is a run's by now
    call("run", file, "--out", out, "--quiet", "--force")
    results = tmp_path / "results"
    call("run", file, "--out", results, "--quiet", "--no-keep")
    call("run", file, "--out", results, "--quiet", "--force")
    assert shown(results)["state"] == "finished"


def test_the_picture_that_the_command_itself_draws_there_is_written_over_with_force_alone(file, tmp_path):
    out = tmp_path / "run"
    out.mkdir()
    (out / "plot.svg").touch()
    assert "plot.svg" in call("run", file, "--out", out, code=2).stderr
    plot = "--plot", out / "plot.svg"
    assert "plot.svg" in call("run", file, "--out", out, *plot, code=2).stderr
    call("run", file, "--out", out, "--quiet", *plot, "--force")


def test_a_damaged_run_is_a_run_already(file, tmp_path):
    call("run", file, "--out", tmp_path / "run", "--quiet")
    (tmp_path / "run" / "run.db").write_bytes(b"rubbish" * 1000)
    assert (
        "holds a run already: name another folder"
        in call("run", file, "--out", tmp_path / "run", code=2).stderr
    )
    call("run", file, "--out", tmp_path / "run", "--force", "--quiet")


def test_results_without_a_run_are_said_to_be_that(file, tmp_path):
    call("run", file, "--out", tmp_path / "run", "--no-keep", "--quiet")
    for command in ("show", "resume", "watch"):
        told = call(command, tmp_path / "run", code=2).stderr
        assert "holds results, but no run was kept there (--no-keep)" in told


@pytest.mark.parametrize("left", ["keys", "state", "weights"])
def test_a_run_whose_database_is_missing_is_told_to_take_it_from_a_backup(file, tmp_path, left):
    out = tmp_path / "run"
    call("run", file, "--out", out, "--quiet")
    for one in out.iterdir():
        if one.name not in (left, "record.json"):
            shutil.rmtree(one) if one.is_dir() else one.unlink()
    for command in ("show", "resume", "watch"):
        told = call(command, out, code=2).stderr
        assert f"{out / 'run.db'} is missing, though other parts of a run are there ({left}): take it" in told


@pytest.mark.parametrize("gone", [["run.db"], ["run.db", "lock"], ["run.db", "state", "weights"]])
def test_it_is_listed_so_and_no_new_run_is_begun_inside_it(file, tmp_path, gone):
    out = tmp_path / "runs" / "one"
    call("run", file, "--out", out, "--quiet")
    for name in gone:
        shutil.rmtree(out / name) if (out / name).is_dir() else (out / name).unlink()
    why = call("show", out, code=2).stderr.removeprefix("error: ").strip()
    assert json.loads(call("runs", tmp_path / "runs", "--json").stdout) == [
        {"folder": str(out), "error": why}
    ]
    told = " ".join(call("runs", tmp_path / "runs").stdout.split())
    assert f"{out}: {why}" in told
    for more in ([], ["--force"]):
        told = call("run", file, "--out", out, "--quiet", *more, code=2).stderr
        assert why in told
        assert f"To begin a run here all the same, remove {out} yourself" in told
        assert "NAME" not in told


def test_folders_of_others_that_are_called_as_those_of_a_run_are_no_runs(tmp_path):
    for name in ("state", "weights", "keys", "lock"):
        (tmp_path / "else" / name).mkdir(parents=True)
        (tmp_path / "else" / name / "model.safetensors").write_bytes(b"")
    assert json.loads(call("runs", tmp_path, "--json").stdout) == []


def test_a_link_to_a_runs_folder_is_said_to_be_one(file, tmp_path):
    out, link = tmp_path / "run", tmp_path / "link"
    call("run", file, "--out", out, "--quiet")
    link.symlink_to(out)
    for words in (["show", link], ["resume", link], ["forget", link, "--client", "1"]):
        assert f"{link} is a symbolic link: name the folder itself, {out}" in call(*words, code=2).stderr


@pytest.mark.parametrize("option", [["--keys", "kk"], ["--checkpoint", "1"]])
def test_what_is_for_a_kept_run_is_refused_without_one(file, tmp_path, option):
    told = call("run", file, "--out", tmp_path / "run", "--no-keep", *option, code=2).stderr
    assert f"{option[0]} is for a run that is kept" in told
    assert not (tmp_path / "run").exists()


def test_runs_of_a_file_says_that_it_is_one(file):
    assert f"{file} is a file" in call("runs", file, code=2).stderr


def test_keys_must_be_a_file_and_nothing_is_to_be_removed(file, tmp_path):
    data, out = tmp_path / "data", tmp_path / "run"
    data.mkdir()
    told = [call("run", file, "--out", out, "--keys", data, code=2).stderr]
    call("run", file, "--out", out, "--quiet")
    told += [call(*words, out, "--keys", data, code=2).stderr for words in (["show"], ["resume"])]
    told += [call("forget", out, "--client", "1", "--keys", data, code=2).stderr]
    for text in told:
        assert f"--keys must name a file of keys; {data} is a folder" in text
    (out / "keys").unlink()
    (out / "keys").mkdir()
    text = call("show", out, code=2).stderr
    assert f"{out / 'keys'} should be a plain file, and is a folder" in text
    assert "remove" not in text


def test_what_was_broken_off_before_its_first_checkpoint_is_to_be_begun_again(file, tmp_path, monkeypatch):
    from unknot.store.keyring import Keyring

    def stopped(self, clients):
        raise KeyboardInterrupt

    for name, more in (("inside", []), ("apart", ["--keys", tmp_path / "keys"])):
        out = tmp_path / name
        with monkeypatch.context() as patch:
            patch.setattr(Keyring, "make", stopped)
            call("run", file, "--out", out, "--quiet", *more, code=130)
        told = call("resume", out, *more, code=2).stderr
        assert f"{out} was broken off before its first checkpoint: begin it again with the same" in told
        call("run", file, "--out", out, "--quiet", *more)


def test_an_early_interruption_says_what_lies_in_the_folder(file, tmp_path, monkeypatch):
    def stopped(*_, **options):
        raise KeyboardInterrupt

    out = tmp_path / "run"
    with monkeypatch.context() as patch:
        patch.setattr(Database, "create", stopped)
        told = call("run", file, "--out", out, code=130).stderr
    assert [path.name for path in out.iterdir()] == ["lock"]
    assert "nothing was written" not in told
    assert f"{out} holds what was begun, and no checkpoint" in told
    with monkeypatch.context() as patch:
        patch.setattr("unknot.experiments.kept.begin", stopped)
        told = call("run", file, "--out", tmp_path / "new", code=130).stderr
    assert f"nothing was written into {tmp_path / 'new'}" in told
    call("run", file, "--out", out, "--quiet")


def test_output_that_nobody_looks_at_has_no_spaces_at_the_ends_of_lines(file, tmp_path):
    call("run", file, "--out", tmp_path / "run", "--quiet")
    for words in (["show", tmp_path / "run"], ["runs", tmp_path]):
        lines = call(*words).stdout.splitlines()
        assert len(lines) > 1
        assert [line for line in lines if line != line.rstrip()] == []


def test_a_kept_federation_in_python_does_not_take_the_current_folder_either(tmp_path, monkeypatch):
    from support import small_data, toy_federation
    from unknot.core.errors import StoreError
    from unknot.store.keeper import RunKeeper
    from unknot.unlearn import RFS

    monkeypatch.chdir(tmp_path)
    for folder in ("", ".", tmp_path, Path.home()):
        with pytest.raises(StoreError, match="name a folder of its own"):
            RunKeeper.create(toy_federation(RFS(), small_data((3, 3))), folder)
    assert os.listdir(tmp_path) == []


def test_runs_are_found_four_levels_below_and_no_deeper(file, tmp_path):
    for place in ("a/b/c/run", "a/b/c/d/run"):
        call("run", file, "--out", tmp_path / place, "--quiet")
    told = json.loads(call("runs", tmp_path, "--json").stdout)
    assert [one["folder"] for one in told] == [str(tmp_path / "a/b/c/run")]


def test_folders_that_vanish_meanwhile_are_left_out_of_the_list(file, tmp_path, monkeypatch):
    for name in ("a", "b", "c"):
        (tmp_path / name).mkdir()
        call("run", file, "--out", tmp_path / name / "run", "--quiet")
    look_at, scan = look.look, os.scandir

    def gone(folder, *rest, **options):
        if Path(folder) == tmp_path / "b" / "run":
            shutil.rmtree(tmp_path / "b")
        return look_at(folder, *rest, **options)

    def scanned(place):
        if str(place) == str(tmp_path / "a"):
            shutil.rmtree(tmp_path / "a")
        return scan(place)

    monkeypatch.setattr(look, "look", gone)
    monkeypatch.setattr(os, "scandir", scanned)
    told = json.loads(call("runs", tmp_path, "--json").stdout)
    assert [(one["folder"], one.get("error")) for one in told] == [(str(tmp_path / "c" / "run"), None)]


def test_a_resumption_that_found_nothing_to_do_does_not_count(file, tmp_path):
    out = tmp_path / "run"
    call("run", file, "--out", out, "--quiet")
    for _ in range(2):
        call("resume", out, "--quiet")
    assert shown(out)["resumed"] == 0
    call("resume", out, "--rounds", "1", "--quiet")
    call("resume", out, "--quiet")
    assert shown(out)["resumed"] == 1
    call("admit", out, "--client", "1")
    call("resume", out, "--quiet", code=3)  # a member already: no step was taken
    assert shown(out)["resumed"] == 1
    call("forget", out, "--client", "1")
    call("resume", out, "--quiet")
    assert shown(out)["resumed"] == 2


def test_folders_whose_names_begin_with_a_dot_are_not_looked_into(file, tmp_path):
    base = tmp_path / "all"
    call("run", file, "--out", base / "seen", "--quiet")
    for hidden in (base / ".cache" / "run", base / ".run"):
        shutil.copytree(base / "seen", hidden)
    found = json.loads(call("runs", base, "--json").stdout)
    assert [one["folder"] for one in found] == [str(base / "seen")]
    found = json.loads(call("runs", base / ".cache", "--json").stdout)  # whoever names one means it
    assert [one["folder"] for one in found] == [str(base / ".cache" / "run")]


@pytest.mark.parametrize("call_of", ["scandir", "stat"])
def test_a_folder_that_may_not_be_looked_into_is_listed_with_why(file, tmp_path, monkeypatch, call_of):
    call("run", file, "--out", tmp_path / "runs" / "ours", "--quiet")
    closed = tmp_path / "runs" / "theirs"
    closed.mkdir()
    real, what = getattr(os, call_of), closed if call_of == "scandir" else closed / "run.db"

    def refused(path, *more, **options):
        if path == what:
            raise PermissionError(13, "Permission denied", str(path))
        return real(path, *more, **options)

    monkeypatch.setattr(look.os, call_of, refused)
    ours, theirs = json.loads(call("runs", tmp_path / "runs", "--json").stdout)
    assert ours["folder"] == str(tmp_path / "runs" / "ours")
    assert theirs.keys() == {"folder", "error"}
    assert theirs["folder"] == str(closed)
    assert "cannot be looked into (Permission denied)" in theirs["error"]
    shown = call("runs", closed).stdout
    assert "cannot be looked into (Permission denied)" in shown
    assert "no runs are kept" not in shown
