"""What a model holds beside its parameters: buffers, attributes, generators; read without touching it."""

from __future__ import annotations

import functools
import hashlib
import itertools
import random
import sys
import types
import weakref
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from unknot.core.base import BASE, STAMP

Generator = torch.Generator | np.random.Generator | np.random.RandomState | random.Random
GENERATORS = (torch.Generator, np.random.Generator, np.random.RandomState, random.Random)
_OWN = ("_parameters", "_buffers", "_modules", STAMP, BASE)  # ours to put there, or looked at elsewhere
_PLAIN = (type(None), bool, int, float, complex, str, bytes, np.generic, itertools.count)
_OPEN = ("collections", "types", "functools")  # of the standard library, what may hold a model's state
_DEPTH = 12  # of attributes of attributes


class Place(NamedTuple):
    """Where some state lies: in which module, what it is, and its name."""

    module: str
    kind: str
    name: str


def state_of(model: nn.Module) -> dict[Place, str]:
    """A digest of everything that a model holds, and that its modules' code reaches, but parameters."""
    found: dict[Place, str] = {}
    for module, name, value in _values(model):
        kind = "generator" if isinstance(value, GENERATORS) else module[1]
        found[Place(module[0], kind, name)] = digest(value)
    return found


def _values(model: nn.Module) -> Iterator[tuple[tuple[str, str], str, Any]]:
    for where, module in model.named_modules():
        for name, buffer in module._buffers.items():
            yield (where, "buffer"), name, buffer
        for name, value in vars(module).items():
            if name not in _OWN:
                yield (where, "attribute"), name, value
        for name, value in _around(type(module)).items():
            yield (where, "outside"), name, value


def _around(kind: type[nn.Module]) -> dict[str, Any]:
    """What lies around a module: attributes of its class, and globals and closures of its forward."""
    found: dict[str, Any] = {}
    for owner in kind.__mro__:
        if owner is object or owner.__module__.split(".")[0] == "torch":
            continue
        held = {k: v for k, v in vars(owner).items() if not k.startswith("__")}
        for function in [v for v in held.values() if isinstance(v, types.FunctionType)]:
            held |= _reached(function)
        found |= {k: v for k, v in held.items() if isinstance(v, (*GENERATORS, *_HOLDS))}
    return found


def held_by(function: Any) -> dict[str, Any]:
    """What a function can carry from one call to the next: closure, globals, defaults, its own attributes."""
    if not isinstance(function, types.FunctionType):
        return {"itself": function}
    reached = {k: v for k, v in _reached(function).items() if isinstance(v, (*GENERATORS, *_HOLDS))}
    return reached | {"defaults": (function.__defaults__, function.__kwdefaults__), "own": function.__dict__}


def _reached(function: types.FunctionType) -> dict[str, Any]:
    """The globals that a function names, and its closure."""
    names = {*function.__code__.co_names}
    return {k: v for k, v in function.__globals__.items() if k in names} | _closure(function)


_HOLDS = (int, float, list, dict, set, deque, np.ndarray, Tensor)


def _closure(function: types.FunctionType) -> dict[str, Any]:
    cells = function.__closure__ or ()
    names = function.__code__.co_freevars
    return {name: cell.cell_contents for name, cell in zip(names, cells, strict=True) if _filled(cell)}


def _filled(cell: types.CellType) -> bool:
    try:
        return cell.cell_contents is not cell
    except ValueError:
        return False


def digest(value: Any) -> str:
    """A fingerprint of a value and of all that it holds."""
    hasher = hashlib.blake2b(digest_size=16)
    _feed(hasher.update, value, {}, _DEPTH)
    return hasher.hexdigest()


def _feed(write: Any, value: Any, seen: dict[int, tuple[int, Any]], depth: int) -> None:
    write(f"<{type(value).__qualname__}>".encode())
    if isinstance(value, _PLAIN):
        write(repr(value).encode())
        return
    if id(value) in seen or depth == 0:
        write(str(seen[id(value)][0] if id(value) in seen else "deep").encode())
        return
    seen[id(value)] = len(seen), value  # kept, since an id is given again
    for part in _parts(value):
        _feed(write, part, seen, depth - 1)


