"""Where the game comes to rest, whether it stays there, and where else it could have gone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product

import numpy as np

from unknot.core.keys import Key
from unknot.incentive.dynamics import flow, restless, step
from unknot.incentive.game import Floats, Game

REST = 1e-6  # of utility: nobody gains more by moving
GONE = 1e-5  # a share that is smaller, and shrinking, is on its way to 0
ALIKE = 1e-4  # shares that differ by less are one equilibrium
FLAT = 1e-7  # an eigenvalue over δ this near to 0 says nothing
BLOCK, BLOCKS = 500, 80


@dataclass(frozen=True)
class Equilibrium:
    """Shares at rest, or as near to it as was found."""

    shares: Floats
    residual: float
    """max |ẋ| / δ."""
    eigenvalues: tuple[complex, ...]
    """Of the Jacobian of ẋ, δ included, along the simplex; the greatest real part first."""
    kind: str
    """stable, unstable (in all directions), saddle, marginal (the eigenvalues do not tell), not at rest."""


def describe(game: Game, x: Floats) -> Equilibrium:
    """What the linearised dynamics say of shares, at rest or not."""
    values = eigenvalues(game, x)
    residual = float(game.residual(x))
    slopes = [value.real / float(game.delta) for value in values]
    up, down = any(s > FLAT for s in slopes), any(s < -FLAT for s in slopes)
    level = any(abs(s) <= FLAT for s in slopes)
    if residual > 10 * REST:
        kind = "not at rest"
    elif up:
        kind = "saddle" if down or level else "unstable"
    else:
        kind = "marginal" if level else "stable"
    return Equilibrium(x, residual, values, kind)


def eigenvalues(game: Game, x: Floats) -> tuple[complex, ...]:
    """Of the Jacobian on directions that leave every population's sum at 1."""
    size = game.populations * game.servers
    basis = np.kron(np.eye(game.populations), _tangent(game.servers))
    jacobian = game.jacobian(x).reshape(size, size)
    values = np.linalg.eigvals(basis.T @ jacobian @ basis)
    return tuple(sorted((complex(value) for value in values), key=lambda z: (-z.real, z.imag)))


def settle(game: Game, start: Floats) -> Equilibrium:
    """Follow the differential equations from `start` until nobody gains by moving."""
    _, x = flow(game, start, until=1e4 / float(game.delta), rest=REST)
    return describe(game, polish(game, x))


def stable_corners(game: Game) -> int:
    """How many all-or-nothing assignments, every population at one server, are stable equilibria.

    There may be more stable equilibria, with shares between: `survey` looks for all.
    """
    corners = np.eye(game.servers)[list(product(range(game.servers), repeat=game.populations))]
    return sum(describe(game, x).kind == "stable" for x in corners)


@dataclass(frozen=True)
class Survey:
    """The equilibria that many starts led to, the commonest first."""

    reached: tuple[tuple[Equilibrium, float], ...]
    """Each with the part of all starts that ended there."""
    starts: int
    moving: int
    """Starts that had not come to rest."""


def survey(game: Game, key: Key, starts: int = 200) -> Survey:
    """Let the game run from shares drawn evenly from the simplex, and tell the equilibria apart."""
    draws = -np.log1p(-key.child("starts").uniform(np.arange(starts * game.populations * game.servers)))
    x = draws.reshape(starts, game.populations, game.servers)
    x = x / x.sum(-1, keepdims=True)
    # Slow enough for steps to follow the equations, whatever δ is: it sets the pace, not where it ends.
    steepest = game.psi.max() + 2 * (game.zeta.max() / (1 - game.phi)) * game.populations**2
    slow = replace(game, delta=np.asarray(0.5 / max(float(steepest), 1e-9)))
    moving = np.arange(starts)
    for _ in range(BLOCKS):
        part = x[moving]
        for _ in range(BLOCK):
            part = step(slow, part)
        x[moving] = part
        moving = moving[restless(slow, part) > REST]
        if not len(moving):
            break
    still = set(moving.tolist())
    found: list[tuple[Equilibrium, int]] = []
    for place in (polish(game, shares) for i, shares in enumerate(x) if i not in still):
        for k, (known, count) in enumerate(found):
            if np.abs(known.shares - place).max() < ALIKE:
                found[k] = known, count + 1
                break
        else:
            found.append((describe(game, place), 1))
    found.sort(key=lambda item: -item[1])
    return Survey(tuple((known, count / starts) for known, count in found), starts, len(still))


def polish(game: Game, x: Floats) -> Floats:
    """Newton's method, from nearly at rest to as near as numbers allow; shares about to vanish are 0."""
    small = (x < GONE) & (game.pull(x) < 0)
    best = np.where(small, 0.0, x)
    best = best / best.sum(-1, keepdims=True)
    if game.residual(best) > max(10 * REST, float(game.residual(x))):
        best = x
    now, alive = best, best > 0
    blocks = []
    for p, row in enumerate(alive):  # directions within the servers that a population uses
        block = np.zeros((*x.shape, int(row.sum()) - 1))
        block[p, row] = _tangent(int(row.sum()))
        blocks.append(block.reshape(x.size, -1))
    basis = np.hstack(blocks)
    for _ in range(20 if basis.size else 0):
        force = basis.T @ (game.delta * now * game.pull(now)).ravel()
        slopes = basis.T @ game.jacobian(now).reshape(x.size, x.size) @ basis
        now = now - (basis @ np.linalg.lstsq(slopes, force, rcond=1e-10)[0]).reshape(x.shape)
        lost = not (now[alive] > 0).all() or np.abs(now - x).max() > ALIKE
        if lost or game.residual(now) >= game.residual(best):
            break
        best = now
    return best


def _tangent(size: int) -> Floats:
    """Orthonormal columns that add up to 0: [size, size − 1]."""
    rows: Sequence[Floats] = [
        np.r_[np.ones(k), -k, np.zeros(size - k - 1)] / np.sqrt(k * (k + 1)) for k in range(1, size)
    ]
    return np.array(rows).reshape(size - 1, size).T
