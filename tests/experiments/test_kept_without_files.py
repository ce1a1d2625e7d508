"""Once an erased client's files are taken away, a kept run goes on as if they were still there."""

import shutil
from pathlib import Path

import numpy as np
import pytest

from support import grid
from unknot.core.errors import StoreError
from unknot.core.requests import erase
from unknot.core.saved import save_model
from unknot.data.client_files import folder as client_files
from unknot.experiments import Experiment, kept
from unknot.experiments.simulate import prepare, simulate

pytest.importorskip("cryptography")

NAMES = ("Bregenz", "Graz", "Linz", "Wien")


def story(history) -> dict:
    """All that is to be the same, whoever's files are there."""
    told = history.to_dict()
    for name in ("seconds", "environment"):
        told.pop(name, None)
    return {"digest": history.model.digest(), "from": history.model.lineage.describe(), **told}


def rows(seed: int, labels: list[str], columns: str = "age,height,ill") -> str:
    draw = np.random.default_rng(seed)
    lines = [
        ",".join(f"{draw.uniform():.4f}" if name != "ill" else label for name in columns.split(","))
        for label in labels
    ]
    return "\n".join([columns, *lines]) + "\n"


@pytest.fixture
def towns(tmp_path) -> Path:
    place = tmp_path / "towns"
    place.mkdir()
    for seed, name in enumerate((*NAMES, "test", "validation")):
        (place / f"{name}.csv").write_text(rows(seed, ["0", "1"] * 3))
    return place


def table(place: Path, gone: str, data: dict | None = None, **more) -> dict:
    return {
        "data": {"name": "folder", "path": str(place), "target": "ill", **(data or {})},
        "model": {"hidden": [4], **more.pop("model", {})},
        "train": {"batch_size": 2},
        "federation": {"rounds": 2, **more.pop("federation", {})},
        "request": [{"erase": gone, "round": 1}],
        **more,
    }


def both_ways(tmp_path: Path, place: Path, gone: str, said: dict) -> tuple[dict, dict]:
    """Two rounds more, with the files of who was erased, and without."""
    kept.go_on(fed := kept.begin(Experiment.of(said), tmp_path / "one", every=0.0))
    fed.close()
    shutil.copytree(tmp_path / "one", tmp_path / "two")
    found = []
    for folder in ("one", "two"):
        fed = kept.resume(tmp_path / folder)
        found.append(story(kept.go_on(fed, 2)))
        fed.close()
        (place / f"{gone}.csv").unlink(missing_ok=True)
    return found[0], found[1]


SAID = {
    "plain": {},
    "per_round of all": {"federation": {"per_round": 4}},
    "buffered": {"federation": {"pace": "buffered", "per_round": 4, "minimum": 2, "rounds": 2}},
    "corrupt by name": {"data": {"corrupt": ["Graz", "Linz"]}},
    "corrupt by number": {"data": {"corrupt": [1, 3]}},
    "corrupt labels": {"data": {"corrupt": [1, 3], "corruption": "labels"}},
    "ids": {"data": {"ids": {"Wien": 0, "Linz": 7, "Graz": 3, "Bregenz": 5}}},
    "a selector": {"select": {"name": "balanced"}, "federation": {"per_round": 2}},
    "knot": {"method": {"name": "knot", "clusters": 2}},
}


@pytest.mark.parametrize(("said", "gone"), grid(SAID, NAMES[1::-1]))
def test_a_run_goes_on_bit_equal_without_the_files_of_who_was_erased(tmp_path, towns, said, gone):
    there, without = both_ways(tmp_path, towns, gone, table(towns, gone, **SAID[said]))
    assert there == without
    assert max(one["round"] for one in there["rounds"]) == 4


@pytest.mark.parametrize(
    ("first", "others"),
    [
        pytest.param(["0", "1", "4"], ["0", "1", "2"], id="the highest class"),
        pytest.param(["0.5", "1", "4"], ["0", "1", "2"], id="targets that are values"),
    ],
)
def test_what_the_erased_alone_had_shaped_the_data_and_still_does(tmp_path, towns, first, others):
    for seed, name in enumerate((*NAMES, "test", "validation")):
        (towns / f"{name}.csv").write_text(rows(seed, first if name == "Graz" else others))
    there, without = both_ways(tmp_path, towns, "Graz", table(towns, "Graz"))
    assert there == without


def test_columns_stay_in_the_order_of_a_first_file_that_is_gone(tmp_path, towns):
    (towns / "Bregenz.csv").write_text(rows(0, ["0", "1"] * 3, "height,ill,age"))
    there, without = both_ways(tmp_path, towns, "Bregenz", table(towns, "Bregenz"))
    assert there == without


