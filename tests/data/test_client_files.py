"""A folder with a file a client, in Python and from TOML."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import unknot
from unknot.core.errors import ConfigError, DataError
from unknot.experiments import Experiment, prepare
from unknot.experiments.simulate import prepare_without

TABLES = {
    "Graz": "age,weight,ill\n1,2.5,0\n3,4,1\n",
    "Linz": "ill,age,weight\n1,5,6\n",  # the columns in another order
    "test": "age,weight,ill\n7,8,1\n",
}


def write(folder, files):
    folder.mkdir(exist_ok=True)
    for name, content in files.items():
        path = folder / name
        if isinstance(content, dict):
            np.savez(path, **content)
        elif isinstance(content, bytes):
            path.write_bytes(content)
        else:
            path.write_text(content)
    return folder


def tables(folder, **changes):
    return write(folder, {f"{name}.csv": text for name, text in (TABLES | changes).items() if text})


def test_each_table_is_a_client_called_as_its_file(tmp_path):
    data = unknot.folder(tables(tmp_path / "towns"), target="ill")
    assert data.name == "towns"
    assert data.names == {0: "Graz", 1: "Linz"}
    assert data.train.x.tolist() == [[1, 2.5], [3, 4], [5, 6]]
    assert data.train.y.tolist() == [0, 1, 1]
    assert (data.train.kind, data.train.classes) == ("classes", 2)
    assert (data.test.x.tolist(), data.test_owner, data.validation) == ([[7, 8]], None, None)


def test_arrays_and_tables_may_lie_side_by_side(tmp_path):
    x, y = np.array([[9.0, 10.0]]), np.array([0])
    folder = write(tables(tmp_path), {"Wien.npz": {"x": x, "y": y}, "validation.npz": {"x": x, "y": y}})
    data = unknot.folder(folder, target="ill")
    assert list(data.names.values()) == ["Graz", "Linz", "Wien"]
    assert data.validation.x.tolist() == [[9, 10]]


def test_targets_that_are_not_all_whole_are_values(tmp_path):
    data = unknot.folder(tables(tmp_path, Linz="ill,age,weight\n0.5,5,6\n"), target="ill")
    assert (data.train.kind, data.train.y.tolist()) == ("values", [0, 1, 0.5])
    whole = unknot.folder(tables(tmp_path, Linz=TABLES["Linz"]), target="ill", kind="values")
    assert whole.train.kind == "values"


def test_several_targets_make_a_table(tmp_path):
    table = "a,b,c\n1,0,5\n1,1,6\n"
    data = unknot.folder(write(tmp_path, {"Graz.csv": table}), target=["a", "b"])
    assert (data.train.kind, data.train.y.tolist()) == ("labels", [[1, 0], [1, 1]])


def test_the_servers_files_may_have_other_names(tmp_path):
    data = unknot.folder(tables(tmp_path), target="ill", test="Linz.csv", validation="test.csv")
    assert data.names == {0: "Graz"}
    assert (len(data.test), len(data.validation)) == (1, 1)


@pytest.mark.parametrize(
    "named",
    [{"public": "test.csv"}, {"validation": "test.csv"}, {"validation": "Linz.csv", "public": "Linz.csv"}],
)
def test_a_file_of_the_server_is_for_one_thing(tmp_path, named):
    with pytest.raises(DataError, match="|".join(named.values())):
        unknot.folder(tables(tmp_path), target="ill", **named)


def test_what_was_the_file_to_test_with_is_free_where_another_one_is(tmp_path):
    data = unknot.folder(tables(tmp_path), target="ill", test="Linz.csv", public="test.csv")
    assert (data.names, len(data.public)) == ({0: "Graz"}, 1)


def test_numbers_of_clients_may_be_given(tmp_path):
    data = unknot.folder(tables(tmp_path, Graz=""), target="ill", ids={"Graz": 0, "Linz": 1})
    assert data.clients == (1,)


TABLE, ARRAYS = TABLES["Graz"], {"x": np.zeros((2, 3)), "y": np.array([0, 1])}
BAD = {
    "no files": ({}, "towns"),
    "the server's files alone": ({"test.csv": TABLE}, "towns"),
    "another ending": ({"a.csv": TABLE, "b.parquet": "?"}, "b.parquet"),
    "no such column": ({"a.csv": "age,i\n1,0\n"}, "a.csv, line 2.*'ill'"),
    "text in a cell": ({"a.csv": "age,ill\n1,0\nold,1\n"}, "a.csv, line 3, column 'age': 'old'"),
    "text as target": ({"a.csv": "age,ill\n1,yes\n"}, "a.csv, line 2, column 'ill': 'yes'"),
    "an empty cell": ({"a.csv": "age,ill\n,0\n"}, "a.csv, line 2, column 'age'"),
    "not a number": ({"a.csv": "age,ill\nnan,0\n"}, "a.csv, line 2, column 'age': 'nan'"),
    "too many cells": ({"a.csv": "age,ill\n1,0\n1,2,0\n"}, "a.csv, line 3"),
    "too few cells": ({"a.csv": "age,ill\n1,0\n1\n"}, "a.csv, line 3.*'ill'"),
    "no names of columns": ({"a.csv": "1,0\n2,1\n"}, "a.csv"),
    "another separator": ({"a.csv": "age;ill\n1;0\n"}, "a.csv.*'ill'.*age;ill"),
    "a column without a name": ({"a.csv": "age,,ill\n1,2,0\n"}, "a.csv.*''"),
    "two columns of a name": ({"a.csv": "age,age,ill\n1,2,0\n"}, "a.csv.*'age'"),
    "nothing below": ({"a.csv": "age,ill\n"}, "a.csv"),
    "an empty table": ({"a.csv": ""}, "a.csv"),
    "the target alone": ({"a.csv": "ill\n1\n"}, "a.csv"),
    "bytes": ({"a.csv": b"age,ill\n\xff\xfe,1\n"}, "a.csv"),
    "other columns": ({"a.csv": TABLE, "b.csv": "age,ill\n1,0\n"}, "b.csv.*weight"),
    "more columns": ({"a.csv": "age,ill\n1,0\n", "b.csv": TABLE}, "b.csv.*weight"),
    "two files of a client": ({"a.csv": TABLE, "a.npz": ARRAYS}, "a.csv and a.npz"),
    "two files of the server": (
        {"a.csv": TABLE, "Test.csv": TABLE, "test.npz": ARRAYS},
        "Test.csv and test.npz",
    ),
    "other features": ({"a.csv": TABLE, "b.npz": ARRAYS}, r"b.*\(3,\)"),
    "no arrays": ({"a.csv": TABLE, "b.npz": {"z": np.zeros(3)}}, "b.npz"),
    "a broken archive": ({"a.csv": TABLE, "b.npz": b"zip?"}, "b.npz"),
    "a name with a space before it": ({" Graz.csv": TABLE}, "' Graz'"),
}


@pytest.mark.parametrize("what", BAD)
def test_what_is_wrong_with_a_folder_is_said_with_the_file(what, tmp_path):
    files, message = BAD[what]
    with pytest.raises(DataError, match=message):
        unknot.folder(write(tmp_path / "towns", files), target="ill")


def test_a_folder_that_is_not_there_is_named(tmp_path):
    with pytest.raises(DataError, match="towns"):
        unknot.folder(tmp_path / "towns", target="ill")


def test_the_target_belongs_to_tables(tmp_path):
    with pytest.raises(ConfigError, match=r"target is missing.*age, weight, ill"):
        unknot.folder(tables(tmp_path / "a"))
    with pytest.raises(ConfigError, match="target"):
        unknot.folder(write(tmp_path / "b", {"Graz.npz": ARRAYS}), target="ill")
    with pytest.raises(DataError, match=r"'tets\.csv'.*Did you mean 'test\.csv'"):
        unknot.folder(tmp_path / "a", target="ill", test="tets.csv")


# From TOML ------------------------------------------------------------------------------------------


def towns(folder):
    """Three towns with a few rows each."""
    rng = np.random.default_rng(0)
    for name, n in {"Graz": 8, "Linz": 6, "Wien": 7, "test": 9}.items():
        y = rng.integers(0, 2, n)
        write(folder, {f"{name}.npz": {"x": rng.standard_normal((n, 3)) + y[:, None], "y": y}})
    return folder


def experiment(folder, **changes):
    table = {
        "data": {"name": "folder", "path": str(folder)} | changes,
        "train": {"lr": 0.1, "batch_size": 4},
        "federation": {"rounds": 3},
        "request": [{"erase": "Graz", "round": 1}, {"erase": "Linz", "samples": [0], "round": 2}],
    }
    return Experiment.of(table)


def test_a_folder_is_data_of_an_experiment_and_its_names_are_asked_for(tmp_path):
    asked = experiment(towns(tmp_path / "towns"))
    history = unknot.run(asked)
    assert [history.told(served) for served in history.served] == ["erase Graz", "erase 1 sample of Linz"]
    assert history.to_dict()["lineage"] == ["Linz (revision 1)", "Wien"]
    assert history.experiment["data"]["name"] == "folder"
    rest = prepare_without(asked)
    assert rest.data.describe_clients() == "clients Linz, Wien"


def test_the_path_goes_from_the_working_directory(tmp_path, monkeypatch):
    towns(tmp_path / "towns")
    monkeypatch.chdir(tmp_path)
    assert prepare(experiment("towns")).data.describe_clients() == "clients Graz, Linz, Wien"


def test_worthless_clients_may_be_named(tmp_path):
    fed = prepare(experiment(towns(tmp_path), corrupt=["Wien"], corruption="zero"))
    x, _ = fed.data.train.take(torch.from_numpy(fed.data["Wien"].rows))
    assert not x.any()


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({"name": "folder"}, "data.path is missing"),
        ({"name": "folder", "path": 3}, "data.path must be a text"),
        ({"name": "folder", "path": "x", "partition": "iid"}, "data.partition says how .* leave it out"),
        ({"name": "folder", "path": "x", "targets": "ill"}, "Did you mean 'target'"),
    ],
)
def test_what_a_folder_does_not_have_is_refused(table, message):
    with pytest.raises(ConfigError, match=message):
        Experiment.of({"data": table})


def test_an_unknown_name_in_a_file_is_refused_with_the_nearest(tmp_path):
    asked = experiment(towns(tmp_path))
    wrong = Experiment.of({**asked.table, "request": [{"erase": "Lintz", "round": 1}]})
    with pytest.raises(ConfigError, match=r"there is no client 'Lintz'\. Did you mean 'Linz'"):
        unknot.run(wrong)


def test_the_servers_files_are_known_however_they_are_written(tmp_path):
    data = unknot.folder(tables(tmp_path, test="", Test=TABLES["test"]), target="ill")
    assert list(data.names.values()) == ["Graz", "Linz"]
    assert len(data.test) == 1


def test_columns_say_in_which_order_inputs_are_taken(tmp_path):
    folder = tables(tmp_path)
    data = unknot.folder(folder, target="ill", columns=["weight", "age"])
    assert data.train.x.tolist() == [[2.5, 1], [4, 3], [6, 5]]
    assert data.test.x.tolist() == [[8, 7]]
    for columns in (["weight", "age", "age"], ["weight"]):
        with pytest.raises(DataError, match=r"Graz\.csv.*age, weight"):
            unknot.folder(folder, target="ill", columns=columns)
