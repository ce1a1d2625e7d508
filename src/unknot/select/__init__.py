"""Who takes part: uniformly, from groups of clients that are alike, or as a network has learned."""

from unknot.core.selection import AtRandom, Selector
from unknot.select.dqn import DQN, Policy, Settings
from unknot.select.k_center import KCenter

__all__ = ["DQN", "AtRandom", "KCenter", "Policy", "Selector", "Settings"]
