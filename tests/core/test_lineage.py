import pytest
from hypothesis import given
from hypothesis import strategies as st

from support import toy_weights
from unknot.core.errors import ForbiddenLineageError
from unknot.core.lineage import NOBODY, Ledger, Lineage, Unit
from unknot.core.weights import Weights

units = st.builds(Unit, st.integers(0, 200), st.integers(0, 3))
sets = st.frozensets(units, max_size=12)


@given(sets, sets)
def test_lineage_is_a_set_of_units(a, b):
    """Against Python's own sets."""
    x, y = Lineage(a), Lineage(b)
    assert set(x | y) == a | b
    assert set(x & y) == a & b
    assert len(x) == len(a)
    assert bool(x) == bool(a)
    assert (x == y) == (a == b)
    assert all(unit in x for unit in a)
    assert not any(unit in x for unit in b - a)
    if a == b:
        assert hash(x) == hash(y)


def test_forbidding_a_client_leaves_its_next_revision_clean():
    ledger = Ledger()
    before = Weights(toy_weights().vector, toy_weights().layout, Lineage([ledger.unit(3)]))
    assert ledger.forbid(3) == Unit(3, 0)
    after = Weights(before.vector, before.layout, Lineage([ledger.unit(3)]))
    assert set(ledger.taint(before)) == {Unit(3, 0)}
    assert ledger.taint(after) == NOBODY


def test_the_refusal_names_the_unit_and_the_action():
    ledger = Ledger()
    ledger.forbid(3)
    ledger.forbid(3)
    carrier = Weights(toy_weights().vector, toy_weights().layout, Lineage([Unit(3, 1), Unit(4)]))
    with pytest.raises(ForbiddenLineageError, match=r"refused to serve the model.*client 3 \(revision 1\)"):
        ledger.check(carrier, "serve the model")


def test_a_lineage_is_described_by_client():
    """Revisions and draws are numbered together: which several units are, they do not say themselves."""
    lineage = Lineage([Unit(2), Unit(5, 1), Unit(0, 1), Unit(0, 2), Unit(0, 9)])
    assert lineage.describe() == ["client 0 (3 units)", "client 2", "client 5 (revision 1)"]


def test_units_have_no_negative_parts():
    with pytest.raises(ValueError, match="negative"):
        Lineage([Unit(-1)])
