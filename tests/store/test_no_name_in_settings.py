"""Settings that list clients have numbers in a kept run: a name goes with its client, and no bit does."""

import json
import os
import shutil
import signal
from dataclasses import dataclass
from pathlib import Path

import pytest
from kept_runs import dies, fast_folder, remove_tree
from typer.testing import CliRunner

from support import small_data, toy_federation
from unknot.cli import app
from unknot.core.errors import StoreError
from unknot.core.requests import erase
from unknot.core.toml import to_toml
from unknot.experiments import Experiment, kept
from unknot.experiments.simulate import prepare
from unknot.federation.aggregators import FedAvg
from unknot.store.keeper import RunKeeper
from unknot.store.keyring import Keyring
from unknot.store.look import look
from unknot.store.results import RESULTS
from unknot.unlearn import RFS

pytest.importorskip("cryptography")

GONE = "French"
OWN = """
import numpy as np, torch
from dataclasses import dataclass
from torch import nn
from unknot import Samples
from unknot.data import Dataset
from unknot.unlearn import RFS

def towns(*, towns: tuple[str, ...] = (), sizes: dict[str, int] | None = None, main: str = ""):
    def drawn(k):
        x, y = [], []
        for town in towns:
            d = np.random.default_rng(sum(map(ord, town)))
            x.append(d.standard_normal((k, 4), dtype=np.float32))
            y.append(np.arange(k) % 2)
        return Samples(torch.from_numpy(np.concatenate(x)), torch.from_numpy(np.concatenate(y)), classes=2)
    n = np.arange(len(towns))
    owners = np.repeat(n, 20), np.repeat(n, 4)
    return Dataset("towns", drawn(20), drawn(4), *owners, tuple(towns), by_name=True)

class Bag(nn.Module):
    def __init__(self, shape, classes):
        super().__init__()
        self.e, self.o = nn.Embedding(300, 4), nn.Linear(4, classes)
    def forward(self, x):
        return self.o(self.e(x.long()).mean(1))

@dataclass(frozen=True)
class Mine(RFS):
    name = "mine"
    first: tuple[str, ...] = ()
    deep: tuple[tuple[str, ...], ...] = ()
"""


def call(*args, code=0):
    result = CliRunner().invoke(app, [str(arg) for arg in args], env={"COLUMNS": "300"})
    assert result.exit_code == code, (result.output, result.exception)
    return result


def holding(folder: Path, name: str) -> list[str]:
    """The files of a folder that have a name in their bytes, however it is written."""
    files = [path for path in sorted(folder.rglob("*")) if path.is_file()]
    wanted = [name.lower().encode(how) for how in ("utf-8", "utf-16-le")]
    return [path.name for path in files if any(one in path.read_bytes().lower() for one in wanted)]


@pytest.fixture(scope="module")
def code(tmp_path_factory) -> Path:
    """Where the code lies that files name; once, for Python imports it once."""
    place = tmp_path_factory.mktemp("code")
    (place / "own_parts_that_list.py").write_text(OWN)
    return place


def languages(root: Path, code: Path, **data) -> dict:
    """An experiment whose clients are languages; with validation rows and samples that are drawn."""
    for language, many in {"german": 9, "french": 11, "italian": 10, "spanish": 8}.items():
        place = root / "sentiment" / "data" / language
        place.mkdir(parents=True, exist_ok=True)
        for part, count in (("train", many), ("test", 3)):
            rows = [f"{label} {language[:2]} {i},{label}" for i in range(count) for label in LABELS]
            (place / f"{part}.csv").write_text("text,label\n" + "\n".join(rows) + "\n")
    said = {"languages": ["German", "French", "Italian"], "partition": "by-owner", "samples": 12, **data}
    return {
        "modules": str(code),
        "data": {"name": "sentiments", "root": str(root), "context": 24, "validation": 0.2, **said},
        "model": {"name": "own_parts_that_list:Bag"},
        "federation": {"rounds": 3, "per_round": 2, "evaluate_on": ["validation", "test"]},
    }


LABELS = ("negative", "neutral", "positive")


def in_memory(said: dict, more: int) -> dict:
    fed = prepare(made := Experiment.of(said))
    fed.run(made.length, requests=made.requests)
    return bits(fed.run(more))


def bits(history) -> dict:
    """What is to be the same, whatever clients are called."""
    rounds = [(one.round, one.time, one.scores, one.train_loss) for one in history.rounds]
    return {
        "model": history.model.digest(),
        "rounds": rounds,
        "scores": history.scores,
        "costs": history.costs,
    }


