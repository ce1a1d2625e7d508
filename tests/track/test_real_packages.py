"""The same, read back with the packages themselves, where they are installed."""

import pytest

from support import toy_federation
from unknot.core.requests import erase
from unknot.track import MLflow, TensorBoard, WandB
from unknot.unlearn import KNOT


def ran(*trackers):
    fed = toy_federation(KNOT(clusters=2, by="random"), observers=trackers, evaluate_on=("test",))
    history = fed.run(3, requests=[erase(1, round=2)])
    assert not history.set_aside_observers
    return history


def test_tensorboard_reads_what_was_written(tmp_path):
    pytest.importorskip("tensorboard", reason="pip install -e '.[tensorboard]'")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    history = ran(TensorBoard(tmp_path))
    found = EventAccumulator(str(tmp_path)).Reload()
    points = [(point.step, point.value) for point in found.Scalars("test/accuracy")]
    assert points == [(i, pytest.approx(r.value)) for i, r in enumerate(history.rounds, 1)]
    of_lane = [(point.step, point.value) for point in found.Scalars("lane/cluster 0/train_loss")]
    mine = [r for r in history.rounds if r.lane == "cluster 0"]
    assert of_lane == [(r.round, pytest.approx(r.train_loss)) for r in mine]
    assert found.Scalars("final/test/accuracy")[0].value == pytest.approx(history.scores["test"].value)
    (asked,) = found.Tensors("requests/text_summary")
    assert asked.tensor_proto.string_val[0].decode().startswith("erase client 1")
    assert "_hparams_/session_start_info" in found.summary_metadata


@pytest.mark.slow
def test_mlflow_reads_what_was_written(tmp_path):
    mlflow = pytest.importorskip("mlflow", reason="pip install -e '.[mlflow]'")
    history = ran(MLflow(tmp_path))
    client = mlflow.MlflowClient(f"sqlite:///{tmp_path / 'mlflow.db'}")
    (run,) = client.search_runs([client.get_experiment_by_name("unknot").experiment_id])
    assert run.info.status == "FINISHED"
    assert run.data.params["method.clusters"] == "2"
    assert run.data.tags["model"] == history.model.digest()
    assert run.data.tags["request.1"].startswith("erase client 1")
    points = client.get_metric_history(run.info.run_id, "test/accuracy")
    assert [(point.step, point.value) for point in points] == [
        (i, r.value) for i, r in enumerate(history.rounds, 1)
    ]


@pytest.mark.slow
def test_wandb_writes_a_run_and_sends_nothing(tmp_path, monkeypatch):
    pytest.importorskip("wandb", reason="pip install -e '.[wandb]'")
    monkeypatch.delenv("WANDB_MODE", raising=False)
    ran(WandB("project", tmp_path))
    (folder,) = tmp_path.glob("wandb/offline-run-*")
    (file,) = folder.glob("run-*.wandb")
    written = file.read_bytes()
    for text in (b"test/accuracy", b"lane/cluster 0/train_loss", b"erase client 1", b"guarantee"):
        assert text in written
