"""What a selector or an aggregator was given is the same in every process, or is refused by its name."""

import collections
import datetime
import functools
import random
import threading
import types
from pathlib import Path, PurePosixPath

import numpy as np
import pytest
import torch

from support import grid, small_data, toy_federation
from unknot.core.errors import ConfigError
from unknot.core.fingerprint import fingerprint
from unknot.core.form import NotPlain
from unknot.core.lineage import NOBODY
from unknot.core.requests import erase
from unknot.federation.snapshot import dump, load
from unknot.testing import check_aggregator, check_selector
from unknot.unlearn import MMT, RFS


class Words(str):
    """A text that is more than one."""


class Chooses:
    """A selector that was given something."""

    lineage, curious, learns = NOBODY, False, False

    def __init__(self, thing):
        self.thing = thing

    def fresh(self):
        return type(self)(self.thing)

    def meet(self, model, updates, key):
        pass

    def choose(self, idle, k, key):
        return np.sort(idle[key.order(idle)][:k])

    def observe(self, model, updates, accuracy, key):
        pass


class Means:
    """An aggregator that was given something."""

    def __init__(self, thing):
        self.thing = thing

    def fresh(self):
        return type(self)(self.thing)

    def __call__(self, current, updates, version, ledger):
        return current + functools.reduce(lambda a, b: a + b, [u.step * (1 / len(updates)) for u in updates])


class Copied:
    """An aggregator of which copies are made."""

    def __init__(self, thing):
        self.thing = thing

    __call__ = Means.__call__


def network():
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.Linear(2, 1))


GIVEN = {
    "network": network,
    "parameter": lambda: torch.nn.Parameter(torch.ones(2)),
    "parameters": lambda: (torch.nn.Parameter(torch.ones(2)),),
    "path": lambda: Path("folder", "t.json"),
    "pure path": lambda: PurePosixPath("t"),
    "paths": lambda: [Path("a"), {"b": Path("b")}],
    "texts": lambda: np.array(["north", "south"]),
    "table of texts": lambda: {"a": np.array(["north", "south"])},
    "objects": lambda: np.array([1, None, [2, 3]], dtype=object),
    "masked": lambda: np.ma.array([1, 2], mask=[0, 1]),
    "complex tensor": lambda: torch.ones(2, dtype=torch.complex64),
    "sparse tensor": lambda: torch.eye(2).to_sparse(),
    "with a gradient": lambda: torch.ones(2, requires_grad=True),
    "NumPy generator": lambda: np.random.default_rng(3),
    "Python generator": lambda: random.Random(3),
    "torch generator": lambda: torch.Generator().manual_seed(3),
    "partial": lambda: functools.partial(max, 1),
    "date": lambda: datetime.date(2020, 1, 1),
    "counter": lambda: collections.Counter("ab"),
    "class": lambda: Words,
    "built-in function": lambda: max,
}


def build(part):
    parts = {"select": part} if hasattr(part, "choose") else {"aggregate": part}
    return toy_federation(RFS(), small_data([5, 6, 7, 8]), **parts)


def read_again(fed, rebuild):
    content, tensors, private = dump(fed)
    other = rebuild()
    other.restore(load(other, content, lambda digest: tensors[digest].tensor.clone(), private))
    return other


@pytest.mark.parametrize(("kind", "name"), grid([Chooses, Means, Copied], GIVEN))
def test_what_was_given_and_stays_as_it_is_may_be_anything_in_every_process(kind, name):
    def rebuild():
        return build(kind(GIVEN[name]()))

    whole = rebuild()
    whole.run(4, requests=[erase(1, round=2)])
    fed = rebuild()
    fed.begin(4, requests=[erase(1, round=2)])
    while not fed.over:
        fed.step()
        fed = read_again(read_again(fed, rebuild), rebuild)
    fed.resume()
    assert fed.model.digest() == whole.model.digest()


class Draws(Chooses):
    """A selector that changes what it was given."""

    def choose(self, idle, k, key):
        self.thing.random()
        return super().choose(idle, k, key)


class Trains(Means):
    """An aggregator that changes what it was given."""

    def fresh(self):
        return type(self)(network())

    def __call__(self, current, updates, version, ledger):
        with torch.no_grad():
            self.thing[0].bias += 1
        return super().__call__(current, updates, version, ledger)


