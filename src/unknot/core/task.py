"""What a model is for: what it is trained by, and what it is judged by."""

from __future__ import annotations

from dataclasses import dataclass

from unknot.core.loss import Loss, usual_loss
from unknot.core.metrics import USUAL, Metric


@dataclass(frozen=True)
class Task:
    """The loss and the metrics of a run, the main one first; what is not said is the usual for the data."""

    loss: Loss | None = None
    """What is trained by; left out: the usual loss for the data."""
    metrics: tuple[Metric, ...] = ()
    """What models are judged by, the main one first; left out: the usual one for the data."""

    def loss_for(self, kind: str, text: bool = False) -> Loss:
        return self.loss or usual_loss(kind, text)

    def metrics_for(self, kind: str) -> tuple[Metric, ...]:
        """Raises `ConfigError` for one that cannot be had of targets of this kind."""
        for metric in self.metrics:
            metric.check(kind)
        return self.metrics or (USUAL[kind],)
