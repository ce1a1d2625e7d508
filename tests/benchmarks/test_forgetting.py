"""What the benchmark of forgetting makes of its runs, and that one of them runs."""

import json

import pytest

from benchmarks import forgetting


def row(after, **more):
    return {"backdoor_after": after, "regained": 1.0, "client_epochs": 4.0, **more}


def test_the_table_has_means_and_what_lies_between():
    runs = {
        "a": [row(0.5), row(0.7)],
        "b": [row(0.25), {"backdoor_after": 0.25, "regained": 0.0}],
        "c": [{"backdoor_after": 0.0, "regained": 0.0}],
        "d": [{"backdoor_before": 1.0}],
    }
    head, _, *lines = forgetting.table(runs).splitlines()
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    names = [cell.strip() for cell in head.strip("|").split("|")]
    after, epochs = 2, names.index("client epochs to forget and regain")
    assert [line[after] for line in cells] == ["60.0 (50.0 to 70.0)", "25.0", "0.0", "–"]
    assert [line[epochs] for line in cells] == ["4", "4, in 1 of 2 seeds", "not regained", "–"]


def test_a_small_run_is_measured_and_written(tmp_path, monkeypatch, capsys):
    for name, value in {"CLIENTS": 4, "SAMPLES": 40, "PUBLIC": 50, "BEFORE": 2, "AFTER": 2}.items():
        monkeypatch.setattr(forgetting, name, value)
    few = ("the client stays", "it leaves, nothing else", "PGA")
    monkeypatch.setattr(forgetting, "METHODS", {name: forgetting.METHODS[name] for name in few})
    assert (
        forgetting.main(["--data", "digits", "--model", "mlp", "--seeds", "0", "--out", str(tmp_path)]) == 0
    )
    record = json.loads((tmp_path / "forgetting.json").read_text())
    stays, leaves, climbs = (record["runs"][name][0] for name in few)
    assert "backdoor_after" not in stays
    assert leaves["backdoor_after"] == leaves["backdoor_before"] == stays["backdoor_before"]
    assert leaves["accuracy_after"] == leaves["accuracy_before"]
    assert [row["epochs_before"] for row in (stays, leaves, climbs)] == [16, 16, 16]
    assert [row["upkeep"] for row in (stays, leaves, climbs)] == [1, 1, 1]
    kept = [row["models_kept"] for row in (stays, leaves, climbs)]
    assert kept == pytest.approx([1, 1, 6], abs=1e-3)  # shares of samples are kept beside what was sent
    assert climbs["backdoor_before"] == leaves["backdoor_before"]
    table = capsys.readouterr().out
    assert table.strip() in (tmp_path / "forgetting.md").read_text()
