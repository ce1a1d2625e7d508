"""KNOT's match ratings: by hand, where doubles go wrong, units, and tables of clients."""

import math
from decimal import Decimal, localcontext

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from unknot.core.errors import ConfigError
from unknot.topology import anchors, ratings, read_profiles
from unknot.topology.table import parse_profiles


def naive(times, disparities, clusters, a, b):
    """The definition, in doubles and without care."""
    least, greatest = min(times), max(times)
    d = [
        [
            math.hypot(
                a * (least + (greatest - least) * n / max(clusters - 1, 1) - t), b * ((n + 1) / clusters - s)
            )
            for n in range(clusters)
        ]
        for t, s in zip(times, disparities, strict=True)
    ]
    low, high = min(map(min, d)), max(map(max, d))
    return np.array([[math.ceil(100 * (x - low) / (high - low)) for x in row] for row in d])


def definition(times, disparities, clusters, a, b):
    """The same with 50 digits, of the numbers as they are written."""
    with localcontext() as context:
        context.prec = 50
        t, s = ([Decimal(repr(float(x))) for x in numbers] for numbers in (times, disparities))
        a, b, last = Decimal(repr(a)), Decimal(repr(b)), max(clusters - 1, 1)
        apart = [(max(t) - min(t)) * n / last + min(t) for n in range(clusters)]
        d = [
            [
                ((a * (apart[n] - x)) ** 2 + (b * (Decimal(n + 1) / clusters - y)) ** 2).sqrt()
                for n in range(clusters)
            ]
            for x, y in zip(t, s, strict=True)
        ]
        low, high = min(map(min, d)), max(map(max, d))
        values = [[100 * (x - low) / (high - low) for x in row] for row in d]
        return np.array([[math.ceil(x - Decimal("1e-30")) for x in row] for row in values])


def test_by_hand():
    """Anchors (10, 0.5) and (30, 1), a = 1/20, b = 1. The distances:

    (10, 0): ‖0, .5‖ = .5 and ‖1, 1‖ = √2; (20, .5): ‖.5, 0‖ = .5 and ‖.5, .5‖ = √2/2;
    (30, 1): ‖1, .5‖ = 1.1180 and 0. So 0..√2: 35.36, 100, 35.36, 50 exactly, 79.06, 0, rounded up.
    """
    assert ratings([10, 20, 30], [0, 0.5, 1], 2).tolist() == [[36, 100], [36, 50], [80, 0]]
    set_ = anchors([10, 20, 30], [0, 0.5, 1], 2)
    assert (set_.times.tolist(), set_.disparities.tolist()) == ([10, 30], [0.5, 1])
    assert (set_.a, set_.b) == (1 / 20, 1)


def test_given_scales_are_used_as_they_are():
    """a = 0: only disparities count, |.5 − S| and |1 − S|: .5, 1, 0, .5, .5, 0. b = 0: times: 0, 20, 10..."""
    args = [10, 20, 30], [0, 0.5, 1], 2
    assert ratings(*args, a=0).tolist() == [[50, 100], [0, 50], [50, 0]]
    assert ratings(*args, b=0).tolist() == [[0, 100], [50, 50], [100, 0]]
    # a = 1: ‖0, .5‖, ‖20, 1‖ = 20.025, ‖10, 0‖, ‖10, .5‖ = 10.0125, ‖20, .5‖ = 20.00625, 0.
    assert ratings(*args, a=1, b=1).tolist() == [[3, 100], [50, 50], [100, 0]]


def test_a_whole_number_is_not_rounded_up():
    """Times alike, one cluster: d = 1 − S. 100 × (1 − 0.7) is 30, and 30.000000000000004 in doubles."""
    tenths = [i / 10 for i in range(11)]
    assert ratings([5.0] * 11, tenths, 1)[:, 0].tolist() == list(range(100, -1, -10))
    assert naive([5.0] * 11, tenths, 1, 0, 1)[7, 0] == 31


def test_nor_is_more_than_a_whole_number_rounded_down():
    """50 exactly, and a trillionth more."""
    assert ratings([1.0] * 3, [0.0, 1.0, 0.5], 1)[:, 0].tolist() == [100, 0, 50]
    assert ratings([1.0] * 3, [0.0, 1.0, 0.5 - 1e-12], 1)[:, 0].tolist() == [100, 0, 51]
    assert ratings([1.0] * 3, [0.0, 1.0, 0.5 + 1e-12], 1)[:, 0].tolist() == [100, 0, 50]


@settings(max_examples=80, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 30), st.integers(1, 6))
@example(9013, 1, 6)  # two whole numbers, 75 and 25, that doubles put just above
def test_drawn_at_random_the_definition_is_met(seed, clients, clusters):
    rng = np.random.default_rng(seed)
    times, disparities = 20 * (rng.pareto(1.0, clients) + 1), rng.random(clients)
    rated = ratings(times, disparities, clusters, a=0.01, b=2.0)
    if clients * clusters > 1:
        plain = naive(times, disparities, clusters, 0.01, 2.0)
        assert (rated == definition(times, disparities, clusters, 0.01, 2.0)).all()
        assert np.abs(rated - plain).max() <= 1
        assert (rated.min(), rated.max()) == (0, 100)


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 50), st.integers(0, 10)), min_size=1, max_size=12), st.integers(1, 5)
)
def test_units_and_order_do_not_matter(clients, clusters):
    times, disparities = [t for t, _ in clients], [s / 10 for _, s in clients]
    rated = ratings(times, disparities, clusters)
    assert (ratings([60_000 * t for t in times], disparities, clusters) == rated).all()
    assert (ratings([t + 1_000_000 for t in times], disparities, clusters) == rated).all()
    assert (ratings(times[::-1], disparities[::-1], clusters) == rated[::-1]).all()
    by = ratings(times, disparities, clusters, a=0.25, b=3)
    assert (ratings([60 * t for t in times], disparities, clusters, a=0.25, b=180) == by).all()
    assert (ratings(times, disparities, clusters, a=0.5, b=6) == by).all()


