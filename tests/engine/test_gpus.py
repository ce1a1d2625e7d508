"""Several devices of one machine: the same bits as one, whoever trains what; here each of them is the CPU."""

from __future__ import annotations

import pytest
import torch

import unknot
from engine_worlds import RECIPES, make_data, make_jobs, make_model, own_start, same
from unknot.core.errors import ConfigError
from unknot.core.jobs import Job
from unknot.core.weights import Weights
from unknot.engine import StackedEngine, gpus, make_engine
from unknot.engine.gpus import SeveralGpus


@pytest.mark.parametrize("model", ["mlp", "norm", "loop"])
def test_two_devices_give_the_bits_of_one_in_the_order_of_the_jobs(model: str) -> None:
    network, data = make_model(model), make_data(model)
    jobs = [own_start(job) for job in make_jobs(network, RECIPES["sgd"], data.clients)]
    jobs += make_jobs(network, RECIPES["sgd-momentum"], [3, 0])
    two = SeveralGpus(network, ["cpu", "cpu"], threads=1)
    one = StackedEngine(network, threads=1).train(jobs, data)
    together = two.train(jobs, data)
    assert [update.job for update in together] == jobs
    assert all(map(same, one, together))
    assert two.train([], data) == []


def test_both_are_at_work_and_too_few_jobs_are_not_dealt(monkeypatch: pytest.MonkeyPatch) -> None:
    network, data = make_model("mlp"), make_data("mlp")
    seen: list[tuple[StackedEngine, int]] = []

    def train(self: StackedEngine, jobs: list[Job], data: object) -> list[Job]:
        seen.append((self, len(jobs)))
        return jobs

    two = SeveralGpus(network, ["cpu", "cpu"], threads=1)
    monkeypatch.setattr(StackedEngine, "train", train)
    jobs = make_jobs(network, RECIPES["sgd"], data.clients)
    assert two.train(jobs, data) == jobs
    assert sorted(count for _, count in seen) == [5, 6]
    assert len({id(engine) for engine, _ in seen}) == 2
    seen.clear()
    two.train(jobs[:3], data)  # a stack has two rows at least, on a GPU sixteen
    assert [count for _, count in seen] == [3]


def test_models_are_judged_as_on_one_device() -> None:
    network, data = make_model("mlp"), make_data("mlp")
    models = [own_start(job).start for job in make_jobs(network, RECIPES["sgd"], range(5))]
    one, two = StackedEngine(network, threads=1), SeveralGpus(network, ["cpu", "cpu"], threads=1)
    assert two.evaluate_all(models, data.test) == [one.evaluate(model, data.test) for model in models]
    assert two.evaluate(models[1], data.test) == one.evaluate(models[1], data.test)
    said = [one.predict(model, data.test) for model in models]
    assert all(map(torch.equal, two.predict_all(models, data.test), said))


def test_an_error_on_one_device_is_met_and_the_engine_goes_on() -> None:
    network, data = make_model("mlp"), make_data("mlp")
    two = SeveralGpus(network, ["cpu", "cpu"], threads=1)
    jobs = make_jobs(network, RECIPES["sgd"], data.clients)
    wrong = make_jobs(make_model("tanh"), RECIPES["sgd"], [1])
    with pytest.raises(ConfigError, match="starts from weights of another model"):
        two.train([jobs[0], *wrong, *jobs[2:]], data)
    assert len(two.train(jobs, data)) == len(jobs)


def test_all_are_wiped_and_described() -> None:
    network, data = make_model("mlp"), make_data("mlp")
    two = SeveralGpus(network, ["cpu", "cpu"], "not on cuda:2 (Other): why", threads=1)
    two.train(make_jobs(network, RECIPES["sgd"], data.clients), data)
    assert all(engine._placed for engine in two._engines)
    two.wipe()
    assert not any(engine._placed or engine._spare for engine in two._engines)
    told = two.describe()
    assert (told["engine"], told["device"], told["gpus"]) == ("stacked", "cpu, cpu", 2)
    assert "not on cuda:2" in str(told["reason"])


def test_a_federation_takes_all_gpus_of_the_first_ones_kind(monkeypatch: pytest.MonkeyPatch) -> None:
    names = ["H200", "H200", "T4"]
    monkeypatch.setattr(torch.cuda, "device_count", lambda: len(names))
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda i: names[i])
    assert gpus.alike() == (["cuda:0", "cuda:1"], "not on cuda:2 (T4): another kind of GPU has other bits")
    made: list[tuple[object, ...]] = []
    monkeypatch.setattr(
        "unknot.engine.SeveralGpus", lambda model, *given, **options: made.append((given, options))
    )
    make_engine("stacked", make_model("mlp"), device="cuda", rows=32)
    (devices, left_out), options = made[0]
    assert devices == ["cuda:0", "cuda:1"]
    assert "T4" in str(left_out)
    assert options == {"rows": 32}


def test_a_federation_runs_on_several_devices_as_on_one() -> None:
    data = unknot.federate(unknot.load("digits"), unknot.Iid(clients=5, samples=20), validation=50)
    recipe = unknot.Recipe(unknot.SGD(0.1), batch_size=10)
    network = unknot.models.build("mlp", tuple(data.train.x.shape[1:]), classes=10)
    ends = []
    for engine in (StackedEngine(network, threads=1), SeveralGpus(network, ["cpu", "cpu"], threads=1)):
        fed = unknot.simulate(network, data, "rfs", recipe, engine=engine)
        history = fed.run(2, requests=[unknot.erase(3, round=1)])
        ends.append(history.model)
    assert isinstance(ends[0], Weights)
    assert ends[0].equal(ends[1])
