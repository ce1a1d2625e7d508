"""The command line: ``unknot run``, ``unknot demo``, ``unknot data``, ``unknot reproduce``..."""

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

from unknot.core.errors import ConfigError, UnknotError
from unknot.experiments import Experiment, prepare_without
from unknot.experiments import run as run_experiment
from unknot.experiments.scenario import scenario
from unknot.federation import History
from unknot.report import timeline
from unknot.report.progress import Live
from unknot.report.reproduction import scenario_table
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
Plot = Annotated[
    Path | None,
    typer.Option(metavar="OUT.png|.svg", help="Also draw it: accuracy, and who was at work, over time."),
]
Picture = Annotated[Path | None, typer.Option(metavar="OUT.png|.svg", help="Also draw it into this file.")]


PENDING, NOT_WELL = 3, 4
STATUSES = (
    "Exit status: 0 all well; 2 an error; 3 a request is still pending, because the run ended before it "
    "came; 4 most updates were set aside (of the run, since the last request, or in a lane at its end), or "
    "no clients were left: the model is not what it seems."
)


@app.command(epilog=STATUSES)
def run(
    file: Annotated[Path, typer.Argument(help="The experiment, a TOML file.")],
    set_: Set = None,
    seed: Seed = None,
    device: Device = None,
    engine: Engine = None,
    json_: Json = False,
    plot: Plot = None,
) -> None:
    """Run the experiment that a TOML file describes, and show what it gave and what it cost."""
    overrides = list(set_ or [])
    if seed is not None:
        overrides.append(f"seed={seed}")
    if device is not None:
        overrides.append(f'engine.device="{device}"')
    if engine is not None:
        overrides.append(f'engine.name="{engine}"')
    _, history = _run(file, overrides, json_, plot)
    raise typer.Exit(_status(history))


@app.command(epilog=STATUSES)
def demo(seed: Seed = None, json_: Json = False, plot: Plot = None) -> None:
    """Twenty clients learn to read digits; one asks to be forgotten; the model recovers, provably."""
    with as_file(files("unknot") / "experiments" / "demo.toml") as file:
        experiment, history = _run(file, [] if seed is None else [f"seed={seed}"], json_, plot)
    if not json_:
        _prove(experiment, history)
    raise typer.Exit(_status(history))


