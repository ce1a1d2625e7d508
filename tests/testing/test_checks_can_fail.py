"""Each check finds what it looks for: things that are broken on purpose, each in one way."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar

import numpy as np
import pytest
import torch
from torch import nn

import unknot
from unknot.core.data import FederatedData
from unknot.core.lineage import NOBODY
from unknot.core.loss import Loss, SquaredError
from unknot.core.metrics import Accuracy
from unknot.core.selection import AtRandom
from unknot.core.training import Optimizer
from unknot.data import Dataset, Deal, Partition
from unknot.federation import FedAvg, Guarantee
from unknot.select import KCenter
from unknot.testing import (
    check_aggregator,
    check_data,
    check_loss,
    check_method,
    check_metric,
    check_model,
    check_optimizer,
    check_partition,
    check_selector,
    small_data,
    small_dataset,
)
from unknot.unlearn import MMT, RFS, FedCIO

# Methods -------------------------------------------------------------------------------------------


class KeepsTheModel(RFS):
    """The old numbers under a clean lineage."""

    def forget(self, desk, request, touched):
        for lane in touched:
            for node in lane.nodes.values():
                node.weights = desk.initial.like(node.weights.vector)


class KeepsAnUpdate(RFS):
    """A copy of what the client sent, added to what is served ever after."""

    def absorb(self, desk, lane, updates):
        for update in updates:
            lane.notes.setdefault(str(update.client), update.step.vector.tolist())
        super().absorb(desk, lane, updates)

    def forget(self, desk, request, touched):
        super().forget(desk, request, touched)
        for lane in touched:
            for target in request.targets:
                if (kept := lane.notes.get(str(target.client))) is not None:
                    node = lane.nodes["global"]
                    node.weights = node.weights.like(node.weights.vector + torch.tensor(kept))


class NotesAnUpdate(RFS):
    """The same, as weights; they are never used again."""

    def absorb(self, desk, lane, updates):
        lane.notes.setdefault("sent", {}).update({update.client: update.weights for update in updates})
        super().absorb(desk, lane, updates)


class NotesNumbers(RFS):
    """The same, as what notes take: plain numbers."""

    def absorb(self, desk, lane, updates):
        lane.notes.setdefault("sizes", [float(update.step.vector.norm()) for update in updates])
        super().absorb(desk, lane, updates)


class CountsItself(RFS):
    """In an attribute of its own, which is not written."""

    turn = 0

    def absorb(self, desk, lane, updates):
        object.__setattr__(self, "turn", self.turn + 1)
        super().absorb(desk, lane, updates)


class AsksTheLargest(RFS):
    """Whom it asks depends on how much everybody holds."""

    def choose(self, desk, lane, idle, room):
        return sorted(sorted(idle.tolist(), key=lambda c: -desk.size(c))[:room])


class Remembers(RFS):
    """In the method itself: the next federation knows of the last one."""

    def absorb(self, desk, lane, updates):
        vars(self)["seen"] = vars(self).get("seen", 0) + 1
        super().absorb(desk, lane, updates)

    def jobs(self, desk, lane, client):
        seen = vars(self).get("seen", 0)
        return [replace(job, key=job.key.child(seen)) for job in super().jobs(desk, lane, client)]


class CountsWhoAsks(RFS):
    def serve(self, desk):
        notes = desk.lanes["global"].notes
        notes["asked"] = notes.get("asked", 0) + 1
        return super().serve(desk)


class StoresOnFirstAsking(RFS):
    """What is stored depends on when somebody asked; to ask twice changes no more."""

    def serve(self, desk):
        name = ("served", desk.lanes["global"].version)
        if name not in desk.archive:
            desk.archive[name] = super().serve(desk)
        return desk.archive[name]


class DrawsWithoutAKey(RFS):
    def jobs(self, desk, lane, client):
        drawn = int(np.random.default_rng().integers(1 << 30))
        return [replace(job, key=job.key.child(drawn)) for job in super().jobs(desk, lane, client)]


class DoesNothing(RFS):
    """What is spoilt stays: the core refuses to serve it."""

    def forget(self, desk, request, touched):
        """Nothing."""


class HoldsRows(RFS):
    """A copy of everybody's samples, from behind the desk."""

    def open(self, desk):
        super().open(desk)
        desk.lanes["global"].notes["copy"] = copies = []
        copies.append(desk._Desk__state.data.train.x.clone())


