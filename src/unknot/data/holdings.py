"""What somebody gives as samples, read as inputs and targets; what is wrong with it is said by name."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import Dataset

from unknot.core.errors import DataError
from unknot.data.text import windows
from unknot.text.alphabet import Characters


@dataclass(frozen=True, eq=False)
class Held:
    """Inputs and targets as they were given, a row a sample; `who` is for messages."""

    who: str
    x: Tensor
    y: Tensor
    text: bool = False
    on_disk: bool = False
    """Whether the inputs lie in a file of the user's."""

    def __len__(self) -> int:
        return len(self.x)


def read(given: object, who: str, vocabulary: str, context: int) -> Held:
    """A pair of arrays or tensors, a `Dataset` of pairs, or texts."""
    texts = [given] if isinstance(given, str) else given
    if isinstance(texts, list | tuple) and texts and all(isinstance(item, str) for item in texts):
        words, following, _ = windows(Characters(vocabulary).encode_all(texts), context, len(vocabulary))
        if not len(words):
            raise DataError(f"{who}: there is no text of two characters or more, so nothing to predict")
        return Held(who, torch.from_numpy(words), torch.from_numpy(following), text=True)
    if isinstance(given, tuple | list) and len(given) == 2:
        x, y = given
    elif isinstance(given, Dataset):
        x, y = _pairs(given, who)
    else:
        raise DataError(
            f"{who}: expected a pair (X, y), a Dataset of such pairs, or texts; found {type(given).__name__}"
        )
    held = Held(who, as_tensor(x, f"{who}: inputs"), as_tensor(y, f"{who}: targets"))
    wide, many = tuple(held.x.shape), tuple(held.y.shape)
    if len(wide) < 2 or len(many) not in (1, 2) or wide[0] != many[0] or 0 in wide + many:
        raise DataError(
            f"{who}: inputs of shape {wide} and targets of shape {many}; expected a row per sample in both, "
            "features in each row of inputs (X.reshape(-1, 1) makes one of each number), and one number or a "
            "row as target; leave out who has no samples"
        )
    return Held(who, held.x, held.y, on_disk=isinstance(x, np.memmap))


def as_tensor(given: object, what: str) -> Tensor:
    """Numbers as a tensor, without a copy where that can be."""
    if isinstance(given, Tensor) and given.layout == torch.strided and not given.is_complex():
        return given.detach().cpu()
    try:
        array = np.asarray(given)
    except ValueError:
        raise DataError(f"{what} are rows of different lengths; they must be of one shape") from None
    if array.dtype.kind not in "biuf" or isinstance(given, np.ma.MaskedArray | Tensor):
        raise DataError(
            f"{what} must be plain numbers, found {type(given).__name__} of {array.dtype}: number classes "
            "0, 1, 2..., give each category a column of 0 and 1, and fill gaps"
        )
    array = array.astype(array.dtype.newbyteorder("="), copy=min(array.strides, default=0) < 0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # about arrays that are read-only: this is one of them
        return torch.from_numpy(array)


def _pairs(dataset: Dataset[Any], who: str) -> list[Tensor]:
    """The inputs and the targets of all items, read once, in their order."""
    place, items = "the Dataset", []
    try:
        for i in range(len(dataset)):  # type: ignore[arg-type]
            place = f"item {i} of the Dataset"
            x, y = dataset[i]
            items.append((torch.as_tensor(x), torch.as_tensor(y)))
        place = "the Dataset"
        inputs, targets = zip(*items, strict=True)
        return [torch.stack(inputs), torch.stack(targets)]
    except Exception as error:  # whatever a Dataset of the user's does
        raise DataError(f"{who}: {place} does not give pairs (input, target) of numbers: {error}") from error
