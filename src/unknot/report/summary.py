"""The end of a run, in tables."""

from __future__ import annotations

import math

from rich.bar import Bar
from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from unknot.federation import History, Served
from unknot.federation.events import value_of
from unknot.report.activity import lanes
from unknot.report.cells import columns, shown
from unknot.report.words import adapters_of, engine_of, frozen_part, pending, regained, rounds_of, size, where

ROUNDS = 12  # about so many of them have a bar
WIDE = 40  # letters of the longest


def share(value: float | None) -> str:
    return "–" if value is None else f"{value:.1%}"


def summary(history: History) -> RenderableType:
    """What went wrong, the metric by round, the result, what else could be served, what requests cost."""
    wrong = [Text(text, style="bold red") for text in (*history.warnings, *pending(history))]
    parts: list[RenderableType] = [*wrong, Text("")] if wrong else []
    parts.append(_course(history))
    parts.append(_result(history))
    if history.choices:
        parts += [Text(""), _choices(history)]
    if history.served:
        parts += [Text(""), _requests(history)]
    if history.waived:
        parts += [Text(""), Text(history.let_pass, style="yellow")]
    parts += [Text(str(aside), style="yellow") for aside in history.set_aside_observers]
    return Padding(Group(*parts), (1, 0))


def _course(history: History) -> RenderableType:
    """The main metric in bars: of some rounds, and right after each request."""
    metric, several = history.metric, len(lanes(history)) > 1
    measured = [one for one in history.rounds if one.value is not None]
    some = {id(one) for one in measured[:: -max(1, len(measured) // ROUNDS)]}
    found: list[tuple[Text, str, float | None]] = []
    for event in history.events:
        if isinstance(event, Served):
            name = Text(f"▾ round {event.round}", style="bold yellow")
            found.append((name, f"{event.time:.1f} s", value_of(event.after)))
        elif id(event) in some:
            name = Text(f"  {event.lane}, round {event.round}" if several else f"  round {event.round}")
            found.append((name, f"{event.time:.1f} s", event.value))
    most = max((value for *_, value in found if value is not None and math.isfinite(value)), default=0.0)
    table = columns("", ">", ">", "")
    table.show_header = False
    for name, time, value in found:
        drawn = value is not None and 0 < value <= most
        table.add_row(name, time, metric.shown(value), Bar(most, 0, value or 0, width=WIDE) if drawn else "")
    head = f"{metric.name} of the served model (▾ right after a request)"
    return Group(head, table, "") if len(measured) > 1 else Group()


def _result(history: History) -> Table:
    costs = history.costs
    table = Table(title=f"{history.method} ({history.guarantee})", title_justify="left", show_header=False)
    table.add_column(style="bold")
    table.add_column(justify="right")
    for split, score in history.scores.items():
        for name, value in score.metrics.items():
            main = name == history.metric.name
            table.add_row(f"{split} {name}", history.metric.shown(value) if main else shown(value, name))
    table.add_row("rounds", rounds_of(history))
    table.add_row("simulated time", f"{history.time:.1f} s")
    table.add_row("client epochs", f"{costs.client_epochs:.0f}")
    if costs.server_samples:
        table.add_row("samples read by the server", str(costs.server_samples))
    table.add_row("sent down / up", f"{size(costs.bytes_down)} / {size(costs.bytes_up)}")
    table.add_row("stored on the server", size(costs.bytes_stored))
    if costs.set_aside:
        table.add_row("updates set aside", str(costs.set_aside))
    if costs.cancelled:
        table.add_row("flights cancelled", str(costs.cancelled))
    table.add_row("engine", engine_of(history))
    table.add_row("real time", f"{history.seconds['total']:.1f} s")
    if history.model is not None:
        table.add_row("model", history.model.digest())
    about = history.setup.get("model", {})
    if about.get("base"):
        table.add_row("trained", f"{about['parameters']:,} parameters")
        if adapters := adapters_of(about):
            table.add_row("adapters", adapters)
        table.add_row("over", frozen_part(about))
    return table


def _choices(history: History) -> Table:
    """The models that could be served, side by side."""
    table = Table(title="what could be served", title_justify="left")
    table.add_column("model", style="bold")
    splits = list(dict.fromkeys(split for scores in history.choices.values() for split in scores))
    for split in splits:
        table.add_column(f"{split} {history.metric.name}", justify="right")
        table.add_column("loss", justify="right")
    chosen = next((name for name, scores in history.choices.items() if scores == history.scores), None)
    for name, scores in history.choices.items():
        cells = []
        for split in splits:
            score = scores.get(split)
            cells += ["–", "–"] if score is None else [history.metric.shown(score.value), f"{score.loss:.3f}"]
        table.add_row(f"{name} ◂ served" if name == chosen else name, *cells)
    return table


def _requests(history: History) -> Text:
    """What each request did at once, and what it took to be as good again."""
    text = Text()
    several = len(lanes(history)) > 1
    for served in history.served:
        text.append(f"▾ {history.told(served)}", style="bold yellow")
        text.append(f"  at {where(served, several)}\n")
        before, after = value_of(served.before), value_of(served.after)
        if before is not None and after is not None:
            metric = history.metric
            text.append(f"  {metric.name} {metric.shown(before)} before, {metric.shown(after)} right after\n")
        if visitors := sorted({trip.client for trip in served.visits}):
            who = ", ".join(history.label(client) for client in visitors)
            text.append(f"  at a last visit, {who} worked for the method that forgets\n")
        if served.cancelled:
            text.append(f"  {len(served.cancelled)} clients in flight were called back\n")
        if served.kind == "erase" and (regain := regained(history, history.recovery(served))):
            text.append(f"  {regain}\n")
    text.rstrip()
    return text
