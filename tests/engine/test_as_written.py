"""A model is trained as it runs: what was hung on it, or put in place of a layer's own, is run or refused."""

from __future__ import annotations

import types

import numpy as np
import pytest
import torch
from torch import nn

import unknot
from unknot.core.data import FederatedData, Samples, Shard
from unknot.core.errors import ConfigError
from unknot.core.jobs import Job
from unknot.core.keys import Key
from unknot.core.lineage import Unit
from unknot.core.training import SGD, Recipe
from unknot.core.weights import Weights
from unknot.engine import LoopEngine, StackedEngine
from unknot.models.gpt2 import GPT2
from unknot.models.llama import Llama, LlamaConfig
from unknot.models.transformer import RMSNorm, RotaryAttention

DRAWN = np.random.default_rng(0)
TEXTS = Samples(*(torch.from_numpy(DRAWN.integers(0, 12, (12, 5))) for _ in "xy"), 12)
DATA = FederatedData(TEXTS, {0: Shard.of(range(5)), 1: Shard.of(range(5, 12))}, TEXTS)


def llama() -> nn.Module:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = Llama(LlamaConfig(12, 8, 1, 2, 1, 12, 4))
        for parameter in model.parameters():
            nn.init.normal_(parameter)
    return model


def adapted(model: nn.Module | None = None) -> nn.Module:
    model = unknot.lora(model or llama(), rank=2)
    with torch.random.fork_rng():
        torch.manual_seed(1)
        for name, parameter in model.named_parameters():
            if "lora_B" in name:
                nn.init.normal_(parameter)
    return model


def plain(*more: nn.Module) -> nn.Module:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return nn.Sequential(nn.Embedding(12, 6), nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 12), *more)


def doubling(model: nn.Module, part: str) -> nn.Module:
    """With a forward of its own on one layer."""
    layer = model.get_submodule(part)
    layer.forward = types.MethodType(lambda self, x: 2 * type(self).forward(self, x), layer)
    return model


def hooked(model: nn.Module, kind: str) -> nn.Module:
    if kind == "forward":
        model.register_forward_hook(lambda module, given, out: out * 2)
    else:
        model.register_forward_pre_hook(lambda module, given: ((given[0] + 1) % 12,))
    return model


class Norm(RMSNorm):
    def forward(self, x):
        return 2 * super().forward(x)


class Attention(RotaryAttention):
    def forward(self, x):
        return 2 * super().forward(x)


class Called(nn.Linear):
    def __call__(self, x):
        return 2 * super().__call__(x)


class CalledNorm(RMSNorm):
    def __call__(self, x):
        return 2 * super().__call__(x)


class CalledWhole(nn.Sequential):
    def __call__(self, x):
        return 2 * super().__call__(x)


class Linear(nn.Linear):
    def forward(self, x):
        return 2 * super().forward(x)


def other_norm(kind: type[RMSNorm]) -> nn.Module:
    model = llama()
    model.model.norm = kind(8, 1e-5)
    return adapted(model)


def other_attention() -> nn.Module:
    model = llama()
    theirs = model.model.layers[0].self_attn
    model.model.layers[0].self_attn = mine = Attention(8, 2, 1, 4, 10000.0)
    mine.load_state_dict(theirs.state_dict())
    return adapted(model)


def other_linear(kind: type[nn.Linear]) -> nn.Module:
    model = plain()
    model[1] = kind(6, 8)
    return model


NOT_BATCHED = {
    "a hook on the whole": lambda: hooked(adapted(), "forward"),
    "a hook before the whole": lambda: hooked(adapted(), "forward_pre"),
    "a hook on a plain net": lambda: hooked(plain(), "forward"),
    "a forward of the whole": lambda: doubling(adapted(), ""),
    "a forward of an adapted layer": lambda: doubling(adapted(), "model.layers.0.self_attn.q_proj"),
    "a forward of a layer within": lambda: doubling(adapted(), "model.layers.0.mlp.up_proj.base_layer"),
    "a forward of a norm": lambda: doubling(adapted(), "model.norm"),
    "a forward of a linear layer": lambda: doubling(plain(), "1"),
    "a norm of one's own": lambda: other_norm(Norm),
    "a norm that is called otherwise": lambda: other_norm(CalledNorm),
    "an attention of one's own": other_attention,
    "a linear layer of one's own": lambda: other_linear(Linear),
    "a linear layer that is called otherwise": lambda: other_linear(Called),
    "a model that is called otherwise": lambda: CalledWhole(*plain()),
}


def gap(model: nn.Module, **options) -> tuple[float, str]:
    start = Weights.of(model).to(dtype=torch.float64)
    jobs = [Job(Unit(c), start, Key.root(c), Recipe(SGD(0.1), 1, 3)) for c in DATA]
    stacked = StackedEngine(model, dtype=torch.float64, **options)
    both = stacked.train(jobs, DATA), LoopEngine(model, dtype=torch.float64).train(jobs, DATA)
    far = max((a.weights.vector - b.weights.vector).abs().max().item() for a, b in zip(*both, strict=True))
    return far, str(stacked.describe()["path"])


@pytest.mark.filterwarnings("ignore:There is a performance drop")
@pytest.mark.parametrize("what", NOT_BATCHED)
def test_what_is_not_a_layers_own_is_run_as_in_the_loop(what):
    far, path = gap(NOT_BATCHED[what]())
    assert far < 1e-9
    assert path == "vmap"


@pytest.mark.parametrize("path", ["batched", "fused"])
def test_a_way_that_would_pass_over_it_is_refused(path):
    chain = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 3))
    StackedEngine(chain, path=path)
    with pytest.raises(ConfigError, match=f"path '{path}' cannot run this model"):
        StackedEngine(hooked(chain, "forward"), path=path)


@pytest.mark.filterwarnings("ignore:Full backward hook is firing")
@pytest.mark.parametrize("kind", ["forward", "full_backward"])
def test_hooks_on_all_modules_are_run(kind):
    register = getattr(nn.modules.module, f"register_module_{kind}_hook")
    if kind == "forward":
        handle = register(lambda module, given, out: out * 1.1)
    else:
        handle = register(lambda m, given, out: tuple(None if g is None else g * 1.1 for g in given))
    try:
        far, path = gap(plain())
    finally:
        handle.remove()
    assert far < 1e-9
    assert path == ("vmap" if kind == "forward" else "loop")


def test_models_of_ours_are_batched():
    with torch.random.fork_rng():
        torch.manual_seed(0)
        gpt2 = adapted(GPT2(12, 5, 8, 1, 2))
    for model in (adapted(), gpt2, plain()):
        far, path = gap(model)
        assert far < 1e-9
        assert path == "batched"


@pytest.mark.parametrize("engine", [LoopEngine, StackedEngine])
def test_a_forward_that_calls_the_layer_it_was_taken_from_is_refused(engine):
    """A copy of the model would call the original's layer, which is not the one that is trained."""
    model = plain()
    before = model[1].forward
    model[1].forward = lambda x: 2 * before(x)
    with pytest.raises(ConfigError, match=r"'1' is a Linear whose forward was replaced .* Write a class"):
        engine(model)
