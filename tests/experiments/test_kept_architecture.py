"""A model that is built otherwise, with parameters of the same shapes, is told from the one that was kept."""

import numpy as np
import pytest
from torch import nn

import unknot
from unknot.store.keeper import keeper_of

pytest.importorskip("cryptography")


class Scaled(nn.Module):
    """Says of itself where a function of it lies in memory."""

    def __init__(self):
        super().__init__()
        self.scale = lambda x: x

    def extra_repr(self):
        return f"scale={self.scale}"

    def forward(self, x):
        return self.scale(x)


def made(activation):
    return lambda: nn.Sequential(nn.Linear(3, 4), activation(), nn.Linear(4, 2))


def kept(folder, activation):
    """What is said where a run in a folder is begun, or gone on with, for a round."""
    draw = np.random.default_rng(0)
    held = {f"T{i}": (draw.normal(size=(6, 3)).astype("float32"), np.arange(6) % 2) for i in range(3)}
    data = unknot.clients(held, test=(draw.normal(size=(6, 3)).astype("float32"), np.arange(6) % 2))
    fed = unknot.simulate(made(activation), data, store=folder)
    fed.run(1)
    said = list(keeper_of(fed).said)
    fed.close()
    return said


def test_another_activation_is_said_once(tmp_path):
    assert kept(tmp_path / "run", nn.ReLU) == []
    assert kept(tmp_path / "run", nn.ReLU) == []
    [said] = kept(tmp_path / "run", nn.Tanh)
    assert "the model is built otherwise than it was" in said
    assert kept(tmp_path / "run", nn.Tanh) == []


def test_where_things_lie_in_memory_is_no_difference(tmp_path):
    assert kept(tmp_path / "run", Scaled) == []
    assert kept(tmp_path / "run", Scaled) == []