def test_all_alike():
    """One distance, whatever rounding makes of it: every rating is 0."""
    assert ratings([3.3], [0.1], 1).tolist() == [[0]]
    assert ratings([0.7] * 3, [0.3] * 3, 1).tolist() == [[0]] * 3
    assert ratings([2.0, 5.0], [0.5, 0.5], 2, a=0, b=0).tolist() == [[0, 0], [0, 0]]
    # .75 lies between the anchors .5 and 1, in the middle.
    assert ratings([0.1] * 2, [0.75] * 2, 2).tolist() == [[0, 0]] * 2
    assert ratings([4, 4], [0.3, 0.9], 1, a=1, b=0).tolist() == [[0], [0]]
    # ‖0, .5‖ and ‖.4, .3‖, both times 0.1: the same, though not in doubles.
    assert math.hypot(0.1 * 0.4, 0.1 * (1 - 0.7)) != 0.1 * 0.5
    assert ratings([0, 0.4], [0.5, 0.7], 1, a=0.1, b=0.1).tolist() == [[0], [0]]


def test_close_together_far_from_zero():
    """Times that differ in the last digits of a double are told apart as they are written.

    In units of 1e-7 they are 0, 1 and 4, so that 0..1 in a quarter: |0 − t|, |1 − t| with b = 0.
    """
    times = [1_000_000_000.0000001, 1_000_000_000.0000002, 1_000_000_000.0000005]
    assert ratings(times, [1.0] * 3, 2, b=0).tolist() == [[0, 100], [25, 75], [100, 0]]


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (([], [], 2), "no clients"),
        (([1, 2], [0.5], 2), "2 times and 1 disparities"),
        (([[1, 2]], [[0.5, 0.1]], 2), "shape"),
        ((["soon"], [0.5], 2), "times are not numbers"),
        (([1, float("nan")], [0, 0], 2), "time of client 1 is nan"),
        (([float("inf"), 1], [0, 0], 2), "time of client 0 is inf"),
        (([1, -2.0], [0, 0], 2), "time of client 1 is -2.0"),
        (([1, 2], [0, float("nan")], 2), "disparity of client 1 is nan"),
        (([1, 2], [1.5, 0], 2), "disparity of client 0 is 1.5"),
        (([1, 2], [0, 0], 0), "clusters are 0"),
        (([1, 2], [0, 0], 2.5), "clusters are 2.5"),
        (([1, 2], [0, 0], 2, -1), "a is -1"),
        (([1, 2], [0, 0], 2, 1, float("nan")), "b is nan"),
    ],
)
def test_errors(args, words):
    with pytest.raises(ConfigError, match=words):
        ratings(*args)


def test_a_disparity_may_be_outside_by_rounding():
    assert (ratings([1, 2], [-1e-16, 1 + 1e-15], 2) == ratings([1, 2], [0, 1], 2)).all()


# Tables.


def table(text):
    return parse_profiles(text.splitlines(keepends=True))


def test_a_table():
    read = table("Disparity,client,time\n0.5,7,12\n\n 1e-1,3,1.5\n")
    assert (read.names, read.times, read.disparities) == ((7, 3), (12, 1.5), (0.5, 0.1))
    assert table("client,time,disparity\nGraz,1,0\n7,2,1\n").names == ("Graz", "7")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "found nothing"),
        ("client,time,disparity\n", "0 lines"),
        ("client,time\n0,1\n", "found client,time"),
        ("client,time,disparty\n0,1,0\n", "Did you mean 'disparity'"),
        ("client,time,disparity\n0,1\n", "line 2: the disparity is ''"),
        ("client,time,disparity\n0,1,0\n1,fast,0\n", "line 3: the time is 'fast'"),
        ("client,time,disparity\n0,inf,0\n", "line 2: the time is 'inf'"),
        ("client,time,disparity\n\n0,-1,0\n", "line 3: the time is '-1'"),
        ("client,time,disparity\n0,1,1.01\n", "line 2: the disparity is '1.01'"),
    ],
)
def test_what_is_wrong_is_said_with_its_line(text, words):
    with pytest.raises(ConfigError, match=words):
        table(text)


def test_files(tmp_path):
    path = tmp_path / "clients.csv"
    path.write_bytes("\ufeffclient,time,disparity\r\nGraz,1,0.5\r\n".encode())
    assert read_profiles(path).names == ("Graz",)
    path.write_bytes(b"client,time,disparity\n\xff\xfe,1,0\n")
    with pytest.raises(ConfigError, match="UTF-8"):
        read_profiles(path)
    with pytest.raises(ConfigError, match="cannot read"):
        read_profiles(tmp_path / "none.csv")
