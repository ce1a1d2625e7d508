"""What a run would do, in a table."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from unknot.report.words import adapters_of, counted, frozen_part, model_name, size, trained_part

Record = Mapping[str, Any]
GUESS = "Time and memory are estimates, from a probe of a few steps on this machine; nothing was trained."
ESTIMATE = "an estimate, as are jobs and bytes sent: how far back a request goes depends on what is learned"


def table(found: Record) -> RenderableType:
    """Who, on what, how long, what comes when, what it takes."""
    data, model, method, engine = (found[name] for name in ("data", "model", "method", "engine"))
    rows = Table.grid("", "", padding=(0, 2))

    def row(name: str, *lines: str | Text) -> None:
        rows.add_row(Text(name, style="bold"), Text("\n").join(Text.assemble(line) for line in lines))

    row("run", found["name"])
    row(
        "data",
        f"{data['name']}: {data['clients']:,} clients, {data['samples']:,} samples "
        f"(smallest {data['smallest']:,}, median {data['median']:,g}, largest {data['largest']:,})",
        f"{data['validation']:,} samples to validate with, {data['test']:,} to test with",
    )
    named = model_name(model["name"], model["path"])
    row("model", f"{named}: {trained_part(model)}, {size(model['bytes'])}", *_over(model))
    row("method", f"{method['name']} ({method['guarantee']})")
    most = "at most " if found["at_most"] else ""
    lanes = f" in {found['lanes']} lanes" if found["lanes"] > 1 else ""
    row(
        "training",
        f"{most}{counted(found['rounds'], 'round')}{lanes}, {found['jobs']:,} jobs, "
        f"{found['client_epochs']:,.0f} client epochs",
        f"{most}{found['simulated_seconds']:,.1f} simulated seconds, {size(found['bytes_sent'])} sent",
    )
    row("requests", *([_request(one) for one in found["requests"]] or [Text("none")]))
    if found["estimated"]:
        row("kept", f"about {size(found['bytes_kept'])} by the server", Text(ESTIMATE, style="dim"))
    else:
        row("kept", f"{size(found['bytes_kept'])} by the server, at most")
    row(
        "engine",
        f"{engine['engine']} on {engine.get('device', '?')}, path {engine.get('path', '?')}, "
        f"threads: {engine.get('threads', '?')}",
        Text(str(engine.get("reason", "")), style="dim"),
    )
    memory = size(found["bytes_memory"]) if found["bytes_memory"] else "not known here"
    device = f", {size(found['bytes_device'])} on the device" if found["bytes_device"] else ""
    row("memory", f"about {memory}{device}")
    row("time", f"{most}about {_duration(found['seconds'])}")
    return Group(rows, Text(""), Text(GUESS, style="dim"))


def _over(model: Record) -> list[str]:
    """What is trained beside what; nothing where nothing is frozen."""
    return [" over ".join(filter(None, [adapters_of(model), frozen_part(model)]))] if model["base"] else []


def _request(one: Record) -> Text:
    if not one["served"]:
        return Text(f"{one['request']}: stays pending, for the run ends before", style="bold red")
    left = one["rounds_left"]
    if not left:
        return Text(f"{one['request']}: at the very end, no round to recover in", "yellow")
    return Text(f"{one['request']} ({one['time']:,.1f} s): in time, {counted(left, 'round')} to recover in")


def _duration(seconds: float) -> str:
    if seconds < 1:
        return "a second"
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"
