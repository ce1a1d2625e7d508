"""The test behind a verdict: its level is exact, and so is what it says of ties and extremes."""

import json
import math
from statistics import mean, stdev

import numpy as np
import pytest

from unknot.audit.ranks import LEVEL, check_level, overall, rank_test
from unknot.core.errors import ConfigError


def plain_deviations(rows):
    """How far each model lies from all others, a model and a statistic at a time."""
    out = []
    for i, row in enumerate(rows):
        others = [other for k, other in enumerate(rows) if k != i]
        columns = list(zip(*others, strict=True))
        out.append([(x - mean(column)) / stdev(column) for x, column in zip(row, columns, strict=True)])
    return out


def plain_p(deviations):
    """For each statistic of the first model: how many models are as odd by their oddest one, it included."""
    oddest = [max(abs(value) for value in row) for row in deviations[1:]]
    return [(1 + sum(odd >= abs(mine) for odd in oddest)) / len(deviations) for mine in deviations[0]]


def made(models, statistics, seed):
    draw = np.random.default_rng(seed)
    return draw.normal(
        draw.normal(0, 5, statistics), np.exp(draw.normal(0, 2, statistics)), (models, statistics)
    )


def each_tested(rows, level=LEVEL):
    """Every model in turn among all others."""
    return [rank_test(row, np.delete(rows, i, axis=0), level) for i, row in enumerate(rows)]


def flagged(test, level=LEVEL):
    return any(test.found(place, level) for place in range(len(test.p)))


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("statistics", [1, 3])
def test_a_rank_is_that_of_a_plain_loop(statistics, seed):
    rows = made(20, statistics, seed)
    found, expected = rank_test(rows[0], rows[1:]), plain_deviations(rows.tolist())
    assert found.deviations == pytest.approx(np.array(expected))
    assert found.p == pytest.approx(plain_p(expected))


def test_by_hand():
    """The controls 1, 2 and 3 have the mean 2 and the deviation 1; 5 is the oddest of the four."""
    found = rank_test(5, [1, 2, 3], level=0.25)
    assert found.deviations[0].tolist() == [3]
    assert found.p == (0.25,)
    assert found.found(0, 0.25) == "still shows"
    assert found.found(0, 0.2) is None


@pytest.mark.parametrize("seed", range(20))
def test_of_20_exchangeable_models_exactly_one_is_found_by_one_statistic(seed):
    draw = np.random.default_rng(seed)
    rows = [draw.normal, draw.standard_cauchy, draw.exponential, draw.random][seed % 4](size=(20, 1))
    assert sum(flagged(test) for test in each_tested(rows)) == 1


@pytest.mark.parametrize("seed", range(20))
def test_of_20_exchangeable_models_at_most_one_is_found_however_many_statistics_are_asked(seed):
    draw = np.random.default_rng(seed)
    rows = draw.standard_cauchy((20, 3)) if seed % 2 else draw.normal(size=(20, 3)) @ draw.normal(size=(3, 3))
    tests = each_tested(rows)
    assert sum(flagged(test) for test in tests) <= 1
    assert sum(min(test.p) <= LEVEL for test in tests) <= 1


@pytest.mark.parametrize(("controls", "level", "most"), [(39, 0.05, 2), (99, 0.05, 5), (99, 0.01, 1)])
def test_with_more_controls_no_more_than_the_level_are_found(controls, level, most):
    tests = each_tested(made(controls + 1, 1, 7), level)
    assert sum(flagged(test, level) for test in tests) == most


@pytest.mark.parametrize("controls", [19, 39, 99])
def test_the_tested_model_is_found_if_and_only_if_it_is_beyond_the_critical_deviation(controls):
    draw = np.random.default_rng(controls)
    outcomes = set()
    for _ in range(60):
        rows = draw.normal(size=(controls + 1, 2)).round(draw.integers(1, 4))
        rows[0] *= draw.choice([1, 2, 3])
        found = rank_test(rows[0], rows[1:])
        for place, deviation in enumerate(found.deviations[0]):
            assert (found.found(place) is not None) == (abs(deviation) > found.critical)
            outcomes.add(found.found(place))
    assert outcomes == {None, "still shows", "over-forgotten"}


