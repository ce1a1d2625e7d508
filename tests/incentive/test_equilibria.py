"""Equilibria: kinds known beforehand, several of them, and the best that could be."""

import itertools

import numpy as np
import pytest

from unknot.core.keys import Key
from unknot.incentive import Game, describe, optimum, settle, survey

PAPER = Game.of([150, 200, 250], [12, 15, 18], [90, 100, 110], [32, 35, 38], [85, 100, 115])
TWINS = Game.of([200, 200], [10, 10], [100, 100], [35, 35], [100, 100])
CROWD = Game.of([0, 0], [10, 20], [100, 100], [35, 35], [100], delta=0.01)  # congestion alone


def test_congestion_alone_has_one_equilibrium_and_it_is_stable():
    # One population: 20 x² = 40 (1 − x)², so x = √2 / (1 + √2).
    found = settle(CROWD, CROWD.even)
    x = 2**0.5 / (1 + 2**0.5)
    assert found.shares[0] == pytest.approx([x, 1 - x], abs=1e-10)
    assert found.kind == "stable"
    # ẋ = δ x (1 − x) (u_0 − u_1) with u_0 − u_1 = 40 (1 − x)² − 20 x²: the eigenvalue is its slope there.
    slope = 0.01 * x * (1 - x) * (-80 * (1 - x) - 40 * x)
    assert found.eigenvalues == pytest.approx([slope])
    seen = survey(CROWD, Key.root(0))
    assert [part for _, part in seen.reached] == [1.0]


def test_twins_part_two_equilibria_are_stable_and_the_middle_is_a_saddle():
    """The paper's claim that the equilibrium is unique does not hold in the smallest of its games."""
    middle = describe(TWINS, TWINS.even)
    assert middle.residual == 0
    assert middle.kind == "saddle"
    # At the middle, both moving alike: congestion, 2 × 20 × 1 × 2 × 0.5 = 40; moving apart: ψ / 2 = 100.
    assert middle.eigenvalues == pytest.approx([0.1, -0.04])
    seen = survey(TWINS, Key.root(0))
    assert seen.moving == 0
    apart = {tuple(place.shares.ravel().round(9).tolist()): place.kind for place, _ in seen.reached}
    assert apart == {(1, 0, 0, 1): "stable", (0, 1, 1, 0): "stable"}
    assert all(0.35 < part < 0.65 for _, part in seen.reached)
    # Apart, each has u = 200 + 135 − 20 − 0.2; the other server would pay half as a first comer's at most.
    assert TWINS.total(np.eye(2)) == pytest.approx(2 * 314.8)


def test_a_game_of_the_papers_has_a_stable_equilibrium_for_each_way_to_part():
    seen = survey(PAPER, Key.root(0))
    stable = {tuple(place.shares.argmax(-1)) for place, _ in seen.reached if place.kind == "stable"}
    assert stable == set(itertools.permutations(range(3)))
    assert sum(part for _, part in seen.reached) == pytest.approx(1)
    assert all(place.residual < 1e-9 for place, _ in seen.reached)


def test_eigenvalues_at_a_pure_state_are_the_losses_of_who_moves():
    x = np.eye(3)
    u = PAPER.utilities(x)
    losses = [0.001 * (u[p, j] - u[p, p]) for p in range(3) for j in range(3) if j != p]
    assert describe(PAPER, x).eigenvalues == pytest.approx(sorted(losses, reverse=True))


def test_kinds():
    same = Game.of([0, 0], [0, 0], [1, 1], [0, 0], [1, 1])
    assert describe(same, same.even).kind == "marginal"
    worst = np.array([[0.0, 1.0]])  # everybody where it pays less
    assert describe(Game.of([0, 0], [1, 1], [50, 1], [0, 0], [1]), worst).kind == "unstable"
    assert describe(PAPER, PAPER.even).kind == "not at rest"
    single = Game.of([1], [1], [1], [1], [1, 2])
    assert describe(single, single.even).eigenvalues == ()
    assert settle(single, single.even).kind == "stable"


def test_a_share_that_is_tiny_at_first_is_not_taken_for_rest():
    game = Game.of([0, 0], [1, 1], [100, 1], [0, 0], [1])
    found = settle(game, np.array([[1e-12, 1 - 1e-12]]))
    assert found.shares[0] == pytest.approx([1, 0])
    # Nobody at all there: nobody to imitate, so nobody goes.
    assert settle(game, np.array([[0.0, 1.0]])).shares[0] == pytest.approx([0, 1])


def test_the_optimum_is_no_worse_than_a_grid():
    for game in (TWINS, CROWD, Game.of([100, 300], [20, 10], [80, 120], [30, 40], [80, 120])):
        lines = np.linspace(0, 1, 51)
        groups = game.populations
        grid = np.array([[[a, 1 - a] for a in point] for point in itertools.product(lines, repeat=groups)])
        best = optimum(game, Key.root(0))
        assert np.abs(best.sum(-1) - 1).max() < 1e-12
        assert game.total(best) >= game.total(grid).max() - 1e-6
