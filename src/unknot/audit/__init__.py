"""Does it really forget? Checks that can fail."""

from unknot.audit.backdoor import Trigger, answers_to, marked
from unknot.audit.divergence import Divergence, divergence
from unknot.audit.interference import Interference, gap, interference, variants
from unknot.audit.lira import LiRA
from unknot.audit.membership import Attack, Figures, Finding, attacked, membership
from unknot.audit.rmia import RMIA
from unknot.audit.roc import Curve, Estimate, proportion
from unknot.audit.shadows import Shadows, matched, train_shadows
from unknot.audit.shokri import Shokri

__all__ = [
    "RMIA",
    "Attack",
    "Curve",
    "Divergence",
    "Estimate",
    "Figures",
    "Finding",
    "Interference",
    "LiRA",
    "Shadows",
    "Shokri",
    "Trigger",
    "answers_to",
    "attacked",
    "divergence",
    "gap",
    "interference",
    "marked",
    "matched",
    "membership",
    "proportion",
    "train_shadows",
    "variants",
]