def test_weights_to_start_from_that_the_erased_had_a_part_in(tmp_path, towns):
    earlier = prepare(Experiment.of({**table(towns, "Graz"), "request": []})).run(1)
    save_model(earlier.model, tmp_path / "start.safetensors")
    said = table(towns, "Graz", model={"initial": str(tmp_path / "start.safetensors")})
    there, without = both_ways(tmp_path, towns, "Graz", said)
    assert there == without
    assert "Graz" not in str(without)


def test_a_file_that_comes_back_is_not_let_in_again(tmp_path, towns):
    content = (towns / "Graz.csv").read_bytes()
    both_ways(tmp_path, towns, "Graz", table(towns, "Graz"))
    (towns / "Graz.csv").write_bytes(content)
    fed = kept.resume(tmp_path / "two")
    assert fed.data.erased == {1}
    assert list(fed.data.clients) == [0, 2, 3]
    assert "Graz" not in fed.data.names.values()
    fed.close()


def test_a_file_of_somebody_who_is_still_there_must_be_there(tmp_path, towns):
    both_ways(tmp_path, towns, "Graz", table(towns, "Graz"))
    (towns / "Linz.csv").unlink()
    with pytest.raises(StoreError, match="not there any more"):
        kept.resume(tmp_path / "two")


def test_rows_of_a_table_of_texts_may_go_where_none_are_drawn_for_validation(tmp_path):
    lines = [(f"Text {i} of {name}", str(i % 3), name) for i in range(6) for name in NAMES]
    lines += [(f"Only here {i}", "9", "Graz") for i in range(4)]
    path = tmp_path / "texts.csv"
    path.write_text("text,label,client\n" + "".join(f"{','.join(line)}\n" for line in lines))
    said = {
        "data": {
            "name": "texts",
            "path": str(path),
            "client": "client",
            "context": 16,
            "validation": 0,
        },
        "model": {"name": "gpt", "layers": 1, "heads": 1, "width": 8},
        "federation": {"rounds": 2, "evaluate_on": ["test"]},
        "request": [{"erase": "Graz", "round": 1}],
    }
    kept.go_on(fed := kept.begin(Experiment.of(said), tmp_path / "one", every=0.0))
    fed.close()
    shutil.copytree(tmp_path / "one", tmp_path / "two")
    found = []
    for folder in ("one", "two"):
        fed = kept.resume(tmp_path / folder)
        found.append(story(kept.go_on(fed, 2)))
        fed.close()
        path.write_text(
            "text,label,client\n" + "".join(f"{','.join(line)}\n" for line in lines if line[2] != "Graz")
        )
    assert found[0] == found[1]


def test_weights_to_start_from_may_know_somebody_who_is_no_client(tmp_path, towns):
    (towns / "Aflenz.csv").write_text(rows(9, ["0", "1"] * 3))
    earlier = prepare(Experiment.of({**table(towns, "Graz"), "request": []})).run(1)
    save_model(earlier.model, tmp_path / "start.safetensors")
    (towns / "Aflenz.csv").unlink()
    said = table(towns, "Graz", model={"initial": str(tmp_path / "start.safetensors")})
    said["request"][0]["round"] = 3
    kept.go_on(fed := kept.begin(Experiment.of(said), tmp_path / "run", every=0.0))
    before = fed.initial.lineage.describe(), dict(fed.data.names)
    fed.close()
    assert "Aflenz" in before[1].values()
    fed = kept.resume(tmp_path / "run")
    assert (fed.initial.lineage.describe(), fed.data.names) == before
    fed.close()


def test_where_all_are_erased_nobody_comes_back(tmp_path, towns):
    said = table(towns, "Graz", data={"ids": {"Wien": 0, "Linz": 7, "Graz": 3, "Bregenz": 5}})
    said["request"] = [{"erase": list(NAMES), "round": 1}]
    kept.go_on(fed := kept.begin(Experiment.of(said), tmp_path / "run", every=0.0))
    fed.close()
    fed = kept.resume(tmp_path / "run")
    assert not list(fed.data.clients)
    assert fed.data.erased == {0, 3, 5, 7}
    fed.close()


@pytest.mark.parametrize("others", [(), ("Graz",)])
def test_a_run_made_in_python_goes_on_to_the_same_bits_without_them(tmp_path, towns, others):
    def build(run):
        return simulate("mlp", client_files(towns, target="ill"), store=tmp_path / run)

    fed = build("one")
    fed.run(3, requests=[erase("Bregenz", round=1), *(erase(name, round=2) for name in others)])
    fed.close()
    shutil.copytree(tmp_path / "one", tmp_path / "two")
    found = []
    for run in ("one", "two"):
        fed = build(run)
        found.append(story(fed.run(2, requests=[erase("Wien")])))
        fed.close()
        (towns / "Bregenz.csv").unlink(missing_ok=True)
    assert found[0] == found[1]
    assert found[0]["requests"][-1]["clients"] == [3]
