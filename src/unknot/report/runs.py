"""Runs that are kept, in tables: many in a list, one on a sheet."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from unknot.report.words import counted, size

Record = Mapping[str, Any]
STYLES = {"running": "green", "finished": "bold", "stopped": "yellow"}
FEW = 12
"""So many clients of a lineage are named."""


def table(runs: Sequence[Record]) -> RenderableType:
    """A line each: where, what, state, rounds, requests, when it was last kept, how much."""
    found = Table(
        "run", "method", "state", "rounds", "requests", "last kept", "size", box=None, pad_edge=False
    )
    for one in runs:
        if "error" in one:
            found.add_row(Text(one["folder"]), "", Text("cannot be read", style="red"), "", "", "", "")
            continue
        state = Text(_word(one), style=STYLES.get(one["state"], ""))
        rows = (one["folder"], one["method"], state, str(one["rounds"]), _asked(one), when(one["kept"]))
        found.add_row(*(row if isinstance(row, Text) else Text(row) for row in (*rows, size(_all(one)))))
    wrong = [Text(f"{one['folder']}: {one['error']}", style="red") for one in runs if "error" in one]
    return Group(found, *wrong)


def sheet(run: Record) -> RenderableType:
    """What a run is, where it stands, what was asked of it, what was erased, what it keeps."""
    rows = Table.grid("", "", padding=(0, 2))

    def row(name: str, *lines: str | Text) -> None:
        rows.add_row(Text(name, style="bold"), Text("\n").join(Text.assemble(line) for line in lines))

    row("run", f"{run['name']}: {run['method']}, {counted(run['clients'], 'client')}, in {run['folder']}")
    row("state", *_state(run))
    again = f", gone on with {counted(run['resumed'], 'time')} since" if run["resumed"] else ""
    row("begun", f"{when(run['begun'])}{again}; last kept {when(run['kept'])}")
    if run["model"] is not None:
        lineage = run["lineage"]
        more = f" and {len(lineage) - FEW} more" if len(lineage) > FEW else ""
        row("model", run["model"], f"shaped by {', '.join(lineage[:FEW]) or 'nobody'}{more}")
    row("requests", *([_request(one) for one in run["requests"]] or [Text("none")]))
    if run["erased"]:
        row("erased", *(line for one in run["erased"] for line in (_erased(one), *_stays(one))))
    row("kept", ", ".join(f"{what} {size(count)}" for what, count in run["sizes"].items()))
    return rows


def standing(run: Record) -> str:
    """``running, 12 rounds, simulated 41.2 s, 1 of 2 requests served``, in a line."""
    rounds = counted(run["rounds"], "round")
    return f"{_word(run)}, {rounds}, simulated {run['time']:.1f} s, requests {_asked(run)}"


def when(at: str | None) -> str:
    """A moment in the reader's own time."""
    if at is None:
        return "never"
    try:
        return f"{datetime.fromisoformat(at).astimezone():%Y-%m-%d %H:%M:%S}"
    except ValueError:
        return at


def _word(run: Record) -> str:
    """``running``, or ``paused``, or ``pausing`` where it has not taken that up yet."""
    return "paused" if run["paused"] else "pausing" if run["pausing"] else str(run["state"])


def _state(run: Record) -> list[str | Text]:
    standing = f"{counted(run['rounds'], 'round')}, {run['time']:.1f} simulated seconds"
    state, folder = run["state"], run["folder"]
    if state == "running":
        who = run["holder"]
        word = _word(run)
        paused = "" if word == "running" else f"; go on with: unknot resume {folder}"
        return [f"{word}{paused} ({standing} when last kept)", f"by process {who['pid']} on {who['host']}"]
    waits = any(one["number"] is not None and one["state"] in ("waiting", "taken") for one in run["requests"])
    if state == "finished" and not waits:
        return [f"finished ({run['stopped']}): {standing}"]
    why = "finished, and asked for something since" if state == "finished" else "stopped"
    return [f"{why}: {standing}", f"go on with: unknot resume {folder}"]


def _asked(run: Record) -> str:
    wanted = [one for one in run["requests"] if one["request"] not in ("pause", "stop", "go")]
    served = sum(one["state"] == "served" for one in wanted)
    refused = sum(one["state"] == "refused" for one in wanted)
    text = f"{served} of {len(wanted)} served" if wanted else "none"
    return f"{text}, {refused} refused" if refused else text


def _request(one: Record) -> Text:
    number = "" if one["number"] is None else f"{one['number']}: "
    asked = f"by {one['by']}" + (f", for {one['at']}" if one["at"] else f", {when(one['asked'])}")
    if one["state"] == "served" and one["round"] is not None:
        became = f"served {when(one['served'])} (round {one['round']}, {one['time']:.1f} s)"
    else:
        became = one["state"]
    why = f": {one['why']}" if one["why"] else ""
    style = "red" if one["state"] == "refused" else ""
    return Text(f"{number}{one['request']}; {asked}; {became}{why}", style=style)


def _erased(one: Record) -> str:
    whole = [f"client {client}" for client in one["whole"]]
    parts = [f"samples of client {client}" for client in one["parts"]]
    gone = [
        counted(one["keys"], "key") if one["keys"] else "",
        counted(one["checkpoints"], "checkpoint"),
        f"{counted(one['tensors'], 'tensor')} of {counted(one['packs'], 'pack')}",
        ", ".join(one["results"]),
    ]
    open_ = (
        "" if one["truncated"] else "; a reader held the database's log open: it is emptied at the next one"
    )
    told = ", ".join(filter(None, gone))
    return f"{when(one['at'])}: {', '.join([*whole, *parts])}; removed {told} ({size(one['bytes'])}){open_}"


def _stays(one: Record) -> list[str]:
    return [f"  stays: {line}" for line in one["stays"]]


def _all(run: Record) -> int:
    return sum(run["sizes"].values())