class PromisesTooMuch(RFS):
    @property
    def promise(self):
        return "approximate, more or less"


class NeverJoins(RFS):
    def admit(self, desk, clients):
        raise KeyError("who is that?")


class HalfForgets(MMT):
    """The leaver's own model is dropped, but those above it go on."""

    def forget(self, desk, request, touched):
        lane = desk.lanes["global"]
        for node in lane.nodes.values():
            if node.weights.lineage & desk.ledger.forbidden:
                node.weights = desk.initial.like(node.weights.vector)
        super().forget(desk, request, ())


class Secretly(KeepsTheModel):
    """Approximate, but nothing is on record."""

    guarantee = Guarantee.APPROXIMATE


class RecordsTheFirst(RFS):
    """The old numbers again, with the first leaver on record, and nobody else."""

    guarantee = Guarantee.APPROXIMATE

    @property
    def promise(self):
        return "approximate"

    def farewell(self, desk, request):
        first = desk.ledger.units([request.targets[0].client])
        for lane in desk.lanes.values():
            desk.keepsakes.put("old", None, desk.initial.like(lane.model.vector).carrying(first))

    def forget(self, desk, request, touched):
        old = desk.keepsakes.take("old")
        for lane in touched:
            desk.restart(lane) if old is None else desk.rewind(lane, lane.version, {"global": old})


class HoldsTheOld(RFS):
    """A copy of the old model, which an erasure does not drop, where nobody looks."""

    now: ClassVar[dict] = {}
    old: ClassVar[dict] = {}

    def absorb(self, desk, lane, updates):
        super().absorb(desk, lane, updates)
        self.now[lane] = lane.model.vector.clone()

    def forget(self, desk, request, touched):
        for lane in touched:
            self.old[lane] = self.now.get(lane)
        super().forget(desk, request, touched)


class WelcomesWithTheOld(HoldsTheOld):
    """Who comes after an erasure finds it."""

    def welcome(self, desk, lane, clients):
        super().welcome(desk, lane, clients)
        if self.old.get(lane) is not None:
            lane.nodes["global"].weights = desk.initial.like(self.old[lane])


class OffersTheOld(HoldsTheOld):
    """It could be served instead."""

    def choices(self, desk):
        old = self.old.get(desk.lanes["global"])
        return {} if old is None else {"old": desk.initial.like(old)}


class NeedsAsync(RFS):
    def open(self, desk):
        if desk.pace.vacancies(0, 100) == 3:
            raise unknot.ConfigError("only for a buffered pace")
        super().open(desk)


class HalvesTheModel(RFS):
    """What everybody was sent."""

    def absorb(self, desk, lane, updates):
        lane.main.weights.vector.data.mul_(0.5)
        super().absorb(desk, lane, updates)


BROKEN = {
    HalvesTheModel: "it runs, synchronous: the method rfs wrote into the initial weights",
    KeepsTheModel: "an erasure, synchronous: what is served does not depend on what was erased",
    KeepsAnUpdate: "what is served does not depend on what was erased: with other samples",
    NotesAnUpdate: r"what is noted does not depend on what was erased: .* notes\['sent'\] of lane",
    NotesNumbers: r"what is noted does not depend on what was erased: .* notes\['sizes'\] of lane",
    CountsItself: "goes on as it would have: NotPlain: the method's CountsItself.turn is not what it was",
    AsksTheLargest: "what is served does not depend on what was erased: with no samples",
    Remembers: "one federation does not notice another, synchronous: weights differ by up to",
    CountsWhoAsks: "synchronous: to ask for the model changes nothing: serve changes what the",
    StoresOnFirstAsking: "synchronous: to ask for the model changes nothing: serve changes what the",
    DrawsWithoutAKey: "the same run gives the same bits, synchronous",
    DoesNothing: "ForbiddenLineageError|UnknotError",
    HoldsRows: r"what is erased is gone: numbers of erased samples are still held, as a tensor of shape",
    PromisesTooMuch: "its promise in words: it is exact, but promises: approximate, more or less",
    HalfForgets: "what is served does not depend on what was erased",
    Secretly: "what was let pass is on record: .* these are not waived",
    RecordsTheFirst: r"several at once, synchronous: what was let pass is on record: .* clients \[2, 4\] had",
    WelcomesWithTheOld: "a newcomer after an erasure, synchronous: what is served does not depend",
    OffersTheOld: "an erasure, synchronous: what is served does not depend on what was erased",
    NeedsAsync: "it runs at a synchronous pace: only for a buffered pace",
}


