"""What a run would do, without training it.

The whole run is gone through with an engine that trains nothing, on a model of a few numbers: who is asked
when, how many jobs that makes, when requests come and what is kept follow from the file, not from what is
learned. Where all that is kept is models, its bytes are in proportion to the size of one; else they are a
straight line in it, for which the run is gone through with a second small model. Time and memory come of a
probe: a few steps of a few jobs by the real engine. Where a run depends on what is learned (a goal to stop
at, how far back Exact-Fun goes), it is an estimate, and said to be one.
"""

from __future__ import annotations

import math
import statistics
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import torch
from torch import Tensor

from unknot.core.data import FederatedData, Samples
from unknot.core.ensemble import Ensemble, Model
from unknot.core.jobs import Engine, Job, Score, Update
from unknot.core.keys import Key
from unknot.core.lineage import Unit
from unknot.core.training import Recipe
from unknot.core.weights import Layout, Weights
from unknot.experiments.config import Experiment
from unknot.experiments.simulate import assemble, data_of
from unknot.federation import Federation, History
from unknot.federation.describe import below

PROBE_STEPS = 5
"""So many steps of a job are probed at most."""
PROBE_JOBS = 32
"""So many jobs are probed at once at most."""
PROBE_RECIPES = 3
"""So many ways to train are probed, the most used ones first."""
NUMBERS = 101
"""So many numbers the small model has in a tensor: few, and none that other things come in."""


@dataclass(frozen=True)
class Asked:
    """What would become of a request."""

    request: str
    served: bool
    """Whether it comes before the run ends."""
    time: float | None
    """The simulated second at which it comes."""
    rounds_left: int | None
    """How many rounds there would be to recover in."""


@dataclass(frozen=True)
class Forecast:
    """What a run would do."""

    name: str
    data: dict[str, Any]
    """Clients, samples in all and of the smallest, the median and the largest client, held-out samples."""
    model: dict[str, Any]
    """Name, the path of a pretrained one, what is trained of it (parameters, bytes), what lies below that."""
    method: dict[str, Any]
    """Name, guarantee."""
    rounds: int
    """All lanes together."""
    lanes: int
    jobs: int
    client_epochs: float
    simulated_seconds: float
    at_most: bool
    """Whether the run may stop earlier, at a goal."""
    estimated: bool
    """Whether jobs and bytes are estimates, too: how far back a request goes depends on what is learned."""
    requests: tuple[Asked, ...]
    warnings: tuple[str, ...]
    """Why the model would not be what it seems, a sentence each: nobody is left to train with."""
    bytes_sent: int
    """Between server and clients, there and back."""
    bytes_kept: int
    """The most that the server keeps at any time."""
    engine: dict[str, object]
    seconds: float
    """Of real time: an estimate, from a probe."""
    bytes_memory: int
    """Of this process: an estimate, from a probe and what is kept. 0: not known here."""
    bytes_device: int
    """Of the GPU, likewise; 0 on a CPU."""

    def to_dict(self) -> dict[str, Any]:
        """Ready for JSON."""
        return asdict(self)


