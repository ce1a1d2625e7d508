"""What somebody's own code is handed it may write into, as one does in PyTorch: nothing else changes."""

from dataclasses import dataclass
from typing import ClassVar

import pytest
import torch

import unknot
from exactness import assert_no_interference
from support import grid, small_data, toy_federation
from unknot.core.errors import UnknotError
from unknot.core.metrics import Accuracy
from unknot.core.requests import erase
from unknot.core.selection import AtRandom
from unknot.core.weights import Weights
from unknot.federation import Buffered, FedAvg, FedBuff, Guarantee, Synchronous
from unknot.federation.aggregators import Additive
from unknot.unlearn import BMT, FATS, KNOT, METHODS, MMT, RFS, SISA, ExactFun, FedCIO, Rapid, Standalone

DATA = small_data((5, 8, 3, 6, 7, 4, 9, 2))
EXACT = {
    "rfs": RFS(),
    "rapid": Rapid(),
    "bmt": BMT(),
    "mmt": MMT(),
    "sisa": SISA(),
    "fedcio": FedCIO(2),
    "standalone": Standalone(),
    "knot": KNOT(3, by="random"),
    "knot, mmt": KNOT(2, by="random", retrain=MMT()),
    "fats": FATS(rho_client=5, rounds=9, local_steps=2, clients=8),
    "exact-fun": ExactFun(alpha=0.2),
}
AGGREGATE = {name: method for name, method in EXACT.items() if method.aggregates}
ERASED = {"a client": erase(3, round=3), "samples": erase({1: [0, 3], 4: [0, 2]}, round=3)}


class AddsInPlace:
    def __call__(self, current, updates, version, ledger):
        for update in updates:
            current.vector.add_(update.step.vector / len(updates))
        return current


class ScalesUpdates:
    def __call__(self, current, updates, version, ledger):
        for update in updates:
            update.weights.vector.mul_(0.5)
            update.job.start.vector.numpy()[:] += 0.1
        return FedAvg()(current, updates, version, ledger)


@dataclass
class WritesIntoWhatItGave:
    last: Weights | None = None

    def __call__(self, current, updates, version, ledger):
        if self.last is not None:
            self.last.vector.data.add_(updates[0].step.vector)
        self.last = FedAvg()(current, updates, version, ledger)
        return self.last


class WritesInTerms(FedAvg):
    def terms(self, current, updates, version):
        current.vector.add_(updates[0].weights.vector)
        return super().terms(current, updates, version)


AGGREGATORS = (AddsInPlace(), ScalesUpdates(), WritesIntoWhatItGave(), WritesInTerms())


class Scribbles(AtRandom):
    """Draws as ever, but writes into all that it is shown."""

    learns = True
    curious = True

    def fresh(self):
        return Scribbles()

    def meet(self, model, updates, key):
        self.curious = False
        self.write(model, updates)

    def watch(self, updates, seconds):
        self.write(updates[0].job.start, updates)

    def observe(self, model, updates, merit, key):
        self.write(model, updates)

    def write(self, model, updates):
        for update in updates:
            model.vector.add_(update.weights.vector)
            update.weights.vector.numpy()[:] += model.vector.numpy()

    def choose(self, idle, k, key):
        chosen = super().choose(idle, k, key)
        idle[:] = idle[0]
        return chosen


def watched(engine):
    """What the engine is given from now on, and gives, with the numbers that it has then."""
    seen, train = [], engine.train

    def watching(jobs, data):
        updates = train(jobs, data)
        seen.extend((w, w.vector.clone()) for u in updates for w in (u.weights, u.job.start))
        return updates

    engine.train = watching
    return seen


def opened(method, **parts):
    parts = {"pace": Synchronous(5), **parts}
    return lambda data: toy_federation(method, data, **parts)


@pytest.mark.parametrize(("method", "aggregate", "what"), grid(AGGREGATE, range(len(AGGREGATORS)), ERASED))
def test_an_aggregator_that_writes_in_place_forgets_under_every_exact_method(method, aggregate, what):
    given = AGGREGATORS[aggregate]
    assert_no_interference(opened(AGGREGATE[method], aggregate=given), DATA, ERASED[what], rounds=4)


@pytest.mark.parametrize(("method", "what"), grid(EXACT, ERASED))
def test_a_selector_that_writes_in_place_forgets_under_every_exact_method(method, what):
    select = {"select": Scribbles()} if EXACT[method].selects else {}
    assert_no_interference(opened(EXACT[method], **select), DATA, ERASED[what], rounds=4)


def test_every_exact_method_is_asked():
    asked = {type(method) for method in EXACT.values()}
    assert asked == {method for method in METHODS.values() if method.guarantee is Guarantee.EXACT}


@pytest.mark.parametrize("part", [*AGGREGATORS, Scribbles()], ids=lambda part: type(part).__name__)
def test_neither_initial_weights_nor_what_was_sent_and_came_back_changes(part):
    name = "select" if isinstance(part, AtRandom) else "aggregate"
    fed = opened(RFS(), **{name: part})(DATA)
    before = fed.initial.vector.clone()
    seen = watched(fed.engine)
    fed.run(4)
    if isinstance(part, Additive):
        lane = fed.lanes["global"]
        jobs = [fed.state.job(lane, lane.main, client) for client in (0, 1)]
        fed.state.terms(lane, lane.main, fed.engine.train(jobs, fed.state.data))
    assert torch.equal(fed.initial.vector, before)
    assert all(torch.equal(weights.vector, then) for weights, then in seen)


