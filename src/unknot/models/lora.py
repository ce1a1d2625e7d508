"""Low-rank adapters (LoRA, Hu et al. 2022): small matrices are trained beside layers that stay as they are.

Names, scale and start are those of Hugging Face's PEFT, so that adapters can be read and written in its
format (`unknot.models.peft`).
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
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
    within = [name for name, m in model.named_modules() if isinstance(m, LoraLinear)]
    if within:
        raise ConfigError(f"lora: {within[0]!r} has an adapter already; begin with a model that has none")
    fresh, also = tuple(getattr(model, "fresh", ())), tuple(also)
    if targets is None:
        heads = {*also, *fresh, getattr(model, "head", None)}
        targets = [name for name in layers if name not in heads]
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
    with put_back(model):
        model.requires_grad_(False)
        for name in dict.fromkeys([*also, *fresh]):
            _thaw(model, name)
        whole = [name for name in chosen if layers[name].weight.requires_grad]
        if whole:
            raise ConfigError(
                f"lora: {whole[0]!r} is to be trained as a whole, and to have an adapter: choose one"
            )
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


@contextmanager
def put_back(model: nn.Module) -> Iterator[None]:
    """Within: should anything be refused, the model's layers, and what is trained of them, are as before."""
    layers = [(module, dict(module._modules)) for module in model.modules()]
    flags = [(parameter, parameter.requires_grad) for parameter in model.parameters()]
    try:
        yield
    except BaseException:
        for module, parts in layers:
            module._modules.clear()
            module._modules.update(parts)
        for parameter, flag in flags:
            parameter.requires_grad_(flag)
        raise


def _chosen(layers: dict[str, nn.Linear], targets: str | Iterable[str]) -> list[str]:
    """The layers that targets name, or the pattern fits."""
    if isinstance(targets, str):
        try:
            pattern = re.compile(targets)
        except re.error as error:
            raise ConfigError(f"lora: targets {targets!r} is no pattern: {error}") from None
        found = [name for name in layers if pattern.fullmatch(name)]
        if not found:
            like = next((name for name in layers if name.rpartition(".")[2] == targets), None)
            told = f"; there are {_some(layers)}"
            if like is not None:
                told = (
                    f": a text is a pattern for the whole name ({like!r}). Write [{targets!r}], or "
                    f"{'.*' + targets!r}"
                )
            raise ConfigError(f"lora: targets {targets!r} fits no linear layer{told}")
        return found
    wanted = list(targets)
    last = {name.rpartition(".")[2] for name in layers}
    for target in wanted:
        if target not in last and target not in layers:
            meant = nearest(target, last | set(layers))
            meant = meant if meant.startswith(" Did") else nearest(target, last)
            raise ConfigError(f"lora: targets names {target!r}, and no linear layer is called so.{meant}")
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
        meant = nearest(name, known)
        if not meant.startswith(" Did"):
            outermost = sorted(known, key=lambda known: known.count("."))
            meant = f" There are {_some(outermost)}."
        raise ConfigError(f"lora: there is no layer {name!r} to train as a whole.{meant}") from None


def _start(adapted: LoraLinear, key: Key) -> None:
    """PEFT's: one matrix uniform within ``1 / sqrt(inputs)``, the other zero."""
    with torch.no_grad():
        drawn = key.generator().uniform(-1, 1, tuple(adapted.lora_A.weight.shape))
        adapted.lora_A.weight.copy_(torch.from_numpy(drawn) / math.sqrt(adapted.base_layer.in_features))
        adapted.lora_B.weight.zero_()
