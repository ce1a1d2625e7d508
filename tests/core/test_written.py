"""Plain data goes through bytes and comes back the same, bit for bit; nothing else goes through."""

import math
from collections import Counter, OrderedDict, defaultdict, deque
from contextlib import suppress
from dataclasses import InitVar, dataclass, field
from enum import IntEnum, StrEnum
from functools import cached_property

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from unknot.core.keys import Key
from unknot.core.lineage import Lineage, Unit
from unknot.core.weights import Layout, Weights
from unknot.core.written import MAGIC, NotPlain, Reader, Unreadable, Writer, plain_data, plain_data_of
from unknot.federation import form  # noqa: F401 - declares what is plain data of ours

LAYOUT = Layout(("a", "b"), ((2,), (3,)))


def through(value, known=None):
    out = Writer(known or {})
    out.put(value)
    written = out.written()
    row = torch.contiguous_format  # as a disk would give them back
    tensors = {digest: kept.load().clone(memory_format=row) for digest, kept in written.tensors.items()}
    reader = Reader(written.content, tensors.__getitem__, known or {})
    found = reader.read()
    assert reader.ended
    return found


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
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(),
        st.floats(allow_nan=True, allow_infinity=True),
        st.text(st.characters(codec=None)),
        st.binary(),
    ),
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


def test_thousands_of_numbers_are_packed_and_come_back_as_what_they_were():
    for make in (list, tuple, set, frozenset):
        assert same(through(make(range(10_000))), make(range(10_000)))
    many = Writer()
    many.put(set(range(10_000)))
    assert len(many.written().content) < 90_000


@pytest.mark.parametrize(
    "array",
    [
        np.arange(6, dtype=np.int64).reshape(2, 3),
        np.array([math.nan, -0.0, math.inf], dtype=np.float32),
        np.zeros((0, 4)),
        np.array(True),
        np.arange(12).reshape(3, 4)[1:],
    ],
)
def test_arrays_keep_shape_type_and_bits(array):
    found = through(array)
    assert found.shape == array.shape
    assert found.dtype == array.dtype
    assert found.tobytes() == array.tobytes()
    assert through(np.float64(0.1)).tobytes() == np.float64(0.1).tobytes()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.int64, torch.bool])
def test_tensors_lie_apart_and_come_back(dtype):
    tensor = torch.arange(6).reshape(2, 3).to(dtype)
    assert torch.equal(through([tensor, {"again": tensor}])[1]["again"], tensor)
    assert through(torch.empty(0)).shape == (0,)


def test_a_tensor_lies_in_memory_as_it_did():
    """Sums go by that, to the bit."""
    tensor = torch.randn(2, 3, 4, generator=torch.Generator().manual_seed(0))
    for value in (tensor.permute(2, 0, 1), tensor[0].T, tensor):
        found = through(value)
        assert torch.equal(found, value)
        assert found.stride() == value.stride()


def test_a_tensor_that_was_changed_in_place_is_written_as_it_is():
    tensor = torch.zeros(3)
    first = through(tensor)
    tensor += 1
    assert not torch.equal(first, through(tensor))


def test_weights_keep_their_lineage_and_are_one_where_they_were_one():
    lineage = Lineage([Unit(3), Unit(70_000, 2)]).waiving([5])
    weights = Weights(torch.randn(5), LAYOUT, lineage)
    other = Weights(torch.randn(5), LAYOUT)
    found = through([weights, other, weights])
    assert found[0] is found[2]
    assert found[0] is not found[1]
    assert found[0].lineage == lineage
    assert found[0].equal(weights)
    assert through({"initial": weights}, {"start": weights})["initial"] is weights


def test_what_one_client_alone_made_is_its_own():
    out = Writer()
    mine = Weights(torch.ones(5), LAYOUT, Lineage([Unit(3)]))
    both = Weights(torch.zeros(5), LAYOUT, Lineage([Unit(3), Unit(4)]))
    out.put([mine, both])
    with out.of(7):
        out.put(torch.full((2,), 5.0))
    owners = sorted((kept.owner is not None, kept.owner) for kept in out.written().tensors.values())
    assert owners == [(False, None), (True, 3), (True, 7)]