def test_the_test_has_two_sides_that_are_alike():
    rows = made(20, 3, 3)
    rows[0, 1] = rows[1:, 1].mean() + 50 * rows[1:, 1].std()
    there, back = rank_test(rows[0], rows[1:]), rank_test(-rows[0], -rows[1:])
    assert there.p == back.p
    assert there.critical == back.critical
    assert np.array_equal(there.deviations, -back.deviations)
    assert (there.found(1), back.found(1)) == ("still shows", "over-forgotten")


def test_neither_the_order_of_the_controls_nor_the_scale_of_a_statistic_matters():
    rows = made(20, 2, 4)
    found = rank_test(rows[0], rows[1:])
    again = rank_test(rows[0] * [3, 0.01] + [5, -8], (rows[1:] * [3, 0.01] + [5, -8])[::-1])
    assert again.p == found.p
    assert again.deviations[0] == pytest.approx(found.deviations[0])


def both_sides(high, low, level=LEVEL):
    """The first model among the others, by what is odd if high and by what is odd on either side."""
    return rank_test(high[0], high[1:], level, both=(low[0], low[1:]))


def plain_sides(high, low):
    """The odder side of each: the first is odd if high, the second on either side; 0 if neither is."""
    rows = zip(plain_deviations(high.tolist()), plain_deviations(low.tolist()), strict=True)
    return [
        [
            max(up, down) if max(up, down) >= max(-down, 0) else min(down, 0)
            for up, down in zip(*row, strict=True)
        ]
        for row in rows
    ]


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("statistics", [1, 3])
def test_with_a_statistic_for_each_side_a_rank_is_that_of_a_plain_loop(statistics, seed):
    high, low = made(20, statistics, seed), made(20, statistics, 10 + seed)
    found, expected = both_sides(high, low), plain_sides(high, low)
    assert found.deviations == pytest.approx(np.array(expected))
    assert found.p == pytest.approx(plain_p(expected))


def test_the_first_statistic_counts_if_high_only():
    """What is odd if high is not odd if low; the other is odd on either side."""
    usual, up, down = np.arange(20.0), 80.0, -50.0
    outcomes = {
        (high, low): both_sides(np.array([high, *usual[1:]]), np.array([low, *usual[1:]])).found(0)
        for high in (up, 10.0, down)
        for low in (up, 10.0, down)
    }
    assert outcomes == {
        (up, up): "still shows",
        (up, 10.0): "still shows",
        (up, down): "still shows",
        (10.0, up): "still shows",
        (10.0, 10.0): None,
        (10.0, down): "over-forgotten",
        (down, up): "still shows",
        (down, 10.0): None,
        (down, down): "over-forgotten",
    }


@pytest.mark.parametrize("high", [50.0, 60.0, 70.0])
def test_the_odder_side_gives_the_sign(high):
    usual = np.arange(1.0, 20.0)
    (found,) = both_sides(np.array([high, *usual]), np.array([-40.0, *usual])).deviations[0]
    assert (found > 0) == (high - usual.mean() >= usual.mean() + 40)
    assert abs(found) == pytest.approx(max(high - usual.mean(), usual.mean() + 40) / stdev(usual))


@pytest.mark.parametrize("seed", range(20))
def test_of_20_exchangeable_models_at_most_one_is_found_by_both_sides_together(seed):
    draw = np.random.default_rng(seed)
    values = draw.standard_cauchy((2, 20, 2)) if seed % 2 else draw.normal(size=(2, 20, 2))
    tests = [
        both_sides(*(np.vstack([side[i], np.delete(side, i, axis=0)]) for side in values)) for i in range(20)
    ]
    assert sum(flagged(test) for test in tests) <= 1
    assert sum(min(test.p) <= LEVEL for test in tests) <= 1
    for test in tests:
        for place, deviation in enumerate(test.deviations[0]):
            assert (test.found(place) is not None) == (abs(deviation) > test.critical)


