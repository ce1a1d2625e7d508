"""Several models that answer together: what is served where models are never averaged."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, replace

from unknot.core.errors import ConfigError
from unknot.core.lineage import NOBODY, Lineage
from unknot.core.weights import Weights

VOTES = ("mean", "majority")


@dataclass(frozen=True, eq=False)
class Ensemble:
    """Models and how much each counts.

    ``vote = "mean"``: the class with the highest weighted mean of the models' probabilities.
    ``"majority"``: each model names its class, and the class with the most weight behind it wins
    (the lowest one, where two have as much).
    """

    parts: tuple[tuple[float, Weights], ...]
    """Models, each with how much it counts."""
    vote: str = "mean"
    """How they answer: "mean" or "majority"."""
    also: Lineage = NOBODY
    """What shaped the choice of them, beside themselves."""

    def __post_init__(self) -> None:
        if not self.parts:
            raise ConfigError("an ensemble has at least one model")
        if self.vote not in VOTES:
            raise ConfigError(f"an ensemble votes by {' or '.join(map(repr, VOTES))}, not {self.vote!r}")

    def __repr__(self) -> str:
        many = len(self.parts)
        return f"Ensemble({many} model{'' if many == 1 else 's'} by {self.vote} vote, {self.digest()})"

    @property
    def lineage(self) -> Lineage:
        lineage = self.also
        for _, weights in self.parts:
            lineage |= weights.lineage
        return lineage

    def carrying(self, lineage: Lineage) -> Ensemble:
        """The same models, with `lineage` as well."""
        mine = self.lineage
        return self if mine | lineage == mine else replace(self, also=self.also | lineage)

    def named(self, names: Mapping[int, str]) -> Ensemble:
        """The same models, with what the clients of their lineages are called."""
        parts = tuple((factor, weights.named(names)) for factor, weights in self.parts)
        return replace(self, parts=parts, also=self.also.named(names))

    @property
    def nbytes(self) -> int:
        return sum(weights.nbytes for _, weights in self.parts)

    def equal(self, other: object) -> bool:
        """Bit for bit the same models, in the same order, counting as much."""
        return (
            isinstance(other, Ensemble)
            and self.vote == other.vote
            and len(self.parts) == len(other.parts)
            and all(a == b and v.equal(w) for (a, v), (b, w) in zip(self.parts, other.parts, strict=True))
        )

    def digest(self) -> str:
        """A short fingerprint of the numbers, for people."""
        text = self.vote + "".join(f"|{factor!r} {weights.fingerprint}" for factor, weights in self.parts)
        return hashlib.sha256(text.encode()).hexdigest()[:16]


Model = Weights | Ensemble
"""What can be served: one set of weights, or several that answer together."""