@pytest.mark.parametrize(
    "data",
    [
        {},
        {"samples": 6, "test_samples": 4, "test": "clients"},
        {"clients": 3, "languages": ["spanish", "german", "french", "italian"]},
        {"corrupt": ["Italian"], "corruption": "labels"},
        {"validation": 0},
    ],
)
def test_a_listed_name_is_nowhere_after_the_erasure_and_the_run_goes_on_to_the_same_bits(
    tmp_path, code, data
):
    said = languages(tmp_path / "data", code, **data)
    said["request"] = [{"erase": GONE, "round": 2}]
    if data.get("validation") == 0:
        said["federation"]["evaluate_on"] = ["test"]
    out = tmp_path / "run"
    kept.go_on(fed := kept.begin(Experiment.of(said), out, every=0.0))
    fed.close()
    assert holding(out, GONE) == []
    fed = kept.resume(out, own_code=True)
    assert bits(kept.go_on(fed, 2)) == in_memory(said, 2)
    fed.close()
    assert holding(out, GONE) == []
    left = [one.title() for one in kept.to_leave(out, own_code=True).data.options["languages"]]
    assert left == [one.title() for one in said["data"]["languages"] if one.title() != GONE]


def test_results_of_a_run_that_goes_on_have_no_listed_name_either(tmp_path, code):
    file, out = tmp_path / "s.toml", tmp_path / "run"
    said = languages(tmp_path / "data", code)
    file.write_text(to_toml(said))
    call("run", file, "--out", out, "--quiet")
    assert set(holding(out, GONE)) <= set(RESULTS)
    call("forget", out, "--client", GONE)
    call("resume", out, "--own-code", "--quiet")
    assert holding(out, GONE) == []
    assert 'languages = ["German", "Italian"]' in (out / "config.toml").read_text()
    call("resume", out, "--own-code", "--quiet", "--rounds", 1)
    assert holding(out, GONE) == []
    assert GONE not in call("show", out).output
    call("forget", out, "--client", "Italian")
    call("resume", out, "--own-code", "--quiet")
    assert holding(out, GONE) == holding(out, "Italian") == []


def test_killed_in_the_middle_of_it_it_goes_on_likewise(code):
    base = fast_folder()
    try:
        said = languages(base / "data", code)
        said["request"] = [{"erase": GONE, "round": 2}]
        wanted = in_memory(said, 2)

        def work(folder):
            if (folder / "run.db").exists() and kept_already(folder):
                fed = kept.resume(folder, every=0.0, own_code=True)
            else:
                fed = kept.begin(Experiment.of(said), folder, every=0.0)
            kept.go_on(fed)
            fed.close()

        moment, died = 60, True
        while died:
            folder = base / str(moment)
            died = dies(moment, lambda: work(folder))  # noqa: B023
            work(folder)
            fed = kept.resume(folder, own_code=True)
            assert bits(kept.go_on(fed, 2)) == wanted, f"killed at point {moment}"
            fed.close()
            assert holding(folder, GONE) == [], f"killed at point {moment}"
            remove_tree(folder)
            moment += 41
        assert moment > 200
    finally:
        remove_tree(base)


def kept_already(folder: Path) -> bool:
    from unknot.store.folder import is_kept

    return is_kept(folder)


@pytest.fixture
def own(code):
    return {
        "modules": str(code),
        "data": {
            "name": "own_parts_that_list:towns",
            "towns": ["Graz-7f3a", "Linz", "#1", "Wien"],
            "sizes": {"Graz-7f3a": 3, "#2": 4},
            "partition": "by-owner",
        },
        "method": {
            "name": "own_parts_that_list:Mine",
            "first": ["Graz-7f3a", "Wien", "nobody"],
            "deep": [["Linz", "Graz-7f3a"], ["Graz-7f3a"]],
        },
        "federation": {"rounds": 2},
        "request": [{"erase": "Graz-7f3a", "round": 1}],
    }


def test_own_parts_that_list_clients_are_given_back_who_is_still_there(tmp_path, own):
    out = tmp_path / "run"
    kept.go_on(fed := kept.begin(Experiment.of(own), out, every=0.0))
    fed.close()
    assert holding(out, "Graz-7f3a") == []
    fed = kept.resume(out, own_code=True)
    assert (fed.method.first, fed.method.deep) == (("Wien", "nobody"), (("Linz",), ()))
    found = bits(kept.go_on(fed, 2))
    fed.close()
    assert found == in_memory(own, 2)
    left = kept.to_leave(out, own_code=True)
    assert left.data.options["towns"] == ("Linz", "#1", "Wien")
    assert left.data.options["sizes"] == {"#2": 4}
    assert left.table["method"]["deep"] == [["Linz"], []]
    assert holding(out, "Graz-7f3a") == []


def test_a_method_that_lists_others_who_are_still_there_is_another_one(tmp_path, own):
    out = tmp_path / "run"
    kept.go_on(fed := kept.begin(Experiment.of(own), out, every=0.0))
    fed.close()
    with pytest.raises(StoreError, match=r"method\.first is"):
        kept.resume(out, overrides=['method.first=["Wien"]'], own_code=True)


def test_a_setting_that_is_a_name_itself_stays_and_is_told(tmp_path, own):
    own["data"]["main"] = "Graz-7f3a"
    own["name"] = "graz-7F3A"
    file, out = tmp_path / "own.toml", tmp_path / "run"
    file.write_text(to_toml(own))
    call("run", file, "--out", out, "--quiet")
    assert "run.db" in holding(out, "Graz-7f3a")
    told = call("show", out).output
    assert "the setting data.main is its name" in told
    assert "the setting name is its name" in told
    assert "data.towns is its name" not in told
    [erased] = json.loads(call("show", out, "--json").output)["erased"]
    assert erased["settings"] == ["name", "data.main"]


