"""Whether a page's records are what today's configuration asks for: nothing is trained, no data is read."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from unknot.core.errors import ConfigError, DataError
from unknot.core.fields import choose
from unknot.experiments.config import Experiment
from unknot.experiments.seeds import parse_seeds
from unknot.federation.promise import Uncovered
from unknot.reproduce import record_file, records
from unknot.reproduce.differences import difference
from unknot.reproduce.findings import Findings, earlier, findings
from unknot.reproduce.game_findings import GameFindings
from unknot.reproduce.games import GameReproduction
from unknot.reproduce.page import doubt
from unknot.reproduce.parts import SCALES
from unknot.reproduce.played import draw_key, found_draws, read_draws
from unknot.reproduce.records import Record, Store
from unknot.reproduce.reproduction import Reproduction, Run, case_of, load, names
from unknot.reproduce.runner import records_file, stores_of

Plan = Reproduction | GameReproduction
PAGE = ".md"
OPTIONS = ("--scale", "--seeds", "--set")
"""That the command of a page may have."""
COMMAND = re.compile(r"^\$ (unknot reproduce .*)$", re.MULTILINE)


@dataclass(frozen=True)
class Asked:
    """A page of a folder: of which reproduction it is, at which scale, with which seeds and settings."""

    plan: Plan
    scale: str
    folder: Path
    command: str
    seeds: tuple[int, ...] | None = None
    overrides: tuple[str, ...] = ()

    @property
    def stem(self) -> str:
        return f"{self.plan.name}-{self.scale}"

    def beside(self, kind: str) -> Path:
        """The page or a picture, by how its name ends."""
        return self.folder / f"{self.stem}.{kind}"

    @property
    def beyond(self) -> str:
        """What it is asked for beside the configuration."""
        seeds = [] if self.seeds is None else [f"--seeds {','.join(map(str, self.seeds))}"]
        return " ".join([*seeds, *(f"--set {change}" for change in self.overrides)])

    @property
    def file(self) -> Path:
        return records_file(self.plan, self.scale, self.folder)

    def findings(self) -> Findings | GameFindings:
        return findings(self.plan, self.scale, self.file, self.seeds, self.overrides)


@dataclass(frozen=True)
class Stale:
    """Records that fit no run of today, and the first settings in which they differ."""

    records: tuple[str, ...]
    why: str


@dataclass(frozen=True)
class Checked:
    """What the records of a page lack. All is told by panel, line and seeds, or by draws."""

    name: str
    scale: str
    runs: int
    """That are asked for and recorded; one that two panels show counts once."""
    missing: tuple[str, ...]
    """Asked for but not recorded, of panels of which others are."""
    not_run: tuple[str, ...]
    """Panels of which nothing is recorded; the page says so."""
    earlier: tuple[str, ...]
    """Panels that show runs of an earlier configuration; the page says so, too."""
    stale: tuple[Stale, ...]
    asked: str
    """What the page's command asks for beside the configuration: ``--seeds 0``."""
    shown: int
    """How many records the page shows, those of an earlier configuration with them."""
    doubts: Mapping[str, int]
    """How many of these cannot be traced to a commit, by why."""

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def pages(folder: Path, name: str | None = None, scale: str | None = None) -> list[Asked]:
    """The pages of a folder of reproductions that come with unknot, or of the one that is named.

    With a `scale`, those of that alone.
    """
    if not folder.is_dir():
        raise DataError(f"{folder} is not a folder: name the one that has pages and records")
    choose(dict.fromkeys(SCALES), scale or SCALES[0], "--scale")
    known = names() if name is None else (name,)
    found = [asked for each in known for asked in _pages_of(each, folder)]
    chosen = [asked for asked in found if scale in (None, asked.scale)]
    if found and not chosen:
        there = " and ".join(dict.fromkeys(asked.scale for asked in found))
        raise DataError(f"{folder} has no page of --scale {scale}: those there are of {there}")
    if not found:
        if name is None and (other := _others(folder)):
            raise DataError(
                f"{folder} has pages of {', '.join(other)}, which did not come with unknot: name the file of "
                f"one, `unknot reproduce {other[0]}.toml --check {folder}`"
            )
        whose = "a reproduction" if name is None else load(name).name
        raise DataError(f"{folder} has no page and no records of {whose}: `unknot reproduce` makes them")
    return chosen


def _others(folder: Path) -> list[str]:
    """By how pages and records are called, of which reproductions there are some."""
    endings = [f"-{scale}{kind}" for scale in SCALES for kind in (PAGE, record_file.ENDING)]
    stems = (
        path.name.removesuffix(ending)
        for path in sorted(folder.iterdir())
        for ending in endings
        if path.name.endswith(ending)
    )
    return list(dict.fromkeys(stem for stem in stems if stem))


