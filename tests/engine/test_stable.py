"""Products and functions give a row the same bits wherever it lies in a stack, and the right numbers."""

from __future__ import annotations

import itertools

import pytest
import torch
from torch.nn import functional as F

from unknot.core.keys import Key
from unknot.engine.bits import stable
from unknot.engine.workers import intra_op_threads

SIZES = (1, 3, 7, 10, 16, 33, 84)


def normal(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.from_numpy(Key.root(1).child(*shape).generator().standard_normal(shape)).to(dtype)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_product_and_its_gradients_do_not_depend_on_the_place_in_the_stack(dtype):
    with intra_op_threads(1):
        for m, k, n in itertools.product(SIZES, repeat=3):
            a, b, g = (normal(5, *shape, dtype=dtype) for shape in ((m, k), (k, n), (m, n)))
            seen: dict[int, list[torch.Tensor]] = {}
            for rows in ([0, 1, 2, 3, 4], [2, 0], [4, 3, 0], [1, 4]):
                left, right = a[rows].requires_grad_(), b[rows].requires_grad_()
                product = stable.bmm(left, right)
                results = [product.detach(), *torch.autograd.grad(product, (left, right), g[rows])]
                for place, row in enumerate(rows):
                    mine = [result[place] for result in results]
                    for one, other in zip(seen.setdefault(row, mine), mine, strict=True):
                        assert torch.equal(one, other), (m, k, n, rows)


@pytest.mark.parametrize(("m", "k", "n"), [(3, 5, 7), (4, 16, 16), (20, 80, 10), (1, 1, 1), (32, 84, 10)])
def test_padding_leaves_the_product_as_it_is(m, k, n):
    a, b, bias = (normal(2, *s, dtype=torch.float64) for s in ((m, k), (k, n), (1, n)))
    assert torch.allclose(stable.bmm(a, b), a @ b, rtol=1e-14, atol=1e-14)
    assert torch.allclose(stable.bmm(a, b, bias), a @ b + bias, rtol=1e-14, atol=1e-14)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("name", ["sigmoid", "gelu", "silu", "softplus", "elu", "tanh", "mish"])
def test_a_function_does_not_depend_on_the_place_in_memory(name, dtype):
    function = getattr(F, name) if hasattr(F, name) else getattr(torch, name)
    x = normal(11, 37, dtype=dtype)
    with intra_op_threads(1):
        whole = stable.pointwise(function, x)
        for first, last in ((0, 1), (0, 2), (3, 5), (5, 11), (10, 11)):
            assert torch.equal(stable.pointwise(function, x[first:last]), whole[first:last])
    assert torch.allclose(whole, function(x), rtol=1e-5)


def test_the_guard_makes_a_models_own_calls_stable():
    """Mish has a backward that PyTorch does not mark as a function of single numbers."""
    x, w = normal(9, 4, 11), normal(9, 11, 5)

    def run(rows: list[int]) -> list[torch.Tensor]:
        given, weight = x[rows].requires_grad_(), w[rows].requires_grad_()
        with stable.Guard(len(rows)):
            out = torch.sigmoid(F.mish(torch.bmm(given, weight)))
            return [out, *torch.autograd.grad(out.sum(), (given, weight))]

    with intra_op_threads(1):
        whole = run(list(range(9)))
        for rows in ([8, 2], [1, 3, 5], [7, 6, 5, 4]):
            for one, all_rows in zip(run(rows), whole, strict=True):
                assert torch.equal(one, all_rows[rows])
