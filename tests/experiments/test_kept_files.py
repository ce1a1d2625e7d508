"""Files that a kept run's settings name: shown before they are read, and refused once they are others."""

import os
import sys
from pathlib import Path

import numpy as np
import pytest

import unknot
from events import heard_by
from small_language_model import write_langid, write_model, write_sentiments, write_shakespeare
from unknot.core import registry
from unknot.core.errors import StoreError
from unknot.core.keys import Key
from unknot.core.registry.sections import union
from unknot.core.requests import erase
from unknot.core.saved import save_model
from unknot.experiments import Experiment, kept
from unknot.experiments.files_read import digests_of
from unknot.experiments.simulate import prepare
from unknot.experiments.specs import DataSpec, ModelSpec
from unknot.select import DQN, DQNSettings, Policy

pytest.importorskip("cryptography")

BASE = {
    "data": {"partition": "iid", "clients": 4, "samples": 20},
    "model": {"hidden": [4]},
    "federation": {"rounds": 2, "per_round": 2},
}
LANGUAGE = {
    "model": {"name": "pretrained"},
    "train": {"optimizer": "sgd", "lr": 0.01},
    "federation": {"rounds": 1, "evaluate_on": ["test"]},
}


def opened_by(work) -> set[Path]:
    """All files that are opened, whoever does."""
    found: list[str] = []

    def listen(event: str, args: tuple) -> None:
        if event == "open" and isinstance(args[0], str | bytes | Path):
            found.append(str(Path(args[0].decode() if isinstance(args[0], bytes) else args[0]).absolute()))

    with heard_by(listen):
        work()
    return {Path(path) for path in found}


def policy(place: Path) -> dict:
    settings = {"hidden": [8], "batch": 2}
    fed = prepare(Experiment.of({**BASE, "select": {"name": "dqn", "settings": settings}}))
    fed.run(2)
    fed.lanes["global"].selector.policy.save(place / "policy")
    chosen = {"name": "dqn", "settings": settings, "policy": str(place / "policy")}
    return {**BASE, "select": chosen}


def initial(place: Path) -> dict:
    save_model(prepare(Experiment.of(BASE)).run(1).model, place / "start.safetensors")
    return {**BASE, "model": {"hidden": [4], "initial": str(place / "start.safetensors")}}


def folder(place: Path) -> dict:
    (place / "towns").mkdir()
    for name in ("Graz", "Linz", "test", "validation"):
        (place / "towns" / f"{name}.csv").write_text("age,ill\n" + "0.1,0\n0.2,1\n" * 4)
    data = {"name": "folder", "path": str(place / "towns"), "target": "ill"}
    return {**BASE, "data": data, "federation": {"rounds": 1}}


def texts(place: Path, **more) -> dict:
    lines = [f"Text {i} of {name},{i % 2},{name}" for i in range(8) for name in ("Graz", "Linz")]
    (place / "texts.csv").write_text("text,label,client\n" + "\n".join(lines) + "\n")
    model = write_model(place / "small.gguf")
    data = {"name": "texts", "path": str(place / "texts.csv"), "client": "client", "label": "label"}
    said = {"data": {**data, "context": 16, "validation": 0, **more}, **LANGUAGE}
    return {**said, "model": {"name": "pretrained", "path": str(model)}}


def tokenizer_of_texts(place: Path) -> dict:
    return texts(place, tokenizer=str(write_model(place / "small.gguf")))


def tokenizer_of_model(place: Path) -> dict:
    said = texts(place)
    return {**said, "model": {**said["model"], "tokenizer": str(write_model(place / "other.gguf"))}}


def source(name: str, write):
    def made(place: Path) -> dict:
        write(place / "data", 12)
        model = str(write_model(place / "small.gguf"))
        data = {"name": name, "root": str(place / "data"), "tokenizer": model, "context": 32, "validation": 0}
        deal = {"partition": "iid", "clients": 2, "samples": 6}
        return {**LANGUAGE, "data": {**data, **deal}, "model": {"name": "pretrained", "path": model}}

    return made


