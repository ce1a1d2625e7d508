"""Does it really forget? Checks that can fail."""

from unknot.audit.backdoor import Trigger, answers_to, marked
from unknot.audit.canaries import Canaries, Guesses, guessed, planted
from unknot.audit.divergence import Divergence, divergence
from unknot.audit.epsilon import Bound, Counts, lower_bound
from unknot.audit.interference import Interference, gap, interference, variants
from unknot.audit.lira import LiRA
from unknot.audit.membership import ATTACKS, Attack, Figures
from unknot.audit.perplexity import Perplexity, perplexity
from unknot.audit.ranks import RankTest, rank_test
from unknot.audit.rmia import RMIA
from unknot.audit.roc import Curve, Estimate, proportion
from unknot.audit.secrets import Drawn, Exposures, Secrets, hidden
from unknot.audit.sensitivity import Sensitivity, Trial, sensitivity
from unknot.audit.shadows import Shadows, matched, train_shadows
from unknot.audit.shokri import Shokri
from unknot.audit.verdict import Finding, Verdict, Views, judged

__all__ = [
    "ATTACKS",
    "RMIA",
    "Attack",
    "Bound",
    "Canaries",
    "Counts",
    "Curve",
    "Divergence",
    "Drawn",
    "Estimate",
    "Exposures",
    "Figures",
    "Finding",
    "Guesses",
    "Interference",
    "LiRA",
    "Perplexity",
    "RankTest",
    "Secrets",
    "Sensitivity",
    "Shadows",
    "Shokri",
    "Trial",
    "Trigger",
    "Verdict",
    "Views",
    "answers_to",
    "divergence",
    "gap",
    "guessed",
    "hidden",
    "interference",
    "judged",
    "lower_bound",
    "marked",
    "matched",
    "perplexity",
    "planted",
    "proportion",
    "rank_test",
    "sensitivity",
    "train_shadows",
    "variants",
]
