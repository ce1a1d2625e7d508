import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from support import LAYOUT, toy_weights
from unknot.core.errors import ForbiddenLineageError
from unknot.core.lineage import Ledger, Lineage, Unit
from unknot.core.weights import Layout, Weights, weighted_sum


def carrying(*clients: int, value: float = 1.0) -> Weights:
    return Weights(torch.full((LAYOUT.size,), value), LAYOUT, Lineage(Unit(c) for c in clients))


def test_weights_survive_a_module():
    model = nn.Sequential(nn.Linear(3, 2), nn.Linear(2, 1))
    weights = Weights.of(model)
    other = nn.Sequential(nn.Linear(3, 2), nn.Linear(2, 1))
    assert not weights.equal(Weights.of(other))
    weights.load_into(other)
    assert weights.equal(Weights.of(other))
    assert torch.equal(weights["0.weight"], model[0].weight)
    assert torch.equal(weights.layout.join(weights.tensors), weights.vector)
    with pytest.raises(ValueError, match="names and shapes"):
        weights.load_into(nn.Linear(3, 2))


def test_a_copy_is_not_a_view_of_the_module():
    model = nn.Linear(2, 1)
    weights = Weights.of(model)
    before = weights.digest()
    with torch.no_grad():
        model.weight.zero_()
    assert weights.digest() == before


def test_the_vector_must_fit_the_layout():
    with pytest.raises(ValueError, match="8 numbers"):
        Weights(torch.zeros(7), LAYOUT)


def test_weights_that_are_a_column_of_a_stack_are_like_any():
    stack = torch.arange(2.0 * LAYOUT.size).reshape(LAYOUT.size, 2)
    column, plain = Weights(stack[:, 1], LAYOUT), Weights(stack[:, 1].clone(), LAYOUT)
    assert column.equal(plain)
    assert plain.equal(column)
    assert not column.equal(Weights(stack[:, 0], LAYOUT))
    assert column.fingerprint == plain.fingerprint
    assert column.vector.is_contiguous()


def test_a_layout_splits_stacks_of_weights():
    rows = torch.arange(2.0 * LAYOUT.size).reshape(2, -1)
    parts = LAYOUT.split(rows)
    assert parts["w"].shape == (2, 2, 3)
    assert parts["b"][1].tolist() == [14.0, 15.0]
    assert torch.equal(LAYOUT.join(parts, rows=2), rows)
    assert Layout(("w",), ((),)).size == 1


@given(st.lists(st.sampled_from("+-*"), max_size=6))
def test_arithmetic_never_loses_a_lineage(operations):
    total, seen = carrying(0), {0}
    for client, operation in enumerate(operations, start=1):
        other = carrying(client)
        if operation == "*":
            total = 0.0 * total
            continue
        total = total + other if operation == "+" else total - other
        seen.add(client)
    assert {unit.client for unit in total.lineage} == seen


def test_a_weighted_sum_by_hand_and_in_order():
    """0.5·1 + 0.25·2 + 0.25·4 = 2; the union of lineages."""
    terms = [(0.5, carrying(0)), (0.25, carrying(1, value=2.0)), (0.25, carrying(2, value=4.0))]
    total = weighted_sum(terms, Ledger(), "aggregate")
    assert total.vector.tolist() == [2.0] * LAYOUT.size
    assert {unit.client for unit in total.lineage} == {0, 1, 2}
    # The order is part of the bits: (1e8 + 1) - 1e8 is 0 in single precision, (1e8 - 1e8) + 1 is 1.
    big, one, minus = carrying(0, value=1e8), carrying(1), carrying(2, value=-1e8)
    assert weighted_sum([(1, big), (1, one), (1, minus)], Ledger(), "add").vector[0] == 0
    assert weighted_sum([(1, big), (1, minus), (1, one)], Ledger(), "add").vector[0] == 1
    with pytest.raises(ValueError, match="nothing to add"):
        weighted_sum([], Ledger(), "add")


def test_combining_forbidden_weights_is_refused():
    ledger = Ledger()
    ledger.forbid(1)
    with pytest.raises(ForbiddenLineageError, match=r"refused to average: it carries client 1"):
        weighted_sum([(0.5, carrying(0)), (0.5, carrying(1))], ledger, "average")
    with pytest.raises(ForbiddenLineageError):
        weighted_sum([(1.0, carrying(0)), (0.0, carrying(1))], ledger, "average")


def test_equality_is_of_bits():
    zero, minus = toy_weights() * 0.0, toy_weights() * -0.0
    assert zero.digest() != minus.digest()
    assert not zero.equal(minus)
    nan = toy_weights() * float("nan")
    assert nan.equal(nan * 1.0)
    assert toy_weights().equal(toy_weights())
    assert not toy_weights().equal(toy_weights() * 2)
