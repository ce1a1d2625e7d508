"""The pages on GPUs say what their record says; what is measured is what they say it is."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from benchmarks import gpu, parts
from benchmarks.gpu_cohorts import BATCH, SAMPLES
from benchmarks.gpu_pages import price_part, profile_part, share_of_peak, speed_part, write_pages

DOCS = Path(__file__).parents[2] / "docs"
PROFILE = {
    "ms": 5.0,
    "at_work": {"data": 0.5, "convolution": 0.0, "linear": 1.0, "step": 0.25, "results": 0.25},
    "idle": {"before": 1.5, "between": 0.5, "after": 1.0},
    "cpu": {"launches": 1.0, "copies": 0.5, "waits": 0.5, "python": 3.0},
}
CELL = {
    "ms": 4.0,
    "ms_first": 1500.0,
    "goal": 4.0,
    "loop_ms": 2518.0,
    "floor_bytes_ms": 0.5,
    "floor_operations_ms": 0.25,
    "gpu_ms": {"busy": 2.0},
    "profile": PROFILE,
    "first_round": {"ms": 912.3, "trials_ms": 700.1},
}


def told() -> dict[str, Any]:
    """The record of a GPU that there is not, with all parts that one may have."""
    cohorts = [f"{name}, {clients} clients" for name in ("mlp", "lenet5") for clients in (100, 1000)]
    record: dict[str, Any] = {"gpu": "a GPU", "torch": "2.11.0", "precision": "float32"}
    record |= dict.fromkeys(cohorts, CELL)
    record["lenet5, 1000 clients"] = {**CELL, "goal": 3.0}
    for name in ("mlp", "lenet5"):
        record[f"{name}, judging"] = {"alone": 3.0, "among 20": 2.0, "loop": 9.0}
        record[f"{name}, MMT"] = {"fedavg_ms": 8.0, "mmt_ms": 13.0, "times": 1.62, "goal": 1.5}
    record["price"] = {"vgg16, 8 clients, loop": {"same_bits_ms": 640.0, "free_ms": 512.0, "times": 1.25}}
    record["lowered"] = {"precision": "bf16", **{cohort: {"ms": 7.0} for cohort in cohorts}}
    spread = {"mean": 0.9616, "deviation": 0.0046}
    record["agreement"] = {"cpu": spread, "cuda": spread, "furthest_apart": 0.0025, "seeds": 5}
    setting = {"clients": 4, "samples": 5000, "batch": 256, "epochs": 5, "momentum": 0.9}
    setting |= {"norm": "none", "precision": "tf32"}
    an_hour = {"stacked": {"clients_an_hour": 9000}, "loop": {"clients_an_hour": 4500}}
    record["vgg16"] = {"setting": setting, **an_hour}
    record["large"] = {
        "clients": 10_000,
        "a_round": 1000,
        "rounds": 100,
        "seconds": 12.18,
        "ms_a_round": 121.8,
        "share_not_training": 0.218,
        "goal": 0.1,
        "memory_gb": 23.0,
    }
    return record


@pytest.mark.parametrize(
    ("page", "part", "text"),
    [
        ("benchmarks.md", "gpu", profile_part),
        ("gpu.md", "price", price_part),
        ("gpu.md", "speed", speed_part),
    ],
)
def test_the_pages_have_the_figures_of_the_record(page, part, text):
    record = json.loads((DOCS / "results" / "gpu.json").read_text(encoding="utf-8"))
    there = (DOCS / page).read_text(encoding="utf-8")
    assert parts.put(there, part, text(record)) == there


def test_a_record_is_told_in_both_pages(tmp_path):
    (tmp_path / "results").mkdir()
    (tmp_path / "results" / "gpu.json").write_text(json.dumps(told()))
    write_pages(tmp_path)
    written = (tmp_path / "benchmarks.md").read_text(encoding="utf-8")
    assert "| | MLP 784-80-10, 100 clients | MLP 784-80-10, 1,000 clients | LeNet-5, 100 clients |" in written
    assert "| **GPU at work** | 2.0 | 2.0 | 2.0 | 2.0 |" in written
    assert "| **GPU idle** | 3.0 | 3.0 | 3.0 | 3.0 |" in written
    written = (tmp_path / "gpu.md").read_text(encoding="utf-8")
    assert "| VGG-16, 8 clients, loop | 640.0 | 512.0 | 1.25 |" in written
    assert "912 (700), 912 (700), 912 (700), 912 (700) ms" in written


def test_the_page_names_goals_and_what_misses_them():
    page = speed_part(told())
    assert "| LeNet-5, 100 clients | 4.0 | 4 | 2.0 | 12 % | 2,518 | 0.5 |" in page
    assert "| LeNet-5, 1,000 clients | 4.0 | 3, missed | 2.0 | 12 % | 2,518 | 0.5 |" in page
    assert "× FedAvg: MLP | 1.62: 13.0 ms a round against 8.0 | 1.5, missed |" in page
    # 121.8 ms times 0.218, over 1,000 clients.
    assert "| of that not training | 22 %: 27 µs a client" in page
    assert "| 10 %, missed |" in page
    assert share_of_peak(CELL) == 0.125


def test_the_page_tells_all_parts_of_a_record_and_leaves_out_what_was_not_measured():
    page = speed_part(told())
    assert f"an epoch of {SAMPLES} samples for every client of a cohort, batches of {BATCH}," in page
    # 10,000 clients with 600 samples of 784 numbers of 4 bytes.
    assert "12 s, 122 ms a round; 23 GB, 19 of them the samples" in page
    assert "MLP 3.0 alone, 2.0 among 20, 9.0 by the loop" in page
    assert "MLP, 1,000 clients 7.0 (float32: 4.0)" in page
    assert "96.2 ± 0.5 % on a CPU, 96.2 ± 0.5 % on the GPU; at most 0.25 points apart" in page
    assert (
        "5,000 images of 32×32 a client, batches of 256, momentum 0.9, norm 'none', precision 'tf32'" in page
    )
    assert "9,000; the plain loop 4,500: one epoch of 4 clients was measured, and taken 5 times" in page
    assert "`python -m benchmarks.gpu --vgg --agree --price --lowered --large 100`" in page
    few = {key: part for key, part in told().items() if key not in ("vgg16", "large", "lowered", "agreement")}
    page = speed_part(few)
    assert "`python -m benchmarks.gpu --price`" in page
    assert not any(word in page for word in ("VGG", "not training", "bf16", "accuracy"))


def test_vgg_is_measured_as_the_figure_has_it():
    asked = gpu.figure_5()
    assert (asked.model.name, asked.model.options["norm"]) == ("vgg16", "none")
    assert (asked.data.name, asked.data.partition.samples) == ("cifar10", 5000)
    recipe = asked.setup.recipe
    assert (recipe.batch_size, recipe.epochs, recipe.optimizer.momentum) == (256, 5, 0.9)
    assert asked.engine.options == {"precision": "bf16"}


def test_bfloat16_stands_beside_float32_alone(monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["gpu", "--lowered", "--precision", "tf32", "--device", "cpu"])
    with pytest.raises(SystemExit):
        gpu.main()
    assert "leave --precision out" in capsys.readouterr().err
