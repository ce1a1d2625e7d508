"""Networks by name: ``build("lenet5", shape=(1, 28, 28), classes=10)``.

None of them has batch statistics or any other state beside its parameters, so that what one client's
sample gives depends on the weights and that sample alone. All can be traced by `torch.fx`: their
forward is a straight line of layers, which an engine can batch across clients.
"""

from __future__ import annotations

from unknot.models.registry import build, names

__all__ = ["build", "names"]