@pytest.mark.parametrize(
    ("file", "place", "told"),
    [
        ("Graz_study", "data_Graz", ["data.path", "name"]),
        ("grazStudy", "Graz2024", ["data.path", "name"]),
        ("grazing", "bregraz", []),
    ],
)
def test_a_name_in_the_name_of_the_file_or_of_a_folder_is_told(tmp_path_factory, file, place, told):
    base = tmp_path_factory.mktemp("own")  # what pytest makes of this test's name has the name, too
    towns = base / place
    towns.mkdir()
    for name in ("Graz", "Linz", "test", "validation"):
        (towns / f"{name}.csv").write_text("age,ill\n" + "0.1,0\n0.3,1\n" * 3)
    said = {
        "data": {"name": "folder", "path": str(towns), "target": "ill"},
        "federation": {"rounds": 2},
        "request": [{"erase": "Graz", "round": 1}],
    }
    path, out = base / f"{file}.toml", base / "run"
    path.write_text(to_toml(said))
    call("run", path, "--out", out, "--quiet")
    [erased] = json.loads(call("show", out, "--json").output)["erased"]
    assert erased["settings"] == told


def test_columns_and_classes_of_own_files_are_no_clients(tmp_path):
    place = tmp_path / "towns"
    place.mkdir()
    for name in ("age", "height", "test", "validation"):
        (place / f"{name}.csv").write_text("age,height,ill\n" + "0.1,0.2,0\n0.3,0.4,1\n" * 3)
    said = {
        "data": {"name": "folder", "path": str(place), "target": "ill", "columns": ["height", "age"]},
        "federation": {"rounds": 2},
        "request": [{"erase": "age", "round": 1}],
    }
    out = tmp_path / "run"
    kept.go_on(fed := kept.begin(Experiment.of(said), out, every=0.0))
    fed.close()
    fed = kept.resume(out, own_code=True)
    assert bits(kept.go_on(fed, 1)) == in_memory(said, 1)
    fed.close()
    shutil.rmtree(out)


@pytest.mark.parametrize("killed", [False, True])
def test_an_erasure_of_all_who_are_listed_is_finished_and_then_nobody_is_left(tmp_path, code, killed):
    said = languages(tmp_path / "data", code, languages=["German", "French"], validation=0)
    file, out = tmp_path / "f.toml", tmp_path / "run"
    file.write_text(to_toml(said))
    call("run", file, "--out", out, "--quiet")
    call("forget", out, "--client", "German", "--client", "French")

    def until_the_keys_are_gone():
        destroy = Keyring.destroy
        Keyring.destroy = lambda *given: (destroy(*given), os.kill(os.getpid(), signal.SIGKILL))
        call("resume", out, "--own-code", "--quiet")

    if killed:
        assert dies(0, until_the_keys_are_gone)
        assert holding(out, "German")
    told = call("resume", out, "--own-code", "--quiet", code=2 if killed else 4).output
    assert not killed or "no clients are left" in told
    assert (holding(out, "German"), holding(out, GONE)) == ([], [])
    assert json.loads(call("show", out, "--json").output)["requests"][0]["state"] == "served"
    assert "no clients are left" in call("resume", out, "--own-code", "--rounds", "1", code=2).output


def test_a_setting_in_other_capitals_comes_back_by_the_name(tmp_path, own):
    own["method"]["first"] = ["LINZ", "wien"]
    own["method"]["deep"] = [["Linz", "linz"]]
    out = tmp_path / "run"
    kept.go_on(fed := kept.begin(Experiment.of(own), out, every=0.0))
    fed.close()
    fed = kept.resume(out, own_code=True)
    assert (fed.method.first, fed.method.deep) == (("Linz", "Wien"), (("Linz", "Linz"),))
    fed.close()


def test_a_key_or_a_text_that_has_a_name_stays_and_is_told(tmp_path, own):
    own["data"]["main"] = "Linz,graz-7F3A"
    file, out = tmp_path / "own.toml", tmp_path / "run"
    file.write_text(to_toml(own))
    call("run", file, "--out", out, "--quiet")
    [erased] = json.loads(call("show", out, "--json").output)["erased"]
    assert erased["settings"] == ["data.main"]


def test_in_python_too_settings_that_are_a_name_are_told(tmp_path):
    @dataclass(frozen=True)
    class Mine(RFS):
        name = "mine"
        main: str = ""

    @dataclass(frozen=True)
    class Listing(FedAvg):
        only: tuple[str, ...] = ()

    data = small_data((5, 8, 3))
    data.called({0: "Linz", 1: "Graz-7f3a", 2: "Wien"})
    fed = toy_federation(Mine("Graz-7f3a"), data, aggregate=Listing(("Graz-7f3a", "Linz")))
    keeper = RunKeeper.create(fed, tmp_path / "run", every=0.0)
    fed.run(3, requests=[erase(1, round=1)])
    keeper.close()
    assert look(tmp_path / "run").erased[0]["settings"] == ["method.main"]
