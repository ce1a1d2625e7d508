"""Several GPUs of one machine: each has an engine and a copy of the samples, and trains a share of the jobs.

A job's bits depend on that job alone, and GPUs of one kind compute alike: it makes no difference which of
them trains it, nor how many there are.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import nullcontext
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from unknot.core.data import FederatedData, Samples
from unknot.core.ensemble import Model
from unknot.core.errors import ConfigError
from unknot.core.jobs import Job, Score, Update
from unknot.engine.stacked import StackedEngine
from unknot.engine.ways.lessons import by_recipe

T = TypeVar("T")


class SeveralGpus:
    """A stacked engine on every one of the `devices`; the `options` are those that each of them takes.

    Results come back to where jobs start from, in the order of the jobs. `left_out` says of which GPUs of the
    machine none is used, and why.
    """

    name = StackedEngine.name

    def __init__(
        self, model: nn.Module, devices: Sequence[str | torch.device], left_out: str = "", **options: Any
    ) -> None:
        if not devices:
            raise ConfigError("there is no device to train on")
        self._engines = [StackedEngine(model, device=device, **options) for device in devices]
        self._first = self._engines[0]
        self._left_out = left_out
        self._threads = ThreadPoolExecutor(len(devices), "unknot gpu")
        self.task, self.layout, self.device = self._first.task, self._first.layout, self._first.device

    def examine(self, samples: Samples) -> None:
        self._first.examine(samples)

    def train(self, jobs: Sequence[Job], data: FederatedData) -> list[Update]:
        shares = self._dealt(jobs, data.train)
        return self._at_once(shares, lambda engine, share: engine.train([jobs[i] for i in share], data))

    def evaluate(self, model: Model, samples: Samples) -> Score:
        return self._first.evaluate(model, samples)

    def evaluate_all(self, models: Sequence[Model], samples: Samples) -> list[Score]:
        shares = self._evenly(models)
        return self._at_once(
            shares, lambda engine, share: engine.evaluate_all([models[i] for i in share], samples)
        )

    def predict(self, model: Model, samples: Samples) -> Tensor:
        return self._first.predict(model, samples)

    def predict_all(self, models: Sequence[Model], samples: Samples) -> list[Tensor]:
        shares = self._evenly(models)
        return self._at_once(
            shares, lambda engine, share: engine.predict_all([models[i] for i in share], samples)
        )

    def wipe(self) -> None:
        """Every GPU drops its copies of samples and what it trained."""
        for engine in self._engines:
            engine.wipe()

    def describe(self) -> dict[str, object]:
        told = [engine.describe() for engine in self._engines]
        reasons = dict.fromkeys(str(one["reason"]) for one in told)
        return {
            **told[0],
            "path": ", ".join(dict.fromkeys(path for one in told for path in str(one["path"]).split(", "))),
            "reason": "; ".join([*reasons, *([self._left_out] if self._left_out else [])]),
            "device": ", ".join(str(one["device"]) for one in told),
            "gpus": len(told),
            "rows_refused": sorted(set().union(*(engine.rows_refused() for engine in self._engines))),
        }

    def _dealt(self, jobs: Sequence[Job], samples: Samples) -> list[list[int]]:
        """The places of the jobs that each engine trains: of one recipe in turn, none with too few."""
        shares: list[list[int]] = [[] for _ in self._engines]
        for places in by_recipe(jobs):
            least = self._first.least_share(jobs[places[0]].recipe, samples)
            parts = max(1, min(len(shares), len(places) // least))
            shares.sort(key=len)  # those with the least to do so far
            for part in range(parts):
                shares[part] += places[part::parts]
        return shares

    def _evenly(self, things: Sequence[object]) -> list[list[int]]:
        many = len(self._engines)
        return [list(range(first, len(things), many)) for first in range(many)]

    def _at_once(
        self, shares: Sequence[list[int]], call: Callable[[StackedEngine, list[int]], list[T]]
    ) -> list[T]:
        """What the engines give for the places in their shares, in the order of the places.

        Each is called by a thread of its own. Settings that all threads have in common are set before.
        """
        work = [(engine, share) for engine, share in zip(self._engines, shares, strict=True) if share]
        with self._first.gpu_settings():
            if len(work) < 2:
                found = [call(engine, share) for engine, share in work]
            else:
                futures = [self._threads.submit(_there, engine, call, share) for engine, share in work]
                wait(futures)
                found = [future.result() for future in futures]
        done: dict[int, T] = {}
        for (_, share), given in zip(work, found, strict=True):
            done.update(zip(share, given, strict=True))
        return [done[place] for place in sorted(done)]


def _there(
    engine: StackedEngine, call: Callable[[StackedEngine, list[int]], list[T]], share: list[int]
) -> list[T]:
    with torch.cuda.device(engine.device) if engine.device.type == "cuda" else nullcontext():
        return call(engine, share)


def alike() -> tuple[list[str], str]:
    """The GPUs of this machine that are of the first one's kind, and what is said of the others."""
    kinds = {f"cuda:{i}": torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())}
    first = next(iter(kinds.values()), "")
    others = [f"{device} ({kind})" for device, kind in kinds.items() if kind != first]
    said = f"not on {', '.join(others)}: another kind of GPU has other bits" if others else ""
    return [device for device, kind in kinds.items() if kind == first], said
