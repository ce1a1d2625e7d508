"""A federation that is kept may be run in any thread; threads that share its database take turns."""

import threading
import time

import pytest
from kept_runs import build, go

import unknot
from support import ToyEngine, small_data, toy_federation
from unknot.core.errors import ConfigError, StoreError
from unknot.store.database import Database
from unknot.store.keeper import RunKeeper
from unknot.unlearn import RFS

pytestmark = pytest.mark.usefixtures("in_time")


def in_thread(work):
    """What `work` gave, or raised, in a thread of its own."""
    found = []

    def call():
        try:
            found.append(work())
        except BaseException as error:
            found.append(error)

    thread = threading.Thread(target=call)
    thread.start()
    thread.join(60)
    assert not thread.is_alive()
    if isinstance(found[0], BaseException):
        raise found[0]
    return found[0]


def test_a_kept_run_in_another_thread_is_the_same_run(tmp_path):
    expected = go(build(), tmp_path / "here")
    fed = build()
    assert in_thread(lambda: go(fed, tmp_path / "there")) == expected


def test_a_federation_that_was_built_in_one_thread_runs_in_another_and_goes_on_in_a_third(tmp_path):
    fed = toy_federation(RFS(), small_data((5, 8, 3)), ToyEngine())
    keeper = RunKeeper.create(fed, tmp_path / "run")
    in_thread(lambda: fed.run(1, requests=unknot.erase(1, round=1)))
    assert len(in_thread(lambda: fed.run(1)).rounds) == 2
    in_thread(keeper.close)


def test_two_threads_do_not_run_one_federation(tmp_path):
    entered, leave = threading.Event(), threading.Event()

    class Waits(ToyEngine):
        def train(self, jobs, data):
            entered.set()
            leave.wait(30)
            return super().train(jobs, data)

    fed = toy_federation(RFS(), small_data((5, 8, 3)), Waits())
    keeper = RunKeeper.create(fed, tmp_path / "run")
    first = threading.Thread(target=fed.run, args=(2,))
    first.start()
    try:
        assert entered.wait(30)
        with pytest.raises(ConfigError, match="is running"):
            fed.run(2)
        with pytest.raises(ConfigError, match="is running"):
            fed.resume()
    finally:
        leave.set()
        first.join(60)
    assert fed.over
    keeper.close()


def test_a_transaction_is_not_shared_with_another_thread(tmp_path):
    with Database.create(tmp_path / "run.db") as db:
        began = threading.Event()

        def other():
            began.set()
            db.append([("theirs", b"")])

        thread = threading.Thread(target=other)

        def mine():
            with db.transaction():
                db.append([("mine", b"")])
                thread.start()
                began.wait(10)
                time.sleep(0.05)
                raise StoreError("broken off")

        with pytest.raises(StoreError, match="broken off"):
            mine()
        thread.join(10)
        assert [entry.kind for entry in db.entries()] == ["theirs"]


def test_many_threads_append_to_one_log(tmp_path):
    with Database.create(tmp_path / "run.db") as db:
        threads = [
            threading.Thread(target=lambda: [db.append([("event", b"x")]) for _ in range(20)])
            for _ in range(4)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        db.verify()
        assert db.head()[0] == 80
