"""Convolutions that are differentiated twice: the numbers are those of PyTorch's own."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from unknot.engine.layers.program import Single
from unknot.engine.layers.twice import FastTwice

FORMS: dict[str, dict[str, Any]] = {
    "padded": {"padding": 1},
    "strided": {"stride": 2, "padding": 1},
    "uneven": {"stride": (2, 1), "padding": (0, 2)},
    "dilated": {"dilation": 2},
    "grouped": {"groups": 2},
    "without a bias": {"bias": False},
    "padded by name": {"padding": "same"},
    "reflected": {"padding": 1, "padding_mode": "reflect"},
}


def network(**form: Any) -> nn.Sequential:
    torch.manual_seed(0)
    layers = [nn.Conv2d(2, 4, 3, padding=1), nn.Tanh(), nn.Conv2d(4, 6, 3, **form), nn.Tanh()]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(3), nn.Flatten(), nn.Linear(54, 3)).double()


def differentiated(model: nn.Module, twice: bool, dtype: torch.dtype = torch.float64) -> list[Tensor]:
    """The loss, its gradients, and the Hessian times a vector."""
    torch.manual_seed(1)
    x, y = torch.randn(1, 4, 2, 9, 9, dtype=dtype), torch.randint(3, (4,))
    parameters = {name: p.detach()[None].clone().requires_grad_() for name, p in model.named_parameters()}
    leaves = list(parameters.values())
    loss = nn.functional.cross_entropy(Single(model, twice=twice)(parameters, x)[0].to(dtype), y)
    gradients = torch.autograd.grad(loss, leaves, create_graph=True)
    signs = [torch.randn_like(p) for p in leaves]
    return [loss, *gradients, *torch.autograd.grad(gradients, leaves, signs)]


@pytest.mark.parametrize("form", FORMS)
def test_both_derivatives_are_those_of_pytorch(form: str) -> None:
    model = network(**FORMS[form])
    for fast, plain in zip(differentiated(model, True), differentiated(model, False), strict=True):
        torch.testing.assert_close(fast, plain, rtol=1e-12, atol=1e-14)


def test_products_in_bfloat16_are_rounded_as_they_are_elsewhere() -> None:
    model = network(padding=1).float()
    with torch.autocast("cpu", torch.bfloat16):
        fast = differentiated(model, True, torch.float32)
        plain = differentiated(model, False, torch.float32)
    assert torch.equal(fast[0], plain[0])
    for one, other in zip(fast, plain, strict=True):
        assert one.dtype == torch.float32
        torch.testing.assert_close(one, other, rtol=0.05, atol=0.02 * float(other.detach().abs().max()))


def test_kernels_that_are_not_trained_get_no_gradient_and_hand_it_on() -> None:
    model = network(padding=1)
    x = torch.randn(4, 2, 9, 9, dtype=torch.float64)
    model[2].requires_grad_(False)
    with FastTwice():
        out = model(x)
    first = model[0].weight
    (gradient,) = torch.autograd.grad(out.square().sum(), [first], create_graph=True)
    (plain,) = torch.autograd.grad(model(x).square().sum(), [first], create_graph=True)
    torch.testing.assert_close(gradient, plain)
    sums = [torch.autograd.grad(g.square().sum(), [first])[0] for g in (gradient, plain)]
    torch.testing.assert_close(*sums)


def test_large_kernels_are_never_made_of_images() -> None:
    """What PyTorch does for the second derivative: kernels of the images' size."""
    sizes = list[tuple[int, ...]]()

    class Seen(torch.utils._python_dispatch.TorchDispatchMode):
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            if func is torch.ops.aten.convolution.default:
                sizes.append(tuple(args[1].shape[2:]))
            return func(*args, **(kwargs or {}))

    with Seen():
        differentiated(network(padding=1), True)
    assert set(sizes) == {(3, 3)}
    sizes.clear()
    with Seen():
        differentiated(network(padding=1), False)
    assert (9, 9) in sizes
