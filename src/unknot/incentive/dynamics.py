"""Replicator dynamics, ẋ_jp = δ x_jp (u_jp − ū_p): a step each period, and the equations themselves."""

from __future__ import annotations

from typing import cast

import numpy as np

from unknot.core.errors import ConfigError, install
from unknot.incentive.game import Floats, Game

LONGEST = 0.5  # of itself, what a share may win or lose in one step
PARTS = 10_000  # of a period, at most


def step(game: Game, x: Floats) -> Floats:
    """The shares a period later: x + δ x (u − ū).

    In exact numbers a step keeps the sum of shares. In floating-point ones it is off by a few 1e-16, so
    each population's shares are divided by their sum: nothing else is corrected. A share could leave 0..1
    only where δ (u − ū) < −1; where it would win or lose more than half of itself, the period is walked
    in shorter steps, each as long as that allows.
    """
    left = np.ones(np.broadcast_shapes(x.shape[:-2], game.delta.shape))
    for _ in range(PARTS):
        pull = game.delta[..., None, None] * game.pull(x)
        longest = np.where(x > 0, np.abs(pull), 0.0).max(axis=(-2, -1))
        part = np.minimum(left, LONGEST / np.maximum(longest, LONGEST))
        x = x * (1 + part[..., None, None] * pull)
        x = x / x.sum(-1, keepdims=True)
        left = left - part
        if not left.any():
            return x
    raise ConfigError(
        f"delta = {game.delta.max():g} is too large: a period would need more than {PARTS} steps; "
        "give a smaller one and more periods"
    )


def play(game: Game, x: Floats, periods: int) -> Floats:
    """The shares after 1, 2, .. periods, as [period, ..., p, j]."""
    shape = np.broadcast_shapes(x.shape, game.even.shape)
    path = np.empty((periods, *shape))
    for t in range(periods):
        x = step(game, x)
        path[t] = x
    return path


def restless(game: Game, x: Floats) -> Floats:
    """The most that anybody gains by moving to a server where some of its population are.

    It is 0 only at rest, unlike the residual, which is as small where a tiny share has just begun to grow.
    """
    return cast(Floats, game.pull(x).max(axis=(-2, -1), where=x > 0, initial=0.0))


def flow(game: Game, x: Floats, until: float, rest: float = 0.0) -> tuple[float, Floats]:
    """Time and shares when the differential equations, from x, have been followed `until` a time.

    They end sooner where nobody gains more than `rest` by moving. What is integrated is the logarithm of
    shares, d/dt log x = δ (u − ū): no share can become negative, and one that shrinks for long can still
    come back. LSODA changes to an implicit method where the equations are stiff.
    """
    try:
        from scipy.integrate import solve_ivp
    except ImportError as error:
        raise ConfigError(f"the equations need {error.name}: {install('game')}") from None

    alive = x > 0
    logs = np.log(np.where(alive, x, 1.0))

    def at(v: Floats) -> Floats:
        v = np.where(alive, v.reshape(x.shape), -np.inf)
        powers = np.exp(v - v.max(-1, keepdims=True))
        found: Floats = powers / powers.sum(-1, keepdims=True)
        return found

    def velocity(_: float, v: Floats) -> Floats:
        now = at(v)
        return np.where(alive, game.delta * game.pull(now), 0.0).ravel()

    def moving(_: float, v: Floats) -> float:
        return float(restless(game, at(v))) - rest

    moving.terminal = True  # type: ignore[attr-defined]
    found = solve_ivp(
        velocity,
        (0.0, until),
        logs.ravel(),
        method="LSODA",
        events=moving if rest else None,
        rtol=1e-10,
        atol=1e-10,
    )
    if not found.success:
        raise ArithmeticError(f"the differential equations could not be followed: {found.message}")
    return float(found.t[-1]), at(found.y[:, -1])
