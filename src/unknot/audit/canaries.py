"""Coins that only the leaver knew: can what is served still tell how they fell?

Canaries are samples with wrong labels, which a model can only know by heart. A coin is tossed for each, and
the leaver learns from those with heads. Once it is erased, an auditor guesses from the served model how each
coin fell. If nothing of them is left, the guesses are coin tosses, whatever the model: the coins are
independent of it. So the number of right ones is binomial, and the test is exact with one run and no control
(after Steinke, Nasr and Jagielski 2023, "Privacy Auditing with One (1) Training Run").
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray

from unknot.audit.roc import Scores
from unknot.audit.shadows import joined
from unknot.audit.signals import check_classes, confidence, told
from unknot.core.data import FederatedData, Samples, Shard
from unknot.core.ensemble import Model
from unknot.core.errors import ConfigError
from unknot.core.jobs import Engine
from unknot.core.keys import Key
from unknot.core.samples import IGNORED


@dataclass(frozen=True)
class Canaries:
    """How many canaries there are, and the share of them that is guessed on.

    All, by default: that finds traces best. Guessing only where the model is surest, as the paper does, has
    fewer errors among fewer guesses, which may show a larger ε.
    """

    number: int = 200
    share: float = 1.0

    def __post_init__(self) -> None:
        if self.number < 2:
            raise ConfigError(f"at least 2 canaries are needed, not {self.number}")
        if not 0 < self.share <= 1:
            raise ConfigError(f"the share of canaries to guess on is above 0 and at most 1, not {self.share}")

    @property
    def guesses(self) -> int:
        """On how many canaries there is a guess: an even number, half of them "in"."""
        return max(2, 2 * int(self.number * self.share / 2))


def planted(
    data: FederatedData, client: int, canaries: Canaries, key: Key, pool: Samples | None = None
) -> tuple[FederatedData, NDArray[np.bool_], Samples]:
    """The same federation with a coin's choice of the canaries in the client; the coins; and all canaries.

    Canaries are copies of samples in `pool`, by default of test samples, each with a label drawn from the
    wrong ones (for text, one a position). They come after the client's own samples; nobody else's rows
    change, and neither do validation and test.
    """
    key = key.child("canaries")
    samples = _drawn(data, canaries.number, key, pool)
    inside = key.child("inside").words(np.arange(canaries.number)) >> np.uint64(63) == 1
    return added(data, client, samples.subset(np.flatnonzero(inside))), inside, samples


def added(data: FederatedData, client: int, samples: Samples) -> FederatedData:
    """The same federation with further samples in a client, after its own."""
    shard = data[client]
    first = max([*shard.ids.tolist()[-1:], *data.reduced.get(client, ())], default=-1) + 1
    held = Shard(
        np.concatenate([shard.rows, len(data.train) + np.arange(len(samples))]),
        np.concatenate([shard.ids, first + np.arange(len(samples))]),
    )
    shards = {other: data[other] for other in data} | {client: held}
    return data.replaced(train=joined(data.train, samples), shards=shards)


def _drawn(data: FederatedData, number: int, key: Key, pool: Samples | None) -> Samples:
    check_classes(data.train, "a canary is a sample with a wrong class")
    pool = data.test if pool is None else pool
    if unlike := data.train.unlike(pool):
        raise ConfigError(f"the canaries are of another kind than the samples to train on: {unlike}")
    if len(pool) < number:
        raise ConfigError(f"there are {len(pool)} samples to make canaries of: not enough for {number}")
    if pool.classes < 2:
        raise ConfigError("a canary has a wrong label, and with one class there is none")
    given = pool.subset(key.child("rows").smallest(np.arange(len(pool)), number))
    drawn = key.child("labels").uniform(np.arange(given.y.numel())).reshape(given.y.shape)
    step = torch.from_numpy(1 + (drawn * (pool.classes - 1)).astype(np.int64))
    wrong = torch.where(given.y == IGNORED, IGNORED, (given.y.long() + step) % pool.classes)
    return replace(given, x=given.x.to(data.train.x.dtype), y=wrong.to(data.train.y.dtype))


def confidences(engine: Engine, model: Model, samples: Samples) -> Scores:
    """How sure a model is of each canary's label."""
    (said,), points = told(engine, [model], samples)
    return confidence(said.double(), points.y).numpy().astype(np.float64)