def forecast(experiment: Experiment) -> Forecast:
    """What a run of this experiment would do; raises what the run would raise."""
    data = data_of(experiment)
    fed = assemble(experiment, data)
    small = _Rehearsed.of(experiment, fed, NUMBERS)
    seconds = small.seconds + _training(fed, small.engine) + _measuring(fed, small.engine)
    parameters = fed.initial.layout.size
    history, kept = small.history, small.kept * parameters // small.size
    if not small.models_alone:
        large = _Rehearsed.of(experiment, fed, 2 * NUMBERS)
        kept = small.kept + (large.kept - small.kept) * (parameters - small.size) // max(
            1, large.size - small.size
        )
    sizes = [len(data[client]) for client in data]
    where = fed.initial.vector.device
    on_gpu = where.type == "cuda"
    return Forecast(
        name=experiment.name,
        data={
            "name": data.name,
            "clients": len(data),
            "samples": sum(sizes),
            "smallest": min(sizes),
            "median": statistics.median(sizes),
            "largest": max(sizes),
            "validation": 0 if data.validation is None else len(data.validation),
            "test": len(data.test),
        },
        model={
            "name": experiment.model.name,
            "path": experiment.model.options.get("path"),
            "parameters": parameters,
            "bytes": fed.initial.nbytes,
            **below(fed.initial.layout),
        },
        method={"name": history.method, "guarantee": history.guarantee},
        rounds=len(history.rounds),
        lanes=len({record.lane for record in history.rounds}),
        jobs=history.costs.jobs,
        client_epochs=history.costs.client_epochs,
        simulated_seconds=history.time,
        at_most=experiment.length.target is not None,
        estimated=small.estimated,
        requests=_requests(history),
        warnings=tuple(history.nobody_left),
        bytes_sent=_sent(history) * parameters // small.size,
        bytes_kept=kept,
        engine=fed.engine.describe(),
        seconds=seconds,
        bytes_memory=(peak + (0 if on_gpu else kept)) if (peak := _peak_memory()) else 0,
        bytes_device=torch.cuda.max_memory_allocated(where) + kept if on_gpu else 0,
    )


class _Idle:
    """An engine that trains nothing, and counts what it is asked for."""

    name = "idle"

    def __init__(self, metrics: Sequence[str]) -> None:
        self.metrics = metrics
        self.steps: dict[Recipe, int] = {}
        self.calls: dict[Recipe, int] = {}
        self.jobs: dict[Recipe, int] = {}
        self.measured = 0
        """Samples that models were measured on, each counted for each model."""

    def examine(self, samples: Samples) -> None:
        """Nothing to find."""

    def train(self, jobs: Sequence[Job], data: FederatedData) -> list[Update]:
        recipes = {id(job.recipe): job.recipe for job in jobs}  # a few, for many jobs
        kinds = {place: replace(recipe, epochs=1, max_steps=None) for place, recipe in recipes.items()}
        steps, count = dict.fromkeys(recipes, 0), dict.fromkeys(recipes, 0)
        for job in jobs:
            place = id(job.recipe)
            count[place] += 1
            steps[place] += (
                job.recipe.steps(len(job.shard(data))) if job.batches is None else len(job.batches)
            )
        for place, kind in kinds.items():
            self.steps[kind] = self.steps.get(kind, 0) + steps[place]
            self.jobs[kind] = self.jobs.get(kind, 0) + count[place]
        for kind in set(kinds.values()):
            self.calls[kind] = self.calls.get(kind, 0) + 1
        # A little of everybody's own, so that no two clients look the same and none does nothing.
        return [
            job.done(job.start.vector * (1 + 1e-3 / (2 + job.client)), len(job.shard(data)), 0.0)
            for job in jobs
        ]

    def evaluate(self, model: Model, samples: Samples) -> Score:
        """No goal is reached: what is not a number reaches none."""
        self.measured += len(samples) * (len(model.parts) if isinstance(model, Ensemble) else 1)
        return Score(dict.fromkeys(self.metrics, math.nan), math.nan, len(samples))

    def predict(self, model: Model, samples: Samples) -> Tensor:
        return torch.full((len(samples), samples.classes), 1 / samples.classes, dtype=torch.float64)

    def wipe(self) -> None:
        """Nothing is held."""

    def describe(self) -> dict[str, object]:
        return {"engine": self.name}


