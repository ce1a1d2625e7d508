"""What a source in the text on the reproductions names, from the records.

| source | is |
|---|---|
| ``exact-table1 mnist mmt first`` | the mean of that measure of that line in that panel of that page |
| ``… after.0.before`` | of the first request |
| ``… by_seed.end.0`` | of one seed; ``least`` and ``most`` of all |
| ``… kept.1`` | when the panel's second target is reached |
| ``diff knot-fig5 location30 knot fedbuff kept`` | a line less another, as claims have it: ``−7 [−9, +3]`` |
| ``… sparse`` | the same, the first line looked at only when the second reports |
| ``less knot-fig5 mnist-writers knot`` | by how many per cent its total is less than the baseline's |
| ``seeds knot-fig5 location30 knot`` | how many seeds a line has; without it, each line of the panel |
| ``… total`` | in how many that measure has a value |
| ``… drop above 10`` | in how many it is above a number or another measure; or ``below`` |
| ``same knot-fig4 mnist random random-back`` | in how many seeds two lines end with the same model |
| ``parted incentive-fig4d evolutionary greedy`` | in how many seeds two policies part the clients alike |
| ``… apart.4`` | how many clients they put elsewhere in that seed |
| ``reports knot-fig5 location30 knot 0`` | a seed's reports after the request |
| ``… there`` | those of them at the target |
| ``draws incentive-fig4a`` | how many draws a page of games has |
| ``… periods 300 above greedy`` | in how many the game is above a policy there; ``level``, ``below`` |
| ``… clients least below greedy`` | the same, the fewest of all places |
| ``set knot-fig4 mnist target.0`` | a panel's target; ``request``: the moment of its first request |
| ``set incentive-fig4d within`` | the bound of a page's claims |
| ``set exact-fig1 mnist mmt data.clients`` | what a line's experiment says |
| ``paper knot-fig6a shakespeare knot`` | the published figure beside the page's own |
| ``paper incentive-fig5c about`` | the one that the page's claims name as published |
| ``paper`` | a published figure that no page has: nothing holds it |

How two lines stand to each other may have a source, too: ``level<!--way knot-fig5 cifar10 knot random
total-->``. As claims are judged, by that measure the first is before or behind the second, or level with it.
``&`` joins several that it is so of.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from unknot import reproduce
from unknot.core.keys import Key
from unknot.core.metrics import METRICS
from unknot.experiments.courses import on_grid, served
from unknot.incentive import beside
from unknot.reproduce import records
from unknot.reproduce.claims import judge
from unknot.reproduce.intervals import Interval
from unknot.reproduce.measures import LineFindings
from unknot.reproduce.parts import ARRIVALS, QUALITIES, Claim
from unknot.reproduce.played import found_draws
from unknot.reproduce.records import Record
from unknot.reproduce.reproduction import Reproduction
from unknot.reproduce.runner import stores_of
from unknot.reproduce.verdicts import Comparison
from unknot.topology import populations_by_size, share_clusters

RESULTS = Path(__file__).parents[1] / "docs" / "results"


@cache
def found(name: str, place: int = 0) -> Any:
    """What came out of a reproduction, from its records; with the target of that place as the first."""
    plan = reproduce.load(name)
    if place and isinstance(plan, Reproduction):
        panels = (replace(panel, thresholds=panel.thresholds[place:]) for panel in plan.panels)
        plan = replace(plan, panels=tuple(panels))
    return reproduce.findings(plan, "paper", reproduce.records_file(plan, "paper", RESULTS))


@cache
def shown(name: str) -> Mapping[str, Any]:
    """What the page of a reproduction shows."""
    return found(name).to_dict()


def figure(source: str) -> float | Interval:
    """The value that a comment names."""
    first, *rest = source.split()
    kinds = {
        "set": _setting,
        "paper": _published,
        "seeds": _seeds,
        "same": _same,
        "parted": _parted,
        "reports": _reports,
        "draws": _draws,
        "diff": _difference,
        "less": _less,
    }
    return kinds[first](*rest) if first in kinds else _measured(first, *rest)


def _measured(name: str, panel: str, line: str, field: str) -> float:
    mine = _named(_named(shown(name)["panels"], panel)["lines"], line)
    measure, _, place = field.partition(".")
    if measure in ARRIVALS and place:
        return _line(name, panel, line, int(place)).measures[measure].mean
    choices = mine.get("choices", {})  # games have neither
    value: Any = mine.get("measures", {}).get(field) or choices.get(field)
    if value is None:
        value = mine
        for step in field.split("."):
            value = _step(value, step)
    if isinstance(value, Mapping):
        value = value["mean"]
    return float(value) * (100 if field in choices else _factor(name, panel, field))


def _step(value: Any, step: str) -> Any:
    if step in ("least", "most"):
        return (min if step == "least" else max)(one for one in value.values() if one is not None)
    return value[int(step) if step.isdigit() else step]


def _factor(name: str, panel: str, field: str) -> float:
    """Accuracies are shown in per cent, everything else as it is."""
    percent = shown(name)["axis"] != "game" and _named(shown(name)["panels"], panel)["metric"] == "accuracy"
    return 100 if percent and not {*field.split(".")}.isdisjoint(QUALITIES) else 1


def _setting(name: str, *where: str) -> float:
    """A panel's target or the moment of its first request; the bound within which claims call it the same."""
    if where == ("within",):
        return _said(name, WITHIN)
    if len(where) == 3:
        panel, line, key = where
        (value, *more) = {_key(record.config, key) for record in recorded(name, panel, line).values()}
        if more:
            raise LookupError(f"{key} is not the same in all runs")
        return float(value)
    panel, (kind, *place) = _named(shown(name)["panels"], where[0]), where[1].split(".")
    if kind == "request":
        (moment,) = {line["after"][0]["time"] for line in panel["lines"] if line["seeds"]}
        return float(moment)
    if kind != "target":
        raise LookupError(f"a setting is request, target.0 or within, not {kind}")
    return float(panel["thresholds"][int(*place)]) * (100 if panel["metric"] == "accuracy" else 1)


