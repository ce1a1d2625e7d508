"""Layers with parameters, each run on a whole stack of models at once."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from unknot.core.base import HALVES, in_full
from unknot.engine.bits import stable
from unknot.engine.cuda import convolution, half, language, linear
from unknot.engine.cuda.kernels import ready
from unknot.engine.layers.forms import Image, Layer, Parameters, Unsupported, Value, to_image, to_rows
from unknot.engine.layers.stage import Stage

FEW_WORDS = 1024  # up to so many, a product with zeros and ones is no waste on a GPU


def _affine(x: Tensor, weight: Tensor, bias: Tensor | None, twice: bool) -> Tensor:
    """``[rows, ..., in]`` by a stack of ``[in, out]`` matrices."""
    flat = x.reshape(x.shape[0], -1, x.shape[-1])
    if weight.dtype != x.dtype:  # trained in full, on numbers in half precision
        weight, bias = weight.to(x.dtype), None if bias is None else bias.to(x.dtype)
    elif x.is_cuda and x.dtype in HALVES and weight.stride(0) == 0:  # frozen, one for all rows
        return F.linear(x, weight[0].t(), None if bias is None else bias[0])
    if not twice and linear.taken(flat, weight.transpose(1, 2)):
        product: Tensor = linear.Linear.apply(flat, weight.transpose(1, 2), bias)  # type: ignore[no-untyped-call]
        return product.reshape(*x.shape[:-1], weight.shape[-1])
    product = stable.bmm(flat, weight, None if bias is None else bias.unsqueeze(1))
    return product.reshape(*x.shape[:-1], weight.shape[-1])


def _linear(module: nn.Linear, names: Mapping[str, str], twice: bool) -> Layer:
    weight, bias = names["weight"], names.get("bias")

    def rule(parameters: Parameters, x: Value) -> Tensor:
        return _affine(to_rows(x), parameters[weight], None if bias is None else parameters[bias], twice)

    return Layer("linear", rule, {weight: (1, 0)})


def _conv2d(module: nn.Conv2d, names: Mapping[str, str], twice: bool) -> Layer:
    weight, bias = names["weight"], names.get("bias")
    if module.padding_mode != "zeros":
        raise Unsupported(f"a convolution with padding_mode={module.padding_mode!r}")
    stride, padding, dilation = module.stride, module.padding, module.dilation
    groups, kernel = module.groups, module.kernel_size
    pads = padding if isinstance(padding, tuple) else (-1, -1)
    stage = Stage(weight, bias, stride, pads, dilation, groups, pool=None, relu=False)  # type: ignore[arg-type]
    by_product = kernel == (1, 1)  # for which PyTorch leaves the library that the others run in

    def rule(parameters: Parameters, x: Value) -> Value:
        if not twice and ready(parameters[weight]):
            rows, stacked = to_rows(x), parameters[weight].permute(0, 1, 4, 2, 3)
            sizes = convolution.sizes_of(stage, rows.shape, stacked.shape, rows.dtype)
            if isinstance(sizes, convolution.Sizes):
                biases = None if bias is None else parameters[bias]
                return convolution.Convolution.apply(rows, stacked, biases, sizes)  # type: ignore[no-untyped-call]
        image = to_image(x)
        kernels = parameters[weight].flatten(0, 1).permute(0, 3, 1, 2)
        biases = None if bias is None else parameters[bias].flatten()
        lowered = torch.is_autocast_enabled(image.data.device.type)
        if (by_product or lowered or x.dtype == torch.float64) and not isinstance(padding, str):
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
    data = image.data
    if torch.is_autocast_enabled(data.device.type):
        data = data.to(torch.get_autocast_dtype(data.device.type))
    patches = F.unfold(data, kernels.shape[2:], dilation, padding, stride)
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

    frozen = not module.weight.requires_grad

    def rule(parameters: Parameters, x: Value) -> Tensor:
        table = parameters[weight]
        rows, words = table.shape[:2]
        if frozen:  # one table for all rows, and no gradient to add up
            return F.embedding(x, table[0])
        if table.is_cuda and words <= FEW_WORDS:
            # A GPU adds up the gradients of a word in any order; a product has one.
            chosen = F.one_hot(x.reshape(rows, -1), words).to(table.dtype)
            return stable.bmm(chosen, table).view(*x.shape, -1)
        first = torch.arange(0, rows * words, words, device=x.device).view(rows, *(1,) * (x.dim() - 1))
        # A word that is none must not be looked up in the neighbour's table: it is an error.
        known = (x >= 0) & (x < words)
        return F.embedding(torch.where(known, x + first, rows * words), table.flatten(0, 1))

    return Layer("embedding", rule, {})


def _position_embedding(module: nn.Module, names: Mapping[str, str], twice: bool) -> Layer:
    weight = names["weight"]

    def rule(parameters: Parameters, x: Tensor) -> Tensor:
        places = parameters[weight][:, : x.shape[-2]]
        return x + places.view(len(x), *(1,) * (x.dim() - 3), *places.shape[1:])

    return Layer("position_embedding", rule, {})


def _causal_self_attention(module: nn.Module, names: Mapping[str, str], twice: bool) -> Layer:
    heads, parts = module.heads, getattr(module, "parts", ("qkv", "out"))
    if not isinstance(heads, int):
        raise Unsupported("an attention layer without a number of heads")
    qkv, out = (linears_within(module, (part,), names, twice) for part in parts)

    def rule(parameters: Parameters, x: Value) -> Tensor:
        x = to_rows(x)
        width, length = x.shape[-1], x.shape[-2]
        (given,) = qkv.rule(parameters, x)
        parts = given.view(-1, length, 3, heads, width // heads)
        q, k, v = parts.permute(2, 0, 3, 1, 4).reshape(3, -1, length, width // heads).unbind(0)
        mixed = attended(q, k, v)
        merged = mixed.view(-1, heads, length, width // heads).transpose(1, 2).reshape(x.shape)
        (given,) = out.rule(parameters, merged)
        return given  # type: ignore[no-any-return]

    return Layer("causal_self_attention", rule, {**qkv.stored, **out.stored})


def attended(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Causal attention of ``[any, length, width]``, each of the first axis for itself."""
    length, width = q.shape[1:]
    scores = stable.bmm(q, k.transpose(1, 2)) * (1 / math.sqrt(width))
    later = torch.ones(length, length, dtype=torch.bool, device=q.device).triu(1)
    shares = in_full(scores).masked_fill(later, -math.inf).softmax(-1)
    return stable.bmm(shares.to(q.dtype), v)


