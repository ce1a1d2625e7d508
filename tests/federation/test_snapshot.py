"""A federation written between any two steps, and made again in its place, ends as if nothing had been."""

import dataclasses
import functools
import random
import re

import numpy as np
import pytest
import torch

from support import ToyEngine, grid, small_data, toy_federation
from unknot.core.digests import digest_of
from unknot.core.errors import ErasedDataError, UnknotError
from unknot.core.form import NotPlain, Unreadable
from unknot.core.lineage import NOBODY, Lineage, Unit
from unknot.core.metrics import Metric
from unknot.core.requests import erase, join
from unknot.core.training import Recipe
from unknot.federation import (
    Buffered,
    Clock,
    FedAdam,
    FedBuff,
    Federation,
    Guarantee,
    Method,
    Pareto,
    Synchronous,
)
from unknot.federation.snapshot import dump, load
from unknot.federation.watcher import Watcher
from unknot.select import DQN, Balanced, DQNSettings, KCenter
from unknot.unlearn import (
    BMT,
    FATS,
    KNOT,
    MMT,
    PGA,
    RFS,
    SISA,
    Distillation,
    ExactFun,
    FedCIO,
    FedEraser,
    Rapid,
    Standalone,
)

SIZES = (5, 8, 3, 6, 7, 4, 9, 2)
METHODS = {
    "rfs": RFS,
    "rapid": Rapid,
    "bmt": BMT,
    "mmt": MMT,
    "mmt rebuilt": lambda: MMT(change="rebuild"),
    "sisa": SISA,
    "fedcio": lambda: FedCIO(clusters=2),
    "knot": lambda: KNOT(clusters=2),
    "knot random back": lambda: KNOT(clusters=2, by="random", restart="before"),
    "knot mmt": lambda: KNOT(clusters=2, by="random", retrain=MMT()),
    "knot federaser": lambda: KNOT(clusters=2, by="random", retrain=FedEraser(interval=1)),
    "fats": lambda: FATS(rho_client=5, rounds=20, local_steps=3, clients=8),
    "exact-fun": lambda: ExactFun(alpha=0.1),
    "standalone": Standalone,
    "federaser": lambda: FedEraser(interval=2),
    "federaser from what remains": lambda: FedEraser(interval=1, start="remaining", mean="plain"),
    "pga": PGA,
    "distillation": Distillation,
}
PACES = {
    "sync": lambda: Synchronous(4),
    "buffered": lambda: Buffered(4, 2, staleness_bound=3),
}
SELECTORS = {
    "k-center": lambda: KCenter(3),
    "dqn": lambda: DQN(DQNSettings(batch=2, renew=2, hidden=(8,))),
    "dqn in a round": lambda: DQN(DQNSettings(batch=2, meeting="round", next="max", components=2)),
    "balanced": Balanced,
}
REQUESTS = [
    erase({3: [1, 2]}, round=2),
    join([7], round=3),
    erase(1, round=4),
    erase([0, 5], time=2.5),
]


def build(method: Method, pace: str, engine: ToyEngine | None = None, **options) -> Federation:
    clock = Clock(Pareto(alpha=1.5, cap=5.0), seconds_per_sample=0.1)
    options = {"recipe": Recipe(batch_size=2), "clock": clock, **options}
    if method.selects or "pace" in options:
        options.setdefault("pace", PACES[pace]())
    return toy_federation(method, small_data(SIZES), engine, **options)


def requests_for(method: Method) -> list:
    if method.name == "sisa" or method.name == "fats":
        return [r for r in REQUESTS if r.at.round is not None]
    return REQUESTS


def story(fed: Federation) -> dict:
    """All that is to be the same: the model, what happened, what it cost; not how long that took."""
    history = fed.history
    told = history.to_dict()
    for name in ("seconds", "environment", "experiment"):
        told.pop(name, None)
    return {"model": history.model.digest(), "lineage": history.model.lineage.describe(), **told}


def again(fed: Federation, rebuild) -> Federation:
    """Written, and read by one that was built anew."""
    content, tensors, private = dump(fed)
    other = rebuild()
    other.restore(load(other, content, lambda digest: tensors[digest].tensor.clone(), private))
    return other


