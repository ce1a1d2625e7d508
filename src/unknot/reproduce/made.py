"""Run experiments of a reproduction, one by one or several side by side, and make records of them."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator, Sequence

import torch

from unknot.core.data import FederatedData
from unknot.core.errors import ConfigError, UnknotError
from unknot.core.jobs import Engine
from unknot.core.requests import Erase, Join
from unknot.core.training import numbers_kept
from unknot.data.dataset import Dataset
from unknot.experiments.config import Experiment
from unknot.experiments.exposed import Exposed, Watched, watching
from unknot.experiments.simulate import assemble, dealt, going, read
from unknot.federation import History, Observer
from unknot.federation.clustered import Clustered
from unknot.federation.cohort import Running, as_they_end
from unknot.reproduce.records import Record, plain_json
from unknot.reproduce.reproduction import Run
from unknot.topology import aggregated
from unknot.unlearn.bmt_mmt import InfluenceTree
from unknot.unlearn.rapid import Rapid


def check_together(together: int) -> None:
    if together < 1:
        raise ConfigError(
            f"together must be at least 1, not {together}: 1 runs one after the other, more run side by side"
        )


def side_by_side(runs: Sequence[Run], together: int) -> Iterator[list[Run]]:
    """The runs in groups of so many at most: of one panel and seed, with the same data, model and engine."""
    check_together(together)
    groups: dict[object, list[Run]] = {}
    for run in runs:
        groups.setdefault(run.key if together == 1 else _shared(run), []).append(run)
    for group in groups.values():
        for first in range(0, len(group), together):
            yield group[first : first + together]


def _shared(run: Run) -> object:
    parts = plain_json({name: run.table.get(name, {}) for name in ("data", "model", "engine", "audit")})
    return run.panel.name, run.seed, json.dumps(parts, sort_keys=True), run.experiment.setup.task


class Made:
    """Makes records of runs; what they have in common, data and what an attacker knows, is made once."""

    def __init__(
        self, device: str | None, threads: int | None, rows: int | None, observers: Sequence[Observer]
    ) -> None:
        self._device, self._threads, self._rows, self._observers = device, threads, rows, observers
        self._sources, self._exposed = Sources(), Exposed()

    def records(self, group: Sequence[Run]) -> Iterator[Record]:
        """Of each run of a group, as soon as it has ended."""
        if torch.cuda.is_available():
            torch.cuda.reset_peak_memory_stats()
        placed = [self._placed(run.experiment) for run in group]
        for place, ended in self._ended(group, placed):
            run, experiment = group[place], placed[place]
            found = {}
            if isinstance(ended, Watched) and run.exposure is not None:
                found = self._exposed.attack(ended, experiment, run.exposure)
            if len(group) == 1 and torch.cuda.is_available() and (peak := torch.cuda.max_memory_allocated()):
                found["peak"] = peak / 2**30
            history = ended.history if isinstance(ended, Watched) else ended
            extra = {**before_running(experiment), **found}
            yield Record.of(run, history, extra, together=len(group))

    def check(self, runs: Sequence[Run]) -> None:
        """Raise what the first run of a line of a panel would raise at its beginning; nothing is trained."""
        first: dict[tuple[str, str], Run] = {}
        for run in runs:
            first.setdefault((run.panel.name, run.line.name), run)
        engine, used = None, None  # of one model, what it is put to at the beginning is put to it once
        for run in first.values() if len(first) > 1 else ():
            experiment, shared = self._placed(run.experiment), _shared(run)
            try:
                data = self._sources.data(experiment)
                fed = assemble(experiment, data, engine=engine if shared == used else None)
                engine, used = fed.engine, shared
                fed.check(experiment.length, experiment.requests)
            except UnknotError as error:
                raise type(error)(f"{run.panel.name}/{run.line.name}: {error}") from error

    def _ended(
        self, group: Sequence[Run], placed: Sequence[Experiment]
    ) -> Iterator[tuple[int, History | Watched]]:
        data, engine, many = self._sources.data(placed[0]), None, len(group) > 1
        if many:
            engine, data = assemble(placed[0], data).engine, data.lent()
        runs = [self._one(*one, data, engine) for one in zip(group, placed, strict=True)]
        return as_they_end(runs, once=many)

    def _one(
        self, run: Run, experiment: Experiment, data: FederatedData, engine: Engine | None
    ) -> Running[History | Watched]:
        if run.exposure is not None:
            return (yield from watching(experiment, self._observers, data=data, engine=engine))
        return (yield from going(assemble(experiment, data, self._observers, engine=engine), experiment))

    def _placed(self, experiment: Experiment) -> Experiment:
        engine, rows = experiment.engine, self._rows
        engine = dataclasses.replace(
            engine,
            device=self._device or engine.device,
            threads=self._threads or engine.threads,
            options={**engine.options, **({"rows": rows} if rows and engine.name == "stacked" else {})},
        )
        return dataclasses.replace(experiment, engine=engine)


class Sources:
    """The data set that was read last: the next run is often of the same, and texts take seconds to read."""

    def __init__(self) -> None:
        self._last: tuple[object, Dataset] | None = None

    def data(self, experiment: Experiment) -> FederatedData:
        """Who holds what when the experiment begins."""
        spec = experiment.data
        wanted = (spec.name, spec.root, dict(spec.options))
        if self._last is not None and self._last[0] == wanted:
            return dealt(experiment, self._last[1])
        source = read(experiment)
        self._last = (wanted, source) if isinstance(source, Dataset) else None
        return dealt(experiment, source)


def copies_held(experiment: Experiment) -> float:
    """How many vectors as long as the model a client holds in training, where it holds most: after a request.

    Weights and gradient, what the optimiser keeps and, where it wants the Hessian's diagonal, a draw and its
    product with the Hessian. What activations take depends on the model and is not in it.
    """
    method = experiment.method.inner if isinstance(experiment.method, Clustered) else experiment.method
    used = [experiment.setup.recipe.optimizer, *([method.optimizer] if isinstance(method, Rapid) else [])]
    return float(max(2 + numbers_kept(optimizer) + 2 * optimizer.curvature for optimizer in used))


BEFORE = ("ids", "memory")
"""Figures of a record that its configuration says."""


def before_running(experiment: Experiment) -> dict[str, float]:
    """What a client holds and, where there is an influence tree, what the first departure makes of it.

    That is how many models the server aggregates then.
    """
    held = {"memory": copies_held(experiment)}
    late = {client for r in experiment.requests if isinstance(r, Join) for client in r.clients}
    leavers = [r.targets[0].client for r in experiment.requests if isinstance(r, Erase)]
    clients = getattr(experiment.data.partition, "clients", None)
    if not isinstance(experiment.method, InfluenceTree) or not leavers or clients is None:
        return held
    tree = experiment.method.plant(set(range(clients)) - late)
    return {"ids": float(aggregated(tree, leavers[0])), **held}
