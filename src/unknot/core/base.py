"""A model's base: its frozen parameters, which all jobs have in common and nobody trains.

Weights are what is trained. The base is never sent, averaged, billed or stored with them: they know it by its
digest, and refuse a module that has another one.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

from unknot.core.lineage import NOBODY, Lineage

STAMP = "unknot_lineage"  # the attribute in which a module keeps whose data shaped each parameter
HALVES = (torch.bfloat16, torch.float16)
"""Half precision: that of the numbers of a large base."""

SMALL = 2**20  # numbers: so few are looked at each time
BASE = "unknot_base"  # that in which it keeps its base, once that has been looked at


def in_full(x: Tensor) -> Tensor:
    """In single precision, where it is in half."""
    return x.float() if x.dtype in HALVES else x


def trained(module: nn.Module) -> dict[str, nn.Parameter]:
    """The parameters of a module that are trained, by name."""
    return {name: p for name, p in module.named_parameters() if p.requires_grad}


def frozen(module: nn.Module) -> dict[str, nn.Parameter]:
    """Those that are not."""
    return {name: p for name, p in module.named_parameters() if not p.requires_grad}


@dataclass(frozen=True)
class Base:
    """What a model has that is not trained, by a digest.

    That of the names and numbers of frozen parameters and of buffers, and of what layers of ours are set to
    (the scale of adapters, the answers of a classifier, positions...). What other layers keep in plain
    attributes it cannot know.
    """

    digest: str = ""
    """SHA-256; empty where nothing is frozen."""
    lineage: Lineage = field(default=NOBODY, compare=False)
    """Whose data shaped it: what is trained on it carries that."""
    parameters: int = field(default=0, compare=False)
    """How many numbers it has; 0 as well where a file names it that does not say."""

    def __bool__(self) -> bool:
        return bool(self.digest)

    def told(self) -> str:
        return f"a base with the digest {self.digest[:16]}" if self else "no base (nothing is frozen)"

    @staticmethod
    def of(module: nn.Module) -> Base:
        """That of a module.

        A large one is looked at again where a parameter was replaced, or changed by an operation that PyTorch
        counts: not by one on ``.data``, or on memory that it shares with NumPy.
        """
        parts = frozen(module)
        if not parts:
            return NO_BASE
        state = tuple(
            (name, id(p), p._version, p.data_ptr()) for name, p in (*parts.items(), *module.named_buffers())
        )
        known: _Looked | None = module.__dict__.get(BASE)
        many = sum(p.numel() for p in parts.values())
        if known is None or (known.state is not None and (many < SMALL or known.state != state)):
            known = _Looked(state, Base(_digest(module, parts), stamped(module, parts), many))
            module.__dict__[BASE] = known
        return known.base

    def put_on(self, module: nn.Module) -> None:
        """Say that this is the base of a module that has it on another device, or in another precision."""
        if self:
            module.__dict__[BASE] = _Looked(None, self)


NO_BASE = Base()


@dataclass(frozen=True)
class _Looked:
    """A module's base, and the state of its parameters that it was found in; None: it was said to be this."""

    state: tuple[tuple[str, int, int, int], ...] | None
    base: Base


def stamped(module: nn.Module, names: Iterable[str]) -> Lineage:
    """Whose data shaped these parameters of a module, as far as that is known."""
    known: dict[str, Lineage] = {}
    for where, part in module.named_modules():  # what a part knows of itself holds unless the whole says else
        for name, lineage in part.__dict__.get(STAMP, {}).items():
            known.setdefault(f"{where}.{name}" if where else name, lineage)
    return NOBODY.union(*{id(known[name]): known[name] for name in names if name in known}.values())


def stamp(module: nn.Module, names: Iterable[str], lineage: Lineage) -> None:
    """Note whose data shaped these parameters of a module."""
    module.__dict__[STAMP] = {**module.__dict__.get(STAMP, {}), **dict.fromkeys(names, lineage)}


def carry_stamp(module: nn.Module, part: str) -> None:
    """Have a part of a module know by itself whose data shaped it, before it gets another name."""
    inner = module.get_submodule(part)
    for name, _ in inner.named_parameters():
        if lineage := stamped(module, [f"{part}.{name}"]):
            stamp(inner, [name], lineage)


def _digest(module: nn.Module, tensors: Mapping[str, Tensor]) -> str:
    """Of what is frozen, of buffers, and of what layers of ours are set to."""
    found = hashlib.sha256()
    feed(found, {**tensors, **dict(module.named_buffers())})
    settings = {name: m.extra_repr() for name, m in module.named_modules() if hasattr(m, "batched_kind")}
    found.update(json.dumps(settings, sort_keys=True).encode() if any(settings.values()) else b"")
    return found.hexdigest()


def feed(digest: hashlib._Hash, tensors: Mapping[str, Tensor]) -> None:
    """Add tensors to a digest: names, types, shapes and numbers."""
    for name, tensor in sorted(tensors.items()):
        digest.update(json.dumps([name, str(tensor.dtype), list(tensor.shape)]).encode())
        digest.update(tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().data)
