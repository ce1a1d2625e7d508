"""Code that did not come with unknot: what it is handed are copies, so that it may write into them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from types import FunctionType

from torch import Tensor
from torch.utils.weak import WeakIdKeyDictionary

from unknot.core.digests import digest, raw
from unknot.core.errors import UnknotError
from unknot.core.jobs import Update
from unknot.core.weights import Weights


def is_own(part: object) -> bool:
    """Whether a part of a federation is somebody's own: a function, or an instance of a class."""
    return not of_unknot(part if isinstance(part, FunctionType) else type(part))


def of_unknot(code: type | FunctionType) -> bool:
    """Whether a class or a function came with unknot."""
    return code.__module__.partition(".")[0] == "unknot"


def copied(weights: Weights) -> Weights:
    """The same numbers, in memory of their own."""
    return weights.like(weights.vector.clone())


def copies(updates: Sequence[Update]) -> list[Update]:
    """Updates with all that can be written into; those that started from one model have one copy of it."""
    starts = {id(start): copied(start) for start in {id(u.job.start): u.job.start for u in updates}.values()}
    return [
        replace(u, weights=copied(u.weights), job=replace(u.job, start=starts[id(u.job.start)]))
        for u in updates
    ]


def handed(part: object, model: Weights, updates: Sequence[Update]) -> tuple[Weights, Sequence[Update]]:
    """A model and updates as this part may have them."""
    return (copied(model), copies(updates)) if is_own(part) else (model, updates)


class Watch:
    """Finds weights that were written into, for a part that must work on the federation's own."""

    def __init__(self, who: str) -> None:
        self._who = who
        self._known: WeakIdKeyDictionary = WeakIdKeyDictionary()

    def check(self, models: Iterable[tuple[str, Weights]]) -> None:
        """Raise `UnknotError` where what is still there has other numbers than before; note what is new."""
        for vector, (what, before) in list(self._known.items()):  # type: ignore[no-untyped-call]
            if _numbers(vector) != before:
                raise UnknotError(
                    f"{self._who} wrote into {what}: weights are never changed in place. Compute new ones, "
                    "as weights * 0.5 does, or weights.like(vector) of a vector of your own"
                )
        for what, weights in models:
            if weights.vector not in self._known:
                self._known[weights.vector] = what, _numbers(weights.vector)


def _numbers(vector: Tensor) -> str:
    return digest(str(vector.dtype), vector.shape, raw(vector))
