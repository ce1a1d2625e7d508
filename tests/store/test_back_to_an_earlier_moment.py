"""A run that comes back to an earlier moment: it takes up what was, once, and nothing that is to be gone."""

import shutil
import sqlite3

import pytest
from kept_runs import build, is_kept_by, story

import unknot
from support import small_data
from unknot.core.errors import StoreError
from unknot.core.requests import erase, join
from unknot.federation.events import Served
from unknot.store import Database
from unknot.store.entries import read_named, read_plain
from unknot.store.inbox import leave
from unknot.store.keeper import RunKeeper
from unknot.store.look import look
from unknot.store.watching import Watching


class Gone(BaseException):
    """The process is gone."""


def ask(keeper, request):
    """Leave a request, as another process would."""
    with Database.open(keeper.folder / "run.db") as db:
        return leave(db, request, keeper.keyring)


def spoil(path):
    path.write_bytes(b"x" + path.read_bytes()[1:])


def test_before_an_erasure_the_run_is_kept_and_the_erasure_logged(tmp_path, monkeypatch):
    fed = build("mmt")
    keeper = RunKeeper.create(fed, tmp_path / "run", every=1e9)

    def gone(*_):
        raise Gone

    monkeypatch.setattr(type(fed.method), "forget", gone)
    with pytest.raises(Gone):
        fed.run(4, requests=[erase({1: None, 3: [1, 2]}, round=2)])
    step = fed.steps
    assert step > 1
    kept, last, rests = list(keeper.db.entries())[-3:]
    assert rests.kind == "stopped"
    assert (kept.kind, read_named(kept.body).step) == ("checkpoint", step)
    assert last.kind == "erasing"
    assert read_plain(last.body) == {"step": step, "targets": [[1, True], [3, False]]}
    keeper.close()
    monkeypatch.undo()
    fed = build("mmt")
    keeper = RunKeeper.go_on(fed, tmp_path / "run")
    assert fed.steps == step
    keeper.close()


def test_what_is_new_is_not_taken_up_sooner_than_at_the_last_step_that_the_log_knows_of(tmp_path):
    folder = tmp_path / "run"
    fed = build()
    keeper = RunKeeper.create(fed, folder, every=0.0)
    fed.begin(8)
    for _ in range(2):
        fed.step()
    first = ask(keeper, erase({2: [0]}))
    for _ in range(4):
        fed.step()
    newest = read_named(keeper.db.last("checkpoint").body)
    new = ask(keeper, join([3]))
    keeper.close()
    spoil(folder / "state" / f"{newest.state}.state")
    fed = build()
    keeper = RunKeeper.go_on(fed, folder, every=1e9)
    assert fed.steps < newest.step
    while fed.steps < newest.step:
        assert [asked.number for asked in keeper.db.waiting()] == [new]
        fed.step()
    fed.step()
    steps = {asked.number: asked.step for asked in keeper.db.asked()}
    assert steps == {first: 2, new: newest.step}
    keeper.close()


def test_a_checkpoint_from_before_an_erasure_that_is_put_back_is_not_gone_on_from(tmp_path):
    folder, backup = tmp_path / "run", tmp_path / "backup"
    fed = build()
    keeper = RunKeeper.create(fed, folder, every=0.0)
    fed.run(2)
    shutil.copytree(folder, backup)
    fed.run(1, requests=[erase(1, round=2)])
    keeper.close()
    for path in (folder / "state").iterdir():
        spoil(path)
    for part in ("state", "weights"):
        shutil.copytree(backup / part, folder / part, dirs_exist_ok=True)
    again = build()
    with pytest.raises(StoreError, match=r"no checkpoint of .* can be read"):
        RunKeeper.go_on(again, folder)
    assert 1 in again.data
    assert not is_kept_by(again)


def less_an_entry(folder):
    """Somebody takes an entry out of the log that nobody would miss."""
    with Database.open(folder / "run.db", readonly=True) as db:
        number = db.last("resumed").number
    with sqlite3.connect(folder / "run.db") as connection:
        assert connection.execute("DELETE FROM log WHERE number = ?", (number,)).rowcount == 1
    connection.close()


