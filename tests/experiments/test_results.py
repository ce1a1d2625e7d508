"""What a run leaves can be run again, read again and loaded again, and is whole or not there."""

import json
import os
import shutil
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

import unknot
from unknot.core.errors import ConfigError
from unknot.core.keys import Key
from unknot.experiments import Experiment, results, run
from unknot.experiments.results import FILES, check_folder, configuration, write_results
from unknot.report.page import page
from unknot.select.dqn import DQNSettings, Policy
from unknot.store.files import drafting
from unknot.unlearn.rfs import RFS

TABLE = {
    "name": "small",
    "data": {"partition": "iid", "clients": 3, "samples": 12, "validation": 20, "test_samples": 20},
    "train": {"batch_size": 10},
    "federation": {"rounds": 2},
    "request": [{"erase": 1, "round": 1}],
}


@pytest.fixture(scope="module")
def done():
    experiment = Experiment.of(TABLE, ["scenario.thresholds=[0.1]"])
    return run(experiment), experiment


def test_a_run_leaves_four_files_that_agree(done, tmp_path):
    history, experiment = done
    written = write_results(history, experiment, tmp_path / "a" / "b", page)
    assert [path.name for path in written] == list(FILES)
    assert sorted(os.listdir(tmp_path / "a" / "b")) == sorted(FILES)
    record = json.loads((tmp_path / "a" / "b" / "record.json").read_text())
    model = unknot.load_model(tmp_path / "a" / "b" / "model.safetensors")
    assert record["model"] == model.digest() == history.model.digest()
    assert model.lineage.clients == {0, 2}
    assert record["environment"]["unknot"] == unknot.__version__
    assert record["experiment"] == experiment.table
    assert "scenario" in record
    assert model.digest() in (tmp_path / "a" / "b" / "report.html").read_text()


def test_the_configuration_gives_the_same_bits(done, tmp_path):
    history, experiment = done
    (tmp_path / "config.toml").write_text(configuration(experiment))
    again = Experiment.read(tmp_path / "config.toml")
    assert again.table == experiment.table
    assert run(again).model.equal(history.model)


