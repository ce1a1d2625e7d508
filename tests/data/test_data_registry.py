"""Loading by name, the catalogue, checksums, and where data is looked for."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from data_toys import idx_path, write_bits, write_cifar10, write_idx

from unknot.core.errors import ConfigError, DataError
from unknot.data import Iid, catalogue, federate, load, verify

NAMES = [
    "digits",
    "mnist",
    "mnist-writers",
    "fashion-mnist",
    "cifar10",
    "cifar100",
    "purchase100",
    "location30",
    "femnist",
    "shakespeare",
    "langid",
    "sentiments",
    "texts",
]


@pytest.fixture(autouse=True)
def _no_data_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("UNKNOT_DATA", raising=False)


def test_unknown_set_names_the_nearest() -> None:
    with pytest.raises(ConfigError, match="Did you mean 'fashion-mnist'"):
        load("fashion_mnist")
    with pytest.raises(ConfigError, match="no data set 'imagenet'"):
        verify("imagenet")


def test_unknown_option_names_the_nearest() -> None:
    with pytest.raises(ConfigError, match=r"has no option 'normalise'\. Did you mean 'normalize'"):
        load("digits", normalise="unit")
    with pytest.raises(ConfigError, match="has no option 'files'"):
        load("digits", files={})


@pytest.mark.parametrize("name", NAMES[1:-1])
def test_missing_set_says_what_was_looked_for_where_and_how_to_get_it(name: str, tmp_path: Path) -> None:
    entry = next(entry for entry in catalogue(tmp_path) if entry.name == name)
    with pytest.raises(DataError) as caught:
        load(name, tmp_path)
    message = str(caught.value)
    assert str(tmp_path) in message
    assert entry.how in message
    assert Path(entry.where[0]).name in message


def test_without_a_folder_the_variable_is_named() -> None:
    with pytest.raises(DataError, match="UNKNOT_DATA"):
        load("mnist")


def test_variable_may_name_several_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_idx(tmp_path / "shared")
    write_cifar10(tmp_path / "unpacked")
    folders = [str(tmp_path / "shared"), str(tmp_path / "unpacked")]
    monkeypatch.setenv("UNKNOT_DATA", os.pathsep.join(folders))
    assert len(load("mnist").train) == 20
    assert len(load("cifar10").train) == 20
    assert len(load("cifar10", root=folders).train) == 20
    with pytest.raises(DataError, match=r"looked in .*shared"):
        load("cifar10", root=folders[0])


def test_partly_missing_set_names_only_the_missing_files(tmp_path: Path) -> None:
    write_idx(tmp_path, zipped=False)
    idx_path(tmp_path, "MNIST", "test", "labels").unlink()
    with pytest.raises(DataError, match=r"^mnist: MNIST/raw/t10k-labels-idx1-ubyte not found"):
        load("mnist", tmp_path)


def test_catalogue_lists_every_set_and_whether_it_is_there(tmp_path: Path) -> None:
    write_idx(tmp_path)
    entries = catalogue(tmp_path)
    assert [entry.name for entry in entries] == NAMES
    assert {entry.name for entry in entries if entry.present} == {"digits", "mnist", "texts"}
    assert {entry.name for entry in entries if entry.natural_clients} == {
        "digits",
        "mnist-writers",
        "femnist",
        "shakespeare",
        "sentiments",
        "texts",
    }
    for entry in entries:
        assert entry.description
        assert entry.how
        assert entry.where or entry.name == "texts"  # a file of one's own


def test_catalogue_without_a_folder_shows_where_it_would_look() -> None:
    places = {entry.name: entry.where for entry in catalogue()}
    assert places["location30"] == ("$UNKNOT_DATA/location30/bangkok",)


def test_catalogue_names_no_address() -> None:
    assert not [entry.name for entry in catalogue() if "://" in entry.how or "www." in entry.how]


def test_verify_tells_right_wrong_missing_and_unknown_apart(tmp_path: Path) -> None:
    assert [check.status for check in verify("digits")] == ["ok"]
    assert [check.status for check in verify("location30", tmp_path)] == ["missing"]
    write_bits(tmp_path / "location30" / "bangkok", [[1] + [0] * 446])
    (check,) = verify("location30", tmp_path)
    assert check.status == "differs"
    assert check.found != check.expected
    write_bits(tmp_path / "purchase100" / "dataset_purchase", [[1] + [0] * 600])
    assert [check.status for check in verify("purchase100", tmp_path)] == ["unknown"]


def test_verify_reports_an_unreadable_file_and_goes_on(tmp_path: Path) -> None:
    write_idx(tmp_path)
    Path(f"{idx_path(tmp_path, 'MNIST', 'train', 'images')}.gz").write_bytes(b"no gzip")
    assert [check.status for check in verify("mnist", tmp_path)] == [
        "unreadable",
        "differs",
        "differs",
        "differs",
    ]


def test_checksum_is_of_the_contents_gzipped_or_not(tmp_path: Path) -> None:
    write_idx(tmp_path / "zipped", zipped=True)
    write_idx(tmp_path / "plain", zipped=False)
    found = [[check.found for check in verify("mnist", tmp_path / kind)] for kind in ("zipped", "plain")]
    assert found[0] == found[1]
    assert len(set(found[0])) == 4


def test_a_folder_of_ones_own_is_read_by_another_name(tmp_path: Path) -> None:
    for name in ("folder", str(tmp_path)):
        with pytest.raises(ConfigError, match=r"unknot.folder\(path\)"):
            load(name)


def test_a_data_set_can_be_dealt_out_by_its_name() -> None:
    data = federate("digits", Iid(clients=3, samples=10))
    assert data.name == "digits"
    assert data.train.x.equal(load("digits").train.x)
    with pytest.raises(ConfigError, match="Did you mean 'digits'"):
        federate("digts", Iid(clients=3, samples=10))
    with pytest.raises(ConfigError, match="found FederatedData"):
        federate(data, Iid(clients=3, samples=10))  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match=r"partition must be one, such as unknot.Iid\(clients=10\)"):
        federate("digits", "iid")  # type: ignore[arg-type]
