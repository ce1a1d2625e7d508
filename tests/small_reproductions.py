"""A reproduction of federated runs and one of games, each done in a moment."""

import tomllib

from unknot.reproduce.reproduction import Reproduction

RUNS = """
title = "Tiny"
figure = "Figure 0"
claim = "It is tiny."
seeds = [0, 1]
base.data = { partition = "iid", clients = 3, samples = 10, validation = 0, test_samples = 5 }
base.train = { lr = 0.1 }
base.federation = { evaluate_on = ["test"] }
base.engine = { threads = 1 }
base.phases = 2
base.request = [{ erase = 1, phase = 1 }]
scale.small.phase = 1
panel = [
  { name = "p", title = "a panel", thresholds = [0.01] },
  { name = "letters", title = "letters", data = { name = "femnist", root = "/nowhere" } },
]
line = [
  { name = "rfs", label = "RFS", method = { name = "rfs" } },
  { name = "slow", label = "slow", method = { name = "rfs" }, train = { lr = 0.001 } },
]
"""
GAMES = """
kind = "game"
title = "A game"
figure = "Figure 0"
claim = "It is a game."
game = { periods = 6, clients = 4 }
draw = { psi = [100, 300], zeta = [10, 20], f_u = [80, 120], f_c = [30, 40], data = [80, 120] }
scale = { small = { draws = 3 } }
panel = [{ name = "p", title = "total", over = "periods" }]
line = [{ name = "evolutionary", label = "the game" }, { name = "greedy", label = "greedy" }]
"""


def runs() -> Reproduction:
    return Reproduction.of(tomllib.loads(RUNS), "tiny")
