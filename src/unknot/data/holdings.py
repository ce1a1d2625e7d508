"""What somebody gives as samples, read as inputs and targets; what is wrong with it is said by name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.utils.data import Dataset, IterableDataset, TensorDataset

from unknot.core.errors import DataError
from unknot.core.mapped import as_tensor, lies_in_a_file, mapped, root_of, stored
from unknot.data.text import windows
from unknot.text.alphabet import Characters

Values = NDArray[Any] | Tensor

_STRANGE = {
    "O": "Python objects (of type {first})",
    "U": "texts",
    "S": "bytes",
    "c": "complex numbers",
    "m": "time spans",
    "M": "dates",
    "V": "records",
}
_ENCODE = {
    "inputs": "encode what is no number (a column of 0 and 1 for each category, say)",
    "targets": "number the classes 0, 1, 2..., in the same way for all clients",
}


@dataclass(frozen=True, eq=False)
class Held:
    """Inputs and targets as they were given, a row a sample; `who` is for messages."""

    who: str
    x: Values
    y: Values
    text: bool = False

    def __len__(self) -> int:
        return len(self.x)

    @property
    def shape(self) -> tuple[int, ...]:
        """Of one input."""
        return tuple(self.x.shape[1:])


def read(given: object, who: str, vocabulary: str, context: int) -> Held:
    """A pair of arrays or tensors, a `Dataset` of pairs, or texts."""
    if texts := _texts(given):
        words, following, _ = windows(Characters(vocabulary).encode_all(texts), context, len(vocabulary))
        if not len(words):
            raise DataError(f"{who}: there is no text of two characters or more, so nothing to predict")
        return Held(who, words, following, text=True)
    if isinstance(given, IterableDataset):
        raise DataError(
            f"{who}: an IterableDataset has no order to number samples by; give one with items by number"
        )
    if isinstance(given, tuple | list) and len(given) == 2:
        x, y = _values(given[0], who, "inputs"), _values(given[1], who, "targets")
    elif _is_dataset(given):
        x, y = _from_dataset(given, who)
    else:
        found = f"{type(given).__name__} of {len(given)}" if isinstance(given, tuple | list) else _name(given)
        raise DataError(f"{who}: expected a pair (X, y), a Dataset of such pairs, or texts; found {found}")
    _check(who, x, y)
    return Held(who, x, y)


def floating(values: Values) -> bool:
    return values.is_floating_point() if isinstance(values, Tensor) else values.dtype.kind == "f"


def tensor_of(values: Values) -> Tensor:
    """As a tensor, without a copy where that can be."""
    if isinstance(values, Tensor):
        return values.detach().cpu()
    if values.dtype.kind == "f" and values.dtype.itemsize > 8:
        values = values.astype(np.float64)
    elif not values.dtype.isnative:
        values = values.astype(values.dtype.newbyteorder("="))
    if min(values.strides, default=0) < 0:
        values = np.ascontiguousarray(values)
    return as_tensor(values)


def gathered(parts: Sequence[Values], dtype: torch.dtype) -> Tensor:
    """One after the other, in a copy of our own. What lies in files stays on disk; one file, as it is."""
    tensors = [tensor_of(part) for part in parts]
    if any(map(lies_in_a_file, parts)):
        as_it_is = len(tensors) == 1 and tensors[0].dtype == dtype and tensors[0].is_contiguous()
        return mapped(tensors[0]) if as_it_is else stored(tensors, dtype)
    return torch.cat([tensor.to(dtype) for tensor in tensors])


def rows_in_one_file(parts: Sequence[Values]) -> tuple[NDArray[Any], list[NDArray[np.int64]]] | None:
    """The memory-mapped array that all of these are rows of, each of others, and which; if there is one."""
    root = root_of(parts[0]) if isinstance(parts[0], np.ndarray) else None
    if root is None or not root.flags.c_contiguous or not root.dtype.isnative or not root.size:
        return None
    found = []
    for part in parts:
        if not isinstance(part, np.ndarray) or root_of(part) is not root or part.dtype != root.dtype:
            return None
        if part.shape[1:] != root.shape[1:] or part.strides[1:] != root.strides[1:]:
            return None
        step, odd = divmod(part.strides[0], root.strides[0])
        first, between = divmod(_address(part) - _address(root), root.strides[0])
        if odd or between:
            return None
        found.append(first + step * np.arange(len(part), dtype=np.int64))
    everything = np.concatenate(found)
    if len(np.unique(everything)) < len(everything):
        return None
    return np.asarray(root), found


def _texts(given: object) -> list[str]:
    if isinstance(given, str):
        return [given]
    if isinstance(given, list | tuple) and given and all(isinstance(item, str) for item in given):
        return list(given)
    return []


def _is_dataset(given: object) -> bool:
    if isinstance(given, Dataset):
        return True
    other = isinstance(given, list | tuple | Mapping | bytes) or hasattr(given, "__array__")
    return not other and hasattr(given, "__getitem__") and hasattr(given, "__len__")


def _values(given: object, who: str, what: str) -> Values:
    if isinstance(given, Tensor):
        if given.is_complex() or given.layout != torch.strided:
            found = "complex numbers" if given.is_complex() else "a sparse tensor"
            raise DataError(f"{who}: {what} must be plain numbers, found {found}")
        return given
    if isinstance(given, np.ma.MaskedArray):
        raise DataError(f"{who}: {what} have gaps (a masked array); fill them, or leave those rows out")
    try:
        array = given if isinstance(given, np.ndarray) else np.asarray(given)
    except ValueError:
        raise DataError(f"{who}: {what} are rows of different lengths; they must be of one shape") from None
    if array.dtype.kind in _STRANGE:
        first = type(array.flat[0]).__name__ if array.dtype.kind == "O" and array.size else "none"
        found = _STRANGE[array.dtype.kind].format(first=first)
        raise DataError(f"{who}: {what} must be numbers, found {found}: {_ENCODE[what]}")
    return array


def _check(who: str, x: Values, y: Values) -> None:
    """Raise for shapes that are no samples."""
    if x.ndim == 0 or y.ndim == 0:
        raise DataError(f"{who}: expected a row a sample, found a single number")
    if x.ndim == 1:
        raise DataError(
            f"{who}: inputs have one axis, shape {tuple(x.shape)}; expected a row a sample, with features: "
            "X.reshape(-1, 1) makes a table of one column"
        )
    if y.ndim > 2:
        raise DataError(f"{who}: targets have {y.ndim} axes, shape {tuple(y.shape)}; expected one or two")
    if len(x) != len(y):
        raise DataError(f"{who}: {len(x)} inputs but {len(y)} targets")
    if not len(x):
        raise DataError(f"{who}: there are no samples; leave it out")
    if 0 in x.shape or 0 in y.shape:
        raise DataError(
            f"{who}: samples of shape {tuple(x.shape[1:])} with targets {tuple(y.shape[1:])}: empty"
        )


def _from_dataset(dataset: Any, who: str) -> tuple[Values, Values]:
    """All items, read once, in their order."""
    if isinstance(dataset, TensorDataset) and len(dataset.tensors) == 2:
        return _values(dataset.tensors[0], who, "inputs"), _values(dataset.tensors[1], who, "targets")
    try:
        count = len(dataset)
    except (TypeError, NotImplementedError):
        raise DataError(f"{who}: the Dataset does not say how many items it has: give it __len__") from None
    items: list[list[Tensor]] = [[], []]
    for i in range(count):
        try:
            item = dataset[i]
        except Exception as error:  # whatever a Dataset of the user's does
            what = f"{type(error).__name__}: {error}"
            raise DataError(f"{who}: item {i} of the Dataset cannot be read: {what}") from error
        if not isinstance(item, tuple | list) or len(item) != 2:
            found = f"{type(item).__name__} of {len(item)}" if isinstance(item, tuple | list) else _name(item)
            raise DataError(f"{who}: item {i} of the Dataset is no pair (input, target), but {found}")
        for part, what, value in zip(items, ("input", "target"), item, strict=True):
            part.append(_element(value, f"{who}: the {what} of item {i}"))
            if part[-1].shape != part[0].shape:
                raise DataError(
                    f"{who}: the {what} of item {i} is of shape {tuple(part[-1].shape)}, that of item 0 of "
                    f"{tuple(part[0].shape)}; all must be of one shape"
                )
    if not count:
        raise DataError(f"{who}: there are no samples; leave it out")
    inputs, targets = map(torch.stack, items)
    return inputs, targets


def _element(value: object, what: str) -> Tensor:
    if isinstance(value, bool | int | float | np.generic | np.ndarray | Tensor):
        if isinstance(value, Tensor):
            return value.detach().cpu()
        if np.asarray(value).dtype.kind in "biuf":
            return torch.as_tensor(value)
    raise DataError(f"{what} is {_name(value)}: give tensors, arrays or numbers (a transform can do that)")


def _name(value: object) -> str:
    name = type(value).__name__
    return name if name[0].isupper() or value is None else f"{'an' if name[0] in 'aeiou' else 'a'} {name}"


def _address(array: NDArray[Any]) -> int:
    return int(array.__array_interface__["data"][0])
