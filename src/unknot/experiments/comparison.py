"""The same federation under several methods: what each gives, and what it costs.

Every run is the experiment itself with another method, and another seed where there are several: the run
that ``unknot run`` makes of it, bit for bit. All of them train as one cohort.
"""

from __future__ import annotations

import copy
import hashlib
import itertools
import shutil
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

from unknot.core.data import FederatedData
from unknot.core.errors import ConfigError, UnknotError, said
from unknot.core.jobs import Engine
from unknot.core.keys import Key
from unknot.core.metrics import ACCURACY, Metric
from unknot.core.weights import Layout
from unknot.experiments.config import Experiment
from unknot.experiments.contenders import Contender, Given, contenders, finding
from unknot.experiments.figures import course, figures, no_figures, requests_of, spent_before, split_of
from unknot.experiments.seeds import Stat
from unknot.experiments.simulate import assemble, dealt, going, maker, read
from unknot.federation import Event, History, Observer
from unknot.federation.cohort import Running, run_alone, run_together
from unknot.federation.history import REGAINED
from unknot.unlearn.rfs import RFS

WIDE = 100
"""Letters of a line of its text where there is no terminal that says."""
TOGETHER = 24
"""So many runs at most train as one cohort: more make nothing faster."""
MEMORY = 4 * 2**30
"""And so many bytes of models at most: one for each client of each run."""
STATED = (
    "before",
    "after",
    "final",
    "test",
    "regained_rounds",
    "regained_seconds",
    "regained_client_epochs",
    "client_epochs_before",
    "extra_training",
    "peak_bytes_stored",
    "bytes_sent",
)
"""The figures of a run of which there are a mean and a spread."""

Tell = Callable[[str, int, Event], None]
"""Is told what happens: in the run of which method, under which seed."""
Which = tuple[str, int]
"""A run: the label of its method, and its seed."""


@dataclass(frozen=True, eq=False, repr=False)
class Comparison:
    """What several methods made of the same federation.

    `rows` has the figures of every run, `summary` those of every method: both are lists of dictionaries, as
    ``pandas.DataFrame`` takes them.
    """

    experiment: Experiment
    """What was run, with each of the methods in place of its own."""
    methods: tuple[str, ...]
    """What they are called, in the order in which they were given."""
    seeds: tuple[int, ...]
    """Those that each was run under."""
    histories: Mapping[Which, History]
    """The records of the runs, by method and seed."""
    failures: Mapping[Which, str]
    """Why a run could not be made, by method and seed, where one could not."""
    seconds: float
    """Real ones, of all runs together."""

    @cached_property
    def rows(self) -> list[dict[str, Any]]:
        """The figures of every run, as ``unknot compare --json`` prints them."""
        plain = {
            seed: spent_before(history)
            for (_, seed), history in self.histories.items()
            if history.method == "rfs"
        }
        return [self._row(which, plain.get(which[1])) for which in self._every()]

    @cached_property
    def summary(self) -> list[dict[str, Any]]:
        """The figures of every method: their means over the seeds and, as ``..._std``, their deviations."""
        found = []
        for method in self.methods:
            stats = {name: self.stat(method, name) for name in STATED}
            runs = [row for row in self.rows if row["method"] == method]
            done = [row for row in runs if row["error"] is None]
            found.append(
                {
                    "method": method,
                    "seeds": len(runs),
                    "failed": len(runs) - len(done),
                    "regained": sum(row["regained_rounds"] is not None for row in done),
                    "guarantee": "; ".join(dict.fromkeys(row["guarantee"] for row in done)) or None,
                    "error": next((row["error"] for row in runs if row["error"]), None),
                    **{name: stat and stat.mean for name, stat in stats.items()},
                    **{f"{name}_std": stat and stat.std for name, stat in stats.items()},
                }
            )
        return found

    def stat(self, method: str, figure: str) -> Stat | None:
        """Mean and spread of a figure over the seeds."""
        return Stat.of(row[figure] for row in self.rows if row["method"] == method and row["error"] is None)

    def to_pandas(self) -> Any:
        """The rows as a ``pandas.DataFrame``."""
        try:
            import pandas  # type: ignore[import-not-found, import-untyped, unused-ignore]
        except ImportError:
            raise ConfigError("to_pandas needs pandas: pip install pandas, or take .rows as it is") from None
        return pandas.DataFrame(self.rows)

    def plot(self, file: str | Path) -> None:
        """Draw it: accuracy over time, and cost against the accuracy right after. PNG or SVG."""
        from unknot.report import comparison_plot

        comparison_plot.draw(self.to_dict(), Path(file))

    def __repr__(self) -> str:
        told = [f"{row['method']} {self._told(row)}" for row in self.summary]
        return f"Comparison({'; '.join(told)})"

    def __str__(self) -> str:
        """The tables that ``unknot compare`` prints, as wide as the terminal; without rich, the repr."""
        try:
            from unknot.report import comparison
        except ImportError:
            return repr(self)
        return comparison.text(self.to_dict(), shutil.get_terminal_size((WIDE, 0)).columns)

    def _repr_html_(self) -> str:
        from unknot.report import comparison_page

        return comparison_page.tables(self.to_dict())

    def _told(self, row: Mapping[str, Any]) -> str:
        if row["failed"] == row["seeds"]:
            return "could not run"
        return f"{self.metric.shown(row['after'])} right after, {self.metric.shown(row['final'])} at the end"

    @property
    def metric(self) -> Metric:
        """What models are compared by."""
        return next((history.metric for history in self.histories.values()), ACCURACY)

    @property
    def split(self) -> str | None:
        """The data on which it is measured while training goes on."""
        return next((split_of(history) for history in self.histories.values()), None)

    def to_dict(self) -> dict[str, Any]:
        """Everything that a report of it shows."""
        history = next(iter(self.histories.values()), None)
        data: Mapping[str, Any] = {} if history is None else history.setup["data"]
        return {
            "experiment": self.experiment.name,
            "data": data.get("name", self.experiment.data.name),
            "clients": data.get("clients"),
            "model": self.experiment.model.name,
            "metric": self.metric.name,
            "share": self.metric.share,
            "falls": self.metric.falls,
            "split": self.split,
            "fraction": REGAINED,
            "seeds": list(self.seeds),
            "requests": requests_of(history),
            "erasures": max((len(row["requests"]) for row in self.rows), default=0),
            "seconds": self.seconds,
            "methods": [self._method(row) for row in self.summary],
            "rows": self.rows,
            "settings": dict(self.experiment.table),
        }

    def _every(self) -> Iterator[Which]:
        return ((method, seed) for method in self.methods for seed in self.seeds)

    def _row(self, which: Which, plain: float | None) -> dict[str, Any]:
        method, seed = which
        history = self.histories.get(which)
        found = no_figures() if history is None else figures(history)
        spent = found["client_epochs_before"]
        return {
            "method": method,
            "seed": seed,
            **found,
            "extra_training": spent / plain if spent is not None and plain else None,
            "error": self.failures.get(which),
        }

    def _method(self, summary: Mapping[str, Any]) -> dict[str, Any]:
        method = summary["method"]
        stats = {name: self.stat(method, name) for name in STATED}
        return {
            **{name: summary[name] for name in ("method", "seeds", "failed", "guarantee", "error")},
            "warnings": [
                f"seed {seed}: {text}"
                for seed in self.seeds
                if (history := self.histories.get((method, seed))) is not None
                for text in (*history.warnings, *(f"still pending: {asked}" for asked in history.unserved))
            ],
            "stats": {name: None if stat is None else asdict(stat) for name, stat in stats.items()},
            "curve": course([h for (name, _), h in self.histories.items() if name == method], self.split),
        }


