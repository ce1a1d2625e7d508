"""The page on kept runs says of their cost what the record says."""

from __future__ import annotations

import copy
import json
from pathlib import Path

import pytest

pytest.importorskip("cryptography")

from benchmarks.kept import history_rows, rows

DOCS = Path(__file__).parents[2] / "docs"


@pytest.fixture(scope="module")
def found():
    record = json.loads((DOCS / "results" / "kept.json").read_text(encoding="utf-8"))
    return record["python -m benchmarks.kept"]["found"]


@pytest.fixture(scope="module")
def page():
    return (DOCS / "runs.md").read_text(encoding="utf-8")


def test_the_page_has_the_figures_of_the_record(found, page):
    assert "\n".join(rows(found)) in page
    assert "\n".join(history_rows(found)) in page


def test_a_record_with_other_figures_would_not_fit_the_page(found, page):
    other = copy.deepcopy(found)
    for repeat in other["W2"]["repeats"]:
        repeat["ratio"] += 0.3
    assert "\n".join(rows(other)) not in page
    other = copy.deepcopy(found)
    other["histories"]["fats"]["ratio"] += 0.1
    assert "\n".join(history_rows(other)) not in page


def test_to_keep_a_run_costs_no_more_than_was_set_as_the_goal(found):
    assert found["W1"]["ratio"] < 1.03
    assert found["W2"]["ratio"] < 1.10
    assert max(one["seconds"] for one in found["resume"]) < 10


def test_so_do_its_sentences(found, page):
    text = " ".join(page.split())
    for name, told in (("W1", "six"), ("W2", "two")):
        middle = found[name]["ratio"]
        quartiles = [turn for one in found[name]["repeats"] for turn in one["turns"]["wall"]]
        most = 100 * max(abs(turn / middle - 1) for turn in quartiles)
        assert round(most) == {"six": 6, "two": 2}[told]
    assert "half of the single turns lie within some six in a hundred of that for W1, two for W2" in text
    parts = [one["checkpoints_ms"][0] / 5000 for name in ("W1", "W2") for one in found[name]["repeats"]]
    assert max(parts) < 0.01
    assert "Checkpoints are less than 1 % of the time in both" in text
    early, late = found["resume"]
    assert (early["rounds"], late["rounds"]) == (5, 50)
    told = f"{early['seconds']:.1f} s after five rounds of each, {late['seconds']:.1f} s after fifty"
    assert f"10,000 clients in 100 clusters takes {told}" in text
    assert max(one["plain_s"] for one in found["histories"].values()) <= 0.25
    assert "a quarter of a second or less without a folder" in text
