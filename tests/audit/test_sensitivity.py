"""How small a trace would have been found: by hand, and beside a simulation."""

import json
import math
from statistics import NormalDist

import numpy as np
import pytest

from unknot.audit.sensitivity import OFTEN, SHARES, Trial, left_in, sensitivity


def trials(**margins):
    """Of each share, trials with these margins (on the scale of asinh) over a critical deviation of 3."""
    return [
        Trial(float(share), math.sinh(math.asinh(3) + margin), 3.0)
        for share, each in margins.items()
        for margin in each
    ]


def of(margins):
    return sensitivity(trials(**{str(share): each for share, each in margins.items()}))


def test_shares_are_tried_equally_often_larger_ones_first():
    assert left_in(6) == [0.4, 0.2, 0.1, 0.05, 0.4, 0.2]
    assert sorted(left_in(20)) == sorted(SHARES * 5)
    assert left_in(0) == []


def test_by_hand():
    """Margins −1, 1 and 3 at 0.1, 0.4 and 1, with a deviation of 1, and a standard error of √½ for each."""
    found = of(
        {
            0.1: [-1 - 0.5**0.5, -1 + 0.5**0.5],
            0.4: [1 - 0.5**0.5, 1 + 0.5**0.5],
            1.0: [3 - 0.5**0.5, 3 + 0.5**0.5],
        }
    )
    needed = NormalDist().inv_cdf(0.8) + 0.5**0.5
    expected = math.exp(math.log(0.4) + (needed - 1) / 2 * math.log(2.5))
    assert found.share == pytest.approx(expected)
    assert found.power == pytest.approx(
        {share: NormalDist().cdf(m) for share, m in ((0.1, -1), (0.4, 1), (1, 3))}
    )
    assert found.found == {0.1: (0, 2), 0.4: (2, 2), 1.0: (2, 2)}


def test_a_trial_is_found_beyond_its_own_critical_deviation():
    assert Trial(0.1, 3.1, 3.0).found
    assert not Trial(0.1, 3.0, 3.0).found
    assert not Trial(0.1, -9.0, 3.0).found


def test_where_not_even_all_of_it_is_found_there_is_no_share():
    found = of({0.1: [-2, -1.5, -1], 0.4: [-1, -0.5, 0], 1.0: [-0.5, 0, 0.5]})
    assert found.share is None
    assert found.power[1.0] == pytest.approx(0.5)


def test_where_all_are_found_it_is_the_smallest_share_that_was_tried():
    assert of({0.05: [5, 6], 0.4: [7, 8], 1.0: [9, 9]}).share == pytest.approx(0.05)


def test_the_power_never_falls_as_the_share_grows():
    draw = np.random.default_rng(0)
    for _ in range(50):
        found = of({share: draw.normal(2 * share, 1, 5) for share in (*SHARES, 1.0)})
        assert list(found.power) == [*SHARES, 1.0]
        assert list(found.power.values()) == sorted(found.power.values())
        assert found.share is None or 0.05 <= found.share <= 1


def test_neighbours_that_fall_are_pooled_by_how_many_they_are():
    """The mean of 1 (twice) and −2 (once) is 0."""
    found = of({0.1: [-3, -3], 0.2: [1, 1], 0.4: [-2], 1.0: [5, 5]})
    assert found.power[0.2] == found.power[0.4] == pytest.approx(0.5)


def test_the_better_a_model_stands_out_the_smaller_the_share():
    draw = np.random.default_rng(1)
    noise = {share: draw.normal(0, 1, 5) for share in (*SHARES, 1.0)}
    shares = [of({s: math.log(s) + better + n for s, n in noise.items()}).share for better in (2, 3, 4)]
    assert shares == sorted(shares, reverse=True)
    assert len(set(shares)) == 3


@pytest.mark.parametrize("slope", [1.0, 2.0])
def test_8_of_10_models_with_that_share_are_found(slope):
    """Margins that rise with the logarithm of the share and vary normally, many of them."""
    draw = np.random.default_rng(2)

    def margins(share, count):
        return slope * (math.log(share) - math.log(0.12)) + draw.normal(0, 0.7, count)

    found = of({share: margins(share, 400) for share in (*SHARES, 1.0)})
    assert (margins(found.share, 20_000) > 0).mean() == pytest.approx(OFTEN + 0.02, abs=0.03)
    for share, power in found.power.items():
        hits, count = found.found[share]
        assert power == pytest.approx(hits / count, abs=0.06)


def test_margins_that_do_not_vary_are_all_or_nothing():
    found = of({0.1: [-1, -1], 1.0: [1, 1]})
    assert found.power == pytest.approx({0.1: 0.0, 1.0: 1.0})
    assert 0.1 < found.share < 1


def test_deviations_without_end_leave_numbers():
    found = sensitivity([Trial(s, 1e14 * s, 1e13) for s in (0.1, 0.1, 0.4, 1.0, 1.0)])
    assert math.isfinite(found.share)


def test_it_is_plain_values():
    found = json.loads(json.dumps(of({0.05: [-1, 1], 1.0: [3, 4]}).to_dict(), allow_nan=False))
    assert set(found) == {"share", "often", "power", "found"}
    assert found["often"] == 0.8
    assert found["found"] == {"0.05": [1, 2], "1": [2, 2]}
