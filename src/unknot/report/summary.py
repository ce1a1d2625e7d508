"""The end of a run, in tables."""

from __future__ import annotations

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from unknot.federation import History, Served
from unknot.federation.clustered import JOINT
from unknot.federation.history import value_of
from unknot.report.activity import lanes
from unknot.report.cells import shown
from unknot.report.curve import curve


def share(value: float | None) -> str:
    return "–" if value is None else f"{value:.1%}"


def size(count: float) -> str:
    for unit in ("B", "kB", "MB", "GB"):
        if count < 1000 or unit == "GB":
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1000
    raise AssertionError


def summary(history: History) -> RenderableType:
    """The curve, the result, what else could be served, and what each request cost."""
    parts: list[RenderableType] = []
    drawn = curve(history)
    if drawn:
        head = f"{history.metric.name} of the served model (▾ a request)"
        parts += [Text(head), Text(drawn, style="cyan"), Text("")]
    parts.append(_result(history))
    if history.choices:
        parts += [Text(""), _choices(history)]
    if history.served:
        parts += [Text(""), _requests(history)]
    if history.waived:
        parts += [Text(""), Text(history.let_pass, style="yellow")]
    parts += [Text(text, style="bold red") for text in (*_pending(history), *history.warnings)]
    return Padding(Group(*parts), (1, 0))


def where(served: Served, several: bool) -> str:
    """``round 3, 70.0 s``; with several lanes, whose round: ``round 3 of cluster 2, 70.0 s``."""
    whose = f" of {', '.join(served.lanes) or 'the furthest lane'}" if several else ""
    return f"round {served.round}{whose}, {served.time:.1f} s"


def _pending(history: History) -> list[str]:
    what = "the run ended before it came. Train for longer, or ask earlier"
    return [f"still pending: {request}: {what}" for request in history.unserved]


def _result(history: History) -> Table:
    costs = history.costs
    table = Table(title=f"{history.method} ({history.guarantee})", title_justify="left", show_header=False)
    table.add_column(style="bold")
    table.add_column(justify="right")
    for split, score in history.scores.items():
        for name, value in score.metrics.items():
            main = name == history.metric.name
            table.add_row(f"{split} {name}", history.metric.shown(value) if main else shown(value, name))
    table.add_row("rounds", _rounds(history))
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
    path = history.environment.get("engine", {})
    engine = " / ".join(str(path[k]) for k in ("engine", "path", "device") if k in path)
    table.add_row("engine", engine)
    table.add_row("real time", f"{history.seconds['total']:.1f} s")
    if history.model is not None:
        table.add_row("model", history.model.digest())
    return table


def _rounds(history: History) -> str:
    """Lanes side by side count one by one, and joint rounds apart from them."""
    joint = sum(record.lane == JOINT for record in history.rounds)
    text, many = str(len(history.rounds) - joint), len(lanes(history))
    text += f" in {many} lanes" if many > 1 else ""
    return f"{text}, {joint} joint" if joint else text


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
        text.append(f"▾ {served.request}", style="bold yellow")
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
        text.append(_regained(history, served))
    text.rstrip()
    return text


def _regained(history: History, served: Served) -> str:
    recovery = history.recovery(served) if served.kind == "erase" else None
    if recovery is None:
        return ""
    metric = history.metric
    share_of_it = f"  {recovery.fraction:.0%} of it"
    if metric.falls or recovery.target < 0:  # then it is not a share of it
        share_of_it = f"  {metric.name} {metric.shown(recovery.target)}"
    if recovery.reached and not recovery.rounds:
        return f"{share_of_it} was still there right after\n"
    rounds = f"{recovery.rounds} round{'' if recovery.rounds == 1 else 's'}"
    cost = f"{rounds}, {recovery.seconds:.1f} s, {recovery.client_epochs:.1f} client epochs"
    return f"{share_of_it} {'regained' if recovery.reached else 'not regained'} in {cost}\n"
