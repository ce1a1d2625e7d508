"""Plain data goes through bytes and comes back the same, bit for bit; nothing else goes through."""

import functools
import random
import threading
from collections import Counter, OrderedDict, defaultdict, deque
from contextlib import suppress
from dataclasses import dataclass, field
from enum import IntEnum
from pathlib import Path

import msgspec
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from unknot.core import form
from unknot.core.digests import digest_of
from unknot.core.fingerprint import fingerprint
from unknot.core.form import (
    ANYBODY,
    FORMAT,
    LOST,
    NotPlain,
    Private,
    Unreadable,
    pack,
    plain_data,
    read,
    write,
)
from unknot.core.keys import Key
from unknot.core.lineage import NOBODY, Clients, ClientsInOrder, Lineage, Unit
from unknot.core.weights import Layout, Weights
from unknot.federation import Snapshot  # noqa: F401 - declares what is plain data of ours

LAYOUT = Layout(("a", "b"), ((2,), (3,)))


def through(value, **known):
    content, tensors, private = write(value, known=known)
    return read(content, lambda digest: tensors[digest].tensor.clone(), private, known=known)


def same(one, other) -> bool:
    """Equal in type and value, whatever they are; a NaN is a NaN, and -0.0 is not 0.0."""
    if type(one) is not type(other):
        return False
    if isinstance(one, float):
        return np.float64(one).tobytes() == np.float64(other).tobytes()
    if isinstance(one, list | tuple | deque):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, dict):
        return list(one) == list(other) and all(same(one[key], other[key]) for key in one)
    return bool(one == other)


keys = st.one_of(st.integers(), st.text(), st.tuples(st.integers(), st.text()), st.booleans(), st.none())
plain = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(), st.binary()),
    lambda inner: st.one_of(
        st.lists(inner),
        st.lists(inner).map(tuple),
        st.lists(inner).map(deque),
        st.dictionaries(keys, inner),
        st.sets(st.integers()),
        st.frozensets(st.text()),
    ),
    max_leaves=30,
)


@settings(max_examples=300, deadline=None)
@given(plain)
def test_plain_data_comes_back_the_same(value):
    assert same(through(value), value)


@pytest.mark.parametrize("value", [0, -1, 2**63 - 1, 2**63, -(2**63), -(2**63) - 1, 10**100, -(10**100)])
def test_whole_numbers_of_any_size(value):
    assert through(value) == value


@pytest.mark.parametrize(
    "array",
    [np.arange(6, dtype="<i4").reshape(2, 3), np.array(3.5), np.zeros((0, 2)), np.array([True, False])],
)
def test_arrays_keep_shape_type_and_bits(array):
    found = through([array, array.reshape(-1)[:1].copy(), *array.reshape(-1)[:1]])
    assert (found[0].dtype, found[0].shape, found[0].tobytes()) == (array.dtype, array.shape, array.tobytes())
    assert all(type(one) is type(other) for one, other in zip(found[2:], array.reshape(-1)[:1], strict=True))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.int64, torch.bool])
def test_tensors_lie_apart_and_come_back_as_they_lay_in_memory(dtype):
    tensor = (torch.arange(6) % 2).to(dtype).reshape(2, 3)
    for one in (tensor, tensor.t(), tensor[None].permute(2, 0, 1)):
        found = through({"t": one})["t"]
        assert found.dtype == one.dtype
        assert found.stride() == one.stride()
        assert torch.equal(found, one)


def test_a_tensor_that_was_changed_in_place_is_written_as_it_is():
    tensor = torch.zeros(3)
    assert through(tensor).sum() == 0
    tensor.add_(1)
    assert through(tensor).sum() == 3


def test_what_was_one_thing_in_two_places_is_one_again():
    shared, lineage = [1], Lineage([Unit(3)])
    weights = Weights(torch.randn(5), LAYOUT, lineage)
    tree = {"a": shared, "b": (shared, weights), "c": [weights, lineage, LAYOUT]}
    tree["itself"] = tree
    found = through(tree)
    assert found["a"] is found["b"][0]
    assert found["b"][1] is found["c"][0]
    assert found["c"][0].lineage is found["c"][1]
    assert found["c"][0].layout is found["c"][2]
    assert found["itself"] is found
    assert through({"initial": weights}, start=weights)["initial"] is weights


def test_equal_tensors_that_were_two_are_two_again():
    found = through([torch.zeros(2), torch.zeros(2)])
    found[0].add_(1)
    assert found[1].sum() == 0


def test_lineages_come_back_with_whom_they_let_pass():
    many = [Lineage([Unit(3), Unit(70_000, 2)]).waiving([5]), NOBODY, Lineage.of_clients(range(100_000))]
    assert through(many) == many
    assert len(pack([Lineage.of_clients(range(60_000)) for _ in range(100)])) < 12_000


def test_clients_are_plain_numbers_in_their_order():
    found = through([Clients([3, 1]), ClientsInOrder((3, 1))])
    assert found == [frozenset([1, 3]), (3, 1)]
    assert type(found[1]) is ClientsInOrder


def owners(value):
    return {kept.owner: kept.clients for kept in write(value).tensors.values()}


def test_what_one_client_alone_shaped_is_its_own():
    mine = Weights(torch.ones(5), LAYOUT, Lineage([Unit(3), Unit(3, 1)]))
    both = Weights(torch.zeros(5), LAYOUT, Lineage([Unit(3), Unit(4)]))
    given = Private(7, torch.full((2,), 5.0), Lineage([Unit(8)]))
    assert owners([mine, both, given]) == {3: {3}, None: {3, 4}, 7: {8}}
    assert owners(Private(None, torch.ones(2), Lineage([Unit(3)]))) == {None: {3}}
    assert owners(Private(ANYBODY, torch.ones(2), Lineage([Unit(3)]))) == {3: {3}}


