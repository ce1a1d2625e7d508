"""What is written down of a run, and that writing it down changes nothing."""

import csv
import math
import sys
from dataclasses import replace
from types import ModuleType, SimpleNamespace

import pytest

from support import small_data, toy_federation
from unknot.core.errors import ConfigError
from unknot.core.requests import erase
from unknot.federation import Buffered, Costs, Round
from unknot.track import CSV, MLflow, TensorBoard, WandB, figures
from unknot.unlearn import KNOT, RFS

REQUESTS = [erase(1, round=2)]


def ran(*trackers, method=None, rounds=3, **options):
    fed = toy_federation(method or RFS(), small_data(), observers=trackers, **options)
    return fed.run(rounds, requests=REQUESTS)


def table(file):
    with file.open(encoding="utf-8", newline="") as lines:
        return list(csv.DictReader(lines))


# The table -------------------------------------------------------------------------------------


def test_the_table_has_a_line_for_every_event_in_order(tmp_path):
    history = ran(CSV(tmp_path / "run.csv"))
    lines = table(tmp_path / "run.csv")
    assert [line["event"] for line in lines] == ["round", "round", "erase", "round", "end"]
    assert [line["step"] for line in lines] == ["1", "2", "2", "3", "3"]
    for line, record in zip((one for one in lines if one["event"] == "round"), history.rounds, strict=True):
        assert float(line["validation/accuracy"]) == record.value
        assert float(line["train_loss"]) == record.train_loss
        assert float(line["simulated_seconds"]) == record.time
        assert line["costs/jobs"] == str(record.costs.jobs)
        assert (line["lane"], line["round"], line["used"]) == ("global", str(record.round), str(record.used))
    asked, (served,) = lines[2], history.served
    assert asked["request"] == "erase client 1"
    assert float(asked["before/validation/accuracy"]) == served.before["validation"].value
    assert float(asked["validation/accuracy"]) == served.after["validation"].value
    assert float(lines[-1]["test/accuracy"]) == history.scores["test"].value


def test_with_several_lanes_a_line_has_the_lanes_own_model_too(tmp_path):
    ran(CSV(tmp_path / "run.csv"), method=KNOT(clusters=2, by="random"), pace=Buffered(2, 1))
    lines = [line for line in table(tmp_path / "run.csv") if line["event"] == "round"]
    assert {line["lane"] for line in lines} == {"cluster 0", "cluster 1"}
    assert all(line["own/validation/accuracy"] for line in lines)


def test_a_federation_that_goes_on_goes_on_in_its_table(tmp_path):
    fed = toy_federation(RFS(), observers=[CSV(tmp_path / "run.csv")])
    fed.run(2)
    fed.run(1)
    assert [(line["event"], line["step"]) for line in table(tmp_path / "run.csv")] == [
        ("round", "1"),
        ("round", "2"),
        ("end", "2"),
        ("round", "3"),
        ("end", "3"),
    ]


def test_what_happened_before_an_interruption_is_in_the_table(tmp_path):
    def stop(event):
        if event.round == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        ran(CSV(tmp_path / "run.csv"), stop)
    lines = table(tmp_path / "run.csv")
    assert [line["event"] for line in lines] == ["round", "round", "end"]
    assert lines[-1]["request"] == "KeyboardInterrupt"


def test_the_table_goes_into_a_folder_that_is_there(tmp_path):
    with pytest.raises(ConfigError, match="that is a folder"):
        CSV(tmp_path)
    with pytest.raises(ConfigError, match="there is no folder"):
        CSV(tmp_path / "none" / "run.csv")


# The figures -----------------------------------------------------------------------------------


def test_what_is_no_number_is_left_out():
    record = Round("global", 1, 1, 0.5, (0,), 0.0, math.nan, 0, {"not finite": 2}, {}, Costs())
    assert "lane/global/train_loss" not in figures.lane_in(record)
    assert figures.lane_in(record)["lane/global/set_aside"] == 2
    assert figures.lane_in(replace(record, train_loss=1.5))["lane/global/train_loss"] == 1.5


def test_settings_are_flat_and_know_what_the_federation_is_made_of():
    seen = []
    watcher = SimpleNamespace(begin=seen.append)
    toy_federation(KNOT(clusters=2, by="random"), observers=[watcher], seed=4, called="net").run(1)
    found = figures.settings(seen[0])
    assert found["method.clusters"] == 2
    assert found["recipe.optimizer.lr"] == 0.01
    assert (found["model.name"], found["lanes"], found["seed"]) == ("net", 2, 4)
    assert not any(name.startswith("model.layout") for name in found)
    assert all(isinstance(value, str | int | float) for value in found.values())


# The others, against stand-ins ------------------------------------------------------------------


class Noted:
    """Stands in for anything: notes who was called with what."""

    def __init__(self, **answers):
        self.calls = []
        self.answers = answers

    def __getattr__(self, name):
        def call(*args, **options):
            self.calls.append((name, args, options))
            return self.answers.get(name)

        return call

    def named(self, name):
        return [(args, options) for called, args, options in self.calls if called == name]


def module(monkeypatch, name, **parts):
    made = ModuleType(name)
    for part, value in parts.items():
        setattr(made, part, value)
    monkeypatch.setitem(sys.modules, name, made)


