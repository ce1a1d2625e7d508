"""Whom to ask, as a small network has learned on other clients.

Of our own making, after the pointer networks and deep sets: seats are filled one after the other. Each time
one network looks at every candidate: at what its updates look like, at how long it takes, and at those who
are in already; and the next is drawn by what it says. It knows nobody by number, so what it has learned on
some clients serves others. How ours was trained (by `benchmarks/selection_training.py`) is on record in its
file.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unknot.core.errors import ConfigError
from unknot.core.fields import convert
from unknot.core.form import plain_data
from unknot.core.jobs import Update
from unknot.core.keys import Key
from unknot.core.lineage import NOBODY, Lineage
from unknot.core.saved import clients_of
from unknot.core.selection import Ids
from unknot.core.weights import Weights
from unknot.select.products import products

Floats = NDArray[np.float64]

FACTS = ("seconds", "samples", "loss", "length", "accord", "loss now", "length now", "accord now")
"""What updates tell of a client: those of the meeting, in deviations from the median client; then the latest
of a round, beside the round's median."""
COURSE = ("seen", "asked", "waited")
"""Whether it has been in a round, how often (the logarithm), how many rounds ago."""
COMPANY = ("filled", "round", "slowest", "longer", "alike")
"""The share of seats that are filled, the logarithm of the round; how slow those in are; by how much the
round would be longer; how far the first update points where theirs do."""
INPUTS = 2 * (len(FACTS) + len(COURSE)) + len(COMPANY)
"""Of a candidate its own, the mean of those who are in, and its company."""

SUREST = 1e12
"""So sharp at most: ratings times more may be no numbers."""
_KIND = "whom to ask"
_FARTHEST = 4.0
"""No fact counts for more deviations than this."""


@plain_data
@dataclass(frozen=True, eq=False)
class Scorer:
    """The network: linear layers with tanh between, one for all candidates; and whose data shaped it."""

    layers: tuple[tuple[Floats, Floats], ...]
    """The matrix ``[inputs, outputs]`` and the offsets of each layer."""
    lineage: Lineage = NOBODY
    trained: Mapping[str, Any] = field(default_factory=dict)
    """How: for people to read."""

    def __post_init__(self) -> None:
        widths = [matrix.shape[0] for matrix, _ in self.layers] + [1]
        shapes = [(*matrix.shape, *offset.shape) for matrix, offset in self.layers]
        wanted = [(a, b, b) for a, b in itertools.pairwise(widths)]
        if not all(np.isfinite(part).all() for layer in self.layers for part in layer):
            raise ConfigError("a scorer's numbers are finite")
        if not self.layers or widths[0] != INPUTS or shapes != wanted:
            raise ConfigError(f"a scorer goes from {INPUTS} numbers to one, layer by layer; found {shapes}")

    def rate(self, inputs: Floats) -> Floats:
        """How much each candidate is wanted; a difference of 1 is a factor of e in how likely it is asked."""
        found = inputs
        for matrix, offset in self.layers[:-1]:
            found = np.tanh(found @ matrix + offset)
        matrix, offset = self.layers[-1]
        rated: Floats = (found @ matrix + offset)[..., 0]
        return rated

    def save(self, file: str | Path) -> None:
        """As JSON, for people to read: numbers, how they were learned, and from whose data."""
        layers = [[_written(matrix), _written(offset)] for matrix, offset in self.layers]
        clients = sorted(self.lineage.inherited().clients)
        told = {"kind": _KIND, "trained": dict(self.trained), "lineage": clients, "layers": layers}
        try:
            Path(file).write_text(json.dumps(told) + "\n", encoding="utf-8")
        except OSError as error:
            raise ConfigError(f"cannot write {file}: {error.strerror or error}") from None

    @staticmethod
    def load(file: str | Path) -> Scorer:
        try:
            told = json.loads(Path(file).read_text(encoding="utf-8"))
        except OSError as error:
            raise ConfigError(f"cannot read {file}: {error.strerror or error}") from None
        except ValueError:
            raise ConfigError(f"{file} is not a saved scorer: it is no JSON") from None
        try:
            if told["kind"] != _KIND:
                raise ValueError(f"it is of the kind {told['kind']!r}")
            layers = tuple(
                (np.asarray(m, dtype=float), np.asarray(o, dtype=float)) for m, o in told["layers"]
            )
            return Scorer(layers, clients_of(told["lineage"]), dict(told["trained"]))
        except KeyError as error:
            raise ConfigError(f"{file} is not a saved scorer: it lacks {error}") from None
        except (ConfigError, TypeError, ValueError) as error:
            raise ConfigError(f"{file} is not a saved scorer: {error}") from None


