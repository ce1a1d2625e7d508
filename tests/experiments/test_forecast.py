"""What a run would do, told without training, is what the run does."""

import tomllib

import pytest

from unknot.core.errors import ConfigError, RequestError
from unknot.engine import LoopEngine
from unknot.experiments import Experiment, run
from unknot.experiments.forecast import PROBE_JOBS, PROBE_STEPS, forecast
from unknot.experiments.starter import starter
from unknot.federation import Federation
from unknot.unlearn import METHODS

SMALL = (
    "data.clients=4",
    "data.samples=20",
    "federation.rounds=4",
    "federation.per_round=2",
    "engine.name=loop",
)


def experiment(method="rfs", *overrides, requests="[{erase=1, round=2}]"):
    return Experiment.of(tomllib.loads(starter(method)), [*SMALL, f"request={requests}", *overrides])


@pytest.mark.parametrize("method", METHODS)
def test_jobs_time_and_bytes_are_those_of_the_run(method):
    asked = experiment(method, *(["method.clusters=2"] if method in ("knot", "fedcio") else []))
    told, done = forecast(asked), run(asked)
    assert told.jobs == done.costs.jobs
    assert told.client_epochs == done.costs.client_epochs
    assert told.rounds == len(done.rounds)
    assert told.simulated_seconds == done.time
    assert told.bytes_sent == done.costs.bytes_down + done.costs.bytes_up
    assert told.bytes_kept == max(record.costs.bytes_stored for record in done.rounds)
    assert told.method == {"name": method, "guarantee": done.guarantee}
    assert [one.time for one in told.requests] == [one.time for one in done.served]


def test_requests_that_come_too_late_are_told():
    requests = "[{erase=1, round=2}, {erase=2, round=4}, {erase=3, time=1e6}]"
    told = forecast(experiment(requests=requests))
    assert [(one.served, one.rounds_left) for one in told.requests] == [(True, 2), (True, 0), (False, None)]
    assert told.requests[2].request == "erase client 3 at 1e+06 s"


def test_what_a_run_refuses_is_refused():
    with pytest.raises(RequestError, match="cannot erase client 9"):
        forecast(experiment(requests="[{erase=9, round=1}]"))
    with pytest.raises(ConfigError, match="needs inputs of the server's own"):
        forecast(experiment("distillation", "data.public=0"))
    with pytest.raises(ConfigError, match="per_round = 20"):
        forecast(experiment("rfs", "federation.per_round=20"))


def test_only_a_probe_is_trained(monkeypatch):
    calls = []
    train = LoopEngine.train

    def counted(self, jobs, data):
        calls.append([job.recipe.steps(len(job.shard(data))) for job in jobs])
        return train(self, jobs, data)

    monkeypatch.setattr(LoopEngine, "train", counted)
    forecast(experiment("rfs", "federation.rounds=50", "train.epochs=20"))
    assert len(calls) == 2
    assert all(len(steps) <= PROBE_JOBS and max(steps) <= PROBE_STEPS for steps in calls)


def test_data_and_model_are_told():
    told = forecast(experiment()).to_dict()
    assert told["data"] == {
        "name": "digits",
        "clients": 4,
        "samples": 80,
        "smallest": 20,
        "median": 20,
        "largest": 20,
        "validation": 800,
        "test": 2000,
    }
    plain = {"path": None, "frozen": 0, "base": None, "adapters": None}
    assert told["model"] == {"name": "mlp", "parameters": 63610, "bytes": 4 * 63610, **plain}
    assert told["engine"]["path"] == "loop"
    assert told["seconds"] > 0
    assert told["bytes_memory"] > told["bytes_kept"] == 4 * 63610
    assert not told["at_most"]


def test_a_run_with_a_goal_takes_at_most_that_long():
    told = forecast(experiment("rfs", "federation.accuracy=0.1", "task.metrics=['accuracy']"))
    assert (told.at_most, told.rounds) == (True, 4)


def test_what_depends_on_what_is_learned_is_said_to_be_an_estimate():
    assert forecast(experiment("exact-fun")).estimated
    assert not forecast(experiment("exact-fun", requests="[]")).estimated
    assert not forecast(experiment("rfs")).estimated


@pytest.mark.parametrize(("method", "times"), [("rfs", 1), ("federaser", 2)])
def test_a_run_is_gone_through_once_unless_more_than_models_is_kept(method, times, monkeypatch):
    calls, go = [], Federation.run
    monkeypatch.setattr(Federation, "run", lambda *args, **more: calls.append(args) or go(*args, **more))
    forecast(experiment(method))
    assert len(calls) == times
