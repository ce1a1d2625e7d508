"""The tables of a reproduction that counts simulated time: how soon, how well, at what cost."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from unknot.report.cells import (
    NONE,
    REAL,
    Rows,
    Shown,
    against,
    count,
    not_run,
    published_head,
    quality,
    target,
)

SUBTITLE = "Simulated seconds to a threshold, and accuracies in %: mean ± standard deviation over n seeds."
NO_REQUEST = {"request": NONE, "time": None, "before": None, "first": None, "end": None}
MEMORY = {"memory": ("model copies in training", ""), "peak": ("GPU memory", " GiB")}
COSTS = {"client_epochs": "client epochs a second", "bytes_sent": "sent a second"}
MADE = (
    "Mean ± sample standard deviation over n seeds; accuracies in per cent, times in simulated seconds. The "
    "first table counts *from the start* of the run, as the published figures do, which stand beside ours; "
    "the second *from the request*, for which nothing is published. {published}*To 90 %*, or to another "
    "target: until the served model first was there from the request on: the target counts from then, so who "
    "is there when the request comes has the moment of the request, and what it saves beside another is set "
    "by where the request lies. *First at all*: from the start until the served model first was there, "
    "whether before the request or after. *Last report*: when the runs, of which each ends at a time of its "
    "own, were measured last; *never* is not by then. *Stopping rule*: until the rule was met by which the "
    "KNOT paper ends training: the best cluster's own model is there on validation data, and steady (standard"
    " deviation over its own last 5 reports at most 0.01; target, window and deviation are ours, the paper "
    "names none, nor whose reports; one lane is measured by what is served; *5 reports after*: when a cluster"
    " first had so many, nobody could meet it sooner; who had fewer by the end could not meet it at all, and "
    "is level in a claim by it; – where validation data was not looked at). *Served then*: how what was "
    "served at that moment did; where the clusters' mean is served, that is the paper's last aggregation. "
    "*Beside*: what of the time is saved, by the means, beside {baseline}. *For good*: until the target was "
    "reached and not lost again before the end, or the next request. *Right after*: the model right after the"
    " request. *End*: the last measurement before the next request. *Test*: what was served at the end of the"
    " run, on test data; beside it what the clusters' mean, the best of them or all together would have "
    "given, where that was a choice. Costs are those of a simulated second, over the whole run, as multiples "
    "of {baseline}'s before its first request; *stored* is the peak of what the server keeps. *Model copies "
    "in training*: vectors as long as the model that a client holds while it trains: weights, gradient, what "
    "the optimiser keeps and, where it wants the curvature, a draw and its product with the Hessian; "
    "activations are not in it. {real} {band}"
)
RULED = (
    "The published figures are of the moment when the paper's criteria for stopping were met: it is the "
    "*stopping rule* that they are to be compared with. "
)
CONVERGED = (
    'The published figures are times "needed to converge to a target": with clusters, until the paper\'s '
    "criteria for stopping were met, as there is no model of all before; of FedAvg and FedBuff it also says "
    "how long they took to reach the target. So both may be compared with them, the *stopping rule* and "
    "*to* the target, the rule rather. "
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
        baseline=labels.get(findings["baseline"], "plain training"),
        band=BAND if banded else "",
        real=REAL,
        published=_published(findings),
    )
    return text.strip()


def _published(findings: Shown) -> str:
    """With which columns the published figures may be compared, where there are any by KNOT's rule."""
    by = {name for panel in findings["panels"] if panel["published"] for name in panel["published_by"]}
    if "finished" not in by:
        return ""
    return CONVERGED if "total" in by else RULED


def start_rows(panel: Shown, baseline: str | None) -> tuple[list[str], Rows]:
    """How soon each line was there from the start of the run: what the published figures compare with."""
    published = [published_head("published", panel)] if panel["published"] else []
    beside = [f"beside {panel['labels'][baseline]}"] if baseline else []
    times = []
    if panel["thresholds"]:
        goal = target(panel["thresholds"][0], panel["metric"])
        rule = ["from start to stopping rule", *beside, "served then"]
        times = [f"from start {goal}", *beside, "first at all", *rule, "last report"]
    # Of a single request the next table says when it came: here is little room.
    lead = 2 if any(len(line["after"]) > 1 for line in panel["lines"]) else 1
    header = [*("", "request")[:lead], *published, *times, "n"]
    rows: Rows = []
    for line, i, after, other in _beside(panel, baseline):
        told = panel["published"].get(line["name"], NONE) if i == _first_leave(line) else ""
        row = [*_lead(line, i, after)[:lead], *[told for _ in published]]
        if panel["thresholds"]:
            row += [count(after["total"]), *_saved("total", after, other, beside)]
            row += [count(line["measures"].get("earliest")) if i == 0 else ""]
            row += [count(after["finished"]) if line["judged"] else NONE]
            row += [*_saved("finished", after, other, beside), quality(after["aggregated"], panel["metric"])]
            row += [_last_report(line) if i == 0 else ""]
        rows.append([*row, str(len(line["seeds"])) if i == 0 else ""])
    absent = ([label, told, "not run"] for label, _, told, *_ in not_run(panel, 3))
    return header, [*rows, *([*row, *[""] * (len(header) - len(row))] for row in absent)]


