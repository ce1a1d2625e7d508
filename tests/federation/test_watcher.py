"""Who looks on between steps is told in order, and what it brings is taken up before the next one."""

import pytest

from support import toy_federation
from unknot.core.errors import ConfigError, UnknotError
from unknot.core.requests import erase
from unknot.federation.watcher import Letter, Watcher
from unknot.unlearn import RFS

HOOKS = [name for name in vars(Watcher) if not name.startswith("_")]


class Notes(Watcher):
    """Notes what it is told; asks for an erasure before the third step."""

    def __init__(self):
        self.told = []

    def __getattribute__(self, name):
        if name in HOOKS:
            object.__getattribute__(self, "told").append(name)
        return object.__getattribute__(self, name)

    def requests(self, fed):
        return [Letter(7, erase(9)), Letter(8, erase(1))] if fed.steps == 2 else ()

    def refused(self, number, why, kind):
        self.told.append((number, kind))

    def stepped(self, fed, events, done):
        self.told += [(number, record.clients) for number, record in done]


def test_it_is_told_before_and_after_each_step_and_what_it_brings_is_served():
    fed, notes = toy_federation(RFS()), Notes()
    fed.watch(notes)
    history = fed.run(2)
    fed.close()
    step = ["requests", "stepped"]
    assert notes.told == [
        *("starts", "begins", *step, *step, "requests", "refused", (7, "nobody is there")),
        *("erasing", "stepped", (8, (1,)), *step, "ended", "close"),
    ]
    assert [served.clients for served in history.served] == [(1,)]


def test_it_is_told_when_a_run_is_broken_off_or_has_been_stepped_through(monkeypatch):
    fed, notes = toy_federation(RFS()), Notes()
    fed.watch(notes)
    fed.begin(1)
    while not fed.over:
        fed.step()
    assert notes.told.count("starts") == fed.steps
    assert notes.told[-1] == "stops"
    monkeypatch.setattr(fed.method.__class__, "choose", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        fed.run(1)
    assert notes.told[-1] == "stops"


@pytest.mark.parametrize(("hook", "do"), [("begins", "run"), ("saving", "save")])
def test_it_may_refuse_a_run_or_a_file(hook, do, tmp_path):
    class Refuses(Watcher):
        pass

    def refuse(self, fed, *rest):
        raise ConfigError("no")

    setattr(Refuses, hook, refuse)
    fed = toy_federation(RFS())
    fed.run(1)
    fed.watch(Refuses())
    with pytest.raises(ConfigError, match="no"):
        getattr(fed, do)(1 if do == "run" else tmp_path / "model.safetensors")
    assert not list(tmp_path.iterdir())


def test_where_steps_are_made_again_elsewhere_one_that_failed_is_not_made_again_here():
    class Fails(RFS):
        def forget(self, desk, request, touched):
            raise RuntimeError("a bad day")

    fed = toy_federation(Fails())
    fed.retries = False
    with pytest.raises(RuntimeError):
        fed.run(3, requests=[erase(1, round=1)])
    with pytest.raises(UnknotError, match=r"fed\.close\(\)"):
        fed.resume()


def test_names_of_who_was_erased_stay_unless_they_are_not_to_be_kept():
    for keeps in (True, False):
        fed = toy_federation(RFS())
        fed.data.called({1: "Graz", 2: "Linz"})
        fed.keeps_names = keeps
        fed.run(2, requests=[erase(1, round=1)])
        assert (1 in fed.names) is keeps
        assert fed.names[2] == "Linz"