def _key(config: Any, key: str) -> Any:
    for step in key.split("."):
        config = config[step]
    return config


def _published(name: str, *where: str) -> float:
    """The number in what a page shows as published beside a line of its own, or beside its claims."""
    if where == ("about",):
        return _said(name, ABOUT, "published")
    panel, line = where
    (number,) = re.findall(r"\d[\d.]*", _named(shown(name)["panels"], panel)["published"][line])
    return float(number)


def _said(name: str, pattern: re.Pattern[str], where: str = "says") -> float:
    (bound,) = {one for claim in shown(name)["verdicts"] for one in pattern.findall(claim[where])}
    return float(bound)


WITHIN = re.compile(r"within (\d+) points")
ABOUT = re.compile(r"about (\d+) %")


# Counts -----------------------------------------------------------------------------------------


def _seeds(name: str, panel: str, line: str = "", measure: str = "", side: str = "", bound: str = "") -> int:
    """How many seeds there are; or in how many a measure has a value, or one on that side of the bound.

    Of a panel, those of its lines but for such as are held to fewer.
    """
    if not line:
        fewer = next(item.fewer for item in reproduce.load(name).panels if item.name == panel)
        lines = _named(shown(name)["panels"], panel)["lines"]
        (count,) = {len(line["seeds"]) for line in lines if line["name"] not in fewer}
        return count
    kind, _, place = measure.partition(".")
    mine = _line(name, panel, line, int(place or 0))
    if not measure:
        return len(mine.seeds)
    if not side:
        return sum(value is not None for value in mine.by_seed[kind].values())
    if side not in ("above", "below"):
        raise LookupError(f"a measure is above or below something, not {side}")

    def so(seed: int, value: float | None) -> bool:
        other = mine.by_seed[bound][seed] if bound in mine.by_seed else float(bound) / factor
        return (
            value is not None and other is not None and (value > other if side == "above" else value < other)
        )

    factor = _factor(name, panel, kind)
    return sum(so(seed, value) for seed, value in mine.by_seed[kind].items())


def _line(name: str, panel: str, line: str, place: int = 0) -> LineFindings:
    (one,) = (item for item in found(name, place).panels if item.name == panel)
    (mine,) = (item for item in one.lines if item.name == line)
    return mine


def recorded(name: str, panel: str, line: str) -> Mapping[int, Record]:
    """The records of a line, by seed."""
    records_of = _recorded(name)
    if (panel, line) not in records_of:
        raise LookupError(f"there is no record of {line} in {panel}")
    return records_of[panel, line]


@cache
def _recorded(name: str) -> Mapping[tuple[str, str], Mapping[int, Record]]:
    plan = reproduce.load(name)
    stores = stores_of(plan, "paper", reproduce.records_file(plan, "paper", RESULTS))
    there: dict[tuple[str, str], dict[int, Record]] = {}
    for run in plan.runs("paper"):
        if (record := records.find(run, stores)) is not None:
            there.setdefault((run.panel.name, run.line.name), {})[run.seed] = record
    return there


def _same(name: str, panel: str, line: str, other: str) -> int:
    """In how many seeds two lines served the same model in the end."""
    mine, others = recorded(name, panel, line), recorded(name, panel, other)
    ends = (
        (mine[seed].history.ended.model, others[seed].history.ended.model) for seed in mine.keys() & others
    )
    return sum(one is not None and one == other for one, other in ends)


def _parted(name: str, line: str, other: str, apart: str = "") -> int:
    """In how many seeds two policies part the clients alike; or how many clients one seed has elsewhere."""
    plan = reproduce.load(name)
    panel, *_ = plan.panels_at("paper")  # the others divide alike
    parts = {
        (r.line.name, r.seed): _clusters(r.table, r.seed) for r in plan.runs("paper") if r.panel is panel
    }
    elsewhere = {
        seed: max(_strays(parts[a, seed], parts[b, seed]) for a, b in ((line, other), (other, line)))
        for name, seed in parts
        if name == line
    }
    return _step(elsewhere, apart.removeprefix("apart.")) if apart else list(elsewhere.values()).count(0)


