"""Engines train jobs: `loop` each on its own, `stacked` all at once, `ray` on many machines.

Imports core only.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import nn

from unknot.core.errors import ConfigError
from unknot.core.jobs import Engine
from unknot.core.registry import engines, options_of
from unknot.engine.gpus import SeveralGpus, alike
from unknot.engine.loop import LoopEngine
from unknot.engine.stacked import StackedEngine

EVERY = ("device", "dtype", "threads", "task")
"""The options that every engine has."""


def _check(said: str, thing: Any) -> None:
    for name in EVERY:
        if name not in options_of(thing, given=1):
            raise ConfigError(f"{said} does not take {name!r}: every engine takes {', '.join(EVERY)}")


ENGINES: Mapping[str, Any] = engines.open(
    {
        LoopEngine.name: LoopEngine,
        StackedEngine.name: StackedEngine,
        "ray": "unknot.engine.ray.engine:RayEngine",
    },
    Engine,
    check=_check,
    given=1,
)


def make_engine(name: str, model: nn.Module, **options: Any) -> Engine:
    """``make_engine("stacked", model, threads=2)``; the options are those of the engine's class.

    On the device "cuda", without a number, the stacked engine takes all GPUs of the machine.
    """
    if name == StackedEngine.name and torch.device(options.get("device", "cpu")) == torch.device("cuda"):
        devices, left_out = alike()
        if len(devices) > 1:
            typed = {key: v for key, v in engines.typed(name, options).items() if key != "device"}
            return SeveralGpus(model, devices, left_out, **typed)
    made: Engine = engines.make(name, options, given=(model,))
    return made


__all__ = ["ENGINES", "LoopEngine", "StackedEngine", "make_engine"]
