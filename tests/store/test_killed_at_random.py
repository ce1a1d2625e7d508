"""Longer runs with real training, killed at moments that nobody chose, end as if they had not been."""

import os
import random
import signal
import time

import pytest
from kept_runs import fast_folder, remove_tree, story

import unknot
from unknot.core.requests import erase, join
from unknot.store import Database, Keyring
from unknot.store.folder import is_kept
from unknot.store.inbox import leave
from unknot.store.keeper import RunKeeper

REQUESTS = (erase({3: [1, 2]}, round=3), join([7], round=5), erase(1, round=8))
ASKED = erase(5)
"""What comes from another process, at any moment."""
ROUNDS = 12
EVERY = 0.05
KILLS = 13
PACES = {"knot": "buffered", "mmt": "buffered", "federaser": "sync", "exact-fun": "sync"}


def build(method):
    data = unknot.federate(unknot.load("digits"), unknot.Iid(clients=8, samples=30), validation=50)
    pace = {"pace": unknot.Buffered(4, 2)} if PACES[method] == "buffered" else {}
    return unknot.simulate("mlp", data, method, engine="stacked", seed=3, **pace)


def go(method, folder, step=None):
    """Run to the end, from wherever it is; if so, with what is asked from outside coming at a step."""
    fed = build(method)
    keeper = (RunKeeper.go_on if is_kept(folder) else RunKeeper.create)(fed, folder, every=EVERY)
    try:
        if fed.stint is None:
            fed.begin(ROUNDS, requests=REQUESTS)
        while not fed.stint.stopped:
            if fed.steps == step and not keeper.db.asked():
                ask(folder)
            fed.step()
        if fed.steps == step and not keeper.db.asked():  # it came when the run was over
            ask(folder)
        return story(fed.resume())
    finally:
        keeper.close()


def ask(folder):
    """As another process does: a run does not look for what came by its own connection."""
    with Database.open(folder / "run.db") as db:
        leave(db, ASKED, Keyring(folder / "keys"))


def asked_in(folder):
    with Database.open(folder / "run.db") as db:
        return db.asked()


@pytest.mark.slow
@pytest.mark.parametrize("method", PACES)
def test_killed_at_random_moments_and_asked_meanwhile(method):
    base, draw = fast_folder(), random.Random(method)
    try:
        started = time.monotonic()
        go(method, base / "first")
        took = time.monotonic() - started
        killed = 0
        while killed < KILLS:
            folder = base / str(killed)
            for _ in range(3):
                child = os.fork()
                if not child:
                    go(method, folder)
                    os._exit(0)
                time.sleep(draw.uniform(0, 0.7 * took))
                if (folder / "run.db").exists() and is_kept(folder) and not asked_in(folder):
                    ask(folder)
                os.kill(child, signal.SIGKILL)
                killed += os.WIFSIGNALED(os.waitpid(child, 0)[1])
            found = go(method, folder)
            asked = asked_in(folder)
            assert [one.state for one in asked] in ([], ["served"])
            step = asked[0].step if asked else None
            assert found == go(method, base / f"{killed} whole", step)
    finally:
        remove_tree(base)
