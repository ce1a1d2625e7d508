"""By what a run knows its clients' data again: nobody without their keys can tell anything by it."""

import shutil
from pathlib import Path

import pytest
from kept_runs import NAMES, SIZES, build, go, story

from support import small_data
from unknot.core.errors import StoreError
from unknot.core.requests import erase
from unknot.store import Database, Keyring, sealed
from unknot.store.checkpoint import mark_of
from unknot.store.inbox import leave
from unknot.store.keeper import RunKeeper
from unknot.store.sealed import IDS, MARKS

ONE = erase({3: [1, 2]}, round=1)


def named(data=None):
    return (data or small_data(SIZES)).replaced(names=NAMES)


def other(client: int):
    """The same data, but for one number of one client."""
    data = small_data(SIZES)
    row = int(data[client].rows[0])
    data.train.x[row, 0] += 1
    return named(data)


def holding(folder: Path, marks: list[bytes]) -> list[str]:
    files = [path for path in sorted(folder.rglob("*")) if path.is_file()]
    return [path.name for path in files if any(mark in path.read_bytes() for mark in marks)]


def ask(folder: Path, request) -> None:
    with Database.open(folder / "run.db") as db:
        leave(db, request, Keyring(folder / "keys"))


def gone_on(folder: Path):
    """A round more, with what was asked meanwhile."""
    fed = build()
    keeper = RunKeeper.go_on(fed, folder)
    fed.run(1)
    keeper.close()
    return fed


def test_no_digest_of_a_clients_data_lies_in_the_open(tmp_path):
    data = named()
    marks = [mark_of(data, client) for client in data.clients]
    go(build(), tmp_path / "run", requests=ONE)
    marks += [mark_of(named(), client) for client in data.clients]
    assert holding(tmp_path / "run", marks) == []


def test_marks_are_kept_of_who_is_there_and_go_with_their_client(tmp_path):
    go(build(), tmp_path / "run", requests=[ONE, erase(1, round=2)])
    with Database.open(tmp_path / "run" / "run.db", readonly=True) as db:
        found = sealed.opened(db, Keyring(tmp_path / "run" / "keys"), MARKS)
        assert set(found) == set(NAMES) - {1}
        assert all(mark is not None and len(mark) == 32 for _, mark in found.values())
        assert len(db.sealed(IDS)) == 1


@pytest.mark.parametrize("client", [2, 3])
def test_other_data_is_found_and_named_also_of_who_has_a_new_key_since(client, tmp_path):
    folder = tmp_path / "run"
    go(build(), folder, requests=ONE)
    with pytest.raises(StoreError, match=f"the data of Hospital {client} of Graz is not what it was"):
        RunKeeper.go_on(build(data=other(client)), folder)
    gone_on(folder)


def test_samples_that_were_erased_stay_so_in_another_process_without_a_bit_lost(tmp_path):
    requests = [ONE, erase({3: [4]}, round=2)]
    whole = go(build(), tmp_path / "whole", requests=requests)
    first = build()
    keeper = RunKeeper.create(first, tmp_path / "run", every=0.0)
    first.begin(4, requests=requests)
    while not first.over:
        first.step()
        keeper.close()
        first = build()
        keeper = RunKeeper.go_on(first, tmp_path / "run", every=0.0)
    assert first.data.reduced == {3: {1, 2, 4}}
    assert story(first.resume()) == whole
    keeper.close()


def test_a_folder_from_before_an_erasure_of_samples_is_refused_until_it_is_asked_again(tmp_path):
    folder, copy = tmp_path / "run", tmp_path / "copy"
    go(build(), folder, requests=[])
    shutil.copytree(folder, copy)
    ask(folder, erase({3: [1, 2]}))
    gone_on(folder)
    shutil.copy(folder / "keys", copy / "keys")
    with pytest.raises(
        StoreError, match=r"older than its keys.* samples of client 3.*--client '#3' --samples"
    ):
        RunKeeper.go_on(build(), copy)
    ask(copy, erase({3: [1, 2]}))
    fed = gone_on(copy)
    assert any("is older than its keys" in said for said in fed.keeper.said)
    assert fed.data.reduced == {3: {1, 2}}
    RunKeeper.go_on(build(), copy).close()


def test_where_it_knew_of_an_earlier_one_all_of_the_client_must_go(tmp_path):
    folder, copy = tmp_path / "run", tmp_path / "copy"
    go(build(), folder, requests=ONE)
    shutil.copytree(folder, copy)
    ask(folder, erase({3: [4]}))
    gone_on(folder)
    shutil.copy(folder / "keys", copy / "keys")
    ask(copy, erase({3: [4]}))
    with pytest.raises(StoreError, match=r"older than its keys.*--client '#3'$"):
        RunKeeper.go_on(build(), copy)
    ask(copy, erase(3))
    fed = gone_on(copy)
    assert 3 in fed.data.erased


def test_a_clients_part_that_was_put_in_the_place_of_another_is_not_taken_for_it(tmp_path):
    folder = tmp_path / "run"
    go(build(), folder, requests=[])
    with Database.open(folder / "run.db") as db:
        rows = db.sealed(MARKS)
        db.keep_sealed(MARKS, {2: (2, rows[3][1])})
    with pytest.raises(StoreError):
        RunKeeper.go_on(build(), folder)
