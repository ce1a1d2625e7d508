"""A small network."""

import math

from torch import nn


def two_layers(shape, classes, *, width: int = 16):
    """Two linear layers with a tanh between, for samples of any shape."""
    inputs = math.prod(shape)
    return nn.Sequential(nn.Flatten(), nn.Linear(inputs, width), nn.Tanh(), nn.Linear(width, classes))
