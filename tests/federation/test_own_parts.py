"""Parts of one's own that remember what they must not, or never end, are harmless, or refused by name."""

import threading
from dataclasses import dataclass
from typing import ClassVar

import pytest
import torch

import unknot
from exactness import assert_no_interference
from support import small_data, toy_federation
from unknot.core.errors import ConfigError, UnknotError
from unknot.core.metrics import Accuracy
from unknot.core.requests import erase
from unknot.core.selection import AtRandom
from unknot.federation import FedAvg, Synchronous
from unknot.testing import check_metric, check_selector
from unknot.unlearn import RFS

DATA = small_data((5, 8, 3, 6, 7, 4, 9, 2))


def opened(**parts):
    return lambda data: toy_federation(RFS(), data, pace=Synchronous(5), **parts)


@dataclass(frozen=True)
class Frozen:
    """It looks like a plain value, and has a state."""

    rate: float = 0.5

    def __call__(self, current, updates, version, ledger):
        new = FedAvg()(current, updates, version, ledger)
        old = vars(self).get("kept", new)
        object.__setattr__(self, "kept", new)
        return new + self.rate * (old - new)


@dataclass(frozen=True)
class InItsClass:
    kept: ClassVar[list] = []

    def __call__(self, current, updates, version, ledger):
        new = FedAvg()(current, updates, version, ledger)
        self.kept.append(new.vector)
        return new.like(torch.stack(self.kept).mean(0))


@dataclass(frozen=True)
class InItsClassForLater:
    """Its model does not tell it in the first rounds."""

    rounds: ClassVar[int] = 0

    def __call__(self, current, updates, version, ledger):
        type(self).rounds += 1
        return FedAvg()(current, updates, version, ledger) * (1.0 if self.rounds < 20 else 0.5)


def test_a_frozen_aggregator_with_a_hidden_state_has_one_a_model():
    assert_no_interference(opened(aggregate=Frozen()), DATA, erase(3, round=3), rounds=4)
    given = Frozen()
    opened(aggregate=given)(DATA).run(3)
    assert "kept" not in vars(given)


@pytest.mark.parametrize("aggregate", [InItsClass(), InItsClassForLater()], ids=["at once", "for later"])
def test_an_aggregator_that_remembers_in_its_class_is_refused_when_a_run_begins(aggregate):
    with pytest.raises(ConfigError, match=type(aggregate).__name__):
        opened(aggregate=aggregate)(DATA)


class WithALock(AtRandom):
    """What its class holds has no copy, and does not change."""

    lock: ClassVar = threading.Lock()
    steps: ClassVar[dict] = {"up": torch.ones(3)}

    def fresh(self):
        return WithALock()


def test_what_a_class_holds_and_keeps_is_no_memory():
    opened(select=WithALock())(DATA).run(2)


class Best(Accuracy):
    """The best that was ever seen."""

    name: ClassVar[str] = "best"

    def value(self, tallies):
        self.__dict__["most"] = max(super().value(tallies), self.__dict__.get("most", 0.0))
        return self.__dict__["most"]


def counting():
    asked = []

    def counted(outputs, targets):
        asked.append(len(targets))
        return float((outputs.argmax(-1) == targets).double().mean()) + 0.01 * len(asked)

    return counted


class GoesByMerit(AtRandom):
    """Asks by what it was rewarded with."""

    learns = True

    def __init__(self):
        self.merit = 0.0

    def fresh(self):
        return GoesByMerit()

    def choose(self, idle, k, key):
        return super().choose(idle, k, key.child(f"{self.merit:.6f}"))

    def observe(self, model, updates, merit, key):
        self.merit += merit


@pytest.mark.parametrize("metric", [Best(), counting()], ids=["best", "counted"])
def test_a_metric_that_remembers_is_refused_when_a_run_begins(metric):
    name = getattr(metric, "name", "counted")
    with pytest.raises(ConfigError, match=name):
        unknot.simulate("mlp", DATA, "rfs", metrics=[metric], select=GoesByMerit(), threads=1)
    with pytest.raises(AssertionError, match=name):
        check_metric(metric, "classes")


@pytest.mark.parametrize("kind", ["classes", "labels", "values"])
def test_a_metric_that_does_not_is_taken(kind):
    def mean(outputs, targets):
        return float(outputs.double().mean())

    def fussy(outputs, targets):
        assert outputs.shape[-1] == 1, "it is for other models"
        return 0.0

    data = unknot.testing.worlds.small_data(kind=kind)
    for metric in (mean, fussy):
        toy_federation(RFS(), data, metrics=[metric])


class Curious(AtRandom):
    curious = True

    def fresh(self):
        return Curious()


def test_a_selector_that_stays_curious_is_refused_at_its_meeting():
    fed = opened(select=Curious())(DATA)
    with pytest.raises(ConfigError, match="Curious"):
        fed.run(2)
    with pytest.raises(AssertionError, match="Curious"):
        check_selector(Curious())


class RemembersInItsClass(AtRandom):
    seen: ClassVar[list] = []

    def choose(self, idle, k, key):
        self.seen.extend(idle.tolist())
        return super().choose(idle, k, key.child(len(self.seen)))


def test_a_selector_that_remembers_in_its_class_is_refused():
    fed = opened(select=RemembersInItsClass())(DATA)
    with pytest.raises(UnknotError, match=r"RemembersInItsClass.*seen"):
        fed.run(2)