@pytest.mark.parametrize("kind", BROKEN, ids=lambda kind: kind.__name__)
def test_a_broken_method_is_found(kind):
    with pytest.raises(AssertionError, match=rf"method {kind.__name__} \(.*{BROKEN[kind]}"):
        check_method(kind())


class NotesAnObject(RFS):
    """What no other process could read."""

    def absorb(self, desk, lane, updates):
        lane.notes["seen"] = object()
        super().absorb(desk, lane, updates)


def test_a_method_whose_notes_cannot_be_written_is_told_which():
    with pytest.raises(
        AssertionError, match=r"structure that can be written: lane 'global' notes\['seen'\] is a object"
    ):
        check_method(NotesAnObject())


def test_an_error_of_the_method_says_where_it_came_up():
    with pytest.raises(KeyError) as caught:
        check_method(NeverJoins())
    assert "while checking method NeverJoins (rfs): a newcomer before an erasure" in caught.value.__notes__[0]


def test_a_promise_beyond_exactness_is_held():
    with pytest.raises(AssertionError, match="as if the erased client had never been there, synchronous: w"):
        check_method(MMT(), never_had=True)
    with pytest.raises(AssertionError, match="there is no lane that the erased client is not in"):
        check_method(RFS(), isolated=True)

    class Disturbs(FedCIO):
        def forget(self, desk, request, touched):
            super().forget(desk, request, list(desk.lanes.values()))

    with pytest.raises(AssertionError, match=r"lanes \['.*'\] are not what they would have been"):
        check_method(Disturbs(2), isolated=True)


def test_few_clients_are_too_few():
    with pytest.raises(unknot.ConfigError, match="need 8 clients or more, not 3"):
        check_method(RFS(), data=small_data((3, 3, 3)))


# Optimisers ----------------------------------------------------------------------------------------


class Taking(torch.optim.Optimizer):
    def __init__(self, parameters, spec, move) -> None:
        super().__init__(parameters, {"lr": spec.lr})
        self.spec, self.move, self.steps = spec, move, 0

    def step(self, closure=None) -> None:
        self.steps += 1
        for group in self.param_groups:
            for p in group["params"]:
                self.move(self, p, group["lr"])


def stepping(move) -> Optimizer:
    @dataclass(frozen=True)
    class Mine(Optimizer):
        name: ClassVar[str] = "mine"

        def make(self, parameters):
            return Taking(parameters, self, move)

    return Mine(0.1)


def sgd(made, p, rate):
    p.sub_(p.grad, alpha=rate)


def own_rate(made, p, rate):
    p.sub_(p.grad, alpha=made.spec.lr)


def rows_meet(made, p, rate):
    p.sub_(p.grad + 1e-14 * p.grad.mean(0, keepdim=True), alpha=rate)


def rows_meet_late(made, p, rate):
    """Rows that have nothing to do with each other, for a while."""
    (rows_meet if made.steps > 30 else sgd)(made, p, rate)


def large_rows_meet(made, p, rate):
    """Only where gradients are large."""
    size = p.grad.abs().amax()
    p.sub_(p.grad / size if size > 1e3 else p.grad, alpha=rate)


def counts_axes(made, p, rate):
    p.mul_(1 - rate * (p.dim() > 1)).sub_(p.grad, alpha=rate)


def writes_gradients(made, p, rate):
    sgd(made, p, rate)
    p.grad.mul_(2)


def test_an_optimiser_that_is_right_passes():
    assert len(check_optimizer(stepping(sgd)).held) == 5


@pytest.mark.parametrize(
    ("move", "said"),
    [
        (own_rate, "it moves the weights at its groups' lr"),
        (rows_meet, "a row has the same bits alone and in company, torch.float64"),
        (rows_meet_late, "a row has the same bits alone and in company, torch.float64"),
        (large_rows_meet, "a row has the same bits alone and in company, .* of size 1e.06"),
        (counts_axes, "a row has the same bits alone and in company"),
        (writes_gradients, "gradients are only read"),
    ],
)
def test_a_broken_optimiser_is_found(move, said):
    with pytest.raises(AssertionError, match=rf"optimiser Mine \(mine\): {said}"):
        check_optimizer(stepping(move))


