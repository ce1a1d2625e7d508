"""Whom to ask where each client has mostly one class: the page has the figures of its record."""

import json
from pathlib import Path

import numpy as np
import pytest

from benchmarks import selection

DOCS = Path(__file__).parents[2] / "docs"
LABELS = {
    "at random": "at random",
    "balanced": "balanced",
    "K-Center": "K-Center, 10 groups",
    "DQN, episode 1": "DQN",
    "DQN, episode 40": "DQN, in its 40th episode",
    "everybody": "everybody, the ceiling",
}


def _table() -> str:
    page = (DOCS / "selection.md").read_text(encoding="utf-8")
    return page.split("| | 10 a round | 5 a round |")[1].split("\n\n")[0]


@pytest.mark.parametrize(("column", "asked"), [(1, "--per-round 10 "), (2, "--per-round 5 ")])
def test_the_page_has_the_figures_of_the_record(column, asked):
    records = json.loads((DOCS / "results" / "selection.json").read_text(encoding="utf-8"))
    (record,) = (record for command, record in records.items() if asked in command)
    assert record["clean"]
    assert record["commit"]
    rows = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in _table().splitlines()
        if line.startswith("| ")
    ]
    shown = {row[0]: row[column] for row in rows if len(row) == 3 and row[column]}
    for label, values in record["found"].items():
        if column == 2 and label == "everybody":
            continue  # the same runs
        spread = f"{100 * min(values):.1f} to {100 * max(values):.1f}"
        assert shown[LABELS[label]] == f"{100 * np.mean(values):.1f} % ({spread})"


def test_with_ten_seats_balanced_is_level_with_everybody_in_each_seed():
    records = json.loads((DOCS / "results" / "selection.json").read_text(encoding="utf-8"))
    (found,) = (record["found"] for command, record in records.items() if "--per-round 10 " in command)
    apart = np.subtract(found["balanced"], found["everybody"])
    assert np.abs(apart).max() < 0.005


def test_a_record_is_measured_and_written(tmp_path, monkeypatch, capsys):
    for name, value in {"ROUNDS": 2, "CLIENTS": 6, "SAMPLES": 20}.items():
        monkeypatch.setattr(selection, name, value)
    file = tmp_path / "record.json"
    asked = ["--data", "digits", "--per-round", "3", "--episodes", "2", "--seeds", "0", "--record", str(file)]
    assert selection.main(asked) == 0
    ((command, record),) = json.loads(file.read_text(encoding="utf-8")).items()
    assert command == "python -m benchmarks.selection --data digits --per-round 3 --episodes 2 --seeds 0"
    assert set(record["found"]) == {
        "at random",
        "balanced",
        "K-Center",
        "everybody",
        "DQN, episode 1",
        "DQN, episode 2",
    }
    assert "at random" in capsys.readouterr().out
