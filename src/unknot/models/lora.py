"""Low-rank adapters (LoRA, Hu et al. 2022): small matrices are trained beside layers that stay as they are.

Names, scale and start are those of Hugging Face's PEFT, so that adapters can be read and written in its
format (`unknot.models.peft`).
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from functools import partial
from typing import ClassVar

import torch
from torch import Tensor, nn

from unknot.core.errors import ConfigError, nearest
from unknot.core.keys import Key


class LoraLinear(nn.Module):
    """A linear layer that is frozen, and what is trained beside it: ``W x + b + alpha / rank · B A x``."""

    batched_kind: ClassVar[str] = "lora_linear"

    def __init__(self, base_layer: nn.Linear, rank: int, alpha: float) -> None:
        super().__init__()
        self.base_layer = base_layer
        make = partial(nn.Linear, bias=False, device=base_layer.weight.device)  # in single precision
        self.lora_A = make(base_layer.in_features, rank)
        self.lora_B = make(rank, base_layer.out_features)
        self.rank, self.alpha, self.scaling = rank, alpha, alpha / rank

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.base_layer(x) + self.lora_B(self.lora_A(x)) * self.scaling
        return out


def lora(
    model: nn.Module,
    rank: int = 8,
    alpha: float | None = None,
    targets: str | Iterable[str] = ".*",
    also: Iterable[str] = (),
    seed: int = 0,
) -> nn.Module:
    """Freeze a `model` and put adapters beside its linear layers; it is changed, and given back.

    `rank`: how many columns an adapter's matrices have. `alpha`: adapters count ``alpha / rank``; left out:
    twice the rank. `targets`: which `nn.Linear` layers get one, by their names or the last part of these
    (``["q_proj", "v_proj"]``), or one pattern for the whole name (a regular expression). `also`: layers that
    are trained as a whole, a new head, say. `seed`: of the adapters' start; the other matrix is zero, so that
    the model begins as it was.
    """
    if isinstance(rank, bool) or not isinstance(rank, int) or rank < 1:
        raise ConfigError(f"lora: rank must be a whole number of at least 1, not {rank!r}")
    alpha = 2.0 * rank if alpha is None else float(alpha)
    if not 0 < alpha < math.inf:
        raise ConfigError(f"lora: alpha must be positive and finite, not {alpha}")
    layers = {name: m for name, m in model.named_modules() if type(m) is nn.Linear}
    within = [name for name, m in model.named_modules() if isinstance(m, LoraLinear)]
    if within:
        raise ConfigError(f"lora: {within[0]!r} has an adapter already; begin with a model that has none")
    chosen = _chosen(layers, targets)
    if "" in chosen:
        raise ConfigError("lora: the model itself is one linear layer; put it into an nn.Sequential")
    model.requires_grad_(False)
    for name in also:
        _thaw(model, name)
    whole = [name for name in chosen if layers[name].weight.requires_grad]
    if whole:
        raise ConfigError(
            f"lora: {whole[0]!r} is to be trained as a whole, and to have an adapter: choose one"
        )
    for name in chosen:
        where, _, own = name.rpartition(".")
        adapted = LoraLinear(layers[name], rank, alpha)
        _start(adapted, Key.root(seed).child("lora", name))
        setattr(model.get_submodule(where), own, adapted)
    return model


def _chosen(layers: dict[str, nn.Linear], targets: str | Iterable[str]) -> list[str]:
    """The layers that targets name, or the pattern fits."""
    if isinstance(targets, str):
        try:
            pattern = re.compile(targets)
        except re.error as error:
            raise ConfigError(f"lora: targets {targets!r} is no pattern: {error}") from None
        found = [name for name in layers if pattern.fullmatch(name)]
        if not found:
            raise ConfigError(f"lora: targets {targets!r} fits no linear layer; there are {_some(layers)}")
        return found
    wanted = list(targets)
    known = {name.rpartition(".")[2] for name in layers} | set(layers)
    for target in wanted:
        if target not in known:
            raise ConfigError(f"lora: no linear layer is called {target!r}.{nearest(target, sorted(known))}")
    if not wanted:
        raise ConfigError(f"lora: targets is empty; there are {_some(layers)}")
    return [name for name in layers if name in wanted or name.rpartition(".")[2] in wanted]


def _some(layers: Iterable[str]) -> str:
    names = list(layers)
    shown = ", ".join(map(repr, names[:4])) or "none"
    return shown + (f" and {len(names) - 4} more" if len(names) > 4 else "")


def _thaw(model: nn.Module, name: str) -> None:
    try:
        model.get_submodule(name).requires_grad_(True)
    except AttributeError:
        known = [known for known, m in model.named_modules() if known and any(True for _ in m.parameters())]
        raise ConfigError(
            f"lora: there is no layer {name!r} to train as a whole.{nearest(name, known)}"
        ) from None


def _start(adapted: LoraLinear, key: Key) -> None:
    """PEFT's: one matrix uniform within ``1 / sqrt(inputs)``, the other zero."""
    with torch.no_grad():
        drawn = key.generator().uniform(-1, 1, tuple(adapted.lora_A.weight.shape))
        adapted.lora_A.weight.copy_(torch.from_numpy(drawn) / math.sqrt(adapted.base_layer.in_features))
        adapted.lora_B.weight.zero_()
