"""Standard output on a full disk, or closed; standard error likewise: a line and a status, or nothing."""

import errno
import io
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from kept_commands import call, shown
from test_manners import ALL

import unknot
from support import grid
from unknot.cli import app
from unknot.experiments import Experiment, kept
from unknot.store.keeper import keeper_of

pytest.importorskip("cryptography")

FULL = "/dev/full"
LOST = "standard output cannot be written"


class Full(io.StringIO):
    """A stream on a disk that is full."""

    def write(self, text):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


class Late(io.StringIO):
    """The same, found out when it is flushed."""

    def flush(self):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def failing(monkeypatch, args, out=None, err=None):
    """What a command exits with whose streams are these."""
    with monkeypatch.context() as patch:
        patch.setattr(sys, "stdout", out)
        patch.setattr(sys, "stderr", err)
        with pytest.raises(SystemExit) as ended:
            app([str(arg) for arg in args])
    return ended.value.code


def lost(monkeypatch, args, out):
    """The same where standard output fails, and what is said on standard error."""
    told = io.StringIO()
    return failing(monkeypatch, args, out, told), told.getvalue()


@pytest.fixture
def over(file, tmp_path):
    out = tmp_path / "run"
    call("run", file, "--out", out, "--quiet")
    return out


@pytest.mark.parametrize(
    ("args", "stream"),
    grid([["--version"], ["--help"], *([name, "--help"] for name in ALL)], [Full, Late, type(None)]),
)
def test_a_result_that_cannot_be_written_is_one_line_and_status_2(monkeypatch, args, stream):
    status, told = lost(monkeypatch, args, stream())
    assert status == 2
    assert told.startswith(f"error: {LOST}")
    assert told.count("\n") == 1


@pytest.mark.parametrize("args", [["show"], ["show", "--json"], ["runs"], ["runs", "--json"], ["watch"]])
def test_who_looks_at_a_run_is_told_in_a_line(over, monkeypatch, args):
    status, told = lost(monkeypatch, [*args, over], Full())
    assert (status, told.count("\n")) == (2, 1)
    assert f"{LOST} (No space left on device)" in told


@pytest.mark.parametrize("stream", [Full, type(None)])
@pytest.mark.parametrize("command", ["forget", "admit"])
def test_a_request_counts_as_put_and_that_is_said(over, monkeypatch, command, stream):
    status, told = lost(monkeypatch, [command, over, "--client", "1"], stream())
    assert status == 2
    assert told.startswith("request 1: ")
    assert told.splitlines()[-1].startswith(f"error: {LOST}")
    assert [one["state"] for one in shown(over)["requests"]] == ["waiting"]


@pytest.mark.parametrize(("command", "words"), [("pause", "pauses after"), ("stop", "ends at its next step")])
def test_so_does_a_word_to_the_process_that_runs(file, tmp_path, monkeypatch, command, words):
    out = tmp_path / "run"
    fed = kept.begin(Experiment.read(file), out)
    keeper_of(fed).starts(fed)
    status, told = lost(monkeypatch, [command, out], Full())
    assert status == 2
    assert told.startswith(f"{out} {words}")
    assert [(one["kind"], one["state"]) for one in shown(out)["requests"]] == [(command, "waiting")]
    fed.close()


@pytest.mark.parametrize("how", [[], ["--json"]])
def test_a_run_leaves_its_results_all_the_same(file, tmp_path, monkeypatch, how):
    out = tmp_path / "run"
    status, told = lost(monkeypatch, ["run", file, "--out", out, *how], Full())
    assert status == 2
    assert told.splitlines()[-1].startswith(f"error: {LOST}")
    assert json.loads((out / "record.json").read_text())["model"] == shown(out)["model"]
    status, told = lost(monkeypatch, ["resume", out, "--rounds", "1", *how], Full())
    assert status == 2
    assert "cannot be gone on with" not in told
    assert shown(out)["rounds"] == 4
    assert json.loads((out / "record.json").read_text())["model"] == shown(out)["model"]


@pytest.mark.parametrize("stream", [Full, Late, type(None)])
def test_a_run_goes_on_where_nobody_can_be_told(file, tmp_path, monkeypatch, stream):
    out = io.StringIO()
    assert failing(monkeypatch, ["run", file, "--out", tmp_path / "run"], out, stream()) == 0
    assert f"written: {tmp_path / 'run' / 'record.json'}" in out.getvalue()
    assert shown(tmp_path / "run")["state"] == "finished"


def test_the_streams_are_as_they_were_after_a_command(over):
    before = sys.stdout, sys.stderr
    with pytest.raises(SystemExit):
        app(["runs", str(over), "--json"])
    assert (sys.stdout, sys.stderr) == before


@pytest.mark.skipif(not Path(FULL).exists(), reason=f"there is no {FULL}")
@pytest.mark.parametrize(
    "how",
    [
        *(f"> {FULL}", ">&- 2>&- <&-"),  # full, and all of them closed
        *(
            pytest.param(how, marks=pytest.mark.slow)
            for how in (f"2> {FULL}", "<&-", ">&-", "2>&-", ">&- 2>&-", f"> {FULL} 2> {FULL}")
        ),
    ],
)
def test_a_process_with_such_streams_leaves_its_request(over, how):
    environment = {**os.environ, "PYTHONPATH": str(Path(unknot.__file__).parents[1]), "OMP_NUM_THREADS": "1"}
    line = f'"$0" -m unknot forget "$1" --client 1 {how}'
    found = subprocess.run(
        ["sh", "-c", line, sys.executable, str(over)],
        capture_output=True,
        text=True,
        check=False,
        env=environment,
    )
    assert found.returncode == (2 if how.startswith(">") else 0)
    assert "Traceback" not in found.stderr
    assert "Exception ignored" not in found.stderr
    if how.startswith(">") and "2>" not in how:
        assert found.stderr.startswith("request 1: ")
        assert found.stderr.splitlines()[-1].startswith(f"error: {LOST}")
    assert [one["state"] for one in shown(over)["requests"]] == ["waiting"]
