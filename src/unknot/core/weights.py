"""Weights that know whose data shaped them."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TypeVar

import torch
from torch import Tensor, nn

from unknot.core.base import NO_BASE, Base, frozen, stamp, stamped, trained
from unknot.core.lineage import NOBODY, Ledger, LedgerView, Lineage, of_runs


@dataclass(frozen=True)
class Layout:
    """The names and shapes of what is trained of a model, in order, within one flat vector.

    What is frozen is the `base` that they belong to: it is none of them.
    """

    names: tuple[str, ...]
    shapes: tuple[tuple[int, ...], ...]
    base: Base = NO_BASE

    @staticmethod
    def of(module: nn.Module) -> Layout:
        named = trained(module)
        return Layout(tuple(named), tuple(tuple(p.shape) for p in named.values()), Base.of(module))

    @cached_property
    def sizes(self) -> tuple[int, ...]:
        return tuple(math.prod(shape) for shape in self.shapes)

    @cached_property
    def size(self) -> int:
        return sum(self.sizes)

    def split(self, flat: Tensor) -> dict[str, Tensor]:
        """Named views of a flat ``[..., size]`` tensor, each ``[..., *shape]``."""
        lead = flat.shape[:-1]
        parts = torch.split(flat, list(self.sizes), dim=-1)
        return {
            name: part.view((*lead, *shape))
            for name, shape, part in zip(self.names, self.shapes, parts, strict=True)
        }

    def join(self, tensors: Mapping[str, Tensor], rows: int | None = None) -> Tensor:
        """The inverse of `split`: one flat vector, or a ``[rows, size]`` matrix."""
        lead = () if rows is None else (rows,)
        return torch.cat([tensors[name].reshape(*lead, -1) for name in self.names], dim=-1)


FEW = 16  # so many terms are as quickly added one by one, on a GPU as well
BLOCK = 2**24  # numbers that a GPU is handed at once
T = TypeVar("T")


@dataclass(frozen=True, eq=False)
class Weights:
    """A model's parameters as one flat vector, with their lineage. Never changed in place.

    Arithmetic unites lineages, so a method cannot lose one by computing:
    ``new + 0.5 * (a - b)`` carries everything that `new`, `a` and `b` carried.
    """

    vector: Tensor
    """All parameters, one after the other, in memory too: a column of a stack is copied."""
    layout: Layout
    """Names and shapes of the parameters."""
    lineage: Lineage = NOBODY
    """Whose data shaped them."""

    def __post_init__(self) -> None:
        if self.vector.shape != (self.layout.size,):
            raise ValueError(
                f"weights of this layout are a vector of {self.layout.size} numbers, "
                f"not of shape {tuple(self.vector.shape)}"
            )
        if not self.vector.is_contiguous():
            object.__setattr__(self, "vector", self.vector.contiguous())

    def __repr__(self) -> str:
        dtype, clients = str(self.vector.dtype).removeprefix("torch."), len(self.lineage.clients)
        whose = f"shaped by {clients} client{'' if clients == 1 else 's'}" if clients else "nobody's"
        return f"Weights({self.layout.size:,} numbers of {dtype}, {whose}, {self.digest()})"

    @staticmethod
    def of(module: nn.Module, lineage: Lineage | None = None) -> Weights:
        """A copy of what is trained of a module, with the lineage of the weights that were put into it.

        What shaped its base shaped them as well. Of parameters that came into a module by other ways nothing
        can be known: they are nobody's.
        """
        layout, named = Layout.of(module), trained(module)
        vector = torch.cat([p.detach().reshape(-1) for p in named.values()])
        if lineage is None:
            lineage = of_runs(stamped(module, named.values()), layout.base.lineage)
        return Weights(vector, layout, lineage)

    def __getitem__(self, name: str) -> Tensor:
        return self.tensors[name]

    @cached_property
    def tensors(self) -> dict[str, Tensor]:
        """Named views of the vector."""
        return self.layout.split(self.vector)

    @property
    def nbytes(self) -> int:
        return self.vector.numel() * self.vector.element_size()

    def carrying(self, lineage: Lineage) -> Weights:
        """The same numbers, with `lineage` as well."""
        united = self.lineage | lineage
        return self if united == self.lineage else replace(self, lineage=united)

    def named(self, names: Mapping[int, str]) -> Weights:
        """The same numbers, with what the clients of their lineage are called."""
        base = replace(self.layout.base, lineage=self.layout.base.lineage.named(names))
        return Weights(self.vector, replace(self.layout, base=base), self.lineage.named(names))

    def like(self, vector: Tensor, *others: Weights) -> Weights:
        """Weights computed from these and `others`: their lineages united."""
        return Weights(vector, self.layout, self.lineage.union(*(other.lineage for other in others)))

    def __add__(self, other: Weights) -> Weights:
        return self.like(self.vector + other.vector, other)

    def __sub__(self, other: Weights) -> Weights:
        return self.like(self.vector - other.vector, other)

    def __mul__(self, factor: float) -> Weights:
        return self.like(self.vector * factor)

    __rmul__ = __mul__

    def to(self, *, device: torch.device | str | None = None, dtype: torch.dtype | None = None) -> Weights:
        return self.like(self.vector.to(device=device, dtype=dtype))

    def load_into(self, module: nn.Module) -> nn.Module:
        """Copy these weights into a module of the same layout, and return it; it keeps their lineage.

        And its parts keep theirs, in whatever model they are put. Who shaped the base, as far as these
        weights know more of it than the module, is noted there as well.
        """
        found = Layout.of(module)
        if found != self.layout:
            if replace(found, base=self.layout.base) != self.layout:
                raise ValueError("the module's parameters do not have these weights' names and shapes")
            mine, theirs = self.layout.base.told(), found.base.told()
            raise ValueError(f"these weights belong to {mine}, and the module has {theirs}")
        with torch.no_grad():
            for name, parameter in (own := trained(module)).items():
                parameter.copy_(self[name])
        stamp(module, own.values(), self.lineage)
        if not found.base.lineage >= self.layout.base.lineage:
            stamp(module, frozen(module).values(), of_runs(found.base.lineage, self.layout.base.lineage))
        return module

    def equal(self, other: object) -> bool:
        """Bit for bit the same numbers (lineage aside)."""
        if self is other:
            return True
        if (
            not isinstance(other, Weights)
            or self.layout != other.layout
            or self.vector.dtype != other.vector.dtype
        ):
            return False
        # As bytes: 0 and -0 are equal numbers and different bits, NaN is the other way round.
        return torch.equal(self.vector.view(torch.uint8), other.vector.view(torch.uint8))

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 of the numbers."""
        raw = self.vector.detach().cpu().view(torch.uint8).numpy().tobytes()
        return hashlib.sha256(raw).hexdigest()

    def digest(self) -> str:
        """A short fingerprint of the numbers, for people."""
        return self.fingerprint[:16]


