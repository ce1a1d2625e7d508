"""Who takes part: drawn, in balance, one of each group that is alike, or as a network has learned."""

from unknot.core.selection import AtRandom, Selector
from unknot.select.balanced import Balanced
from unknot.select.dqn import DQN, DQNSettings, Policy
from unknot.select.k_center import KCenter

__all__ = ["DQN", "AtRandom", "Balanced", "DQNSettings", "KCenter", "Policy", "Selector"]
