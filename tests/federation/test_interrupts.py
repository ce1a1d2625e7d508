"""A run that is interrupted can be gone on with, or says that it cannot."""

import os
import signal
import threading

import pytest

from support import ToyEngine, toy_federation
from unknot.core.errors import UnknotError
from unknot.core.requests import erase
from unknot.unlearn import RFS

REQUESTS = [erase(2, round=2)]


@pytest.fixture
def ctrl_c():
    """Ctrl-C, as Python hears it."""
    if threading.current_thread() is not threading.main_thread():
        pytest.skip("signals reach the main thread alone")
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield lambda: os.kill(os.getpid(), signal.SIGINT)
    signal.signal(signal.SIGINT, before)


class Pressing(ToyEngine):
    """Calls something while it trains, once."""

    def __init__(self, press, at=2):
        super().__init__()
        self._press, self._at = press, at

    def train(self, jobs, data):
        if len(self.calls) == self._at and self._press is not None:
            press, self._press = self._press, None
            press()
        return super().train(jobs, data)


def test_ctrl_c_is_heard_between_two_steps_and_the_run_goes_on_to_the_same_bits(ctrl_c):
    whole = toy_federation(RFS()).run(5, requests=REQUESTS)
    for at in range(1, 5):
        fed = toy_federation(RFS(), engine=Pressing(ctrl_c, at))
        with pytest.raises(KeyboardInterrupt):
            fed.run(5, requests=REQUESTS)
        history = fed.resume()
        assert history.model.equal(whole.model)
        assert [r.clients for r in history.rounds] == [r.clients for r in whole.rounds]
        assert history.rounds[-1].costs == whole.rounds[-1].costs
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_ctrl_c_twice_is_heard_at_once_and_the_broken_step_is_not_gone_on_from(ctrl_c):
    fed = toy_federation(RFS(), engine=Pressing(lambda: (ctrl_c(), ctrl_c())))
    with pytest.raises(KeyboardInterrupt):
        fed.run(5)
    for again in (fed.resume, fed.step, lambda: fed.run(1)):
        with pytest.raises(UnknotError, match="broken off in its middle"):
            again()


def test_a_handler_of_ones_own_is_left_alone(ctrl_c):
    heard = []
    signal.signal(signal.SIGINT, lambda *_: heard.append(1))
    toy_federation(RFS(), engine=Pressing(ctrl_c)).run(4)
    assert heard == [1]


def test_an_engine_that_fails_may_be_asked_again():
    def fail():
        raise UnknotError("out of order")

    fed = toy_federation(RFS(), engine=Pressing(fail))
    with pytest.raises(UnknotError, match="out of order"):
        fed.run(4)
    assert fed.resume().model.equal(toy_federation(RFS()).run(4).model)


@pytest.mark.parametrize("kind", [KeyboardInterrupt, SystemExit])
def test_an_observer_that_interrupts_is_heard_when_the_step_is_made(kind):
    def rude(event):
        if event.round == 2 and not fed.done:
            fed.done = True
            raise kind

    fed = toy_federation(RFS(), observers=[rude])
    fed.done = False
    with pytest.raises(kind):
        fed.run(4, requests=REQUESTS)
    assert fed.resume().model.equal(toy_federation(RFS()).run(4, requests=REQUESTS).model)


def test_words_that_an_observer_raised_before_an_erasure_are_kept_no_more():
    def gossip(event):
        raise ValueError("no bed left in Graz")

    history = toy_federation(RFS(), observers=[gossip]).run(4, requests=REQUESTS)
    (aside,) = history.set_aside_observers
    assert aside.observer == "gossip"
    assert aside.error.startswith("ValueError (test_interrupts.py:")


class Failing(RFS):
    """Fails once, in one of its parts."""

    def __init__(self, where, at=2):
        super().__init__()
        object.__setattr__(self, "_left", {where: at})

    def _may_fail(self, where):
        self._left[where] = self._left.get(where, 0) - 1
        if self._left[where] == 0:
            raise RuntimeError("a bad day")

    def choose(self, desk, lane, idle, room):
        found = super().choose(desk, lane, idle, room)
        self._may_fail("choose")
        return found

    def jobs(self, desk, lane, client):
        self._may_fail("jobs")
        return super().jobs(desk, lane, client)

    def absorb(self, desk, lane, updates):
        super().absorb(desk, lane, updates)
        self._may_fail("absorb")

    def conclude(self, desk):
        super().conclude(desk)
        self._may_fail("conclude")

    def forget(self, desk, request, touched):
        self._may_fail("forget")
        super().forget(desk, request, touched)


@pytest.mark.parametrize(("where", "at"), [("choose", 2), ("jobs", 3), ("absorb", 2), ("conclude", 1)])
def test_what_fails_in_the_middle_of_a_step_is_not_gone_on_from(where, at):
    fed = toy_federation(Failing(where, at))
    with pytest.raises(RuntimeError, match="a bad day"):
        fed.run(5, requests=REQUESTS)
    for again in (fed.resume, fed.step, lambda: fed.run(1)):
        with pytest.raises(UnknotError, match="broken off in its middle"):
            again()


def test_a_metric_that_fails_once_a_request_was_served_is_not_gone_on_from(monkeypatch):
    fed = toy_federation(RFS())
    measured, seen = fed.work.scores_now, []

    def fails_after():
        if fed.state.data.erased and not seen:
            seen.append(1)
            raise RuntimeError("a bad day")
        return measured()

    monkeypatch.setattr(fed.work, "scores_now", fails_after)
    with pytest.raises(RuntimeError, match="a bad day"):
        fed.run(5, requests=REQUESTS)
    with pytest.raises(UnknotError, match="broken off in its middle"):
        fed.resume()


def test_a_method_that_fails_to_forget_may_be_asked_again():
    fed = toy_federation(Failing("forget", 1))
    with pytest.raises(RuntimeError, match="a bad day"):
        fed.run(5, requests=REQUESTS)
    assert fed.resume().model.equal(toy_federation(RFS()).run(5, requests=REQUESTS).model)


class Catching(RFS):
    """Something fails within it, and it goes on all the same."""

    state = None

    def forget(self, desk, request, touched):
        try:
            with type(self).state.midst():
                raise ValueError("caught")
        except ValueError:
            super().forget(desk, request, touched)


def test_what_a_method_caught_itself_is_no_later_steps_end():
    def fail():
        raise UnknotError("out of order")

    fed = toy_federation(Catching(), engine=Pressing(fail, at=4))
    Catching.state = fed.state
    with pytest.raises(UnknotError, match="out of order"):
        fed.run(5, requests=REQUESTS)
    assert fed.resume().model.equal(toy_federation(RFS()).run(5, requests=REQUESTS).model)


class Spoilt(RFS):
    """The first time it leaves a model that has what it was to forget, and rounds that nobody trained."""

    tried = False

    def forget(self, desk, request, touched):
        if type(self).tried:
            return super().forget(desk, request, touched)
        type(self).tried = True
        for lane in touched:
            lane.rounds += 7
        return None


def test_what_a_method_left_that_failed_the_check_is_put_back_before_it_is_asked_again():
    fed = toy_federation(Spoilt())
    with pytest.raises(UnknotError, match=r"after .* forgot"):
        fed.run(5, requests=REQUESTS)
    again, whole = fed.resume(), toy_federation(RFS()).run(5, requests=REQUESTS)
    assert again.model.equal(whole.model)
    assert len(again.rounds) == len(whole.rounds)
