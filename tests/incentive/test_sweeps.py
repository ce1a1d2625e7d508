"""Figure 4 of the paper: drawn games, sweeps over rates and clients, policies side by side."""

from dataclasses import replace

import numpy as np
import pytest

from unknot.core.errors import ConfigError
from unknot.core.keys import Key
from unknot.incentive import (
    RANGES,
    READINGS,
    Crowd,
    Game,
    beside,
    by_clients,
    by_rate,
    compare,
    drawn,
    highest_offer,
    settling,
    stable_corners,
)

KEYS = [Key.root(0).child("draw", i) for i in range(3)]


def test_drawn_numbers_lie_in_their_ranges_and_belong_to_their_key():
    game = drawn(KEYS)
    for name, (low, high) in RANGES.items():
        values = getattr(game, name)
        assert values.shape == (3, 3)
        assert ((values >= low) & (values < high)).all()
        assert np.unique(values).size == 9
    assert drawn(KEYS[1:2]).psi.tolist() == game.psi[1:2].tolist()
    wide = drawn(KEYS, servers=4, populations=2, computation=[0.1, 0.2])
    assert (wide.psi.shape, wide.data.shape) == ((3, 4), (3, 2))
    assert wide.computation.tolist() == [[0.1, 0.2]] * 3
    with pytest.raises(ConfigError, match="zeta has no range"):
        drawn(KEYS, {"psi": (1, 2)})


def test_at_its_own_rate_a_game_is_as_it_is_without_a_sweep():
    game = drawn(KEYS)
    crowd = Crowd.of(game, 5, KEYS)
    found = by_rate(game, crowd, [0.0005, 0.001], period=20, baselines=READINGS)
    plain = compare(game, crowd, 20, baselines=READINGS)
    assert tuple(found) == ("evolutionary", *READINGS)
    for name, values in found.items():
        assert values[1].tolist() == plain[name].utilities[-1].tolist()
        assert (values[0] == values[1]).all() == (name != "evolutionary")  # the others know no rate


def test_the_average_is_the_total_over_the_number_of_clients():
    game = drawn(KEYS)
    found = by_clients(game, KEYS, [4, 9], period=10)
    for i, sizes in enumerate(([2, 1, 1], [3, 3, 3])):
        held = replace(game, data=game.data * sizes)
        plain = compare(held, Crowd.of(game, sizes, KEYS), 10)
        for name, outcome in plain.items():
            assert found[name][i].tolist() == (outcome.utilities[-1] / sum(sizes)).tolist()


def test_a_population_of_twice_the_clients_has_twice_the_data():
    """Two at 100 samples against one at 100: of 90 paid at the only server, 60 and 30; 4 against 2 the same.

    With 3 clients the total is 60 + 30 + 2 (100 − 10/0.5 · 2² − 0.2) = 129.6, and a third of it an average.
    """
    game = Game.of([90], [10], [80], [20], [100, 100])
    found = by_clients(game, KEYS[0], [2, 3, 6], period=1)
    for values in found.values():
        assert values.tolist() == pytest.approx([129.6 / 2, 129.6 / 3, 129.6 / 6])
    parts = replace(game, data=game.data * [2, 1]).parts(game.even)
    assert parts[:, 0].tolist() == pytest.approx([2 / 3, 1 / 3])


def test_all_go_to_the_highest_offer():
    # 150 + 90 + 32 = 272; 200 + 70 + 30 = 300.
    game = Game.of([150, 200], [12, 15], [90, 70], [32, 30], [85, 100])
    path = highest_offer(game, Crowd.of(game, 3, KEYS[0]), 4)
    assert path.tolist() == [[[0, 1], [0, 1]]] * 4


def test_a_total_has_settled_once_it_stays_within_a_hundredth_of_its_last():
    assert settling(np.array([100.0, 50, 99.5, 100])) == 3
    assert settling(np.array([7.0, 7, 7])) == 1
    assert settling(np.array([-50.0, -99, -100])) == 2


def test_level_is_within_a_thousandth():
    assert beside([5, 5.0005, 4, 6, 7], [5, 5, 5, 5, 5]) == (2, 2, 1)


def test_each_population_at_a_server_of_its_own_is_stable_whoever_goes_where():
    """3 × 2 × 1 ways; so the equilibrium is not unique."""
    game = drawn(KEYS)
    assert [stable_corners(game.pick(i)) for i in range(3)] == [6, 6, 6]
