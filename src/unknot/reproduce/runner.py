"""Run what of a reproduction is still to be run."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from unknot.core.errors import ConfigError, DataError, nearest
from unknot.core.places import VARIABLE, folders, located
from unknot.data.registry import catalogue
from unknot.engine.workers import check_threads
from unknot.experiments.config import Experiment
from unknot.experiments.results import check_folder
from unknot.federation import Observer
from unknot.reproduce import record_file, records
from unknot.reproduce.differences import MOST, difference
from unknot.reproduce.games import GameReproduction
from unknot.reproduce.made import Made, check_together, side_by_side
from unknot.reproduce.overrides import check_overrides
from unknot.reproduce.parts import SCALES
from unknot.reproduce.played import draw_key, found_draws, play_draws, read_draws
from unknot.reproduce.records import Store
from unknot.reproduce.reproduction import Reproduction, Run, names
from unknot.text.tokenizer import NAMES


def reproduce(
    plan: Reproduction | GameReproduction,
    scale: str = "small",
    *,
    seeds: Iterable[int] | None = None,
    device: str | None = None,
    threads: int | None = None,
    rows: int | None = None,
    out: str | Path = "runs",
    together: int = 1,
    only: Sequence[str] = (),
    overrides: Sequence[str] = (),
    tell: Callable[[str], None] = lambda text: None,
    observers: Sequence[Observer] = (),
) -> Path:
    """Run every panel with every line and seed, but for what is done; the file with the records.

    Up to `together` lines of a panel are run side by side, of one seed, on one engine: each ends as it would
    alone, the seconds in its record are those of all of them, and the engine's memory is not measured.

    `only` names the lines and panels to run (those that are off run only so). What cannot be run
    because its data is not here is left out, with the reason told. Of games, the seeds are the draws;
    all lines are played together, and on no device.
    """
    check_threads(threads)
    check_together(together)
    file = records_file(plan, scale, out)
    if isinstance(plan, GameReproduction):
        if only:
            raise ConfigError(
                f"{plan.name} is a game: its lines and panels are played together, without --only"
            )
        plan, draws = plan.changed(overrides), plan.draws_at(scale, seeds)
        if other := replaced(plan, scale, out, draws):
            tell(other)
        if len(found_draws(plan, file, draws)) < len(set(draws)):
            check_folder(out, force=True)
        return play_draws(plan, file, draws, tell)
    check_overrides(plan, scale, overrides)
    runs = plan.runs(scale, seeds, overrides)
    wanted = select(plan, scale, runs, only)
    for run in wanted:
        run.experiment, run.exposure  # noqa: B018 - a mistake in the last run is found before the first
    absent = missing_data(wanted)
    waiting = [run for run in wanted if run.panel.name not in absent]
    stores = stores_of(plan, scale, file)
    if not waiting and (only or wanted) and not any(records.find(run, stores) for run in wanted):
        raise DataError(f"nothing that was asked for can be run: {_why_not(plan, scale, wanted, only)}")
    for name, reason in absent.items():
        tell(f"left out {name}: {reason}")
    still = [run for run in waiting if not records.find(run, stores)]
    if still:
        check_folder(out, force=True)
    if other := _replacing(still, stores, file):
        tell(other)
    made = Made(device, threads, rows, observers)
    made.check(still)
    number = {run.key: f"{place} of {len(waiting)}" for place, run in enumerate(waiting, start=1)}
    for group in side_by_side(still, together):
        # Read again before a run, as another process may have been faster.
        stores[0] = records.read(file)
        if left := [run for run in group if not records.find(run, stores)]:
            tell("; ".join(f"{number[run.key]}: {run.key}" for run in left))
            for record in made.records(left):
                records.add(file, record)
    return file


def records_file(plan: Reproduction | GameReproduction, scale: str, out: str | Path) -> Path:
    return Path(out) / f"{plan.name}-{scale}{record_file.ENDING}"


def stores_of(plan: Reproduction, scale: str, file: Path) -> list[Store]:
    """The records of a reproduction's own file, and of those that it takes runs from, beside it."""
    for name in plan.uses:
        kept = [file.with_name(f"{name}-{size}{record_file.ENDING}") for size in SCALES]
        if name not in names() and not any(path.exists() for path in kept):
            raise ConfigError(
                f"{plan.name} uses {name!r}, but there is no reproduction of that name, and no file "
                f"{kept[0]}: correct the name, or run yours first.{nearest(name, names())}"
            )
    others = (file.with_name(f"{name}-{scale}{record_file.ENDING}") for name in plan.uses)
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


