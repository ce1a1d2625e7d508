"""``unknot run`` and ``unknot demo``."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from importlib.resources import as_file, files
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from unknot.cli.app import (
    NOT_WELL,
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
from unknot.cli.ending import Asked, leave, status_of
from unknot.cli.holding import Checkpoint, Keep, NewKeys, held, kept_in, plain_alone
from unknot.cli.screen import screen, side, warn, warnings_told
from unknot.cli.tracking import CSVFile, MLflowPlace, TensorBoardDir, Tracked, WandBProject

if TYPE_CHECKING:
    from unknot.experiments import Experiment
    from unknot.federation import History
    from unknot.report.progress import Live
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
    keep: Keep = True,
    checkpoint: Checkpoint = None,
    keys: NewKeys = None,
    csv: CSVFile = None,
    tensorboard: TensorBoardDir = None,
    mlflow: MLflowPlace = None,
    wandb: WandBProject = None,
    quiet: Quiet = False,
) -> None:
    """Run the experiment that a TOML file describes, and show what it gave and what it cost."""
    asked = Asked(
        json_,
        quiet,
        plot,
        out,
        force,
        Tracked(csv, tensorboard, mlflow, wandb),
        keep and out is not None,
        keys,
        checkpoint,
    )
    _, history, refused = _run(file, changes(set_, seed, device, engine, ray_address), asked)
    raise typer.Exit(status_of(history, refused))


@app.command(
    epilog=STATUSES.replace("2 an error", "1 the two models differ; 2 an error")
    .replace(", or one was refused", "")
    .replace(", or, of a run that is kept, by SIGTERM", "")
    .replace(
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
    asked = Asked(json_, quiet, plot, out, force, Tracked(csv, tensorboard, mlflow, wandb))
    if text:
        with errors_for_people():
            raise typer.Exit(_text_demo(seed or 0, asked))
    with as_file(files("unknot") / "experiments" / "demo.toml") as file:
        experiment, history, refused = _run(file, changes(None, seed), asked)
    if not json_:
        with errors_for_people(lambda: "the run is finished, its proof is not"):
            _prove(experiment, history, quiet)
    raise typer.Exit(status_of(history, refused))


def _run(file: Path, overrides: list[str], asked: Asked) -> tuple[Experiment, History, Sequence[int]]:
    """Run it, and leave what it leaves; what it was, and the numbers of the requests that it refused."""
    from unknot.experiments import Experiment
    from unknot.experiments import run as run_experiment
    from unknot.report.progress import Live

    trackers: list[Tracker] = []
    live: Live | None = None
    with errors_for_people(lambda: _kept(live, asked, trackers)):
        experiment = Experiment.read(file, overrides)
        asked.check()
        trackers += asked.tracked.trackers()
        for text in too_late(experiment):
            warn(text)
        live = Live(side(asked.silent), experiment.length.rounds)
        if asked.keep and asked.out is not None:
            return _run_kept(experiment, asked, live, trackers)
        with warnings_told(), live:
            history = run_experiment(experiment, observers=[live, *trackers])
        leave(history, experiment, asked, trackers)
        return experiment, history, ()


def _run_kept(
    experiment: Experiment, asked: Asked, live: Live, trackers: list[Tracker]
) -> tuple[Experiment, History, Sequence[int]]:
    """A run that is kept in its folder from its first moment."""
    from unknot.experiments import kept
    from unknot.store.noted import again_in

    assert asked.out is not None
    with warnings_told(), plain_alone():
        fed = kept.begin(
            experiment,
            asked.out,
            [live, *trackers],
            keys=asked.keys,
            every=asked.checkpoint,
            instead=asked.force,
            own=asked.pictures,
            command=True,
        )
    with held(fed, asked.out, asked.keys) as keeper:
        with warnings_told(), live, plain_alone():
            history = kept.go_on(fed)
        keeper.check()
        experiment = kept.to_leave(asked.out, own_code=True, keys=asked.keys)
        leave(history, experiment, asked, trackers, keeper, again_in(asked.out, asked.keys))
    return experiment, history, keeper.turned_away


def _kept(live: Live | None, asked: Asked, trackers: list[Tracker]) -> str:
    """What there is of a run that was stopped, and how to go on."""
    from unknot.store.noted import again_in

    rounds, seen = (0, 0) if live is None else (live.rounds, live.seen)
    text = f"after round {rounds}" if rounds else "before the first round was done"
    how = "The same command starts from the first round"
    if asked.keep and asked.out is not None and (there := kept_in(asked.out, seen)):
        text += f"; {there}"
        how = f"Go on with: {again_in(asked.out, asked.keys)}"
    else:
        text += "; no model is kept"
        if asked.keep and asked.out is not None and asked.out.is_dir() and any(asked.out.iterdir()):
            text += f"; {asked.out} holds what was begun, and no checkpoint"
        elif asked.out is not None:
            text += f"; nothing was written into {asked.out}"
    if rounds and trackers:
        text += f"; what happened until then is in {', '.join(tracker.where for tracker in trackers)}"
    return f"{text}. {how}"


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


def _text_demo(seed: int, asked: Asked) -> int:
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
