"""Run what of a reproduction is still to be run."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import torch

from unknot.core.data import FederatedData
from unknot.core.errors import ConfigError, nearest
from unknot.core.places import VARIABLE, located
from unknot.core.requests import Erase, Join
from unknot.data.dataset import Dataset
from unknot.data.registry import catalogue
from unknot.experiments.config import Experiment
from unknot.experiments.exposed import Exposed
from unknot.experiments.simulate import assemble, dealt, go, read
from unknot.federation import Observer
from unknot.federation.clustered import Clustered
from unknot.reproduce import records
from unknot.reproduce.games import GameReproduction
from unknot.reproduce.played import play_draws
from unknot.reproduce.records import Record, Store
from unknot.reproduce.reproduction import Reproduction, Run
from unknot.text.tokenizer import NAMES
from unknot.topology import aggregated
from unknot.unlearn.bmt_mmt import InfluenceTree
from unknot.unlearn.rapid import Rapid


def reproduce(
    plan: Reproduction | GameReproduction,
    scale: str = "small",
    *,
    seeds: Iterable[int] | None = None,
    device: str | None = None,
    threads: int | None = None,
    rows: int | None = None,
    out: str | Path = "runs",
    only: Sequence[str] = (),
    overrides: Sequence[str] = (),
    tell: Callable[[str], None] = lambda text: None,
    observers: Sequence[Observer] = (),
) -> Path:
    """Run every panel with every line and seed, but for what is done; the file with the records.

    `only` names the lines and panels to run (those that are off run only so). What cannot be run
    because its data is not here is left out, with the reason told. Of games, the seeds are the draws;
    all lines are played together, and on no device.
    """
    file = records_file(plan, scale, out)
    if isinstance(plan, GameReproduction):
        if only:
            raise ConfigError(
                f"{plan.name} is a game: its lines and panels are played together, without --only"
            )
        plan = plan.changed(overrides)
        return play_draws(plan, file, plan.draws_at(scale, seeds), tell)
    runs = plan.runs(scale, seeds, overrides)
    wanted = select(plan, scale, runs, only)
    for run in wanted:
        run.experiment, run.exposure  # noqa: B018 - a mistake in the last run is found before the first
    absent = missing_data(wanted)
    for name, reason in absent.items():
        tell(f"left out {name}: {reason}")
    waiting = [run for run in wanted if run.panel.name not in absent]
    stores = stores_of(plan, scale, file)
    sources, exposed = Sources(), Exposed()
    for number, run in enumerate(waiting, start=1):
        if records.find(run, stores):
            continue
        # Read again before a run, as another process may have been faster; not for each that is done.
        stores[0] = records.read(file)
        if records.find(run, stores):
            continue
        tell(f"{number} of {len(waiting)}: {run.key}")
        records.add(file, _record(run, sources, exposed, device, threads, rows, observers))
    return file


def records_file(plan: Reproduction | GameReproduction, scale: str, out: str | Path) -> Path:
    return Path(out) / f"{plan.name}-{scale}{records.ENDING}"


def stores_of(plan: Reproduction, scale: str, file: Path) -> list[Store]:
    """The records of a reproduction's own file, and of those that it takes runs from, beside it."""
    others = (file.with_name(f"{name}-{scale}{records.ENDING}") for name in plan.uses)
    return [records.read(path) for path in (file, *others)]


def select(plan: Reproduction, scale: str, runs: Sequence[Run], only: Sequence[str]) -> list[Run]:
    """The runs that are named; by default all but those that are off."""
    panels = {panel.name for panel in plan.panels_at(scale)}
    lines = {line.name for line in plan.lines}
    for name in only:
        if name not in panels | lines:
            raise ConfigError(f"{plan.name} has no line or panel {name!r}.{nearest(name, lines | panels)}")
    named_panels, named_lines = panels & set(only), lines & set(only)

    def chosen(run: Run) -> bool:
        return all(
            part.name in named if named else not part.off
            for part, named in ((run.panel, named_panels), (run.line, named_lines))
        )

    return [run for run in runs if chosen(run)]