def test_the_same_numbers_in_two_hands_are_nobodys_alone():
    out = Writer()
    for client in (3, 4):
        out.put(Weights(torch.ones(5), LAYOUT, Lineage([Unit(client)])))
    (kept,) = out.written().tensors.values()
    assert kept.owner is None
    assert kept.clients == {3, 4}


@plain_data
@dataclass(frozen=True)
class Point:
    x: float
    near: tuple = ()


def test_declared_dataclasses_go_through_and_others_are_told():
    assert through(Point(0.5, (Point(1.0),))) == Point(0.5, (Point(1.0),))
    assert through(Key.root(3).child("a")) == Key.root(3).child("a")

    @dataclass
    class Other:
        x: int

    for thing in (Other(1), object(), lambda: 1, print, type, np.array(["a"]), np.array([None])):
        out = Writer()
        with out.at("thing"), pytest.raises(NotPlain, match="thing"):
            out.put(thing)
    with pytest.raises(TypeError, match="no dataclass"):
        plain_data(int)


@plain_data
@dataclass(frozen=True)
class Row:
    who: int
    called: str
    when: float


numbers64 = st.integers(-(2**63), 2**63 - 1)
rows = st.builds(Row, st.one_of(numbers64, st.integers()), st.text(st.characters(codec=None)), st.floats())


def alike(one, other) -> bool:
    return type(one) is type(other) is Row and same(tuple(vars(one).values()), tuple(vars(other).values()))


@settings(max_examples=200, deadline=None)
@given(st.lists(rows, max_size=20), st.sampled_from([list, tuple, deque]))
def test_rows_of_one_class_come_back_bit_for_bit(items, make):
    found = through(make(items))
    assert type(found) is make
    assert len(found) == len(items)
    assert all(map(alike, found, items))


@pytest.mark.parametrize("odd", [True, 2**63, None, 1.0, np.int64(1), (1,)])
def test_a_row_with_something_else_in_it_keeps_the_type_of_that(odd):
    items = [Row(1, "a", 0.5), Row(odd, "a", -0.0), Row(3, "b", math.nan)]
    found = through(items)
    assert all(map(alike, found, items))
    assert type(found[1].who) is type(odd)


def test_rows_are_one_object_where_they_were_one():
    one, other = Row(1, "a", 0.5), Row(2, "a", 0.5)
    after = through([[one, other], one, {"other": other}])
    assert after[0][0] is after[1]
    assert after[0][1] is after[2]["other"]
    before = through([one, [one, other], [one, one]])
    assert before[0] is before[1][0] is before[2][0] is before[2][1]


def test_many_rows_take_little_more_than_their_numbers():
    out = Writer()
    out.put(tuple(Row(n, f"lane {n % 3}", n / 7) for n in range(1000)))
    assert len(out.written().content) < 1000 * (8 + 4 + 8) + 300


def test_rows_whose_columns_do_not_fit_are_unreadable():
    out = Writer()
    out.put([Row(1, "a", 0.5), Row(2, "b", 1.5), Row(3, "a", 2.5)])
    content = out.written().content
    whole = Reader(content, {}.__getitem__)
    assert len(whole.read()) == 3
    three, two = np.arange(1, 4, dtype="<i8").tobytes(), np.arange(1, 3, dtype="<i8").tobytes()
    assert content.count((24).to_bytes(8, "little") + three) == 1
    shorter = content.replace((24).to_bytes(8, "little") + three, (16).to_bytes(8, "little") + two)
    far = content.replace(np.array([0, 1, 0], "<u4").tobytes(), np.array([0, 9, 0], "<u4").tobytes())
    unknown = content.replace(b"test_written:Row", b"subprocess:Popen")
    other = content.replace(b"called", b"cal1ed")
    for changed in (shorter, far, unknown, other):
        assert changed != content
        with pytest.raises(Unreadable):
            Reader(changed, {}.__getitem__).read()


