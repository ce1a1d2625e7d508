"""Utilities by hand, the Jacobian against differences, steps on the simplex and against the equations."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unknot.core.errors import ConfigError
from unknot.core.keys import Key
from unknot.incentive import Game, flow, play, settle, step

SMALL = Game.of(psi=[100, 200], zeta=[10, 20], f_u=[80, 90], f_c=[30, 40], data=[100, 300])
X = np.array([[0.5, 0.5], [0.25, 0.75]])
PAPER = Game.of([150, 200, 250], [12, 15, 18], [90, 100, 110], [32, 35, 38], [85, 100, 115])


def test_utilities_by_hand():
    # Server 0 holds 0.5 × 100 = 50 of population 0 and 0.25 × 300 = 75 of population 1: parts 0.4 and 0.6.
    # Server 1 holds 50 and 225: parts 2/11 and 9/11. With φ = 0.5, ζ/(1 − φ) is 20 and 40;
    # the sums of shares are 0.75 and 1.25, so congestion is 20 × 0.5625 = 11.25 and 40 × 1.5625 = 62.5.
    # u = ψ part + F^u + F^c − congestion − 0.1 − 0.1.
    assert SMALL.parts(X) == pytest.approx(np.array([[0.4, 2 / 11], [0.6, 9 / 11]]))
    expected = [
        [40 + 110 - 11.25 - 0.2, 400 / 11 + 130 - 62.5 - 0.2],  # 138.55, 103.6636..
        [60 + 110 - 11.25 - 0.2, 1800 / 11 + 130 - 62.5 - 0.2],  # 158.55, 230.9363..
    ]
    assert SMALL.utilities(X) == pytest.approx(np.array(expected))
    # Means: (138.55 + 103.6636) / 2 = 121.1068; 0.25 × 158.55 + 0.75 × 230.9363 = 212.8397.
    assert SMALL.means(X) == pytest.approx([121.106818, 212.839772])
    assert SMALL.total(X) == pytest.approx(333.946590)
    # Population 0 at server 0: 0.001 × 0.5 × (138.55 − 121.1068) = 0.0087216 more after a period.
    assert step(SMALL, X)[0] == pytest.approx([0.508721591, 0.491278409])
    # The largest x |u − ū| is population 1's: 0.25 × (212.8398 − 158.55).
    assert SMALL.residual(X) == pytest.approx(13.572443)


def test_who_enters_an_empty_server_first_has_all_of_its_reward():
    x = np.array([[1.0, 0.0], [1.0, 0.0]])
    alone = SMALL.utilities(x)[:, 1]
    assert alone == pytest.approx([200 + 130 - 0.2] * 2)
    for little in (1e-3, 1e-9, 1e-300):
        entered = np.array([[1 - little, little], [1.0, 0.0]])
        assert SMALL.utilities(entered)[0, 1] == pytest.approx(alone[0], rel=1e-3)
    assert np.isfinite(SMALL.jacobian(x)).all()


def points(game, many):
    draws = -np.log(1 - Key.root(3).uniform(np.arange(many * game.even.size)))
    x = draws.reshape(many, *game.even.shape)
    return x / x.sum(-1, keepdims=True)


@pytest.mark.parametrize("game", [SMALL, PAPER])
def test_the_jacobian_and_the_gradient_are_those_of_finite_differences(game):
    def velocity(x):
        u = game.utilities(x)
        return game.delta * x * (u - (x * u).sum(-1, keepdims=True))

    h = 1e-6
    for x in points(game, 5):
        jacobian, gradient = game.jacobian(x), game.gradient(x)
        for q, k in np.ndindex(x.shape):
            by = np.zeros_like(x)
            by[q, k] = h
            numeric = (velocity(x + by) - velocity(x - by)) / (2 * h)
            assert jacobian[:, :, q, k] == pytest.approx(numeric, abs=1e-8)
            slope = (game.total(x + by) - game.total(x - by)) / (2 * h)
            assert gradient[q, k] == pytest.approx(slope, abs=1e-4)


numbers = st.floats(0.0, 400.0)


@st.composite
def games(draw):
    servers, groups = draw(st.integers(1, 4)), draw(st.integers(1, 4))

    def some(many, strategy=numbers):
        return draw(st.lists(strategy, min_size=many, max_size=many))

    game = Game.of(
        some(servers),
        some(servers),
        some(servers, st.floats(-300, 300)),
        some(servers),
        some(groups, st.floats(0.01, 500)),
        phi=draw(st.floats(0, 0.9)),
        delta=draw(st.sampled_from([1e-4, 1e-3, 3e-3])),
    )
    weights = np.array(some(servers * groups, st.floats(1e-9, 1.0))).reshape(groups, servers)
    return game, weights / weights.sum(-1, keepdims=True)


@settings(max_examples=3, deadline=None)
@given(games())
def test_shares_stay_on_the_simplex_for_10_000_steps(case):
    game, x = case
    for _ in range(10_000):
        x = step(game, x)
        assert x.min() >= 0
        assert np.abs(x.sum(-1) - 1).max() <= 1e-12


def test_a_step_that_is_too_long_is_walked_in_parts():
    fast = Game.of([300, 0], [0, 0], [0, 0], [0, 0], [1], delta=0.02)
    x = np.array([[0.9, 0.1]])
    # u = 300 and 0 (but for costs), ū = 270: server 1's share would be 0.1 × (1 − 0.02 × 270) < 0.
    assert (x * (1 + 0.02 * fast.pull(x))).min() == pytest.approx(-0.44)
    after = step(fast, x)
    assert 0 < after.min() <= after.max() < 1
    assert after[0] == pytest.approx(flow(fast, x, 1.0)[1][0], abs=0.02)
    endless = Game.of([0, 0], [10, 20], [0, 0], [0, 0], [1], delta=1e9)
    with pytest.raises(ConfigError, match=r"delta = 1e\+09 is too large"):
        step(endless, x)


def test_an_ordinary_period_is_one_plain_step():
    x = points(PAPER, 20)
    assert step(PAPER, x) == pytest.approx(x * (1 + 0.001 * PAPER.pull(x)), abs=1e-15)


@pytest.mark.parametrize("game", [SMALL, PAPER])
def test_steps_lead_where_the_equations_lead(game):
    for x in points(game, 2):
        found = settle(game, x)
        assert found.residual < 1e-9
        assert play(game, x, 10_000)[-1] == pytest.approx(found.shares, abs=1e-6)


def test_short_steps_follow_the_equations_on_the_way():
    slow = Game.of(PAPER.psi, PAPER.zeta, PAPER.f_u, PAPER.f_c, PAPER.data, delta=1e-5)
    assert play(slow, slow.even, 6000)[-1] == pytest.approx(flow(PAPER, PAPER.even, 60.0)[1], abs=5e-3)


def test_many_games_are_played_as_one_by_one():
    each = [PAPER, Game.of([300, 100, 120], [20, 10, 11], [80, 81, 82], [30, 31, 32], [120, 80, 90])]
    names = ("psi", "zeta", "f_u", "f_c", "data")
    both = Game.of(**{name: np.stack([getattr(game, name) for game in each]) for name in names})
    path = play(both, both.even, 200)
    for i, game in enumerate(each):
        assert (path[:, i] == play(game, game.even, 200)).all()
        assert (both.jacobian(path[50])[i] == game.jacobian(path[50, i])).all()
        assert both.pick(i).total(path[9, i]) == game.total(path[9, i])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"phi": 1.0}, "phi is 1.0"),
        ({"delta": 0}, "delta is 0"),
        ({"data": [1, -2]}, "data is -2"),
        ({"zeta": [1]}, r"zeta has the shape \(1,\)"),
        ({"psi": 3}, "psi is empty or a single number"),
        ({"f_u": [1, float("nan")]}, "must be finite"),
        ({"psi": [-1, 2]}, "must not be negative"),
        ({"delta": [0.1, 0.2]}, "different numbers of games"),
    ],
)
def test_what_is_no_game_is_said(change, message):
    plain = {"psi": [1, 2], "zeta": [1, 2], "f_u": [1, 2], "f_c": [1, 2], "data": [1, 2]}
    with pytest.raises(ConfigError, match=message):
        Game.of(**plain | change)
