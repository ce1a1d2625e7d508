"""GPT-2: names that others know, a head that is the table of tokens, adapters inside its attention."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch

import unknot
from support import grid
from unknot.core.data import FederatedData, Samples, Shard
from unknot.core.jobs import Job
from unknot.core.keys import Key
from unknot.core.lineage import Unit
from unknot.core.training import AdaHessian, Adam, Recipe
from unknot.core.weights import Weights
from unknot.engine import LoopEngine, StackedEngine
from unknot.models.gpt2 import GPT2

TEXTS = Samples(*(torch.from_numpy(np.random.default_rng(0).integers(0, 20, (20, 8))) for _ in "xy"), 20)
DATA = FederatedData(TEXTS, {c: Shard.of(range(5 * c, 5 * c + 3 + c)) for c in range(3)}, TEXTS)


def gpt2() -> GPT2:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return GPT2(20, 8, width=16, layers=2, heads=2)


def test_parameters_have_the_names_of_transformers():
    block = ["ln_1", "attn.c_attn", "attn.c_proj", "ln_2", "mlp.c_fc", "mlp.c_proj"]
    names = ["wte.weight", "wpe.weight"]
    names += [f"h.{i}.{part}.{kind}" for i in (0, 1) for part in block for kind in ("weight", "bias")]
    names += ["ln_f.weight", "ln_f.bias"]
    assert [name for name, _ in gpt2().named_parameters()] == [f"transformer.{name}" for name in names]


def test_the_head_is_the_table_of_tokens():
    model = gpt2()
    assert model.lm_head.weight is model.transformer.wte.weight
    hidden = model.transformer(TEXTS.x)
    torch.testing.assert_close(model(TEXTS.x), hidden @ model.transformer.wte.weight.T)


RECIPES = {"adam": Recipe(Adam(0.01, eps=1e-3), 1, 4), "adahessian": Recipe(AdaHessian(0.05), 1, 4)}
TRAINED = {"whole": None, "adapters": ["c_attn", "c_proj", "c_fc"]}


@pytest.mark.parametrize(("trained", "recipe"), grid(TRAINED, RECIPES))
def test_stacked_it_is_trained_as_alone_whole_or_by_adapters(trained, recipe):
    model, targets, recipe = gpt2(), TRAINED[trained], RECIPES[recipe]
    if targets:
        unknot.lora(model, 4, targets=targets)
        assert isinstance(model.transformer.h[0].attn.c_proj, unknot.models.lora.LoraLinear)

    def jobs(dtype):
        start = Weights.of(model).to(dtype=dtype)
        return [Job(Unit(c), start, Key.root(c), recipe) for c in range(3)]

    stack = StackedEngine(model, dtype=torch.float64)
    ours = stack.train(jobs(torch.float64), DATA)
    plain = LoopEngine(model, dtype=torch.float64).train(jobs(torch.float64), DATA)
    assert stack.describe()["path"] == "batched"
    for a, b in zip(ours, plain, strict=True):
        torch.testing.assert_close(a.weights.vector, b.weights.vector, rtol=1e-9, atol=1e-9)
    company = StackedEngine(model).train(jobs(torch.float32), DATA)
    (alone,) = StackedEngine(model).train(jobs(torch.float32)[1:2], DATA)
    assert alone.weights.equal(company[1].weights)


def test_its_adapters_tell_peft_that_matrices_are_stored_the_other_way_round(tmp_path):
    def told(model):
        unknot.save_adapter(model, tmp_path)
        return json.loads((tmp_path / "adapter_config.json").read_text())["fan_in_fan_out"]

    assert told(unknot.lora(gpt2(), 2, targets=["c_fc"])) is True
    assert told(unknot.lora(gpt2(), 2, targets=["lm_head"])) is False
    own = torch.nn.ModuleDict({"c_fc": torch.nn.Linear(4, 4)})
    assert told(unknot.lora(own, 2)) is False