def replaced(
    plan: Reproduction | GameReproduction,
    scale: str,
    out: str | Path,
    seeds: Iterable[int] | None = None,
    only: Sequence[str] = (),
    overrides: Sequence[str] = (),
) -> str:
    """Which records of other settings give way to what is still to be run, in words; nothing if none do."""
    file = records_file(plan, scale, out)
    if isinstance(plan, GameReproduction):
        plan = plan.changed(overrides)
        draws, then = plan.draws_at(scale, seeds), read_draws(plan, file)
        there = found_draws(plan, file, draws)
        again = [draw for draw in draws if draw not in there and draw_key(draw) in then]
        why = [difference(then[draw_key(draw)].config, plan.config(draw)) for draw in again]
        return _replace_words(why, "draw", file)
    runs = select(plan, scale, plan.runs(scale, seeds, overrides), only)
    absent = missing_data(runs)
    stores = stores_of(plan, scale, file)
    still = [run for run in runs if run.panel.name not in absent and not records.find(run, stores)]
    return _replacing(still, stores, file)


def _replacing(still: Iterable[Run], stores: Sequence[Store], file: Path) -> str:
    """Of runs that are still to be made, which have a record of other settings."""
    then = stores[0].records
    again = [run for run in still if run.key in then]
    why = [difference(then[run.key].config, records.plain_json(run.table)) for run in again]
    return _replace_words(why, "run", file)


def _replace_words(why: Sequence[str], what: str, file: Path) -> str:
    if not why:
        return ""
    told = f"1 {what} replaces a record" if len(why) == 1 else f"{len(why)} {what}s replace records"
    parts = [*dict.fromkeys(part for text in why for part in text.split("; "))]
    differ = "; ".join([*parts[:MOST], *(["..."] if len(parts) > MOST else [])])
    return f"{told} of other settings in {file}: {differ}; --out DIR keeps both"


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


def _why_not(plan: Reproduction, scale: str, wanted: Sequence[Run], only: Sequence[str]) -> str:
    """Why nothing can be run of what is wanted: its data is not here, or there is no such run."""
    if not wanted:
        never = [p for p in plan.panels_at(scale) if p.name in only and p.not_run is not None]
        said = [f"{panel.name}: {panel.not_run}" for panel in never]
        return " ".join(said) or f"no panel that is run has {' and '.join(only)} at once, of these seeds"
    reasons = " ".join(dict.fromkeys(missing_data(wanted).values()))
    if all(run.experiment.data.root is not None for run in wanted):
        return reasons
    wrong = [str(folder) for folder in folders() if not folder.is_dir()]
    if wrong:
        what = "is no folder" if len(wrong) == 1 else "are no folders"
        return f"{reasons} ${VARIABLE} names {' and '.join(wrong)}, which {what}."
    return reasons if folders() else f"{reasons} ${VARIABLE} is not set."


def needed(run: Run) -> list[str]:
    """What a run reads that does not come with unknot, in words; the same on every machine."""
    experiment = run.experiment
    source = experiment.data.name
    sets = [] if source == "digits" else [f"the data set {source}"]
    return [*sets, *_also_read(experiment)]


def _also_read(experiment: Experiment) -> list[str]:
    """The files and folders of a language model that a run reads, as they are named."""
    named = (experiment.model.options.get("path"), experiment.data.options.get("tokenizer"))
    return list(dict.fromkeys(str(path) for path in named if path is not None and path not in NAMES))
