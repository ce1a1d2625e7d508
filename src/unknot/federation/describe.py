"""What a federation is made of, and who is where in it, as plain values for the record of a run."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from enum import Enum
from typing import Any

import numpy as np

from unknot.core.by_number import Numbers
from unknot.core.metrics import Metric
from unknot.core.requests import Join, Request
from unknot.core.weights import Layout
from unknot.federation.lanes import Lane
from unknot.federation.method import Method
from unknot.federation.state import State

Members = dict[str, tuple[int, ...]]
"""Clients by lane."""
ADAPTER = ".lora_A.weight"
"""What the name of an adapter's first matrix ends with, as PEFT has it."""


def describe(method: Method, state: State, metrics: Sequence[Metric], called: str) -> dict[str, Any]:
    """How a federation is set up. Of the data there are only sizes: what a client holds is its own.

    Clients that a part of it lists by name are numbers: a name goes with its client.
    """
    data = state.data
    numbers = Numbers(data.names) if data.names else None
    return {
        "method": {"name": method.name, **plain(method, numbers)},
        "recipe": plain(state.recipe),
        "pace": plain(state.pace, numbers),
        "aggregate": plain(state.aggregate, numbers),
        "clock": plain(state.clock, numbers),
        "select": {**plain(state.select, numbers), "when": state.select_when},
        "seed": state.seed,
        "metrics": [metric.name for metric in metrics],
        "model": {
            "name": str(called),
            "parameters": state.initial.layout.size,
            **below(state.initial.layout),
            "layout": {name: list(tensor.shape) for name, tensor in state.initial.tensors.items()},
            "start": state.initial.digest(),
        },
        "data": {
            "name": data.name,
            "clients": len(data),
            "samples": sum(len(data[client]) for client in data),
            "validation": 0 if data.validation is None else len(data.validation),
            "test": len(data.test),
            "public": 0 if data.public is None else len(data.public),
            "classes": data.train.classes,
            "kind": data.train.kind,
        },
    }


def below(layout: Layout) -> dict[str, Any]:
    """What lies below the parameters that are trained: how many are frozen, their digest, the adapters."""
    ranks = {
        name.removesuffix(ADAPTER): shape[0]
        for name, shape in zip(layout.names, layout.shapes, strict=True)
        if name.endswith(ADAPTER)
    }
    on = list(dict.fromkeys(name.rpartition(".")[2] for name in ranks))
    return {
        "frozen": layout.base.parameters,
        "base": layout.base.digest or None,
        "adapters": {"rank": max(ranks.values()), "on": on} if ranks else None,
    }


def plain(value: Any, numbers: Numbers | None = None) -> Any:
    """Numbers, texts, lists, tables. What is more than its settings is named by its kind alone.

    With `numbers`, those whom lists and tables name are numbers.
    """
    if isinstance(value, np.generic):
        return plain(value.item(), numbers)
    if isinstance(value, Enum):
        return plain(value.value, numbers)
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int | str):  # plain ones: torch's version is a kind of text
        return int(value) if isinstance(value, int) else str(value)
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else str(value)
    if isinstance(value, Mapping):
        return {_listed(str(name), numbers): plain(item, numbers) for name, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        items = sorted(value) if isinstance(value, set | frozenset) else value
        return [_listed(plain(item, numbers), numbers) for item in items]
    settings = [item.name for item in fields(value) if item.init] if is_dataclass(value) else []
    # What was learned from data has a lineage of its own: it is no setting.
    own = [name for name in settings if not name.startswith("_") and not _learned(getattr(value, name))]
    return {
        "kind": getattr(value, "__name__", type(value).__name__),
        **{name: plain(getattr(value, name), numbers) for name in own},
    }


def _listed(item: Any, numbers: Numbers | None) -> Any:
    return numbers.mark(item) if isinstance(item, str) and numbers is not None else item


def _learned(value: Any) -> bool:
    return hasattr(value, "lineage") and not hasattr(value, "fresh")


def members_of(lanes: Mapping[str, Lane]) -> Members:
    return {name: tuple(sorted(lane.members)) for name, lane in lanes.items()}


def nodes_of(lanes: Mapping[str, Lane]) -> dict[str, tuple[tuple[int, ...], ...]]:
    """The clients of each model of a lane, where it has several: those of an influence tree, say."""
    return {
        name: tuple(tuple(sorted(node.members)) for node in lane.nodes.values())
        for name, lane in lanes.items()
        if len(lane.nodes) > 1
    }


def asked_of(request: Request) -> tuple[tuple[int, int | None], ...]:
    """Whom a request names, each with how many samples; None where it is the whole client."""
    if isinstance(request, Join):
        return tuple((client, None) for client in request.clients)
    return tuple((t.client, None if t.samples is None else len(t.samples)) for t in request.targets)


def beyond(members: Members, others: Members) -> Members:
    """Who is in a lane here and not there, for lanes where somebody is."""
    found = {name: set(clients) - set(others.get(name, ())) for name, clients in members.items()}
    return {name: tuple(sorted(clients)) for name, clients in found.items() if clients}
