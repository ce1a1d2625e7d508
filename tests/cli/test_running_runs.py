"""A run in another process: asked, paused, stopped and looked at from outside; ended by a signal."""

import signal
import time

import pytest
from kept_commands import call, shown

from processes import Started
from unknot.core.errors import StoreError
from unknot.store.noted import begun

pytest.importorskip("cryptography")

FILE = """
[data]
partition = "iid"
clients = 4
samples = 12
validation = 20
[federation]
rounds = 100000
"""


def until(holds, seconds=60):
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.1)


def is_begun(folder):
    """Its database is there before anything is in it."""
    try:
        return bool(begun(folder))
    except StoreError:
        return False


@pytest.fixture
def running(tmp_path):
    """A process that runs for long, and its folder."""
    file, out = tmp_path / "long.toml", tmp_path / "run"
    file.write_text(FILE)
    process = Started("run", file, "--out", out, "--checkpoint", "0.2")
    try:
        until(lambda: process.poll() is not None or is_begun(out))
        until(lambda: process.poll() is not None or shown(out)["rounds"] > 1)
        assert process.poll() is None, process.communicate()
        yield process, out
    finally:
        process.end()


def test_a_running_process_is_asked_from_outside(running):
    process, out = running
    served = call("forget", out, "--client", "1", "--client", "2", "--wait").stdout
    assert f"Process {process.pid} runs {out}" in served
    assert "served after round" in served
    assert shown(out)["requests"][0]["state"] == "served"
    refused = call("admit", out, "--client", "0", "--reason", "why not", "--wait", code=3)
    assert "refused: " in refused.output
    assert f"by process {process.pid}" in call("show", out).stdout

    assert "pauses after its current step; its process stays in memory" in call("pause", out).stdout
    call("pause", out)
    assert "stop it first" in call("run", out.parent / "long.toml", "--out", out, "--force", code=2).output
    until(lambda: shown(out)["paused"])
    asked = len(shown(out)["requests"])
    assert f"{out} is paused already; go on with: unknot resume {out}" in call("pause", out).stdout
    assert len(shown(out)["requests"]) == asked
    told = call("forget", out, "--client", "3").stdout
    assert f"is paused: it takes it up once it goes on, with unknot resume {out}" in told
    assert f"paused; go on with: unknot resume {out}" in call("show", out).stdout
    assert f"{out} was paused; process {process.pid} goes on now" in call("resume", out).output
    until(lambda: not shown(out)["paused"])
    before = shown(out)["rounds"]
    until(lambda: shown(out)["rounds"] > before)
    until(lambda: shown(out)["requests"][-2]["state"] == "served")

    call("stop", out)
    process.wait(60)
    told = process.stderr.read()
    assert process.returncode == 0, told
    assert "stopped, as it was asked to" in told
    assert "warning: request 2 was refused: client 0 is a member already" in told
    assert shown(out)["state"] == "stopped"


def test_who_waits_for_a_paused_run_is_told_so_and_goes_on_waiting(running):
    _, out = running
    call("pause", out)
    until(lambda: shown(out)["paused"])
    waiting = Started("forget", out, "--client", "1", "--wait")
    try:
        assert (
            waiting.stderr.readline() == f"{out} is paused: it is served once you say unknot resume {out}\n"
        )
        assert waiting.poll() is None
        call("resume", out)
        told, rest = waiting.communicate()
        assert (waiting.returncode, rest) == (0, "")
    finally:
        waiting.end()
    assert "served after round" in told


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_leaves_a_last_checkpoint(running, number):
    process, out = running
    process.send_signal(number)
    process.wait(60)
    told = process.stderr.read()
    assert process.returncode == 130, told
    assert "ending after this step" in told
    assert f"Go on with: unknot resume {out}" in told
    assert shown(out)["state"] == "stopped"


def test_who_looks_on_sees_it_end(running):
    _, out = running
    watch = Started("watch", out)
    try:
        assert ", round " in watch.stdout.readline()
        call("forget", out, "--client", "1", "--wait")
        call("stop", out)
        rest = watch.communicate()[0]
    finally:
        watch.end()
    assert "erase client 1" in rest
    assert rest.splitlines()[-1].startswith("stopped, ")
