"""The page on GPUs says what its record says."""

from __future__ import annotations

import json
from pathlib import Path

from benchmarks.gpu import rows

DOCS = Path(__file__).parents[2] / "docs"


def test_the_page_has_the_figures_of_the_record():
    record = json.loads((DOCS / "results" / "gpu.json").read_text(encoding="utf-8"))
    page = (DOCS / "gpu.md").read_text(encoding="utf-8")
    assert "\n".join(rows(record)) in page
    large, vgg = record["large"], record["vgg16"]
    for figure in (
        f"{record['mlp, MMT']['times']} (MLP), {record['lenet5, MMT']['times']} (LeNet-5)",
        f"{vgg['stacked']['clients_an_hour']:,}; the plain loop {vgg['loop']['clients_an_hour']:,}",
        f"{large['ms_a_round']:.0f} ms a round",
        f"{100 * large['share_not_training']:.0f} % is not training",
    ):
        assert figure in page
