"""Requests from other processes and threads, at any moment: each is served once, in order, none is lost."""

import os
import random
import signal
import threading
import time
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from kept_runs import build, fast_folder, remove_tree, story

from support import ToyEngine, small_data
from unknot.core.errors import RunStopped, StoreError
from unknot.core.requests import erase, join
from unknot.federation.observers import Observers
from unknot.store import Database, Keyring, Lock
from unknot.store.folder import is_kept
from unknot.store.inbox import leave
from unknot.store.keeper import RunKeeper

pytestmark = pytest.mark.usefixtures("in_time")

SIZES = (8,) * 30
ROUNDS = 60


class Slow(ToyEngine):
    def __init__(self, seconds=0.002):
        super().__init__()
        self.seconds = seconds

    def train(self, jobs, data):
        time.sleep(self.seconds)
        return super().train(jobs, data)


def many(engine=None):
    return build("rfs", "buffered", data=small_data(SIZES), engine=engine)


def asks(seed: int, each: int) -> list:
    """Different samples, and a client or two: no two ask for the same."""
    draw = random.Random(seed)
    *some, first, second = (c for c in range(30) if c % 3 == seed)
    whole = [erase(first), erase(second)][: max(1, each // 10)]
    found = [erase({c: [i]}) for c in some for i in range(6)]
    draw.shuffle(found)
    found = [*whole, *found[: each - len(whole)]]
    draw.shuffle(found)
    return found


def ask(folder: Path, seed: int, each: int) -> None:
    """Another process, which asks at random moments, and notes the numbers that its requests were given."""
    draw, numbers = random.Random(seed), list[int]()
    for request in asks(seed, each):
        time.sleep(draw.uniform(0, 0.03 if each == 5 else 0.2))
        with Database.open(folder / "run.db") as db:
            numbers.append(leave(db, request, Keyring(folder / "keys"), "somebody asked"))
    (folder.parent / f"numbers-{seed}").write_text(" ".join(map(str, numbers)))


def asked_of(folder: Path, each: int) -> dict[int, Any]:
    """All that was asked, by number: of a client that is gone the folder itself cannot say it."""
    noted = {seed: (folder.parent / f"numbers-{seed}").read_text().split() for seed in range(3)}
    return {
        int(n): request
        for seed, numbers in noted.items()
        for n, request in zip(numbers, asks(seed, each), strict=True)
    }


def run_on(folder: Path, asked: Path, rounds: int, seconds: float) -> dict:
    """Go on to the end; before the last rounds, wait until everybody has asked."""
    fed = many(Slow(seconds))

    def watch(event):
        while len(fed.history_so_far) > rounds - 10 and not asked.exists():
            time.sleep(0.01)

    fed.history_so_far = []
    fed.work.observers = Observers([lambda event: (fed.history_so_far.append(event), watch(event))[0]])
    if is_kept(folder):
        RunKeeper.go_on(fed, folder, every=0.05)
        return story(fed.resume())
    RunKeeper.create(fed, folder, every=0.05)
    return story(fed.run(rounds))


def forked(work) -> int:
    child = os.fork()
    if child:
        return child
    try:
        work()
        os._exit(0)
    except BaseException:
        import traceback

        traceback.print_exc()
        os._exit(1)


@pytest.mark.parametrize(
    ("each", "kills"),
    [
        (5, 0),
        (5, 3),
        pytest.param(34, 0, marks=pytest.mark.slow),
        pytest.param(34, 12, marks=pytest.mark.slow),
    ],
)
def test_each_is_served_once_in_order_as_if_it_had_been_known_when_it_came(each, kills):
    base = fast_folder()
    try:
        folder, asked = base / "run", base / "asked"
        rounds, seconds = (ROUNDS, 0.002) if each == 5 else (4 * ROUNDS, 0.03)
        work = partial(run_on, folder, asked, rounds, seconds)
        runner = forked(work)
        while not (folder / "run.db").exists() or not is_kept(folder):
            time.sleep(0.01)
        others = [forked(lambda seed=seed: ask(folder, seed, each)) for seed in range(3)]
        draw = random.Random(each + kills)
        for _ in range(kills):
            time.sleep(draw.uniform(0.02, 0.1 if each == 5 else 0.5))
            os.kill(runner, signal.SIGKILL)
            os.waitpid(runner, 0)
            runner = forked(work)
        for other in others:
            assert os.waitpid(other, 0)[1] == 0
        asked.touch()
        assert os.waitpid(runner, 0)[1] == 0
        found = run_on(folder, asked, rounds, 0)
        with Database.open(folder / "run.db") as db:
            rows = db.asked()
        wanted = asked_of(folder, each)
        assert [row.number for row in rows] == sorted(wanted) == list(range(1, 3 * each + 1))
        assert {row.state for row in rows} == {"served"}
        steps = [row.step for row in rows]
        assert steps == sorted(steps)
        assert len(set(steps)) > (0 if each == 5 else each)  # a busy machine takes several up at once
        assert [told["request"] for told in found["requests"]] == [str(wanted[row.number]) for row in rows]
        memory = many()
        memory.begin(rounds)
        while not memory.stint.stopped:
            for row in rows:
                if row.step == memory.steps:
                    memory.inbox.put(wanted[row.number])
            memory.step()
        assert story(memory.resume()) == found
    finally:
        remove_tree(base)


def test_from_threads_through_the_inbox_with_tickets_that_say_what_became_of_them(tmp_path):
    fed = many(Slow())
    keeper = RunKeeper.create(fed, tmp_path / "run", every=0.0)
    tickets, over = [], threading.Event()

    def one(seed):
        for request in asks(seed, 4):
            tickets.append(fed.inbox.put(request))
            assert tickets[-1].wait(30)

    threads = [threading.Thread(target=one, args=(seed,)) for seed in range(3)]
    fed.work.observers = Observers([lambda event: over.wait(0.01)])
    with Database.open(tmp_path / "run" / "run.db") as db:
        refused = fed.inbox.ticket(leave(db, erase(77), keeper.keyring))
    for thread in threads:
        thread.start()
    fed.run(ROUNDS)
    while any(thread.is_alive() for thread in threads):
        fed.run(1)
    assert [ticket.state for ticket in tickets] == ["served"] * 12
    assert all(ticket.served.kind == "erase" for ticket in tickets)
    assert refused.state == "refused"
    assert "77" in refused.why
    keeper.close()
    # Whoever comes later is told as well.
    again = many()
    keeper = RunKeeper.go_on(again, tmp_path / "run")
    for ticket in tickets:
        late = again.inbox.ticket(ticket.number)
        assert late.wait(0)
        assert late.served.request == ticket.served.request
    assert again.inbox.ticket(refused.number).why == refused.why
    keeper.close()


def test_what_was_put_in_before_a_crash_is_served_afterwards_and_its_ticket_says_so(tmp_path):
    fed = many()
    keeper = RunKeeper.create(fed, tmp_path / "run", every=0.0)
    fed.run(2)
    number = fed.inbox.put(erase({4: [1]})).number
    keeper.close()
    fed = many()
    keeper = RunKeeper.go_on(fed, tmp_path / "run", every=0.0)
    ticket = fed.inbox.ticket(number)
    assert not ticket.wait(0)
    fed.run(1)
    assert ticket.wait(0)
    assert ticket.served.request == "erase 1 sample of client 4"
    keeper.close()


def test_what_was_taken_up_before_a_crash_is_taken_up_again_at_the_same_step(tmp_path):
    def ended(folder, crashes):
        fed = many()
        keeper = RunKeeper.create(fed, folder, every=1e9)
        fed.begin(8, requests=join([7], round=50))
        for _ in range(3):
            fed.step()
        with Database.open(folder / "run.db") as db:
            leave(db, join([7]), keeper.keyring)
        fed.step()
        fed.step()
        if crashes:
            keeper.close()
            fed = many()
            keeper = RunKeeper.go_on(fed, folder, every=1e9)
        assert fed.steps == (0 if crashes else 5)
        found = story(fed.resume())
        keeper.close()
        return found

    assert ended(tmp_path / "crashes", True) == ended(tmp_path / "whole", False)


def test_what_comes_with_a_stop_or_a_pause_is_not_lost(tmp_path):
    fed = many()
    keeper = RunKeeper.create(fed, tmp_path / "run", every=1e9)
    fed.begin(4)
    fed.step()
    ring = keeper.keyring
    with Database.open(tmp_path / "run" / "run.db") as db:
        first = leave(db, erase({1: [0]}), ring)
        db.ask("stop", b"", "me")
        second = leave(db, erase({2: [0]}), ring)
    with pytest.raises(RunStopped):
        fed.resume()
    fed.resume()
    assert [fed.inbox.ticket(number).state for number in (first, second)] == ["served", "served"]
    keeper.close()


def test_killed_while_it_waits_it_still_serves_what_had_come(tmp_path):
    folder = tmp_path / "run"
    fed = many()
    keeper = RunKeeper.create(fed, folder, every=1e9)
    fed.run(2)
    with Database.open(folder / "run.db") as db:
        leave(db, erase({1: [0]}), keeper.keyring)
    keeper.close()

    def go_on():
        again = many()
        RunKeeper.go_on(again, folder, every=1e9)
        with Database.open(folder / "run.db") as db:
            db.ask("pause", b"", "me")
        again.run(2)

    runner = forked(go_on)
    with Database.open(folder / "run.db") as db:
        while len(db.asked()) < 2 or db.waiting():
            time.sleep(0.01)
    time.sleep(0.3)
    os.kill(runner, signal.SIGKILL)
    os.waitpid(runner, 0)
    fed = many()
    keeper = RunKeeper.go_on(fed, folder)
    fed.resume()
    assert [asked.state for asked in keeper.db.asked()] == ["served", "served"]
    assert fed.history.served[-1].request == "erase 1 sample of client 1"
    keeper.close()


def test_two_requests_of_which_one_client_is_gone_meanwhile_are_both_heard(tmp_path):
    fed = many()
    keeper = RunKeeper.create(fed, tmp_path / "run", every=0.0)
    fed.run(1)
    for request in (erase(3), erase([3, 5]), erase(6)):
        fed.inbox.put(request)
    fed.run(1)
    states = [asked.state for asked in keeper.db.asked()]
    assert states == ["served", "served", "served"]
    assert {3, 5, 6}.isdisjoint(fed.model.lineage.clients)
    keeper.close()


def test_the_second_process_on_a_run_is_refused_and_a_dead_ones_lock_is_not_in_the_way(tmp_path):
    folder = tmp_path / "run"
    fed = many()
    keeper = RunKeeper.create(fed, folder)
    fed.run(1)
    child = forked(lambda: _refused(folder))
    assert os.waitpid(child, 0)[1] == 0
    keeper.close()
    child = forked(lambda: (Lock(folder).__enter__(), os.kill(os.getpid(), signal.SIGKILL)))
    os.waitpid(child, 0)
    RunKeeper.go_on(many(), folder).close()


def _refused(folder):
    for take in (RunKeeper.go_on, RunKeeper.create):
        with pytest.raises(StoreError, match=rf"is being run by process {os.getppid()} on "):
            take(many(), folder)


def test_a_federation_that_is_dropped_lets_go_of_its_folder(tmp_path):
    import gc

    fed = many()
    RunKeeper.create(fed, tmp_path / "run")
    fed.run(1)
    del fed
    gc.collect()
    RunKeeper.go_on(many(), tmp_path / "run").close()


def test_a_join_from_outside_is_served(tmp_path):
    fed = many()
    keeper = RunKeeper.create(fed, tmp_path / "run", every=0.0)
    fed.run(1, requests=join([7], round=50))
    with Database.open(tmp_path / "run" / "run.db") as db:
        leave(db, join([7]), keeper.keyring)
    fed.run(1)
    assert [asked.state for asked in keeper.db.asked()] == ["served"]
    keeper.close()


def test_a_join_that_comes_with_the_erasure_of_its_client_is_refused_as_erased(tmp_path):
    fed = many()
    keeper = RunKeeper.create(fed, tmp_path / "run", every=0.0)
    fed.run(1, requests=join([7], round=50))
    for request in (erase(7), join(7), erase(3), join(3)):
        fed.inbox.put(request)
    fed.run(1)
    assert [asked.state for asked in keeper.db.asked()] == ["served", "refused"] * 2
    assert {3, 7}.isdisjoint(fed.members)
    keeper.close()