def test_tensorboard_gets_curves_over_rounds_and_simulated_time(monkeypatch, tmp_path):
    writer = Noted()
    module(monkeypatch, "torch.utils.tensorboard", SummaryWriter=lambda folder: writer)
    history = ran(TensorBoard(tmp_path / "a"))
    points = [(args, options) for args, options in writer.named("add_scalar") if args[0] == "test/accuracy"]
    assert points == []  # it is watched on validation data
    points = [
        (args, options["walltime"])
        for args, options in writer.named("add_scalar")
        if args[0] == "validation/accuracy"
    ]
    assert [args for args, _ in points] == [
        ("validation/accuracy", r.value, i) for i, r in enumerate(history.rounds, 1)
    ]
    began = points[0][1] - history.rounds[0].time
    assert [at - began for _, at in points] == pytest.approx([r.time for r in history.rounds])
    ((asked, _),) = [(args, o) for args, o in writer.named("add_text") if args[0] == "requests"]
    assert asked[1].startswith("erase client 1, at round 2")
    ((hyper, options),) = writer.named("add_hparams")
    assert hyper[0]["method.name"] == "rfs"
    assert hyper[1]["final/test/accuracy"] == history.scores["test"].value
    assert options["run_name"] == "."
    assert writer.calls[-1][0] == "close"


def test_mlflow_gets_settings_metrics_tags_and_an_end(monkeypatch, tmp_path):
    client = Noted(
        get_experiment_by_name=None,
        create_experiment="7",
        create_run=SimpleNamespace(info=SimpleNamespace(run_id="r1")),
    )
    entities = SimpleNamespace(
        Param=lambda name, value: (name, value),
        Metric=lambda name, value, at, step: (name, value, at, step),
        RunTag=lambda name, text: (name, text),
    )
    made = []

    def connect(tracking_uri):
        made.append(tracking_uri)
        return client

    module(monkeypatch, "mlflow", MlflowClient=connect, entities=entities)
    tracker = MLflow(tmp_path / "ml")
    assert made == [f"sqlite:///{tmp_path / 'ml' / 'mlflow.db'}"]
    history = ran(tracker)
    ((args, options),) = client.named("create_run")
    assert (args, options["run_name"]) == (("7",), "rfs on data, seed 0")
    batches = [options for _, options in client.named("log_batch")]
    params = dict(one for batch in batches for one in batch.get("params", ()))
    assert params["method.name"] == "rfs"
    assert max(len(batch.get("params", ())) for batch in batches) <= 100
    metrics = [one for batch in batches for one in batch.get("metrics", ())]
    accuracy = [(value, step) for name, value, _, step in metrics if name == "validation/accuracy"]
    assert accuracy == [(r.value, i) for i, r in enumerate(history.rounds, 1)]
    tags = dict(one for batch in batches for one in batch.get("tags", ()))
    assert (tags["guarantee"], tags["model"]) == ("exact", history.model.digest())
    assert client.named("set_tag")[0][0][1] == "request.1"
    assert client.calls[-1][:2] == ("set_terminated", ("r1", "FINISHED"))


def test_mlflow_says_where_it_cannot_write(monkeypatch):
    def refuse(tracking_uri):
        raise OSError("nobody there\nand more")

    module(monkeypatch, "mlflow", MlflowClient=refuse, entities=None)
    with pytest.raises(ConfigError, match=r"cannot write to http://nowhere: nobody there$"):
        MLflow("http://nowhere")


@pytest.mark.parametrize(("said", "mode"), [(None, "offline"), ("online", "online")])
def test_wandb_stays_offline_unless_it_is_said_otherwise(monkeypatch, tmp_path, said, mode):
    monkeypatch.delenv("WANDB_MODE", raising=False)
    if said:
        monkeypatch.setenv("WANDB_MODE", said)
    run = Noted()
    run.dir = str(tmp_path / "offline-run" / "files")
    run.summary = {}
    wandb = Noted(init=run)
    module(monkeypatch, "wandb", init=wandb.init, Settings=dict)
    history = ran(WandB("project", tmp_path))
    ((_, options),) = wandb.named("init")
    assert (options["project"], options["mode"]) == ("project", mode)
    assert options["config"]["method"]["name"] == "rfs"
    logged = [
        (args[0]["validation/accuracy"], options["step"])
        for args, options in run.named("log")
        if "validation/accuracy" in args[0]
    ]
    assert logged == [(r.value, i) for i, r in enumerate(history.rounds, 1)]
    assert run.summary["guarantee"] == "exact"
    assert run.summary["requests"][0].startswith("erase client 1")
    assert run.named("finish") == [((), {"exit_code": 0})]


@pytest.mark.parametrize(
    ("made", "package", "extra"),
    [
        (TensorBoard, "torch.utils.tensorboard", "tensorboard"),
        (MLflow, "mlflow", "mlflow"),
        (WandB, "wandb", "wandb"),
    ],
)
def test_a_missing_package_is_named_before_anything_is_trained(monkeypatch, tmp_path, made, package, extra):
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(ConfigError, match=rf"pip install -e '\.\[{extra}\]'"):
        made(str(tmp_path / "a"))
    assert not (tmp_path / "a").exists()


def test_two_runs_do_not_share_a_folder_of_tensorboard(monkeypatch, tmp_path):
    module(monkeypatch, "torch.utils.tensorboard", SummaryWriter=None)
    (tmp_path / "events.out.tfevents.1").touch()
    with pytest.raises(ConfigError, match="holds a run already"):
        TensorBoard(tmp_path)
    (tmp_path / "file").touch()
    with pytest.raises(ConfigError, match="cannot make the folder"):
        TensorBoard(tmp_path / "file" / "a")


def test_writing_a_run_down_changes_nothing_of_it(tmp_path):
    tracked, plain = ran(CSV(tmp_path / "run.csv")), ran()
    tracked.ended = replace(tracked.ended, seconds=plain.seconds)
    assert tracked.to_dict() == plain.to_dict()