def _parts(value: Any) -> list[Any]:
    """What a value is made of, down to plain values."""
    if isinstance(value, Tensor):
        numbers = value.detach().cpu().contiguous()
        return [str(value.dtype), tuple(value.shape), numbers.view(-1).view(torch.uint8).numpy().tobytes()]
    if isinstance(value, np.ndarray):
        return [str(value.dtype), value.shape, repr(value) if value.dtype.hasobject else value.tobytes()]
    if isinstance(value, random.Random):
        return [repr(value.getstate())]  # hundreds of numbers: as one text, and not each by itself
    if isinstance(value, GENERATORS):
        return [generator_state(value)]
    if isinstance(value, dict):
        return [part for pair in value.items() for part in pair]
    if isinstance(value, set | frozenset):
        return sorted(digest(part) for part in value)
    if isinstance(value, list | tuple | deque):
        return list(value)
    if isinstance(value, types.FunctionType):
        return [value.__qualname__, value.__defaults__, _closure(value)]
    if isinstance(value, types.MethodType):
        return [value.__func__, value.__self__]
    if isinstance(value, functools.partial):
        return [value.func, value.args, value.keywords]
    if isinstance(value, torch.dtype | torch.device):
        return [str(value)]
    if isinstance(value, weakref.ReferenceType):
        return []  # what it points to is held, and read, elsewhere
    if isinstance(value, types.BuiltinFunctionType):
        return [value.__name__, value.__self__]  # a list's own append, say
    if isinstance(value, type | types.ModuleType):
        return [value.__name__]
    package = type(value).__module__.split(".")[0]
    if package in sys.stdlib_module_names and package not in _OPEN:
        return []  # a logger, a lock...: no business of the model
    slots = [n for kind in type(value).__mro__ for n in getattr(kind, "__slots__", ()) if hasattr(value, n)]
    return [getattr(value, "__dict__", None), [getattr(value, n) for n in slots if n != "__dict__"]]


def generator_state(generator: Generator) -> Any:
    if isinstance(generator, torch.Generator):
        return generator.get_state()
    if isinstance(generator, np.random.Generator):
        return generator.bit_generator.state
    return generator.getstate() if isinstance(generator, random.Random) else generator.get_state(legacy=False)


def _put_back(generator: Generator, state: Any) -> None:
    if isinstance(generator, torch.Generator):
        generator.set_state(state)
    elif isinstance(generator, np.random.Generator):
        generator.bit_generator.state = state
    elif isinstance(generator, random.Random):
        generator.setstate(state)
    else:
        generator.set_state(state)


def global_generators(device: torch.device) -> dict[str, Generator]:
    """The generators that everybody shares."""
    found: dict[str, Generator] = {
        "PyTorch's global generator": torch.default_generator,
        "NumPy's global generator": np.random.mtrand._rand,
        "Python's global generator": random._inst,
    }
    if device.type == "cuda":
        torch.cuda.init()  # type: ignore[no-untyped-call]
        place = device.index if device.index is not None else torch.cuda.current_device()
        found["the GPU's global generator"] = torch.cuda.default_generators[place]
    return found


@contextmanager
def generators_kept(model: nn.Module, device: torch.device) -> Iterator[None]:
    """Within: draw as you like; after: the generators that a model can reach are as they were."""
    seen: dict[int, tuple[int, Any]] = {}
    for _, _, value in _values(model):
        _feed(lambda text: None, value, seen, _DEPTH)
    reached = [value for _, value in seen.values() if isinstance(value, GENERATORS)]
    kept = [(g, generator_state(g)) for g in (*global_generators(device).values(), *reached)]
    try:
        yield
    finally:
        for generator, state in kept:
            _put_back(generator, state)