@app.command()
def audit(
    file: Annotated[Path, typer.Argument(help="An experiment that erases something, a TOML file.")],
    controls: Annotated[
        int, typer.Option(help="Models without the erased data, to rank what is served in.")
    ] = 19,
    level: Annotated[float, typer.Option(help="The risk of a false alarm.")] = 0.05,
    sensitivity: Annotated[
        int, typer.Option(help="Models with a share left in: how small a trace would be found? 0: not told.")
    ] = 20,
    attack: Annotated[
        list[str] | None,
        typer.Option(help="Also: lira, lira-offline, rmia, rmia-offline, shokri, ulira. May be repeated."),
    ] = None,
    shadows: Annotated[int, typer.Option(help="Shadow models that these attacks learn from.")] = 32,
    others: Annotated[
        int | None, typer.Option(help="Test samples to ask about beside the erased ones, at most.")
    ] = None,
    queries: Annotated[int, typer.Option(help="How often each image is asked about, moved by a pixel.")] = 1,
    model: Annotated[
        Path | None, typer.Option(help="Audit this saved model in place of what the run serves.")
    ] = None,
    set_: Set = None,
    seed: Seed = None,
    json_: Annotated[
        bool, typer.Option("--json", help="Print figures, curves and scores as JSON, and nothing else.")
    ] = False,
    plot: Annotated[
        Path | None, typer.Option(metavar="OUT.png|.svg", help="Also draw the statistic and the ROC.")
    ] = None,
    page: Annotated[
        Path | None, typer.Option(metavar="OUT.html", help="Also write a page for who decides by it.")
    ] = None,
    backdoor: Annotated[
        bool, typer.Option("--backdoor", help="Instead: mark the erased clients' images; who answers to it?")
    ] = False,
    canaries: Annotated[
        int | None, typer.Option(help="Instead: plant so many wrong labels by coin toss; can they be told?")
    ] = None,
) -> None:
    """Run an experiment, and look for what it erased in what it serves.

    Exit status: 0, no trace found; 1, it still shows or was over-forgotten; 2, an error; 4, no power: nothing
    was shown.
    """
    from unknot.audit import Canaries
    from unknot.core.saved import load_model
    from unknot.experiments import audited, planted
    from unknot.experiments.case import Thorough
    from unknot.report import audit as report
    from unknot.report import audit_page, audit_plot

    console = Console()
    with _errors_for_people():
        if backdoor and canaries is not None:
            raise ConfigError("--backdoor and --canaries are two audits: ask for one of them")
        if (backdoor or canaries is not None) and (plot or page or model or attack):
            raise ConfigError(
                "--plot, --page, --model and --attack are for the audit itself, not for marks or canaries"
            )
        if plot is not None:
            timeline.check(plot)
        audit_page.check(page)
        experiment = Experiment.read(file, [*(set_ or []), *([] if seed is None else [f"seed={seed}"])])
        with Console(stderr=True).status(escape(experiment.name)) as status:
            shown: audited.Audit | planted.Backdoor | planted.CanaryAudit
            if backdoor:
                shown = planted.backdoor(experiment, controls=controls, level=level, tell=status.update)
            elif canaries is not None:
                shown = planted.with_canaries(experiment, Canaries(canaries), level=level, tell=status.update)
            else:
                names = tuple(attack or ())
                shown = audited.audit(
                    experiment,
                    Thorough(level, controls, sensitivity, names, shadows, others, queries),
                    served=None if model is None else load_model(model),
                    tell=status.update,
                )
        found = shown.to_dict()
        if plot is not None:
            audit_plot.draw(found, plot)
        if page is not None:
            page.write_text(audit_page.page(found), encoding="utf-8")
        if json_:
            sys.stdout.write(report.to_json(found) + "\n")
        else:
            tables = report.marks if backdoor else report.tables if canaries is None else report.guesses
            console.print(tables(found))
            for out in filter(None, (plot, page)):
                sys.stdout.write(f"written: {out}\n")
        raise typer.Exit({"no trace found": 0, "no power": 4}.get(str(found["outcome"]), 1))


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
    """List the unlearning methods, those of other packages too, and what each guarantees."""
    from unknot.core.registry import methods as known

    table = Table("method", "guarantee", "what it does")
    for name in known.names():
        try:
            method = known.get(name)
        except ConfigError as error:
            table.add_row(name, "", f"[red]{escape(str(error))}[/]")
            continue
        guarantee = getattr(method, "guarantee", None)  # a function makes one whose guarantee is seen then
        about = (method.__doc__ or "").strip().partition("\n")[0]
        table.add_row(name, guarantee.value if guarantee else "", escape(about))
    Console().print(table)


@app.command()
def reproduce(
    name: Annotated[
        str | None, typer.Argument(help="Which one, by its name in --list, or a TOML file of your own.")
    ] = None,
    list_: Annotated[bool, typer.Option("--list", help="List the reproductions there are.")] = False,
    scale: Annotated[str, typer.Option(help="small (built-in data, minutes) or paper.")] = "small",
    seeds: Annotated[str | None, typer.Option(metavar="0,1,2", help="Instead of the file's seeds.")] = None,
    device: Device = None,
    threads: Annotated[int | None, typer.Option(help="How many threads train.")] = None,
    out: Annotated[Path, typer.Option(help="Where records, tables and figures go.")] = Path("runs"),
    only: Annotated[
        list[str] | None, typer.Option(metavar="LINE", help="Run only this line or panel. May be repeated.")
    ] = None,
    set_: Set = None,
) -> None:
    """Reproduce a table or a figure of a paper: run what is not yet run, show it, draw it."""
    from unknot import reproduce as reproductions
    from unknot.core.registry import beside
    from unknot.report import reproduction as report

    console = Console()
    with _errors_for_people(), beside(Path(name or "").parent):
        if list_ or name is None:
            console.print(report.catalogue_table([entry.to_dict() for entry in reproductions.overview()]))
            return
        plan = reproductions.load(name)
        chosen = None if seeds is None else reproductions.parse_seeds(seeds)
        changes = list(set_ or [])
        with console.status(name) as status:
            file = reproductions.reproduce(
                plan,
                scale,
                seeds=chosen,
                device=device,
                threads=threads,
                out=out,
                only=only or (),
                overrides=changes,
                tell=status.update if console.is_terminal else console.print,
            )
        found = reproductions.findings(plan, scale, file, chosen, changes).to_dict()
        console.print(report.tables(found))
        command = f"unknot reproduce {name} --scale {scale}"
        command += "" if seeds is None else f" --seeds {seeds}"
        for path in report.write(found, out, "".join([command, *(f" --set '{item}'" for item in changes)])):
            console.print(f"written: {path}")


