"""Operations on a stack whose bits for one row do not depend on the rows beside it.

With one intra-op thread, two things in ATen and MKL still make a result depend on where in memory a
number lies: a matrix product takes other instructions when a matrix does not start on a 64-byte line,
and a vectorised function (sigmoid, GELU, pow...) handles the last few numbers of a tensor by scalar
code that rounds differently. So products are padded with zeros until every matrix of a stack starts
on a line, and such functions are applied to a flat tensor that is padded to whole vectors. Addition,
multiplication, division and square root round the same way everywhere and need nothing.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F
from torch.utils._python_dispatch import TorchDispatchMode

from unknot.core.training.steady import LINE as LINE
from unknot.core.training.steady import pointwise as pointwise


def pad_up(size: int, unit: int) -> int:
    return -(-size // unit) * unit


def padded_sizes(m: int, k: int, n: int, itemsize: int) -> tuple[int, int]:
    """The k and n with which ``[m, k] @ [k, n]`` and its gradients have all matrices on lines."""
    unit = LINE // itemsize
    k_padded = k if m * k % unit == 0 and k * n % unit == 0 else pad_up(k, unit)
    n_padded = n if m * n % unit == 0 and k_padded * n % unit == 0 else pad_up(n, unit)
    return k_padded, n_padded


def bmm(a: Tensor, b: Tensor, bias: Tensor | None = None) -> Tensor:
    """``a @ b (+ bias)`` for stacks ``[r, m, k]``, ``[r, k, n]`` and ``[r, 1, n]``."""
    if torch.is_autocast_enabled(a.device.type):  # rounded first: what lies on lines is what is multiplied
        lower = torch.get_autocast_dtype(a.device.type)
        a, b, bias = a.to(lower), b.to(lower), None if bias is None else bias.to(lower)
    m, k, n = a.shape[1], a.shape[2], b.shape[2]
    k_padded, n_padded = padded_sizes(m, k, n, a.element_size())
    if k_padded != k:
        a = F.pad(a, (0, k_padded - k))
    if k_padded != k or n_padded != n:
        b = F.pad(b, (0, n_padded - n, 0, k_padded - k))
    if bias is None:
        product = torch.bmm(a, b)
    else:
        if n_padded != n:
            bias = F.pad(bias, (0, n_padded - n))
        product = torch.baddbmm(bias, a, b)
    return product if n_padded == n else product[:, :, :n]


# Rounded correctly (or not at all) by scalar and vector code alike: no padding needed.
_EXACT = frozenset(
    """
    add sub rsub mul div neg abs sqrt square reciprocal addcmul addcdiv lerp relu threshold
    threshold_backward leaky_relu leaky_relu_backward hardtanh hardtanh_backward where clamp clamp_min
    clamp_max maximum minimum eq ne lt le gt ge isnan isinf logical_and logical_or logical_not bitwise_and
    bitwise_or bitwise_not masked_fill fill floor ceil round sign copy clone detach ones_like zeros_like
    _to_copy
    """.split()  # noqa: SIM905
)


# Functions of single numbers that PyTorch does not mark as such.
_UNMARKED = frozenset(
    """
    mish_backward softplus_backward elu_backward hardswish hardswish_backward hardsigmoid_backward
    """.split()  # noqa: SIM905
)


class Guard(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Within: the products and functions of a model that nobody rewrote are made stable, too.

    It sees the calls below `torch.vmap`, forward and backward, where a stack is a plain tensor.
    """

    def __init__(self, rows: int) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.rows = rows

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        name = func.overloadpacket.__name__
        if name == "bmm":
            return bmm(*args)
        if name == "baddbmm" and not kwargs and args[0].dim() == 3 and args[0].shape[1] == 1:
            return bmm(args[1], args[2], args[0])
        if name == "mm" and args[0].shape[0] % self.rows == 0:
            # One factor is the same for all rows: the rows lie below one another in the other.
            a, b = args
            stack = a.contiguous().view(self.rows, -1, a.shape[1])
            return bmm(stack, b.expand(self.rows, -1, -1)).reshape(a.shape[0], -1)
        marked = torch.Tag.pointwise in func.tags and name not in _EXACT
        if (marked or name in _UNMARKED) and not func._schema.is_mutable:
            return self._pointwise(func, args, kwargs)
        return func(*args, **kwargs)

    def _pointwise(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        places = [i for i, value in enumerate(args) if isinstance(value, Tensor) and value.dim()]
        if not places or not all(args[i].is_floating_point() for i in places):
            return func(*args, **kwargs)
        shape = np.broadcast_shapes(*(args[i].shape for i in places))
        tensors = [args[i].expand(shape) for i in places]

        def call(*flat: Tensor) -> Any:
            given = list(args)
            for place, tensor in zip(places, flat, strict=True):
                given[place] = tensor
            return func(*given, **kwargs)

        return pointwise(call, *tensors)