def _written(numbers: Floats) -> Any:
    """To six digits: what is read again is what was written."""
    return np.vectorize(lambda number: float(f"{number:.6g}"))(numbers).tolist()


@cache
def shipped() -> Scorer:
    """The one that comes with the package: none of its clients is anybody's here."""
    return Scorer.load(Path(__file__).parent / "learned.json")


@dataclass
class Learned:
    """Fills seats one after the other, each drawn by what a network says of the candidates.

    Everybody is met first. A newcomer is asked as soon as it can be.
    """

    scorer: Scorer = field(default_factory=shipped)
    """What was learned; ours, where none is given."""
    sharpness: float = 1.0
    """What ratings are multiplied by before a seat is drawn: the higher, the surer the first is asked."""
    curious: bool = field(default=True, init=False)
    _seen: Lineage = field(default=NOBODY, init=False)
    _took: dict[int, float] = field(default_factory=dict, init=False)
    """How many seconds the meeting took each."""
    _row: dict[int, int] = field(default_factory=dict, init=False)
    _facts: Floats = field(default_factory=lambda: np.zeros((0, len(FACTS))), init=False)
    _seconds: Floats = field(default_factory=lambda: np.zeros(0), init=False)
    _asked: Floats = field(default_factory=lambda: np.zeros(0), init=False)
    _last: Floats = field(default_factory=lambda: np.zeros(0), init=False)
    _pairs: Floats = field(default_factory=lambda: np.zeros((0, 0)), init=False)
    """The cosine of how each two clients' first updates differ from the mean."""
    _rounds: int = field(default=0, init=False)

    learns = False

    def __post_init__(self) -> None:
        if not isinstance(self.scorer, Scorer):
            raise ConfigError(
                f"Learned: scorer is a Scorer, not {self.scorer!r}: Scorer.load(file) reads one"
            )
        self.sharpness = convert(self.sharpness, float, "Learned: sharpness")
        if not 0 < self.sharpness <= SUREST:
            raise ConfigError(
                f"Learned: sharpness must be above 0 and at most {SUREST:g}, not {self.sharpness}"
            )

    @property
    def lineage(self) -> Lineage:
        return self.scorer.lineage | self._seen

    def fresh(self) -> Learned:
        """With the same network, unless that has learned from clients who may be the ones to forget."""
        return Learned(shipped() if self.scorer.lineage else self.scorer, self.sharpness)

    def meet(self, model: Weights, updates: Sequence[Update], key: Key) -> None:
        self.curious = False
        if not updates:
            return
        ordered = self._noted(updates)
        looks, self._pairs = _looks(ordered)
        self._row = {update.client: row for row, update in enumerate(ordered)}
        self._seconds = np.asarray([self._took.get(update.client, 1.0) for update in ordered])
        samples = np.log([update.samples for update in ordered])
        told = np.column_stack([np.log(self._seconds), samples, looks])
        self._facts = np.concatenate([_deviations(told), np.zeros((len(ordered), 3))], axis=1)
        self._asked, self._last = np.zeros(len(ordered)), np.zeros(len(ordered))

    def watch(self, updates: Sequence[Update], seconds: Mapping[int, float]) -> None:
        if self.curious:
            self._took = dict(seconds)
            return
        if not updates:
            return
        ordered = self._noted(updates)
        self._rounds += 1
        looks, _ = _looks(ordered)
        rows = self._rows(update.client for update in ordered)
        self._facts[rows, 5:] = np.clip(looks - np.median(looks, axis=0), -_FARTHEST, _FARTHEST)

    def choose(self, idle: Ids, k: int, key: Key) -> Ids:
        chosen = np.sort(idle) if k >= len(idle) else self._choose(idle, k, key)
        rows = self._rows(chosen.tolist())
        self._asked[rows] += 1
        self._last[rows] = self._rounds
        return chosen

    def _choose(self, idle: Ids, k: int, key: Key) -> Ids:
        strange = np.asarray([client for client in idle.tolist() if client not in self._row], dtype=np.int64)
        first = key.smallest(strange, k)
        known = np.setdiff1d(idle, strange)
        places = self._fill(known, k - len(first), key)
        return np.sort(np.concatenate([first, known[places]]))

    def observe(self, model: Weights, updates: Sequence[Update], merit: float, key: Key) -> None:
        """It has learned before."""

    def _fill(self, known: Ids, seats: int, key: Key) -> list[int]:
        """The places of those who are asked, one after the other, each drawn by the softmax of the ratings.

        That is the greatest sum of rating and luck, where luck are Gumbel draws.
        """
        rows = self._rows(known.tolist())
        own = self._own(rows)
        taken: list[int] = []
        for seat in range(seats):
            rated = self.sharpness * self.scorer.rate(self._inputs(own, rows, taken, seats))
            luck = -np.log(-np.log(np.maximum(key.child("seat", seat).uniform(known), 1e-300)))
            rated = rated + luck
            rated[taken] = -np.inf
            taken.append(int(np.argmax(rated)))
        return taken

    def _own(self, rows: Ids) -> Floats:
        """What is known of each candidate by itself."""
        seen = self._asked[rows] > 0
        waited = np.where(seen, np.minimum(self._rounds - self._last[rows], 20) / 10, 2.0)
        course = np.stack([seen, np.log1p(self._asked[rows]), waited], axis=1)
        return np.concatenate([self._facts[rows], course], axis=1)

    def _inputs(self, own: Floats, rows: Ids, taken: list[int], seats: int) -> Floats:
        """What the network looks at: a row for each candidate."""
        inputs = np.zeros((len(rows), INPUTS))
        width = own.shape[1]
        inputs[:, :width] = own
        inputs[:, 2 * width] = len(taken) / seats
        inputs[:, 2 * width + 1] = np.log1p(self._rounds) / 4
        if taken:
            slowest = self._seconds[rows[taken]].max()
            inputs[:, width : 2 * width] = own[taken].mean(0)
            inputs[:, 2 * width + 2] = own[taken, 0].max()
            inputs[:, 2 * width + 3] = np.log(np.maximum(self._seconds[rows] / slowest, 1.0))
            inputs[:, 2 * width + 4] = self._pairs[np.ix_(rows, rows[taken])].mean(1)
        return inputs

    def _noted(self, updates: Sequence[Update]) -> list[Update]:
        """One update a client, in the order of clients: of one that trains several models, the first."""
        for update in updates:
            self._seen |= update.lineage
        one = {update.client: update for update in reversed(updates)}
        return [one[client] for client in sorted(one)]

    def _rows(self, clients: Iterable[int]) -> Ids:
        """Their rows; one who was not met gets one, and is taken for the median client."""
        found = []
        for client in clients:
            if client not in self._row:
                self._row[client] = len(self._row)
                self._facts = np.pad(self._facts, ((0, 1), (0, 0)))
                self._pairs = np.pad(self._pairs, (0, 1))
                self._asked, self._last = np.append(self._asked, 0.0), np.append(self._last, 0.0)
                usual = float(np.median(self._seconds)) if len(self._seconds) else 1.0
                self._seconds = np.append(self._seconds, usual)
            found.append(self._row[client])
        return np.asarray(found, dtype=np.int64)