def _strays(some: Sequence[frozenset[int]], others: Sequence[frozenset[int]]) -> int:
    """How many clients are in no other's cluster that their own has most in common with."""
    return sum(min(len(mine - theirs) for theirs in others) for mine in some)


def _clusters(table: Mapping[str, Any], seed: int) -> list[frozenset[int]]:
    clients, samples = table["data"]["clients"], table["data"]["samples"]
    sizes = {client: samples[client * len(samples) // clients] for client in range(clients)}
    populations = populations_by_size(sizes, len(samples))
    return [frozenset(c) for c in share_clusters(table["method"]["shares"], populations, Key.root(seed))]


def _reports(name: str, panel: str, line: str, which: str, there: str = "") -> int:
    """How often the served model was measured after the request, or was at the target then."""
    plan = _named(shown(name)["panels"], panel)
    metric = METRICS[plan["metric"]]()
    counts = {}
    for seed, record in recorded(name, panel, line).items():
        points = record.trace.points[record.trace.requests[0].place :]
        values = [record.trace.of_metric(metric, point.value, point.loss) for point in points]
        at = [value for value in values if value is not None and metric.reached(value, plan["thresholds"][0])]
        counts[seed] = len(at if there else points)
    return _step(counts, which)


def _draws(name: str, panel: str = "", place: str = "", side: str = "", line: str = "") -> int:
    """How many draws there are; or in how many the game is above a policy, level with it or below it."""
    plan = reproduce.load(name)
    played = found_draws(
        plan, reproduce.records_file(plan, "paper", RESULTS), plan.draws_at("paper", None)
    ).values()
    if not panel:
        return len(played)
    (sweep,) = (one for one in plan.panels if one.name == panel)
    places = plan.places(sweep)
    mine, other = (
        np.stack([np.broadcast_to(one.values[panel][policy], len(places)) for one in played], axis=1)
        for policy in ("evolutionary", line)
    )
    sides = ("above", "level", "below").index(side)
    counts = [beside(*pair)[sides] for pair in zip(mine, other, strict=True)]
    return min(counts) if place == "least" else counts[places.index(float(place))]


# Differences ------------------------------------------------------------------------------------


def _difference(name: str, panel: str, line: str, other: str, measure: str, sparse: str = "") -> Interval:
    """One line less another, seed by seed, as claims compare them."""
    comparison = compared(name, panel, line, other, measure, sparse)
    if comparison.difference is None or comparison.difference.low is None:
        raise LookupError(f"there is no interval of {line} and {other}")
    return comparison.difference


def compared(name: str, panel: str, line: str, other: str, measure: str, sparse: str = "") -> Comparison:
    kind, _, place = measure.partition(".")
    (one,) = (item for item in found(name, int(place or 0)).panels if item.name == panel)
    if sparse:
        seen = {"seconds": _seen(name, one, line, other)}
        lines = (replace(x, by_seed={**x.by_seed, **seen}) if x.name == line else x for x in one.lines)
        one = replace(one, lines=tuple(lines))
    (verdict,) = judge(Claim(says="", measure=kind, order=((line,), (other,))), [one])
    (comparison,) = verdict.comparisons
    return comparison


def _seen(name: str, panel: Any, line: str, other: str) -> dict[int, float | None]:
    """Seconds to the target for who looks at the first line only when the second reports."""
    metric = METRICS[panel.metric]()
    arrivals: dict[int, float | None] = {}
    for seed, record in recorded(name, panel.name, line).items():
        trace = recorded(name, panel.name, other)[seed].trace
        asked = trace.requests[0]
        times = np.array([asked.time, *(point.time for point in trace.points[asked.place :])])
        values = on_grid(served(record.trace, metric), times).tolist()
        there = (
            t for t, x in zip(times.tolist(), values, strict=True) if metric.reached(x, panel.thresholds[0])
        )
        arrivals[seed] = None if (at := next(there, None)) is None else at - asked.time
    return arrivals


def _less(name: str, panel: str, line: str) -> float:
    """By how many per cent a line's total is less than the baseline's, where both have all seeds."""
    mine, base = (_line(name, panel, one).measures["total"] for one in (line, found(name).baseline))
    if mine.n < mine.asked or base.n < base.asked:
        raise LookupError("somebody did not get there in every seed")
    return 100 * (1 - mine.mean / base.mean)


def _named(items: Sequence[Mapping[str, Any]], name: str) -> Mapping[str, Any]:
    by_name = {item["name"]: item for item in items}
    if name not in by_name:
        raise LookupError(f"there is no {name} among {', '.join(by_name)}")
    return by_name[name]
