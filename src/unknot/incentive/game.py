"""The evolutionary game of "Incentive and Dynamic Client Selection for Federated Unlearning", section 4.

Populations of clients divide themselves among servers: x[p, j] is the share of population p at server j.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unknot.core.errors import ConfigError

Floats = NDArray[np.float64]

LARGEST = 1e100  # beyond, products of such numbers are no numbers any more
SUM = 1e-6  # given shares may add up to 1 this nearly: 0.333333 is a third


@dataclass(frozen=True)
class Game:
    """What servers pay and clients spend; with leading axes alike in all of them, many games at once.

    ψ, ζ, F^u, F^c have an entry for each server; data and both costs one for each population; φ and δ are
    numbers. `Game.of` makes one, and takes a single number for all populations and all games.
    """

    psi: Floats
    """What a server pays out by contribution: by each population's part in its data."""
    zeta: Floats
    """How soon a server is congested."""
    f_u: Floats
    """What a server pays on top: from the original task, and from the penalties of those who left."""
    f_c: Floats
    data: Floats
    """All that a population holds, D_p = clients × samples of each. Only the proportions matter."""
    phi: Floats
    """What is lost in transmission, 0 or more and below 1."""
    delta: Floats
    """The learning rate: how fast clients follow utility."""
    computation: Floats
    storage: Floats

    @staticmethod
    def of(
        psi: ArrayLike,
        zeta: ArrayLike,
        f_u: ArrayLike,
        f_c: ArrayLike,
        data: ArrayLike,
        phi: ArrayLike = 0.5,
        delta: ArrayLike = 0.001,
        computation: ArrayLike = 0.1,
        storage: ArrayLike = 0.1,
    ) -> Game:
        """The game, its numbers checked. What is left out is as in the paper."""
        rewards, amounts = numbers("psi", psi), numbers("data", data)

        def each(name: str, value: ArrayLike, shape: tuple[int, ...]) -> Floats:
            given = numbers(name, value)
            return given if given.ndim else np.full(shape, float(given))

        game = Game(
            psi=rewards,
            zeta=numbers("zeta", zeta),
            f_u=numbers("f_u", f_u),
            f_c=numbers("f_c", f_c),
            data=amounts,
            phi=each("phi", loss(phi), rewards.shape[:-1]),
            delta=each("delta", delta, rewards.shape[:-1]),
            computation=each("computation", computation, amounts.shape),
            storage=each("storage", storage, amounts.shape),
        )
        game._check()
        return game

    @property
    def servers(self) -> int:
        return int(self.psi.shape[-1])

    @property
    def populations(self) -> int:
        return int(self.data.shape[-1])

    @property
    def even(self) -> Floats:
        """Every population evenly at all servers."""
        return np.full((*self.data.shape, self.servers), 1 / self.servers)

    def _check(self) -> None:
        by = {"psi": "server", "zeta": "server", "f_u": "server", "f_c": "server"}
        by |= {"data": "population", "computation": "population", "storage": "population"}
        for name, whose in by.items():
            array, model = getattr(self, name), self.psi if whose == "server" else self.data
            if array.ndim < 1 or array.shape[-1] < 1:
                raise ConfigError(f"{name} is empty or a single number: give one for each {whose}")
            if array.shape != model.shape:
                raise ConfigError(
                    f"{name} has the shape {array.shape}, {'psi' if whose == 'server' else 'data'} "
                    f"{model.shape}: give one for each {whose}"
                )
        if self.psi.shape[:-1] != self.data.shape[:-1] or {self.phi.shape, self.delta.shape} != {
            self.psi.shape[:-1]
        }:
            raise ConfigError(
                f"psi {self.psi.shape}, data {self.data.shape}, phi {self.phi.shape} and delta "
                f"{self.delta.shape} are for different numbers of games: give them the same leading axes"
            )
        for name in ("psi", "zeta"):
            if (getattr(self, name) < 0).any():
                raise ConfigError(f"{name} is {getattr(self, name).min():g}: it must not be negative")
        for name in ("data", "delta"):
            if (getattr(self, name) <= 0).any():
                raise ConfigError(f"{name} is {getattr(self, name).min():g}: it must be above 0")

    def pick(self, index: int) -> Game:
        """One game of many."""
        return Game(**{field.name: getattr(self, field.name)[index] for field in fields(self)})

    # What a share is worth.

    def utilities(self, x: Floats) -> Floats:
        """u[p, j] = ψ_j x_jp D_p / Σ_q x_jq D_q + F_j^u + F_j^c − ζ_j/(1 − φ) (Σ_q x_jq)² − C_cp − C_cs.

        At a server where nobody is, a population's part in the data is 1: whoever comes first, alone and
        with however little, has all of it.
        """
        own = (self.computation + self.storage)[..., None]
        return cast(Floats, self.rewards(x) - (self._congestion * x.sum(-2) ** 2)[..., None, :] - own)

    def rewards(self, x: Floats) -> Floats:
        """b[p, j], the part of the utility that servers pay."""
        return self.psi[..., None, :] * self.parts(x) + (self.f_u + self.f_c)[..., None, :]

    def parts(self, x: Floats) -> Floats:
        """Each population's part in each server's data."""
        amounts = x * self.data[..., None]
        there = amounts.sum(-2, keepdims=True)
        empty = there == 0
        return cast(Floats, np.where(empty, 1.0, amounts / np.where(empty, 1.0, there)))

    def means(self, x: Floats) -> Floats:
        """ū[p], a population's utility averaged over where its clients are."""
        return cast(Floats, (x * self.utilities(x)).sum(-1))

    def total(self, x: Floats) -> Floats:
        """The utility of all populations together."""
        return cast(Floats, self.means(x).sum(-1))

    # Where shares go.

    def pull(self, x: Floats) -> Floats:
        """u − ū: how much better off a population is at a server than on average.

        The mean is over the shares as they are, divided by their sum: rounding does not push the sum away.
        """
        u = self.utilities(x)
        return cast(Floats, u - (x * u).sum(-1, keepdims=True) / x.sum(-1, keepdims=True))

    def residual(self, x: Floats) -> Floats:
        """max |ẋ| / δ: 0 where nobody moves."""
        return cast(Floats, np.abs(x * self.pull(x)).max(axis=(-2, -1)))

    def jacobian(self, x: Floats) -> Floats:
        """∂ẋ_jp / ∂x_kq as [..., p, j, q, k], for ẋ_jp = δ x_jp (u_jp − Σ_i x_ip u_ip)."""
        same_p, same_j = np.eye(self.populations), np.eye(self.servers)
        u = self.utilities(x)
        change = self._weighted_slopes(x)  # [p, j, q]
        du = change[..., None] * same_j[:, None, :]
        mean = same_p[:, :, None] * u[..., :, None, :] + np.swapaxes(change, -2, -1)  # ∂ū_p / ∂x_kq
        gap = u - (x * u).sum(-1, keepdims=True)
        own = gap[..., None, None] * same_p[:, None, :, None] * same_j[None, :, None, :]
        jacobian = own + du - x[..., None, None] * mean[..., :, None, :, :]
        return cast(Floats, self.delta[..., None, None, None, None] * jacobian)

    def gradient(self, x: Floats) -> Floats:
        """∂ total / ∂x_kq, as [..., q, k]."""
        return cast(Floats, self.utilities(x) + np.swapaxes(self._weighted_slopes(x).sum(-3), -2, -1))

    @property
    def _congestion(self) -> Floats:
        return self.zeta / (1 - self.phi)[..., None]

    def _weighted_slopes(self, x: Floats) -> Floats:
        """x_jp ∂u_jp / ∂x_jq as [..., p, j, q]; unlike the slope itself, finite down to x = 0.

        At an empty server it is 0: who enters alone has all of the reward, with little as with more.
        """
        parts = np.where(x.sum(-2, keepdims=True) == 0, 0.0, self.parts(x))
        ratio = self.data[..., None, :] / self.data[..., :, None]  # D_q / D_p
        inner = np.eye(self.populations)[:, None, :] - parts[..., None] * ratio[..., :, None, :]
        paid = (self.psi[..., None, :] * parts)[..., None] * inner
        crowded = 2 * self._congestion * x.sum(-2)
        return cast(Floats, paid - (crowded[..., None, :] * x)[..., None])


