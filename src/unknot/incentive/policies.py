"""Who goes where, period by period: the game, and the paper's random, round-robin and greedy assignment."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from unknot.core.errors import ConfigError
from unknot.core.keys import Key
from unknot.incentive.dynamics import play
from unknot.incentive.game import Floats, Game

PERIOD = 1 << 32  # a draw's id is period × this + client


@dataclass(frozen=True)
class Crowd:
    """Clients to assign: how many there are of each population, and the source of each game's draws."""

    clients: tuple[int, ...]
    keys: tuple[Key, ...]

    @staticmethod
    def of(game: Game, clients: int | Sequence[int], key: Key | Sequence[Key]) -> Crowd:
        """For one game a key, for many a key each; a number of clients is that of each population."""
        sizes = (clients,) * game.populations if isinstance(clients, int) else tuple(clients)
        keys = (key,) if isinstance(key, Key) else tuple(key)
        if len(sizes) != game.populations or min(sizes) < 1:
            raise ConfigError(
                f"clients is {clients!r}: give a number of 1 or more, or one for each of {game.populations}"
            )
        games = game.delta.size
        if len(keys) != games:
            raise ConfigError(f"{games} games and {len(keys)} keys: give each game a key of its own")
        return Crowd(sizes, keys)

    @property
    def populations(self) -> NDArray[np.int64]:
        """The population of each client, in the order of ids."""
        return np.repeat(np.arange(len(self.clients)), self.clients)

    def shares(self, servers: NDArray[np.int64], many: int) -> Floats:
        """From the server of each client, [period, client], to shares, [period, p, j]."""
        periods, groups = len(servers), len(self.clients)
        cells = (np.arange(periods)[:, None] * groups + self.populations) * many + servers
        counts = np.bincount(cells.ravel(), minlength=periods * groups * many)
        found: Floats = counts.reshape(periods, groups, many) / np.asarray(self.clients, float)[:, None]
        return found


def random(game: Game, crowd: Crowd, periods: int) -> Floats:
    """Every client goes to a server drawn anew each period."""
    ids = np.arange(periods)[:, None] * PERIOD + np.arange(sum(crowd.clients))
    paths = [
        crowd.shares((key.child("random").uniform(ids) * game.servers).astype(np.int64), game.servers)
        for key in crowd.keys
    ]
    return np.stack(paths, axis=1).reshape(periods, *game.even.shape)


def round_robin(game: Game, crowd: Crowd, periods: int) -> Floats:
    """Client n goes to server n + t in period t, counted round."""
    servers = (np.arange(sum(crowd.clients)) + np.arange(periods)[:, None]) % game.servers
    path = crowd.shares(servers, game.servers)
    spread = path.reshape(periods, *(1,) * game.delta.ndim, *path.shape[1:])
    return np.broadcast_to(spread, (periods, *game.even.shape))


def greedy(game: Game, crowd: Crowd, periods: int) -> Floats:
    """One after another, each client goes where the reward is highest now; costs are not looked at.

    The reward is the paper's, b_jp, as it would be with this client among those who chose before it. The
    order is drawn once, so that every period is alike.
    """
    games, everybody = np.arange(len(crowd.keys)), np.arange(sum(crowd.clients))
    orders = np.stack([key.child("greedy").order(everybody) for key in crowd.keys])
    populations = crowd.populations[orders]
    sizes = np.asarray(crowd.clients, float)
    each = game.data.reshape(len(games), -1) / sizes  # a client's data
    psi, fixed = (a.reshape(len(games), -1) for a in (game.psi, game.f_u + game.f_c))
    counts = np.zeros((len(games), len(sizes), game.servers))
    amounts = np.zeros((len(games), game.servers))
    for turn in range(len(everybody)):
        p = populations[:, turn]
        own = each[games, p][:, None]
        reward = psi * (counts[games, p] + 1) * own / (amounts + own) + fixed
        choice = reward.argmax(axis=1)
        counts[games, p, choice] += 1
        amounts[games, choice] += own[:, 0]
    final = (counts / sizes[:, None]).reshape(game.even.shape)
    return np.broadcast_to(final, (periods, *final.shape))


def highest_offer(game: Game, crowd: Crowd, periods: int) -> Floats:
    """The other reading of greedy: everybody goes where ψ + F^u + F^c is highest, whoever else is there."""
    best = np.eye(game.servers)[(game.psi + game.f_u + game.f_c).argmax(-1)]
    return np.broadcast_to(best[..., None, :], (periods, *game.even.shape))


Policy = Callable[[Game, Crowd, int], Floats]
BASELINES: Mapping[str, Policy] = {"random": random, "round_robin": round_robin, "greedy": greedy}
POLICIES = ("evolutionary", *BASELINES)
READINGS: Mapping[str, Policy] = {**BASELINES, "highest_offer": highest_offer}
"""The baselines, greedy in both readings."""


@dataclass(frozen=True)
class PolicyResult:
    """What a policy came to; for many games, the games' axis follows the periods'."""

    path: Floats
    """Shares in each period."""
    utilities: Floats
    """Total utility in each period."""

    @property
    def shares(self) -> Floats:
        """In the last period."""
        final: Floats = self.path[-1]
        return final


def compare(
    game: Game,
    crowd: Crowd,
    periods: int,
    start: Floats | None = None,
    baselines: Mapping[str, Policy] = BASELINES,
) -> dict[str, PolicyResult]:
    """The game and the other policies, by name. A period's utility is that of the shares after its step."""
    if periods < 1:
        raise ConfigError(f"periods is {periods}: it must be 1 or more")
    paths = {"evolutionary": play(game, game.even if start is None else start, periods)}
    paths |= {name: policy(game, crowd, periods) for name, policy in baselines.items()}
    return {name: PolicyResult(path, game.total(path)) for name, path in paths.items()}
