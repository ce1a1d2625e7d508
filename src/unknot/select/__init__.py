"""Who takes part: drawn, in balance, one of each group that is alike, or as a network values them."""

from unknot.core.registry import selectors
from unknot.core.selection import AtRandom, Selector
from unknot.select.balanced import Balanced
from unknot.select.dqn import DQN, DQNSettings, Policy, dqn
from unknot.select.k_center import KCenter

SELECTORS = selectors.open(
    {"uniform": AtRandom, "balanced": Balanced, "k-center": KCenter, "dqn": dqn},
    Selector,
    reserved=("when",),
)

__all__ = [
    "DQN",
    "SELECTORS",
    "AtRandom",
    "Balanced",
    "DQNSettings",
    "KCenter",
    "Policy",
    "Selector",
]