def compare(rebuild, length: dict, requests, every: int = 1) -> None:
    whole = rebuild()
    whole.run(requests=requests, **length)
    assert len(whole.history.served) == len(list(requests))
    parts = rebuild()
    parts.begin(requests=requests, **length)
    while not parts.stint.stopped:
        for _ in range(every):
            if not parts.stint.stopped:
                parts.step()
        parts = again(parts, rebuild)
    parts.resume()
    assert parts.steps == whole.steps
    assert story(parts) == story(whole)


@pytest.mark.parametrize(("name", "pace"), grid(METHODS, sorted(PACES)))
def test_a_run_written_and_read_at_every_step_ends_as_one_that_never_was(name, pace):
    method = METHODS[name]()
    if name == "fats" and pace == "buffered":
        pytest.skip("FATS draws its rounds at a synchronous pace")

    def rebuild() -> Federation:
        return build(METHODS[name](), pace)

    compare(rebuild, {"rounds": 7}, requests_for(method))


@pytest.mark.parametrize(("name", "pace", "when"), grid(SELECTORS, PACES, ["always", "unlearning"]))
def test_so_does_what_selectors_remember(name, pace, when):
    def rebuild() -> Federation:
        return build(RFS(), pace, select=SELECTORS[name](), select_when=when)

    compare(rebuild, {"rounds": 8}, REQUESTS)


@pytest.mark.parametrize("aggregate", [FedAdam, FedBuff])
def test_so_does_what_aggregators_remember(aggregate):
    def rebuild() -> Federation:
        return build(KNOT(clusters=2, by="random", restart="before"), "buffered", aggregate=aggregate())

    compare(rebuild, {"seconds": 12.0}, REQUESTS)


def test_so_does_a_run_that_stops_at_a_goal():
    compare(lambda: build(RFS(), "buffered"), {"rounds": 30, "accuracy": 0.5, "window": 2}, REQUESTS[:2])


class Odd(RFS):
    name = "odd"
    guarantee = Guarantee.EXACT

    def absorb(self, desk, lane, updates):
        super().absorb(desk, lane, updates)
        lane.notes["odd"] = object()


def test_what_has_no_written_form_is_refused_by_its_place():
    with pytest.raises(NotPlain, match=r"lane 'global' notes\['odd'\] is a object.*plain_data"):
        build(Odd(), "sync").run(1)


@dataclasses.dataclass
class Mine:
    """A selector of somebody's own that counts, in plain attributes, and declares nothing."""

    counts: dict = dataclasses.field(default_factory=dict)
    curious = learns = False
    lineage = NOBODY

    def fresh(self):
        return Mine()

    def meet(self, model, updates, key):
        pass

    def choose(self, idle, k, key):
        ranked = sorted(idle.tolist(), key=lambda client: (self.counts.get(client, 0), client))[:k]
        for client in ranked:
            self.counts[client] = self.counts.get(client, 0) + 1
        return np.sort(np.asarray(ranked))

    def observe(self, model, updates, merit, key):
        pass


def test_plain_attributes_of_somebodys_own_selector_are_remembered():
    compare(lambda: build(RFS(), "buffered", select=Mine()), {"rounds": 6}, REQUESTS[2:3])


class InSlots(Mine):
    """The same, in slots."""

    __slots__ = ("_turns",)

    def __init__(self) -> None:
        super().__init__()
        self._turns = 0

    def fresh(self):
        return InSlots()

    def choose(self, idle, k, key):
        self._turns += 1
        return super().choose(idle, k, key) if self._turns % 2 else key.smallest(idle, k)


def test_so_are_those_in_slots():
    compare(lambda: build(RFS(), "buffered", select=InSlots()), {"rounds": 6}, REQUESTS[2:3])


def test_no_name_of_a_client_is_written():
    data = small_data(SIZES)
    data = data.replaced(names={client: f"Hospital {client} of Graz" for client in data.clients})
    fed = toy_federation(RFS(), data)
    fed.run(2, requests=erase("Hospital 1 of Graz", round=1))
    assert b"Graz" not in dump(fed, events=False).content


