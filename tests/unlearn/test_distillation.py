"""Distillation: the subtraction and the soft targets by hand, what is kept, what it costs, and the record."""

from dataclasses import replace

import numpy as np
import pytest
import torch

import unknot
from exactness import forget_and_go_on
from support import ToyEngine, small_data, toy_federation, toy_weights, with_vector
from unknot.audit import interference
from unknot.audit.backdoor import Trigger, answers_to, marked
from unknot.core.errors import ConfigError, ForbiddenLineageError
from unknot.core.keys import Key
from unknot.core.lineage import Lineage, Unit
from unknot.core.loss import SoftTargets
from unknot.core.requests import erase, join
from unknot.core.samples import Samples
from unknot.core.training import SGD, Recipe
from unknot.experiments import Experiment
from unknot.experiments import run as run_experiment
from unknot.experiments.simulate import data_of
from unknot.federation import Buffered, Clock, FedBuff, NormClipping, Pareto, Synchronous
from unknot.federation.cohort import run_alone, run_together
from unknot.unlearn import KNOT, Distillation

DATA = small_data((5, 8, 3, 6))


def teachings(engine):
    return [call[0] for call in engine.calls if call and call[0].node == "distil"]


def run(method=None, data=DATA, request=None, rounds=5, engine=None, **options):
    engine = engine or ToyEngine()
    fed = toy_federation(method or Distillation(), data, engine, **options)
    history = fed.run(rounds, requests=[request or erase(1, round=3)])
    return fed, engine, history


class Notes(ToyEngine):
    """Keeps the data that a teaching was taught with."""

    def train(self, jobs, data):
        if jobs and jobs[0].node == "distil":
            self.taught = data
        return super().train(jobs, data)


# What is taken out, and what is taught --------------------------------------------------------------


def test_all_that_the_leaver_ever_changed_is_taken_out():
    """The student is the initial model plus (nₖ/n)·stepₖ of every round, without those of client 1."""
    fed, engine, _ = run()
    (teaching,) = teachings(engine)
    expected = fed.initial.vector.double().clone()
    for call in engine.calls[:3]:
        for update in ToyEngine().train(call, DATA):
            if update.client != 1:
                expected += update.step.vector.double() * (update.samples / 22)
    assert torch.allclose(teaching.start.vector.double(), expected, atol=1e-6)


AGGREGATORS = {
    "fedavg": {},
    "fedavg, two a round": {"pace": Synchronous(2)},
    "fedavg, buffered": {"pace": Buffered(3, 2, 3), "clock": Clock(Pareto())},
    "fedbuff": {"pace": Buffered(3, 2, 3), "aggregate": FedBuff(), "clock": Clock(Pareto())},
    "fedbuff, small steps": {"pace": Buffered(3, 2), "aggregate": FedBuff(server_lr=0.3, by_samples=True)},
    "norm clipping": {"aggregate": NormClipping(0.4)},
}


@pytest.mark.parametrize("how", AGGREGATORS)
def test_what_all_clients_added_adds_up_to_the_model(how):
    fed = toy_federation(Distillation(), small_data((5, 8, 3, 60)), **AGGREGATORS[how])
    model = fed.run(6).model.vector.double()
    total = fed.initial.vector.double().clone()
    for client in range(4):
        if (kept := fed.keepsakes.get(("sum", "global", client))) is not None:
            total += kept.vector.double()
    assert float((model - fed.initial.vector).norm()) > 0.1
    assert torch.allclose(total, model, atol=1e-5)


@pytest.mark.parametrize("inside", [False, True], ids=["alone", "in clusters"])
def test_an_aggregator_that_cannot_say_what_a_client_added_is_refused_before_training(inside):
    method = KNOT(2, by="random", retrain=Distillation()) if inside else Distillation()
    for aggregate in ("median", "trimmed-mean", "fedadam", "fedyogi", "fedadagrad"):
        fed = toy_federation(method, DATA, engine := ToyEngine(), aggregate=aggregate)
        with pytest.raises(ConfigError, match=r"distillation takes out.*FedAvg, FedBuff or NormClipping"):
            fed.run(3)
        assert engine.calls == []


def test_a_lane_that_is_laid_out_anew_has_no_sums_of_what_was_there_before():
    fed = toy_federation(KNOT(2, by="random", retrain=Distillation()), small_data((5, 8, 3, 6)))
    fed.run(2)
    lane, other = fed.lanes.values()
    kept = fed.keepsakes.nbytes
    Distillation().lay_out(fed.desk, lane)
    assert fed.keepsakes.nbytes == kept - len(lane.members) * toy_weights().nbytes
    assert all(fed.keepsakes.get(("sum", other.name, client)) for client in other.members)


def test_where_everybody_leaves_the_initial_model_is_served():
    fed, engine, history = run(request=erase(range(4), round=3))
    assert fed.model.equal(fed.initial)
    assert teachings(engine) == []
    assert history.waived == []


