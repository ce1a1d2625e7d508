"""``unknot reproduce``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from unknot.cli.app import Device, Quiet, Set, app, errors_for_people
from unknot.cli.screen import screen, side, warn


@app.command(
    epilog="Exit status: 0 all well; 2 an error; 130 stopped by Ctrl-C: the same command goes on from there."
)
def reproduce(
    name: Annotated[
        str | None, typer.Argument(help="Which one, by its name in --list, or a TOML file of your own.")
    ] = None,
    list_: Annotated[bool, typer.Option("--list", help="List the reproductions there are.")] = False,
    long: Annotated[
        bool,
        typer.Option("--long", help="With --list: also data, whether it is here, and how long it takes."),
    ] = False,
    scale: Annotated[str, typer.Option(help="small (built-in data, minutes) or paper.")] = "small",
    seeds: Annotated[
        str | None, typer.Option(metavar="0-4|0,1,2", help="Instead of the file's seeds.")
    ] = None,
    device: Device = None,
    threads: Annotated[int | None, typer.Option(help="How many threads train.")] = None,
    out: Annotated[Path, typer.Option(help="Where records, tables and figures go.")] = Path("runs"),
    only: Annotated[
        list[str] | None, typer.Option(metavar="LINE", help="Run only this line or panel. May be repeated.")
    ] = None,
    set_: Set = None,
    quiet: Quiet = False,
) -> None:
    """Reproduce a table or a figure of a paper: run what is not yet run, show it, draw it."""
    from unknot import reproduce as reproductions
    from unknot.core.registry import beside
    from unknot.experiments.results import check_folder
    from unknot.report import reproduction as report

    file: Path | None = None

    def kept() -> str:
        if file is None or not file.exists():
            return "nothing was finished; the same command starts from the first run"
        return f"what was finished is in {file}; the same command goes on from there"

    console, progress = screen(quiet), side(quiet)
    with errors_for_people(kept), beside(Path(name or "").parent):
        if list_ or name is None:
            show = report.catalogue_table if long else report.catalogue_list
            screen().print(show([entry.to_dict() for entry in reproductions.overview()]))
            return
        plan = reproductions.load(name)
        chosen = None if seeds is None else reproductions.parse_seeds(seeds)
        changes = list(set_ or [])
        check_folder(out, force=True)
        file = reproductions.records_file(plan, scale, out)
        with progress.status(escape(name)) as status:
            reproductions.reproduce(
                plan,
                scale,
                seeds=chosen,
                device=device,
                threads=threads,
                out=out,
                only=only or (),
                overrides=changes,
                tell=status.update if progress.is_terminal else progress.print,
            )
        found = reproductions.findings(plan, scale, file, chosen, changes).to_dict()
        console.print(report.tables(found))
        for panel in found["panels"] if quiet else ():
            if panel["reason"]:  # what was left out is a result; the tables say it otherwise
                warn(f"left out {panel['title']}: {panel['reason']}")
        command = f"unknot reproduce {name} --scale {scale}"
        command += "" if seeds is None else f" --seeds {seeds}"
        for path in report.write(found, out, "".join([command, *(f" --set '{item}'" for item in changes)])):
            console.print(f"written: {escape(str(path))}")
