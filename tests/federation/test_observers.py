import json
import logging
import re
import threading
from dataclasses import fields, replace

import pytest

from support import small_data, toy_federation
from unknot.core.errors import ConfigError
from unknot.core.requests import erase
from unknot.federation import Begun, Ended, Length, Round, Served, SetAside
from unknot.unlearn import KNOT, RFS


class Diary:
    """Writes down what it is told."""

    def __init__(self):
        self.told = []

    def begin(self, begun):
        self.told.append(begun)

    def __call__(self, event):
        self.told.append(event)

    def end(self, ended):
        self.told.append(ended)


class Clumsy(Diary):
    """Raises at one kind of event."""

    def __init__(self, at, error=None):
        super().__init__()
        self.at, self.error = at, error or ZeroDivisionError("of all things")

    def _fall(self, event):
        self.told.append(event)
        if isinstance(event, self.at):
            raise self.error

    begin = __call__ = end = _fall


REQUESTS = [erase(1, round=2)]


def test_an_observer_with_a_beginning_and_an_end_is_told_of_both():
    diary = Diary()
    history = toy_federation(RFS(), observers=[diary], called="net").run(4, requests=REQUESTS)
    begun, *events, ended = diary.told
    assert isinstance(begun, Begun)
    assert (begun.method, begun.guarantee, begun.metrics) == ("rfs", "exact", ("accuracy",))
    assert begun.setup == history.setup
    assert begun.setup["model"]["name"] == "net"
    assert begun.members == {"global": (0, 1, 2, 3, 4, 5)}
    assert events == history.events
    assert isinstance(ended, Ended)
    assert (ended.stopped, ended.error, ended.model) == ("rounds", "", history.model.digest())
    assert (ended.scores, ended.costs) == (history.scores, history.costs)
    assert [one.request for one in ended.recoveries] == ["erase client 1"]


def test_a_federation_that_goes_on_says_how_far_it_was():
    diary = Diary()
    fed = toy_federation(RFS(), observers=[diary])
    fed.run(2)
    fed.run(3)
    assert [event.rounds_before for event in diary.told if isinstance(event, Begun)] == [0, 2]
    assert sum(isinstance(event, Ended) for event in diary.told) == 2


@pytest.mark.parametrize(
    ("at", "when", "told"),
    [(Begun, "the start", 1), (Round, "round 1 of global", 2), (Served, "'erase client 1'", 4)],
)
def test_an_observer_that_raises_is_set_aside_and_named_and_the_run_goes_on(at, when, told, caplog):
    clumsy, diary = Clumsy(at), Diary()
    with caplog.at_level(logging.WARNING):
        history = toy_federation(RFS(), observers=[clumsy, diary]).run(4, requests=REQUESTS)
    plain = toy_federation(RFS()).run(4, requests=REQUESTS)
    assert history.model.equal(plain.model)
    assert history.events == plain.events
    assert len(clumsy.told) == told
    assert len(diary.told) == 1 + 5 + 1
    (aside,) = history.set_aside_observers
    assert (aside.observer, aside.when) == ("Clumsy", when)
    # Words go with an erasure: those from before it, and what is said at it, which may be about who left.
    assert re.fullmatch(r"ZeroDivisionError \(test_observers.py:\d+\)", aside.error)
    assert "of all things" in caplog.text
    assert str(aside) in repr(history)
    assert str(aside).partition(": ")[0] in caplog.text
    assert history.warnings == []


def test_one_that_raises_at_the_end_is_named_too():
    history = toy_federation(RFS(), observers=[Clumsy(Ended)]).run(2)
    assert [aside.when for aside in history.set_aside_observers] == ["the end"]
    record = json.loads(json.dumps(history.to_dict()))
    assert record["set_aside_observers"][0]["observer"] == "Clumsy"


class Billing:
    """Fails over a client that was erased, when it is told of such an event."""

    def __init__(self, at) -> None:
        self.at, self.erased = at, False

    def begin(self, begun):
        pass

    def __call__(self, event):
        self.erased |= isinstance(event, Served)
        if self.erased and isinstance(event, self.at):
            raise KeyError("Graz-Nord")

    def end(self, ended):
        self(ended)


@pytest.mark.parametrize("at", [Served, Round, Ended])
def test_an_observer_that_fails_over_who_was_erased_leaves_no_word_of_it_whenever_it_does(at):
    history = toy_federation(RFS(), observers=[Billing(at)]).run(4, requests=REQUESTS)
    (aside,) = history.set_aside_observers
    assert aside.error.startswith("KeyError (test_observers.py:")
    assert "Graz-Nord" not in str(history.to_dict())


def test_what_is_said_while_an_erasure_fails_goes_once_it_does_not():
    class Failing(RFS):
        tries = 0

        def forget(self, desk, request, touched):
            Failing.tries += 1
            if Failing.tries == 1:
                raise ValueError("not now")
            super().forget(desk, request, touched)

    billing = Billing(Ended)
    billing.erased = True
    fed = toy_federation(Failing(), observers=[billing])
    with pytest.raises(ValueError, match="not now"):
        fed.run(4, requests=REQUESTS)
    assert "Graz-Nord" in fed.history.set_aside_observers[0].error
    fed.resume()
    assert fed.history.set_aside_observers[0].error.startswith("KeyError (test_observers.py:")


def test_of_an_error_without_words_its_kind_and_its_line_stay():
    said = [
        SetAside("f", "the end", error).wordless.error for error in ("E (x.py:3)", "E: a: b (x.py:3)", "E")
    ]
    assert said == ["E (x.py:3)", "E (x.py:3)", "E"]


