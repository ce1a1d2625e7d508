"""Made images of stripes."""

import numpy as np
import torch

from unknot import Samples
from unknot.data import Dataset


def stripes(*, samples: int = 240, side: int = 6, seed: int = 0):
    """Stripes across, down or aslant, in noise: three classes."""
    rng = np.random.default_rng(seed)
    rows, columns = np.indices((side, side))
    patterns = np.stack([rows % 2, columns % 2, (rows + columns) % 2]).astype(np.float32)

    def drawn(count):
        y = np.arange(count) % 3
        x = patterns[y] + 0.5 * rng.standard_normal((count, side, side), dtype=np.float32)
        return Samples(torch.from_numpy(x[:, None]), torch.from_numpy(y), classes=3)

    return Dataset("stripes", drawn(samples), drawn(samples // 4))