# Losses --------------------------------------------------------------------------------------------


def counted(outputs, targets):
    counted.times += 1
    return (outputs - counted.times).square().mean(1)


counted.times = 0


def mixed(outputs, targets):
    return (outputs - outputs.mean(0)).square().mean(1)


@dataclass(frozen=True)
class WrongSlope(SquaredError):
    """Its gradient is written out wrong."""

    def slope(self, difference):
        return difference


@dataclass(frozen=True)
class Widest(Loss):
    """Not a number a sample."""

    name: ClassVar[str] = "widest"
    kinds: ClassVar[tuple[str, ...]] = ("values",)

    def __call__(self, outputs, targets):
        return (outputs - targets).square()


@pytest.mark.parametrize(
    ("loss", "said"),
    [
        (counted, "it can be examined: ConfigError: the loss 'counted'"),
        (mixed, "it can be examined: ConfigError: the loss 'mixed' mixes the samples of a batch"),
        (WrongSlope(), "its form for stacks is its plain form: the gradient is up to"),
        (Widest(), "it is one number a sample: it is of shape|it can be examined"),
    ],
    ids=["counts", "mixes", "wrong slope", "too many numbers"],
)
def test_a_broken_loss_is_found(loss, said):
    with pytest.raises(AssertionError, match=said):
        check_loss(loss)


# Metrics -------------------------------------------------------------------------------------------


def wrong(outputs, targets):
    """The share that is wrong, but it does not say that it falls."""
    return (outputs.argmax(-1) != targets).double().mean().item()


def first(outputs, targets):
    return (outputs.argmax(-1) == targets).double().mean().item() - outputs[0, 0].item()


def nothing_at_all(outputs, targets):
    return float("nan")


class Scribbles(Accuracy):
    name: ClassVar[str] = "scribbles"

    def tally(self, said):
        said.outputs.mul_(2)
        return super().tally(said)


@pytest.mark.parametrize(
    ("metric", "said"),
    [
        (wrong, "who is right does better than who guesses, classes: always right it is 0"),
        (first, "it is the same with the samples in another order"),
        (nothing_at_all, "it is a finite number, classes: it is nan"),
        (Scribbles(), "outputs and targets are only read"),
    ],
    ids=["wrong way up", "order", "no number", "scribbles"],
)
def test_a_broken_metric_is_found(metric, said):
    with pytest.raises(AssertionError, match=rf"metric .*: {said}"):
        check_metric(metric, "classes")


# Aggregators ---------------------------------------------------------------------------------------


class Shared:
    """Its state is in the class."""

    seen: ClassVar[list] = []

    def __call__(self, current, updates, version, ledger):
        self.seen.append(len(updates))
        return FedAvg()(current, updates, version, ledger) * (1 + 0.01 * len(self.seen))


class InPlace:
    def __call__(self, current, updates, version, ledger):
        current.vector.add_(updates[0].step.vector)
        return current


class FirstCome:
    def __call__(self, current, updates, version, ledger):
        return updates[0].weights


class Widens:
    def __call__(self, current, updates, version, ledger):
        return FedAvg()(current, updates, version, ledger).to(dtype=torch.float64)


class Divides:
    """By the spread of the updates, which is nothing where there is one."""

    def __call__(self, current, updates, version, ledger):
        steps = torch.stack([u.step.vector for u in updates])
        return current.like(current.vector + steps.mean(0) / steps.std(0, unbiased=False))


class Halves:
    """It says that each update adds half of what it does."""

    def __call__(self, current, updates, version, ledger):
        return FedAvg()(current, updates, version, ledger)

    def terms(self, current, updates, version):
        return [(weight / 2, change) for weight, change in FedAvg().terms(current, updates, version)]


