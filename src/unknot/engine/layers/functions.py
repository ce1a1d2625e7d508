"""Layers and functions without parameters, each run on a whole stack of models at once."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from unknot.engine.bits import stable
from unknot.engine.layers.forms import (
    Image,
    Parameters,
    Rule,
    Unsupported,
    Value,
    shape_of,
    to_image,
    to_rows,
)


def on_image(function: Callable[..., Tensor]) -> Rule:
    """Pooling: every channel for itself, so a row's channels may lie beside others'."""

    def rule(parameters: Parameters, x: Value, *args: Any, **options: Any) -> Value:
        if isinstance(x, Tensor) and x.is_cuda and x.dim() == 5:
            # Where our own kernels convolve, rows lie one after the other, and stay so.
            out = function(x.flatten(0, 1), *args, **options)
            return out.view(*x.shape[:2], *out.shape[1:])
        image = to_image(x)
        return Image(function(image.data, *args, **options), image.rows)

    return rule


def _adaptive_average(parameters: Parameters, x: Value, output_size: Any) -> Value:
    if output_size in (1, (1, 1), [1, 1]):
        # The mean over all of an image, each row's numbers being added up in one run of memory.
        return to_rows(x).contiguous().mean((-2, -1), keepdim=True)
    return on_image(F.adaptive_avg_pool2d)(parameters, x, output_size)


def exact(function: Callable[..., Tensor]) -> Rule:
    """A function of each number that scalar and vector code round alike (or not at all)."""

    def rule(parameters: Parameters, x: Value, *args: Any, **options: Any) -> Value:
        options.pop("inplace", None)
        if isinstance(x, Image):
            return Image(function(x.data, *args, **options), x.rows)
        return function(x, *args, **options)

    return rule


def smooth(function: Callable[..., Tensor]) -> Rule:
    """A function of each number whose last bit depends on the code that computes it."""

    def rule(parameters: Parameters, x: Value, *args: Any, **options: Any) -> Value:
        options.pop("inplace", None)

        def call(flat: Tensor) -> Tensor:
            return function(flat, *args, **options)

        if isinstance(x, Image):
            last = stable.pointwise(call, x.data.permute(0, 2, 3, 1))
            return Image(last.permute(0, 3, 1, 2), x.rows)
        return stable.pointwise(call, x)

    return rule


def binary(function: Callable[..., Any]) -> Rule:
    """A sum, product... of two values, or of a value and a number."""

    def rule(parameters: Parameters, a: Value, b: Value) -> Value:
        if isinstance(a, Image) and isinstance(b, Image) and a.data.shape == b.data.shape:
            return Image(function(a.data, b.data), a.rows)
        if isinstance(a, Image) and isinstance(b, int | float):
            return Image(function(a.data, b), a.rows)
        a, b = to_rows(a), to_rows(b)
        if isinstance(a, Tensor) and isinstance(b, Tensor):
            dims = max(a.dim(), b.dim())
            a, b = (t.view(len(t), *(1,) * (dims - t.dim()), *t.shape[1:]) for t in (a, b))
        return function(a, b)

    return rule


def _shifted(dim: int) -> int:
    """A row's axis as one of the stack."""
    return dim + 1 if dim >= 0 else dim


def _sizes(shape: tuple[Any, ...]) -> tuple[int, ...]:
    return tuple(shape[0]) if len(shape) == 1 and isinstance(shape[0], tuple | list) else shape


def _flatten(parameters: Parameters, x: Value, start_dim: int = 0, end_dim: int = -1) -> Tensor:
    rows: Tensor = to_rows(x)
    return rows.flatten(_shifted(start_dim), _shifted(end_dim))


def _reshape(parameters: Parameters, x: Value, *shape: Any) -> Tensor:
    rows: Tensor = to_rows(x)
    return rows.reshape(len(rows), *_sizes(shape))


def _permute(parameters: Parameters, x: Value, *dims: Any) -> Tensor:
    rows: Tensor = to_rows(x)
    own = rows.dim() - 1
    return rows.permute(0, *(dim % own + 1 for dim in _sizes(dims)))


def _transpose(parameters: Parameters, x: Value, a: int, b: int) -> Tensor:
    rows: Tensor = to_rows(x)
    return rows.transpose(_shifted(a), _shifted(b))


def _mean(parameters: Parameters, x: Value, dim: Any, keepdim: bool = False) -> Tensor:
    rows: Tensor = to_rows(x).contiguous()
    dims = (dim,) if isinstance(dim, int) else tuple(dim)
    return rows.mean([_shifted(d) for d in dims], keepdim=keepdim)


def _size(parameters: Parameters, x: Value, dim: int | None = None) -> Any:
    return shape_of(x) if dim is None else shape_of(x)[dim]


