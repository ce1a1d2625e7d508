"""The table of where W1's time goes: what belongs to what."""

from __future__ import annotations

import pytest
import torch

from benchmarks.profile import Clock, named, needed, section
from unknot.engine.layers.stage import Stage
from unknot.engine.ways.tiles import Tiling

POOL = ((2, 2), (2, 2), (0, 0), (1, 1))
RECORD = {
    "machine": {"date": "2026-01-02"},
    "clients": 5,
    "steps": 19,
    "runs": 3,
    "peak_gflops": 80.0,
    "step_ms": 10.0,
    "grouped_ms": 15.0,
    "needed_gflop": 0.4,
    "lines": [
        {"part": "linear layers", "ms": 4.0, "gflop": 0.16},
        {"part": "windows copied side by side", "ms": 1.0, "gflop": 0.0},
    ],
}


def test_shares_are_of_the_step_and_of_the_peak():
    text = section(RECORD)
    assert "| linear layers | 4.00 | 40 % | 0.160 | 40 | 50 % |" in text  # 0.16 GFLOP in 4 ms, of 80
    assert "| windows copied side by side | 1.00 | 10 % |  |  |  |" in text
    assert "| Python, allocation, the clients' orders | 5.00 | 50 % |" in text
    assert "needs 0.40 GFLOP, which would take 5.0 ms at the peak" in text


def test_a_step_needs_three_products_a_layer_and_two_in_the_first():
    model = torch.nn.Sequential(torch.nn.Linear(3, 5), torch.nn.Linear(5, 2))
    assert needed(model, torch.zeros(7, 3)) == 2 * (2 * 7 * 3 * 5) + 3 * (2 * 7 * 5 * 2)


@pytest.mark.parametrize(
    ("a", "b", "part"),
    [
        ((24, 37), (37, 392), "convolution 1, forward"),
        ((37, 392), (392, 24), "convolution 1, gradient of the kernels"),
        ((36, 24), (24, 392), "convolution 1, gradient of the images"),
        ((2, 9), (9, 4), "linear layers"),
    ],
)
def test_products_are_known_by_their_sizes(a, b, part):
    """LeNet-5's first stage: 36 pixels and a bias, 24 outputs, and 14×14 tiles of 2 samples each."""
    stage = Stage("w", "b", (1, 1), (2, 2), (1, 1), 1, POOL, relu=True)
    tiling = Tiling.of(stage, (6, 1, 5, 5), (1, 28, 28))
    assert tiling is not None
    with Clock(named([tiling], 2)) as clock:
        torch.bmm(torch.ones(1, *a), torch.ones(1, *b)).relu_()
    assert clock.operations == {
        part: 2 * a[0] * a[1] * b[1],
        "pools and ReLU: largest of a tile, and whose the error is": 0,
        "softmax, steps of the kernels, and other small operations": 0,
    }
    assert min(clock.seconds.values()) >= 0