@pytest.mark.parametrize(
    ("aggregate", "said"),
    [
        (Shared(), "the same updates give the same bits"),
        (InPlace(), "what it is given is only read"),
        (FirstCome(), "who comes first matters for nothing but rounding"),
        (Widens(), "in the same precision"),
        (Divides(), "its numbers are finite: with one update"),
        (Halves(), "what each update adds is what it says"),
    ],
    ids=lambda value: type(value).__name__ if not isinstance(value, str) else "",
)
def test_a_broken_aggregator_is_found(aggregate, said):
    with pytest.raises(AssertionError, match=rf"aggregator {type(aggregate).__name__}: {said}"):
        check_aggregator(aggregate)


@dataclass
class Hoards:
    """Fresh ones share a list: they notice only what came after the first round."""

    kept: list = field(default_factory=list)

    def fresh(self):
        return Hoards(self.kept)

    def __call__(self, current, updates, version, ledger):
        if version >= 2:
            self.kept.append(updates[0].step.vector)
        new = FedAvg()(current, updates, version, ledger)
        return new.like(new.vector + 0.01 * sum(self.kept)) if self.kept else new


def test_an_aggregator_that_hoards_is_found_by_a_federation():
    with pytest.raises(AssertionError, match=r"aggregator Hoards: (the same|what is served)"):
        check_aggregator(Hoards())


# Selectors -----------------------------------------------------------------------------------------


class TooMany(AtRandom):
    def fresh(self):
        return self

    def choose(self, idle, k, key):
        return key.smallest(idle, k + 1)


class Unordered(AtRandom):
    def choose(self, idle, k, key):
        return key.smallest(idle, k)[::-1]


class Unkeyed(AtRandom):
    def choose(self, idle, k, key):
        return np.sort(np.random.default_rng().permutation(idle)[:k])


class NoLineage(KCenter):
    def fresh(self):
        return NoLineage(self.groups)

    def meet(self, model, updates, key):
        super().meet(model, updates, key)
        self.lineage = NOBODY


class LearnsUnseen(AtRandom):
    """It learns from what came of its choices, and does not say from whom."""

    learns = True

    def __init__(self):
        self.seen = {}

    def fresh(self):
        return LearnsUnseen()

    def choose(self, idle, k, key):
        return np.sort(np.array(sorted(idle.tolist(), key=lambda c: (-self.seen.get(c, 0.0), c))[:k]))

    def observe(self, model, updates, merit, key):
        self.seen |= {update.client: float(update.step.vector.norm()) for update in updates}


class NeverFresh(KCenter):
    """Whoever was met once is known for good."""

    def fresh(self):
        return self


class KnowsForGood(KCenter):
    """In the class: a fresh one has no lineage, and all the knowledge."""

    known: ClassVar[dict] = {}

    def fresh(self):
        return KnowsForGood(self.groups)

    def meet(self, model, updates: Sequence, key):
        super().meet(model, updates, key)
        for update in updates:
            self.known[update.client] = float(update.step.vector.sum())

    def choose(self, idle, k, key):
        worth = sum(self.known.get(c, 0.0) for c in range(8))
        return super().choose(idle, k, key.child(int(worth * 1e6)))


@pytest.mark.parametrize(
    ("selector", "said"),
    [
        (TooMany(), "it chooses k of those who are idle: of .*, 3 are asked for"),
        (Unordered(), "each once, in the order of their ids"),
        (Unkeyed(), "the same key chooses the same"),
        (NoLineage(3), "whose updates it has seen is in its lineage: .* lacks"),
        (LearnsUnseen(), "whose updates it has seen is in its lineage: it was shown updates of .* lacks"),
        (NeverFresh(3), "a fresh one has seen nothing"),
        (KnowsForGood(3), "what is served does not depend on what was erased"),
    ],
    ids=lambda value: type(value).__name__ if not isinstance(value, str) else "",
)
def test_a_broken_selector_is_found(selector, said):
    KnowsForGood.known.clear()
    with pytest.raises(AssertionError, match=rf"selector {type(selector).__name__}: {said}"):
        check_selector(selector)


def test_a_selector_that_knows_clients_is_caught_where_the_run_does_not_say_so(monkeypatch):
    monkeypatch.setattr("unknot.federation.promise.goes_by_clients", lambda selector: False)
    with pytest.raises(AssertionError, match="the run says that the selector knew the erased client"):
        check_selector(KCenter(3))


# Partitions ----------------------------------------------------------------------------------------


