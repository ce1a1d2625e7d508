"""How clients' steps lie to one another."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray

from unknot.core.jobs import Update

_BLOCK = 1 << 24  # numbers at a time, of all clients together


def products(updates: Sequence[Update]) -> NDArray[np.float64]:
    """The scalar product of each two clients' steps, over a block of coordinates at a time."""
    steps = [update.step.vector.cpu() for update in updates]
    total = torch.zeros(len(steps), len(steps), dtype=torch.float64)
    width = max(1, _BLOCK // len(steps))
    for start in range(0, len(steps[0]), width):
        part = torch.stack([step[start : start + width] for step in steps]).double()
        total += part @ part.T
    return total.numpy()
