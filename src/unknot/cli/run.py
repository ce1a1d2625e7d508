"""``unknot run`` and ``unknot demo``."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from importlib.resources import as_file, files
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from unknot.cli.app import (
    NOT_TRACKED,
    NOT_WELL,
    PENDING,
    STATUSES,
    Device,
    Engine,
    Force,
    Json,
    Out,
    Plot,
    Quiet,
    RayAddress,
    Seed,
    Set,
    app,
    changes,
    errors_for_people,
)
from unknot.cli.screen import screen, side, warn, warnings_told
from unknot.cli.tracking import CSVFile, MLflowPlace, TensorBoardDir, Tracked, WandBProject, lost

if TYPE_CHECKING:
    from unknot.experiments import Experiment
    from unknot.federation import History
    from unknot.track import Tracker


@app.command(epilog=STATUSES)
def run(
    file: Annotated[Path, typer.Argument(help="The experiment, a TOML file.")],
    set_: Set = None,
    seed: Seed = None,
    device: Device = None,
    engine: Engine = None,
    ray_address: RayAddress = None,
    json_: Json = False,
    plot: Plot = None,
    out: Out = None,
    force: Force = False,
    csv: CSVFile = None,
    tensorboard: TensorBoardDir = None,
    mlflow: MLflowPlace = None,
    wandb: WandBProject = None,
    quiet: Quiet = False,
) -> None:
    """Run the experiment that a TOML file describes, and show what it gave and what it cost."""
    asked = _Asked(json_, quiet, plot, out, force, Tracked(csv, tensorboard, mlflow, wandb))
    _, history = _run(file, changes(set_, seed, device, engine, ray_address), asked)
    raise typer.Exit(_status(history))


@app.command(
    epilog=STATUSES.replace("2 an error", "1 the two models differ; 2 an error").replace(
        "what it seems;", "what it seems (with --text: the secret was not exposed, so nothing is shown);"
    )
)
def demo(
    text: Annotated[
        bool,
        typer.Option(
            "--text",
            help="Shops fine-tune a language model instead, and one wrote a secret. Goes with --seed, --json "
            "and --quiet.",
        ),
    ] = False,
    seed: Seed = None,
    json_: Json = False,
    plot: Plot = None,
    out: Out = None,
    force: Force = False,
    csv: CSVFile = None,
    tensorboard: TensorBoardDir = None,
    mlflow: MLflowPlace = None,
    wandb: WandBProject = None,
    quiet: Quiet = False,
) -> None:
    """Twenty clients learn to read digits; one asks to be forgotten; the model recovers, provably."""
    asked = _Asked(json_, quiet, plot, out, force, Tracked(csv, tensorboard, mlflow, wandb))
    if text:
        with errors_for_people():
            raise typer.Exit(_text_demo(seed or 0, asked))
    with as_file(files("unknot") / "experiments" / "demo.toml") as file:
        experiment, history = _run(file, changes(None, seed), asked)
    if not json_:
        with errors_for_people(lambda: "the run is finished, its proof is not"):
            _prove(experiment, history, quiet)
    raise typer.Exit(_status(history))


@dataclass(frozen=True)
class _Asked:
    """What a run is to show and to leave."""

    as_json: bool
    quiet: bool
    plot: Path | None
    out: Path | None
    force: bool
    tracked: Tracked

    @property
    def silent(self) -> bool:
        """Whether there are neither progress nor tables."""
        return self.as_json or self.quiet

    def check(self) -> None:
        """What cannot be written is found before a long run rather than after it."""
        from unknot.core.errors import ConfigError
        from unknot.experiments.results import check_folder
        from unknot.report import timeline

        if self.plot is not None:
            timeline.check(self.plot)
        if self.out is not None:
            check_folder(self.out, self.force)
        elif self.force:
            raise ConfigError("--force is for a folder of --out: name it, or leave --force out")

    def write(self, history: History, experiment: Experiment) -> list[Path]:
        """The picture and the folder, and where they are."""
        from unknot.experiments.results import write_results
        from unknot.report import timeline
        from unknot.report.page import page

        written = []
        if self.plot is not None:
            timeline.draw_run(history, self.plot)
            written.append(self.plot)
        if self.out is not None:
            written += write_results(history, experiment, self.out, page)
        return written


def _run(file: Path, overrides: list[str], asked: _Asked) -> tuple[Experiment, History]:
    from unknot.experiments import Experiment
    from unknot.experiments import run as run_experiment
    from unknot.report.progress import Live

    trackers: list[Tracker] = []
    live: Live | None = None
    with errors_for_people(lambda: _kept(0 if live is None else live.rounds, asked, trackers)):
        experiment = Experiment.read(file, overrides)
        asked.check()
        trackers += asked.tracked.trackers()
        for text in too_late(experiment):
            warn(text)
        with warnings_told(), Live(side(asked.silent), experiment.length.rounds) as live:
            history = run_experiment(experiment, observers=[live, *trackers])
        try:
            _show(history, experiment, asked)
        finally:  # it is left as well where nobody reads what is shown
            written = [f"written: {path}" for path in asked.write(history, experiment)]
        gone = {aside.observer for aside in lost(history)}
        for tracker in trackers:
            kept = "written" if type(tracker).__name__ not in gone else "incomplete"
            written.append(f"{kept}: {tracker.where}")
        if not asked.silent:
            sys.stdout.writelines(f"{line}\n" for line in written)
        return experiment, history


def _show(history: History, experiment: Experiment, asked: _Asked) -> None:
    """The record or the tables; what went wrong stands before them."""
    from unknot.experiments.results import record_of
    from unknot.experiments.scenario import scenario
    from unknot.report.reproduction import scenario_table
    from unknot.report.summary import summary
    from unknot.report.words import pending

    if asked.silent:
        for text in (*history.warnings, *pending(history)):
            warn(text, bad=True)
    if asked.as_json:
        sys.stdout.write(json.dumps(record_of(history, experiment)) + "\n")
    elif not asked.quiet:
        what = f": {history.setup['data']['name']}, {experiment.model.name}"
        screen().print(Text.assemble((experiment.name, "bold"), what))
        screen().print(summary(history))
        if experiment.thresholds and history.served:
            screen().print(scenario_table(scenario(history, experiment.thresholds).to_dict()))


def _kept(rounds: int, asked: _Asked, trackers: list[Tracker]) -> str:
    """What there is of a run that was stopped, and how to go on."""
    when = f"after round {rounds}" if rounds else "before the first round was done"
    text = f"{when}; no model is kept"
    if asked.out is not None:
        text += f"; nothing was written into {asked.out}"
    if rounds and trackers:
        text += f"; what happened until then is in {', '.join(tracker.where for tracker in trackers)}"
    return f"{text}. The same command starts from the first round"


def too_late(experiment: Experiment) -> list[str]:
    """The requests that certainly come at the end or later: said before a long run rather than after it."""
    rounds, seconds = experiment.length.rounds, experiment.length.seconds
    found = []
    for request in experiment.requests:
        at, end = request.at, ""
        if at.round is not None and rounds is not None and at.round >= rounds:
            end = f"{rounds} round{'' if rounds == 1 else 's'}"
        elif at.time is not None and seconds is not None and at.time > seconds:
            end = f"{seconds:g} s"
        if end:
            so = "nothing is left to recover in" if at.round == rounds else "it will stay pending"
            found.append(f"'{request}' comes at {at}, but the run ends after {end}: {so}")
    return found


def _status(history: History) -> int:
    """What the command exits with; a request that was not served comes first."""
    if history.unserved or history.warnings:
        return PENDING if history.unserved else NOT_WELL
    return NOT_TRACKED if lost(history) else 0


def _prove(experiment: Experiment, history: History, quiet: bool) -> None:
    """Train a federation that never had the erased client, for as long, and compare the bits."""
    from unknot.experiments import prepare_without
    from unknot.report.progress import Live

    progress = side(quiet)
    rounds = history.rounds[-1].version
    progress.print("training a federation that never had the erased client, to compare")
    with Live(progress, rounds) as live:
        twin = prepare_without(experiment, [live])
        twin.run(rounds)
    served = history.model
    same = served is not None and served.equal(twin.model)
    _tell_same(served.digest() if served else "–", twin.model.digest(), same, quiet)


def _tell_same(served: str, without: str, same: bool, quiet: bool, what: str = "that client") -> None:
    """The digests of two models, and whether they are the same: where not, the command ends here."""
    console = screen(quiet)
    console.print(f"served after the erasure       {served}")
    console.print(f"{f'trained without {what}':<30} {without}")
    if not same:
        side().print("[bold red]not the same model[/]")
        raise typer.Exit(1)
    console.print("[bold green]the same model, bit for bit[/]")


def _text_demo(seed: int, asked: _Asked) -> int:
    """Show what became of the secret; what to exit with."""
    from unknot.core.errors import ConfigError
    from unknot.experiments.text_demo import text_demo
    from unknot.report import text_demo as report

    if asked.plot or asked.out or asked.force or asked.tracked != Tracked():
        raise ConfigError("demo --text leaves no files: it goes with --seed, --json and --quiet alone")
    with side(asked.silent).status("demo --text") as status:
        demo = text_demo(seed, tell=status.update)
    found = demo.to_dict()
    if asked.as_json:
        sys.stdout.write(json.dumps(found) + "\n")
    elif not asked.quiet:
        screen().print(report.tables(found))
    _tell_same(*demo.digests, demo.same, asked.silent, "its letters")
    return 0 if demo.exposed else NOT_WELL