def left_out(
    plan: Reproduction | GameReproduction, scale: str, only: Sequence[str] = (), overrides: Sequence[str] = ()
) -> dict[str, str]:
    """The titles of panels that cannot be run here because their data is missing, with the reason."""
    if isinstance(plan, GameReproduction):
        return {}
    runs = select(plan, scale, plan.runs(scale, plan.seeds_at(scale)[:1], overrides), only)
    titles = {run.panel.name: run.panel.title for run in runs}
    return {titles[name]: reason for name, reason in missing_data(runs).items()}


def missing_data(runs: Iterable[Run]) -> dict[str, str]:
    """The panels whose data is not here, with the reason."""
    absent: dict[str, str] = {}
    for run in {run.panel.name: run for run in runs}.values():
        spec = run.experiment.data
        entry = next((entry for entry in catalogue(spec.root) if entry.name == spec.name), None)
        if entry is not None and not entry.present:
            absent[run.panel.name] = f"{spec.name} is not here; `unknot data` says how to get it."
        elif lost := [path for path in _also_read(run.experiment) if not located(path).exists()]:
            absent[run.panel.name] = (
                f"{lost[0]} is not here: files of language models go below a folder that ${VARIABLE} names."
            )
    return absent


def needed(run: Run) -> str:
    """What a run reads that does not come with unknot, in words; the same on every machine."""
    experiment = run.experiment
    source = experiment.data.name
    sets = [] if source == "digits" else [f"the data set {source}"]
    return " and ".join([*sets, *_also_read(experiment)])


def _also_read(experiment: Experiment) -> list[str]:
    """The files and folders of a language model that a run reads, as they are named."""
    named = (experiment.model.options.get("path"), experiment.data.options.get("tokenizer"))
    return list(dict.fromkeys(str(path) for path in named if path is not None and path not in NAMES))


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


def _record(
    run: Run,
    sources: Sources,
    exposed: Exposed,
    device: str | None,
    threads: int | None,
    rows: int | None,
    observers: Sequence[Observer],
) -> Record:
    experiment = run.experiment
    engine = experiment.engine
    engine = dataclasses.replace(
        engine,
        device=device or engine.device,
        threads=threads or engine.threads,
        options={**engine.options, **({"rows": rows} if rows and engine.name == "stacked" else {})},
    )
    placed = dataclasses.replace(experiment, engine=engine)
    found: dict[str, float] = {}
    if torch.cuda.is_available():
        torch.cuda.reset_peak_memory_stats()
    if run.exposure is None:
        history = go(assemble(placed, sources.data(placed), observers), placed)
    else:
        history, found = exposed.run(placed, run.exposure, observers)
    if torch.cuda.is_available() and (peak := torch.cuda.max_memory_allocated()):
        found["peak"] = peak / 2**30
    return Record.of(run, history, {**_extra(experiment), "memory": copies_held(experiment), **found})


def copies_held(experiment: Experiment) -> float:
    """How many vectors as long as the model a client holds in training, where it holds most: after a request.

    Weights and gradient, what the optimiser keeps and, where it wants the Hessian's diagonal, a draw and its
    product with the Hessian. What activations take depends on the model and is not in it.
    """
    method = experiment.method.inner if isinstance(experiment.method, Clustered) else experiment.method
    used = [experiment.setup.recipe.optimizer, *([method.optimizer] if isinstance(method, Rapid) else [])]
    return float(max(2 + optimizer.states() + 2 * optimizer.curvature for optimizer in used))


def _extra(experiment: Experiment) -> dict[str, float]:
    """How many models the first departure makes the server aggregate, where there is an influence tree."""
    late = {client for r in experiment.requests if isinstance(r, Join) for client in r.clients}
    leavers = [r.targets[0].client for r in experiment.requests if isinstance(r, Erase)]
    clients = getattr(experiment.data.partition, "clients", None)
    if not isinstance(experiment.method, InfluenceTree) or not leavers or clients is None:
        return {}
    tree = experiment.method.plant(set(range(clients)) - late)
    return {"ids": float(aggregated(tree, leavers[0]))}