def check(asked: Asked) -> Checked:
    """What the records of a page lack, beside today's configuration."""
    if isinstance(asked.plan, GameReproduction):
        return _check_draws(asked, asked.plan.changed(asked.overrides))
    return _check_runs(asked, asked.plan)


def _pages_of(name: str, folder: Path) -> Iterator[Asked]:
    """A page counts, and so do records that nobody has drawn yet."""
    plan = load(name)
    for scale in (scale for scale in SCALES if scale in plan.scales):
        page, file = folder / f"{plan.name}-{scale}{PAGE}", records_file(plan, scale, folder)
        asked = Asked(plan, scale, folder, _command(name, scale))
        if page.exists():
            yield _told(asked, page)
        elif record_file.kept(file):
            yield asked


def _told(asked: Asked, page: Path) -> Asked:
    """What the command of a page says that it is asked for; one of another page is a mistake."""
    said = COMMAND.search(page.read_text())
    if not said:
        return asked
    try:
        named, given = _read_command(shlex.split(said[1]))
        seeds = parse_seeds(given["--seeds"][0]) if "--seeds" in given else None
    except (ValueError, ConfigError) as error:
        raise DataError(f"{page}: its command cannot be read ({error}): draw the page anew") from None
    scale = given.get("--scale", [SCALES[0]])[0]
    if (Path(named).name.removesuffix(".toml"), scale) != (asked.plan.name, asked.scale):
        raise DataError(
            f"{page} has the command of another page, `{said[1]}`: draw it with `{asked.command}`"
        )
    return replace(asked, command=said[1], seeds=seeds, overrides=tuple(given.get("--set", ())))


def _read_command(words: Sequence[str]) -> tuple[str, dict[str, list[str]]]:
    """Which reproduction is named, and what is given with each option; what no page's command has is refused.

    Behind ``unknot reproduce``.
    """
    left = list(words[2:])
    named: list[str] = []
    given: dict[str, list[str]] = {}
    while left:
        word, is_set, value = left.pop(0).partition("=")
        if word not in OPTIONS:
            named.append(word + is_set + value)
            continue
        if not is_set and not left:
            raise ValueError(f"{word} has no value")
        given.setdefault(word, []).append(value if is_set else left.pop(0))
    if strange := [word for place, word in enumerate(named) if place or word.startswith("-")]:
        raise ValueError(f"{strange[0]!r} is no part of it; beside the name it has {', '.join(OPTIONS)}")
    if twice := [word for word, values in given.items() if len(values) > 1 and word != "--set"]:
        raise ValueError(f"it has {twice[0]} twice")
    return "".join(named), given


def _command(name: str, scale: str) -> str:
    return f"unknot reproduce {name} --scale {scale}"


# Federated runs ---------------------------------------------------------------------------------


def _check_runs(asked: Asked, plan: Reproduction) -> Checked:
    stores = stores_of(plan, asked.scale, asked.file)
    runs = plan.runs(asked.scale, asked.seeds, asked.overrides)
    found = {run.key: records.find(run, stores) for run in runs}
    there = {run.panel.name for run in runs if found[run.key]}
    wanted = [run for run in runs if not run.panel.off and not run.line.off]
    missing = [run for run in wanted if not found[run.key]]
    old = [] if asked.overrides else earlier([run for run in runs if run.panel.name not in there], stores)
    used = {id(record): record for record in found.values() if record}
    shown = {**used, **{id(record): record for _, record in old}}
    then = {run.panel.name for run, _ in old}
    waiting = {run.panel.name for run in missing} - there - then
    return Checked(
        plan.name,
        asked.scale,
        runs=len(used),
        missing=tuple(_by_panel([run for run in missing if run.panel.name in there])),
        not_run=tuple(p.name for p in plan.panels_at(asked.scale) if p.not_run or p.name in waiting),
        earlier=tuple(panel.name for panel in plan.panels_at(asked.scale) if panel.name in then),
        stale=tuple(_stale(asked, plan, stores[0])),
        asked=asked.beyond,
        shown=len(shown),
        doubts=_doubts(shown.values()),
    )


def _stale(asked: Asked, plan: Reproduction, store: Store) -> Iterator[Stale]:
    """Of the page's own file: what neither the page asks for nor a reproduction that takes runs from it.

    And what goes by the name of another run than it is of.
    """
    told = {key: records.same(record.config) for key, record in store.records.items()}
    fit = {records.same(run.table) for run in plan.runs(asked.scale, asked.seeds, asked.overrides)}
    if not fit.issuperset(told.values()):
        fit |= {records.same(run.table) for other in _users(plan, asked.scale) for run in other}
    lost = {key: record for key, record in store.records.items() if told[key] not in fit}
    seeds = dict.fromkeys(record.config.get("seed") for record in lost.values())
    beyond = plan.runs(asked.scale, [seed for seed in seeds if isinstance(seed, int)], asked.overrides)
    by_key, others = {run.key: run for run in beyond}, {records.same(run.table) for run in beyond}
    why: dict[str, list[str]] = {}
    for key, record in store.records.items():
        if (own := _own_key(record, plan)) != key:
            words = f"by its configuration it is {own}"
        elif key not in lost:
            if not (words := _other_promise(record)):
                continue
        elif told[key] in others:
            words = f"seed {record.config['seed']} is not asked for"
        else:
            words = _differ(record, by_key[key]) if key in by_key else "no such panel, line or case today"
        why.setdefault(words, []).append(key)
    return (Stale(tuple(keys), words) for words, keys in why.items())