def test_every_field_of_a_lane_comes_back():
    """One that is added later is compared too: it must be told here what it is when it is not as usual."""
    fed = build(RFS(), "buffered")
    fed.run(2)
    lane = fed.lanes["global"]
    others = {
        "name": lane.name,
        "members": {1, 2, 5},
        "recipe": Recipe(batch_size=3),
        "pace": Synchronous(2),
        "selector": lane.selector,
        "at": 1234567,
        "knows": Lineage([Unit(2), Unit(5, 1)]).waiving([3]),
        "meeting": True,
        "nodes": lane.nodes,
        "version": 7,
        "rounds": 9,
        "ahead": 3,
        "flights": lane.flights,
        "sent": {2, 5},
        "joined": {5: 4},
        "notes": {"first": {2: 1}},
    }
    usual = {part.name: part.default for part in dataclasses.fields(lane)}
    assert others.keys() == usual.keys()
    for name, value in others.items():
        assert value != usual[name]
        setattr(lane, name, value)
    found = again(fed, lambda: build(RFS(), "buffered")).lanes["global"]
    for name in others.keys() - {"nodes", "flights", "selector"}:
        assert getattr(found, name) == getattr(lane, name), name
    assert type(found.selector) is type(lane.selector)
    told = [(f.client, f.version, f.launched, f.due, len(f.jobs)) for f in lane.flights]
    assert told
    assert [(f.client, f.version, f.launched, f.due, len(f.jobs)) for f in found.flights] == told
    assert found.nodes.keys() == lane.nodes.keys()
    for name, node in lane.nodes.items():
        other = found.nodes[name]
        assert (other.name, other.members) == (node.name, node.members)
        assert other.weights.equal(node.weights)
        assert other.weights.lineage == node.weights.lineage


class Own(RFS):
    """Remembers in its own attributes, here and there."""

    name = "own"

    def __init__(self, where):
        vars(self).update(where=where, turn=0, deep={"a": [Holder()]}, draw=np.random.default_rng(1))
        vars(self).update(other=random.Random(1))

    @functools.cached_property
    def found(self):
        return object()

    def absorb(self, desk, lane, updates):
        super().absorb(desk, lane, updates)
        assert self.found
        if self.where == "turn":
            vars(self)["turn"] += 1
        elif self.where == "new":
            vars(self)["new"] = 1
        elif self.where == "deep['a'][0].held":
            self.deep["a"][0].held = 1
        elif self.where == "draw":
            self.draw.random()
        elif self.where == "other":
            self.other.random()


class Holder:
    __slots__ = ("held",)

    def __init__(self):
        self.held = None


@pytest.mark.parametrize("where", ["turn", "new", "deep['a'][0].held", "draw", "other"])
def test_a_method_that_remembers_in_its_attributes_is_told_where(where):
    fed = build(Own(where), "sync")
    fed.begin(2)
    dump(fed)
    fed.step()
    place = re.escape(f"the method's Own.{where.partition('[')[0]}")
    with pytest.raises(NotPlain, match=rf"{place}.* is not what it was .*lane\.notes"):
        dump(fed)


def test_settings_are_no_memory():
    fed = build(Own("nowhere"), "sync")
    fed.run(2)
    dump(fed)


class Counting:
    def __init__(self):
        self.n = 0

    def vacancies(self, in_flight, members):
        self.n += 1
        return 0 if in_flight else 2

    def ready(self, flights, version):
        return max(flight.due for flight in flights)

    def share(self, parts):
        return self


def test_a_pace_that_counts_is_told():
    fed = toy_federation(RFS(), small_data(SIZES), pace=Counting())
    fed.run(2)
    with pytest.raises(NotPlain, match=r"the pace's Counting\.n is not what it was"):
        dump(fed)


class Shifts(Mine):
    def __init__(self, shifts):
        super().__init__()
        self.shifts = shifts


class Counts(Metric):
    """A metric of somebody's own, which counts how often it is asked."""

    name, kinds, share = "counts", ("classes",), True

    def __init__(self):
        self.calls = 0

    def tally(self, said):
        self.calls += 1
        return 1.0

    def value(self, tallies):
        return 0.5


