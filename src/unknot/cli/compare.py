"""``unknot compare``."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from unknot.cli.app import (
    NOT_WELL,
    PENDING,
    Device,
    Engine,
    Force,
    Quiet,
    RayAddress,
    Set,
    app,
    changes,
    errors_for_people,
)
from unknot.cli.screen import screen, side, warn
from unknot.core.errors import ConfigError

if TYPE_CHECKING:
    from unknot.experiments import Comparison

FAILED = 1
STATUSES = (
    "Exit status: 0 all well; 1 a method could not run the file (it is said why); 2 an error, also where no "
    "method could run it, all for the same reason; 3 a request is still pending in some run; 4 some run did "
    "not go well: its model is not what it seems; 130 stopped by Ctrl-C."
)


@app.command(epilog=STATUSES)
def compare(
    file: Annotated[Path, typer.Argument(help="The experiment, a TOML file.")],
    method: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME[, OPTION=VALUE...]",
            help="A method: mmt, or with options as in a file: 'knot, clusters=4'. May be repeated. "
            "Without it: rfs, federaser, pga, knot, sisa, mmt, and the file's own.",
        ),
    ] = None,
    seeds: Annotated[
        str | None, typer.Option(metavar="0-4|0,1,2", help="Run each under these seeds, not the file's.")
    ] = None,
    set_: Set = None,
    device: Device = None,
    engine: Engine = None,
    ray_address: RayAddress = None,
    json_: Annotated[
        bool, typer.Option("--json", help="Print the figures of every run as JSON, and nothing else.")
    ] = False,
    plot: Annotated[
        Path | None,
        typer.Option(
            metavar="OUT.png|.svg|.pdf",
            help="Also draw it: accuracy over time, cost against accuracy right after.",
        ),
    ] = None,
    page: Annotated[
        Path | None,
        typer.Option("--html", metavar="OUT.html", help="Also write it as a page that stands alone."),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Leave config.toml, comparison.json, comparison.html and comparison.png there.",
        ),
    ] = None,
    force: Force = False,
    quiet: Quiet = False,
) -> None:
    """Run the same federation under several methods: which one to take, and what does it cost?"""
    from unknot.cli.run import too_late
    from unknot.experiments import Experiment
    from unknot.experiments import compare as run_all
    from unknot.experiments.contenders import contenders, written
    from unknot.experiments.results import COMPARED, check_folder, write_comparison
    from unknot.experiments.seeds import parse_seeds
    from unknot.report import comparison_page, targets, timeline
    from unknot.report.compared import wrong
    from unknot.report.comparison import Tables
    from unknot.report.progress import Together

    done: list[Path] = []
    ended: set[tuple[str, int]] = set()
    runs = 0

    def kept() -> str:
        if done:
            return f"what was written is in {', '.join(map(str, done))}"
        many = f"{len(ended)} of {runs} runs had ended" if ended else "no run had ended"
        return (
            f"{many}, and a comparison keeps nothing before all have. The same command starts from the first"
        )

    with errors_for_people(kept):
        experiment = Experiment.read(file, changes(set_, None, device, engine, ray_address))
        numbers = (experiment.seed,) if seeds is None else parse_seeds(seeds)
        if plot is not None:
            timeline.check(plot)
        if page is not None:
            targets.check_page(page)
        if out is not None:
            check_folder(out, force, COMPARED)
        elif force:
            raise ConfigError("--force is for a folder of --out: name it, or leave --force out")
        for text in too_late(experiment):
            warn(text)
        runs = len(contenders(method, experiment)) * len(numbers)
        with Together(side(quiet or json_), runs, experiment.length.rounds) as tell:
            found = run_all(experiment, method, numbers, tell=tell, done=lambda who, n: ended.add((who, n)))
        shown = found.to_dict()
        plot = plot if found.histories else None
        if plot is not None:
            found.plot(plot)
            done.append(plot)
        if page is not None:
            targets.write(page, comparison_page.page(shown))
            done.append(page)
        if out is not None:
            again = _again([written(one, experiment.folder) for one in method or ()], seeds)
            done += write_comparison(found, out, comparison_page.page, again)
        if quiet or json_:
            for who, text in wrong(shown):
                warn(f"{who}: {text}", bad=True)
        if json_:
            sys.stdout.write(json.dumps(found.rows) + "\n")
        elif not quiet:
            screen().print(Tables(shown))
            screen().print(f"{runs} runs in {found.seconds:.0f} s", style="dim")
            sys.stdout.writelines(f"written: {path}\n" for path in done)
        raise typer.Exit(_status(found))


def _again(methods: Sequence[str], seeds: str | None) -> str:
    """The command that compares the same once more, from the settings that are left."""
    told = ["unknot", "compare", "config.toml", *(word for one in methods for word in ("--method", one))]
    return shlex.join([*told, *(() if seeds is None else ("--seeds", "".join(seeds.split())))])


def _status(found: Comparison) -> int:
    """What the command exits with; what could not run comes first."""
    if found.failures:
        return FAILED
    histories = found.histories.values()
    if any(history.unserved for history in histories):
        return PENDING
    return NOT_WELL if any(history.warnings for history in histories) else 0