def compare(
    experiment: Experiment | Mapping[str, Any] | str | Path,
    methods: Sequence[Given] | None = None,
    seeds: Iterable[int] | None = None,
    *,
    data: FederatedData | None = None,
    overrides: Iterable[str] = (),
    tell: Tell | None = None,
    done: Callable[[str, int], None] | None = None,
) -> Comparison:
    """Run an experiment under several methods, and compare what they give and cost.

    `experiment` is one, its TOML file, or what such a file says as dictionaries; `overrides` change settings
    of it (``"train.lr=0.1"``). `data` is what clients hold, in place of its own: of `unknot.clients`, say.
    `methods` are names, with options as in a file where they need some (``"knot, clusters=4"``), sections as
    dictionaries, or of the kind `Method`; without them, the usual ones and the file's own. Options in the
    file's ``[method]`` are for the method that it names. Each is run under all `seeds`, without them under
    the file's own. A method that cannot run the experiment is a row that says why. `tell` is called with
    (method, seed, event) for whatever happens, `done` with (method, seed) when a run has come to its end:
    once, even where runs are begun again, each by itself, as something that one of them wants trained cannot
    be.
    """
    if isinstance(experiment, Mapping):
        experiment = Experiment.of(experiment, overrides)
    elif not isinstance(experiment, Experiment):
        experiment = Experiment.read(experiment, overrides)
    elif overrides := list(overrides):
        raise ConfigError("overrides change a file: give its path, or change the experiment itself")
    if data is not None:
        experiment = _on(experiment, data)
    chosen = contenders(methods, experiment)
    experiment = finding(experiment, chosen)
    numbers = tuple(seeds) if seeds is not None else (experiment.seed,)
    if not numbers or len(set(numbers)) < len(numbers):
        raise ConfigError(f"seeds are whole numbers, each once, not {numbers}")
    started = time.perf_counter()
    on = _Told(tell or (lambda method, seed, event: None), done or (lambda method, seed: None))
    outcomes = _run_all(experiment, data, chosen, numbers, on)
    histories = {which: found for which, found in outcomes.items() if isinstance(found, History)}
    failed = {which: found for which, found in outcomes.items() if isinstance(found, UnknotError)}
    if not histories and len({str(error) for error in failed.values()}) == 1:
        raise next(iter(failed.values()))  # then it is no matter of the method
    return Comparison(
        experiment,
        tuple(one.label for one in chosen),
        numbers,
        histories,
        {which: str(error) for which, error in failed.items()},
        time.perf_counter() - started,
    )


