"""Secrets that only the leaver's texts hold: how far does a model expose them?

A secret is a run of tokens, each drawn uniformly from the same set, after a prefix that all secrets have in
common. Many are drawn, and a draw among them says which are *planted*: written a few times into the leaver's
texts. The others are *candidates*, which nobody ever wrote. The exposure of a planted secret is

    log2 |R| − log2 rank,

where R is the candidates and itself, and its rank in them is by the model's loss on it: so many bits is a
guesser spared who goes through R, the likeliest first (Carlini, Liu, Erlingsson, Kos, Song 2019, "The Secret
Sharer"). The paper ranks among all secrets that could have been drawn, or extrapolates to them by a
skew-normal fit; here the rank is exact among those that were drawn, and no more than log2 |R| bits can show.

If nothing is left of the planted secrets, any of those drawn are as likely to be them, whatever the model:
their ranks among all are a draw at random. So the test is exact with one run and no control.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from statistics import fmean

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray

from unknot.audit.canaries import added
from unknot.audit.roc import Scores
from unknot.audit.signals import told, truth
from unknot.core.data import NOBODYS, FederatedData, Samples
from unknot.core.ensemble import Model
from unknot.core.errors import ConfigError
from unknot.core.jobs import Engine
from unknot.core.keys import Key
from unknot.core.samples import IGNORED

GRAINS = 128
"""Of a bit: exposures are added up in these, so that the chance of a sum can be counted, not drawn.

Where many secrets are planted, in coarser ones.
"""
WORK = 2**32
"""So many sums, at most, are added up to count the chances."""
ROOMY = 4
"""So many times as many secrets as are drawn must there be to draw from."""
Tokens = NDArray[np.int64]


@dataclass(frozen=True)
class Secrets:
    """How many secrets are planted, how often each, how long they are, and among how many they are ranked."""

    number: int = 8
    repeats: int = 8
    """How often each is written into the leaver's texts."""
    length: int = 6
    """Tokens of a secret."""
    candidates: int = 1023
    """Secrets that are drawn and not planted: with 1,023 of them, at most 10 bits can show."""
    prefix: int | Sequence[int] = 3
    """The tokens before every secret, or how many of them are drawn."""
    tokens: Sequence[int] | None = None
    """What secrets are drawn from; None: all that occur in the test texts that are not the leaver's."""

    def __post_init__(self) -> None:
        for name, least in (("number", 1), ("repeats", 1), ("length", 1), ("candidates", 1)):
            if getattr(self, name) < least:
                raise ConfigError(f"secrets: {name} must be at least {least}, not {getattr(self, name)}")
        for name in ("prefix", "tokens"):
            if isinstance(given := getattr(self, name), Sequence):
                object.__setattr__(self, name, tuple(given))
        if (self.prefix if isinstance(self.prefix, int) else len(self.prefix)) < 1:
            raise ConfigError("secrets: the prefix has at least one token, for a model to go on from")
        _grains(self.number, self.candidates)  # so many that they cannot be judged are refused now

    @property
    def drawn(self) -> int:
        return self.number + self.candidates


@dataclass(frozen=True, eq=False)
class Drawn:
    """The secrets of one audit, as texts, and which of them were planted."""

    texts: Samples
    """To be asked about: only the secret's own tokens are to be predicted."""
    planted: NDArray[np.int64]
    """Their rows in `texts`."""
    tokens: int
    """How many different ones a secret is drawn from."""


def hidden(data: FederatedData, client: int, secrets: Secrets, key: Key) -> tuple[FederatedData, Drawn]:
    """The same federation with secrets in the client's texts; and all that were drawn.

    They come after the client's own texts; nobody else's rows change, and neither do validation and test.
    """
    train = data.train
    if train.kind != "classes" or train.y.ndim != 2:
        raise ConfigError(
            "a secret is a run of tokens in a text of which the next token is to be predicted, and these "
            "samples have another target: plant canaries instead"
        )
    key = key.child("secrets")
    tokens = _tokens(data, client, secrets)
    texts = _written(tokens, secrets, key)
    before, context = texts.shape[1] - secrets.length, train.x.shape[1]
    if texts.shape[1] > context + 1:
        raise ConfigError(
            f"a prefix of {before} tokens and a secret of {secrets.length} do not fit texts of {context} "
            "tokens: make them shorter"
        )
    whole = _samples(texts, train, 0)
    planted = key.child("planted").smallest(np.arange(secrets.drawn), secrets.number)
    held = whole.subset(np.repeat(planted, secrets.repeats))
    return added(data, client, held), Drawn(_samples(texts, train, before), planted, len(tokens))


