"""Low-rank adapters (LoRA, Hu et al. 2022): small matrices are trained beside layers that stay as they are.

Names, scale and start are those of Hugging Face's PEFT, so that adapters can be read and written in its
format (`unknot.models.peft`).
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from functools import partial
from typing import ClassVar

import torch
from torch import Tensor, nn

from unknot.core.errors import ConfigError, nearest
from unknot.core.keys import Key


class LoraLinear(nn.Module):
    """A linear layer that is frozen, and what is trained beside it: ``W x + b + alpha / rank · B A x``.

    The frozen one may be in half precision: what is trained beside it is in full, and so is the sum.
    """

    batched_kind: ClassVar[str] = "lora_linear"

    def __init__(self, base_layer: nn.Linear, rank: int, alpha: float) -> None:
        super().__init__()
        self.base_layer = base_layer
        make = partial(nn.Linear, bias=False, device=base_layer.weight.device)  # in single precision
        self.lora_A = make(base_layer.in_features, rank)
        self.lora_B = make(rank, base_layer.out_features)
        self.rank, self.alpha = rank, alpha

    @property
    def scaling(self) -> float:
        return self.alpha / self.rank

    def extra_repr(self) -> str:
        return f"rank={self.rank}, alpha={self.alpha}"

    def forward(self, x: Tensor) -> Tensor:
        plain: Tensor = self.base_layer(x)
        beside: Tensor = self.lora_B(self.lora_A(x.to(self.lora_A.weight.dtype))) * self.scaling
        return (plain + beside).to(plain.dtype)


def lora(
    model: nn.Module,
    rank: int = 8,
    alpha: float | None = None,
    targets: str | Iterable[str] | None = None,
    also: Iterable[str] = (),
    seed: int = 0,
) -> nn.Module:
    """Freeze a `model` and put adapters beside its linear layers; it is changed, and given back.

    `rank`: how many columns an adapter's matrices have. `alpha`: adapters count ``alpha / rank``; left out:
    twice the rank. `targets`: which `nn.Linear` layers get one, by their names or the last part of these
    (``["q_proj", "v_proj"]``), or one pattern for the whole name (a regular expression); left out: all but
    the head of a language model. `also`: layers that are trained as a whole; the new head of a pretrained
    model is, without being named. `seed`: of the adapters' start; the other matrix is zero, so that the model
    begins as it was.
    """
    if isinstance(rank, bool) or not isinstance(rank, int) or rank < 1:
        raise ConfigError(f"lora: rank must be a whole number of at least 1, not {rank!r}")
    alpha = 2.0 * rank if alpha is None else float(alpha)
    if not 0 < alpha < math.inf:
        raise ConfigError(f"lora: alpha must be positive and finite, not {alpha}")
    layers = {name: m for name, m in model.named_modules(remove_duplicate=False) if type(m) is nn.Linear}
    if any(isinstance(module, LoraLinear) for module in model.modules()):
        raise ConfigError("lora: the model has adapters already; begin with a model that has none")
    whole = dict.fromkeys([*also, *getattr(model, "fresh", ())])
    if targets is None:
        targets = [name for name in layers if name not in {*whole, getattr(model, "head", None)}]
    chosen = _chosen(layers, targets)
    if "" in chosen:
        raise ConfigError("lora: the model itself is one linear layer; put it into an nn.Sequential")
    for name in chosen:
        sides = layers[name].out_features, layers[name].in_features
        if rank > max(sides):
            raise ConfigError(
                f"lora: rank must be at most {max(sides)}, the larger side of {name!r} ({sides[0]} by "
                f"{sides[1]}), not {rank}: there would be more to train than the layer itself has"
            )
    modules = dict(model.named_modules())
    for name in whole:
        if name not in modules:
            raise ConfigError(
                f"lora: there is no layer {name!r} to train as a whole.{nearest(name, modules)}"
            )
        if both := [layer for layer in chosen if layers[layer] in modules[name].modules()]:
            raise ConfigError(
                f"lora: {both[0]!r} is to be trained as a whole, and to have an adapter: choose one"
            )
    model.requires_grad_(False)
    for name in whole:
        modules[name].requires_grad_(True)
    adapted: dict[nn.Linear, LoraLinear] = {}  # a layer that has several names has one adapter
    for name in chosen:
        layer = layers[name]
        if layer not in adapted:
            adapted[layer] = LoraLinear(layer, rank, alpha)
            _start(adapted[layer], Key.root(seed).child("lora", name))
    for name, layer in layers.items():
        if layer in adapted:
            where, _, own = name.rpartition(".")
            setattr(model.get_submodule(where), own, adapted[layer])
    return model


def _chosen(layers: Mapping[str, nn.Linear], targets: str | Iterable[str]) -> list[str]:
    """The layers that targets name, or the pattern fits."""
    last = {name.rpartition(".")[2] for name in layers}
    if isinstance(targets, str):
        try:
            found = [name for name in layers if re.fullmatch(targets, name)]
        except re.error as error:
            raise ConfigError(f"lora: targets {targets!r} is no pattern: {error}") from None
        if not found:
            raise ConfigError(
                f"lora: the pattern {targets!r} fits no whole name of a linear layer; a list of names is "
                f"[{targets!r}].{nearest(targets, last)}"
            )
        return found
    wanted = list(targets)
    if not wanted:
        raise ConfigError(f"lora: targets is empty.{nearest('', last)}")
    for target in wanted:
        if target not in last and target not in layers:
            meant = nearest(target, last)
            raise ConfigError(f"lora: targets names {target!r}, and no linear layer is called so.{meant}")
    return [name for name in layers if name in wanted or name.rpartition(".")[2] in wanted]


def _start(adapted: LoraLinear, key: Key) -> None:
    """PEFT's: one matrix uniform within ``1 / sqrt(inputs)``, the other zero."""
    with torch.no_grad():
        drawn = key.generator().uniform(-1, 1, tuple(adapted.lora_A.weight.shape))
        adapted.lora_A.weight.copy_(torch.from_numpy(drawn) / math.sqrt(adapted.base_layer.in_features))
        adapted.lora_B.weight.zero_()
