"""What parts of somebody's own must not do, and ours do not: remember where nothing is forgotten, never end.

Looked at when a run begins, and where it shows; `unknot.testing` asks the same.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping, Sequence
from types import FunctionType

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import one_hot

from unknot.core.errors import ConfigError
from unknot.core.fingerprint import fingerprint
from unknot.core.keys import Key
from unknot.core.loss import usual_loss
from unknot.core.metrics import Metric, OwnMetric, Said
from unknot.core.own import is_own, of_unknot
from unknot.core.samples import Samples
from unknot.core.selection import Selector

FEW = 24
"""So many samples a metric is tried with."""


class Classes:
    """What the classes of one's own parts hold: all federations have them in common."""

    def __init__(self, parts: Mapping[str, object]) -> None:
        functions = {
            what: part.function if isinstance(part, OwnMetric) else part for what, part in parts.items()
        }
        self._parts = {what: part for what, part in functions.items() if is_own(part)}
        self._before = {what: _copies(_held(part)) for what, part in self._parts.items()}

    def check(self) -> None:
        """Raise `ConfigError` where a part has changed what its class holds."""
        for what, part in self._parts.items():
            before = self._before[what]
            for place, value in _held(part).items():
                if place not in before or (
                    before[place] and fingerprint(before[place][0]) != fingerprint(value)
                ):
                    raise ConfigError(
                        f"the {what} changed {place}, which all that are made of it have in common, and "
                        "nothing forgets: keep what it remembers in attributes of its own"
                    )


def _held(part: object) -> dict[str, object]:
    """What is no code of a part's own classes, or beside a function."""
    if isinstance(part, FunctionType):
        return {f"{part.__name__}.{name}": value for name, value in vars(part).items()}
    return {
        f"{kind.__name__}.{name}": value
        for kind in type(part).__mro__
        if not of_unknot(kind)
        for name, value in vars(kind).items()
        if not name.startswith("__") and not hasattr(value, "__get__")
    }


def _copies(held: Mapping[str, object]) -> dict[str, tuple[object, ...]]:
    """A copy of each; none of what cannot be told from its copy."""
    found: dict[str, tuple[object, ...]] = {}
    for place, value in held.items():
        try:
            twin = copy.deepcopy(value)
        except Exception:  # of what it holds, such as a lock
            twin = None
        found[place] = (twin,) if fingerprint(twin) == fingerprint(value) else ()
    return found


def check_metrics(metrics: Sequence[Metric], samples: Samples) -> None:
    """Refuse a metric of one's own that remembers: it is tried with made-up answers to some samples."""
    few = samples.subset(np.arange(min(FEW, len(samples))))
    for metric in metrics:
        if is_own(metric.function if isinstance(metric, OwnMetric) else metric):
            check_metric(metric, few.kind, few.y, few.classes)


def check_metric(metric: Metric, kind: str, targets: Tensor, classes: int) -> None:
    """Raise `ConfigError` unless a metric says the same again of what it was asked before.

    In between it is asked of answers that are (all but) right. One that takes no such answers (of a model
    with other outputs) is not tried.
    """
    shape = (*targets.shape, classes) if kind == "classes" else tuple(targets.shape)
    drawn = Key.root(0).child("check metric").generator().standard_normal(shape)
    right = 9.0 * one_hot(targets.clamp(min=0), classes) if kind == "classes" else targets.float()
    guessed = torch.from_numpy(drawn).float()
    try:
        first, _, again = (_asked(metric, kind, outputs, targets) for outputs in (guessed, right, guessed))
    except Exception:  # whatever a function of the user's does
        return
    if first != again and not (math.isnan(first) and math.isnan(again)):
        raise ConfigError(
            f"the metric {metric.name!r} remembers: asked the same again, it gives {again:.6g}, and gave "
            f"{first:.6g}. What it gives may depend on outputs and targets alone"
        )


def _asked(metric: Metric, kind: str, outputs: Tensor, targets: Tensor) -> float:
    losses = usual_loss(kind, targets.ndim > 1)(outputs, targets)
    return float(metric.value([metric.tally(Said(outputs.clone(), targets.clone(), kind, losses))]))


def name_of(part: object) -> str:
    """What a part is called in messages."""
    return str(getattr(part, "__name__", type(part).__name__))


def check_met(selector: Selector) -> None:
    """Raise `ConfigError` for a selector that would be introduced to everybody for ever."""
    if selector.curious:
        raise ConfigError(
            f"the selector {name_of(selector)} has met everybody and is still curious: nobody would ever "
            "be chosen. Let meet set curious to False"
        )
