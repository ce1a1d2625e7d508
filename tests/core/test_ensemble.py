import pytest
import torch

from unknot.audit import gap
from unknot.core.ensemble import Ensemble
from unknot.core.errors import ConfigError
from unknot.core.lineage import Lineage, Unit
from unknot.core.weights import Layout, Weights

LAYOUT = Layout(("w",), ((3,),))


def carrying(*clients: int, value: float = 1.0) -> Weights:
    return Weights(torch.full((3,), value), LAYOUT, Lineage(Unit(c) for c in clients))


def test_an_ensemble_carries_what_its_models_carry():
    both = Ensemble(((1.0, carrying(1)), (2.0, carrying(4, 5))))
    assert {unit.client for unit in both.lineage} == {1, 4, 5}
    assert both.nbytes == 24


def test_equality_is_of_bits_order_and_weight():
    a, b = carrying(1), carrying(2, value=2.0)
    both = Ensemble(((1.0, a), (1.0, b)))
    assert both.equal(Ensemble(((1.0, carrying(9)), (1.0, carrying(2, value=2.0)))))
    others = [
        Ensemble(((1.0, b), (1.0, a))),
        Ensemble(((1.0, a), (2.0, b))),
        Ensemble(((1.0, a),)),
        Ensemble(((1.0, a), (1.0, b)), vote="majority"),
    ]
    for other in others:
        assert not both.equal(other)
        assert both.digest() != other.digest()
        assert gap(both, other) != 0.0
    assert not both.equal(a)
    assert not a.equal(both)
    assert gap(both, both) == 0.0
    assert gap(both, Ensemble(((1.0, a), (1.0, carrying(2, value=2.5))))) == 0.5
    assert gap(both, a) == float("inf")


def test_an_ensemble_needs_models_and_a_way_to_vote():
    with pytest.raises(ConfigError, match="at least one"):
        Ensemble(())
    with pytest.raises(ConfigError, match="'mean' or 'majority'"):
        Ensemble(((1.0, carrying(1)),), vote="loudest")
