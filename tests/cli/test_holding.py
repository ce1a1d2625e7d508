"""While a command holds a run: the first Ctrl-C is heard after the step, a second one at once."""

import signal

import pytest

from support import ToyEngine, small_data, toy_federation
from unknot.cli.holding import held
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
