"""A yardstick: the shares that would make the total utility as high as it can be, if somebody decided."""

from __future__ import annotations

from itertools import islice, product

import numpy as np

from unknot.core.errors import ConfigError, install
from unknot.core.keys import Key
from unknot.incentive.game import Floats, Game

PURE = 4096  # all-or-nothing assignments that are looked at


def optimum(game: Game, key: Key, starts: int = 8) -> Floats:
    """The best shares found: all-or-nothing ones, the best three of these improved, random ones improved.

    The total is neither convex nor concave, so this is the best that was found, without a proof.
    """
    try:
        from scipy.optimize import minimize
    except ImportError as error:
        raise ConfigError(f"the optimum needs {error.name}: {install('game')}") from None

    groups, many = game.populations, game.servers
    choices = np.array(list(islice(product(range(many), repeat=groups), PURE)))
    pure = np.eye(many)[choices]
    order = np.argsort(-game.total(pure), kind="stable")
    draws = -np.log1p(-key.child("optimum").uniform(np.arange(starts * groups * many)))
    mixed = draws.reshape(starts, groups, many)
    candidates = [pure[order[0]]]
    sums = np.kron(np.eye(groups), np.ones(many))
    for start in (*pure[order[:3]], *(mixed / mixed.sum(-1, keepdims=True))):
        found = minimize(
            lambda v: -float(game.total(v.reshape(groups, many))),
            start.ravel(),
            jac=lambda v: -game.gradient(v.reshape(groups, many)).ravel(),
            bounds=[(0.0, 1.0)] * (groups * many),
            constraints={"type": "eq", "fun": lambda v: sums @ v - 1, "jac": lambda v: sums},
            method="SLSQP",
        )
        x = np.clip(found.x.reshape(groups, many), 0.0, 1.0)
        candidates.append(x / x.sum(-1, keepdims=True))
    best: Floats = max(candidates, key=lambda x: float(game.total(x)))
    return best