def dealing(deal, by_label: bool = False) -> Partition:
    return type("Mine", (Partition,), {"kind": "mine", "by_label": by_label, "deal": deal})()


def halves(self, pool, key):
    rows = pool.rows[key.order(pool.rows)]
    return Deal([np.sort(rows[::2]), np.sort(rows[1::2])])


def twice(self, pool, key):
    return Deal([pool.rows[:9], pool.rows[8:]])


def outside(self, pool, key):
    return Deal([np.arange(4), pool.rows[4:]])


def nothing(self, pool, key):
    return Deal([pool.rows, pool.rows[:0]])


def shared_draws(self, pool, key):
    rows = np.random.permutation(pool.rows)
    return Deal([np.sort(rows[::2]), np.sort(rows[1::2])])


def by_labels(self, pool, key):
    odd = pool.labels % 2 == 1
    return Deal([pool.rows[odd], pool.rows[~odd]])


def lists(self, pool, key):
    return Deal([pool.rows[::2].tolist(), pool.rows[1::2].tolist()])


def test_a_partition_that_is_right_passes():
    check_partition(dealing(halves))
    check_partition(dealing(by_labels, by_label=True))


@pytest.mark.parametrize(
    ("deal", "said"),
    [
        (twice, "a row is dealt at most once: 1 are dealt to several"),
        (outside, "rows come from the pool: client 0 has row"),
        (nothing, "every client has something: client 1 has no row"),
        (shared_draws, "shared generators are left alone"),
        (by_labels, "labels play no part"),
        (lists, "rows are whole numbers"),
    ],
)
def test_a_broken_partition_is_found(deal, said):
    with pytest.raises(AssertionError, match=rf"partition Mine \(mine\): {said}"):
        check_partition(dealing(deal))


def test_the_check_of_a_partition_leaves_shared_generators_as_they_were():
    before = np.random.get_state()[1].tolist(), torch.get_rng_state()
    with pytest.raises(AssertionError):
        check_partition(dealing(twice))
    check_partition(dealing(halves))
    assert np.random.get_state()[1].tolist() == before[0]
    assert torch.equal(torch.get_rng_state(), before[1])


# Data ----------------------------------------------------------------------------------------------


def unsteady() -> Dataset:
    whole = small_dataset()
    return replace(whole, train=replace(whole.train, x=torch.randn(whole.train.x.shape)))


def mislabelled() -> Dataset:
    whole = small_dataset()
    return replace(whole, train=replace(whole.train, y=whole.train.y + 1))


class Sticky(FederatedData):
    """Erasing does not reach the tensors."""

    def _wipe(self, rows):
        """Nothing."""


def test_broken_data_is_found():
    with pytest.raises(AssertionError, match="the train samples are the same each time"):
        check_data(unsteady)
    with pytest.raises(AssertionError, match="it can be loaded: DataError: small: training sample 3: label"):
        check_data(mislabelled)
    good = small_data()
    sticky = Sticky(good.train, {c: good[c] for c in good}, good.test)
    with pytest.raises(AssertionError, match="erased rows are overwritten: those of client 0 are still"):
        check_data(sticky)


# Models --------------------------------------------------------------------------------------------


class Counts(nn.Module):
    """A result that depends on how often it was asked."""

    def __init__(self):
        super().__init__()
        self.layer, self.asked = nn.Linear(8, 3), 0

    def forward(self, x):
        self.asked += 1
        return self.layer(x) * self.asked


def unseeded():
    layer = nn.Linear(8, 3)
    with torch.no_grad():
        layer.weight.copy_(torch.from_numpy(np.random.default_rng().standard_normal((3, 8))))
    return layer


def test_a_broken_model_is_found():
    with pytest.raises(AssertionError, match=r"it can be made and examined: ConfigError: .*asked"):
        check_model(Counts)
    with pytest.raises(AssertionError, match="it is drawn from the seed"):
        check_model(unseeded)
    with pytest.raises(AssertionError, match="ends where the loop ends, with SGD: in double precision"):
        check_model("mlp", tolerance=0.0)


def test_things_are_asked_for_by_their_names():
    for check, name in ((check_method, "rsf"), (check_optimizer, "sdg"), (check_selector, "dqm")):
        with pytest.raises(unknot.ConfigError, match="Did you mean"):
            check(name)
