"""``unknot tree``, ``cluster`` and ``game``: plans that need no training."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.console import RenderableType

from unknot.cli.app import PLAIN, Picture, app, errors_for_people
from unknot.cli.screen import screen


@app.command(epilog=PLAIN)
def tree(
    file: Annotated[Path, typer.Argument(help="A CSV table: client,probability[,expires].")],
    kind: Annotated[
        str, typer.Option(help="huffman, shannon-fano, balanced, b-ary, greedy, budget or star.")
    ] = "huffman",
    branching: Annotated[int | None, typer.Option(help="For b-ary: how many children a node has.")] = None,
    budget: Annotated[int | None, typer.Option(help="For budget: how many sub-federations at most.")] = None,
    json_: Annotated[bool, typer.Option("--json", help="Print the tree as JSON, and nothing else.")] = False,
    plot: Annotated[Path | None, typer.Option(metavar="OUT.svg", help="Also draw it into this file.")] = None,
) -> None:
    """Plan an influence tree: who is trained together, so that forgetting costs little."""
    from unknot.report import trees
    from unknot.topology import read_table

    with errors_for_people():
        shown = trees.picture(read_table(file), kind, branching, budget)
        if plot is not None:
            trees.write_svg(shown, plot)
        if json_:
            sys.stdout.writelines(trees.to_json(shown))
        else:
            _show(trees.sheet(shown), plot)


@app.command(epilog=PLAIN)
def cluster(
    file: Annotated[Path, typer.Argument(help="A CSV table: client,time,disparity.")],
    clusters: Annotated[int, typer.Option(help="How many clusters.")],
    a: Annotated[float | None, typer.Option(help="The weight of times; otherwise 1 / their range.")] = None,
    b: Annotated[float | None, typer.Option(help="The weight of disparities; otherwise 1.")] = None,
    c1: Annotated[int, typer.Option(help="How many clusters a client may be in.")] = 1,
    c2: Annotated[int | None, typer.Option(help="The least clients of a cluster; otherwise K/2N.")] = None,
    c3: Annotated[int | None, typer.Option(help="The most clients of a cluster; otherwise K/2.")] = None,
    json_: Annotated[
        bool, typer.Option("--json", help="Print ratings and assignment as JSON, and nothing else.")
    ] = False,
    plot: Picture = None,
) -> None:
    """Assign clients to clusters as KNOT does: the worst match as good as can be, then the next."""
    from unknot.report import clusters as report
    from unknot.topology import read_profiles

    with errors_for_people():
        shown = report.view(read_profiles(file), clusters, a, b, c1, c2, c3)
        if plot is not None:
            report.draw(shown, plot)
        if json_:
            sys.stdout.write(report.to_json(shown) + "\n")
        else:
            _show(report.sheet(shown), plot)


@app.command(epilog=PLAIN)
def game(
    file: Annotated[Path, typer.Argument(help="The game, a TOML file: psi, zeta, f_u, f_c, data, ...")],
    json_: Annotated[
        bool, typer.Option("--json", help="Print shares and utilities as JSON, and nothing else.")
    ] = False,
    plot: Picture = None,
) -> None:
    """Play the game that brings clients to servers, and compare it with simpler policies."""
    from unknot.core.fields import read_toml
    from unknot.incentive import Setting
    from unknot.report import game as report

    with errors_for_people():
        setting = Setting.of(read_toml(file), str(file))
        if plot is not None:
            report.draw(setting, plot)
        if json_:
            sys.stdout.write(report.to_json(setting) + "\n")
        else:
            _show(report.sheet(setting), plot)


def _show(plan: RenderableType, drawn: Path | None) -> None:
    """A plan on the screen, and where its picture is."""
    console = screen()
    console.print(plan, highlight=False, markup=False)
    if drawn is not None:
        console.print(f"\nwritten: {drawn}", highlight=False, markup=False, soft_wrap=True)