def _looks(updates: Sequence[Update]) -> tuple[Floats, Floats]:
    """Loss, length (its logarithm), accord with the others; and how alike each two are beside the mean.

    The accord is the cosine of a step with the sum of the others', each by its samples.
    """
    samples = np.asarray([update.samples for update in updates], dtype=np.float64)
    share, found = samples / samples.sum(), products(updates)
    lengths = np.sqrt(np.maximum(np.diag(found), 1e-300))
    mean = found @ share
    mine, others = np.diag(found) * share, share @ mean
    apart = np.sqrt(np.maximum(others - 2 * share * mean + share * mine, 1e-300))
    accord = (mean - mine) / (lengths * apart)
    between = found - mean[:, None] - mean + others
    width = np.sqrt(np.maximum(np.diag(between), 1e-300))
    looks = np.stack([np.asarray([update.loss for update in updates]), np.log(lengths), accord], axis=1)
    return looks, np.clip(between / np.outer(width, width), -1.0, 1.0)


def _deviations(told: Floats) -> Floats:
    """How far each is from the median, in robust standard deviations (1.48 times the median distance)."""
    apart = told - np.median(told, axis=0)
    usual = 1.4826 * np.median(np.abs(apart), axis=0)
    found: Floats = np.clip(apart / np.where(usual > 1e-12, usual, 1.0), -_FARTHEST, _FARTHEST)
    return found


def learned(*, scorer: Path | None = None, sharpness: float = 1.0) -> Learned:
    """Fills seats one after the other, by what a network has learned on other clients.

    `scorer`: the file of another one than ours. `sharpness`: the higher, the surer those rated highest are
    asked.
    """
    if scorer is None:
        return Learned(sharpness=sharpness)
    try:
        return Learned(Scorer.load(scorer), sharpness)
    except ConfigError as error:
        raise ConfigError(f"scorer: {error}; name a file that Scorer.save wrote, or leave it out") from None