def test_rows_cannot_be_more_than_the_bytes_that_they_are_made_of():
    """What has no columns has no rows: a few bytes must not stand for a billion objects."""
    out = Writer()
    out.put([Row(1, "a", 0.5), Row(2, "a", 1.5)])
    content = out.written().content
    at = content.index(b"test_written:Row") + len(b"test_written:Row")
    none = content[:at] + (0).to_bytes(8, "little")
    with pytest.raises(Unreadable, match="no columns"):
        Reader(none, {}.__getitem__).read()


@settings(max_examples=300, deadline=None)
@given(st.lists(rows, min_size=2, max_size=6), st.data())
def test_changed_rows_are_unreadable_or_other_data_and_nothing_else(items, data):
    out = Writer()
    out.put(items)
    content = bytearray(out.written().content)
    for _ in range(3):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    with suppress(Unreadable):
        Reader(bytes(content), {}.__getitem__).read()


@dataclass(frozen=True)
class Moved:
    x: int


plain_data_of("once", Moved)


def test_a_class_that_has_moved_is_written_by_the_name_that_it_had():
    out = Writer()
    out.put([Moved(1), Moved(2), [Moved(3)]])
    content = out.written().content
    assert b"once:Moved" in content
    assert b"test_written:Moved" not in content
    assert Reader(content, {}.__getitem__).read() == [Moved(1), Moved(2), [Moved(3)]]


def test_a_class_that_is_not_known_is_never_made():
    out = Writer()
    out.put(Point(1.0))
    content = out.written().content.replace(b"test_written:Point", b"test_written:Piont")
    with pytest.raises(Unreadable, match="is not known here"):
        Reader(content, {}.__getitem__).read()
    content = out.written().content.replace(b"test_written:Point", b"subprocess:Popen!!")
    with pytest.raises(Unreadable, match="is not known here"):
        Reader(content, {}.__getitem__).read()


@settings(max_examples=500, deadline=None)
@given(plain, st.data())
def test_changed_bytes_are_unreadable_or_other_data_and_nothing_else(value, data):
    out = Writer()
    out.put(value)
    content = bytearray(out.written().content)
    for _ in range(3):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    with suppress(Unreadable):
        Reader(bytes(content), {}.__getitem__).read()


class Phase(StrEnum):
    HOT = "hot"


class Level(IntEnum):
    HIGH = 3


