"""What clients gain by helping to unlearn, and where that leads them: an evolutionary game, its baselines."""

from unknot.incentive.dynamics import flow, play, step
from unknot.incentive.equilibrium import Equilibrium, Survey, describe, settle, stable_corners, survey
from unknot.incentive.game import Game
from unknot.incentive.optimum import optimum
from unknot.incentive.policies import POLICIES, READINGS, Crowd, PolicyResult, compare, highest_offer
from unknot.incentive.setting import Setting
from unknot.incentive.sweeps import RANGES, at_rate, beside, by_clients, by_rate, drawn, settling

__all__ = [
    "POLICIES",
    "RANGES",
    "READINGS",
    "Crowd",
    "Equilibrium",
    "Game",
    "PolicyResult",
    "Setting",
    "Survey",
    "at_rate",
    "beside",
    "by_clients",
    "by_rate",
    "compare",
    "describe",
    "drawn",
    "flow",
    "highest_offer",
    "optimum",
    "play",
    "settle",
    "settling",
    "stable_corners",
    "step",
    "survey",
]
