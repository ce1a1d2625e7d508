"""Products may be rounded to bfloat16; weights, losses and everybody's bits keep what they have."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from engine_worlds import RECIPES, make_data, make_jobs, make_model, own_start, same
from unknot.core.errors import ConfigError
from unknot.core.keys import Key
from unknot.core.weights import Weights
from unknot.engine import StackedEngine, make_engine
from unknot.experiments.config import Experiment


@pytest.mark.parametrize(
    ("model", "path"), [("mlp", "batched"), ("lenet", "batched"), ("vmap", "vmap"), ("loop", "loop")]
)
def test_company_changes_no_bit_of_products_in_bfloat16(model: str, path: str) -> None:
    network, data = make_model(model), make_data(model)
    engine = StackedEngine(network, precision="bf16", threads=1)
    jobs = [own_start(job) for job in make_jobs(network, RECIPES["sgd-momentum"], data.clients)]
    whole = engine.train(jobs, data)
    order = Key.root(0).order(range(len(jobs)))[:4]
    for i, update in zip(order, engine.train([jobs[i] for i in order], data), strict=True):
        assert same(update, whole[i])
    assert engine.describe()["path"] == path
    assert engine.describe()["dtype"] == "float32, products in bfloat16"


def test_weights_stay_in_float32_and_end_near_those_of_full_products() -> None:
    network, data = make_model("tanh"), make_data("tanh")
    jobs = make_jobs(network, RECIPES["sgd-momentum"], data.clients)
    for low, full in zip(
        StackedEngine(network, precision="bf16", threads=1).train(jobs, data),
        StackedEngine(network, threads=1).train(jobs, data),
        strict=True,
    ):
        assert low.weights.vector.dtype == torch.float32
        apart = float((low.weights.vector - full.weights.vector).abs().max())
        assert 0 < apart < 0.01 * float((full.weights.vector - full.job.start.vector).abs().max())


def test_models_are_judged_by_the_products_that_they_are_trained_by() -> None:
    """A product of 1 + 2⁻¹⁰ with 1 is 1 in bfloat16, which keeps 8 bits."""
    network = nn.Sequential(nn.Flatten(), nn.Linear(49, 3, bias=False))
    data = make_data("mlp")
    weights = Weights.of(network)
    first = torch.arange(len(weights.vector)) == 0
    fine, coarse = (weights.like(torch.where(first, size, 0.0)) for size in (1 + 2**-10, 1.0))
    low, full = StackedEngine(network, precision="bf16", threads=1), StackedEngine(network, threads=1)
    assert torch.equal(low.predict(fine, data.test), low.predict(coarse, data.test))
    assert not torch.equal(full.predict(fine, data.test), full.predict(coarse, data.test))


def test_fused_says_why_it_is_not_taken() -> None:
    network = make_model("mlp")
    assert "not fused: its products are in float32" in str(
        StackedEngine(network, precision="bf16").describe()["reason"]
    )
    with pytest.raises(ConfigError, match="path 'fused' cannot run this model: its products are in float32"):
        StackedEngine(network, precision="bf16", path="fused")


def test_a_precision_that_there_is_not_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"precision is 'bf61'\. Did you mean 'bf16'"):
        StackedEngine(make_model("mlp"), precision="bf61")
    with pytest.raises(
        ConfigError, match="'bf16', which rounds products of float32 numbers, and dtype is 'fl"
    ):
        StackedEngine(make_model("mlp"), precision="bf16", dtype=torch.float64)
    with pytest.raises(ConfigError, match=r"no option 'tf32'.*precision"):
        make_engine("stacked", make_model("mlp"), tf32=True)


def test_the_old_flag_is_refused_by_the_new_name() -> None:
    with pytest.raises(ConfigError, match=r'engine\.tf32 .* write precision = "tf32"'):
        Experiment.of({"engine": {"tf32": True}})
    made = Experiment.of({"engine": {"precision": "bf16"}})
    assert made.engine.options == {"precision": "bf16"}


class Scatters(nn.Module):
    """Adds what it has computed to numbers that are in float32."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(49, 3)

    def forward(self, x: Tensor) -> Tensor:
        y = self.layer(x.flatten(1))
        return x.new_zeros(len(x), 3).index_add(0, torch.arange(len(x)), y)


def test_a_model_that_cannot_do_with_bfloat16_is_refused_before_it_is_trained() -> None:
    data = make_data("mlp")
    StackedEngine(Scatters(), threads=1).examine(data.train)
    with pytest.raises(ConfigError, match='precision is "bf16", and the model cannot be run'):
        StackedEngine(Scatters(), precision="bf16", threads=1).examine(data.train)
