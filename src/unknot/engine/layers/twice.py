"""Convolutions that are differentiated twice, by convolutions of the usual kinds alone.

What PyTorch takes for the second derivative by the kernels is a convolution with kernels as large as the
images, which a GPU's libraries have no fast form of.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode


class FastTwice(TorchFunctionMode):
    """Within: `conv2d` is one whose gradient can be differentiated at the cost of a few more of them."""

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        given = dict(kwargs or {})
        if func is torch.conv2d:
            return _conv2d(*args, **given)
        return func(*args, **given)


def _conv2d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: int | Sequence[int] = 1,
    padding: str | int | Sequence[int] = 0,
    dilation: int | Sequence[int] = 1,
    groups: int = 1,
) -> Tensor:
    """As `torch.conv2d`, which it leaves single images and paddings by name to."""
    if isinstance(padding, str) or input.dim() != 4:
        return torch.conv2d(input, weight, bias, stride, padding, dilation, groups)
    kind = input.device.type
    if torch.is_autocast_enabled(kind):
        lower = torch.get_autocast_dtype(kind)
        input, weight = input.to(lower), weight.to(lower)
        bias = None if bias is None else bias.to(lower)
    form = _Form(_pair(stride), _pair(padding), _pair(dilation), groups)
    with torch.autocast(kind, enabled=False):
        out: Tensor = _Convolved.apply(input, weight, bias, form)  # type: ignore[no-untyped-call]
    return out


@dataclass(frozen=True)
class _Form:
    """The settings of a convolution, and its three products."""

    stride: tuple[int, int]
    padding: tuple[int, int]
    dilation: tuple[int, int]
    groups: int

    def convolved(self, x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
        return torch.conv2d(x, weight, bias, self.stride, self.padding, self.dilation, self.groups)

    def by_input(self, error: Tensor, like: Tensor, weight: Tensor) -> Tensor:
        return self._backward(error, like, weight, 0)

    def by_weight(self, error: Tensor, x: Tensor, like: Tensor) -> Tensor:
        return self._backward(error, x, like, 1)

    def _backward(self, error: Tensor, x: Tensor, weight: Tensor, which: int) -> Tensor:
        wanted = [which == 0, which == 1, False]
        given = self.stride, self.padding, self.dilation, False, (0, 0), self.groups, wanted
        found: Tensor = torch.ops.aten.convolution_backward(error, x, weight, None, *given)[which]
        return found


class _Convolved(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None, form: _Form) -> Tensor:
        ctx.save_for_backward(x, weight)
        ctx.form = form
        return form.convolved(x, weight, bias)

    @staticmethod
    def backward(ctx: Any, *errors: Any) -> Any:
        (error,) = errors
        x, weight = ctx.saved_tensors
        by_x, by_weight, by_bias, _ = ctx.needs_input_grad
        return (
            _ByInput.apply(error, weight, x.detach(), ctx.form) if by_x else None,  # type: ignore[no-untyped-call]
            _ByWeight.apply(error, x, weight.detach(), ctx.form) if by_weight else None,  # type: ignore[no-untyped-call]
            error.sum((0, 2, 3)) if by_bias else None,
            None,
        )


class _ByInput(torch.autograd.Function):
    """A convolution's gradient by its images: bilinear in what came back and in the kernels."""

    @staticmethod
    def forward(ctx: Any, error: Tensor, weight: Tensor, like: Tensor, form: _Form) -> Tensor:
        ctx.save_for_backward(error, weight)
        ctx.form = form
        return form.by_input(error, like, weight)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, *given: Tensor) -> Any:
        (second,) = given
        error, weight = ctx.saved_tensors
        return (
            ctx.form.convolved(second, weight) if ctx.needs_input_grad[0] else None,
            ctx.form.by_weight(error, second, weight) if ctx.needs_input_grad[1] else None,
            None,
            None,
        )


class _ByWeight(torch.autograd.Function):
    """A convolution's gradient by its kernels: bilinear in what came back and in the images."""

    @staticmethod
    def forward(ctx: Any, error: Tensor, x: Tensor, like: Tensor, form: _Form) -> Tensor:
        ctx.save_for_backward(error, x)
        ctx.form = form
        return form.by_weight(error, x, like)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, *given: Tensor) -> Any:
        (second,) = given
        error, x = ctx.saved_tensors
        return (
            ctx.form.convolved(x, second) if ctx.needs_input_grad[0] else None,
            ctx.form.by_input(error, x, second) if ctx.needs_input_grad[1] else None,
            None,
            None,
        )


def _pair(value: int | Sequence[int]) -> tuple[int, int]:
    first, second = (value, value) if isinstance(value, int) else value
    return first, second
