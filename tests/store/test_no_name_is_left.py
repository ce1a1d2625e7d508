"""A client's name goes with it, wherever the experiment's settings had put it."""

import json
import shutil
from pathlib import Path

import pytest
from kept_runs import dies, fast_folder, remove_tree
from typer.testing import CliRunner

from unknot.cli import app
from unknot.core.requests import erase
from unknot.core.saved import save_model
from unknot.core.toml import to_toml
from unknot.experiments import Experiment
from unknot.experiments.simulate import prepare
from unknot.store.results import RESULTS

NAMES = ("Hospital of Bregenz", "Hospital of Graz 7f3a91", "Hospital of Linz", "Hospital of Wien")
GONE = NAMES[1]
NUMBERS = {name: 5 - place for place, name in enumerate(NAMES)}


def call(*args, code=0):
    result = CliRunner().invoke(app, [str(arg) for arg in args], env={"COLUMNS": "300"})
    assert result.exit_code == code, (result.output, result.exception)
    return result


def holding(folder: Path, name: str) -> list[str]:
    """The files of a folder that have a name in their bytes."""
    wanted = [name.encode(how) for how in ("utf-8", "utf-16-le")] + [json.dumps(name)[1:-1].encode()]
    files = [path for path in sorted(folder.rglob("*")) if path.is_file()]
    return [path.name for path in files if any(one in path.read_bytes() for one in wanted)]


def written(base: Path, **more) -> Path:
    """The file of a run that names clients wherever one can."""
    place = base / "towns"
    place.mkdir()
    for i, name in enumerate((*NAMES, "test", "validation")):
        lines = "".join(f"0.{i}{j},{j % 2}\n" for j in range(6))
        (place / f"{name}.csv").write_text("age,ill\n" + lines)
    said = {
        "data": {
            "name": "folder",
            "path": str(place),
            "target": "ill",
            "ids": NUMBERS,
            "corrupt": [GONE, NAMES[2]],
        },
        "model": {"hidden": [4]},
        "federation": {"rounds": 2},
        **more,
    }
    path = base / "towns.toml"
    path.write_text(to_toml(said))
    return path


@pytest.mark.parametrize("method", ["rfs", "federaser", "pga"])
def test_settings_that_name_clients_leave_no_name_of_who_is_erased(tmp_path, method):
    out = tmp_path / "run"
    file = written(tmp_path, method={"name": method})
    call("run", file, "--out", out, "--quiet", "--checkpoint", 0)
    assert set(holding(out, GONE)) <= set(RESULTS)
    call("forget", out, "--client", GONE, "--reason", f"{GONE} asked by post")
    assert "run.db" not in holding(out, GONE)
    call("resume", out, "--quiet")
    assert holding(out, GONE) == []
    assert "config.toml" in holding(out, NAMES[0])
    (tmp_path / "towns" / f"{GONE}.csv").unlink()
    call("resume", out, "--quiet", "--rounds", 1)
    assert holding(out, GONE) == []
    assert GONE not in call("show", out).output
    found = json.loads((out / "record.json").read_text())["names"]
    assert found == {str(NUMBERS[name]): name for name in NAMES if name != GONE}


def test_a_request_of_the_file_leaves_none_either(tmp_path):
    file = written(tmp_path, request=[{"erase": GONE, "round": 1}, {"join": [NAMES[3]], "round": 1}])
    call("run", file, "--out", tmp_path / "run", "--quiet")
    assert holding(tmp_path / "run", GONE) == []


def test_weights_to_start_from_bring_no_name_back(tmp_path):
    file = written(tmp_path)
    model = prepare(Experiment.read(file)).run(1).model
    save_model(model, tmp_path / "start.safetensors")
    out = tmp_path / "run"
    call("run", file, "--out", out, "--quiet", "--set", f"model.initial={tmp_path / 'start.safetensors'}")
    call("forget", out, "--client", GONE)
    call("resume", out, "--quiet")
    (tmp_path / "towns" / f"{GONE}.csv").unlink()
    call("resume", out, "--quiet", "--rounds", 1)
    assert holding(out, GONE) == []


