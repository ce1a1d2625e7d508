"""Engines train jobs: `loop` each on its own, `stacked` all at once. Imports core only."""

from __future__ import annotations

import inspect
from typing import Any

from torch import nn

from unknot.core.errors import ConfigError, nearest
from unknot.core.jobs import Engine
from unknot.engine.loop import LoopEngine
from unknot.engine.stacked import StackedEngine

ENGINES: dict[str, type[LoopEngine] | type[StackedEngine]] = {
    LoopEngine.name: LoopEngine,
    StackedEngine.name: StackedEngine,
}


def make_engine(name: str, model: nn.Module, **options: Any) -> Engine:
    """``make_engine("stacked", model, threads=2)``; the options are those of the engine's class."""
    if name not in ENGINES:
        raise ConfigError(f"unknown engine {name!r}.{nearest(name, ENGINES)}")
    kind = ENGINES[name]
    known = [p.name for p in inspect.signature(kind).parameters.values() if p.kind is p.KEYWORD_ONLY]
    for option in options:
        if option not in known:
            raise ConfigError(f"engine {name!r} has no option {option!r}.{nearest(option, known)}")
    return kind(model, **options)


__all__ = ["ENGINES", "LoopEngine", "StackedEngine", "make_engine"]
