"""Means and spreads over seeds: from the records of a panel to its lines, curves and measures."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields

from unknot.experiments.reproduce.plan import MEASURES, Panel, Reproduction, Run
from unknot.experiments.reproduce.records import Record
from unknot.experiments.scenario import Outcome, Rates

Pair = tuple[Run, Record]


@dataclass(frozen=True)
class Stat:
    """Mean and sample deviation over `n` seeds; of `asked` seeds, the others have no value."""

    mean: float
    std: float | None
    n: int
    asked: int

    @staticmethod
    def of(values: Iterable[float | None]) -> Stat | None:
        """None where no seed has a value."""
        every = list(values)
        found = [value for value in every if value is not None]
        if not found:
            return None
        std = statistics.stdev(found) if len(found) > 1 else None
        return Stat(statistics.fmean(found), std, len(found), len(every))


@dataclass(frozen=True)
class After:
    """What followed one request, over the seeds. `rounds` has an item a threshold; None is never."""

    request: str
    """``leave 3``, ``join 10``; ``leave, drawn`` where every case has a client of its own."""
    kind: str
    round: int
    before: Stat | None
    first: Stat | None
    recovering: Stat | None
    end: Stat | None
    rounds: tuple[Stat | None, ...]


@dataclass(frozen=True)
class Curve:
    """Mean accuracy over the rounds, and the least and greatest of the seeds."""

    rounds: tuple[int, ...]
    mean: tuple[float, ...]
    low: tuple[float, ...]
    high: tuple[float, ...]


@dataclass(frozen=True)
class LineFindings:
    """One line of one panel."""

    name: str
    label: str
    guarantee: str
    seeds: tuple[int, ...]
    after: tuple[After, ...]
    curve: Curve
    costs: Rates | None
    seconds: Stat | None
    measures: Mapping[str, Stat]
    by_seed: Mapping[str, Mapping[int, float | None]]
    """The same, before the mean is taken."""
    note: str


@dataclass(frozen=True)
class PanelFindings:
    """A panel: its lines, or why there are none."""

    name: str
    title: str
    thresholds: tuple[float, ...]
    lines: tuple[LineFindings, ...]
    published: Mapping[str, str]
    without: tuple[str, ...]
    labels: Mapping[str, str]
    """Of all lines, those too that were not run."""
    reason: str | None
    note: str


def panel_findings(
    plan: Reproduction, panel: Panel, pairs: Sequence[Pair], absent: str | None
) -> PanelFindings:
    first = next(
        (line.name for line in plan.lines if line.layer.get("method", {}).get("name") == "rfs"), None
    )
    plain = [r.plain for run, r in pairs if run.line.name == first and r.plain is not None]
    lines = []
    for line in plan.lines:
        mine = [pair for pair in pairs if pair[0].line is line]
        if mine:
            lines.append(_line(panel, mine, _mean_rates(plain)))
    reason = panel.not_run or (None if lines else absent or "not run yet")
    return PanelFindings(
        name=panel.name,
        title=panel.title,
        thresholds=panel.thresholds,
        lines=tuple(lines),
        published={name: str(value) for name, value in panel.published.items()},
        without=panel.without,
        labels={line.name: line.label for line in plan.lines},
        reason=reason,
        note=panel.note,
    )


def _line(panel: Panel, pairs: Sequence[Pair], plain: Rates | None) -> LineFindings:
    line, record = pairs[0][0].line, pairs[0][1]
    outcomes = {run.key: r.trace.outcomes(panel.thresholds) for run, r in pairs}
    count = max((len(found) for found in outcomes.values()), default=0)
    after = tuple(_after(i, pairs, outcomes, len(panel.thresholds)) for i in range(count))
    values = _measures(pairs, outcomes)
    rates = _mean_rates([r.rates for _, r in pairs if r.rates is not None])
    return LineFindings(
        name=line.name,
        label=line.label,
        guarantee=record.guarantee,
        seeds=tuple(sorted({run.seed for run, _ in pairs})),
        after=after,
        curve=_curve(pairs),
        costs=rates.over(plain) if rates and plain else None,
        seconds=Stat.of(r.seconds for _, r in pairs),
        measures={name: stat for name, found in values.items() if (stat := Stat.of(found.values()))},
        by_seed=values,
        note=line.note,
    )


def by_seed(pairs: Sequence[Pair], value: Mapping[str, float | None]) -> dict[int, float | None]:
    """A value a seed: the mean over its cases, each as often as it was drawn."""
    weighed: dict[int, list[tuple[float, float | None]]] = {}
    for run, _ in pairs:
        weighed.setdefault(run.seed, []).append((run.weight, value[run.key]))
    found: dict[int, float | None] = {}
    for seed, cases in weighed.items():
        there = [(weight, item) for weight, item in cases if item is not None]
        whole = len(there) == len(cases)
        found[seed] = sum(w * x for w, x in there) / sum(w for w, _ in there) if whole else None
    return found


def _after(
    index: int, pairs: Sequence[Pair], outcomes: Mapping[str, Sequence[Outcome]], thresholds: int
) -> After:
    found = {key: several[index] for key, several in outcomes.items() if index < len(several)}
    there = [pair for pair in pairs if pair[0].key in found]
    sample = found[there[0][0].key]
    names = {outcome.clients for outcome in found.values()}
    verb = "leave" if sample.kind == "erase" else "join"

    def stat(name: str) -> Stat | None:
        values = by_seed(there, {key: getattr(outcome, name) for key, outcome in found.items()})
        return Stat.of(values.values())

    return After(
        request=f"{verb}, drawn" if len(names) > 1 else f"{verb} {', '.join(map(str, sample.clients))}",
        kind=sample.kind,
        round=sample.round,
        before=stat("before"),
        first=stat("after"),
        recovering=stat("recovering"),
        end=stat("end"),
        rounds=tuple(
            Stat.of(by_seed(there, {key: o.reached[i].rounds for key, o in found.items()}).values())
            for i in range(thresholds)
        ),
    )


def _measures(
    pairs: Sequence[Pair], outcomes: Mapping[str, Sequence[Outcome]]
) -> dict[str, dict[int, float | None]]:
    """What claims are about, by name; the mean over the departures of a run."""
    values: dict[str, dict[str, float | None]] = {name: {} for name in MEASURES}
    for run, record in pairs:
        left = [outcome for outcome in outcomes[run.key] if outcome.kind == "erase"]
        values["recovering"][run.key] = _mean([outcome.recovering for outcome in left])
        values["first"][run.key] = _mean([outcome.after for outcome in left])
        values["end"][run.key] = _mean([outcome.end for outcome in left])
        values["rise"][run.key] = _mean([_less(outcome.end, outcome.before) for outcome in left])
        values["rounds"][run.key] = left[0].reached[0].rounds if left and left[0].reached else None
        values["ids"][run.key] = record.extra.get("ids")
    return {name: by_seed(pairs, value) for name, value in values.items()}


def _mean(values: Sequence[float | None]) -> float | None:
    there = [value for value in values if value is not None]
    return statistics.fmean(there) if there else None


def _less(a: float | None, b: float | None) -> float | None:
    return None if a is None or b is None else a - b


def _curve(pairs: Sequence[Pair]) -> Curve:
    curves = {run.key: record.trace.curve() for run, record in pairs}
    places = sorted(set.intersection(*(set(curve) for curve in curves.values())))
    columns = [by_seed(pairs, {key: curve[place] for key, curve in curves.items()}) for place in places]
    values = [[value for value in column.values() if value is not None] for column in columns]
    return Curve(
        rounds=tuple(round_ for round_, _ in places),
        mean=tuple(statistics.fmean(column) for column in values),
        low=tuple(min(column) for column in values),
        high=tuple(max(column) for column in values),
    )


def _mean_rates(rates: Sequence[Rates]) -> Rates | None:
    if not rates:
        return None
    return Rates(*(statistics.fmean(getattr(rate, item.name) for rate in rates) for item in fields(Rates)))
