"""What the samples of all clients have in common, as it is said or as it looks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce

import numpy as np
import torch

from unknot.core.data import Samples, Shard
from unknot.core.errors import DataError
from unknot.core.mapped import as_tensor, mapped
from unknot.data.dataset import Ints
from unknot.data.holdings import Held, Values, floating, gathered, rows_in_one_file, tensor_of

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
        for part in parts:
            _check_size(part)
        kind = _kind_of(parts, kind, classes)
        text = kind == "classes" and first.y.ndim > 1 and not floating(first.x)
        many = _number_of(parts, kind, text) if classes is None else classes
        tokens = text if tokens is None else tokens
        inputs = torch.int64
        for part in parts:
            if tokens and floating(part.x):
                raise DataError(f"{part.who}: tokens are whole numbers, but the inputs are floating-point")
        if not tokens:
            types = [tensor_of(p.x[:1]).dtype if floating(p.x) else torch.float32 for p in parts]
            inputs = reduce(torch.promote_types, types)
        targets = torch.int64
        if kind != "classes":
            types = [tensor_of(p.y[:1]).dtype if floating(p.y) else torch.float32 for p in parts]
            targets = reduce(torch.promote_types, types)
        return Form(kind, many, inputs, targets)

    def joined(self, parts: Mapping[int, Held]) -> tuple[Samples, dict[int, Shard]]:
        """All that clients hold, one after the other; or where it lies, if that is one file."""
        together = rows_in_one_file([part.x for part in parts.values()])
        if together is not None and as_tensor(together[0][:1]).dtype == self.inputs:
            whole, rows = together
            y = torch.zeros((len(whole), *next(iter(parts.values())).y.shape[1:]), dtype=self.targets)
            for mine, part in zip(rows, parts.values(), strict=True):
                y[torch.from_numpy(mine)] = tensor_of(part.y).to(self.targets)
            shards = {client: Shard.of(mine) for client, mine in zip(parts, rows, strict=True)}
            return Samples(mapped(as_tensor(whole)), y, self.classes, self.kind), shards
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
        x = gathered([part.x for part in parts], self.inputs)
        y = torch.cat([tensor_of(part.y).to(self.targets) for part in parts])
        return Samples(x, y, self.classes, self.kind)


def _check_alike(parts: Sequence[Held]) -> None:
    first = parts[0]
    for part in parts[1:]:
        if part.text != first.text:
            texts, numbers = (part, first) if part.text else (first, part)
            raise DataError(f"{texts.who}: texts, but {numbers.who}: numbers; all must be of one kind")
        for what, mine, theirs in (
            ("inputs", first.shape, part.shape),
            ("targets", tuple(first.y.shape[1:]), tuple(part.y.shape[1:])),
        ):
            if mine != theirs:
                raise DataError(
                    f"{part.who}: {what} of shape {theirs} a sample, but {first.who}: of shape {mine}; "
                    "all must be of one shape"
                )


def _kind_of(parts: Sequence[Held], kind: str | None, classes: int | None) -> str:
    """What the targets are: as `kind` says, or as they look."""
    first, wide = parts[0], parts[0].y.ndim > 1
    if kind == "labels" and not wide:
        raise DataError(
            f"{first.who}: targets have one axis, but several labels are a table: "
            "a row a sample, a column a label"
        )
    whole = [part for part in parts if not floating(part.y)]
    others = [part for part in parts if floating(part.y)]
    if kind in ("labels", "values"):
        return kind
    if kind == "classes" or (classes is not None and not wide):
        if others:
            raise DataError(
                f"{others[0].who}: targets are floating-point numbers, but classes are whole ones: "
                "y.astype(int) makes them so; for values to predict, leave classes out"
            )
        return "classes"
    if whole and others:
        raise DataError(
            f"{others[0].who}: targets are floating-point numbers, but {whole[0].who}: whole ones; "
            'are they classes, or values to predict? Make them alike, or say kind="values"'
        )
    if not wide:
        return "classes" if whole else "values"
    if all(_zeros_and_ones(part.y) for part in parts):
        return "labels"
    if others:
        return "values"
    if not floating(first.x) and first.shape == tuple(first.y.shape[1:]):
        return "classes"
    strange = next(part for part in parts if not _zeros_and_ones(part.y))
    raise DataError(
        f"{strange.who}: targets are a table of whole numbers, shape {tuple(strange.y.shape)}, but not of 0 "
        "and 1 as several labels are. One class a sample is one axis, as y.reshape(-1) or y.argmax(1) make "
        "it; else say which kind they are"
    )


def _check_size(part: Held) -> None:
    """Whole numbers that 64 bits with a sign do not hold would come out negative."""
    for what, values in (("labels", part.y), ("inputs", part.x)):
        if (found := tensor_of(values[:1])).dtype == torch.uint64 and len(found):
            greatest = int(np.max(np.asarray(tensor_of(values))))
            if greatest > torch.iinfo(torch.int64).max:
                raise DataError(
                    f"{part.who}: {what} of up to {greatest}, but whole numbers must be below 2^63"
                )


def _zeros_and_ones(values: Values) -> bool:
    found = tensor_of(values)
    return bool(((found == 0) | (found == 1)).all())


def _greatest(values: Values) -> int:
    return int(tensor_of(values).to(torch.int64).max())


def _number_of(parts: Sequence[Held], kind: str, text: bool) -> int:
    """How many classes, labels or values there are; in a text, inputs are of the same classes."""
    first = parts[0].y
    if kind != "classes":
        return 1 if first.ndim == 1 else int(first.shape[1])
    greatest = [_greatest(part.y) for part in parts]
    if text:
        greatest = [max(label, _greatest(part.x)) for label, part in zip(greatest, parts, strict=True)]
    many, samples = max(greatest) + 1, sum(map(len, parts))
    if many > MANY and many > samples:
        who = parts[int(np.argmax(greatest))].who
        raise DataError(
            f"{who}: the greatest label is {many - 1}, with {samples} samples in all. For values to predict "
            'say kind="values"; if there are so many classes, say how many: classes=...'
        )
    return max(many, 1)
