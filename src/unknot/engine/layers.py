"""How each known layer runs on a whole stack of models at once.

Activations travel in one of two forms: a plain tensor ``[rows, batch, ...]``, or an `Image`, in which
the rows' channels lie side by side so that one grouped convolution serves all rows. A rule takes the
stacked parameters and its inputs in either form; it treats every row as the layer would treat it alone.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from unknot.engine import stable


@dataclass(frozen=True, slots=True)
class Image:
    """Activations ``[batch, rows * channels, height, width]``, channels last in memory."""

    data: Tensor
    rows: int

    @property
    def dtype(self) -> torch.dtype:
        return self.data.dtype

    @property
    def shape(self) -> tuple[int, ...]:
        """As one row sees it."""
        batch, channels, height, width = self.data.shape
        return batch, channels // self.rows, height, width


Value = Any  # a Tensor, an Image, or a plain Python value such as a size
Parameters = Mapping[str, Tensor]
Rule = Callable[..., Value]  # (parameters, *inputs, **options) -> value


@dataclass(frozen=True)
class Layer:
    """A rule, what kind it is of, and the order of axes in which it wants its parameters stored."""

    kind: str
    rule: Rule
    stored: Mapping[str, tuple[int, ...]]


class Unsupported(Exception):
    """A layer or function that there is no rule for; says which."""


def to_rows(value: Value) -> Value:
    return _ToRows.apply(value.data, value.rows) if isinstance(value, Image) else value  # type: ignore[no-untyped-call]


def to_image(value: Value) -> Image:
    if isinstance(value, Image):
        return value
    if value.dim() != 5:
        raise Unsupported(f"images (channels, height, width) are needed, not {tuple(value.shape[2:])}")
    return Image(_ToImage.apply(value), len(value))  # type: ignore[no-untyped-call]


class _ToRows(torch.autograd.Function):
    """Image to rows, each in memory of its own: a sum over one must not run across the others.

    Backward is `_ToImage` and the other way round, so that gradients of any order are laid out alike.
    """

    @staticmethod
    def forward(ctx: Any, data: Tensor, rows: int) -> Tensor:
        batch, channels, height, width = data.shape
        side_by_side = data.view(batch, rows, channels // rows, height, width)
        return side_by_side.transpose(0, 1).contiguous()

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        return _ToImage.apply(gradient), None  # type: ignore[no-untyped-call]


class _ToImage(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, stack: Tensor) -> Tensor:
        rows, batch, channels, height, width = stack.shape
        ctx.rows = rows
        last = stack.permute(1, 3, 4, 0, 2).contiguous().view(batch, height, width, rows * channels)
        return last.permute(0, 3, 1, 2)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        rows: Tensor = _ToRows.apply(gradient, ctx.rows)  # type: ignore[no-untyped-call]
        return rows


def shape_of(value: Value) -> tuple[int, ...]:
    return value.shape if isinstance(value, Image) else tuple(value.shape[1:])


# ---- layers with parameters ----------------------------------------------------------------------


def _affine(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """``[rows, ..., in]`` by a stack of ``[in, out]`` matrices."""
    flat = x.reshape(x.shape[0], -1, x.shape[-1])
    product = stable.bmm(flat, weight, None if bias is None else bias.unsqueeze(1))
    return product.reshape(*x.shape[:-1], weight.shape[-1])


def _linear(module: nn.Linear, names: Mapping[str, str], twice: bool) -> Layer:
    weight, bias = names["weight"], names.get("bias")

    def rule(parameters: Parameters, x: Value) -> Tensor:
        return _affine(to_rows(x), parameters[weight], None if bias is None else parameters[bias])

    return Layer("linear", rule, {weight: (1, 0)})


def _conv2d(module: nn.Conv2d, names: Mapping[str, str], twice: bool) -> Layer:
    weight, bias = names["weight"], names.get("bias")
    if module.padding_mode != "zeros":
        raise Unsupported(f"a convolution with padding_mode={module.padding_mode!r}")
    stride, padding, dilation = module.stride, module.padding, module.dilation
    groups, kernel = module.groups, module.kernel_size
    by_product = kernel == (1, 1)  # for which PyTorch leaves the library that the others run in

    def rule(parameters: Parameters, x: Value) -> Image:
        image = to_image(x)
        kernels = parameters[weight].flatten(0, 1).permute(0, 3, 1, 2)
        biases = None if bias is None else parameters[bias].flatten()
        if (by_product or x.dtype == torch.float64) and not isinstance(padding, str):
            return _conv_by_product(image, kernels, biases, stride, padding, dilation, groups)
        out = F.conv2d(image.data, kernels, biases, stride, padding, dilation, image.rows * groups)
        return Image(out, image.rows)

    return Layer("conv2d", rule, {weight: (0, 2, 3, 1)})


def _conv_by_product(
    image: Image,
    kernels: Tensor,
    biases: Tensor | None,
    stride: Any,
    padding: Any,
    dilation: Any,
    groups: int,
) -> Image:
    """A convolution as the product of its kernels with the patches they lie on."""
    batch, _, height, width = image.data.shape
    sizes = [
        (size + 2 * p - d * (k - 1) - 1) // s + 1
        for size, p, d, k, s in zip(
            (height, width), padding, dilation, kernels.shape[2:], stride, strict=True
        )
    ]
    blocks = image.rows * groups
    patches = F.unfold(image.data, kernels.shape[2:], dilation, padding, stride)
    stack = patches.view(batch, blocks, -1, patches.shape[-1]).permute(1, 2, 0, 3).flatten(2)
    matrices = kernels.reshape(blocks, -1, stack.shape[1])
    out = stable.bmm(matrices, stack)
    if biases is not None:
        out = out + biases.view(blocks, -1, 1)
    rows = out.view(image.rows, -1, batch, *sizes).transpose(1, 2)
    return to_image(rows)


def _group_norm(module: nn.GroupNorm, names: Mapping[str, str], twice: bool) -> Layer:
    weight, bias = names.get("weight"), names.get("bias")
    groups, eps = module.num_groups, module.eps

    def rule(parameters: Parameters, x: Value) -> Value:
        scale = None if weight is None else parameters[weight]
        shift = None if bias is None else parameters[bias]
        if isinstance(x, Image) and not twice:
            scales = None if scale is None else scale.flatten()
            shifts = None if shift is None else shift.flatten()
            return Image(F.group_norm(x.data, x.rows * groups, scales, shifts, eps), x.rows)
        # Differentiated twice, the sums must not run across rows that lie side by side.
        x = to_rows(x).contiguous()
        normal = F.group_norm(x.flatten(0, 1), groups, None, None, eps).view(x.shape)
        channels = (len(x), 1, -1) + (1,) * (x.dim() - 3)
        return _scaled(normal, scale, shift, channels)

    return Layer("group_norm", rule, {})


def _layer_norm(module: nn.LayerNorm, names: Mapping[str, str], twice: bool) -> Layer:
    weight, bias = names.get("weight"), names.get("bias")
    shape, eps = list(module.normalized_shape), module.eps

    def rule(parameters: Parameters, x: Value) -> Tensor:
        x = to_rows(x)
        normal = F.layer_norm(x, shape, None, None, eps)
        scale = None if weight is None else parameters[weight]
        shift = None if bias is None else parameters[bias]
        return _scaled(normal, scale, shift, (len(x), *(1,) * (x.dim() - 1 - len(shape)), *shape))

    return Layer("layer_norm", rule, {})


def _scaled(x: Tensor, scale: Tensor | None, shift: Tensor | None, shape: tuple[int, ...]) -> Tensor:
    if scale is not None:
        x = x * scale.view(shape)
    return x if shift is None else x + shift.view(shape)


def _embedding(module: nn.Embedding, names: Mapping[str, str], twice: bool) -> Layer:
    weight = names["weight"]
    if module.max_norm is not None or module.padding_idx is not None or module.sparse:
        raise Unsupported("an Embedding with max_norm, padding_idx or sparse")
    if module.scale_grad_by_freq:
        raise Unsupported("an Embedding with scale_grad_by_freq")

    def rule(parameters: Parameters, x: Value) -> Tensor:
        table = parameters[weight]
        rows, words = table.shape[:2]
        first = torch.arange(0, rows * words, words, device=x.device).view(rows, *(1,) * (x.dim() - 1))
        return F.embedding(x + first, table.flatten(0, 1))

    return Layer("embedding", rule, {})


def _position_embedding(module: nn.Module, names: Mapping[str, str], twice: bool) -> Layer:
    weight = names["weight"]

    def rule(parameters: Parameters, x: Tensor) -> Tensor:
        places = parameters[weight][:, : x.shape[-2]]
        return x + places.view(len(x), *(1,) * (x.dim() - 3), *places.shape[1:])

    return Layer("position_embedding", rule, {})


def _causal_self_attention(module: nn.Module, names: Mapping[str, str], twice: bool) -> Layer:
    heads = module.heads
    if not isinstance(heads, int):
        raise Unsupported("an attention layer without a number of heads")
    qkv = names["qkv.weight"], names.get("qkv.bias")
    out = names["out.weight"], names.get("out.bias")

    def affine(parameters: Parameters, x: Tensor, layer: tuple[str, str | None]) -> Tensor:
        return _affine(x, parameters[layer[0]], None if layer[1] is None else parameters[layer[1]])

    def rule(parameters: Parameters, x: Value) -> Tensor:
        x = to_rows(x)
        width, length = x.shape[-1], x.shape[-2]
        parts = affine(parameters, x, qkv).view(-1, length, 3, heads, width // heads)
        q, k, v = parts.permute(2, 0, 3, 1, 4).reshape(3, -1, length, width // heads).unbind(0)
        scores = stable.bmm(q, k.transpose(1, 2)) * (1 / math.sqrt(width // heads))
        later = torch.ones(length, length, dtype=torch.bool, device=x.device).triu(1)
        mixed = stable.bmm(scores.masked_fill(later, -math.inf).softmax(-1), v)
        merged = mixed.view(-1, heads, length, width // heads).transpose(1, 2).reshape(x.shape)
        return affine(parameters, merged, out)

    return Layer("causal_self_attention", rule, {qkv[0]: (1, 0), out[0]: (1, 0)})


# ---- layers and functions without parameters -----------------------------------------------------


def on_image(function: Callable[..., Tensor]) -> Rule:
    """Pooling: every channel for itself, so a row's channels may lie beside others'."""

    def rule(parameters: Parameters, x: Value, *args: Any, **options: Any) -> Image:
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


Builder = Callable[[Any, Mapping[str, str], bool], Layer]  # (module, its parameters' names, twice)

MODULES: dict[type[nn.Module], Builder] = {
    nn.Linear: _linear,
    nn.Conv2d: _conv2d,
    nn.GroupNorm: _group_norm,
    nn.LayerNorm: _layer_norm,
    nn.Embedding: _embedding,
}

KINDS: dict[str, Builder] = {
    "causal_self_attention": _causal_self_attention,
    "position_embedding": _position_embedding,
}

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