def linears_within(module: nn.Module, parts: Sequence[str], names: Mapping[str, str], twice: bool) -> Layer:
    """Linear layers within another layer that take the same numbers, with or without adapters.

    Its rule gives a tuple: what each of them gives.
    """
    inner = [module.get_submodule(part) for part in parts]
    own = [
        {name.removeprefix(f"{part}."): n for name, n in names.items() if name.startswith(f"{part}.")}
        for part in parts
    ]
    alone = [
        _linear_within(layer, part, mine, twice) for layer, part, mine in zip(inner, parts, own, strict=True)
    ]

    def rule(parameters: Parameters, x: Value) -> tuple[Tensor, ...]:
        x = to_rows(x)
        if not twice and half.taken(x):
            found = [_projection(layer, mine, parameters) for layer, mine in zip(inner, own, strict=True)]
            together = [layer for layer in found if layer is not None]
            if len(together) == len(found):
                return language.projected(x, together)
        return tuple(layer.rule(parameters, x) for layer in alone)

    return Layer("linears", rule, {name: axes for layer in alone for name, axes in layer.stored.items()})


def _linear_within(inner: nn.Module, part: str, names: Mapping[str, str], twice: bool) -> Layer:
    if type(inner) is nn.Linear:
        return _linear(inner, names, twice)
    if getattr(inner, "batched_kind", None) == "lora_linear":
        return _lora_linear(inner, names, twice)
    raise Unsupported(f"{part} is a {type(inner).__name__}, which has no batched rule within another layer")


def _projection(layer: Any, names: Mapping[str, str], parameters: Parameters) -> language.Projection | None:
    """A layer that is frozen in half precision, and its adapters; None for another."""
    adapter = None
    if type(layer) is not nn.Linear:
        first, second = (parameters[names[f"lora_{part}.weight"]] for part in "AB")
        adapter = language.Adapter(first, second, layer.scaling)
        names = {name.removeprefix("base_layer."): n for name, n in names.items()}
        layer = layer.base_layer
    if layer.weight.requires_grad or layer.weight.dtype != half.HALF:
        return None
    bias = parameters[names["bias"]][0] if "bias" in names else None
    return language.Projection(parameters[names["weight"]][0].t(), bias, adapter)


def _lora_linear(module: Any, names: Mapping[str, str], twice: bool) -> Layer:
    parts = linears_within(module, ("base_layer",), names, twice)
    (first, second) = (linears_within(module, (part,), names, twice) for part in ("lora_A", "lora_B"))
    scaling, full = module.scaling, module.lora_A.weight.dtype

    def rule(parameters: Parameters, x: Value) -> Tensor:
        x = to_rows(x)
        if not twice and half.taken(x) and (whole := _projection(module, names, parameters)) is not None:
            return language.projected(x, [whole])[0]
        (plain,) = parts.rule(parameters, x)
        (between,) = first.rule(parameters, x.to(full))
        (beside,) = second.rule(parameters, between)
        both: Tensor = plain + beside * scaling
        return both.to(plain.dtype)

    return Layer("lora_linear", rule, {**parts.stored, **first.stored, **second.stored})


Builder = Callable[[Any, Mapping[str, str], bool], Layer]  # (module, its parameters' names, twice)

MODULES: dict[type[nn.Module], Builder] = {
    nn.Linear: _linear,
    nn.Conv2d: _conv2d,
    nn.GroupNorm: _group_norm,
    nn.LayerNorm: _layer_norm,
    nn.Embedding: _embedding,
}

KINDS: dict[str, Builder] = {
    "lora_linear": _lora_linear,
    "causal_self_attention": _causal_self_attention,
    "position_embedding": _position_embedding,
}
