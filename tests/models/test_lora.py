"""Adapters: what they are put on, what is trained, that stacks of them are as each alone, PEFT's files."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch
from torch import nn

import unknot
from unknot.audit import interference
from unknot.core.base import trained
from unknot.core.data import FederatedData, Samples, Shard
from unknot.core.errors import ConfigError
from unknot.core.jobs import Job
from unknot.core.keys import Key
from unknot.core.lineage import Unit
from unknot.core.training import AdaHessian, Adam, Recipe
from unknot.core.weights import Weights
from unknot.engine import LoopEngine, StackedEngine
from unknot.models import build

DRAWN = np.random.default_rng(0)
TEXTS = Samples(*(torch.from_numpy(DRAWN.integers(0, 20, (40, 12))) for _ in "xy"), 20)
DATA = FederatedData(TEXTS, {c: Shard.of(range(10 * c, 10 * c + 7 + c)) for c in range(4)}, TEXTS)


def language_model(**options) -> nn.Module:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = build("gpt", (12,), 20, layers=2, heads=2, width=16)
    return unknot.lora(model, **({"rank": 4, "targets": ["qkv", "0"]} | options))


def jobs(model, dtype=torch.float32, clients=range(4), recipe=None):
    start, recipe = Weights.of(model).to(dtype=dtype), recipe or Recipe(Adam(0.01), 2, 4)
    return [Job(Unit(c), start, Key.root(c), recipe) for c in clients]


def test_a_model_begins_as_it_was_and_only_adapters_are_trained():
    with torch.random.fork_rng():
        torch.manual_seed(0)
        plain = build("gpt", (12,), 20, layers=2, heads=2, width=16)
    model = language_model()
    assert torch.equal(model(TEXTS.x[:3]), plain(TEXTS.x[:3]))
    names = [
        f"blocks.{i}.{part}.lora_{m}.weight"
        for i in (0, 1)
        for part in ("attention.qkv", "mlp.0")
        for m in "AB"
    ]
    assert list(trained(model)) == names
    assert Weights.of(model).layout.size == 2 * 4 * (16 + 48 + 16 + 64)


def test_starts_are_drawn_by_the_layers_name_and_the_seed():
    one, other = language_model(), language_model(seed=1)
    assert Weights.of(language_model()).equal(Weights.of(one))
    assert not Weights.of(other).equal(Weights.of(one))
    a, b = (one.blocks[i].attention.qkv.lora_A.weight for i in (0, 1))
    assert not torch.equal(a, b)
    assert a.abs().max() <= 1 / 4 < 1.2 * a.abs().max()
    few = language_model(targets=r"blocks\.1\.attention\.qkv")
    assert torch.equal(few.blocks[1].attention.qkv.lora_A.weight, b)


@pytest.mark.parametrize("path", ["auto", "loop"])
@pytest.mark.parametrize("recipe", [Recipe(Adam(0.01), 2, 4), Recipe(AdaHessian(0.05), 1, 4)])
def test_stacked_adapters_are_those_of_the_loop_and_of_each_alone(path, recipe):
    model, double = language_model(also=["norm"]), torch.float64
    stack = StackedEngine(model, dtype=double, path=path)
    ours = stack.train(jobs(model, double, recipe=recipe), DATA)
    plain = LoopEngine(model, dtype=double).train(jobs(model, double, recipe=recipe), DATA)
    for a, b in zip(ours, plain, strict=True):
        torch.testing.assert_close(a.weights.vector, b.weights.vector, rtol=1e-9, atol=1e-9)
    if path == "auto":
        assert stack.describe()["path"] == "batched"
    for dtype in (double, torch.float32):
        all_of_them = StackedEngine(model, dtype=dtype, path=path).train(
            jobs(model, dtype, recipe=recipe), DATA
        )
        (alone,) = StackedEngine(model, dtype=dtype, path=path).train(jobs(model, dtype, [2], recipe), DATA)
        assert alone.weights.equal(all_of_them[2].weights)


class Tied(nn.Module):
    """A head that shares the table of tokens."""

    def __init__(self):
        super().__init__()
        self.tokens, self.mix = nn.Embedding(20, 8), nn.Linear(8, 8)
        self.head = nn.Linear(8, 20, bias=False)
        self.head.weight = self.tokens.weight

    def forward(self, x):
        return self.head(torch.tanh(self.mix(self.tokens(x))))


@pytest.mark.parametrize("path", ["batched", "vmap"])
def test_a_frozen_table_that_two_layers_share_is_stacked(path):
    model = unknot.lora(Tied(), 2, targets=["mix"])
    ours = StackedEngine(model, dtype=torch.float64, path=path).train(jobs(model, torch.float64), DATA)
    plain = LoopEngine(model, dtype=torch.float64).train(jobs(model, torch.float64), DATA)
    for a, b in zip(ours, plain, strict=True):
        torch.testing.assert_close(a.weights.vector, b.weights.vector, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"rank": 0}, "rank must be a whole number of at least 1, not 0"),
        ({"rank": True}, "rank must be"),
        ({"alpha": -1.0}, "alpha must be positive"),
        ({"targets": ["qvk"]}, "no linear layer is called 'qvk'. Did you mean 'qkv'"),
        ({"targets": "nothing.*"}, r"'nothing.*' fits no linear layer; there are 'blocks.0.attention.qkv', "),
        ({"targets": "(("}, "is no pattern"),
        ({"targets": []}, "targets is empty"),
        ({"also": ["nrom"]}, "no layer 'nrom' to train as a whole. Did you mean 'norm'"),
        (
            {"also": ["blocks.0"]},
            "'blocks.0.attention.qkv' is to be trained as a whole, and to have an adapter",
        ),
    ],
)
def test_what_cannot_be_is_refused(options, said):
    with pytest.raises(ConfigError) as refused:
        language_model(**options)
    assert said in str(refused.value)


def test_adapters_are_not_put_on_twice_nor_on_a_bare_layer():
    with pytest.raises(ConfigError, match="has an adapter already"):
        unknot.lora(language_model())
    with pytest.raises(ConfigError, match="itself is one linear layer"):
        unknot.lora(nn.Linear(3, 2))


def test_files_in_pefts_format_come_back(tmp_path):
    model = language_model(also=["norm"], alpha=3.0)
    (done,) = StackedEngine(model).train(jobs(model, clients=[1]), DATA)
    done.weights.load_into(model)
    unknot.save_adapter(model, tmp_path, base="our/gpt", task="CAUSAL_LM")
    config = json.loads((tmp_path / "adapter_config.json").read_text())
    assert (config["r"], config["lora_alpha"], config["modules_to_save"]) == (4, 3.0, ["norm"])
    with torch.random.fork_rng():
        torch.manual_seed(0)
        fresh = build("gpt", (12,), 20, layers=2, heads=2, width=16)
    again = unknot.load_adapter(fresh, tmp_path)
    assert torch.equal(again(TEXTS.x), model(TEXTS.x))
    assert Weights.of(again).equal(done.weights)
    assert not Weights.of(again).lineage


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (lambda config: config | {"peft_type": "IA3"}, "is no LoRA"),
        (lambda config: config | {"use_dora": True}, "uses use_dora"),
        (lambda config: config | {"bias": "all"}, "uses bias"),
        (lambda config: config | {"trainable_token_indices": [1]}, "uses trainable_token_indices"),
        (lambda config: config | {"target_modules": ["out"]}, "is not for this model"),
        (lambda config: config | {"r": 3}, "is not for this model: other shapes"),
        (lambda config: config | {"r": None}, "does not say which layers"),
        (lambda config: [], "is no LoRA"),
    ],
)
def test_files_that_mean_something_else_are_refused(tmp_path, spoil, said):
    unknot.save_adapter(language_model(), tmp_path)
    file = tmp_path / "adapter_config.json"
    file.write_text(json.dumps(spoil(json.loads(file.read_text()))))
    with pytest.raises(ConfigError) as refused:
        unknot.load_adapter(build("gpt", (12,), 20, layers=2, heads=2, width=16), tmp_path)
    assert said in str(refused.value)


def test_what_is_no_adapter_is_neither_written_nor_read(tmp_path):
    with pytest.raises(ConfigError, match="no adapter in this model"):
        unknot.save_adapter(nn.Linear(2, 2), tmp_path)
    with pytest.raises(ConfigError, match="cannot read the adapter"):
        unknot.load_adapter(nn.Linear(2, 2), tmp_path / "nowhere")


METHODS = {
    "rfs": unknot.RFS(),
    "bmt": unknot.BMT(),
    "mmt": unknot.MMT(),
    "knot": unknot.KNOT(2, by="random"),
    "fats": unknot.FATS(rho_client=5, rounds=20, local_steps=2, clients=4),
}


@pytest.mark.parametrize("name", METHODS)
def test_adapters_do_not_show_what_was_erased(name):
    requests = [unknot.erase(1, round=2), unknot.erase({3: [0, 4]}, round=3)]

    def served(data):
        fed = unknot.simulate(language_model, data, METHODS[name], Recipe(Adam(0.01), 1, 4), evaluate_every=0)
        fed.run(4, requests=requests)
        return fed.model

    report = interference(served, DATA, [target for request in requests for target in request.targets])
    assert report.none, report.gaps