def test_the_same_numbers_in_two_hands_are_nobodys_alone():
    assert owners([Weights(torch.ones(5), LAYOUT, Lineage([Unit(c)])) for c in (3, 4)]) == {None: {3, 4}}


def test_private_parts_lie_apart_and_are_lost_without_their_key():
    content, _, private = write({"ids": Private(3, (17, 18)), "more": [Private(3, b"x"), Private(4, 1.5)]})
    assert private.keys() == {3, 4}
    found = read(content, private=private)
    assert (found["ids"].client, found["ids"].value, found["more"][0].value) == (3, (17, 18), b"x")
    found = read(content, private={4: private[4]})
    assert found["ids"] is LOST
    assert found["more"][1].value == 1.5


@plain_data
@dataclass(frozen=True)
class Point:
    x: float
    near: tuple = ()
    _beside: dict = field(default_factory=dict)

    @functools.cached_property
    def found(self):
        return object()


def test_declared_dataclasses_go_through_and_others_are_told():
    point = Point(0.5, (Point(1.0), Point(2.0)))
    assert point.found
    assert through(point) == point
    assert through(Key.root(3).child("a")) == Key.root(3).child("a")
    object.__setattr__(point, "more", 1)
    with pytest.raises(NotPlain, match="'more'"):
        write(point)


@dataclass
class Undeclared:
    x: int


class Kind(IntEnum):
    A = 1


class Words(str):
    pass


@pytest.mark.parametrize(
    "thing",
    [
        *(Undeclared(1), object(), len, lambda: 1, type, Kind.A, Words("a"), 1j),
        *(OrderedDict(), Counter(), defaultdict(list), np.array(["a"]), np.array([None]), np.arange(6)[::2]),
        *(
            np.float16(1).astype("g"),
            torch.ones(2, requires_grad=True),
            torch.eye(3)[:, 1],
            torch.eye(2).to_sparse(),
        ),
    ],
    ids=lambda thing: type(thing).__name__,
)
def test_what_has_no_written_form_is_refused_by_its_place(thing):
    with pytest.raises(NotPlain) as caught:
        write({"a": [1, (thing,)]})
    assert caught.value.place == "['a'][1][0]"


def test_two_tensors_that_share_numbers_are_refused():
    whole = torch.zeros(4)
    with pytest.raises(NotPlain) as caught:
        write({"whole": whole, "part": whole[:2]})
    assert caught.value.place == "['part']"


def test_structure_has_no_numbers_made_of_data():
    form.structure({"tree": [Unit(3), {1: (2, 0.5)}]}, "keep weights elsewhere")
    for numbers in (np.arange(2), np.float32(1), torch.ones(2), Weights(torch.randn(5), LAYOUT)):
        with pytest.raises(NotPlain, match="keep weights elsewhere"):
            form.structure({"a": [numbers]}, "keep weights elsewhere")


def test_classes_that_hold_more_than_fields_cannot_be_declared():
    @dataclass
    class Sub(list):
        x: int = 0

    @dataclass
    class Slotted:
        __slots__ = ("x", "y")
        x: int

    for cls in (int, Sub, Slotted):
        with pytest.raises(TypeError):
            plain_data(cls)


def test_a_set_is_written_the_same_however_it_came_about():
    large = set(range(100))
    large.difference_update(set(range(100)) - {1, 8, 3, 33})
    assert pack(large) == pack({33, 3, 8, 1})
    units = [Unit(9, 2), Unit(3), Unit(70_000)]
    assert pack(set(units)) == pack({units[2], units[1], units[0]})


@settings(max_examples=200, deadline=None)
@given(plain, st.data())
def test_changed_bytes_are_unreadable_or_other_data_and_nothing_else(value, data):
    content = bytearray(pack([value, Lineage([Unit(1)]), Point(1.0)]))
    place = data.draw(st.integers(0, len(content) - 1))
    content[place] ^= data.draw(st.integers(1, 255))
    with suppress(Unreadable):
        read(bytes(content))


def test_another_format_is_refused_by_its_number():
    with pytest.raises(Unreadable, match=str(FORMAT + 1)):
        read(msgspec.msgpack.encode([FORMAT + 1, None]))


def test_a_class_that_is_not_known_or_has_other_fields_is_never_made():
    for told in (["os:system"], ["unknot.core.requests:Moment", "round"]):
        with pytest.raises(Unreadable, match=told[0].partition(":")[2]):
            read(msgspec.msgpack.encode([FORMAT, ["o", told]]))


class Holder:
    __slots__ = ("held",)


def test_what_a_thing_holds_is_seen_whatever_it_is():
    holder = Holder()
    holder.held = [1]
    network = torch.nn.Linear(2, 2)
    things = {
        "holder": (holder, lambda: holder.held.append(2)),
        "random": (own := random.Random(3), own.random),
        "numpy": (numbers := np.random.default_rng(3), numbers.random),
        "network": (network, lambda: network.weight.data.add_(1)),
        "texts": (texts := np.array(["a", "b"]), lambda: texts.__setitem__(0, "c")),
        "list": (more := [Path("a")], lambda: more.append(Path("b"))),
    }
    for name, (thing, change) in things.items():
        before = fingerprint(thing)
        assert fingerprint(thing) == before, name
        change()
        assert fingerprint(thing) != before, name
    assert (
        fingerprint(functools.partial(max, 1))
        == fingerprint(functools.partial(max, 1))
        != fingerprint(functools.partial(min, 1))
    )
    with pytest.raises(NotPlain, match="lock"):
        fingerprint([threading.Lock()], strict=True)


def test_a_digest_is_found_once():
    tensor = torch.arange(4.0)
    assert [*write(tensor).tensors] == [digest_of(tensor)]