NAMED = {
    ("selectors", "dqn", "policy"): policy,
    ("model", "", "initial"): initial,
    ("data", "", "root"): source("langid", write_langid),
    ("data", "folder", "path"): folder,
    ("datasets", "texts", "path"): texts,
    ("datasets", "texts", "tokenizer"): tokenizer_of_texts,
    ("datasets", "langid", "tokenizer"): source("langid", write_langid),
    ("datasets", "sentiments", "tokenizer"): source("sentiments", write_sentiments),
    ("datasets", "shakespeare", "tokenizer"): source("shakespeare", write_shakespeare),
    ("models", "pretrained", "path"): texts,
    ("models", "pretrained", "tokenizer"): tokenizer_of_model,
}
"""An experiment for each option that names a file."""


def test_there_is_an_experiment_for_each_option_of_ours_that_names_a_file():
    registries = {n: r for n in registry.__all__ if isinstance(r := getattr(registry, n), registry.Registry)}
    found = {
        (called, name, option)
        for called, one in registries.items()
        for name in one.ours
        for option, told in one.options(name).items()
        if Path in union(told.hint)
    }
    for called, spec in {"data": DataSpec, "model": ModelSpec}.items():
        options = registry.options_of(spec).items()
        found |= {(called, "", name) for name, told in options if Path in union(told.hint)}
    assert found | {("data", "folder", "path")} == set(NAMED)


def begun(said: dict, out: Path) -> Path:
    kept.go_on(fed := kept.begin(Experiment.of(said), out, every=0.0))
    fed.close()
    return out


@pytest.mark.parametrize("which", NAMED, ids=" ".join)
def test_every_file_that_is_opened_was_shown_before(which, tmp_path):
    place, out = tmp_path / "files", tmp_path / "run"
    place.mkdir()
    begun(NAMED[which](place), out)
    shown = [Path(path) for path in kept.reads(out)]

    def work():
        kept.resume(out).close()

    opened = {path for path in opened_by(work) if place in path.parents}
    assert opened
    hidden = {path for path in opened if not any(one in (path, *path.parents) for one in shown)}
    assert not hidden
    assert all(any(one in (path, *path.parents) for path in opened) for one in shown)


def test_code_that_may_not_be_imported_is_not_imported_to_find_its_files(tmp_path):
    (tmp_path / "own_part_with_a_file.py").write_text(
        "from dataclasses import dataclass\nfrom pathlib import Path\nfrom unknot.unlearn import RFS\n\n\n"
        "@dataclass(frozen=True)\nclass Mine(RFS):\n    table: Path = Path()\n    name = 'mine'\n"
    )
    (tmp_path / "table.txt").write_text("1")
    method = {"name": "own_part_with_a_file:Mine", "table": str(tmp_path / "table.txt")}
    out = begun({**BASE, "modules": str(tmp_path), "method": method}, tmp_path / "run")
    del sys.modules["own_part_with_a_file"]
    assert kept.reads(out) == []
    assert "own_part_with_a_file" not in sys.modules
    assert kept.reads(out, own_code=True) == [str(tmp_path / "table.txt")]
    (tmp_path / "table.txt").write_text("2")
    with pytest.raises(StoreError, match=r"table.txt \(method.table\) is not what it was"):
        kept.resume(out, own_code=True)


@pytest.mark.parametrize("which", [policy, initial, tokenizer_of_model], ids=lambda one: one.__name__)
def test_another_file_at_resume_is_refused_and_the_same_one_is_not(which, tmp_path):
    said = which(tmp_path)
    out = begun(said, tmp_path / "run")
    section, name = {
        policy: ("select", "policy"),
        initial: ("model", "initial"),
        tokenizer_of_model: ("model", "tokenizer"),
    }[which]
    file = Path(said[section][name])
    before = file.read_bytes()
    file.write_bytes(before + b" ")
    with pytest.raises(StoreError, match=rf"{file.name} \({section}.{name}\) is not what it was"):
        kept.resume(out)
    file.unlink()
    with pytest.raises(StoreError, match=rf"{file.name} \({section}.{name}\) is not there any more"):
        kept.resume(out)
    file.write_bytes(before)
    kept.resume(out).close()