def test_a_log_that_an_entry_was_taken_out_of_is_refused(tmp_path):
    folder = tmp_path / "run"
    for take in (RunKeeper.create, RunKeeper.go_on):
        fed = build()
        keeper = take(fed, folder)
        fed.run(1)
        keeper.close()
    less_an_entry(folder)
    with pytest.raises(StoreError, match="of the log does not fit entry"):
        RunKeeper.go_on(build(), folder)


def test_by_a_federation_from_python_too(tmp_path):
    folder = tmp_path / "run"

    def simulated():
        return unknot.simulate("mlp", small_data((5, 8, 3, 6)), store=folder)

    for _ in range(2):
        fed = simulated()
        fed.run(1)
        fed.close()
    less_an_entry(folder)
    with pytest.raises(StoreError, match="of the log does not fit entry"):
        simulated()


def test_what_was_refused_before_a_crash_is_not_refused_again(tmp_path):
    folder = tmp_path / "run"
    fed = build()
    keeper = RunKeeper.create(fed, folder, every=1e9)
    fed.begin(4)
    fed.step()
    number = ask(keeper, join([3]))
    fed.step()
    (before,) = keeper.db.asked()
    assert before.state == "refused"
    assert keeper.post.refused == [number]
    keeper.close()
    fed = build()
    keeper = RunKeeper.go_on(fed, folder, every=1e9)
    assert fed.steps <= before.step
    fed.resume()
    assert keeper.db.asked() == [before]
    assert keeper.post.refused == []
    told = [read_plain(entry.body) for entry in keeper.db.entries(kind="refused")]
    assert told == [{"request": number, "kind": "a member already"}]
    keeper.close()


def back_where_it_was_over(folder, before):
    """A run that was over, asked for more and, after so many steps, to admit client 7; killed, and gone back.

    The checkpoint in which it was asked for more is damaged.
    """
    fed = build()
    keeper = RunKeeper.create(fed, folder, every=1e9)
    fed.run(3, requests=[join([7], round=99)])
    fed.begin(8)
    for _ in range(before):
        fed.step()
    ask(keeper, join([7]))
    for _ in range(4 - before):
        fed.step()
    keeper.place.close()  # killed
    with Database.open(folder / "run.db", readonly=True) as db:
        spoil(folder / "state" / f"{read_named(db.last('checkpoint').body).state}.state")
    return gone_on(folder)


def gone_on(folder):
    fed = build()
    return fed, RunKeeper.go_on(fed, folder)


def test_where_the_run_is_over_at_that_moment_what_was_taken_later_is_taken_up_at_once(tmp_path):
    fed, keeper = back_where_it_was_over(tmp_path / "run", before=1)
    assert "what it was asked to do after that" in keeper.said[-1]
    assert [served.request for served in fed.resume().served] == ["join client 7"]
    assert 7 in fed.members
    ask(keeper, erase(1))
    assert [served.request for served in fed.resume().served] == ["join client 7", "erase client 1"]
    keeper.close()


def test_what_was_taken_at_a_step_that_is_lost_is_taken_up_at_once_by_the_process_after_the_next_too(
    tmp_path,
):
    fed, keeper = back_where_it_was_over(tmp_path / "run", before=3)
    ask(keeper, erase(1))
    fed.begin(2)
    keeper.checkpoint(fed)
    keeper.place.close()  # killed, before anything was taken up
    fed, keeper = gone_on(tmp_path / "run")
    served = fed.resume().served
    assert [one.request for one in served] == ["join client 7", "erase client 1"]
    assert [one.round for one in served] == [3, 3]
    keeper.close()


def lose_the_newest(folder):
    """The newest checkpoint of a run that nobody holds is damaged."""
    with Database.open(folder / "run.db", readonly=True) as db:
        spoil(folder / "state" / f"{read_named(db.last('checkpoint').body).state}.state")


def told(history):
    return story(history), history.model.digest()