@app.command()
def tree(
    file: Annotated[Path, typer.Argument(help="A CSV table: client,probability[,expires].")],
    kind: Annotated[
        str, typer.Option(help="huffman, shannon-fano, balanced, b-ary, greedy, budget or star.")
    ] = "huffman",
    branching: Annotated[int | None, typer.Option(help="For b-ary: how many children a node has.")] = None,
    budget: Annotated[int | None, typer.Option(help="For budget: how many sub-federations at most.")] = None,
    json_: Annotated[bool, typer.Option("--json", help="Print the tree as JSON, and nothing else.")] = False,
    svg: Annotated[Path | None, typer.Option(metavar="OUT.svg", help="Also draw it into this file.")] = None,
) -> None:
    """Plan an influence tree: who is trained together, so that forgetting costs little."""
    from unknot.report import trees
    from unknot.topology import read_table

    with _errors_for_people():
        shown = trees.picture(read_table(file), kind, branching, budget)
        if svg is not None:
            trees.write_svg(shown, svg)
        if json_:
            sys.stdout.writelines(trees.to_json(shown))
        else:
            _show(trees.text(shown), svg)


@app.command()
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

    with _errors_for_people():
        shown = report.view(read_profiles(file), clusters, a, b, c1, c2, c3)
        if plot is not None:
            report.draw(shown, plot)
        _show(report.to_json(shown) if json_ else report.text(shown), None if json_ else plot)


@app.command()
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

    with _errors_for_people():
        setting = Setting.of(read_toml(file), str(file))
        if plot is not None:
            report.draw(setting, plot)
        _show(report.to_json(setting) if json_ else report.text(setting), None if json_ else plot)


def _show(text: str, drawn: Path | None) -> None:
    """A plan on the screen, and where its picture is, if that is to be told."""
    sys.stdout.write(text + "\n")
    if drawn is not None:
        sys.stdout.write(f"\nwritten: {drawn}\n")


def _run(file: Path, overrides: list[str], as_json: bool, plot: Path | None) -> tuple[Experiment, History]:
    console = Console()
    with _errors_for_people():
        experiment = Experiment.read(file, overrides)
        if plot is not None:
            timeline.check(plot)
        for text in _too_late(experiment):
            Console(stderr=True).print(Text.assemble(("warning: ", "bold yellow"), text))
        if as_json:
            history = run_experiment(experiment)
            record = history.to_dict()
            if experiment.thresholds:
                record["scenario"] = scenario(history, experiment.thresholds).to_dict()
            sys.stdout.write(json.dumps(record) + "\n")
            if plot is not None:
                timeline.draw_run(history, plot)
            return experiment, history
        console.print(f"[bold]{experiment.name}[/]: {experiment.data.name}, {experiment.model.name}")
        with Live(console, experiment.length.rounds) as live:
            history = run_experiment(experiment, observers=[live])
        console.print(summary(history))
        if experiment.thresholds and history.served:
            console.print(scenario_table(scenario(history, experiment.thresholds).to_dict()))
        if plot is not None:
            timeline.draw_run(history, plot)
            sys.stdout.write(f"written: {plot}\n")
        return experiment, history


def _too_late(experiment: Experiment) -> list[str]:
    """The requests that certainly come at the end or later: said before a long run rather than after it."""
    rounds, seconds = experiment.length.rounds, experiment.length.seconds
    found = []
    for request in experiment.requests:
        at, end = request.at, ""
        if at.round is not None and rounds is not None and at.round >= rounds:
            end = f"{rounds} rounds"
        elif at.time is not None and seconds is not None and at.time > seconds:
            end = f"{seconds:g} s"
        if end:
            so = "nothing is left to recover in" if at.round == rounds else "it will stay pending"
            found.append(f"'{request}' comes at {at}, but the run ends after {end}: {so}")
    return found


def _status(history: History) -> int:
    """What the command exits with; a request that was not served comes first."""
    return PENDING if history.unserved else NOT_WELL if history.warnings else 0


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
