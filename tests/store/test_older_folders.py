"""A folder that is older than its keys: who was erased since is erased again before anything is trained."""

import shutil

import pytest
from kept_runs import NAMES, SIZES, build, story

from support import grid, small_data
from unknot.core.errors import StoreError
from unknot.core.requests import erase, join
from unknot.store import Database, Keyring
from unknot.store.entries import read_named
from unknot.store.inbox import leave
from unknot.store.keeper import RunKeeper
from unknot.store.look import look
from unknot.store.naming import number_of
from unknot.store.noted import erased_in
from unknot.store.own_keys import check_not_older, check_whole


def put_back(folder, method="rfs", rounds=2, to_come=2, who=1):
    """A folder from before the erasure of client 1, or of samples, with the keys from after it."""
    fed = build(method, "sync")
    keeper = RunKeeper.create(fed, folder)
    fed.run(rounds)
    keeper.close()
    shutil.copytree(folder, folder.parent / "backup")
    fed = build(method, "sync")
    keeper = RunKeeper.go_on(fed, folder)
    fed.run(to_come, requests=[erase(who, round=rounds)])
    keeper.close()
    shutil.copy(folder / "keys", folder.parent / "backup" / "keys")
    shutil.rmtree(folder)
    shutil.move(folder.parent / "backup", folder)


def erased_when_sent(fed):
    """Who was erased by then, each time that somebody is sent out from here on."""
    sent, launch = [], fed.work.launch

    def noting(lane):
        sent.append(sorted(fed.data.erased))
        launch(lane)

    fed.work.launch = noting
    return sent


def test_who_the_keys_know_for_erased_is_erased_again_before_anything_is_trained(tmp_path):
    put_back(tmp_path / "run")
    fed = build("rfs", "sync")
    keeper = RunKeeper.go_on(fed, tmp_path / "run")
    (told,) = (text for text in keeper.said if "older than its keys" in text)
    assert "client 1" in told
    sent = erased_when_sent(fed)
    history = fed.run(2)
    assert sent
    assert all(erased == [1] for erased in sent)
    assert [event.clients for event in history.served] == [(1,)]
    assert erased_in(keeper.db) == {1}
    (asked,) = keeper.db.asked()
    assert (asked.by, asked.state) == ("the keys", "served")
    keeper.close()
    fed = build("rfs", "sync")
    keeper = RunKeeper.go_on(fed, tmp_path / "run")
    assert not keeper.said
    assert len(keeper.db.asked()) == 1
    keeper.close()


def test_it_is_asked_once_however_often_it_is_gone_on_with_and_not_where_somebody_did(tmp_path):
    put_back(tmp_path / "run")
    with Database.open(tmp_path / "run" / "run.db") as db:
        leave(db, erase(1), Keyring(tmp_path / "run" / "keys"), by="anna")
    for _ in range(2):
        fed = build("rfs", "sync")
        keeper = RunKeeper.go_on(fed, tmp_path / "run")
        assert [asked.by for asked in keeper.db.asked()] == ["anna"]
        keeper.close()


def put_back_broken_off(folder):
    """The same of a run that was broken off after two steps, and not over."""
    fed = build("rfs", "sync")
    keeper = RunKeeper.create(fed, folder, every=0.0)
    fed.begin(4)
    fed.step(), fed.step()
    keeper.close()
    shutil.copytree(folder, folder.parent / "backup")
    keeper = RunKeeper.go_on(fed := build("rfs", "sync"), folder)
    fed.inbox.put(erase(1))
    fed.resume()
    keeper.close()
    shutil.copy(folder / "keys", folder.parent / "backup" / "keys")
    shutil.rmtree(folder)
    shutil.move(folder.parent / "backup", folder)


@pytest.mark.parametrize("over", [True, False])
def test_what_was_to_come_at_a_later_step_comes_with_it(tmp_path, over):
    """It was taken up after the checkpoint that is gone on from."""
    (put_back if over else put_back_broken_off)(tmp_path / "run")
    with Database.open(tmp_path / "run" / "run.db") as db:
        db.take(leave(db, erase(2), Keyring(tmp_path / "run" / "keys")), 1000)
    fed = build("rfs", "sync")
    keeper = RunKeeper.go_on(fed, tmp_path / "run")
    sent = erased_when_sent(fed)
    fed.run(1) if over else fed.resume()
    assert sent
    assert all(erased == [1, 2] for erased in sent)
    assert [one.state for one in keeper.db.asked()] == ["served", "served"]
    keeper.close()


