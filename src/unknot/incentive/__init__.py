"""What clients gain by helping to unlearn, and where that leads them: an evolutionary game, its baselines."""

from unknot.incentive.dynamics import flow, play, step
from unknot.incentive.equilibrium import Equilibrium, Survey, describe, settle, survey
from unknot.incentive.game import Game
from unknot.incentive.optimum import optimum
from unknot.incentive.policies import POLICIES, Crowd, Outcome, compare
from unknot.incentive.setting import Setting

__all__ = [
    "POLICIES",
    "Crowd",
    "Equilibrium",
    "Game",
    "Outcome",
    "Setting",
    "Survey",
    "compare",
    "describe",
    "flow",
    "optimum",
    "play",
    "settle",
    "step",
    "survey",
]
