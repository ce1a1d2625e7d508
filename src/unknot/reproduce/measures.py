"""Means and spreads over seeds: from the records of a panel to its lines, curves and measures."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace

from unknot.core.metrics import METRICS
from unknot.experiments.config import Experiment
from unknot.experiments.scenario import Outcome, Rates
from unknot.experiments.seeds import Stat
from unknot.reproduce.cases import Pair, by_seed, known, partly
from unknot.reproduce.curves import Curve, curve_over_rounds, curve_over_time
from unknot.reproduce.measured import brief_in, choices_of, ends_of, measured, ratio, spared_in, watched
from unknot.reproduce.parts import Panel
from unknot.reproduce.records import Record
from unknot.reproduce.reproduction import Reproduction

CLASSES = {
    **dict.fromkeys(("digits", "mnist", "mnist-writers", "fashion-mnist", "cifar10"), 10),
    "femnist": 62,
    "cifar100": 100,
    "purchase100": 100,
    "location30": 30,
}
"""Of the data sets that reproductions use: pages are drawn where the data is not."""


@dataclass(frozen=True)
class After:
    """What followed one request, over the seeds; None is never.

    `rounds` and `seconds` have an item a threshold; what follows them is about the first. `total` and
    `finished` are seconds from the start of the run, the others from the request.
    """

    request: str
    """``leave 3``, ``join 10``; ``leave, drawn`` where every case has a client of its own."""
    kind: str
    round: int
    at: int
    """Where it lies on the curve: the round of the furthest lane."""
    time: float
    before: Stat | None
    first: Stat | None
    recovering: Stat | None
    end: Stat | None
    rounds: tuple[Stat | None, ...]
    seconds: tuple[Stat | None, ...]
    total: Stat | None
    kept: Stat | None
    stopped: Stat | None
    """Until KNOT's stopping rule was met."""
    finished: Stat | None
    aggregated: Stat | None
    """How what was served then did: with clusters, their last aggregation."""


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
    """Real ones; None of runs side by side, whose seconds are those of all, or on machines that differ."""
    measures: Mapping[str, Stat]
    by_seed: Mapping[str, Mapping[int, float | None]]
    """The same, before the mean is taken."""
    ends: Mapping[str, Mapping[int, float]]
    """Until when a threshold could have been reached, by the measure of arrival and seed: the run's end."""
    partly: Mapping[str, Mapping[int, float]]
    """Where some of the cases drawn for a seed arrive and others do not: the mean, in which these count as
    arriving at the end of their own runs."""
    watched: Stat | None
    """Seconds after the first leave until there were as many reports as KNOT's stopping rule looks at."""
    brief: tuple[int, ...]
    """Seeds in which there were fewer."""
    spared: tuple[int, ...]
    """Seeds in which the first leave found nothing to unlearn: no cluster had anything of the client."""
    choices: Mapping[str, Stat]
    """How each model that could have been served did at the end, on test data."""
    lanes: bool
    """Whether the curve's band is of its lanes, and not of the seeds."""
    judged: bool
    """Whether the runs were measured on validation data, which KNOT's stopping rule goes by."""
    central: bool
    """Whether all data is trained on in one place: no federated method."""
    note: str


@dataclass(frozen=True)
class PanelFindings:
    """A panel: its lines, or why there are none."""

    name: str
    title: str
    trained: str
    """What is trained on what, by their names: of what was run."""
    thresholds: tuple[float, ...]
    metric: str
    chance: float | None
    """The accuracy of who guesses; None of other metrics."""
    split: str
    lines: tuple[LineFindings, ...]
    published: Mapping[str, str]
    published_for: str
    """Of which target, data set or model those are, where it is not the one that was run."""
    published_by: tuple[str, ...]
    """The measures that they may be compared with."""
    without: tuple[str, ...]
    labels: Mapping[str, str]
    """Of all lines, those too that were not run."""
    reason: str | None
    earlier: str
    """Of runs that are of an earlier configuration: the settings in which that differs."""
    until: float | None
    note: str


def panel_findings(
    plan: Reproduction, panel: Panel, pairs: Sequence[Pair], not_yet: str | None, earlier: str = ""
) -> PanelFindings:
    first = plan.baseline or next(
        (line.name for line in plan.lines if line.layer.get("method", {}).get("name") == "rfs"), None
    )
    plain = [Rates.of(r.history, until_request=True) for run, r in pairs if run.line.name == first]
    lines = []
    for line in plan.lines:
        mine = [pair for pair in pairs if pair[0].line is line]
        if mine:
            lines.append(_line(panel, mine, _mean_rates(plain), plan.axis == "time"))
    reason = panel.not_run or not_yet
    return PanelFindings(
        name=panel.name,
        title=panel.title,
        trained=_trained(pairs[0][0].experiment) if pairs else "",
        thresholds=panel.thresholds,
        metric=panel.metric,
        chance=chance(pairs[0][0].experiment) if pairs and panel.metric == "accuracy" else None,
        split=pairs[0][1].trace.split if pairs else "test",
        lines=tuple(_with_speedups(lines, plan.baseline)),
        published={name: str(value) for name, value in panel.published.items()},
        published_for=panel.published_for,
        published_by=plan.published_by,
        without=panel.without,
        labels={line.name: line.label for line in plan.lines},
        reason=reason,
        earlier=earlier,
        until=panel.until,
        note=panel.note,
    )