def test_two_leavers_are_taken_out_together():
    fed, engine, _ = run(request=erase([1, 3], round=3))
    (teaching,) = teachings(engine)
    expected = fed.initial.vector.double().clone()
    for call in engine.calls[:3]:
        for update in ToyEngine().train(call, DATA):
            if update.client in (0, 2):
                expected += update.step.vector.double() * (update.samples / 22)
    assert torch.allclose(teaching.start.vector.double(), expected, atol=1e-6)


def test_the_old_model_teaches_what_it_says_softened():
    """At temperature 2 a probability counts with its square root."""
    engine = Notes()
    fed = toy_federation(Distillation(temperature=2.0, epochs=3, batch_size=5, lr=0.5), DATA, engine)
    teacher = fed.run(3).model
    fed.run(1, requests=[erase(1, round=3)])
    taught = engine.taught.train
    said = engine.predict(teacher, Samples(DATA.public, torch.zeros(12, dtype=torch.int64), 3)).sqrt()
    expected = said / said.sum(1, keepdim=True)
    assert torch.equal(taught.x, DATA.public)
    assert torch.allclose(taught.y.double(), expected, atol=1e-6)
    assert taught.kind == "values"
    (teaching,) = teachings(engine)
    assert teaching.recipe == Recipe(SGD(0.5, 0.9), 3, 5, loss=SoftTargets(2.0))


def test_the_others_go_on_from_what_was_learned():
    fed, engine, history = run()
    place = engine.calls.index([teachings(engine)[0]])
    after = engine.calls[place + 1]
    assert {job.client for job in after} == {0, 2, 3}
    assert [job.version for job in after] == [3, 3, 3]
    assert not after[0].start.equal(teachings(engine)[0].start)
    assert history.served[0].restarted == ()
    assert after[0].start.lineage.clients == {0, 2, 3}
    assert 1 not in fed.model.lineage.clients


def test_after_samples_are_erased_the_client_begins_again_as_a_newcomer():
    """All that it ever changed is taken out; from then on a new sum is kept of it."""
    fed, engine, _ = run(request=erase({1: [0]}, round=3), rounds=4)
    (teaching,) = teachings(engine)
    expected = fed.initial.vector.double().clone()
    for call in engine.calls[:3]:
        for update in ToyEngine().train(call, DATA):
            expected += update.step.vector.double() * (update.samples / 22) * (update.client != 1)
    assert torch.allclose(teaching.start.vector.double(), expected, atol=1e-6)
    last = {u.client: u for u in ToyEngine().train(engine.calls[-1], fed.data)}
    kept = fed.keepsakes.get(("sum", "global", 1))
    assert torch.allclose(kept.vector, last[1].step.vector * (7 / 21), atol=1e-6)


# The server's work ----------------------------------------------------------------------------------


def test_it_is_the_servers_work_and_takes_its_time():
    """12 public samples are read once by the teacher and 4 times by the student: 60, at 5 ms each."""
    _, _, history = run(Distillation(epochs=4))
    served = history.served[0]
    assert served.costs.server_samples == history.costs.server_samples == 60
    assert served.time - history.rounds[2].time == pytest.approx(0.3)
    assert history.rounds[3].trips[0].launched == pytest.approx(served.time)
    assert served.costs.jobs == 12  # no client did anything
    assert served.visits == ()
    assert history.setup["data"]["public"] == 12
    last = toy_federation(Distillation(epochs=4), DATA)
    last.run(3)
    assert last.run(1, requests=[erase(1, round=3)]).costs.server_samples == 60


def test_a_teaching_carries_both_lineages_and_is_refused_where_one_is_erased():
    fed = toy_federation(Distillation(), DATA)
    fed.run(1)
    student, teacher = (replace(toy_weights(), lineage=Lineage([Unit(c)])) for c in (2, 3))
    recipe = Recipe(loss=SoftTargets())
    made = fed.state.distill(student, teacher, recipe, Key.root(0))
    assert made.lineage.clients == {2, 3}  # and not whichever number the server's samples go by
    fed.ledger.forbid(3)
    with pytest.raises(ForbiddenLineageError, match="refused to distil a model: it carries client 3"):
        fed.state.distill(student, teacher, recipe, Key.root(0))
    with pytest.raises(ConfigError, match="SoftTargets"):
        fed.state.distill(student, student, Recipe(), Key.root(0))


def test_a_teaching_that_overflows_leaves_the_student():
    def wild(update):
        teaching = update.job.node == "distil"
        return with_vector(update, update.weights.vector * float("nan")) if teaching else update

    fed, engine, _ = run(engine=ToyEngine(spoil={0: wild}))
    (teaching,) = teachings(engine)
    assert engine.calls[engine.calls.index([teaching]) + 1][0].start.equal(teaching.start)
    assert fed.costs.set_aside == 1


def test_a_teacher_without_numbers_teaches_nothing():
    class Mute(ToyEngine):
        def predict(self, model, samples):
            return super().predict(model, samples) * float("nan")

    fed, engine, _ = run(engine=Mute())
    assert teachings(engine) == []
    assert fed.costs.set_aside == 1
    assert torch.isfinite(fed.model.vector).all()


