"""Asking more than once: the same images, moved by a pixel, as LiRA's augmented queries do."""

from __future__ import annotations

from dataclasses import replace

import torch

from unknot.core.data import Samples
from unknot.core.errors import ConfigError

MOVES = ((0, 0), (0, 1), (0, -1), (1, 0), (-1, 0), (1, 1), (1, -1), (-1, 1), (-1, -1))


def asked(samples: Samples, queries: int = 1) -> list[Samples]:
    """The samples as they are, then moved by a pixel this way and that; the edge is filled with itself."""
    if not 1 <= queries <= len(MOVES):
        raise ConfigError(f"there are 1 to {len(MOVES)} queries for each sample, not {queries}")
    if queries > 1 and (samples.x.dim() < 3 or not samples.x.is_floating_point()):
        raise ConfigError("several queries for each sample move its pixels: that is for images")
    return [samples, *(replace(samples, x=_moved(samples.x, *move)) for move in MOVES[1:queries])]


def _moved(x: torch.Tensor, down: int, right: int) -> torch.Tensor:
    rows = (torch.arange(x.shape[-2]) - down).clamp(0, x.shape[-2] - 1)
    columns = (torch.arange(x.shape[-1]) - right).clamp(0, x.shape[-1] - 1)
    return x.index_select(-2, rows.to(x.device)).index_select(-1, columns.to(x.device))