def _other_promise(record: Record) -> str:
    """What is promised today, where it is something else: it may have been found to be too much since."""
    experiment = Experiment.of({key: part for key, part in record.config.items() if key != "audit"})
    length, setup, history = experiment.length, experiment.setup, record.history
    uncovered = Uncovered(
        erased=any(served.kind == "erase" and served.clients for served in history.served),
        timed=length.seconds is not None or any(r.at.time is not None for r in experiment.requests),
        judged="" if length.target is None else history.metric.name,
    )
    today = uncovered.of(experiment.method, setup.select, setup.pace)
    if history.guarantee == today or experiment.model.initial is not None:  # that depends on who shaped it
        return ""
    return f"its guarantee is {history.guarantee!r}, and today's is {today!r}"


def _own_key(record: Record, plan: Reproduction) -> str:
    """Panel, line, seed and, where leavers are drawn, the case, as the configuration has them."""
    _, _, place = str(record.config.get("name")).partition("/")
    own = f"{place}/{record.config.get('seed')}"
    leavers = [item["erase"] for item in record.config.get("request", []) if "erase" in item]
    return f"{own}/{case_of(leavers[0])}" if plan.draws is not None and leavers else own


def _users(plan: Reproduction, scale: str) -> Iterator[list[Run]]:
    """The runs of those that come with unknot and take runs from this one."""
    for name in names():
        other = load(name)
        if isinstance(other, Reproduction) and plan.name in other.uses and scale in other.scales:
            yield other.runs(scale)


def _differ(record: Record, run: Run) -> str:
    return difference(record.config, records.plain_json(run.table))


def _by_panel(runs: Iterable[Run]) -> Iterator[str]:
    """``mnist: mmt, bmt (seeds 1, 2), rfs (seed 0)``."""
    panels: dict[str, dict[str, list[int]]] = {}
    for run in runs:
        seeds = panels.setdefault(run.panel.name, {}).setdefault(run.line.name, [])
        if run.seed not in seeds:
            seeds.append(run.seed)
    for panel, lines in panels.items():
        alike: dict[str, list[str]] = {}
        for line, seeds in lines.items():
            alike.setdefault(_numbers("seed", seeds), []).append(line)
        yield f"{panel}: " + ", ".join(f"{', '.join(some)} ({seeds})" for seeds, some in alike.items())


# Games ------------------------------------------------------------------------------------------


def _check_draws(asked: Asked, plan: GameReproduction) -> Checked:
    draws = plan.draws_at(asked.scale, asked.seeds)
    found = found_draws(plan, asked.file, draws)
    missing = [draw for draw in draws if draw not in found]
    why: dict[str, list[str]] = {}
    for record in read_draws(plan, asked.file).values():
        draw = int(record.config["draw"])
        now = plan.config(draw)
        if record.key != draw_key(draw):
            words = f"by its configuration it is {draw_key(draw)}"
        elif record.config != now:
            words = difference(record.config, now)
        elif draw not in draws:
            words = "not asked for"
        else:
            continue
        why.setdefault(words, []).append(record.key)
    return Checked(
        plan.name,
        asked.scale,
        runs=len(found),
        missing=(_numbers("draw", missing),) if missing and found else (),
        not_run=() if found else tuple(panel.name for panel in plan.panels),
        earlier=(),
        stale=tuple(Stale(tuple(keys), words) for words, keys in why.items()),
        asked=asked.beyond,
        shown=len(found),
        doubts=_doubts(found.values()),
    )


def _doubts(made: Iterable[Any]) -> dict[str, int]:
    found: dict[str, int] = {}
    for record in made:
        if why := doubt(record):
            found[why] = found.get(why, 0) + 1
    return found


def _numbers(what: str, numbers: Sequence[int]) -> str:
    """``seeds 0 to 4``, ``seeds 0, 2``, ``seed 3``."""
    first, last = numbers[0], numbers[-1]
    if len(numbers) == 1:
        return f"{what} {first}"
    if list(numbers) == list(range(first, last + 1)) and len(numbers) > 2:
        return f"{what}s {first} to {last}"
    return f"{what}s {', '.join(map(str, numbers))}"
