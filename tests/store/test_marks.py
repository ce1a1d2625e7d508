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
from unknot.store.naming import number_of
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


def gone_on(folder: Path, fed=None):
    """A round more, with what was asked meanwhile."""
    fed = fed or build()
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


@pytest.mark.parametrize("names", [NAMES, {}], ids=["named", "without names"])
@pytest.mark.parametrize("before", [[], ONE], ids=["the first erasure", "a later one"])
def test_a_folder_from_before_an_erasure_of_samples_is_refused(tmp_path, names, before):
    folder, copy = tmp_path / "run", tmp_path / "copy"

    def fed():
        return build(data=small_data(SIZES).replaced(names=names))

    go(fed(), folder, requests=before)
    shutil.copytree(folder, copy)
    ask(folder, erase({3: [4]}))
    gone_on(folder, fed())
    shutil.copy(folder / "keys", copy / "keys")
    for refused in (lambda: RunKeeper.go_on(fed(), copy), lambda: number_of(copy, "#3")):
        with pytest.raises(StoreError, match=r"copy from before samples were erased \(of these: 3\)"):
            refused()
    RunKeeper.go_on(fed(), folder).close()


def test_a_clients_part_that_was_put_in_the_place_of_another_is_not_taken_for_it(tmp_path):
    folder = tmp_path / "run"
    go(build(), folder, requests=[])
    with Database.open(folder / "run.db") as db:
        rows = db.sealed(MARKS)
        db.keep_sealed(MARKS, {2: (2, rows[3][1])})
    with pytest.raises(StoreError):
        RunKeeper.go_on(build(), folder)
