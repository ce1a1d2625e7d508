"""The stacked engine gives what the loop gives, for every model and optimiser, over chained rounds."""

from __future__ import annotations

import pytest
import torch

from engine_worlds import PATHS, RECIPES, make_data, make_jobs, make_model, mean
from unknot.core.weights import Weights
from unknot.engine import LoopEngine, StackedEngine

SIZES = (7, 1, 9, 4, 2)  # one sample; less than a batch; a whole batch; smaller last batches
TOLERANCE = {torch.float64: 1e-9, torch.float32: 1e-4}


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=["f64", "f32"])
@pytest.mark.parametrize("recipe", RECIPES)
@pytest.mark.parametrize("model", [name for name in PATHS if name != "loop"])
def test_ten_rounds_end_where_the_loop_ends(model: str, recipe: str, dtype: torch.dtype) -> None:
    network, data = make_model(model), make_data(model, SIZES)
    loop = LoopEngine(network, dtype=dtype, threads=1)
    stacked = StackedEngine(network, dtype=dtype, threads=2)
    start = slow = fast = Weights.of(network).to(dtype=dtype)
    for round in range(10):
        expected = loop.train(
            make_jobs(network, RECIPES[recipe], data.clients, round=round, start=slow), data
        )
        given = stacked.train(
            make_jobs(network, RECIPES[recipe], data.clients, round=round, start=fast), data
        )
        slow, fast = mean(expected), mean(given)
    scale = slow.vector.abs().max()
    assert (slow.vector - start.vector).abs().max() > 0.02 * scale  # it did learn something
    assert (fast.vector - slow.vector).abs().max() <= TOLERANCE[dtype] * scale
    for a, b in zip(expected, given, strict=True):
        assert b.loss == pytest.approx(a.loss, rel=TOLERANCE[dtype])
        assert b.samples == a.samples
        assert b.lineage == a.lineage
