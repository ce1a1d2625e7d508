import pytest
from hypothesis import given
from hypothesis import strategies as st

from support import toy_weights
from unknot.core.errors import ForbiddenLineageError
from unknot.core.lineage import BLOCK, NOBODY, Ledger, Lineage, Unit, of_runs
from unknot.core.weights import Weights

clients = st.one_of(
    st.integers(0, 200), st.integers((1 << BLOCK) - 3, (1 << BLOCK) + 3), st.integers(0, 10**6)
)
units = st.builds(Unit, clients, st.integers(0, 3))
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
    assert (x >= y) == (a >= b)
    assert x | y >= x
    assert x.clients == {unit.client for unit in a}
    assert list(x) == sorted(a, key=lambda unit: (unit.revision, unit.client))
    if a == b:
        assert hash(x) == hash(y)


@given(st.lists(sets, min_size=1, max_size=6), sets, st.sets(st.integers(0, 3)))
def test_a_union_of_many_is_one_after_the_other(many, common, waived):
    """Also where they share blocks, as the updates of a round do; names and whom they let pass come along."""
    base = Lineage(common).waiving(waived)
    first, *others = (base | Lineage(one) for one in many)
    others.append(Lineage([Unit(5)]).waiving([7]).named({5: "Graz", 7: "Linz"}))
    expected = first
    for other in others:
        expected = expected | other
    united = first.union(*others)
    assert united == expected
    assert united.waived == waived | {7}
    assert united.names == expected.names == {5: "Graz", 7: "Linz"}
    assert first.union() is first


@given(st.frozensets(clients, max_size=12), st.frozensets(clients, max_size=3))
def test_many_clients_at_once_are_their_units(everybody, erased):
    assert Lineage.of_clients(everybody) == Lineage(map(Unit, everybody))
    ledger = Ledger()
    for client in erased:
        ledger.forbid(client)
    assert ledger.units(everybody) == Lineage(map(ledger.unit, everybody))


def test_a_client_more_takes_a_block_and_the_rest_is_shared():
    many = Lineage.of_clients(range(5 << BLOCK))
    update = many | Lineage([Unit(3 << BLOCK, 1)])
    assert many | Lineage([Unit(3)]) is many
    assert all(update._blocks[place] is mask for place, mask in many._blocks.items())
    assert len(update._blocks) == len(many._blocks) + 1 == 6
    assert many.union(update, update)._blocks[0, 2] is many._blocks[0, 2]


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


def test_lineages_of_several_runs_are_united_by_name():
    first = Lineage([Unit(0), Unit(1, 2)]).named({0: "Graz", 1: "Linz"})
    second = Lineage([Unit(0, 3), Unit(1), Unit(5)]).waiving([0]).named({0: "Wien", 1: "Linz", 5: "Enns"})
    both = of_runs(first, second)
    assert sorted(both.names[client] for client in both.clients) == ["Enns", "Graz", "Linz", "Wien"]
    assert [both.names[client] for client in both.waived] == ["Wien"]
    assert Unit(1, 2) in both
    assert Unit(1) in both
    numbers = Lineage([Unit(0)])
    assert sorted(of_runs(first, numbers).describe()) == [
        "Graz",
        "Linz (revision 2)",
        "client 0 of an earlier run",
    ]
    assert of_runs(numbers, Lineage([Unit(0)]), NOBODY) == numbers
