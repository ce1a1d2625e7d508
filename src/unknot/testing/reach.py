"""What can still be reached from a thing: to see that erased numbers are gone from all of it."""

from __future__ import annotations

import gc
import types
from typing import Any

import numpy as np
import torch

_NOT_HELD = (type, types.ModuleType, types.FrameType, types.CodeType, types.BuiltinFunctionType)


def reached(root: object, number: float) -> list[str]:
    """The tensors and arrays that hold this number and can be reached from `root`, in words."""
    wanted = np.float32(number)
    seen: set[int] = set()
    waiting: list[Any] = [root]
    found: dict[str, None] = {}
    while waiting:
        thing = waiting.pop()
        if id(thing) in seen or isinstance(thing, _NOT_HELD):
            continue
        seen.add(id(thing))
        if isinstance(thing, torch.Tensor):
            if thing.is_floating_point() and bool((thing.detach() == float(wanted)).any()):
                found[f"a tensor of shape {tuple(thing.shape)}"] = None
        elif isinstance(thing, np.ndarray):
            if thing.dtype.kind == "f" and bool((thing.astype(np.float32) == wanted).any()):
                found[f"an array of shape {thing.shape}"] = None
        elif isinstance(thing, types.FunctionType):  # what it has taken along, not the module around it
            waiting += [thing.__closure__, thing.__defaults__, thing.__kwdefaults__, thing.__dict__]
        elif isinstance(thing, float):
            if np.float32(thing) == wanted:
                found["a number"] = None
        else:
            waiting += gc.get_referents(thing)
    return list(found)
