"""Rapid retraining: retraining from scratch with a second-order optimiser.

Y. Liu, L. Xu, X. Yuan, C. Wang, B. Li: The Right to be Forgotten in Federated Learning: An
Efficient Realization with Rapid Retraining. INFOCOM 2022. The clients that retrain use AdaHessian,
whose diagonal estimate of the Hessian lets them take larger steps.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from unknot.core.requests import Erase
from unknot.core.training import AdaHessian, Optimizer
from unknot.federation import Desk, Guarantee, Lane, Method


@dataclass(frozen=True)
class Rapid(Method):
    """Retraining without the erased data, with another optimiser from then on."""

    optimizer: Optimizer = field(default_factory=AdaHessian)
    """The optimiser that clients use from a request on."""

    name = "rapid"
    guarantee = Guarantee.EXACT

    def forget(self, desk: Desk, request: Erase, touched: Sequence[Lane]) -> None:
        for lane in touched:
            desk.restart(lane, recipe=replace(lane.recipe, optimizer=self.optimizer))
