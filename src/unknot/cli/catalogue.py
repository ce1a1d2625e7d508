"""``unknot list`` and ``unknot data``: what there is."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape
from rich.table import Table

from unknot.cli.app import PLAIN, app, errors_for_people
from unknot.cli.screen import screen
from unknot.core.errors import ConfigError

SHORT = 12  # hexadecimal digits of a checksum, unless it is asked for whole


@app.command(
    epilog="Exit status: 0 all well; 1 --verify found other files, or none; 2 an error; 130 stopped by "
    "Ctrl-C."
)
def data(
    verify: Annotated[
        str | None, typer.Option(metavar="NAME", help="Compare a set's files with their checksums.")
    ] = None,
    root: Annotated[Path | None, typer.Option(help="Where to look, instead of $UNKNOT_DATA.")] = None,
    long: Annotated[bool, typer.Option("--long", help="Checksums whole, not only how they begin.")] = False,
) -> None:
    """List the data sets: present or not, where they are looked for, how to get them, their checksums."""
    from unknot.data import catalogue
    from unknot.data import verify as check

    console = screen()
    with errors_for_people():
        if verify is not None:
            checks = check(verify, root)
            for item in checks:
                file, digest = escape(str(item.file)), item.found or item.expected or ""
                colour = {"ok": "green", "unknown": "yellow"}.get(item.status, "red")
                console.print(f"[{colour}]{item.status:10}[/] {file}  {digest}")
            raise typer.Exit(0 if all(c.status in ("ok", "unknown") for c in checks) else 1)
        table = Table("set", "here", "what", "where, how to get it, sha256", show_lines=True)
        table.columns[-1].overflow = "fold"
        for entry in catalogue(root):
            here = "[green]yes[/]" if entry.present else "[red]no[/]"
            sums = "\n".join(
                f"{digest if long else f'{digest[:SHORT]}…'}  {Path(file).name}"
                for file, digest in entry.checksums.items()
            )
            places = map(escape, entry.where)
            lines = [*places, f"[dim]{escape(entry.how)}[/]", sums or "[dim]no checksum known[/]"]
            table.add_row(entry.name, here, entry.description, "\n".join(lines))
        console.print(table)


@app.command("list", epilog=PLAIN)
def list_(
    kind: Annotated[
        str | None, typer.Argument(help="methods, models, data, partitions, optimizers, losses, ...")
    ] = None,
    name: Annotated[str | None, typer.Argument(help="One of them, as mmt: its options.")] = None,
    json_: Annotated[bool, typer.Option("--json", help="Print it as JSON, and nothing else.")] = False,
    reference: Annotated[
        bool, typer.Option("--reference", help="Instead: all keys of a file, as a page in Markdown.")
    ] = False,
) -> None:
    """List everything that a file can name, from other packages too, with its options and defaults."""
    from unknot.experiments import catalogue
    from unknot.experiments.reference import page
    from unknot.report import listing

    with errors_for_people():
        if reference:
            if kind is not None or json_:
                raise ConfigError("--reference is one page of everything: leave KIND, NAME and --json out")
            sys.stdout.write(page())
            return
        found: Any
        if kind is None:
            found = [
                {"kind": one.name, "about": one.about, "names": list(catalogue.names_of(one))}
                for one in catalogue.KINDS.values()
            ]
            shown = listing.kinds(found)
        elif name is None:
            found = [one.to_dict() for one in catalogue.things(catalogue.kind_of(kind))]
            shown = listing.things(catalogue.kind_of(kind).name, found)
        else:
            found = catalogue.thing(catalogue.kind_of(kind), name).to_dict()
            shown = listing.thing(found)
        if json_:
            sys.stdout.write(json.dumps(found) + "\n")
        else:
            screen().print(shown)