def test_the_numbers_that_a_file_gave_are_left_with_who_is_still_there(tmp_path):
    out = tmp_path / "run"
    call("run", written(tmp_path), "--out", out, "--quiet")
    again = json.loads(call("run", out / "config.toml", "--json").stdout)
    assert again["model"] == json.loads((out / "record.json").read_text())["model"]
    call("forget", out, "--client", GONE)
    call("resume", out, "--quiet")
    left = Experiment.read(out / "config.toml").data.options["ids"]
    assert left == {name: number for name, number in NUMBERS.items() if name != GONE}


@pytest.mark.parametrize("stride", [25, pytest.param(3, marks=pytest.mark.slow)])
def test_killed_in_the_middle_of_it_likewise(stride):
    base = fast_folder()
    try:
        call("run", written(base), "--out", base / "first", "--quiet", "--checkpoint", 0)
        call("forget", base / "first", "--client", GONE)
        moment, died = 1, True
        while died:
            folder = base / str(moment)
            shutil.copytree(base / "first", folder)
            died = dies(moment, lambda: call("resume", folder, "--quiet"))  # noqa: B023
            call("resume", folder, "--quiet")
            assert holding(folder, GONE) == [], f"killed at point {moment}"
            remove_tree(folder)
            moment += stride
        assert moment > 30
    finally:
        remove_tree(base)


def test_what_an_earlier_run_let_pass_is_not_written_by_name(tmp_path):
    """The promise of a run says what the model that it starts from keeps, and of whom."""
    file = written(tmp_path, method={"name": "pga"})
    earlier = prepare(Experiment.read(file))
    save_model(earlier.run(2, requests=erase(GONE, round=1)).model, tmp_path / "start.safetensors")
    out, start = tmp_path / "run", f"model.initial={tmp_path / 'start.safetensors'}"
    call("run", file, "--out", out, "--quiet", "--set", start)
    assert GONE in json.loads((out / "record.json").read_text())["guarantee"]
    assert set(holding(out, GONE)) <= set(RESULTS)
    call("forget", out, "--client", GONE)
    call("resume", out, "--quiet")
    assert holding(out, GONE) == []


@pytest.mark.parametrize("when", ["first", "later", "over"])
def test_a_picture_in_the_folder_goes_at_an_erasure_whatever_its_name(tmp_path, when):
    pytest.importorskip("matplotlib")
    out, file = tmp_path / "run", written(tmp_path)
    out.mkdir()
    picture = ["--plot", out / f"{GONE}.svg"]
    call("run", file, "--out", out, "--quiet", *(picture if when == "first" else []))
    if when != "first":
        call("resume", out, "--quiet", *(["--rounds", 1] if when == "later" else []), *picture)
    assert (out / f"{GONE}.svg").exists()
    (out / "mine.txt").write_text("a note")
    call("forget", out, "--client", GONE)
    call("resume", out, "--quiet")
    assert holding(out, GONE) == []
    assert not [path for path in out.iterdir() if GONE in path.name]
    assert (out / "mine.txt").exists()
    assert "a picture" in call("show", out).output
    call("resume", out, "--rounds", 1, "--quiet", "--plot", out / "again.svg")
    assert (out / "again.svg").exists()
    call("run", file, "--out", out, "--force", "--quiet")
    assert not (out / "again.svg").exists()


@pytest.mark.parametrize(
    ("option", "place"),
    [("--csv", "x.csv"), ("--tensorboard", "below/board"), ("--mlflow", "flow"), ("--plot", "below/x.svg")],
)
def test_what_an_erasure_would_not_reach_is_refused_in_the_folder(tmp_path, option, place):
    if option == "--plot":
        pytest.importorskip("matplotlib")
    out, file = tmp_path / "run", written(tmp_path)
    (out / "below").mkdir(parents=True)
    told = call("run", file, "--out", out, option, out / place, code=2).stderr
    assert "outside of it" in told
    assert [path.name for path in out.iterdir()] == ["below"]
    (out / "below").rmdir()
    call("run", file, "--out", out, "--quiet")
    (out / "below").mkdir()
    assert "outside of it" in call("resume", out, "--rounds", 1, option, out / place, code=2).stderr
    assert not (out / place).exists()
    if option == "--mlflow":
        inside = f"sqlite:///{out / 'flow.db'}"
        assert "outside of it" in call("resume", out, "--rounds", 1, option, inside, code=2).stderr


def test_a_tracker_beside_the_folder_is_as_it_was(tmp_path):
    call("run", written(tmp_path), "--out", tmp_path / "run", "--csv", tmp_path / "run.csv", "--quiet")
    assert (tmp_path / "run.csv").exists()
