"""The tables of a reproduction that counts simulated time: how soon, how well, at what cost."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from unknot.report.cells import NONE, Rows, Shown, against, count, not_run, quality, target

SUBTITLE = "Simulated seconds to a threshold, and accuracies in %: mean ± standard deviation over n seeds."
NO_REQUEST = {"request": NONE, "time": None, "before": None, "first": None, "end": None}
COSTS = {"client_epochs": "client epochs a second", "bytes_sent": "sent a second"}
MADE = (
    "Mean ± sample standard deviation over n seeds; accuracies in per cent, times in simulated seconds. "
    "*To 75 %*: seconds from the request until the served model first reached it. *Total*: the same from the "
    "start of the run, from where the *paper* counts too. *Beside*: what of the time is saved, by the "
    "means, beside {baseline}. *For good*: until it was reached and not lost again before the end, or the "
    "next request. *Paper's rule*: until the best cluster's own model was there and steady, its standard "
    "deviation over 5 reports at most 0.01; one lane is measured by what is served. *Right after*: the "
    "model right after the request. *End*: the last measurement before the next request. *Test*: "
    "what was served at the end of the run, on test data; beside it what the clusters' mean, the best "
    "of them or all together would have given, where that was a choice. Costs are those of a simulated "
    "second, over the whole run, as multiples of {baseline}'s before its first request. {band}"
)
BAND = (
    "In the figure, the band of a line with clusters is from the worst to the best of them (mean over the "
    "seeds); that of other lines is from the least to the greatest of the seeds."
)


def made(findings: Shown) -> str:
    """What the columns are."""
    labels = {name: label for panel in findings["panels"] for name, label in panel["labels"].items()}
    banded = any(line["lanes"] for panel in findings["panels"] for line in panel["lines"])
    text = MADE.format(
        baseline=labels.get(findings["baseline"], "plain training"), band=BAND if banded else ""
    )
    return text.strip()


def time_rows(panel: Shown, baseline: str | None) -> tuple[list[str], Rows]:
    """How soon each line was there again, the published figure and the baseline beside it."""
    published = ["paper"] if panel["published"] else []
    beside = [f"beside {panel['labels'][baseline]}"] if baseline else []
    first, *more = [target(threshold, panel["metric"]) for threshold in panel["thresholds"]] or [NONE]
    times = [first, *beside, "total", *beside, "for good", "paper's rule"] if panel["thresholds"] else []
    header = ["", "request", *published, *times, *more, "n"]
    base: Sequence[Shown] = next((line["after"] for line in panel["lines"] if line["name"] == baseline), [])
    rows: Rows = []
    for line, i, after in _requests(panel["lines"]):
        told = panel["published"].get(line["name"], NONE) if i == _first_leave(line) else ""
        other = base[i] if i < len(base) and line["name"] != baseline else None
        row = [*_lead(line, i, after), *[told for _ in published]]
        if panel["thresholds"]:
            soon, *later = after["seconds"]
            row += [count(soon), *[against(soon, other["seconds"][0]) if other else "" for _ in beside]]
            row += [count(after["total"])]
            row += [against(after["total"], other["total"]) if other else "" for _ in beside]
            row += [count(stat) for stat in (after["kept"], after["stopped"], *later)]
        rows.append([*row, str(len(line["seeds"])) if i == 0 else ""])
    return header, [*rows, *not_run(panel, len(header))]


def quality_rows(panel: Shown) -> tuple[list[str], Rows]:
    """How well each line did: around each request, at the end, and with what else could be served.

    A line without a request has an end all the same.
    """
    metric = panel["metric"]
    columns = {"before": "before", "first": "right after", "end": "end"}
    choices = list(dict.fromkeys(name for line in panel["lines"] for name in line["choices"]))
    header = ["", "request", *columns.values(), "test", *choices]
    rows = []
    for line, i, after in _requests(panel["lines"], [NO_REQUEST]):
        finals = [line["measures"].get("final"), *(line["choices"].get(name) for name in choices)]
        rows.append(
            [
                *_lead(line, i, after),
                *(quality(after[name], metric) for name in columns),
                *(quality(stat, metric) if i == 0 else "" for stat in finals),
            ]
        )
    return header, rows


def costs_rows(panel: Shown) -> tuple[list[str], Rows]:
    """What each line costs a simulated second: rounds of clusters are not those of a federation."""
    header = ["", *COSTS.values(), "stored", "real seconds", "guarantee"]
    rows = []
    for line in panel["lines"]:
        costs = line["costs"]
        shown = [NONE] * (len(COSTS) + 1)
        if costs is not None:
            values = [*(costs[name] / costs["seconds"] for name in COSTS), costs["bytes_stored"]]
            shown = [f"{value:.2f} ×" for value in values]
        rows.append([line["label"], *shown, count(line["seconds"]), line["guarantee"]])
    return header, rows


def _requests(lines: Sequence[Shown], otherwise: Sequence[Shown] = ()) -> Iterator[tuple[Shown, int, Shown]]:
    for line in lines:
        for i, after in enumerate(line["after"] or otherwise):
            yield line, i, after


def _lead(line: Shown, index: int, after: Shown) -> list[str]:
    moment = "" if after["time"] is None else f" ({after['time']:.4g} s)"
    return [line["label"] if index == 0 else "", after["request"] + moment]


def _first_leave(line: Shown) -> int | None:
    return next((i for i, after in enumerate(line["after"]) if after["kind"] == "erase"), None)
