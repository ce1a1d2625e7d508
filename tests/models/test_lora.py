"""Adapters: what they are put on, what is trained, that stacks of them are as each alone, PEFT's files."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import nn

import unknot
from exactness import FIVE
from unknot.audit import interference
from unknot.core.base import trained
from unknot.core.data import FederatedData, Samples, Shard
from unknot.core.errors import ConfigError
from unknot.core.jobs import Job
from unknot.core.keys import Key
from unknot.core.lineage import Unit
from unknot.core.training import SGD, AdaHessian, Adam, Recipe
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


RECIPES = {"adam": Recipe(Adam(0.01), 2, 4), "adahessian": Recipe(AdaHessian(0.05), 1, 4)}


@pytest.mark.parametrize(
    ("path", "recipe"),
    [
        ("auto", "adam"),
        ("auto", "adahessian"),
        ("loop", "adam"),
        pytest.param("loop", "adahessian", marks=pytest.mark.slow),
    ],
)
def test_stacked_adapters_are_those_of_the_loop_and_of_each_alone(path, recipe):
    recipe = RECIPES[recipe]
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
@pytest.mark.parametrize("adapted", [True, False])
def test_a_table_that_two_layers_share_is_stacked(path, adapted):
    model = unknot.lora(Tied(), 2, targets=["mix"]) if adapted else Tied()
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
        (
            {"rank": 49},
            "rank must be at most 48, the larger side of 'blocks.0.attention.qkv' (48 by 16), not 49",
        ),
        ({"targets": ["qvk"]}, "targets names 'qvk', and no linear layer is called so. Did you mean 'qkv'"),
        (
            {"targets": ["query"]},
            "targets names 'query', and no linear layer is called so. Known: 0, 2, head, out, qkv.",
        ),
        ({"targets": "qkv"}, "'qkv'"),
        ({"targets": "(("}, "is no pattern"),
        ({"targets": []}, "targets is empty"),
        ({"also": ["nrom"]}, "no layer 'nrom' to train as a whole. Did you mean 'norm'"),
        ({"also": ["blocks.0"]}, "'blocks.0.attention.qkv' is to be trained as a whole"),
    ],
)
def test_what_cannot_be_is_refused(options, said):
    with pytest.raises(ConfigError) as refused:
        language_model(**options)
    assert said in str(refused.value)


def test_adapters_are_not_put_on_twice_nor_on_a_bare_layer():
    with pytest.raises(ConfigError, match="has adapters already"):
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
        (lambda config: config | {"peft_type": "IA3"}, "LoRA"),
        (lambda config: config | {"use_dora": True}, "uses use_dora"),
        (lambda config: config | {"bias": "all"}, "uses"),
        (lambda config: config | {"trainable_token_indices": [1]}, "uses trainable_token_indices"),
        (lambda config: config | {"target_modules": ["out"]}, "is not for this model"),
        (lambda config: config | {"target_modules": ["nobody"]}, "'nobody'"),
        (lambda config: config | {"modules_to_save": ["nobody"]}, "'nobody'"),
        (lambda config: config | {"r": 3}, "is not for this model: other shapes"),
        (lambda config: config | {"r": None}, "rank"),
        (lambda config: config | {"lora_alpha": "x"}, "adapter"),
        (lambda config: [], "adapter"),
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
    with pytest.raises(ConfigError, match="nowhere"):
        unknot.load_adapter(nn.Linear(2, 2), tmp_path / "nowhere")


@pytest.mark.parametrize("name", FIVE)
def test_adapters_do_not_show_what_was_erased(name):
    requests = [unknot.erase(1, round=2), unknot.erase({3: [0, 4]}, round=3)]

    def served(data):
        fed = unknot.simulate(language_model, data, FIVE[name], Recipe(Adam(0.01), 1, 4), evaluate_every=0)
        fed.run(4, requests=requests)
        return fed.model

    report = interference(served, DATA, [target for request in requests for target in request.targets])
    assert report.none, report.gaps


def test_who_shaped_a_layer_is_known_once_it_has_an_adapter():
    def small():
        return nn.Sequential(nn.Linear(5, 4), nn.ReLU(), nn.Linear(4, 2))

    x = torch.from_numpy(DRAWN.random((40, 5), dtype=np.float32))
    samples = Samples(x, torch.arange(40) % 2, 2)
    data = FederatedData(samples, {c: DATA[c] for c in DATA}, samples)
    fed = unknot.simulate(small, data, "rfs", Recipe(Adam(0.01), 1, 4), evaluate_every=0)
    fed.run(1)
    module = unknot.lora(fed.model.load_into(small()), 2)
    assert Weights.of(module).layout.base.lineage == fed.model.lineage
    assert Weights.of(module).lineage == fed.model.lineage
    assert Weights.of(nn.Sequential(module)).lineage == fed.model.lineage
    above = unknot.simulate(module, data, "bmt", Recipe(Adam(0.01), 1, 4), evaluate_every=0)
    with pytest.raises(unknot.RequestError, match="base"):
        above.run(2, requests=[unknot.erase(3, round=1)])


@pytest.mark.parametrize(
    ("kind", "where"),
    [(kind, where) for kind in ("forward", "forward_pre") for where in ("", "base_layer", "lora_A")]
    + [("full_backward_pre", "lora_B")],
)
def test_hooks_within_a_layer_are_run(kind, where):
    model = unknot.lora(Tied(), 2, targets=["mix"])
    nn.init.normal_(model.mix.lora_B.weight)
    inner = model.mix.get_submodule(where)
    if kind == "forward":
        inner.register_forward_hook(lambda module, given, out: out * 1.5)
    elif kind == "forward_pre":
        inner.register_forward_pre_hook(lambda module, given: (given[0] * 1.5,))
    else:
        inner.register_full_backward_pre_hook(lambda module, error: (error[0] * 1.5,))
    few = jobs(model, torch.float64, clients=range(2), recipe=Recipe(SGD(0.1), 1, 4))
    ours = StackedEngine(model, dtype=torch.float64).train(few, DATA)
    plain = LoopEngine(model, dtype=torch.float64).train(few, DATA)
    for a, b in zip(ours, plain, strict=True):
        torch.testing.assert_close(a.weights.vector, b.weights.vector, rtol=1e-9, atol=1e-9)


def test_adapters_of_another_scale_or_over_other_buffers_are_refused():
    def buffered(value):
        module = Tied()
        module.load_state_dict(first.state_dict(), strict=False)
        module.register_buffer("scale", torch.tensor(value))
        return module

    first = Tied()
    weights = Weights.of(unknot.lora(buffered(1.0), 2, targets=["mix"]))
    weights.load_into(unknot.lora(buffered(1.0), 2, targets=["mix"]))
    for other in (
        unknot.lora(buffered(1.0), 2, alpha=400.0, targets=["mix"]),
        unknot.lora(buffered(100.0), 2, targets=["mix"]),
    ):
        with pytest.raises(ValueError, match="base"):
            weights.load_into(other)


def test_a_layer_with_two_names_has_one_adapter():
    module = nn.Module()
    module.a = module.b = nn.Linear(3, 3)
    unknot.lora(module, 2)
    assert module.a is module.b
    assert list(trained(module)) == ["a.lora_A.weight", "a.lora_B.weight"]


def small(width: int = 4, seed: int = 0) -> nn.Module:
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        inner = nn.Sequential(nn.Linear(width, 4), nn.LayerNorm(4), nn.ReLU())
        return nn.Sequential(nn.Linear(4, width), inner, nn.Linear(4, 2))


def test_adapters_in_a_file_know_their_base(tmp_path):
    unknot.save_adapter(unknot.lora(small(), 2), tmp_path)
    unknot.load_adapter(small(), tmp_path)
    other = small()
    other[1][1].eps = 0.5
    for model in (small(seed=1), small().double(), other):
        told = r"belongs to a base with the digest \w{16}, and the model has a base with the digest \w{16}"
        with pytest.raises(ConfigError, match=told):
            unknot.load_adapter(model, tmp_path)
    file = tmp_path / "adapter_model.safetensors"
    save_file(load_file(file), file, {"format": "pt"})  # as PEFT itself writes it
    unknot.load_adapter(small(seed=1), tmp_path)


def test_a_refusal_leaves_the_model_as_it_was():
    model = small()
    model[2].bias.requires_grad_(False)
    before = {name: (id(p), p.requires_grad) for name, p in model.named_parameters()}
    with pytest.raises(ConfigError, match="no layer 'nothing'"):
        unknot.lora(model, 2, also=["nothing"])
    assert {name: (id(p), p.requires_grad) for name, p in model.named_parameters()} == before
    unknot.lora(model, 2)


def test_adapters_come_back_to_the_layers_they_were_beside(tmp_path):
    """The name of one layer is the end of another's."""
    model = unknot.lora(small(), 2, targets="0")
    unknot.save_adapter(model, tmp_path)
    assert json.loads((tmp_path / "adapter_config.json").read_text())["target_modules"] == "0"
    again = unknot.load_adapter(small(), tmp_path)
    assert Weights.of(again).equal(Weights.of(model))


@pytest.mark.parametrize("number", [math.nan, -math.inf])
def test_adapters_that_are_no_numbers_are_refused(tmp_path, number):
    model = unknot.lora(small(), 2)
    nn.init.constant_(model[2].lora_B.weight, number)
    unknot.save_adapter(model, tmp_path)
    with pytest.raises(ConfigError, match=r"numbers that are none .* in 2\.lora_B\.weight"):
        unknot.load_adapter(small(), tmp_path)


def test_how_much_adapters_count_follows_from_alpha_and_rank():
    layer = unknot.lora(small(), 2, alpha=3.0)[0]
    assert layer.scaling == 1.5
    with pytest.raises(AttributeError):
        layer.scaling = 9.0
    layer.alpha = 4.0
    assert layer.scaling == 2.0