def test_what_a_selector_draws_is_what_it_would_draw_without_writing():
    class Quiet(Scribbles):
        def fresh(self):
            return Quiet()

        def write(self, model, updates):
            pass

        def choose(self, idle, k, key):
            return AtRandom.choose(self, idle, k, key)

    models = []
    for select in (Scribbles(), Quiet()):
        fed = opened(RFS(), select=select)(DATA)
        fed.run(5)
        models.append(fed.model)
    assert models[0].equal(models[1])


class Tallies(Accuracy):
    """A metric of one's own that writes into what the others are given, too."""

    name: ClassVar[str] = "tallies"

    def tally(self, said):
        said.targets.zero_()
        said.outputs.zero_()
        return super().tally(said)


def blots(outputs, targets):
    targets.zero_()
    return float(outputs.mul_(0).sum())


def with_scale(outputs, targets):
    found = float((outputs.argmax(-1) == targets).double().mean())
    targets.zero_()
    return found


@pytest.mark.parametrize("metric", [Tallies(), blots, with_scale], ids=["tally", "function", "targets"])
@pytest.mark.parametrize("engine", ["loop", "stacked"])
def test_a_metric_that_writes_in_place_changes_neither_data_nor_other_metrics(metric, engine):
    data = small_data((5, 8, 3, 6))
    before = data.validation.y.clone(), data.test.y.clone()
    found = []
    for metrics in ([metric, "accuracy"], ["accuracy"]):
        fed = unknot.simulate("mlp", data, "rfs", engine=engine, metrics=metrics, threads=1)
        found.append([record.scores for record in fed.run(2).rounds])
    assert torch.equal(data.validation.y, before[0])
    assert torch.equal(data.test.y, before[1])
    for one, other in zip(*found, strict=True):
        assert {s: score.metrics["accuracy"] for s, score in one.items()} == {
            s: score.metrics["accuracy"] for s, score in other.items()
        }


class WritesInitial(RFS):
    name = "writes-initial"

    def absorb(self, desk, lane, updates):
        super().absorb(desk, lane, updates)
        desk.initial.vector.add_(updates[0].step.vector)


class WritesWhatIsUnderWay(RFS):
    """The model that others are training: a later one takes its place."""

    name = "writes-sent"

    def absorb(self, desk, lane, updates):
        if lane.version:
            lane.main.weights.vector.numpy()[:] += updates[0].weights.vector.numpy()
        super().absorb(desk, lane, updates)


class WritesPlainMemory(RFS):
    name = "writes-memory"

    def serve(self, desk):
        model = super().serve(desk)
        model.vector.data.mul_(1.5)
        return model


class SumsInPlace(RFS):
    """What it keeps has its lineage from when it was put there: a sum in place would leave it behind."""

    name = "sums"

    def absorb(self, desk, lane, updates):
        super().absorb(desk, lane, updates)
        if "sum" not in desk.archive:
            desk.archive["sum"] = lane.main.weights
        for update in updates:
            desk.archive["sum"].vector.add_(update.weights.vector)
        desk.archive["first"] = updates[0].weights
        updates[0].weights.vector.fill_(7.0)


def test_what_a_method_keeps_is_not_changed_by_writing_into_what_it_reads():
    fed = toy_federation(SumsInPlace(), DATA, pace=Synchronous(3))
    fed.run(1)
    first = fed.model.vector.clone()
    fed.run(3)
    assert torch.equal(fed.archive["sum"].vector, first)
    assert not (fed.archive["first"].vector == 7.0).any()


class WritesUpdates(RFS):
    name = "writes-updates"

    def absorb(self, desk, lane, updates):
        updates[0].weights.vector.numpy()[:] = 1.0
        super().absorb(desk, lane, updates)


@pytest.mark.parametrize(
    "method", [WritesInitial(), WritesWhatIsUnderWay(), WritesPlainMemory()], ids=lambda method: method.name
)
def test_a_method_that_writes_into_models_of_the_federation_is_refused(method):
    fed = toy_federation(method, DATA, pace=Buffered(4, 2, 3), aggregate=FedBuff())
    with pytest.raises(UnknotError, match=method.name):
        fed.run(3)


def test_a_method_may_write_into_what_came_back():
    fed = toy_federation(WritesUpdates(), DATA)
    seen = watched(fed.engine)
    fed.run(3)
    assert all(torch.equal(weights.vector, then) for weights, then in seen)


class WritesIntoItsInput(torch.nn.Module):
    def __init__(self, inplace):
        super().__init__()
        self.body = torch.nn.Sequential(
            torch.nn.ReLU(inplace=inplace), torch.nn.Flatten(), torch.nn.Linear(784, 10)
        )

    def forward(self, x):
        return self.body(x)


@pytest.mark.parametrize("engine", ["loop", "stacked"])
def test_a_model_that_writes_into_its_input_changes_no_held_out_rows(engine):
    found = []
    for inplace in (False, True):
        data = unknot.federate("digits", unknot.Dirichlet(4, 1.0, samples=20), validation=40)
        before = data.validation.x.clone()
        torch.manual_seed(0)
        fed = unknot.simulate(WritesIntoItsInput(inplace), data, engine=engine)
        found.append([one.scores for one in fed.run(2).rounds])
        assert torch.equal(data.validation.x, before)
    assert found[0] == found[1]
