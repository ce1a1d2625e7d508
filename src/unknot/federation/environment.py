"""What a run ran on: bits depend on it, so it is recorded with every run."""

from __future__ import annotations

import os
import platform
from typing import Any

import numpy as np
import torch

import unknot
from unknot.core.jobs import Engine


def environment(engine: Engine) -> dict[str, Any]:
    return {
        "unknot": unknot.__version__,
        "python": platform.python_version(),
        "torch": str(torch.__version__),
        "numpy": np.__version__,
        "platform": platform.platform(),
        "cpu": torch.backends.cpu.get_cpu_capability(),
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "engine": engine.describe(),
    }
