"""An error of an own part in the middle of a step costs a kept run time, and no bit."""

import pytest

import unknot
from unknot.core.weights import weighted_sum

DATA = unknot.federate(unknot.load("digits"), unknot.Iid(clients=6, samples=20))


class BadDays:
    """Whether somebody fails, at the call of that number."""

    at = None
    calls = 0


def mean(current, updates, version, ledger):
    BadDays.calls += 1
    if BadDays.calls == BadDays.at:
        raise RuntimeError("a bad day")
    steps = [(1 / len(updates), update.step) for update in updates]
    return weighted_sum([(1.0, current), *steps], ledger, "aggregate")


def world(folder):
    method = unknot.KNOT(clusters=2, by="random")
    pace = unknot.Synchronous(4)
    fed = unknot.simulate("mlp", DATA, method, aggregate=mean, pace=pace, store=folder)
    BadDays.calls = 0
    return fed


@pytest.mark.parametrize("at", [1, 4, 7])
def test_what_is_in_memory_is_not_gone_on_from_and_what_is_in_the_folder_is(tmp_path, at, monkeypatch):
    whole = world(tmp_path / "whole")
    whole.run(4)
    monkeypatch.setattr(BadDays, "at", at)
    fed = world(tmp_path / "run")
    with pytest.raises(RuntimeError, match="a bad day"):
        fed.run(4)
    with pytest.raises(unknot.UnknotError, match=r"broken off in its middle.*goes on from its folder"):
        fed.resume()
    fed.keeper.close()
    monkeypatch.setattr(BadDays, "at", None)
    again = world(tmp_path / "run")
    history = again.run(4) if again.history is None else again.resume()
    assert history.model.digest() == whole.model.digest()
    assert len(history.rounds) == len(whole.history.rounds)
    again.keeper.close()
    whole.keeper.close()