# Running --------------------------------------------------------------------------------------------


def _on(experiment: Experiment, data: FederatedData) -> Experiment:
    """The experiment, with data of which its file knows nothing: nothing is left of that."""
    if not isinstance(data, FederatedData):
        raise ConfigError(
            f"data must be a federation's, not {type(data).__name__}: make it by unknot.clients(...) of what "
            "each client holds, or by unknot.federate(...) of a data set"
        )
    if "data" in experiment.table:
        raise ConfigError("the experiment has a [data] of its own: leave it out, or give no data=")
    return replace(experiment, data=replace(experiment.data, name=data.name))


@dataclass(frozen=True)
class _Told:
    """Who is told what happens in runs, and that one has come to its end: once, though it be begun again.

    A run that is begun again goes as it went: what was told of it is passed over.
    """

    tell: Tell
    done: Callable[[str, int], None]
    _events: dict[Which, int] = field(default_factory=dict)
    _ended: set[Which] = field(default_factory=set)

    def begin(self, which: Which) -> Observer:
        """What is called with the events of a run, from its first one on."""
        now = itertools.count()

        def on(event: Event) -> None:
            if next(now) >= self._events.get(which, 0):
                self._events[which] = self._events.get(which, 0) + 1
                self.tell(*which, event)

        return on

    def end(self, which: Which) -> None:
        if which not in self._ended:
            self._ended.add(which)
            self.done(*which)


def _run_all(
    experiment: Experiment,
    given: FederatedData | None,
    chosen: Sequence[Contender],
    seeds: Sequence[int],
    on: _Told,
) -> dict[Which, History | UnknotError]:
    """Every run's record, or why there is none. The data is read once, and an engine serves all it can."""
    source = read(experiment) if given is None else given
    engines: dict[str, Engine] = {}
    by_engine: dict[str, dict[Which, Callable[[], Running[History | UnknotError]]]] = {}
    together = TOGETHER
    for seed in seeds:
        plain = replace(experiment, method=RFS(), setup=replace(experiment.setup, seed=seed))
        data = dealt(plain, source).lent()
        kind, size = _kind_of_model(plain, data)
        if kind not in engines:
            engines[kind] = assemble(plain, data).engine
        together = max(1, min(together, MEMORY // max(size * len(data), 1)))
        for one in chosen:
            run = partial(_run, plain, one, data, _table(experiment, one, seed), on, engines[kind])
            by_engine.setdefault(kind, {})[one.label, seed] = run
    found: dict[Which, History | UnknotError] = {}
    for runs in by_engine.values():
        every = list(runs)
        for first in range(0, len(every), together):
            group = every[first : first + together]
            found |= zip(group, _cohort([runs[which] for which in group]), strict=True)
    return found


def _run(
    plain: Experiment,
    one: Contender,
    data: FederatedData,
    table: dict[str, Any],
    on: _Told,
    engine: Engine,
) -> Running[History | UnknotError]:
    """One run, as if it were alone; a method may keep things, so each has one of its own.

    Whatever somebody's own method raises is why this run could not be made, and no matter of the others.
    """
    try:
        own = replace(plain, method=copy.deepcopy(one.method))
        fed = assemble(own, data, [on.begin((one.label, own.seed))], engine=engine)
        history = yield from going(fed, own)
    except UnknotError as error:
        return error
    except Exception as error:
        failure = UnknotError(said(error))
        failure.__cause__ = error
        return failure
    history.begun = replace(history.begun, experiment=table)
    on.end((one.label, own.seed))
    return history


def _table(experiment: Experiment, one: Contender, seed: int) -> dict[str, Any]:
    """What a file of this one run would say; nothing where no file can."""
    if not experiment.table or one.table is None:
        return {}
    return {**experiment.table, "seed": seed, "method": dict(one.table)}


def _cohort(runs: Sequence[Callable[[], Running[History | UnknotError]]]) -> list[History | UnknotError]:
    """All runs in step; each by itself where something that one of them wants trained cannot be."""
    try:
        return run_together([run() for run in runs], once=True)
    except Exception:
        return [run_alone(run()) for run in runs]


def _kind_of_model(experiment: Experiment, data: FederatedData) -> tuple[str, int]:
    """What models must have in common to share an engine (it has their buffers and base); a model's bytes."""
    with Key.root(experiment.seed).child("init").torch_seed():
        module = maker(experiment, data)()
    digest = hashlib.sha256(Layout.of(module).base.digest.encode())
    for name, buffer in module.named_buffers():
        digest.update(name.encode())
        digest.update(buffer.detach().cpu().numpy().tobytes())
    return digest.hexdigest(), sum(p.numel() * p.element_size() for p in module.parameters())
