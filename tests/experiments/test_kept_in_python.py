"""Which folders ``simulate(..., store=)`` takes, and what is written into them by whom."""

import errno
import os
import stat
from pathlib import Path

import pytest

import unknot
from support import small_data
from unknot.core.errors import ConfigError, StoreError

pytest.importorskip("cryptography")

WORK = "three months of work"
NAMES = (
    "config.toml",
    "model.safetensors",
    "record.json",
    "report.html",
    "weights/mine.pt",
    "state/mine.csv",
)


def simulate(store, **more):
    return unknot.simulate("mlp", small_data((4, 4, 4)), method="rfs", store=store, **more)


def seen(folder):
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize(
    "names", [NAMES, *([name] for name in (*NAMES, "notes.txt", "run.db", "keys", "lock"))]
)
def test_a_folder_with_somebody_elses_files_is_refused_and_left_as_it_is(tmp_path, names):
    out = tmp_path / "project"
    for name in names:
        (out / name).parent.mkdir(parents=True, exist_ok=True)
        (out / name).write_text(WORK)
    out.chmod(0o755)
    before = seen(out)
    with pytest.raises(StoreError, match=r"has other things in it .*name a folder of its own, such as"):
        simulate(out)
    assert seen(out) == before
    assert stat.S_IMODE(out.stat().st_mode) == 0o755


def test_a_new_folder_an_empty_one_and_a_runs_own_are_taken(tmp_path):
    (tmp_path / "empty").mkdir()
    for name in ("new", "empty"):
        fed = simulate(tmp_path / name)
        fed.close()  # nothing is kept yet: it is begun again
        fed = simulate(tmp_path / name)
        fed.run(1)
        fed.close()
        (tmp_path / name / "notes.txt").write_text(WORK)
        assert simulate(tmp_path / name).history is not None


@pytest.mark.parametrize("store", [3, True, b"run", ["run"], ""])
def test_what_is_no_folders_name_is_refused_by_the_name_of_the_argument(tmp_path, monkeypatch, store):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigError, match=r"^store is the folder in which the run is kept.*, not "):
        simulate(store)
    assert os.listdir(tmp_path) == []


LONG = 300 * "a"


@pytest.mark.parametrize(
    ("store", "why"),
    [
        (LONG, "File name too long; give it a shorter name"),
        (f"{LONG}/run", "File name too long; give it a shorter name"),
        (f"new/{LONG}", "File name too long; give it a shorter name"),
        ("/".join(30 * ["b" * 200]), "File name too long; give it a shorter name"),
        ("file", "Not a directory; it must be a folder"),
        ("file/run", "Not a directory; it must be a folder"),
        ("run\0", "no file can be called so"),
    ],
)
def test_a_folder_that_cannot_be_made_is_told_in_words(tmp_path, monkeypatch, store, why):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").write_text(WORK)
    with pytest.raises(StoreError, match=f"cannot (look at|make the folder) .*{why}"):
        simulate(store)
    assert (tmp_path / "file").read_text() == WORK


@pytest.mark.parametrize("call", ["lstat", "mkdir"])
def test_a_folder_that_may_not_be_made_is_told_in_words(tmp_path, monkeypatch, call):
    def denied(path, *given, **more):
        if "mine" in str(path):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)
        return made(path, *given, **more)

    made = getattr(os, call)
    monkeypatch.setattr(os, call, denied)
    with pytest.raises(StoreError, match="Permission denied; give the one who runs this the right to it"):
        simulate(tmp_path / "mine")


@pytest.mark.parametrize("file", ["before.safetensors", "below/before.safetensors", "../link/x.safetensors"])
def test_no_model_is_saved_into_the_runs_own_folder(tmp_path, monkeypatch, file):
    (tmp_path / "link").symlink_to(tmp_path / "run")
    fed = simulate(tmp_path / "run")
    fed.run(1)
    (tmp_path / "run" / "below").mkdir()
    monkeypatch.chdir(tmp_path / "run")
    for place in (tmp_path / "run" / file, Path(file)):
        with pytest.raises(
            ConfigError, match="the folder of the run, of which an erasure takes all that knows"
        ):
            fed.save(place)
    assert list((tmp_path / "run").rglob("*before*")) == []
    fed.save(tmp_path / "outside.safetensors")
    fed.close()
    with pytest.raises(ConfigError, match="name a place outside of it"):  # it is the run's all the same
        fed.save(tmp_path / "run" / "before.safetensors")


def test_no_tracker_writes_into_the_runs_own_folder(tmp_path):
    (tmp_path / "run").mkdir()
    inside = unknot.track.CSV(tmp_path / "run" / "rounds.csv")
    with pytest.raises(
        ConfigError, match=r"^CSV would write into .*the folder of the run, of which an erasure"
    ):
        simulate(tmp_path / "run", observers=[inside])
    assert os.listdir(tmp_path / "run") == []
    fed = simulate(tmp_path / "run", observers=[unknot.track.CSV(tmp_path / "rounds.csv")])
    fed.run(1)
    assert (tmp_path / "rounds.csv").exists()
