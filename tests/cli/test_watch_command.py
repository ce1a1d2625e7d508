"""``unknot watch`` tells what happened in its order, in few lines, and by name of who is still there."""

import re

import pytest
from kept_commands import NAMES, call, write_towns

from support import ToyEngine, small_data, toy_federation
from unknot.cli.runs import _Telling
from unknot.core.requests import erase, join
from unknot.store.keeper import RunKeeper
from unknot.store.watching import Watching
from unknot.unlearn import RFS

pytest.importorskip("cryptography")


def told(folder):
    """Rounds, and what was asked, as ``unknot watch`` has them line by line."""
    lines = call("watch", folder).stdout.splitlines()[:-1]
    return [re.sub(r"^global, (round [0-9]+),.*|^▾ .*: ", r"\1", line) for line in lines]


def test_what_was_served_before_the_last_rounds_is_told_before_them(tmp_path):
    out = tmp_path / "run"
    joins = f"[[request]]\njoin = '{NAMES[3]}'\nround = 2\n"
    call("run", write_towns(tmp_path, NAMES, 3, joins), "--out", out, "--quiet")
    assert told(out) == ["round 1", "round 2", f"join {NAMES[3]}", "round 3"]
    call("forget", out, "--client", NAMES[0])
    call("resume", out, "--quiet", "--rounds", "4")
    asked = ["erase client 0", "request 1, erase client 0: served"]
    assert told(out) == [*asked, *(f"round {n}" for n in range(4, 8))]
    call("admit", out, "--client", NAMES[3])
    call("resume", out, "--quiet", code=3)
    call("forget", out, "--client", NAMES[1])
    call("resume", out, "--quiet", "--rounds", "6")
    assert told(out) == [f"round {n}" for n in range(9, 14)]
    call("forget", out, "--client", NAMES[2])
    assert told(out)[-2:] == ["round 13", f"request 4, erase {NAMES[2]}: waiting"]


def test_of_many_rounds_that_come_at_once_the_last_is_told_and_every_request(tmp_path):
    fed = toy_federation(RFS(), small_data((5, 8, 3, 6)), ToyEngine())
    keeper = RunKeeper.create(fed, tmp_path / "run", every=1e9)
    watching, telling = Watching(tmp_path / "run"), _Telling()
    fed.begin(70, requests=[join([3], round=40), join([2], round=44)])
    keeper.checkpoint(fed)
    assert telling.lines(*watching.look()) == []
    fed.resume()
    keeper.close()
    lines = [line.split(", ")[1] if ", round" in line else line for line in telling.lines(*watching.look())]
    assert [re.sub(r"^▾ .*: ", "", line) for line in lines] == [
        *("… 39 rounds", "round 40", "join client 3"),
        *("round 41", "round 42", "round 43", "round 44", "join client 2"),
        *("… 25 rounds", "round 70"),
    ]


def test_a_request_that_is_served_is_told_with_its_event_once(tmp_path):
    fed = toy_federation(RFS(), small_data((5, 8, 3, 6)), ToyEngine())
    keeper = RunKeeper.create(fed, tmp_path / "run", every=1e9)
    watching, telling, lines = Watching(tmp_path / "run"), _Telling(), []
    fed.begin(8, requests=[join([3], round=6)])
    for step in range(20):
        if step == 3:
            fed.inbox.put(join([3]))
            fed.inbox.put(erase(1))
        lines += telling.lines(*watching.look()) if step else []
        fed.step()
        if fed.stint.stopped:
            break
    keeper.close()
    lines += telling.lines(*watching.look())
    for number, request in ((1, "join client 3"), (2, "erase client 1")):
        (served,) = [
            place for place, line in enumerate(lines) if line == f"request {number}, {request}: served"
        ]
        assert lines[served - 1].endswith(f": {request}")


def test_of_several_at_one_moment_each_is_told_with_its_own_event(tmp_path):
    fed = toy_federation(RFS(), small_data((5, 8, 3, 6, 4)), ToyEngine())
    keeper = RunKeeper.create(fed, tmp_path / "run", every=1e9)
    watching, telling = Watching(tmp_path / "run"), _Telling()
    fed.begin(2, requests=[erase(0, round=2)])
    keeper.checkpoint(fed)
    telling.lines(*watching.look())
    while len(fed.history.rounds) < 2:
        fed.step()
    fed.inbox.put(erase(1))
    fed.inbox.put(erase(2))
    fed.resume()
    assert len({(event.kind, event.round, event.time) for event in fed.history.served}) == 1
    together = ["erase client 0", "erase client 1", "request 1, erase client 1: served"]
    together += ["erase client 2", "request 2, erase client 2: served"]
    assert without_rounds(telling.lines(*watching.look())) == together
    fed.resume(4 - len(fed.history.rounds) + 2)
    keeper.close()
    assert without_rounds(_Telling().lines(*Watching(tmp_path / "run").look())) == together[-2:]


def without_rounds(lines):
    """Requests alone, as ``unknot watch`` has them line by line."""
    return [re.sub(r"^▾ .*: ", "", line) for line in lines if not re.match("global, |… ", line)]
