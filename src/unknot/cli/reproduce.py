"""``unknot reproduce``."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape

from unknot.cli.app import Device, Quiet, Set, app, errors_for_people
from unknot.cli.screen import screen, side, warn
from unknot.core.errors import ConfigError

DIFFERS = 1
CHECKS = ("name", "check", "scale", "draw", "json_", "quiet")
LISTS = ("list_", "long", "quiet")
"""What goes with --check, and with --list."""


@app.command(
    epilog="Exit status: 0 all well; 1 with --check, a page is not what today's configuration gives; 2 an "
    "error; 130 stopped by Ctrl-C: the same command goes on from there."
)
def reproduce(
    ctx: typer.Context,
    name: Annotated[
        str | None, typer.Argument(help="Which one, by its name in --list, or a TOML file of your own.")
    ] = None,
    list_: Annotated[bool, typer.Option("--list", help="List the reproductions there are.")] = False,
    long: Annotated[
        bool,
        typer.Option("--long", help="With --list: also data, whether it is here, and how long it takes."),
    ] = False,
    scale: Annotated[
        str,
        typer.Option(
            help="small (built-in data, minutes) or paper. With --check: the pages of it alone, else all."
        ),
    ] = "small",
    seeds: Annotated[
        str | None, typer.Option(metavar="0-4|0,1,2", help="Instead of the file's seeds.")
    ] = None,
    device: Device = None,
    threads: Annotated[int | None, typer.Option(min=1, help="How many threads train.")] = None,
    together: Annotated[
        int,
        typer.Option(
            metavar="N",
            min=1,
            help="Run up to N lines of a panel side by side: the same results, faster on a GPU.",
        ),
    ] = 1,
    out: Annotated[Path, typer.Option(help="Where records, tables and figures go.")] = Path("runs"),
    only: Annotated[
        list[str] | None, typer.Option(metavar="LINE", help="Run only this line or panel. May be repeated.")
    ] = None,
    set_: Set = None,
    check: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Run nothing: say of the pages there (of NAME, or all) whether they are what their records "
            "and today's configuration give.",
        ),
    ] = None,
    draw: Annotated[
        bool, typer.Option("--draw", help="With --check: draw again what differs, from its records.")
    ] = False,
    json_: Annotated[bool, typer.Option("--json", help="With --check: print it as JSON.")] = False,
    quiet: Quiet = False,
) -> None:
    """Reproduce a table or a figure of a paper: run what is not yet run, show it, draw it."""
    from unknot import reproduce as reproductions
    from unknot.core.registry import beside
    from unknot.experiments.results import check_folder
    from unknot.report import catalogue
    from unknot.report import reproduction as report

    file: Path | None = None

    def kept() -> str:
        if file is None or not file.exists():
            return "nothing was finished; the same command starts from the first run"
        return f"what was finished is in {file}; the same command goes on from there"

    console, progress = screen(quiet), side(quiet)
    with errors_for_people(kept), beside(Path(name or "").parent):
        given = _given(ctx)
        _refuse_what_changes_nothing(given, name)
        if check is not None:
            if not _check(name, check, scale if "scale" in given else None, draw, json_, quiet):
                raise typer.Exit(DIFFERS)
            return
        if list_ or name is None:
            entries = [entry.to_dict() for entry in reproductions.overview()]
            screen().print(catalogue.by_paper(entries, long))
            return
        plan = reproductions.load(name)
        chosen = None if seeds is None else reproductions.parse_seeds(seeds)
        changes = list(set_ or [])
        check_folder(out, force=True)
        file = reproductions.records_file(plan, scale, out)
        shown = quiet or progress.is_terminal  # elsewhere what a run tells is printed, and stays
        if shown and (other := reproductions.replaced(plan, scale, out, chosen, only or (), changes)):
            warn(other)
        with progress.status(escape(name)) as status:
            reproductions.reproduce(
                plan,
                scale,
                seeds=chosen,
                device=device,
                threads=threads,
                together=together,
                out=out,
                only=only or (),
                overrides=changes,
                tell=status.update if progress.is_terminal else progress.print,
            )
        found = reproductions.findings(plan, scale, file, chosen, changes).to_dict()
        console.print(report.tables(found))
        if shown:
            for title, reason in reproductions.left_out(plan, scale, only or (), changes).items():
                warn(f"left out {title}: {reason}")
        words = ["unknot", "reproduce", name, "--scale", scale]
        words += [] if seeds is None else ["--seeds", "".join(seeds.split())]
        words += [word for item in changes for word in ("--set", item)]
        for path in report.write(found, out, shlex.join(words)):
            console.print(f"written: {escape(str(path))}")


def _given(ctx: typer.Context) -> dict[str, str]:
    """What was typed, by parameter: how each is written."""
    found = {}
    for param in ctx.command.params:
        source = ctx.get_parameter_source(param.name or "")
        if source is not None and source.name == "COMMANDLINE":
            found[param.name or ""] = max(param.opts, key=len)
    return found


def _refuse_what_changes_nothing(given: Mapping[str, str], name: str | None) -> None:
    """Of options, each of which goes with a name, with --check or with --list alone."""
    if "check" in given:
        if wrong := [option for key, option in given.items() if key not in CHECKS]:
            raise ConfigError(
                f"{wrong[0]} does not go with --check, which runs nothing and goes by each page's own "
                "command: leave it out"
            )
        return
    if told := [option for key, option in given.items() if key in ("draw", "json_")]:
        how = ", not with --list" if "list_" in given else ": name the folder"
        raise ConfigError(f"{told[0]} goes with --check DIR{how}")
    if "list_" in given:
        if name is not None:
            raise ConfigError(f"--list has all reproductions: leave out {name}, or --list to run it")
        if wrong := [option for key, option in given.items() if key not in LISTS]:
            raise ConfigError(f"{wrong[0]} does not go with --list: leave it out")
    elif name is None:
        if wrong := [option for key, option in given.items() if key not in LISTS]:
            raise ConfigError(f"{wrong[0]} is of a run: name one that `unknot reproduce --list` shows")
    elif "long" in given:
        raise ConfigError(
            "--long goes with --list: leave it out to run, or write --list in place of the name"
        )


def _check(name: str | None, folder: Path, scale: str | None, draw: bool, as_json: bool, quiet: bool) -> bool:
    """Whether all is as configured; what is not is drawn again, if it shall."""
    from unknot import reproduce as reproductions
    from unknot.report import checked
    from unknot.report import reproduction as report

    items: list[dict[str, Any]] = []
    progress = side(quiet)
    with progress.status("looking") as status:
        for asked in reproductions.pages(folder, name, scale):
            status.update(escape(asked.stem))
            found = asked.findings().to_dict()
            differs, absent = report.differs(found, folder, asked.command), report.absent(found, folder)
            item = reproductions.check(asked).to_dict()
            # A page of results is not drawn over from nothing.
            if draw and differs and item["shown"]:
                kinds = [kind for kind in ("png", "svg") if kind == "png" or asked.beside(kind).exists()]
                report.write(found, folder, asked.command, kinds)
            drawn = draw and not report.differs(found, folder, asked.command)
            items.append({**item, "differs": differs, "absent": absent, "drawn": drawn})
    if as_json:
        sys.stdout.write(json.dumps(items) + "\n")
    else:
        screen(quiet).print(checked.checked(items))
    return all(map(checked.well, items))