def test_the_same_statistic_on_both_sides_is_one_for_both():
    rows = made(20, 2, 6)
    once, twice = rank_test(rows[0], rows[1:]), both_sides(rows, rows)
    assert (once.p, once.critical) == (twice.p, twice.critical)
    assert np.array_equal(once.deviations, twice.deviations)


def test_what_is_tied_with_the_oddest_control_is_not_found():
    controls = [0.0] * 9 + [1.0] * 9 + [7.0]
    assert rank_test(7.0, controls).found(0) is None
    assert rank_test(7.0, controls).p == (0.1,)
    assert rank_test(7.1, controls).found(0) == "still shows"


def test_rounding_breaks_no_tie():
    """Shares of a count, as those of answers to a mark are: what is the same as a control is never found."""
    draw = np.random.default_rng(1)
    for _ in range(200):
        counts = draw.binomial(1800, 0.01, 19)
        counts[draw.integers(19)] += draw.integers(20)
        assert rank_test(counts.max() / 1800, counts / 1800).found(0) is None


@pytest.mark.parametrize("value", [0.0, 0.1, -3.3])
def test_by_a_statistic_that_is_the_same_for_all_nobody_is_odd(value):
    found = rank_test(value, [value] * 19)
    assert found.p == (1.0,)
    assert found.found(0) is None


def test_a_constant_statistic_beside_another_changes_nothing():
    rows = made(20, 1, 5)
    alone, beside = (
        rank_test(rows[0], rows[1:]),
        rank_test([rows[0, 0], 0], np.hstack([rows[1:], 0 * rows[1:]])),
    )
    assert beside.p == (alone.p[0], 1.0)
    assert beside.critical == pytest.approx(alone.critical)


@pytest.mark.parametrize(("tested", "outcome"), [(0.5, "still shows"), (-0.5, "over-forgotten")])
def test_what_differs_from_controls_that_are_all_alike_is_found_and_its_deviation_is_a_number(
    tested, outcome
):
    found = rank_test(tested, [0.0] * 19)
    assert found.found(0) == outcome
    assert math.isfinite(found.deviations[0, 0])
    json.dumps(found.deviations.tolist(), allow_nan=False)
    odd = rank_test(0.0, [*[0.0] * 18, 0.5])
    assert odd.found(0) is None
    assert math.isfinite(odd.critical)


@pytest.mark.parametrize(
    ("controls", "level", "needed"), [(18, 0.05, 19), (0, 0.05, 19), (98, 0.01, 99), (1, 0.6, 3)]
)
def test_too_few_controls_for_the_level_are_refused(controls, level, needed):
    with pytest.raises(ConfigError, match=f"needs at least {needed} controls, not {controls}"):
        rank_test(0.0, np.zeros(controls), level)
    check_level(needed, level)


@pytest.mark.parametrize("level", [0, 1, -0.1, 2, math.nan])
def test_a_level_is_a_chance(level):
    with pytest.raises(ConfigError, match="between 0 and 1"):
        check_level(19, level)


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_what_is_no_number_is_refused(value):
    with pytest.raises(ConfigError, match="not a number: has a model diverged"):
        rank_test(value, np.arange(19))
    with pytest.raises(ConfigError, match="not a number"):
        rank_test(0, [*range(18), value])


def test_what_several_attacks_come_to():
    order = ["still shows", "over-forgotten", "no trace found", "no power"]
    for place, outcome in enumerate(order):
        assert overall(order[place:]) == outcome
        assert overall(order[place:][::-1]) == outcome
    assert overall([]) == "no power"