def test_what_it_needs_is_asked_for_before_anything_is_trained():
    with pytest.raises(ConfigError, match=r"inputs of the server's own, without targets: federate"):
        run(data=DATA.replaced(public=None))
    labels = torch.zeros((len(DATA.train), 3))
    several = Samples(DATA.train.x, labels, 3, "labels")
    held = several.subset(np.arange(3))
    with pytest.raises(ConfigError, match="samples of one class each"):
        run(data=DATA.replaced(train=several, test=held, validation=held))


# What is kept, and the record -----------------------------------------------------------------------


def test_a_sum_a_client_is_kept_and_the_leavers_goes_with_it():
    fed = toy_federation(Distillation(), DATA)
    size = toy_weights().nbytes
    fed.run(3)
    assert fed.keepsakes.nbytes == 4 * size
    history = fed.run(1, requests=[erase(1, round=3)])
    assert fed.keepsakes.nbytes == 3 * size  # neither student nor teacher
    assert history.waived == ["client 1"]
    assert history.guarantee.startswith("approximate: the old model")


PACES = {
    "all": {"pace": Synchronous()},
    "some": {"pace": Synchronous(2)},
    "async": {"pace": Buffered(3, 2, 3), "aggregate": FedBuff(), "clock": Clock(Pareto())},
}


@pytest.mark.parametrize("pace", PACES)
@pytest.mark.parametrize("inside", [False, True], ids=["alone", "in clusters"])
def test_the_interference_audit_says_that_it_is_not_exact(pace, inside):
    data = small_data((5, 8, 3, 6, 7, 4, 5, 6))
    method = KNOT(2, by="random", retrain=Distillation()) if inside else Distillation()
    request = erase([1, 2], round=6)
    report = interference(
        lambda variant: forget_and_go_on(toy_federation(method, variant, **PACES[pace]), request, 3).model,
        data,
        request.targets,
    )
    assert not report.none


@pytest.mark.parametrize("pace", PACES)
def test_requests_one_after_the_other_joins_samples_and_everybody_but_one(pace):
    data = small_data((5, 8, 3, 6, 7, 4))
    fed = toy_federation(Distillation(), data, **PACES[pace])
    requests = [erase(1, round=3), join(5, round=4), erase({0: [2]}, round=6), erase([0, 3, 4, 5], round=9)]
    fed.run(14, requests=requests)
    assert fed.model.lineage.clients <= {2}
    assert torch.isfinite(fed.model.vector).all()


def test_federations_in_step_learn_as_if_each_were_alone():
    def one(seed, engine):
        fed = toy_federation(Distillation(), DATA, engine, seed=seed)
        return fed.running(5, requests=[erase(3, round=2 + seed)])

    engine = ToyEngine()
    alone = [run_alone(one(seed, ToyEngine())) for seed in range(3)]
    together = run_together([one(seed, engine) for seed in range(3)])
    for mine, theirs in zip(alone, together, strict=True):
        assert mine.model.equal(theirs.model)
        assert mine.served == theirs.served


def test_impossible_settings_are_refused():
    for options in ({"epochs": 0}, {"batch_size": 0}, {"lr": 0.0}, {"temperature": 0.0}):
        with pytest.raises(ConfigError, match=next(iter(options))):
            Distillation(**options)


# On real models -------------------------------------------------------------------------------------

TRIGGER = Trigger(target=0)


def test_what_the_leaver_taught_is_gone_and_what_the_others_taught_is_not():
    digits = unknot.load("digits")
    data = unknot.federate(digits, unknot.Iid(5, samples=80), validation=200, public=200)
    data = marked(data, [3], TRIGGER)
    recipe = Recipe(SGD(0.1), epochs=3, batch_size=20)
    fed = unknot.simulate("mlp", data, Distillation(), recipe, threads=1)
    before = fed.run(6).model
    history = fed.run(1, requests=[unknot.erase(3, round=6)])
    served = history.served[0]
    assert answers_to(fed.engine, before, data.test, TRIGGER).value > 0.6
    assert answers_to(fed.engine, fed.model, data.test, TRIGGER).value < 0.1
    assert served.after["validation"].accuracy > served.before["validation"].accuracy - 0.05


def test_a_folder_has_public_inputs_in_a_file_without_targets(tmp_path):
    for name in ("a", "b"):
        (tmp_path / f"{name}.csv").write_text("x,y,label\n" + "1,2,0\n3,4,1\n" * 4)
    table = {
        "data": {"name": "folder", "path": str(tmp_path), "target": "label"},
        "method": {"name": "distillation"},
        "federation": {"rounds": 2},
        "request": [{"erase": "a", "round": 1}],
    }
    with pytest.raises(ConfigError, match=r'with a folder .* data.public = "public.csv"'):
        run_experiment(Experiment.of(table))
    (tmp_path / "nobody.csv").write_text("y,x\n2,1\n4,3\n")
    table["data"]["public"] = "nobody.csv"
    experiment = Experiment.of(table)
    assert data_of(experiment).public.tolist() == [[1, 2], [3, 4]]
    assert run_experiment(experiment).served
