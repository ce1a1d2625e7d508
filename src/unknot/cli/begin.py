"""``unknot new`` and ``unknot check``: before a run."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated

import typer

from unknot.cli.app import (
    NOT_WELL,
    PENDING,
    PLAIN,
    Device,
    Engine,
    RayAddress,
    Seed,
    Set,
    app,
    changes,
    errors_for_people,
)
from unknot.cli.screen import screen, side, warn


@app.command(epilog=PLAIN)
def new(
    method: Annotated[str, typer.Option(help="How it is to forget: see unknot list methods.")] = "rfs",
    data: Annotated[str, typer.Option(help="What to train on: see unknot list data.")] = "digits",
) -> None:
    """Write a commented file to begin with: unknot new --method mmt > my.toml."""
    from unknot.experiments.starter import starter

    with errors_for_people():
        sys.stdout.write(starter(method, data))


@app.command(
    epilog="Exit status: 0 all well; 2 an error; 3 a request would stay pending; 4 no clients would be left; "
    "130 stopped by Ctrl-C."
)
def check(
    file: Annotated[Path, typer.Argument(help="The experiment, a TOML file.")],
    set_: Set = None,
    seed: Seed = None,
    device: Device = None,
    engine: Engine = None,
    ray_address: RayAddress = None,
    json_: Annotated[bool, typer.Option("--json", help="Print it as JSON, and nothing else.")] = False,
) -> None:
    """Say what a run of a file would do, without training: who, how long, what comes when, what it takes."""
    from unknot.experiments import Experiment
    from unknot.experiments.forecast import forecast
    from unknot.report.forecast import table

    with errors_for_people():
        experiment = Experiment.read(file, changes(set_, seed, device, engine, ray_address))
        with side().status("going through the rounds without training"):
            found = forecast(experiment).to_dict()
        for text in found["warnings"]:
            warn(text, bad=True)
        if json_:
            sys.stdout.write(json.dumps(found) + "\n")
        else:
            screen().print(table(found))
    if any(not one["served"] for one in found["requests"]):
        raise typer.Exit(PENDING)
    raise typer.Exit(NOT_WELL if found["warnings"] else 0)
