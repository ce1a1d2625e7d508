"""What federations that run together want trained alike is trained once, and each has it as its own."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from test_cohort import (
    CASES,
    NEED_ROUNDS,
    REQUESTS,
    USUAL,
    engine_of,
    lone_model,
    model,
    real,
    record,
    together,
    toy,
)

import unknot
from support import LAYOUT, ToyEngine, small_data
from unknot.core.base import Base
from unknot.core.data import FederatedData, Samples
from unknot.core.jobs import Job
from unknot.core.keys import Key
from unknot.core.lineage import Lineage, Unit
from unknot.core.training.schedules import StepDecay
from unknot.core.weights import Weights
from unknot.federation.cohort import Call, run_alone
from unknot.unlearn import RFS, FedEraser

DATA = small_data()
RECIPE = unknot.Recipe(unknot.SGD(0.1), batch_size=4)
ZEROS = torch.zeros(LAYOUT.size)


def job(**changes):
    usual = {
        "unit": Unit(1),
        "start": Weights(ZEROS.clone(), LAYOUT),
        "key": Key.root(0).child("round", 3),
        "recipe": replace(RECIPE),
    }
    return Job(**{**usual, **changes})


def asking(jobs, data=DATA):
    """A run that has nothing but these jobs trained."""

    def run(engine):
        yield (call := Call(engine, jobs, data))
        return call.answer.result()

    return run


def trained_of(*runs):
    """How many jobs the engine is given, and the updates of each run."""
    engine = ToyEngine()
    updates = together(engine, runs, once=True)
    return [len(jobs) for jobs in engine.calls], updates


# As if alone -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "pace"),
    [case if case[1] == USUAL[case[0]] else pytest.param(*case, marks=pytest.mark.slow) for case in CASES],
)
def test_every_method_ends_as_alone_beside_others_that_begin_alike(name, pace):
    data = DATA.lent()
    names = ["rfs", name, "federaser", name]
    runs = [
        real(each, rounds, data=data, pace=pace)
        for each, rounds in zip(names, [4, 4, 4, 3], strict=True)
        if pace == "synchronous" or each not in NEED_ROUNDS
    ]
    alone = [record(run_alone(run(engine_of()))) for run in runs]
    assert [record(history) for history in together(engine_of(), runs, once=True)] == alone


def test_until_something_is_forgotten_methods_that_train_alike_train_once():
    """Six clients; client 1 leaves after two of four rounds, and from then on the two differ."""
    engine = ToyEngine()
    runs = [
        toy(4, data=DATA.lent(), requests=REQUESTS[:1], method=method) for method in (RFS(), FedEraser(1))
    ]
    feds = together(engine, runs, once=True)
    assert [len(jobs) for jobs in engine.calls] == [6, 6, 10, 10]
    assert all(fed.model.equal(lone_model(run)) for fed, run in zip(feds, runs, strict=True))


class Halves(RFS):
    """What came back, in place."""

    def absorb(self, desk, lane, updates):
        for update in updates:
            update.weights.vector.mul_(0.5)
        super().absorb(desk, lane, updates)


class Clamps(RFS):
    """The same, by the tensors."""

    def absorb(self, desk, lane, updates):
        for update in updates:
            for tensor in update.weights.tensors.values():
                tensor.clamp_(-0.05, 0.05)
        super().absorb(desk, lane, updates)


class HalvesTheModel(RFS):
    """Of the lane, and what everybody was sent."""

    def absorb(self, desk, lane, updates):
        super().absorb(desk, lane, updates)
        lane.model.vector.mul_(0.9)
        updates[0].job.start.vector.mul_(0.9)


@pytest.mark.parametrize("kind", ["stacked", "loop"])
@pytest.mark.parametrize("own", [Halves, Clamps, HalvesTheModel])
def test_what_a_method_changes_in_place_is_its_own(own, kind):
    data = DATA.lent()
    initial = run_alone(real()(engine_of(kind))).model

    def run(method):
        def go(engine):
            fed = unknot.simulate(
                model, data.lent(), method, RECIPE, engine=engine, initial=initial, evaluate_every=2
            )
            return fed.running(3, requests=REQUESTS[:1])

        return go

    runs = [run(method) for method in ("rfs", own(), "federaser", own())]
    before = initial.vector.clone()
    alone = [record(run_alone(one(engine_of(kind)))) for one in runs]
    assert [record(history) for history in together(engine_of(kind), runs, once=True)] == alone
    assert torch.equal(initial.vector, before)


def test_twins_have_memory_of_their_own():
    mine = job()
    (asked,), updates = trained_of(asking([mine, mine]), asking([mine]), asking([job()]))
    assert asked == 1
    vectors = [update.weights.vector for found in updates for update in found]
    assert len({vector.data_ptr() for vector in vectors}) == 4
    assert all(torch.equal(vector, vectors[0]) for vector in vectors)


def test_whoever_compares_runs_to_find_them_equal_has_each_trained():
    engine = ToyEngine()
    together(engine, [toy(2), toy(2)])
    assert [len(jobs) for jobs in engine.calls] == [12, 12]


# What is alike ---------------------------------------------------------------------------------------


def test_jobs_that_are_alike_are_one():
    (asked,), (first, second) = trained_of(asking([job()]), asking([job(node="elsewhere")]))
    assert asked == 1
    assert first[0].weights.equal(second[0].weights)
    assert (first[0].samples, first[0].loss) == (second[0].samples, second[0].loss)
    assert [update.job.node for update in (*first, *second)] == ["global", "elsewhere"]


def test_each_has_the_answers_to_its_own_jobs_in_their_order():
    mine = [job(unit=Unit(client)) for client in (0, 1, 2)]
    theirs = [job(unit=Unit(client)) for client in (3, 2, 0)]
    (asked,), updates = trained_of(asking(mine), asking(theirs))
    assert asked == 4
    for jobs, found in zip((mine, theirs), updates, strict=True):
        assert [update.job for update in found] == jobs
        alone = ToyEngine().train(jobs, DATA)
        assert all(one.weights.equal(other.weights) for one, other in zip(found, alone, strict=True))


def test_whose_data_shaped_a_result_is_what_the_own_job_says():
    """The same bits came about with client 4 in one federation and without it in the other."""
    with_four = job(start=Weights(ZEROS.clone(), LAYOUT, Lineage([Unit(4)])))
    (asked,), (first, second) = trained_of(asking([with_four]), asking([job(unit=Unit(1, 2))]))
    assert asked == 1
    assert first[0].lineage == Lineage([Unit(4), Unit(1)])
    assert second[0].lineage == Lineage([Unit(1, 2)])


NEGATIVE_ZERO = ZEROS.clone()
NEGATIVE_ZERO[0] = -0.0
IDS = np.arange(4)
OTHERS = {
    "another client": job(unit=Unit(2)),
    "another start": job(start=Weights(ZEROS + 1, LAYOUT)),
    "a start of another bit": job(start=Weights(NEGATIVE_ZERO, LAYOUT)),
    "a start of another precision": job(start=Weights(ZEROS.double(), LAYOUT)),
    "another draw": job(key=Key.root(0).child("round", 4)),
    "another recipe": job(recipe=replace(RECIPE, epochs=2)),
    "another learning rate": job(recipe=replace(RECIPE, optimizer=unknot.SGD(0.2))),
    "others beside it": job(others=(Unit(2),)),
    "batches of its own": job(batches=(IDS,)),
    "batches with nothing in them": job(batches=(IDS[:0],)),
}


@pytest.mark.parametrize("what", OTHERS)
def test_what_differs_in_anything_that_counts_is_trained_by_itself(what):
    (asked,), (first, second) = trained_of(asking([job()]), asking([OTHERS[what]]))
    assert asked == 2
    for found, own in ((first, job()), (second, OTHERS[what])):
        assert found[0].weights.equal(ToyEngine().train([own], DATA)[0].weights)


def test_no_batches_are_not_the_recipes_own():
    class Lazy(ToyEngine):
        def train(self, jobs, data):
            self.calls.append(jobs)
            return [job.done(job.start.vector, 0, 0.0) for job in jobs]

    engine = Lazy()
    together(engine, [asking([job()]), asking([job(batches=())])], once=True)
    assert len(engine.calls[0]) == 2


def test_bases_that_others_shaped_are_told_apart():
    mine, theirs = (
        job(start=Weights(ZEROS, replace(LAYOUT, base=Base("digest", Lineage(units)))))
        for units in ([], [Unit(4)])
    )
    (asked,), _ = trained_of(asking([mine]), asking([theirs]), asking([mine]))
    assert asked == 2


def test_batches_are_alike_by_what_is_in_them():
    first, second, other = (job(batches=(np.array(ids), IDS)) for ids in ([0, 1], [0, 1], [0, 2]))
    (asked,), _ = trained_of(asking([first]), asking([second]), asking([other]))
    assert asked == 2


def test_the_round_counts_where_the_rate_changes_with_it():
    falling = replace(RECIPE, schedule=StepDecay(every=1, factor=0.5, over="rounds"))
    constant, changing = (
        [asking([job(recipe=recipe, version=round)]) for round in (0, 1)] for recipe in (RECIPE, falling)
    )
    assert trained_of(*constant)[0] == [1]
    assert trained_of(*changing)[0] == [2]


def test_who_holds_other_samples_of_the_same_tensors_is_trained_by_itself():
    fewer = DATA.fork().lent()
    fewer.erase(1, [0])
    (asked,), (first, second) = trained_of(asking([job()]), asking([job()], fewer))
    assert asked == 2
    assert not first[0].weights.equal(second[0].weights)


def test_who_holds_other_samples_in_their_place_is_trained_by_itself():
    """As an audit of exactness has it: the same rows, and in them other numbers."""
    other = FederatedData(
        Samples(DATA.train.x + 1, DATA.train.y, DATA.train.classes), {k: DATA[k] for k in DATA}, DATA.test
    )
    calls, (first, second) = trained_of(asking([job()]), asking([job()], other))
    assert calls == [1, 1]
    assert not first[0].weights.equal(second[0].weights)