def loss(phi: ArrayLike) -> Floats:
    """φ, which costs are divided by 1 less: so it lies below 1."""
    checked = numbers("phi", phi)
    if len(wrong := checked[~((checked >= 0) & (checked < 1))]):
        raise ConfigError(f"phi is {float(wrong[0])}: it must be 0 or more, and below 1")
    return checked


def numbers(name: str, value: ArrayLike) -> Floats:
    """Finite numbers, or an error that says what is none."""
    try:
        array = np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError):
        raise ConfigError(f"{name} is {value!r}: give numbers") from None
    if not np.isfinite(array).all():
        raise ConfigError(f"{name} is {value!r}: its numbers must be finite")
    if (abs(array) > LARGEST).any():
        raise ConfigError(
            f"{name} is {value!r}: its numbers must be below {LARGEST:g}; count in a larger unit"
        )
    return array


def shares(game: Game, given: ArrayLike | None) -> Floats:
    """Shares for a game: even ones, one list for all populations, or one for each; they add up to 1."""
    if given is None:
        return game.even
    x = numbers("start", given)
    if x.shape[-1:] != (game.servers,) or (x.ndim > 1 and x.shape[-2] != game.populations):
        raise ConfigError(
            f"start has the shape {x.shape}: give a share for each of {game.servers} servers, "
            f"once for all populations or once for each of {game.populations}"
        )
    if (x < 0).any():
        raise ConfigError(f"start has a negative share, {x.min():g}")
    sums = x.sum(-1, keepdims=True)
    if (np.abs(sums - 1) > SUM).any():
        raise ConfigError(f"the shares of start add up to {sums.flat[np.abs(sums - 1).argmax()]:g}, not to 1")
    x = x / sums
    shape = np.broadcast_shapes(x.shape, game.even.shape)
    return np.ascontiguousarray(np.broadcast_to(x, shape))