@pytest.mark.parametrize(
    "part", [lambda: Draws(np.random.default_rng(3)), lambda: Trains(network())], ids=["draws", "trains"]
)
def test_who_changes_what_has_no_written_form_is_told_to_say_what_it_remembers(part):
    fed = build(part())
    fed.begin(4)
    while not fed.history.rounds:
        fed.step()
    with pytest.raises(
        NotPlain, match=r"(Draws|Trains)\['thing'\].* is a .*remembered\(\).*recall\(remembered\)"
    ):
        fed.snapshot()


def closure():
    count = iter([])
    return (n for n in count)


HIDDEN = {
    "lock": threading.Lock,
    "generator": closure,
    "view of a dict": lambda: types.MappingProxyType({1: 2}),
}


@pytest.mark.parametrize("name", HIDDEN)
def test_what_cannot_be_told_to_be_as_it_was_is_refused_when_it_is_first_kept(name):
    fed = build(Means(HIDDEN[name]()))
    fed.begin(2)
    fed.step()
    with pytest.raises(NotPlain, match=r"aggregator Means is, or holds, a .*remembered"):
        fed.snapshot()


def test_a_selector_that_cannot_be_copied_is_refused_in_words():
    with pytest.raises(ConfigError, match=r"Chooses cannot be copied: cannot pickle .*lock"):
        build(Chooses(threading.Lock())).run(1)


@pytest.mark.parametrize(
    "change",
    {
        "network": lambda part: part.thing[0].weight.data.add_(1),
        "texts": lambda part: setattr(part, "thing", np.array(["north", "west"])),
        "path": lambda part: setattr(part, "thing", Path("folder", "other.json")),
        "paths": lambda part: part.thing.append(Path("c")),
        "objects": lambda part: part.thing[2].append(4),
        "masked": lambda part: part.thing.mask.__setitem__(0, True),
        "sparse tensor": lambda part: part.thing.mul_(2),
        "NumPy generator": lambda part: part.thing.random(),
        "Python generator": lambda part: part.thing.random(),
        "partial": lambda part: setattr(part, "thing", functools.partial(max, 2)),
        "built-in function": lambda part: setattr(part, "thing", functools.partial(min)),
    }.items(),
    ids=lambda item: item[0],
)
def test_a_change_of_what_is_not_plain_is_refused_by_its_name(change):
    name, changed = change

    class Changes(Chooses):
        def choose(self, idle, k, key):
            changed(self)
            return super().choose(idle, k, key)

    fed = build(Changes(GIVEN[name]()))
    fed.run(1)
    with pytest.raises(NotPlain, match=r"^lane 'global' selector Changes\['thing'\]"):
        fed.snapshot()


@pytest.mark.parametrize(
    "name",
    ["network", "path", *(pytest.param(name, marks=pytest.mark.slow) for name in ("texts", "parameter"))],
)
def test_the_checks_find_what_a_kept_run_finds(name):
    check_selector(Chooses(GIVEN[name]()))
    check_aggregator(Means(GIVEN[name]()))


def test_the_checks_refuse_what_a_kept_run_refuses():
    with pytest.raises(AssertionError, match="Means is, or holds, a lock"):
        check_aggregator(Means(threading.Lock()))


@pytest.mark.parametrize("method", [RFS, MMT])
def test_a_path_that_somebody_looked_at_is_the_same_path(method):
    part = Chooses(Path("folder", "t.json"))
    fed = toy_federation(method(), small_data([5, 6, 7, 8]), select=part)
    fed.run(1)
    assert part.thing == Path("folder/t.json")
    assert hash(part.thing)
    assert part.thing < Path("z", *part.thing.parts)
    fed.snapshot()


class Listed(list):
    pass


def test_things_are_alike_by_all_that_they_hold():
    longer = Listed([1])
    longer.more = 2
    for one, other in [
        (Words("a"), Words("b")),
        (Listed([1]), longer),
        (Path("a"), PurePosixPath("a")),
        (collections.deque([1], 2), collections.deque([1], 3)),
        (collections.OrderedDict(a=1, b=2), collections.OrderedDict(b=2, a=1)),
        (max, min),
        (collections.defaultdict(list), collections.defaultdict(set)),
        (torch.ones(2), torch.ones(2, dtype=torch.float64)),
        (torch.ones(2), torch.ones(2, requires_grad=True)),
        (np.array(1), np.array([1])),
    ]:
        assert fingerprint(one) != fingerprint(other)
        assert fingerprint(one) == fingerprint(one)
