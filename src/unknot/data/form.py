"""What the samples of all clients have in common, as it is said or as it looks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce

import numpy as np
import torch
from torch import Tensor

from unknot.core.data import Samples, Shard
from unknot.core.errors import DataError
from unknot.core.mapped import stored
from unknot.data.dataset import Ints
from unknot.data.holdings import Held

MANY = 1000
"""Classes, and then whole numbers that are larger than there are samples look like values."""


@dataclass(frozen=True)
class Form:
    """What all parts have in common: the kind of their targets, how many there are, the types of both."""

    kind: str
    classes: int
    inputs: torch.dtype
    targets: torch.dtype

    @staticmethod
    def of(
        parts: Sequence[Held], kind: str | None, classes: int | None, tokens: bool | None, words: int
    ) -> Form:
        _check_alike(parts)
        first = parts[0]
        if first.text:
            if kind not in (None, "classes") or classes is not None or tokens is False:
                raise DataError(
                    "texts predict characters: leave kind, classes and tokens out; see vocabulary"
                )
            return Form("classes", words, torch.int64, torch.int64)
        kind = _kind_of(parts, kind, classes)
        text = kind == "classes" and first.y.ndim > 1 and not first.x.is_floating_point()
        if tokens is None:
            tokens = text
        floats = [part.who for part in parts if part.x.is_floating_point()]
        if tokens and floats:
            raise DataError(f"{floats[0]}: tokens are whole numbers, but the inputs are floating-point")
        return Form(
            kind,
            _number_of(parts, kind, text) if classes is None else classes,
            torch.int64 if tokens else _floating([part.x for part in parts]),
            torch.int64 if kind == "classes" else _floating([part.y for part in parts]),
        )

    def joined(self, parts: Mapping[int, Held]) -> tuple[Samples, dict[int, Shard]]:
        """All that clients hold, one after the other."""
        ends = np.cumsum([0, *map(len, parts.values())])
        shards = {client: Shard.of(np.arange(ends[i], ends[i + 1])) for i, client in enumerate(parts)}
        return self.samples(list(parts.values())), shards

    def held_out(
        self, parts: Sequence[tuple[int | None, Held]], like: Samples
    ) -> tuple[Samples, Ints | None]:
        """What is held out, and whose each row is; nothing of nobody where there are no parts."""
        if not parts:
            return like.subset(np.empty(0, dtype=np.int64)), None
        samples = self.samples([part for _, part in parts])
        owners = [np.full(len(part), client) for client, part in parts if client is not None]
        return samples, np.concatenate(owners).astype(np.int64) if owners else None

    def samples(self, parts: Sequence[Held]) -> Samples:
        """One after the other, in a copy of our own; on disk where the user has any of it there."""
        inputs = [part.x for part in parts]
        if any(part.on_disk for part in parts):
            x = stored(inputs, self.inputs)
        else:
            x = torch.cat([part.to(self.inputs) for part in inputs])
        y = torch.cat([part.y.to(self.targets) for part in parts])
        return Samples(x, y, self.classes, self.kind)


def _check_alike(parts: Sequence[Held]) -> None:
    first = parts[0]
    for part in parts[1:]:
        if part.text != first.text:
            texts, numbers = (part, first) if part.text else (first, part)
            raise DataError(f"{texts.who}: texts, but {numbers.who}: numbers; all must be of one kind")
        for what in ("x", "y"):
            mine, theirs = (tuple(getattr(one, what).shape[1:]) for one in (first, part))
            if mine != theirs:
                raise DataError(
                    f"{part.who}: {what} of shape {theirs} per sample, but {first.who}: of shape {mine}; "
                    "all must be of one shape"
                )


def _floating(values: Sequence[Tensor]) -> torch.dtype:
    """The type that holds all of these; whole numbers become single precision."""
    return reduce(torch.promote_types, (v.dtype if v.is_floating_point() else torch.float32 for v in values))


def _kind_of(parts: Sequence[Held], kind: str | None, classes: int | None) -> str:
    """What the targets are: as `kind` says, or as they look."""
    first, wide = parts[0], parts[0].y.ndim > 1
    whole = [part.who for part in parts if not part.y.is_floating_point()]
    others = [part.who for part in parts if part.y.is_floating_point()]
    if kind is None and classes is not None and not wide:
        kind = "classes"
    if kind == "classes" and others:
        raise DataError(
            f"{others[0]}: targets are floating-point numbers, but classes are whole ones (y.astype(int)); "
            "for values to predict, leave classes out"
        )
    if kind is not None:
        return kind
    if whole and others:
        raise DataError(
            f"{others[0]}: targets are floating-point numbers, but {whole[0]}: whole ones; "
            'are they classes, or values to predict? Make them alike, or say kind="values"'
        )
    if not wide:
        return "classes" if whole else "values"
    strange = [part.who for part in parts if not ((part.y == 0) | (part.y == 1)).all()]
    if not strange:
        return "labels"
    if others:
        return "values"
    if not first.x.is_floating_point() and first.x.shape == first.y.shape:
        return "classes"
    raise DataError(
        f"{strange[0]}: targets are a table of whole numbers, but not of 0 and 1 as several labels are. One "
        "class per sample is one axis, as y.reshape(-1) or y.argmax(1) make it; else say which kind they are"
    )


def _number_of(parts: Sequence[Held], kind: str, text: bool) -> int:
    """How many classes, labels or values there are; in a text, inputs are of the same classes."""
    if kind != "classes":
        return parts[0].y[0].numel()
    targets = [part.y for part in parts] + ([part.x for part in parts] if text else [])
    greatest = [int(values.to(torch.int64).max()) for values in targets]
    many, samples = max(greatest) + 1, sum(map(len, parts))
    if many > MANY and many > samples:
        who = parts[greatest.index(many - 1) % len(parts)].who
        raise DataError(
            f"{who}: the greatest label is {many - 1}, with {samples} samples in all: for values to predict "
            'say kind="values", for so many classes say how many (classes=...)'
        )
    return max(many, 1)
