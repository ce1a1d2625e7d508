"""The command line: ``unknot run``, ``unknot demo``, ``unknot data``, ``unknot methods``."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.resources import as_file, files
from pathlib import Path
from typing import Annotated

try:
    import typer
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table
    from rich.text import Text
except ImportError as error:  # pragma: no cover
    sys.exit(f"the command line needs rich and typer ({error.name} is missing): pip install 'unknot[cli]'")

from unknot.core.errors import UnknotError
from unknot.experiments import Experiment, prepare_without
from unknot.experiments import run as run_experiment
from unknot.federation import History
from unknot.report.progress import Live
from unknot.report.summary import summary

app = typer.Typer(
    help="Federated learning that can forget, and can prove it.",
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    add_completion=False,
)

Set = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="SECTION.KEY=VALUE", help="Change a setting of the file. May be repeated."),
]
Seed = Annotated[int | None, typer.Option(help="The seed of every draw.")]
Device = Annotated[str | None, typer.Option(help="Where to train: cpu, cuda, cuda:1, ...")]
Engine = Annotated[str | None, typer.Option(help="stacked (fast) or loop (the plain oracle).")]
Json = Annotated[
    bool, typer.Option("--json", help="Print the whole record of the run as JSON, and nothing else.")
]


@app.command()
def run(
    file: Annotated[Path, typer.Argument(help="The experiment, a TOML file.")],
    set_: Set = None,
    seed: Seed = None,
    device: Device = None,
    engine: Engine = None,
    json_: Json = False,
) -> None:
    """Run the experiment that a TOML file describes, and show what it gave and what it cost."""
    overrides = list(set_ or [])
    if seed is not None:
        overrides.append(f"seed={seed}")
    if device is not None:
        overrides.append(f'engine.device="{device}"')
    if engine is not None:
        overrides.append(f'engine.name="{engine}"')
    _run(file, overrides, json_)


@app.command()
def demo(seed: Seed = None, json_: Json = False) -> None:
    """Twenty clients learn to read digits; one asks to be forgotten; the model recovers, provably."""
    with as_file(files("unknot") / "experiments" / "demo.toml") as file:
        experiment, history = _run(file, [] if seed is None else [f"seed={seed}"], json_)
    if not json_:
        _prove(experiment, history)


@app.command()
def data(
    verify: Annotated[
        str | None, typer.Option(metavar="NAME", help="Compare a set's files with their checksums.")
    ] = None,
    root: Annotated[Path | None, typer.Option(help="Where to look, instead of $UNKNOT_DATA.")] = None,
) -> None:
    """List the data sets: present or not, where they are looked for, how to get them, their checksums."""
    from unknot.data import catalogue
    from unknot.data import verify as check

    console = Console()
    with _errors_for_people():
        if verify is not None:
            checks = check(verify, root)
            for item in checks:
                colour = {"ok": "green", "unknown": "yellow"}.get(item.status, "red")
                console.print(
                    f"[{colour}]{item.status:10}[/] {item.file}  {item.found or item.expected or ''}"
                )
            raise typer.Exit(0 if all(c.status in ("ok", "unknown") for c in checks) else 1)
        table = Table("set", "here", "what", "where, how to get it, sha256", show_lines=True)
        table.columns[-1].overflow = "fold"  # a checksum is of use only whole
        for entry in catalogue(root):
            here = "[green]yes[/]" if entry.present else "[red]no[/]"
            sums = "\n".join(f"{digest}  {Path(file).name}" for file, digest in entry.checksums.items())
            lines = [*entry.where, f"[dim]{escape(entry.how)}[/]", sums or "[dim]no checksum known[/]"]
            table.add_row(entry.name, here, entry.description, "\n".join(lines))
        console.print(table)


@app.command()
def methods() -> None:
    """List the unlearning methods and what each guarantees."""
    from unknot.unlearn import METHODS

    table = Table("method", "guarantee", "what it does")
    for name, method in METHODS.items():
        table.add_row(name, method.guarantee.value, (method.__doc__ or "").splitlines()[0])
    Console().print(table)


def _run(file: Path, overrides: list[str], as_json: bool) -> tuple[Experiment, History]:
    console = Console()
    with _errors_for_people():
        experiment = Experiment.read(file, overrides)
        if as_json:
            history = run_experiment(experiment)
            sys.stdout.write(json.dumps(history.to_dict()) + "\n")
            return experiment, history
        console.print(f"[bold]{experiment.name}[/]: {experiment.data.name}, {experiment.model.name}")
        with Live(console, experiment.length.rounds) as live:
            history = run_experiment(experiment, observers=[live])
        console.print(summary(history))
        return experiment, history


def _prove(experiment: Experiment, history: History) -> None:
    """Train a federation that never had the erased client, for as long, and compare the bits."""
    console = Console()
    twin = prepare_without(experiment)
    with console.status("training a federation that never had the erased client"):
        twin.run(history.rounds[-1].version)
    served = history.model
    same = served is not None and served.equal(twin.model)
    console.print(f"served after the erasure       {served.digest() if served else '–'}")
    console.print(f"trained without that client    {twin.model.digest()}")
    console.print("[bold green]the same model, bit for bit[/]" if same else "[bold red]not the same model[/]")
    if not same:
        raise typer.Exit(1)


@contextmanager
def _errors_for_people() -> Iterator[None]:
    """Errors that unknot raises on purpose end the command with their message, not a traceback."""
    try:
        yield
    except UnknotError as error:
        Console(stderr=True).print(Text.assemble(("error: ", "bold red"), str(error)))
        raise typer.Exit(2) from None