def _getattr(parameters: Parameters, x: Value, name: str) -> Any:
    if name != "shape":
        raise Unsupported(f"the attribute {name!r} of an activation")
    return shape_of(x)


def _getitem(parameters: Parameters, x: Value, place: Any) -> Any:
    if isinstance(x, tuple):
        return x[place]
    rows: Tensor = to_rows(x)
    return rows[(slice(None), *(place if isinstance(place, tuple) else (place,)))]


def _same(parameters: Parameters, x: Value, *args: Any, **options: Any) -> Value:
    return x


# A module without parameters is its function with the attributes named here.
PLAIN_MODULES: dict[type[nn.Module], tuple[Callable[..., Any], tuple[str, ...]]] = {
    nn.ReLU: (F.relu, ()),
    nn.LeakyReLU: (F.leaky_relu, ("negative_slope",)),
    nn.Hardtanh: (F.hardtanh, ("min_val", "max_val")),
    nn.ReLU6: (F.relu6, ()),
    nn.Tanh: (torch.tanh, ()),
    nn.Sigmoid: (torch.sigmoid, ()),
    nn.GELU: (F.gelu, ("approximate",)),
    nn.SiLU: (F.silu, ()),
    nn.ELU: (F.elu, ("alpha",)),
    nn.Softplus: (F.softplus, ("beta", "threshold")),
    nn.Flatten: (torch.flatten, ("start_dim", "end_dim")),
    nn.Identity: (operator.pos, ()),
    nn.Dropout: (operator.pos, ()),  # only ever with p=0: anything else is refused before
    nn.Dropout2d: (operator.pos, ()),
    nn.MaxPool2d: (
        F.max_pool2d,
        ("kernel_size", "stride", "padding", "dilation", "ceil_mode"),
    ),
    nn.AvgPool2d: (
        F.avg_pool2d,
        ("kernel_size", "stride", "padding", "ceil_mode", "count_include_pad", "divisor_override"),
    ),
    nn.AdaptiveAvgPool2d: (F.adaptive_avg_pool2d, ("output_size",)),
}

FUNCTIONS: dict[Any, tuple[str, Rule]] = {
    F.relu: ("relu", exact(F.relu)),
    torch.relu: ("relu", exact(F.relu)),
    F.leaky_relu: ("pointwise", exact(F.leaky_relu)),
    F.hardtanh: ("pointwise", exact(F.hardtanh)),
    F.relu6: ("pointwise", exact(F.relu6)),
    operator.neg: ("pointwise", exact(torch.neg)),
    torch.tanh: ("tanh", smooth(torch.tanh)),
    F.tanh: ("tanh", smooth(torch.tanh)),
    torch.sigmoid: ("pointwise", smooth(torch.sigmoid)),
    F.sigmoid: ("pointwise", smooth(torch.sigmoid)),
    F.gelu: ("pointwise", smooth(F.gelu)),
    F.silu: ("pointwise", smooth(F.silu)),
    F.elu: ("pointwise", smooth(F.elu)),
    F.softplus: ("pointwise", smooth(F.softplus)),
    F.max_pool2d: ("max_pool2d", on_image(F.max_pool2d)),
    F.avg_pool2d: ("avg_pool2d", on_image(F.avg_pool2d)),
    F.adaptive_avg_pool2d: ("avg_pool2d", _adaptive_average),
    operator.add: ("add", binary(operator.add)),
    torch.add: ("add", binary(operator.add)),
    operator.iadd: ("add", binary(operator.add)),
    operator.sub: ("sub", binary(operator.sub)),
    operator.mul: ("mul", binary(operator.mul)),
    torch.mul: ("mul", binary(operator.mul)),
    operator.truediv: ("div", binary(operator.truediv)),
    torch.flatten: ("flatten", _flatten),
    torch.reshape: ("reshape", _reshape),
    torch.permute: ("permute", _permute),
    torch.transpose: ("transpose", _transpose),
    torch.mean: ("mean", _mean),
    getattr: ("size", _getattr),
    operator.getitem: ("getitem", _getitem),
    operator.pos: ("same", _same),
}

METHODS: dict[str, tuple[str, Rule]] = {
    "relu": FUNCTIONS[F.relu],
    "tanh": FUNCTIONS[torch.tanh],
    "sigmoid": FUNCTIONS[torch.sigmoid],
    "flatten": FUNCTIONS[torch.flatten],
    "view": ("reshape", _reshape),
    "reshape": ("reshape", _reshape),
    "permute": ("permute", _permute),
    "transpose": ("transpose", _transpose),
    "mean": ("mean", _mean),
    "size": ("size", _size),
    "add": FUNCTIONS[operator.add],
    "mul": FUNCTIONS[operator.mul],
    "contiguous": ("same", _same),
}
