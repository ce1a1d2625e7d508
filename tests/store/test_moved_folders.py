"""A folder that is moved or replaced while a process keeps its run there is not that process's any more."""

import hashlib
import json
import shutil
from pathlib import Path

import pytest
from kept_runs import build, story
from typer.testing import CliRunner

from support import grid
from unknot.cli import app
from unknot.core.errors import StoreError
from unknot.core.requests import erase
from unknot.store.keeper import RunKeeper, keeper_of

WORDS = "was moved, removed or replaced while this process"


def begun(folder: Path, seed: int = 0, rounds: int = 3):
    fed = build("federaser", "sync", at_once=4 if seed == 0 else 3)
    RunKeeper.create(fed, folder, every=0.0)
    fed.run(rounds)
    return fed


def content(folder: Path) -> dict[str, str]:
    """What lies in a folder, but for what SQLite has beside its file while it is open."""
    files = [path for path in sorted(folder.rglob("*")) if path.is_file() and path.suffix != ".db-shm"]
    return {str(p.relative_to(folder)): hashlib.sha256(p.read_bytes()).hexdigest() for p in files}


def away(folder: Path, how: str) -> None:
    if how == "moved":
        folder.rename(folder.with_name("elsewhere"))
    else:
        shutil.rmtree(folder)


WORK = {
    "trains": lambda fed: fed.run(2),
    "erases": lambda fed: fed.run(2, requests=erase(3, round=4)),
    "is asked": lambda fed: fed.inbox.put(erase(3)),
    "checkpoints": lambda fed: keeper_of(fed).checkpoint(fed),
    "sweeps weights": lambda fed: keeper_of(fed).vault.retain(()),
    "destroys keys": lambda fed: keeper_of(fed).keyring.destroy([3]),
    "takes up": lambda fed: fed.resume(),
}


@pytest.mark.parametrize(("work", "how"), grid(WORK, ["moved", "removed"]))
def test_another_run_at_its_place_stays_whole(tmp_path, how, work):
    folder = tmp_path / "run"
    first = begun(folder)
    away(folder, how)
    other = begun(folder, seed=1)
    digest = other.history.model.digest()
    other.close()
    before = content(folder)
    with pytest.raises(StoreError, match=WORDS):
        WORK[work](first)
    first.close()
    assert content(folder) == before
    again = build("federaser", "sync", at_once=3)
    keeper = RunKeeper.go_on(again, folder)
    assert again.resume().model.digest() == digest
    keeper.close()


@pytest.mark.parametrize("work", WORK)
def test_where_nothing_has_come_to_its_place_nothing_is_written_there(tmp_path, work):
    folder = tmp_path / "run"
    fed = begun(folder)
    away(folder, "moved")
    with pytest.raises(StoreError, match=WORDS):
        WORK[work](fed)
    fed.close()
    assert not folder.exists()


def test_the_moved_run_goes_on_where_it_lies_now(tmp_path):
    folder = tmp_path / "run"
    fed = begun(folder)
    away(folder, "moved")
    with pytest.raises(StoreError, match=WORDS):
        fed.run(2)
    fed.close()
    again = build("federaser", "sync")
    keeper = RunKeeper.go_on(again, tmp_path / "elsewhere")
    found = story(again.run(2) if again.over else again.resume())
    keeper.close()
    whole = build("federaser", "sync")
    whole.run(3)
    assert found == story(whole.run(2))


def test_a_lock_that_is_taken_away_is_found_too(tmp_path):
    fed = begun(tmp_path / "run")
    (tmp_path / "run" / "lock").unlink()
    with pytest.raises(StoreError, match=WORDS):
        fed.run(1)
    fed.close()


def test_results_are_not_written_into_what_came_to_its_place(tmp_path, monkeypatch):
    from unknot.experiments import kept

    file, out = tmp_path / "a.toml", tmp_path / "run"
    file.write_text('[data]\npartition = "iid"\nclients = 3\nsamples = 20\n[federation]\nrounds = 1\n')
    go_on = kept.go_on

    def moved(fed):
        history = go_on(fed)
        away(out, "moved")
        out.mkdir()
        return history

    monkeypatch.setattr(kept, "go_on", moved)
    result = CliRunner().invoke(app, ["run", str(file), "--out", str(out), "--json"])
    assert result.exit_code == 2
    assert WORDS in " ".join(result.output.split())
    assert list(out.iterdir()) == []
    monkeypatch.undo()
    result = CliRunner().invoke(app, ["resume", str(tmp_path / "elsewhere"), "--json"])
    assert result.exit_code == 0
    assert json.loads(result.stdout)["rounds"]
