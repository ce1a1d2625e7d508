"""``unknot audit``."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from unknot.cli.app import Device, Engine, Quiet, RayAddress, Seed, Set, app, changes, errors_for_people
from unknot.cli.screen import screen, side
from unknot.core.errors import ConfigError

STATUSES = (
    "Exit status: 0 no trace found; 1 it still shows or was over-forgotten; 2 an error; 4 no power: nothing "
    "was shown; 130 stopped by Ctrl-C."
)


@app.command(epilog=STATUSES)
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
        typer.Option(
            help="Also: lira, lira-offline, rmia, rmia-offline, shokri, loss, ulira. May be repeated."
        ),
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
    device: Device = None,
    engine: Engine = None,
    ray_address: RayAddress = None,
    json_: Annotated[
        bool, typer.Option("--json", help="Print figures, curves and scores as JSON, and nothing else.")
    ] = False,
    plot: Annotated[
        Path | None, typer.Option(metavar="OUT.png|.svg|.pdf", help="Also draw the statistic and the ROC.")
    ] = None,
    page: Annotated[
        Path | None,
        typer.Option("--html", metavar="OUT.html", help="Also write a page for who decides by it."),
    ] = None,
    backdoor: Annotated[
        bool, typer.Option("--backdoor", help="Instead: mark the erased clients' images; who answers to it?")
    ] = False,
    canaries: Annotated[
        int | None, typer.Option(help="Instead: plant so many wrong labels by coin toss; can they be told?")
    ] = None,
    secrets: Annotated[
        int | None, typer.Option(help="Instead, of texts: plant so many random runs of tokens. Exposed?")
    ] = None,
    repeats: Annotated[int, typer.Option(help="How often each of these secrets is planted.")] = 8,
    quiet: Quiet = False,
) -> None:
    """Run an experiment, and look for what it erased in what it serves."""
    from unknot.audit import Canaries, Secrets
    from unknot.core.saved import load_model
    from unknot.experiments import Experiment, audited, planted
    from unknot.experiments.case import Thorough
    from unknot.report import audit as report
    from unknot.report import audit_page, audit_plot, targets, timeline

    done: list[Path] = []

    def kept() -> str:
        if done:
            return f"the audit is finished, and what was written is in {', '.join(map(str, done))}"
        return "no verdict was reached, and no model is kept. The same command starts from the first"

    with errors_for_people(kept):
        planting = {
            "--backdoor": backdoor,
            "--canaries": canaries is not None,
            "--secrets": secrets is not None,
        }
        instead = [name for name, wanted in planting.items() if wanted]
        if len(instead) > 1:
            raise ConfigError(f"{' and '.join(instead)} are {len(instead)} audits: ask for one of them")
        if instead and (plot or page or model or attack):
            raise ConfigError(
                "--plot, --html, --model and --attack are for the audit itself, not for marks, canaries or "
                "secrets"
            )
        if plot is not None:
            timeline.check(plot)
        audit_page.check(page)
        experiment = Experiment.read(file, changes(set_, seed, device, engine, ray_address))
        with side(quiet).status(escape(experiment.name)) as status:
            shown: audited.Audit | planted.Backdoor | planted.CanaryAudit | planted.SecretAudit
            if backdoor:
                shown = planted.backdoor(experiment, controls=controls, level=level, tell=status.update)
            elif canaries is not None:
                shown = planted.with_canaries(experiment, Canaries(canaries), level=level, tell=status.update)
            elif secrets is not None:
                hidden = Secrets(secrets, repeats)
                shown = planted.with_secrets(experiment, hidden, level=level, tell=status.update)
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
            done.append(plot)
        if page is not None:
            targets.write(page, audit_page.page(found))
            done.append(page)
        if json_:
            sys.stdout.write(report.to_json(found) + "\n")
        elif not quiet:
            tables = {"--backdoor": report.marks, "--canaries": report.guesses, "--secrets": report.secrets}
            screen().print((tables[instead[0]] if instead else report.tables)(found))
            sys.stdout.writelines(f"written: {path}\n" for path in done)
        raise typer.Exit({"no trace found": 0, "no power": 4}.get(str(found["outcome"]), 1))