@pytest.mark.parametrize("method", ["federaser", "exact-fun"])
def test_where_the_folder_cannot_be_read_without_the_keys_it_is_said_what_to_do(tmp_path, method):
    put_back(tmp_path / "run", method, rounds=3)
    with pytest.raises(
        StoreError, match=r"older than its keys.*client 1.*key of client 1 was destroyed"
    ) as said:
        RunKeeper.go_on(build(method, "sync"), tmp_path / "run")
    assert "from after that erasure" in str(said.value)


@pytest.mark.parametrize("method", ["rfs", "federaser"])
def test_a_folder_from_before_an_erasure_of_samples_is_known_by_its_names_and_refused(tmp_path, method):
    folder = tmp_path / "run"
    put_back(folder, method, rounds=3, who={1: [0, 1]})
    before = {path: path.read_bytes() for path in folder.rglob("*.state")}
    for check in (
        lambda: RunKeeper.go_on(build(method, "sync"), folder),
        lambda: check_whole(folder, None),
        lambda: number_of(folder, NAMES[1]),
        lambda: number_of(folder, "#1"),
    ):
        with pytest.raises(StoreError, match=r"from before samples were erased \(of these: 1\)") as said:
            check()
        assert "Put a later copy of the folder there" in str(said.value)
    assert {path: path.read_bytes() for path in folder.rglob("*.state")} == before


@pytest.mark.parametrize(
    ("method", "case"),
    grid(["rfs", "knot", "mmt"], [("for a round", {}), ("for a round", {2: [0]}), ("from outside", {})]),
)
def test_a_request_for_samples_of_who_is_erased_again_is_no_hindrance(tmp_path, method, case):
    asked, others = case
    folder, backup = tmp_path / "run", tmp_path / "backup"

    def fed():
        return build(method, "sync", data=small_data(SIZES))

    first = fed()
    keeper = RunKeeper.create(first, folder)
    samples = {1: [0, 2, 3], **others}
    first.run(2, requests=[erase(samples, round=9)] if asked == "for a round" else ())
    if asked == "from outside":
        first.inbox.put(erase(samples))
    keeper.close()
    shutil.copytree(folder, backup)
    later = fed()
    keeper = RunKeeper.go_on(later, folder)
    later.inbox.put(erase(1))
    later.resume()
    keeper.close()
    shutil.copy(folder / "keys", backup / "keys")
    again = fed()
    keeper = RunKeeper.go_on(again, backup)
    sent = erased_when_sent(again)
    again.resume()
    keeper.close()
    assert all(1 in erased for erased in sent)
    assert again.data.erased == {1}
    RunKeeper.go_on(fed(), backup).close()


def test_while_keys_are_written_nobody_is_taken_for_older(tmp_path):
    """Who reads the names before and the keys after an erasure of samples."""
    fed = build("rfs", "sync")
    keeper = RunKeeper.create(fed, tmp_path / "run")
    fed.run(1)
    with Database.open(tmp_path / "run" / "run.db", readonly=True) as db:
        before = Keyring(tmp_path / "run" / "keys")
        fed.run(1, requests=[erase({1: [0]}, round=1)])
        check_not_older(db, before, tmp_path / "run")
        check_not_older(db, keeper.keyring, tmp_path / "run")
    keeper.close()


def test_put_back_from_when_lost_steps_were_taken_again_its_record_is_that_of_the_new_course(tmp_path):
    """The steps that were lost, with rounds in which the erased client took part, are never taken again."""
    folder, backup = tmp_path / "run", tmp_path / "backup"

    def gone_on(place, every=1e9):
        fed = build("rfs", "sync")
        return fed, RunKeeper.go_on(fed, place, every=every)

    fed = build("rfs", "sync")
    keeper = RunKeeper.create(fed, folder, every=1e9)
    fed.run(6, requests=[join([7], round=4)])
    newest = read_named(keeper.db.last("checkpoint").body)
    keeper.close()
    (folder / "state" / f"{newest.state}.state").unlink()
    fed, keeper = gone_on(folder, every=0.0)
    fed.step()
    fed.step()
    keeper.place.close()  # killed
    shutil.copytree(folder, backup)
    fed, keeper = gone_on(folder)
    fed.inbox.put(erase(1))
    fed.resume()
    keeper.close()
    shutil.copy(folder / "keys", backup / "keys")
    fed, keeper = gone_on(backup)
    found = story(fed.resume())
    number = fed.inbox.put(erase(2)).number
    step = fed.steps
    after = story(fed.resume())
    assert keeper.db.request(number).step == step
    keeper.close()
    assert [told["request"] for told in found["requests"]] == ["erase client 1", f"join {NAMES[7]}"]
    fed, keeper = gone_on(backup)
    assert story(fed.resume()) == after
    assert [one.order for one in look(backup).requests if one.number == number] == [2]
    keeper.close()
