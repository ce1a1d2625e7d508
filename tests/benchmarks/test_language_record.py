"""What ``benchmarks.language`` writes into the page on GPUs, from a made record."""

from __future__ import annotations

from benchmarks.language import floor, make_data, make_model, page
from unknot.models.llama import LlamaConfig


def test_the_page_has_a_row_a_cohort_and_says_what_missed_its_goal():
    cell = {
        "floor": 0.01,
        "memory_gb": 5.4,
        "first": 9.0,
        "gpu_ms": {"busy": 500.0, "attend": 70.0},
        "rows_refused": [],
    }
    record = {
        "gpu": "G",
        "torch": "T",
        "samples": 497,
        "tokens": 56,
        "alone": 3.0,
        "cohorts": {
            "8": {**cell, "seconds": 0.5, "goal": 0.6},
            "32": {**cell, "seconds": 2.5, "goal": 2.0, "first": 12.0, "rows_refused": [32]},
        },
    }
    text = page(record)
    assert "| 8 clients | 0.50 | 0.6 | 0.50 | 24.0 | 48 | 0.01 | 5.4 GB |" in text
    assert "| MMT's 32 jobs for 8 clients | 2.50 | 2.0 (missed) | 0.50 | 96.0 | 38 | 0.01 | 5.4 GB |" in text
    assert "| `attend` | 70 |" in text
    assert "took 12 s with 32 clients. By trial, stacks of 32 rows would have had other bits" in text


def test_the_floor_counts_every_number_of_the_base_but_the_tokens_table_twice_forward_and_twice_backward():
    config = LlamaConfig(200, 16, 1, 2, 1, 24, 8)
    model = make_model(config)
    # By hand: queries 16·16, keys and values 16·8 each, out 16·16, three of 16·24, three norms of 16.
    base = 16 * 16 + 2 * 16 * 8 + 16 * 16 + 3 * 16 * 24 + 3 * 16
    assert floor(model, 3, samples=10) == 4 * base * 10 * 56 * 3 / 990e12
    assert len(make_data(2, 200, 10).train) == 20