def test_what_a_metric_counts_is_no_setting_of_it():
    fed = build(RFS(), "sync", metrics=(Counts(),))
    fed.run(1)
    fed.metrics[0].calls += 7
    again(fed, lambda: build(RFS(), "sync", metrics=(Counts(),)))


def test_a_setting_of_somebodys_own_that_is_another_one_is_refused():
    fed = build(RFS(), "sync", select=Shifts(2))
    fed.run(2)
    with pytest.raises(Unreadable, match=r"begun with select Shifts\.shifts 2, and this federation has 3"):
        again(fed, lambda: build(RFS(), "sync", select=Shifts(3)))
    again(fed, lambda: build(RFS(), "sync", select=Shifts(2)))


class Turns(Mine):
    def choose(self, idle, k, key):
        self.turns = getattr(self, "turns", iter(range(1000)))
        return np.sort(np.roll(idle, next(self.turns))[:k])


def test_what_of_a_selector_cannot_be_written_is_named():
    fed = build(RFS(), "sync", select=Turns())
    fed.run(2)
    with pytest.raises(NotPlain, match=r"^lane 'global' selector Turns\['turns'\] is a range_iterator"):
        dump(fed)


class Hidden(Mine):
    """A private name in slots; an attribute that goes."""

    __slots__ = ("__turns",)

    def __init__(self):
        super().__init__()
        self.__turns = 0
        self.warm = True

    def fresh(self):
        return Hidden()

    def choose(self, idle, k, key):
        self.__turns += 1
        if self.__turns > 2 and hasattr(self, "warm"):
            del self.warm
        odd = self.__turns % 2 or hasattr(self, "warm")
        return super().choose(idle, k, key) if odd else key.smallest(idle, k)


def test_private_slots_and_attributes_that_went_are_remembered():
    compare(lambda: build(RFS(), "sync", select=Hidden()), {"rounds": 8}, REQUESTS[2:3])


@dataclasses.dataclass
class View:
    """Keeps a tensor and a part of it: two names for the same numbers."""

    lineage = NOBODY

    def fresh(self):
        return View()

    def __call__(self, current, updates, version, ledger):
        if not hasattr(self, "all"):
            self.all = torch.zeros(2, len(current.vector))
            self.row = self.all[0]
        self.row += updates[0].step.vector
        return current.like(current.vector + self.all[0], *(update.weights for update in updates))


def test_numbers_under_two_names_are_refused():
    fed = build(RFS(), "sync", aggregate=View())
    fed.run(2)
    with pytest.raises(NotPlain, match=r"aggregator View\['row'\] shares its numbers"):
        dump(fed)


class Forgetful(Mine):
    """Says itself what it remembers, and takes it back otherwise."""

    def remembered(self):
        return dict(self.counts)

    def recall(self, remembered):
        self.counts = dict.fromkeys(remembered, 0)

    def fresh(self):
        return Forgetful()


def test_what_does_not_come_back_as_it_was_is_refused_when_it_is_first_kept():
    fed = build(RFS(), "sync", select=Forgetful())
    fed.run(2)
    with pytest.raises(NotPlain, match=r"selector Forgetful\.remembered\(\) is not the same"):
        dump(fed)


def test_a_keepsake_of_nobody_is_under_no_clients_key():
    fed = build(PGA(), "sync")
    fed.run(1)
    mine = fed.state.initial.like(torch.full_like(fed.state.initial.vector, 0.25))
    mine = mine.carrying(Lineage([Unit(3)]))
    fed.state.keepsakes.put("nobody's", None, mine)
    fed.state.keepsakes.put("client 4's", Unit(4), mine * 2.0)
    kept = dump(fed).tensors
    assert kept[digest_of(mine.vector)].owner is None
    assert kept[digest_of(mine.vector)].clients == {3}
    assert kept[digest_of((mine * 2.0).vector)].owner == 4


def asked_while_out() -> Federation:
    fed = build(MMT(), "buffered")
    fed.begin(6, requests=[erase(1, round=2)])
    return fed


