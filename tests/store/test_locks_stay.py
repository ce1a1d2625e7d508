"""What SQLite has locked stays so, whoever opens the database of a run in the process that holds it.

A process that closes any descriptor of a file loses all locks that it has on it. Another one would then take
itself for the last, and remove the write-ahead log in which the run is being written.
"""

import subprocess
import sys

import pytest
from kept_runs import NAMES, build

from unknot.core.requests import erase
from unknot.store.keeper import RunKeeper
from unknot.store.look import look
from unknot.store.naming import named_in, number_of
from unknot.store.noted import begun
from unknot.store.taking import holds_run

ASK = """
import os, sys
from unknot.core.requests import erase
from unknot.store import Database, Keyring
from unknot.store.inbox import leave
for line in sys.stdin:
    client, folder = line.rstrip("\\n").split(" ", 1)
    if not (child := os.fork()):
        try:
            with Database.open(folder + "/run.db") as db:
                leave(db, erase(int(client)), Keyring(folder + "/keys"))
            os._exit(0)
        finally:
            os._exit(1)
    print(os.waitpid(child, 0)[1], flush=True)
"""


@pytest.fixture(scope="module")
def ask():
    """Another process, which leaves a request and is gone: a child of one that imports things once."""
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen([sys.executable, "-c", ASK], text=True, **pipes) as parent:

        def ask(folder, client):
            parent.stdin.write(f"{client} {folder}\n")
            parent.stdin.flush()
            assert parent.stdout.readline() == "0\n"

        yield ask
        parent.stdin.close()
    assert parent.returncode == 0


@pytest.mark.parametrize(
    "opens",
    [
        lambda fed, folder: fed.inbox.put(erase({3: [0]})),
        lambda fed, folder: fed.inbox.put(erase({3: [0]})) and fed.inbox.ticket(1),
        lambda fed, folder: look(folder),
        lambda fed, folder: begun(folder),
        lambda fed, folder: named_in(folder),
        lambda fed, folder: number_of(folder, NAMES[2]),
        lambda fed, folder: holds_run(folder),
    ],
    ids=["put", "ticket", "look", "begun", "named_in", "number_of", "holds_run"],
)
def test_a_request_from_another_process_is_served_whatever_was_opened_here_before(tmp_path, ask, opens):
    folder = tmp_path / "run"
    fed = build()
    keeper = RunKeeper.create(fed, folder, every=0.0)
    fed.run(1)
    opens(fed, folder)
    before = (folder / "run.db-wal").stat().st_ino
    ask(folder, 1)
    assert (folder / "run.db-wal").stat().st_ino == before
    ask(folder, 2)
    fed.run(1)
    assert {1, 2} <= fed.data.erased
    assert {asked.state for asked in keeper.db.asked()} == {"served"}
    keeper.close()
    fed = build()
    RunKeeper.go_on(fed, folder).close()
    assert {1, 2} <= fed.data.erased