def _tokens(data: FederatedData, client: int, secrets: Secrets) -> Tokens:
    """What secrets are drawn from: given, or what occurs in test texts that are not the leaver's."""
    if secrets.tokens is not None:
        tokens = np.unique(np.asarray(secrets.tokens, dtype=np.int64))
    else:
        owner = np.full(len(data.test), NOBODYS) if data.test_owner is None else data.test_owner
        found = data.test.y[torch.from_numpy(np.flatnonzero(owner != client))].long()
        tokens = np.unique(found[found != IGNORED].numpy())
    given = tokens if isinstance(secrets.prefix, int) else np.append(tokens, secrets.prefix)
    if len(given) and not 0 <= given.min() <= given.max() < data.train.classes:
        raise ConfigError(f"secrets: tokens are numbers from 0 to {data.train.classes - 1}")
    if len(tokens) ** secrets.length < ROOMY * secrets.drawn:
        raise ConfigError(
            f"{len(tokens)} tokens make too few secrets of length {secrets.length} to draw {secrets.drawn} "
            "of them: make them longer, or draw fewer"
        )
    return tokens


def _written(tokens: Tokens, secrets: Secrets, key: Key) -> Tokens:
    """The prefix and a secret, a row each; no two are the same."""
    found = np.empty((0, secrets.length), dtype=np.int64)
    while len(found) < secrets.drawn:
        first = len(found) * secrets.length
        words = key.child("tokens", first).words(np.arange(2 * secrets.drawn * secrets.length))
        more = tokens[(words % np.uint64(len(tokens))).astype(np.int64)].reshape(-1, secrets.length)
        both = np.concatenate([found, more])
        found = both[np.sort(np.unique(both, axis=0, return_index=True)[1])]
    prefix = secrets.prefix
    if isinstance(prefix, int):
        drawn = key.child("prefix").words(np.arange(prefix)) % np.uint64(len(tokens))
        prefix = tuple(tokens[drawn.astype(np.int64)].tolist())
    before = np.tile(np.asarray(prefix, dtype=np.int64), (secrets.drawn, 1))
    return np.concatenate([before, found[: secrets.drawn]], axis=1)


def _samples(texts: Tokens, like: Samples, masked: int) -> Samples:
    """Texts as samples: each token predicts the next, and those up to `masked` are not to be predicted.

    What fills them up on the right nothing real sees; it is the last token, which every model knows.
    """
    context, length = like.x.shape[1], texts.shape[1] - 1
    x = np.repeat(texts[:, -1:], context, axis=1)
    y = np.full((len(texts), context), IGNORED, dtype=np.int64)
    x[:, :length] = texts[:, :-1]
    y[:, max(masked - 1, 0) : length] = texts[:, max(masked, 1) :]
    return Samples(torch.from_numpy(x).to(like.x.dtype), torch.from_numpy(y).to(like.y.dtype), like.classes)


def losses(engine: Engine, models: Sequence[Model], texts: Samples) -> Scores:
    """The mean loss a token, ``[models, texts]``."""
    answers, points = told(engine, models, texts)
    found = np.array([-truth(said, points.y).log().numpy() for said in answers])
    if not np.isfinite(found).all():
        raise ConfigError("a model gives no numbers for answers: it has diverged, and cannot be audited")
    return found