def weighted_sum(terms: Sequence[tuple[float, Weights]], ledger: Ledger | LedgerView, action: str) -> Weights:
    """Σ cᵢ·wᵢ, added up in the order given: the one place where weights are combined.

    Every term is checked against the ledger first. The order is part of the result's bits (on a GPU, where
    blocks of terms are added up, as well), so callers pass clients in the order of their ids.
    """
    if not terms:
        raise ValueError(f"nothing to {action}")
    for _, weights in terms:
        ledger.check(weights, action)
    (first, head), *rest = terms
    if len(terms) > FEW and all(weights.vector.is_cuda for _, weights in terms):
        total = _sum_on_gpu(terms)
    else:
        total = head.vector * first
        for factor, weights in rest:
            total.add_(weights.vector, alpha=factor)
    return head.like(total, *(weights for _, weights in rest))


def _sum_on_gpu(terms: Sequence[tuple[float, Weights]]) -> Tensor:
    """Many at a time: to ask a GPU for each term takes longer than to add it up."""
    total: Tensor | None = None
    for some in blocks(terms, terms[0][1].layout.size):
        stack = torch.stack([weights.vector for _, weights in some])
        factors = torch.tensor([factor for factor, _ in some], dtype=torch.float64).to(stack)
        part = stack.mul_(factors.unsqueeze(1)).sum(0)
        total = part if total is None else total.add_(part)
    assert total is not None
    return total


def blocks(many: Sequence[T], size: int) -> Iterator[Sequence[T]]:
    """Vectors of this size, or what stands for them, in parts that a GPU may be handed at once."""
    count = max(1, min(128, BLOCK // max(1, size)))
    return (many[first : first + count] for first in range(0, len(many), count))
