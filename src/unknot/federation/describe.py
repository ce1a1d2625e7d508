"""What a federation is made of, and who is where in it, as plain values for the record of a run."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any

import numpy as np

from unknot.core.requests import Erase, Request
from unknot.federation.lanes import Lane

if TYPE_CHECKING:
    from unknot.federation.loop import Federation

Members = dict[str, tuple[int, ...]]
"""Clients by lane."""


def describe(fed: Federation) -> dict[str, Any]:
    """How a federation is set up. Of the data there are only sizes: what a client holds is its own."""
    data = fed.data
    return {
        "method": {"name": fed.method.name, **plain(fed.method)},
        "recipe": plain(fed.recipe),
        "pace": plain(fed.pace),
        "aggregate": plain(fed.aggregate),
        "clock": plain(fed.clock),
        "select": {**plain(fed.select), "when": fed.select_when},
        "seed": fed.seed,
        "model": {
            "parameters": fed.initial.layout.size,
            "layout": {name: list(tensor.shape) for name, tensor in fed.initial.tensors.items()},
            "start": fed.initial.digest(),
        },
        "data": {
            "name": data.name,
            "clients": len(data),
            "samples": sum(len(data[client]) for client in data),
            "validation": 0 if data.validation is None else len(data.validation),
            "test": len(data.test),
            "classes": data.train.classes,
        },
    }


def plain(value: Any) -> Any:
    """Numbers, texts, lists, tables. What is more than its settings is named by its kind alone."""
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, np.generic):
        return plain(value.item())
    if isinstance(value, Enum):
        return plain(value.value)
    if isinstance(value, Mapping):
        return {str(name): plain(item) for name, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [plain(item) for item in (sorted(value) if isinstance(value, set | frozenset) else value)]
    settings = [item.name for item in fields(value) if item.init] if is_dataclass(value) else []
    # What was learned from data has a lineage of its own: it is no setting.
    own = [name for name in settings if not name.startswith("_") and not _learned(getattr(value, name))]
    return {
        "kind": getattr(value, "__name__", type(value).__name__),
        **{name: plain(getattr(value, name)) for name in own},
    }


def _learned(value: Any) -> bool:
    return hasattr(value, "lineage") and not hasattr(value, "fresh")


def members_of(lanes: Mapping[str, Lane]) -> Members:
    return {name: tuple(sorted(lane.members)) for name, lane in lanes.items()}


def concerned(lanes: Mapping[str, Lane], request: Request) -> tuple[tuple[str, ...], int]:
    """The lanes that hold a request's clients, and their rounds; those of all lanes, where none does."""
    clients = [t.client for t in request.targets] if isinstance(request, Erase) else request.clients
    named = set(clients)
    holders = tuple(name for name, lane in lanes.items() if lane.members & named)
    return holders, max((lanes[name].rounds for name in holders or lanes), default=0)


def counts(request: Request) -> tuple[int | None, ...]:
    """How many samples of each client an erasure names, None where it is the whole client."""
    targets = request.targets if isinstance(request, Erase) else ()
    return tuple(None if target.samples is None else len(target.samples) for target in targets)


def beyond(members: Members, others: Members) -> Members:
    """Who is in a lane here and not there, for lanes where somebody is."""
    found = {name: set(clients) - set(others.get(name, ())) for name, clients in members.items()}
    return {name: tuple(sorted(clients)) for name, clients in found.items() if clients}