@dataclass(frozen=True)
class Exposures:
    """Of each planted secret, how many candidates a model takes for likelier; and what that shows."""

    below: tuple[int, ...]
    """In rising order."""
    candidates: int

    @staticmethod
    def of(losses: ArrayLike, planted: NDArray[np.int64]) -> Exposures:
        """By the losses of all secrets that were drawn."""
        values = np.asarray(losses, dtype=np.float64)
        # Planted at random places: so it is a fair draw, too, who comes first of those that are tied.
        place = np.argsort(np.argsort(values, kind="stable"), kind="stable")
        below = np.sort(place[planted]) - np.arange(len(planted))
        return Exposures(tuple(below.tolist()), len(values) - len(planted))

    def __post_init__(self) -> None:
        if not self.below or not 0 <= min(self.below) <= max(self.below) <= self.candidates:
            raise ConfigError(f"ranks of planted secrets are from 0 to {self.candidates}, not {self.below}")

    @property
    def bits(self) -> tuple[float, ...]:
        """The exposure of each planted secret, the highest first."""
        return tuple(_bits(np.array(self.below), self.candidates).tolist())

    @property
    def mean(self) -> float:
        return fmean(self.bits)

    @property
    def most(self) -> float:
        """No secret can show more bits."""
        return math.log2(self.candidates + 1)

    @property
    def p(self) -> float:
        """The chance that ranks drawn at random have so high a mean exposure, or a higher one."""
        return self._chance(np.array(self.below))

    @property
    def two_sided(self) -> float:
        """The same, for secrets that are taken for so likely or, seen from the other end, so unlikely."""
        return min(1.0, 2 * min(self.p, self._chance(self.candidates - np.array(self.below))))

    def _chance(self, below: NDArray[np.int64]) -> float:
        grains = _grains(len(below), self.candidates)
        return float(_by_chance(len(below), self.candidates, grains)[_steps(below, grains).sum()])

    def verdict(self, level: float = 0.05, before: Exposures | None = None) -> str:
        """ "still shows" if secrets are exposed too far for chance, "over-forgotten" if too little.

        Otherwise "no trace found"; but "no power", and nothing else, if `before`, the exposures in the
        model that was to forget them, shows nothing.
        """
        if before is not None and before.verdict(level) != "still shows":
            return "no power"
        if self.two_sided <= level:
            return "still shows" if 2 * self.p <= level else "over-forgotten"
        return "no trace found"

    def to_dict(self) -> dict[str, object]:
        return {
            "bits": list(self.bits),
            "mean": self.mean,
            "most": self.most,
            "p": self.p,
            "two_sided": self.two_sided,
        }


def _bits(below: NDArray[np.int64], candidates: int) -> Scores:
    return np.asarray(math.log2(candidates + 1) - np.log2(below + 1))


def _steps(below: NDArray[np.int64], grains: int) -> NDArray[np.int64]:
    """log2 of the ranks, in whole grains: what is added up, so that the chance of any sum can be counted."""
    return np.floor(np.log2(below + 1) * grains + 1e-9).astype(np.int64)


def _grains(planted: int, candidates: int) -> int:
    """Of a bit: as fine as sums can be counted in seconds; `ConfigError` where they cannot at all."""

    def work(grains: int) -> float:
        return candidates * planted**2 * (math.log2(candidates + 1) * grains + 1)

    if work(1) > WORK:
        raise ConfigError(
            f"secrets: to count how {planted} of them fall among {candidates} candidates takes too long: "
            f"plant at most {int(planted * math.sqrt(WORK / work(1)))}, or draw fewer candidates"
        )
    return max(grains for grains in (1 << i for i in range(GRAINS.bit_length())) if work(grains) <= WORK)


@lru_cache(maxsize=16)
def _by_chance(planted: int, candidates: int, grains: int) -> Scores:
    """The chance that ranks drawn at random have so small a sum of `_steps`, or a smaller one, by the sum.

    Planted secrets and candidates are in an order at random: who comes next is planted with the share that
    planted ones have in those to come. Chances are added up along all orders, candidate by candidate: none of
    them is more than 1, however many orders there are.
    """
    steps = _steps(np.arange(candidates + 1), grains)
    chance = np.zeros((planted + 1, planted * int(steps[-1]) + 1))
    chance[0, 0] = 1.0
    for before, step in enumerate(steps.tolist()):
        for placed in range(planted):
            here = chance[placed, : placed * step + 1]  # no sum is larger yet
            left = planted - placed
            share = left / (left + candidates - before)
            chance[placed + 1, step : step + len(here)] += share * here
            here *= 1 - share
    return np.asarray(chance[planted].cumsum().clip(np.finfo(np.float64).tiny, 1.0))
