"""Retraining from scratch (RFS): the exact baseline of every unlearning paper.

A request drops the model and trains a new one, from the same initial weights, on what remains.
With `FedAvg` at a synchronous pace or `FedBuff` at a buffered one, this is what KNOT (Su & Li 2023)
and BMT/MMT (2025) compare themselves with.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from unknot.core.requests import Erase
from unknot.federation import Desk, Guarantee, Lane, Method


@dataclass(frozen=True)
class RFS(Method):
    """Retraining from scratch without the erased data; do nothing where it never had a part."""

    name = "rfs"
    guarantee = Guarantee.EXACT

    def forget(self, desk: Desk, request: Erase, touched: Sequence[Lane]) -> None:
        for lane in touched:
            desk.restart(lane)
