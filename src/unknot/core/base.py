"""A model's base: its frozen parameters, which all jobs have in common and nobody trains.

Weights are what is trained. The base is never sent, averaged, billed or stored with them: they know it by its
digest, and refuse a module that has another one.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

from unknot.core.lineage import NOBODY, Lineage, of_runs

STAMP = "unknot_lineage"  # the attribute in which a parameter, and a layer that has it, keep who shaped it
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

    That of the names and numbers of frozen parameters and of buffers, and of what layers of ours and of
    PyTorch's are set to (the scale of adapters, the answers of a classifier, the epsilon of a norm...). What
    other layers keep in plain attributes it cannot know.
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

        A large one is looked at again where a layer was set to something else, or a parameter was replaced,
        or changed by an operation that PyTorch counts: not by one on ``.data``, or on memory that it shares
        with NumPy.
        """
        parts = frozen(module)
        if not parts:
            return NO_BASE
        known: _Looked | None = module.__dict__.get(BASE)
        if known is not None and known.state is None:
            return known.base
        tensors = {**parts, **dict(module.named_buffers())}
        state = (
            tuple((name, id(p), p._version, p.data_ptr()) for name, p in tensors.items()),
            settings := _settings(module),
            lineage := stamped(module, tensors.values()),
        )
        many = sum(p.numel() for p in parts.values())
        if known is None or many < SMALL or known.state != state:
            known = _Looked(state, Base(_digest(tensors, settings), lineage, many))
            module.__dict__[BASE] = known
        return known.base

    def put_on(self, module: nn.Module) -> None:
        """Say that this is the base of a module that has it on another device, or in another precision."""
        if self:
            module.__dict__[BASE] = _Looked(None, self)


NO_BASE = Base()


@dataclass(frozen=True)
class _Looked:
    """A module's base, and the state of the module that it was found in; None: it was said to be this."""

    state: tuple[tuple[tuple[str, int, int, int], ...], str, Lineage] | None
    base: Base


def stamped(module: nn.Module, tensors: Iterable[Tensor]) -> Lineage:
    """Whose data shaped these parameters of a module, as far as that is known."""
    found: dict[int, Lineage] = {}
    for owner, name, tensor in _held(module, tensors):
        noted: dict[str, Lineage] = owner.__dict__.get(STAMP, {})
        lineage: Lineage | None = tensor.__dict__.get(STAMP, noted.get(name))
        if lineage is not None:
            found[id(lineage)] = lineage
    return of_runs(*found.values())


def stamp(module: nn.Module, tensors: Iterable[Tensor], lineage: Lineage) -> None:
    """Note whose data shaped these parameters of a module, wherever they go from there.

    A parameter knows it itself, so that it does in whatever model it is put, and by whatever name. A copy of
    it does not, since PyTorch copies its numbers alone: so each layer that has it knows it as well.
    """
    for owner, name, tensor in _held(module, tensors):
        tensor.__dict__[STAMP] = lineage
        owner.__dict__.setdefault(STAMP, {})[name] = lineage


def _held(module: nn.Module, tensors: Iterable[Tensor]) -> Iterator[tuple[nn.Module, str, Tensor]]:
    """Where these parameters and buffers of a module are: in which layers, and what they are called there."""
    wanted = set(map(id, tensors))
    for owner in module.modules():
        for name, tensor in (*owner._parameters.items(), *owner._buffers.items()):
            if tensor is not None and id(tensor) in wanted:
                yield owner, name, tensor


def _settings(module: nn.Module) -> str:
    """What layers of ours and of PyTorch's are, and are set to."""
    found = {name: told for name, m in module.named_modules() if (told := _set_to(m))}
    return json.dumps(found, sort_keys=True)


def _set_to(module: nn.Module) -> str:
    """A layer's kind, and what its result depends on beside its numbers; empty where only others know."""
    if (kind := getattr(module, "batched_kind", None)) is not None:
        return f"{kind}({module.extra_repr()})"
    theirs = next((c for c in type(module).__mro__ if c.__module__.startswith("torch.nn.")), nn.Module)
    if theirs is nn.Module:
        return ""
    names = dict.fromkeys(("num_heads", *getattr(theirs, "__constants__", ())))
    values = ", ".join(f"{name}={getattr(module, name, None)!r}" for name in names)
    return f"{theirs.__name__}({values})"


def _digest(tensors: Mapping[str, Tensor], settings: str) -> str:
    """Of what is frozen, of buffers, and of what layers are set to."""
    found = hashlib.sha256()
    feed(found, tensors)
    found.update(settings.encode())
    return found.hexdigest()


def feed(digest: hashlib._Hash, tensors: Mapping[str, Tensor]) -> None:
    """Add tensors to a digest: names, types, shapes and numbers."""
    for name, tensor in sorted(tensors.items()):
        digest.update(json.dumps([name, str(tensor.dtype), list(tensor.shape)]).encode())
        digest.update(tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().data)
