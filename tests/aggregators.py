"""Aggregators with a state, as somebody outside would write them: plain attributes, nothing of ours."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch

from unknot.core.weights import Weights, weighted_sum


@dataclass
class FedAdam:
    """A server that keeps moments (Reddi et al. 2021), and returns a model without its lineage."""

    first: torch.Tensor | None = None
    second: torch.Tensor | None = None

    def __call__(self, current, updates, version, ledger):
        step = torch.stack([u.weights.vector - current.vector for u in updates]).mean(0)
        self.first = 0.1 * step + (0 if self.first is None else 0.9 * self.first)
        self.second = 0.1 * step**2 + (0 if self.second is None else 0.9 * self.second)
        return Weights(current.vector + 0.1 * self.first / (self.second.sqrt() + 1e-3), current.layout)


@dataclass
class Momentum:
    """With `fresh()`, as the protocol has it."""

    state: dict = field(default_factory=dict)

    def fresh(self):
        return Momentum()

    def __call__(self, current, updates, version, ledger):
        mean = weighted_sum([(1 / len(updates), u.step) for u in updates], ledger, "aggregate")
        self.state["m"] = mean + 0.5 * self.state["m"] if self.state else mean
        return current + self.state["m"]