def guess(confidences: ArrayLike, count: int, usual: ArrayLike | None = None) -> NDArray[np.int64]:
    """For each canary 1, "it was in", or -1, "it was out", or 0, no guess; `count` guesses in all.

    Half of them say "in", where the model is surest of the canary's label, and half "out", where it is least
    sure. `usual` is how sure models are that never had any canary, on average: what is above it tells more,
    since some wrong labels look likely to any model.
    """
    scores = np.asarray(confidences, dtype=np.float64)
    if usual is not None:
        scores = scores - np.asarray(usual, dtype=np.float64)
    if not np.isfinite(scores).all():
        raise ConfigError("the model's confidences are not all numbers: has it diverged?")
    if not 2 <= count <= len(scores) or count % 2:
        raise ConfigError(
            f"guesses come in pairs, at most one for each of {len(scores)} canaries; not {count}"
        )
    order = np.argsort(scores, kind="stable")
    said = np.zeros(len(scores), dtype=np.int64)
    said[order[: count // 2]] = -1
    said[order[-(count // 2) :]] = 1
    return said


@dataclass(frozen=True)
class Guesses:
    """How many guesses were right, of those made, on so many canaries; and what that shows.

    `level` is how often chance alone may lead to a false verdict, or to a bound that does not hold.
    """

    right: int
    made: int
    number: int

    def __post_init__(self) -> None:
        if not 0 <= self.right <= self.made <= self.number or not self.made:
            raise ConfigError(
                f"{self.right} right of {self.made} guesses on {self.number} canaries: that cannot be"
            )

    @staticmethod
    def of(said: NDArray[np.int64], inside: NDArray[np.bool_]) -> Guesses:
        """What became of the guesses, now that the coins are shown."""
        right = said == np.where(inside, 1, -1)
        return Guesses(int(right.sum()), int(np.count_nonzero(said)), len(inside))

    @property
    def p(self) -> float:
        """The chance that coin tosses are right as often, or more often."""
        return self._at_least(0.0, 0.0)

    @property
    def two_sided(self) -> float:
        """The chance that coin tosses are as far from half right, either way."""
        far = max(self.right, self.made - self.right)
        return min(1.0, 2 * Guesses(far, self.made, self.number).p)

    def epsilon(self, delta: float = 0.0, level: float = 0.05) -> float:
        """A lower bound: what is served is not (ε, δ)-alike with a canary and without it, for any smaller ε.

        If it were, then v or more of r guesses on m canaries were right with a chance of at most
        P[W ≥ v] + 2 m δ max_i P[v > W ≥ v − i] / i, where W is binomial with r tosses and the chance
        e^ε / (1 + e^ε) (their Theorem 5.2).
        """
        if not 0 <= delta <= 1 or not 0 < level < 1:
            raise ConfigError(f"δ is from 0 to 1 and the level between 0 and 1; not {delta} and {level}")
        if self._at_least(0.0, delta) > level:
            return 0.0
        low, high = 0.0, 1.0
        while self._at_least(high, delta) <= level:
            low, high = high, 2 * high
        for _ in range(50):
            middle = (low + high) / 2
            low, high = (middle, high) if self._at_least(middle, delta) <= level else (low, middle)
        return low

    def most(self, delta: float = 0.0, level: float = 0.05) -> float:
        """The bound that as many guesses would give, were they all right: no trace can show more."""
        return Guesses(self.made, self.made, self.number).epsilon(delta, level)

    def verdict(self, level: float = 0.05, kept: Guesses | None = None) -> str:
        """ "still shows" if too many guesses are right for chance, "over-forgotten" if too many are wrong.

        Otherwise "no trace found"; but "no power", and nothing else, if `kept`, the same guesses from a
        model that kept the canaries, shows nothing.
        """
        if kept is not None and kept.verdict(level) != "still shows":
            return "no power"
        if self.two_sided <= level:
            return "still shows" if 2 * self.right > self.made else "over-forgotten"
        return "no trace found"

    def to_dict(self, level: float = 0.05) -> dict[str, object]:
        return {
            "right": self.right,
            "made": self.made,
            "number": self.number,
            "p": self.p,
            "two_sided": self.two_sided,
            "epsilon": self.epsilon(level=level),
            "most": self.most(level=level),
        }

    def _at_least(self, epsilon: float, delta: float) -> float:
        """The most likely that as many right guesses can be, where all is (ε, δ)-alike."""
        chances = _tosses(self.made, epsilon)
        fewer = chances[: self.right][::-1].cumsum() / np.arange(1, self.right + 1)
        extra = 2 * self.number * delta * fewer.max(initial=0.0)
        return float(min(1.0, chances[self.right :].sum() + extra))


def guessed(
    engine: Engine,
    model: Model,
    samples: Samples,
    inside: NDArray[np.bool_],
    canaries: Canaries,
    usual: ArrayLike | None = None,
) -> Guesses:
    """Guess from a model which of the planted canaries had been in, and count."""
    return Guesses.of(guess(confidences(engine, model, samples), canaries.guesses, usual), inside)


def _tosses(trials: int, epsilon: float) -> Scores:
    """The binomial distribution: the chances of 0, 1, 2... heads, each with e^ε / (1 + e^ε)."""
    k = torch.arange(trials + 1, dtype=torch.float64)
    n = torch.tensor(float(trials), dtype=torch.float64)
    ways = torch.lgamma(n + 1) - torch.lgamma(k + 1) - torch.lgamma(n - k + 1)
    tails = np.log1p(np.exp(-epsilon))
    return np.asarray((ways - n * tails - (n - k) * epsilon).exp().numpy(), dtype=np.float64)
