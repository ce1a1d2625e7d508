"""Pixels to float32, by constants that depend on no client's data."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from unknot.core.errors import ConfigError


@dataclass(frozen=True)
class Scale:
    """The published mean and deviation of each channel, for pixels in 0..1."""

    mean: tuple[float, ...]
    std: tuple[float, ...]

    def apply(self, pixels: Tensor, normalize: str) -> Tensor:
        """``[n, channel, height, width]`` bytes (or floats in 0..1) as float32.

        "standard": less the mean, over the deviation; "unit": left in 0..1.
        """
        if normalize not in ("standard", "unit"):
            raise ConfigError(f"normalize is 'standard' or 'unit', not {normalize!r}")
        unit = pixels.to(torch.float32, copy=True)
        if not pixels.is_floating_point():
            unit.div_(255)
        if normalize == "unit":
            return unit
        mean = torch.tensor(self.mean).view(1, -1, 1, 1)
        std = torch.tensor(self.std).view(1, -1, 1, 1)
        return unit.sub_(mean).div_(std)


MNIST = Scale((0.1307,), (0.3081,))
FASHION_MNIST = Scale((0.2860,), (0.3530,))
FEMNIST = Scale((0.9637,), (0.1592,))  # LEAF draws black on white
CIFAR10 = Scale((0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616))
CIFAR100 = Scale((0.5071, 0.4865, 0.4409), (0.2673, 0.2564, 0.2762))
