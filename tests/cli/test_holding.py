"""While a command holds a run: the first Ctrl-C is heard after the step, a second one at once."""

import io
import re
import signal
import sys

import pytest

from support import ToyEngine, small_data, toy_federation
from unknot.cli.holding import held
from unknot.cli.screen import side, warn
from unknot.report.progress import Live
from unknot.store.keeper import RunKeeper
from unknot.unlearn import RFS

pytest.importorskip("cryptography")


@pytest.mark.parametrize("first", [signal.SIGINT, signal.SIGTERM])
def test_a_second_ctrl_c_ends_it_at_once(tmp_path, capsys, first):
    before = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)
    fed = toy_federation(RFS(), small_data((5, 8, 3)), ToyEngine())
    keeper = RunKeeper.create(fed, tmp_path / "run")
    fed.begin(2)

    def twice():
        signal.raise_signal(first)
        assert keeper.interrupted
        told = capsys.readouterr().err
        assert "ending after this step" in told
        assert ("Ctrl-C again ends it at once" in told) == (
            first == signal.SIGINT
        )  # who pressed it may do so
        signal.raise_signal(signal.SIGINT)
        pytest.fail("the second one was not heard")

    with pytest.raises(KeyboardInterrupt), held(fed, tmp_path / "run"):
        twice()
    assert (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)) == before


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_what_is_said_while_a_live_line_is_there_has_a_line_of_its_own(tmp_path, monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(sys, "stderr", screen := Terminal())
    fed = toy_federation(RFS(), small_data((5, 8, 3)), ToyEngine())
    RunKeeper.create(fed, tmp_path / "run")
    with held(fed, tmp_path / "run"), Live(side(), 5):
        signal.raise_signal(signal.SIGINT)
        warn("something is wrong")
    text = re.sub(r"\x1b\[[0-9;?]*[a-jl-zA-JL-Z]", "", screen.getvalue())  # all but what empties a line
    lines = [line.rpartition("\r\x1b[2K")[2].strip() for line in text.split("\n")]
    assert any(line.startswith("ending after this step") for line in lines)
    assert "warning: something is wrong" in lines


def test_the_first_one_ends_it_after_its_step(tmp_path):
    fed = toy_federation(RFS(), small_data((5, 8, 3)), ToyEngine())
    RunKeeper.create(fed, tmp_path / "run")
    fed.begin(5)
    fed.step()

    def once():
        signal.raise_signal(signal.SIGINT)
        fed.resume()

    with pytest.raises(KeyboardInterrupt), held(fed, tmp_path / "run"):
        once()
    assert fed.steps == 1
