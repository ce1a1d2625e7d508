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
    fed.close()
    monkeypatch.setattr(BadDays, "at", None)
    again = world(tmp_path / "run")
    history = again.run(4) if again.history is None else again.resume()
    assert history.model.digest() == whole.model.digest()
    assert len(history.rounds) == len(whole.history.rounds)
    again.close()
    whole.close()


class Forgetful(unknot.RFS):
    """Retraining that fails to forget, as long as it is to."""

    def forget(self, desk, request, touched):
        if BadDays.at:
            raise RuntimeError("a bad day")
        super().forget(desk, request, touched)


@pytest.mark.parametrize("what", [1, {1: [0, 3]}])
def test_a_method_that_failed_to_forget_is_asked_again_from_the_folder_and_not_from_memory(
    tmp_path, monkeypatch, what
):
    """A second try in one process would be kept with data that is gone and a model that has it."""

    def built(name):
        return unknot.simulate("mlp", DATA, Forgetful(), store=tmp_path / name)

    requests = [unknot.erase(what, round=2)]
    whole = built("whole")
    whole.run(4, requests=requests)
    monkeypatch.setattr(BadDays, "at", 1)
    fed = built("run")
    with pytest.raises(RuntimeError, match="a bad day"):
        fed.run(4, requests=requests)
    for _ in range(2):
        with pytest.raises(unknot.UnknotError, match="broken off in its middle"):
            fed.resume()
    fed.close()
    monkeypatch.setattr(BadDays, "at", None)
    again = built("run")
    history = again.resume()
    assert [one.kind for one in history.served] == ["erase"]
    assert history.model.digest() == whole.model.digest()
    assert history.rounds[-1].costs == whole.history.rounds[-1].costs
    again.close()
    whole.close()


def test_an_engine_that_failed_to_train_is_asked_again_from_the_folder(tmp_path, monkeypatch):
    """What has been sent out by then is not kept: a request that came before the second try would find it."""

    def built(name):
        return unknot.simulate("mlp", DATA, unknot.RFS(), pace=unknot.Synchronous(4), store=tmp_path / name)

    whole = built("whole")
    whole.run(4)
    fed = built("run")
    train = type(fed.engine).train

    def fails(engine, jobs, data):
        monkeypatch.setattr(type(fed.engine), "train", train)
        raise RuntimeError("out of memory")

    fed.begin(4)
    fed.step()
    monkeypatch.setattr(type(fed.engine), "train", fails)
    with pytest.raises(RuntimeError, match="out of memory"):
        fed.resume()
    with pytest.raises(unknot.UnknotError, match=r"broken off in its middle.*goes on from its folder"):
        fed.resume()
    fed.close()
    again = built("run")
    assert again.resume().model.digest() == whole.model.digest()
    again.close()
    whole.close()


def test_who_waits_for_a_ticket_is_told_that_another_process_serves_it(tmp_path, monkeypatch):
    def built():
        return unknot.simulate("mlp", DATA, Forgetful(), store=tmp_path / "run")

    fed = built()
    fed.run(2)
    asked = fed.inbox.put(unknot.erase(1))
    monkeypatch.setattr(BadDays, "at", 1)
    with pytest.raises(RuntimeError, match="a bad day"):
        fed.resume()
    later = fed.inbox.put(unknot.erase(2))
    for ticket in (asked, later, fed.inbox.ticket(asked.number)):
        assert not ticket.wait()  # at once
        assert (ticket.state, ticket.served) == ("waiting", None)
        assert "goes on from its folder" in ticket.why
    fed.close()
    monkeypatch.setattr(BadDays, "at", None)
    again = built()
    again.resume()
    assert [again.inbox.ticket(one.number).state for one in (asked, later)] == ["served", "served"]
    again.close()


def test_who_waits_for_a_ticket_is_told_when_the_folder_is_let_go_of(tmp_path):
    fed = unknot.simulate("mlp", DATA, unknot.RFS(), store=tmp_path / "run")
    fed.run(1)
    ticket = fed.inbox.put(unknot.erase(1))
    assert not ticket.wait(0)
    assert ticket.why == ""
    fed.close()
    assert not ticket.wait()
    assert "served once the run is gone on with" in ticket.why