@dataclass(frozen=True)
class _Rehearsed:
    """A run that was gone through without training, on a model of so many numbers, about."""

    history: History
    engine: _Idle
    size: int
    kept: int
    models_alone: bool
    """Whether what was kept was models, at any time."""
    estimated: bool
    """Whether answers were looked up by their bits for a request, which are others where it is trained."""
    seconds: float

    @staticmethod
    def of(experiment: Experiment, fed: Federation, numbers: int) -> _Rehearsed:
        layout = fed.initial.layout
        shapes = [(1,) * len(shape) for shape in layout.shapes]
        if (wide := next((i for i, shape in enumerate(shapes) if shape), None)) is not None:
            shapes[wide] = (numbers, *shapes[wide][1:])
        tiny = Layout(layout.names, tuple(shapes), layout.base)
        start = Weights(torch.ones(tiny.size, dtype=fed.initial.vector.dtype), tiny, fed.initial.lineage)
        engine = _Idle([metric.name for metric in fed.metrics])
        twin = Federation(
            engine,
            start,
            fed.data.lent(),
            experiment.method,
            setup=experiment.setup,
            restart=Weights(start.vector, tiny),
        )
        started = time.perf_counter()
        history = twin.run(experiment.length, requests=experiment.requests)
        kept = {record.costs.bytes_stored for record in history.rounds}
        alone = all(one % start.nbytes == 0 for one in kept)
        estimated = bool(len(twin.state.memo) and any(one.kind == "erase" for one in history.served))
        seconds = time.perf_counter() - started
        return _Rehearsed(history, engine, tiny.size, max(kept, default=0), alone, estimated, seconds)


def _requests(history: History) -> tuple[Asked, ...]:
    """Those that come, in their order, then those that do not."""
    come = (
        Asked(f"{one.request} at round {one.round}", True, one.time, _rounds(history, one.place))
        for one in history.served
    )
    return (*come, *(Asked(request, False, None, None) for request in history.unserved))


def _rounds(history: History, place: int) -> int:
    """The most rounds that any one lane makes from there on."""
    lanes = [record.lane for record in history.rounds[place:]]
    return max(map(lanes.count, set(lanes)), default=0)


def _sent(history: History) -> int:
    return history.costs.bytes_down + history.costs.bytes_up


def _training(fed: Federation, asked: _Idle) -> float:
    """Seconds that training would take, by a few steps of each kind of job."""
    found, rate = 0.0, 0.0
    for place, recipe in enumerate(sorted(asked.steps, key=lambda kind: -asked.steps[kind])):
        if place < PROBE_RECIPES:
            together = min(PROBE_JOBS, -(-asked.jobs[recipe] // asked.calls[recipe]))
            each = -(-asked.steps[recipe] // asked.jobs[recipe])
            extra, rate = _probed(fed, recipe, together, min(PROBE_STEPS, each))
            found += extra
        found += rate * asked.steps[recipe]
    return found


def _probed(fed: Federation, recipe: Recipe, together: int, steps: int) -> tuple[float, float]:
    """Seconds that the first call takes beyond another, and seconds a step of one of so many jobs."""
    holders = [client for client in fed.data if len(fed.data[client])]
    if not holders or not steps:
        return 0.0, 0.0
    short = replace(recipe, epochs=steps, max_steps=steps, loss=fed.given.recipe.loss)
    jobs = [
        Job(Unit(client), fed.initial, Key.root(0).child("probe", number), short)
        for number, client in enumerate(holders[i % len(holders)] for i in range(together))
    ]
    first, again = (_timed(fed.engine, jobs, fed.data) for _ in range(2))
    return max(0.0, first - again), again / (together * steps)


def _timed(engine: Engine, jobs: Sequence[Job], data: FederatedData) -> float:
    started = time.perf_counter()
    for update in engine.train(jobs, data):
        update.weights.vector[:1].cpu()  # a GPU is done when it has answered
    return time.perf_counter() - started


def _measuring(fed: Federation, asked: _Idle) -> float:
    """Seconds that measuring would take, by measuring once."""
    samples = fed.data.validation if fed.data.validation else fed.data.test
    if not asked.measured or not len(samples):
        return 0.0
    started = time.perf_counter()
    fed.engine.evaluate(fed.initial, samples)
    return (time.perf_counter() - started) / len(samples) * asked.measured


def _peak_memory() -> int:
    """The most bytes of memory that this process has had; 0 where that cannot be asked."""
    try:
        import resource
    except ImportError:  # not on Windows
        return 0
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else 1024 * peak