def chance(experiment: Experiment) -> float | None:
    """The accuracy of who guesses; None where nobody knows how many classes there are."""
    answers = experiment.model.options.get("answers")
    classes = len(answers) if isinstance(answers, Sequence) else CLASSES.get(experiment.data.name)
    return None if classes is None else 1 / classes


def _trained(experiment: Experiment) -> str:
    return f"{experiment.model.name} on {experiment.data.name}"


def _line(panel: Panel, pairs: Sequence[Pair], plain: Rates | None, over_time: bool) -> LineFindings:
    line, metric = pairs[0][0].line, METRICS[panel.metric]()
    outcomes = {run.key: r.trace.outcomes(panel.thresholds, metric=metric) for run, r in pairs}
    count = max((len(found) for found in outcomes.values()), default=0)
    after = tuple(_after(i, pairs, outcomes, len(panel.thresholds)) for i in range(count))
    cases = measured(pairs, outcomes, metric)
    values = {name: by_seed(pairs, value) for name, value in cases.items()}
    ends = ends_of(pairs)
    choices = choices_of(pairs, metric)
    lanes = over_time and all(r.trace.several for _, r in pairs)
    rates = _mean_rates([Rates.of(r.history) for _, r in pairs])
    return LineFindings(
        name=line.name,
        label=line.label,
        guarantee=" / ".join(dict.fromkeys(r.history.guarantee for _, r in pairs)),
        seeds=tuple(sorted({run.seed for run, _ in pairs})),
        after=after,
        curve=curve_over_time(pairs, metric, lanes) if over_time else curve_over_rounds(pairs, metric),
        costs=rates.over(plain) if rates and plain else None,
        seconds=_real_seconds([r for _, r in pairs]),
        measures=_stats(values),
        by_seed=values,
        ends={name: known(by_seed(pairs, found)) for name, found in ends.items()},
        partly={name: partly(pairs, cases[name], found) for name, found in ends.items()},
        watched=Stat.of(by_seed(pairs, {run.key: watched(record) for run, record in pairs}).values()),
        brief=brief_in(pairs),
        spared=spared_in(pairs),
        choices=_stats(choices),
        lanes=lanes,
        judged=all(r.trace.judged for _, r in pairs),
        central=pairs[0][0].table.get("method", {}).get("name") == "standalone",
        note=line.note,
    )


def _real_seconds(records: Sequence[Record]) -> Stat | None:
    """None where they say nothing of the line: of runs side by side, or on machines that differ."""
    alone = all(record.machine.get("together", 1) == 1 for record in records)
    places = {tuple(record.machine.get(name) for name in ("gpu", "cpu", "cores")) for record in records}
    return (
        Stat.of(record.history.seconds["total"] for record in records) if alone and len(places) == 1 else None
    )


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

    def arrival(name: str, threshold: int = 0, *, whole: bool = False) -> Stat | None:
        """Of a field of `Reached`; `whole` counts from the start of the run."""
        if threshold >= thresholds:
            return None
        values: dict[str, float | None] = {}
        for key, outcome in found.items():
            value = getattr(outcome.reached[threshold], name)
            values[key] = value + outcome.time if whole and value is not None else value
        return Stat.of(by_seed(there, values).values())

    return After(
        request=f"{verb}, drawn" if len(names) > 1 else f"{verb} {', '.join(map(str, sample.clients))}",
        kind=sample.kind,
        round=sample.round,
        at=sample.at,
        time=statistics.fmean(outcome.time for outcome in found.values()),
        before=stat("before"),
        first=stat("after"),
        recovering=stat("recovering"),
        end=stat("end"),
        rounds=tuple(arrival("rounds", i) for i in range(thresholds)),
        seconds=tuple(arrival("seconds", i) for i in range(thresholds)),
        total=arrival("seconds", whole=True),
        kept=arrival("kept"),
        stopped=arrival("stopped"),
        finished=arrival("stopped", whole=True),
        aggregated=arrival("aggregated"),
    )


def _with_speedups(lines: Sequence[LineFindings], baseline: str | None) -> list[LineFindings]:
    """How many times sooner than the baseline each line arrives; where both do."""
    base = next((line.by_seed["total"] for line in lines if line.name == baseline), {})
    found = []
    for line in lines:
        values = {seed: ratio(base.get(seed), total) for seed, total in line.by_seed["total"].items()}
        measured = {**line.by_seed, "speedup": values}
        found.append(replace(line, by_seed=measured, measures=_stats(measured)))
    return found


def _stats(values: Mapping[str, Mapping[int, float | None]]) -> dict[str, Stat]:
    return {name: stat for name, found in values.items() if (stat := Stat.of(found.values()))}


def _mean_rates(rates: Sequence[Rates | None]) -> Rates | None:
    there = [rate for rate in rates if rate is not None]
    if not there:
        return None
    return Rates(*(statistics.fmean(getattr(rate, item.name) for rate in there) for item in fields(Rates)))