@pytest.mark.parametrize(
    "value",
    [
        Phase.HOT,
        Level.HIGH,
        OrderedDict(a=1),
        defaultdict(list),
        Counter("a"),
        np.ma.masked_array([1.0, 0.5], mask=[0, 1]),
        torch.nn.Parameter(torch.ones(2)),
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_would_come_back_as_something_plainer_is_refused(value):
    out = Writer()
    with out.at("thing"), pytest.raises(NotPlain, match=r"thing\[0\] is a .* would come back as a plain"):
        out.put([value])


@pytest.mark.parametrize(
    "value",
    [
        np.arange(12.0).reshape(3, 4).T,
        np.arange(12.0)[::2],
        np.arange(4, dtype=">i4"),
        torch.arange(6.0)[::2],
        torch.ones(3).expand(2, 3),
        torch.ones(2, requires_grad=True),
    ],
    ids=["transposed", "every other", "other bytes", "every other of a tensor", "expanded", "gradient"],
)
def test_numbers_that_would_lie_otherwise_in_memory_are_refused(value):
    with pytest.raises(NotPlain, match=r"keep (np\.ascontiguousarray|tensor\.detach)"):
        through(value)


@plain_data
@dataclass(eq=False)
class Branch:
    value: float
    parent: "Branch | None" = None
    children: list = field(default_factory=list)


def test_what_lies_in_itself_is_refused_when_it_is_written():
    root = Branch(1.0)
    root.children = [Branch(0.5, root)]
    with pytest.raises(NotPlain, match=r"children\[0\]\.parent is a Branch that it lies in itself"):
        through(root)
    rows = Branch(1.0)
    twice = through([rows, rows])
    assert twice[0] is twice[1]


@plain_data
@dataclass
class Halved:
    value: float
    start: InitVar[float]
    seen: int = field(init=False, default=0)

    def __post_init__(self, start):
        self.value *= start
        self.seen += 1


def test_a_declared_class_comes_back_with_its_fields_as_they_were():
    one = Halved(2.0, 0.5)
    found = through([one, Halved(4.0, 0.5), [Row(1, "a", 0.5)]])
    assert [found[0].value, found[0].seen, found[1].value] == [1.0, 1, 2.0]


@plain_data
@dataclass
class Cached:
    value: float

    @cached_property
    def double(self) -> float:
        return 2 * self.value


def test_an_attribute_that_is_no_field_is_refused():
    one, other = Cached(1.0), Cached(2.0)
    assert one.double == 2.0
    assert through([one, other])[0].double == 2.0
    other.more = 3.0
    for value in (other, [one, other], [other, one]):
        with pytest.raises(NotPlain, match="'more' that is no field"):
            through(value)
    del one.value
    with pytest.raises(NotPlain, match="value is not there any more"):
        through(one)


def test_classes_that_hold_more_than_fields_cannot_be_declared():
    @dataclass
    class Long(list):
        x: int = 0

    class Base:
        __slots__ = ("_hidden",)

    @dataclass
    class Slotted(Base):
        x: int = 0

    for kind, why in ((Long, "is a list too"), (Slotted, "'_hidden' that is no field")):
        with pytest.raises(TypeError, match=why):
            plain_data(kind)


def test_what_can_be_changed_is_in_one_place_of_a_part():
    numbers, tensor, array = [1.0], torch.zeros(2, 3), np.zeros((2, 3))
    for value in (
        {"a": numbers, "b": numbers},
        [{1}, numbers, (numbers,)],
        [tensor, tensor[0]],
        [array, array[1]],
        [array[0], array],
    ):
        out = Writer()
        with out.at("it"), out.part("one"), pytest.raises(NotPlain, match=r"is the same .* as it\[|two, and"):
            out.put(value)
    for value in ([array[0], array[1]], [(), ()], ["a", "a"], [torch.empty(0), torch.empty(0)]):
        out = Writer()
        with out.part("one"):
            out.put(value)
    out = Writer()
    for name in ("one", "other"):
        with out.part(name):
            out.put(numbers)
    with out.part("one"), pytest.raises(NotPlain, match="is the same list"):
        out.put(numbers)


def test_a_set_is_written_the_same_however_it_came_about():
    large = set(range(100))
    large.difference_update(set(range(100)) - {1, 8, 3, 33})
    one, other = Writer(), Writer()
    one.put([large, frozenset([(1, "a"), (2, "b"), ("c", None)])])
    other.put([{33, 1, 8, 3}, frozenset([("c", None), (2, "b"), (1, "a")])])
    assert one.written().content == other.written().content


def test_structure_has_no_numbers_made_of_data():
    weights = Weights(torch.ones(5), LAYOUT)
    for value, what in (
        (torch.ones(1), "is a tensor"),
        (np.ones(1), "is an array"),
        (np.float64(1), "is a NumPy float64"),
        (weights, "are weights"),
    ):
        out = Writer({"initial": weights})
        with out.at("notes"), out.structure("put it elsewhere"):
            out.put([1.5, "a", {"b": (1, None, True)}, Unit(3), Point(1.0)])
            with pytest.raises(NotPlain, match=rf"^notes\['a'\]\[0\] {what}: put it elsewhere"):
                out.put({"a": [value]})
        out.put(value)


def test_what_is_kept_as_nobodys_is_under_no_clients_key():
    mine = Weights(torch.ones(5), LAYOUT, Lineage([Unit(3)]))
    for first in (True, False):
        out = Writer()
        if not first:
            out.put(mine)
        with out.of_nobody():
            out.put(mine)
        if first:
            out.put(Weights(mine.vector, LAYOUT, mine.lineage))
        (kept,) = out.written().tensors.values()
        assert kept.owner is None
        assert kept.clients == {3}


def test_nesting_has_an_end_for_writer_and_reader():
    deep = []
    for _ in range(300):
        deep = [deep]
    with pytest.raises(NotPlain, match="too deep"):
        through(deep)
    hostile = MAGIC + (b"Cl" + (1).to_bytes(8, "little")) * 5000 + b"N"
    with pytest.raises(Unreadable, match="too deep"):
        Reader(hostile, {}.__getitem__).read()
