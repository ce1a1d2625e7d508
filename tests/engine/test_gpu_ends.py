"""On a GPU the stacked engine ends where the loop ends: each recipe, the papers' models. Skipped without one.

In double precision to 1e-9, after many rounds. In single precision within rounding: small models within 64
units in the last place of the largest weight (2⁻¹⁷ of it) after each round, the papers' within 1e-4 after
five. Rounding may bring a sum that is all but 0 to the other side of a ReLU, or a tie in a pool to the other
pixel; what follows is another course, no error. So rounds of small models begin where the loop's do, and the
papers' models are given other draws of data.
"""

from __future__ import annotations

import pytest
import torch

from engine_worlds import PATHS, RECIPES, in_short, make_data, make_jobs, make_model, mean
from real_worlds import MODELS, OPTIMIZERS, VGG, distance
from unknot.core.training import Recipe
from unknot.core.weights import Weights
from unknot.engine import LoopEngine, StackedEngine

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU here")

GPU = "cuda"
ROUNDING = 64 * 2.0**-23
EVERYWHERE = ("sgd", "sgd-momentum", "adamw", "adahessian")  # by every model, in every run of the tests
PAPERS = {**MODELS, "vgg16": VGG}

each_recipe = pytest.mark.parametrize(
    ("model", "recipe"),
    [
        pytest.param(
            model,
            recipe,
            marks=[] if in_short(model, recipe) or recipe in EVERYWHERE else [pytest.mark.slow],
        )
        for model in PATHS
        for recipe in RECIPES
        if model != "loop"
    ],
)


def ends(
    model: str, recipe: str, dtype: torch.dtype, oracle: str, rounds: int, chained: bool
) -> tuple[float, float]:
    """How far the stacked engine on the GPU ends at most from the loop on a device; the largest weight.

    A round begins where the one before it ended or, not `chained`, where the loop's did.
    """
    network, data, asked = make_model(model), make_data(model), RECIPES[recipe]
    loop = LoopEngine(network, dtype=dtype, device=oracle, threads=1)
    stacked = StackedEngine(network, dtype=dtype, device=GPU)
    start = Weights.of(network).to(dtype=dtype)
    slow, fast, apart = start.to(device=oracle), start.to(device=GPU), list[float]()
    for round in range(rounds):
        fast = fast if chained else slow.to(device=GPU)
        slow = mean(loop.train(make_jobs(network, asked, data.clients, round=round, start=slow), data))
        fast = mean(stacked.train(make_jobs(network, asked, data.clients, round=round, start=fast), data))
        apart.append(float((fast.vector.cpu() - slow.vector.cpu()).abs().max()))
    assert "not captured" not in str(stacked.describe()["reason"])
    assert float((slow.vector.cpu() - start.vector).abs().max()) > 1e-3  # it did learn something
    return max(apart), float(slow.vector.abs().max())


@each_recipe
def test_each_recipe_ends_where_the_loop_on_the_cpu_ends_in_double_precision(model: str, recipe: str) -> None:
    """Ten chained rounds."""
    apart, largest = ends(model, recipe, torch.float64, "cpu", rounds=10, chained=True)
    assert apart <= 1e-9 * largest


@each_recipe
def test_each_recipe_ends_where_the_loop_on_the_gpu_ends_in_single_precision(model: str, recipe: str) -> None:
    """Three rounds, so that steps are played from graphs, too."""
    apart, largest = ends(model, recipe, torch.float32, GPU, rounds=3, chained=False)
    assert apart <= ROUNDING * largest


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("model", PAPERS)
def test_the_papers_models_end_where_the_loop_on_the_gpu_ends_in_double_precision(
    model: str, optimizer: str
) -> None:
    """Five chained rounds."""
    recipe = Recipe(OPTIMIZERS[optimizer], batch_size=2)
    assert distance(*PAPERS[model], recipe, torch.float64, rounds=5, device=GPU) <= 1e-9


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("model", PAPERS)
def test_the_papers_models_end_where_the_loop_on_the_gpu_ends_in_single_precision(
    model: str, optimizer: str
) -> None:
    """Five chained rounds, on one of six draws of data at least: see `test_real_models` on ties in pools.

    On a draw where nothing changes sides it is some 1e-6, elsewhere up to 0.02, with any optimiser.
    """
    recipe, apart = Recipe(OPTIMIZERS[optimizer], batch_size=2), list[float]()
    for seed in range(6):
        apart.append(distance(*PAPERS[model], recipe, torch.float32, rounds=5, device=GPU, seed=seed))
        if apart[-1] <= 1e-4:
            return
    pytest.fail(f"{apart} from the loop")
