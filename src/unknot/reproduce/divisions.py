"""How clients divide among servers where a policy assigns them: a drawn game, played to its end."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from unknot.incentive import READINGS, compare
from unknot.reproduce.games import GameReproduction
from unknot.reproduce.parts import Table

DIGITS = 4  # behind the point, of a share: far less than a client


@dataclass(frozen=True)
class Division:
    """What came of a game: populations in the order of their data, as clusters by shares have them."""

    shares: dict[str, list[list[float]]]
    """By policy, a row a population with a share a server, in the last period."""
    amounts: list[float]
    """A client's data in each population, beside the middle of what it is drawn from."""

    @staticmethod
    def of(plan: GameReproduction, draw: int) -> Division:
        game, crowd, start = plan.drawn([draw])
        found = compare(game, crowd, plan.setting.periods, start, READINGS)
        order = np.argsort(game.data[0], kind="stable")
        shares = {name: outcome.shares[0][order].round(DIGITS).tolist() for name, outcome in found.items()}
        return Division(shares, (game.data[0][order] / np.mean(plan.draw.data)).tolist())

    def layer(self, policy: str, samples: int) -> Table:
        """What a line has of it: who is where, and how much each client holds; `samples` is the middle."""
        held = [round(samples * amount) for amount in self.amounts]
        return {"data": {"samples": held}, "method": {"shares": self.shares[policy]}}