def test_a_snapshot_stays_as_it_is_while_the_federation_goes_on():
    fed = asked_while_out()
    fed.step()
    taken = fed.snapshot()
    fed.resume()
    for _ in range(2):
        other = build(MMT(), "buffered")
        other.restore(taken)
        other.resume()
        assert story(other) == story(fed)


@pytest.mark.parametrize("ids", [None, [1]], ids=["a client", "samples"])
def test_a_snapshot_from_before_an_erasure_of_its_data_is_refused(ids):
    fed = build(RFS(), "sync")
    fed.run(2)
    data, gone = small_data(SIZES), min(fed.model.lineage.clients)
    data.erase(gone, ids)
    parts = {"clock": fed.given.clock, "recipe": fed.given.recipe, "pace": fed.given.pace}
    other = toy_federation(RFS(), data, **parts)
    with pytest.raises(ErasedDataError, match=f"client {gone} "):
        other.restore(fed.snapshot())


def test_nodes_whose_names_are_not_their_places_come_back():
    fed = build(RFS(), "sync")
    fed.begin(1)
    lane = fed.lanes["global"]
    for place, name in (("a", "b"), ("b", "a")):
        node = fed.state.add_node(lane, place, [1])
        node.name = name
    other = again(fed, lambda: build(RFS(), "sync"))
    nodes = other.lanes["global"].nodes
    assert {place: node.name for place, node in nodes.items()} == {"global": "global", "a": "b", "b": "a"}


def test_another_federation_is_refused():
    taken = asked_while_out().snapshot()
    for other in (build(RFS(), "buffered"), build(MMT(), "buffered", recipe=Recipe(batch_size=3))):
        with pytest.raises(Unreadable):
            other.restore(taken)
        with pytest.raises(UnknotError):
            other.run(1)


def test_one_that_was_run_is_not_made_another():
    fed = asked_while_out()
    taken = fed.snapshot()
    with pytest.raises(UnknotError):
        fed.restore(taken)


class Looks(RFS):
    name = "looks"

    def absorb(self, desk, lane, updates):
        super().absorb(desk, lane, updates)
        fed_of_looks[0].snapshot()


fed_of_looks: list[Federation] = []


def test_in_the_middle_of_a_step_there_is_no_snapshot():
    fed_of_looks[:] = [build(Looks(), "sync")]
    with pytest.raises(UnknotError, match="a step is being made"):
        fed_of_looks[0].run(1)


def test_who_waits_is_told_by_its_own_number_after_a_restoration():
    fed = build(RFS(), "sync")
    fed.begin(6)
    fed.inbox.put(erase(1, round=4))
    fed.step()
    other = build(RFS(), "sync")
    other.restore(fed.snapshot())
    ticket = other.inbox.put(erase(2, round=5))
    other.resume()
    assert [served.clients for served in other.history.served] == [(1,), (2,)]
    assert ticket.served.clients == (2,)


@dataclasses.dataclass
class Shares(Mine):
    """Two attributes have one list; one of them is as it was given."""

    def __post_init__(self):
        self.groups = [[], [], []]
        self.now = None

    def fresh(self):
        return Shares()

    def choose(self, idle, k, key):
        self.now = self.groups[1] if self.now is None else self.now
        self.groups[1] += [len(self.now)] if self.now else []
        self.now.append(1)
        return np.sort(np.roll(idle, len(self.groups[1]))[:k])


def test_what_two_attributes_share_is_shared_again():
    compare(lambda: build(RFS(), "sync", select=Shares()), {"rounds": 6}, ())


class Fails(Watcher):
    def requests(self, fed):
        raise KeyboardInterrupt


def test_what_a_watcher_brought_is_not_lost_when_another_ends_the_run():
    fed = build(RFS(), "sync")
    fed.watch(fails := Fails())
    fed.watchers.reverse()
    fed.begin(4)
    ticket = fed.inbox.put(erase(1, round=2))
    with pytest.raises(KeyboardInterrupt):
        fed.step()
    fed.watchers.remove(fails)
    fed.resume()
    assert ticket.state == "served"
