"""Runs that are kept, in tables: many in a list, one on a sheet."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from unknot.core.commands import command
from unknot.report.words import counted, size

Record = Mapping[str, Any]
STYLES = {"running": "green", "finished": "bold", "stopped": "yellow"}
WORDS = ("pause", "go", "stop")
"""What is said to the process that runs a run, rather than asked of the run."""
STILL_READ = (
    "a reader of run.db kept run.db-wal from being emptied: that comes once the reader has ended, at the "
    "next checkpoint, end or resumption of the run"
)
"""Of an erasure whose old pages lie beside the database for a while."""
STATE, ANY = 15, 10_000
"""Columns: for a run's state where there are few of them, and as many as it takes."""
FEW = 12
"""So many clients of a lineage are named."""


def table(runs: Sequence[Record]) -> RenderableType:
    """A line each: where, what, state, rounds, requests, when it was last kept, how much."""
    return _Listed(runs)


class _Listed:
    """Runs in a table; where a folder's name would be cut in it, which is to be copied, in lines."""

    def __init__(self, runs: Sequence[Record]) -> None:
        self._runs = [one for one in runs if "error" not in one]
        self._wrong = [one for one in runs if "error" in one]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        for found in (self._table(), self._table(STATE)):
            if found.__rich_measure__(console, options.update_width(ANY)).maximum <= options.max_width:
                yield found
                break
        else:
            for one in self._runs:
                method, state, rounds, requests, kept, much = self._cells(one)
                yield Text(one["folder"], style="bold", no_wrap=True, overflow="ignore")
                asked, last = f"requests {requests}", f"kept {kept}"  # in another line: no date is cut
                for told in ((method, state, f"{rounds} rounds", asked), (last, much)):
                    yield Padding(Text(", ").join(Text.assemble(cell) for cell in told), (0, 0, 0, 2))
        yield from (Text(f"{one['folder']}: {one['error']}", style="red") for one in self._wrong)
        for one in self._runs:
            yield from _misfit(one)
            yield from (Text.assemble(f"{one['folder']}: its log is ", told) for told in _damaged(one))

    def _table(self, state: int | None = None) -> Table:
        """All in one; what is said of their state within so many letters a line."""
        found = Table(box=None, pad_edge=False)
        for name in ("run", "method", "state", "rounds", "requests", "last kept", "size"):
            found.add_column(name, max_width=state if name == "state" else None)
        for one in self._runs:
            found.add_row(Text(one["folder"]), *self._cells(one))
        for one in self._wrong:
            found.add_row(Text(one["folder"]), "", Text("cannot be read", style="red"))
        return found

    def _cells(self, one: Record) -> tuple[Text, ...]:
        state = Text(_word(one), style=STYLES.get(one["state"], ""))
        rest = (f"{one['rounds']:,}", _asked(one), when(one["kept"], "minutes"), size(_all(one)))
        return (Text(one["method"]), state, *map(Text, rest))


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
        now = "" if run["stopped"] else ", as of its last checkpoint"
        row("model", f"{run['model']}{now}", f"shaped by {', '.join(lineage[:FEW]) or 'nobody'}{more}")
    else:
        row("model", f"not known: {run['model_unknown']}")
    row("requests", *([_request(one) for one in run["requests"]] or [Text("none")]))
    if run["erased"]:
        row("erased", *map(_erased, run["erased"]), *_stays(run["erased"]))
    row("kept", ", ".join(_kept(run, what, count) for what, count in run["sizes"].items()))
    if run["changed"]:
        row("results", *(Text(f"{name} is not as the run left it", style="red") for name in run["changed"]))
    row("log", *(_damaged(run) or [Text("whole: every entry fits the one before it")]))
    return rows


def standing(run: Record) -> str:
    """``running, 12 rounds, simulated 41.2 s, 1 of 2 requests served``, in a line."""
    rounds = counted(run["rounds"], "round")
    return f"{_word(run)}, {rounds}, simulated {run['time']:.1f} s, requests {_asked(run)}"


def when(at: str | None, to: str = "seconds") -> str:
    """A moment in the reader's own time, with how far that is from UTC."""
    if at is None:
        return "never"
    try:
        return datetime.fromisoformat(at).astimezone().isoformat(" ", to)
    except ValueError:
        return at


