"""The multilayer perceptron, and the fully connected head that other models end in."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

from torch import nn

from unknot.models.checks import ACTIVATIONS, wholes, word


def fully_connected(widths: Sequence[int], activation: str = "relu") -> list[nn.Module]:
    """Linear layers from ``widths[0]`` inputs to ``widths[-1]`` outputs, an activation between two."""
    layers: list[nn.Module] = []
    for before, after in pairwise(widths):
        layers += [nn.Linear(before, after), ACTIVATIONS[activation]()]
    return layers[:-1]


def mlp(
    shape: tuple[int, ...], classes: int, *, hidden: Sequence[int] = (80,), activation: str = "relu"
) -> nn.Module:
    """A multilayer perceptron on flattened samples.

    The default is the one for MNIST and Fashion-MNIST in the paper on exact federated unlearning
    (BMT and MMT): one layer of 80 hidden units, ReLU.

    The KNOT paper names no sizes for its Purchase-100 MLP. Its framework, Plato, has one MLP, after
    Nasr, Shokri and Houmansadr (2019): ``hidden=(1024, 512, 256, 128), activation="tanh"``. Use these
    for Purchase-100 and Location-30.

    `hidden`: widths of the hidden layers, first to last. `activation`: what stands between layers, "relu",
    "tanh"...
    """
    hidden = wholes("mlp", "hidden", hidden)
    activation = word("mlp", "activation", activation, tuple(ACTIVATIONS))
    return nn.Sequential(nn.Flatten(), *fully_connected([math.prod(shape), *hidden, classes], activation))