@pytest.mark.parametrize("ends", ["killed", "interrupted"])
def test_lost_steps_that_are_lost_again_halfway_leave_no_round_and_no_request_of_another_course(
    tmp_path, ends
):
    """Of the same course: what comes in meanwhile waits until the run is where it had been."""
    folder, requests = tmp_path / "run", [join([7], round=4)]
    fed = build()
    keeper = RunKeeper.create(fed, folder, every=1e9)
    fed.run(6, requests=requests)
    over = fed.steps
    keeper.close()
    lose_the_newest(folder)
    fed = build()
    keeper = RunKeeper.go_on(fed, folder, every=0.0)
    assert fed.steps == 0
    for _ in range(2):
        fed.step()
    if ends == "killed":
        keeper.place.close()
    else:
        keeper.interrupted = True
        with pytest.raises(KeyboardInterrupt):
            fed.resume()
        keeper.close()
    fed, keeper = gone_on(folder)
    assert fed.steps == 2
    number = ask(keeper, erase(1))
    found = told(fed.resume())
    assert keeper.db.request(number).step == over
    keeper.close()
    whole = build()
    keeper = RunKeeper.create(whole, tmp_path / "whole")
    whole.run(6, requests=requests)
    whole.inbox.put(erase(1))
    assert found == told(whole.resume())
    keeper.close()
    fed, keeper = gone_on(folder)
    assert told(fed.resume()) == found
    keeper.close()
    assert [one.kind for one in whole.history.served] == ["join", "erase"]


def test_who_looks_after_two_damages_sees_what_is_there_and_no_request_twice(tmp_path):
    folder = tmp_path / "run"
    fed = build()
    keeper = RunKeeper.create(fed, folder, every=0.0)
    fed.run(3, requests=[join([7], round=1)])
    keeper.close()
    for _ in range(2):
        lose_the_newest(folder)
        fed = build()
        keeper = RunKeeper.go_on(fed, folder, every=1e9)
        keeper.checkpoint(fed)
        keeper.close()
    _, events, _ = Watching(folder).look()
    assert len([event for event in events if isinstance(event, Served)]) == 1
    lose_the_newest(folder)
    found = look(folder, through=True)
    assert found.unreadable == ""
    assert found.again is not None
    fed, keeper = gone_on(folder)
    assert len(fed.resume().rounds) == 3
    keeper.close()


def test_a_course_that_was_lost_and_is_not_taken_again_is_in_no_record(tmp_path):
    """It was over when it was kept last: what it was asked for after that is to be asked for again."""
    folder = tmp_path / "run"
    fed, keeper = back_where_it_was_over(folder, before=3)
    assert fed.over
    ask(keeper, erase(1))
    found = told(fed.resume())
    keeper.close()
    fed, keeper = gone_on(folder)
    assert told(fed.resume()) == found
    number = ask(keeper, erase(2))
    step = fed.steps
    fed.resume()
    assert keeper.db.request(number).step == step  # it waits for nothing that is no more
    keeper.close()
    (shown,) = [one for one in look(folder).requests if one.number == number]
    assert shown.order == 2


def test_the_record_after_a_damage_is_that_of_the_course_since_wherever_it_is_killed_again(tmp_path):
    folder = tmp_path / "run"
    whole = build()
    keeper = RunKeeper.create(whole, tmp_path / "whole")
    whole.run(5, requests=[join([7], round=2)])
    keeper.close()
    fed = build()
    keeper = RunKeeper.create(fed, folder, every=0.0)
    fed.begin(5, requests=[join([7], round=2)])
    for _ in range(7):
        fed.step()
    keeper.place.close()
    for _ in range(3):
        lose_the_newest(folder)
        fed = build()
        keeper = RunKeeper.go_on(fed, folder, every=0.0)
        fed.step()
        keeper.place.close()
    fed, keeper = gone_on(folder)
    found = told(fed.resume())
    keeper.close()
    fed, keeper = gone_on(folder)
    assert told(fed.resume()) == found == told(whole.history)
    keeper.close()