def _word(run: Record) -> str:
    """``running``; ``pausing`` until it is ``paused``; else who still holds it, and what waits."""
    if run["paused"] or run["pausing"]:
        return "paused" if run["paused"] else "pausing"
    if run["state"] == "running":
        return "running"
    many, held = len(_waiting(run)), run["holder"]
    parts = [run["state"]]
    if held:
        pid = held["pid"]
        parts.append(f"process {pid} writes its results" if run["command"] else f"held by process {pid}")
    parts += [f"{counted(many, 'request')} {'waits' if many == 1 else 'wait'}"] if many else []
    parts += ["cannot be gone on with"] if run["again"] is None else []
    return ", ".join(parts)


def _waiting(run: Record) -> list[Record]:
    """What was asked from outside, and is still to be served."""
    asked = [one for one in run["requests"] if one["number"] is not None and one["kind"] not in WORDS]
    return [one for one in asked if one["state"] in ("waiting", "taken")]


def _state(run: Record) -> list[str | Text]:
    standing = f"{counted(run['rounds'], 'round')}, {run['time']:.1f} simulated seconds"
    state, who, word = run["state"], run["holder"], _word(run)
    if state == "running":
        paused = "" if word == "running" else f"; go on with: {command('resume', run['folder'])}"
        return [f"{word}{paused} ({standing} when last kept)", f"by process {who['pid']} on {who['host']}"]
    if state == "finished" and not _waiting(run):
        return [f"{word} ({run['stopped']}): {standing}", *_misfit(run)]
    if run["again"] is None:
        return [f"{word}: {standing}", *_misfit(run)]
    if who is not None and run["command"]:
        return [f"{word}: {standing}", f"to go on, once process {who['pid']} has ended: {run['again']}"]
    if who is not None:
        return [
            f"{word}: {standing}",
            f"to go on: in process {who['pid']} (fed.run or fed.resume); or once it has let go "
            f"(fed.close()): {run['again']}",
        ]
    return [f"{word}: {standing}", *_misfit(run), f"to go on: {run['again']}"]


def _kept(run: Record, what: str, count: int) -> str:
    if what == "keys" and not count and run["apart"]:
        return "keys kept apart"
    if what == "keys" and not count and run["kept"] is not None:
        return "keys missing, so that no name can be read"
    return f"{what} {size(count)}"


def _misfit(run: Record) -> list[Text]:
    """What is said where a run and its keys do not fit together, or it has no checkpoint."""
    return [Text(run[wrong], style="red") for wrong in ("keys_wrong", "unreadable") if run[wrong]]


def _damaged(run: Record) -> list[Text]:
    """What is said where the log does not fit together: all above may be untrue then."""
    if run["log"] in (None, "whole"):
        return []
    return [Text(f"not whole, so that nothing above is certain: {run['log']}", style="red")]


def _asked(run: Record) -> str:
    wanted = [one for one in run["requests"] if one["kind"] not in WORDS]
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
    why = f": {one['refused'] or one['reason']}" if one["refused"] or one["reason"] else ""
    if not one["clients"] and one["kind"] not in WORDS:
        why += "; whom it named is not kept since one of them was erased"
    style = "red" if one["state"] == "refused" else ""
    return Text(f"{number}{one['request']}; {asked}; {became}{why}", style=style)


def _erased(one: Record) -> str:
    whole = [f"client {client}" for client in one["whole"]]
    parts = [f"samples of {client}" for client in one["parts_called"]]
    gone = [counted(one[f"{what}s"], what) for what in ("key", "checkpoint", "tensor") if one[f"{what}s"]]
    gone += one["results"]
    told = f"removed {', '.join(gone)} ({size(one['bytes'])})" if gone else "there was nothing to remove"
    rest = "" if one["truncated"] else f"; {STILL_READ}"
    return f"{when(one['at'])}: {', '.join([*whole, *parts])}; {told}{rest}"


def _stays(erased: list[Record]) -> list[str]:
    """What stays after several erasures is mostly the same, and said once."""
    return [f"stays: {line}" for line in dict.fromkeys(line for one in erased for line in one["stays"])]


def _all(run: Record) -> int:
    return sum(run["sizes"].values())