def test_a_function_is_named_by_its_name():
    def nosy(event):
        raise KeyError

    history = toy_federation(RFS(), observers=[nosy]).run(1)
    assert history.set_aside_observers[0].observer == "nosy"
    assert str(SetAside("f", "the end", "KeyError")) == "the observer f was set aside at the end: KeyError"


def test_who_interrupts_a_run_interrupts_it_and_the_others_are_told_by_what():
    diary = Diary()
    fed = toy_federation(RFS(), observers=[diary, Clumsy(Served, KeyboardInterrupt())])
    with pytest.raises(KeyboardInterrupt):
        fed.run(4, requests=REQUESTS)
    ended = diary.told[-1]
    assert (ended.error, ended.stopped, ended.model, ended.scores) == ("KeyboardInterrupt", "", None, {})
    with pytest.raises(KeyboardInterrupt):
        fed.run(1, requests=[erase(2, round=2)])  # an interruption sets nobody aside


class Unreadable(Exception):
    def __str__(self):
        raise RuntimeError("no words")


class Odd(Diary):
    """Raises wherever somebody looks at it."""

    @property
    def begin(self):
        raise RuntimeError("not now")

    @property
    def __name__(self):
        raise RuntimeError("no name")

    def __eq__(self, other):
        raise RuntimeError("like nobody")

    __hash__ = None


@pytest.mark.parametrize(
    ("observer", "name", "error"),
    [(Clumsy(Round, Unreadable()), "Clumsy", "Unreadable ("), (Odd(), "Odd", "RuntimeError: not now (")],
    ids=["an error without words", "a property that raises"],
)
def test_an_observer_that_raises_where_it_is_asked_about_it_is_set_aside_as_well(observer, name, error):
    diary = Diary()
    history = toy_federation(RFS(), observers=[diary, observer]).run(2)
    (aside,) = history.set_aside_observers
    assert aside.observer == name
    assert aside.error.startswith(error)
    assert len(diary.told) == 1 + 2 + 1


def test_of_equal_observers_the_one_that_raised_is_set_aside():
    class Alike(Clumsy):
        def __eq__(self, other):
            return isinstance(other, Alike)

        __hash__ = None

    sound, broken = Alike(()), Alike(Round)
    toy_federation(RFS(), observers=[sound, broken]).run(2)
    assert (len(sound.told), len(broken.told)) == (4, 2)


@pytest.mark.parametrize("kind", [KeyboardInterrupt, SystemExit])
def test_who_interrupts_at_the_end_leaves_a_federation_that_goes_on_and_others_that_were_told(kind):
    rude, diary = Clumsy(Ended, kind()), Diary()
    fed = toy_federation(RFS(), observers=[rude, diary])
    with pytest.raises(kind):
        fed.run(2)
    assert isinstance(diary.told[-1], Ended)
    rude.at = ()
    assert fed.run(1).model.equal(toy_federation(RFS()).run(3).model)


class Vandal:
    """Changes whatever it is handed."""

    def begin(self, begun):
        begun.setup["recipe"].clear()
        begun.members.clear()

    def __call__(self, event):
        for value in (event.costs, *event.trips, *getattr(event, "visits", ())):
            self._overwrite(value)
        tables = [event.scores, event.own] if isinstance(event, Round) else [event.before, event.after]
        for scores in tables:
            for score in scores.values():
                score.metrics["accuracy"] = 1.0
            scores.clear()
        for table in ["set_aside"] if isinstance(event, Round) else ["entered", "left"]:
            getattr(event, table)["nobody"] = 7

    def end(self, ended):
        ended.scores.clear()
        ended.seconds.clear()
        for value in (ended.costs, *ended.recoveries):
            self._overwrite(value)

    def _overwrite(self, value):
        for part in fields(value):
            object.__setattr__(value, part.name, 1000)


@pytest.mark.parametrize("method", [RFS(), KNOT(clusters=2, by="random")], ids=["rfs", "knot"])
def test_what_an_observer_does_to_its_copies_changes_nothing(method):
    def ran(*observers):
        length = Length(rounds=6, accuracy=0.999)
        return toy_federation(method, small_data(), observers=observers).run(length, requests=REQUESTS)

    vandalised, plain = ran(Vandal(), Vandal()), ran()
    assert not vandalised.set_aside_observers
    vandalised.ended = replace(vandalised.ended, seconds=plain.seconds)
    assert vandalised.to_dict() == plain.to_dict()


def test_an_observer_cannot_run_the_federation_that_it_looks_on():
    def greedy(event):
        fed.run(1)

    fed = toy_federation(RFS(), observers=[greedy])
    history = fed.run(2)
    assert "ConfigError: the federation is running" in history.set_aside_observers[0].error
    assert len(history.rounds) == 2
    with pytest.raises(ConfigError, match="rounds"):
        fed.run(-1)
    assert len(fed.run(1).rounds) == 3


def test_events_cannot_be_written_to():
    history = toy_federation(RFS()).run(2, requests=[erase(1, round=1)])
    for event in history.events:
        with pytest.raises(AttributeError):
            event.time = 0.0
    assert replace(history.rounds[0], time=0.0) != history.rounds[0]


def test_a_run_in_another_thread_is_refused_from_its_first_moment():
    fed, inside, go = toy_federation(RFS()), threading.Event(), threading.Event()
    begin = fed.begin

    def slow(*args, **kwargs):
        inside.set()
        go.wait(10)
        begin(*args, **kwargs)

    fed.begin = slow
    first = threading.Thread(target=fed.run, args=(1,))
    first.start()
    inside.wait(10)
    try:
        with pytest.raises(ConfigError, match="another thread may look on"):
            fed.run(1)
    finally:
        go.set()
        first.join()
    assert len(fed.history.rounds) == 1
