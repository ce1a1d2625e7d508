"""How well models predict the erased texts: the perplexity of what is served, among that of its controls.

Perplexity is the exponential of the mean loss a token: so many tokens seem equally likely to a model. The
served model's, on all of the erased texts, is ranked among that of controls, which never had them. It is
one figure of all texts together, and so a blunt one: what shows in some of them alone is for the trace.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from unknot.audit.ranks import LEVEL, rank_test
from unknot.audit.roc import Scores


@dataclass(frozen=True)
class Both:
    """A model's perplexity on the erased texts, and on others."""

    erased: float
    others: float

    def to_dict(self) -> dict[str, float]:
        return {"erased": self.erased, "others": self.others}


@dataclass(frozen=True, eq=False)
class Perplexity:
    """The served model's perplexity beside those of its controls and of models that kept the texts."""

    served: Both
    controls: tuple[Both, ...]
    kept: tuple[Both, ...]
    p: float
    """How often chance alone leads to a perplexity on the erased texts that is so odd, low or high."""
    seen: tuple[int, int]
    """How many of the models that kept the texts stand out by a low one, of how many."""
    outcome: str

    def to_dict(self) -> dict[str, object]:
        return {
            "served": self.served.to_dict(),
            "controls": [both.to_dict() for both in self.controls],
            "kept": [both.to_dict() for both in self.kept],
            "p": None if self.outcome == "no power" else self.p,
            "seen": list(self.seen),
            "outcome": self.outcome,
        }


def perplexity(
    served: Scores,
    controls: Scores,
    kept: Scores,
    tokens: NDArray[np.int64],
    members: int,
    level: float = LEVEL,
) -> Perplexity:
    """From each text's mean log-probability a token, ``[models, texts]``, of so many `tokens` each.

    The first texts, `members` of them, are the erased ones.
    """
    every = {"served": served.reshape(1, -1), "controls": controls, "kept": kept}
    likely = {name: _means(logs, tokens, members) for name, logs in every.items()}
    usual = likely["controls"][:, 0]
    test = rank_test(likely["served"][0, 0], usual, level)
    seen = sum(rank_test(one, usual, level).found(0, level) == "still shows" for one in likely["kept"][:, 0])
    found = test.found(0, level) or "no trace found"
    both = {name: tuple(Both(*row) for row in np.exp(-means).tolist()) for name, means in likely.items()}
    return Perplexity(
        served=both["served"][0],
        controls=both["controls"],
        kept=both["kept"],
        p=test.p[0],
        seen=(seen, len(kept)),
        outcome=found if 2 * seen > len(kept) else "no power",
    )


def _means(logs: Scores, tokens: NDArray[np.int64], members: int) -> Scores:
    """The mean log-probability of a token, of the erased texts and of the others, ``[models, 2]``."""
    parts = slice(None, members), slice(members, None)
    return np.stack([(logs[:, part] * tokens[part]).sum(1) / tokens[part].sum() for part in parts], axis=1)