def test_in_python_another_policy_is_refused_too(tmp_path):
    settings = DQNSettings(batch=2, hidden=(8,))

    def build(seed):
        select = DQN(settings, Policy(range(4), settings, Key.root(seed)))
        draw = np.random.default_rng(1)
        rows = {i: (draw.normal(size=(6, 4)).astype("float32"), draw.integers(0, 2, 6)) for i in range(4)}
        held = unknot.clients(rows, test=rows[0], validation=rows[1])
        return unknot.simulate("mlp", held, store=tmp_path / "run", select=select)

    fed = build(0)
    fed.run(2, requests=erase(1, round=1))
    fed.close()
    with pytest.raises(StoreError, match=r"select DQN.policy"):
        build(1)
    fed = build(0)
    fed.run(1)
    fed.close()


def test_a_folder_is_known_again_by_all_files_below_it(tmp_path):
    place = tmp_path / "folder"
    (place / "in" / "deep").mkdir(parents=True)
    (place / "in" / "deep" / "file").write_text("1")
    (place / "in" / "file").write_text("1")
    (place / "in" / "loop").symlink_to(place)

    def digest():
        ((found,),) = digests_of({"method.table": [str(place)]}).values()
        assert found
        return found

    before = digest()
    assert digest() == before
    for change in (
        lambda: (place / "in" / "deep" / "file").write_text("2"),
        lambda: (place / "in" / "deep" / "file").rename(place / "in" / "other"),
        lambda: (place / "in" / os.fsdecode(b"\xff")).write_text(""),
        lambda: (place / "in" / "file").unlink(),
    ):
        change()
        after = digest()
        assert after != before
        before = after


def test_a_run_that_is_kept_below_a_folder_that_it_names_goes_on(tmp_path):
    (tmp_path / "own_part_with_a_folder.py").write_text(
        "from dataclasses import dataclass\nfrom pathlib import Path\nfrom unknot.unlearn import RFS\n\n\n"
        "@dataclass(frozen=True)\nclass Mine(RFS):\n    table: Path = Path()\n    name = 'mine'\n"
    )
    place = tmp_path / "tables"
    (place / "in").mkdir(parents=True)
    (place / "in" / "table.txt").write_text("1")
    method = {"name": "own_part_with_a_folder:Mine", "table": str(place)}
    out = begun({**BASE, "modules": str(tmp_path), "method": method}, place / "runs" / "run")
    kept.resume(out, own_code=True).close()
    (place / "in" / "table.txt").write_text("2")
    with pytest.raises(StoreError, match=r"tables \(method.table\) is not what it was"):
        kept.resume(out, own_code=True)


@pytest.mark.parametrize("make", [policy, folder, texts])
def test_a_pipe_that_a_run_names_is_refused_and_not_waited_for(make, tmp_path):
    said = make(tmp_path)
    begun(said, tmp_path / "run")
    place = Path(said["select"]["policy"] if "select" in said else said["data"]["path"])
    place.rename(tmp_path / "away")
    os.mkfifo(place)
    with pytest.raises(StoreError, match=f"{place}.* is a pipe, and no file or folder"):
        kept.resume(tmp_path / "run")


def test_a_pipe_in_a_folder_that_a_run_names_is_refused_too(tmp_path):
    said = folder(tmp_path)
    begun(said, tmp_path / "run")
    place = next(path for path in sorted(Path(said["data"]["path"]).rglob("*")) if path.is_file())
    place.unlink()
    os.mkfifo(place)
    with pytest.raises(StoreError, match=f"{place}.* is a pipe, and no file or folder"):
        kept.resume(tmp_path / "run")
