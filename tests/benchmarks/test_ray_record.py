"""The page on Ray says what its record says."""

from __future__ import annotations

import json
from pathlib import Path

from benchmarks.ray import MOST, rows

DOCS = Path(__file__).parents[2] / "docs"


def test_the_page_has_the_figures_of_the_record():
    record = json.loads((DOCS / "results" / "ray.json").read_text(encoding="utf-8"))
    page = (DOCS / "ray.md").read_text(encoding="utf-8")
    assert "\n".join(rows(record)) in page
    assert all(found["same_bits"] and not found["lost"] for found in record.values())
    assert f"the goal was {MOST}" in page