def test_paths_still_lead_where_they_led(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    table = {
        "data": {"name": "folder", "path": "mine", "target": "ill"},
        "model": {"initial": "/m.safetensors"},
    }
    told = tomllib.loads(configuration(Experiment.of(table)))
    assert told["data"]["path"] == str(tmp_path / "mine")
    assert told["model"]["initial"] == "/m.safetensors"
    assert table["data"]["path"] == "mine"


@dataclass(frozen=True)
class Keeps(RFS):
    """Has paths in every way that an option can."""

    one: Path | None = None
    several: tuple[Path, ...] | None = None
    pair: tuple[str, Path] = ("a", Path("b"))
    listed: list[Path] = field(default_factory=list)
    sequence: Sequence[Path | None] = ()
    named: dict[str, Path] = field(default_factory=dict)
    mapped: Mapping[str, list[Path]] | None = None
    words: list[str] = field(default_factory=list)


def test_paths_within_options_are_named_from_the_root(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    options = {
        "one": "a",
        "several": ["a", "/b"],
        "pair": ["a", "b"],
        "listed": ["a"],
        "sequence": ["a"],
        "named": {"x": "a"},
        "mapped": {"x": ["a", "b"]},
        "words": ["a"],
    }
    table = {"method": {"name": f"{__name__}:Keeps", **options}}
    a, b = str(tmp_path / "a"), str(tmp_path / "b")
    told = tomllib.loads(configuration(Experiment.of(table)))["method"]
    assert told == table["method"] | {
        "one": a,
        "several": [a, "/b"],
        "pair": ["a", b],
        "listed": [a],
        "sequence": [a],
        "named": {"x": a},
        "mapped": {"x": [a, b]},
    }


def test_what_lies_beside_the_file_is_found_from_elsewhere(tmp_path):
    (tmp_path / "there").mkdir()
    (tmp_path / "there" / "results_own_loss.py").write_text(
        "def doubled(outputs, targets):\n    import torch\n"
        "    return 2 * torch.nn.functional.cross_entropy(outputs, targets)\n"
    )
    file = tmp_path / "there" / "own.toml"
    file.write_text('[task]\nloss = "results_own_loss:doubled"\n')
    experiment = Experiment.read(file)
    assert experiment.table["modules"] == str(tmp_path / "there")
    (tmp_path / "config.toml").write_text(configuration(experiment))
    again = Experiment.read(tmp_path / "config.toml")
    assert again.setup.recipe.loss == experiment.setup.recipe.loss
    assert Experiment.of(experiment.table).setup.recipe.loss == experiment.setup.recipe.loss


def test_a_file_that_names_nothing_of_its_own_says_nothing_of_modules(tmp_path):
    (tmp_path / "plain.toml").write_text("seed = 3\n")
    assert "modules" not in Experiment.read(tmp_path / "plain.toml").table
    with pytest.raises(ConfigError, match="modules must be a text"):
        Experiment.of({"modules": 3})


def test_a_folder_with_a_run_is_not_written_over_unless_that_is_meant(done, tmp_path):
    check_folder(tmp_path)
    check_folder(tmp_path / "not" / "yet")
    assert not (tmp_path / "not").exists()
    (tmp_path / "notes.txt").write_text("mine")
    check_folder(tmp_path)
    write_results(*done, tmp_path, page)
    with pytest.raises(ConfigError, match=r"holds a run already .*config\.toml.*--force"):
        check_folder(tmp_path)
    check_folder(tmp_path, force=True)
    assert (tmp_path / "notes.txt").read_text() == "mine"


def test_where_nothing_can_be_written_is_said_before(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    for place in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(ConfigError, match="is a file, not a folder"):
            check_folder(place)
    monkeypatch.setattr(results.os, "access", lambda *_: False)
    with pytest.raises(ConfigError, match="you may not write into"):
        check_folder(tmp_path / "new")


def test_what_fails_leaves_nothing_behind(done, tmp_path, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(results, "save_model", full)
    with pytest.raises(ConfigError, match="No space left"):
        write_results(*done, tmp_path / "out", page)
    assert os.listdir(tmp_path / "out") == []
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match="cannot write into"):
        write_results(*done, tmp_path / "file", page)


@pytest.mark.parametrize("name", FILES)
def test_what_cannot_be_written_is_told_by_its_name(done, tmp_path, monkeypatch, name):
    for write in (Path.write_bytes, Path.write_text):

        def full(path, *args, write=write, **options):
            if name in path.name:
                raise OSError(28, "No space left on device", str(path))
            return write(path, *args, **options)

        monkeypatch.setattr(Path, write.__name__, full)
    with pytest.raises(ConfigError) as error:
        write_results(*done, tmp_path / "out", page)
    assert f"cannot write {tmp_path / 'out' / name}: No space left on device" in str(error.value)
    assert ".part" not in str(error.value)


@pytest.mark.parametrize("private", [False, True])
@pytest.mark.parametrize("name", [f"{mark}{name}" for mark in ("", ".part.") for name in FILES])
def test_nothing_is_written_through_what_lies_in_the_folder(done, tmp_path, name, private):
    """Links of either kind are followed nowhere, and no pipe is waited for; who named them may be anybody."""
    place, outside = tmp_path / "run", tmp_path / "outside"
    for make in (Path.symlink_to, Path.hardlink_to, lambda path, _: os.mkfifo(path)):
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir()
        outside.write_text("mine")
        make(place / name, outside)
        write_results(*done, place, page, private)
        assert outside.read_text() == "mine"
        assert all(not (place / one).is_symlink() and (place / one).is_file() for one in FILES)
        assert unknot.load_model(place / "model.safetensors").digest() == done[0].model.digest()
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir()
    (place / name).symlink_to(tmp_path / "new")
    write_results(*done, place, page, private)
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize(("private", "rights"), [(False, 0o640), (True, 0o600)])
def test_results_have_the_rights_that_the_process_gives_or_are_their_owners_alone(
    done, tmp_path, private, rights
):
    before = os.umask(0o027)
    try:
        write_results(*done, tmp_path / "run", page, private)
    finally:
        os.umask(before)
    assert {(tmp_path / "run" / name).stat().st_mode & 0o777 for name in FILES} == {rights}


HALF = [".part-record.json-0123456789abcdef.json", ".part-report.html-0123456789abcdef.html"]
THEIRS = [".part-record.json-mine", ".part-notes.txt-0123456789abcdef.txt", "notes.txt"]


def test_what_a_killed_process_left_half_written_goes_and_files_of_others_stay(done, tmp_path):
    for name in (*HALF, *THEIRS):
        (tmp_path / name).write_text("half")
    (tmp_path / ".part-config.toml-0123456789abcdef.toml").mkdir()
    write_results(*done, tmp_path, page)
    left = {path.name for path in tmp_path.iterdir() if path.is_file()}
    assert left == {*FILES, *THEIRS}


def test_what_another_process_is_writing_there_just_then_stays(done, tmp_path):
    with drafting(tmp_path, ()):
        (tmp_path / HALF[0]).write_text("half")
        write_results(*done, tmp_path, page)
    assert (tmp_path / HALF[0]).exists()
    write_results(*done, tmp_path, page)
    assert not (tmp_path / HALF[0]).exists()


def test_a_folder_may_be_named_by_a_link(done, tmp_path):
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    assert write_results(*done, tmp_path / "link", page)[0] == tmp_path / "link" / FILES[0]
    assert sorted(os.listdir(tmp_path / "real")) == sorted(FILES)


def test_without_a_table_there_is_no_configuration(done, tmp_path):
    history, _ = done
    names = {path.name for path in write_results(history, Experiment(), tmp_path, page)}
    assert names == set(FILES) - {"config.toml"}


PATHS_OF_OTHERS = """
from dataclasses import dataclass
from pathlib import Path

import unknot


def letters(*, where: Path = Path("a"), more: tuple[Path, ...] = (), kind: str = "b"):
    return unknot.load("digits")


@dataclass(frozen=True)
class Noted(unknot.RFS):
    notes: Path | None = None
    select: unknot.core.selection.Selector | None = None


"""


def test_paths_of_what_others_bring_lead_where_they_led_by_their_declared_type(tmp_path, monkeypatch):
    (tmp_path / "results_own_paths.py").write_text(PATHS_OF_OTHERS)
    (tmp_path / "own.toml").write_text(
        '[data]\nname = "results_own_paths:letters"\nwhere = "w"\nmore = ["x", "/y"]\nkind = "w"\n'
        '[method]\nname = "results_own_paths:Noted"\nnotes = "n"\nselect = {name = "dqn", policy = "p"}\n'
    )
    monkeypatch.chdir(tmp_path)
    Policy([0, 1], DQNSettings(), Key.root(0)).save("p")
    told = tomllib.loads(configuration(Experiment.read("own.toml")))
    here = str(tmp_path)
    assert told["data"]["where"] == f"{here}/w"
    assert told["data"]["more"] == [f"{here}/x", "/y"]
    assert told["data"]["kind"] == "w"
    assert told["method"]["notes"] == f"{here}/n"
    assert told["method"]["select"] == {"name": "dqn", "policy": f"{here}/p"}
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "config.toml").write_text(configuration(Experiment.read("own.toml")))
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert str(Experiment.read("config.toml").data.options["where"]) == f"{here}/w"