def _saved(name: str, after: Shown, other: Shown | None, beside: Sequence[str]) -> list[str]:
    return [against(after[name], other[name]) if other else "" for _ in beside]


def _last_report(line: Shown) -> str:
    """``287 to 296``: from the first seed's run to end to the last's."""
    ends = sorted(line["ends"]["total"].values())
    return " to ".join(dict.fromkeys(f"{end:.0f}" for end in (ends[0], ends[-1]))) if ends else NONE


def request_rows(panel: Shown, baseline: str | None) -> tuple[list[str], Rows]:
    """How soon each line was there again after the request: at each target, for good, by the rule."""
    beside = [f"beside {panel['labels'][baseline]}"] if baseline else []
    first, *more = [f"from request {target(goal, panel['metric'])}" for goal in panel["thresholds"]]
    rule = ["5 reports after", "from request to stopping rule"]
    header = ["", "request", first, *beside, "for good", *rule, *more]
    rows: Rows = []
    for line, i, after, other in _beside(panel, baseline):
        soon, *later = after["seconds"]
        row = [*_lead(line, i, after), count(soon)]
        row += [against(soon, other["seconds"][0]) if other else "" for _ in beside]
        watched = count(line["watched"]) if i == _first_leave(line) else ""
        row += [count(after["kept"])]
        row += [watched, count(after["stopped"])] if line["judged"] else [NONE, NONE]
        rows.append([*row, *(count(stat) for stat in later)])
    return header, rows


def tables(panel: Shown, baseline: str | None) -> list[tuple[list[str], Rows]]:
    """From the start, then from the request; nothing of what there is nothing of."""
    found = []
    if panel["lines"] or panel["published"]:
        found.append(start_rows(panel, baseline))
    if panel["thresholds"] and any(line["after"] for line in panel["lines"]):
        found.append(request_rows(panel, baseline))
    return found


def remarks(panel: Shown) -> list[str]:
    """In which runs there was nothing to unlearn, and in which the stopping rule could not be met."""
    ruled = [line for line in panel["lines"] if panel["thresholds"] and line["judged"]]
    found = {
        "Nothing to unlearn, as no cluster had been trained on the client yet": {
            line["label"]: line["spared"] for line in panel["lines"]
        },
        "Too few reports after the request for the stopping rule": {
            line["label"]: line["brief"] for line in ruled
        },
    }
    return [f"{what}: {told}." for what, lines in found.items() if (told := _by_seed(lines))]


def _by_seed(lines: Mapping[str, Sequence[int]]) -> str:
    """``KNOT (seed 1), FedEraser (seeds 0, 3)``."""
    return ", ".join(
        f"{label} (seed{'s' if len(seeds) > 1 else ''} {', '.join(map(str, seeds))})"
        for label, seeds in lines.items()
        if seeds
    )


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
    measured = [name for name in MEMORY if any(name in line["measures"] for line in panel["lines"])]
    memory = [MEMORY[name][0] for name in measured]
    header = ["", *COSTS.values(), "stored", *memory, "real seconds", "guarantee"]
    rows = []
    for line in panel["lines"]:
        costs = line["costs"]
        shown = [NONE] * (len(COSTS) + 1)
        if costs is not None:
            values = [*(costs[name] / costs["seconds"] for name in COSTS), costs["bytes_stored"]]
            shown = [f"{value:.2f} ×" for value in values]
        shown += [_memory(line, name) for name in measured]
        seconds = NONE if line["seconds"] is None else count(line["seconds"])
        rows.append([line["label"], *shown, seconds, line["guarantee"]])
    return header, rows


def _memory(line: Shown, name: str) -> str:
    stat = line["measures"].get(name)
    return NONE if stat is None else count(stat) + MEMORY[name][1]


def _requests(lines: Sequence[Shown], otherwise: Sequence[Shown] = ()) -> Iterator[tuple[Shown, int, Shown]]:
    for line in lines:
        for i, after in enumerate(line["after"] or otherwise):
            yield line, i, after


def _beside(panel: Shown, baseline: str | None) -> Iterator[tuple[Shown, int, Shown, Shown | None]]:
    """The requests of each line, and what followed them in the baseline, where that is another."""
    base: Sequence[Shown] = next((line["after"] for line in panel["lines"] if line["name"] == baseline), [])
    for line, i, after in _requests(panel["lines"]):
        yield line, i, after, base[i] if i < len(base) and line["name"] != baseline else None


def _lead(line: Shown, index: int, after: Shown) -> list[str]:
    moment = "" if after["time"] is None else f" ({after['time']:.4g} s)"
    return [line["label"] if index == 0 else "", after["request"] + moment]


def _first_leave(line: Shown) -> int | None:
    return next((i for i, after in enumerate(line["after"]) if after["kind"] == "erase"), None)
