"""``unknot resume``: go on with a run that is kept."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from unknot.cli.app import STATUSES, Device, Engine, Json, Plot, Quiet, app, changes, errors_for_people
from unknot.cli.ending import Asked, check_store, leave, status_of
from unknot.cli.holding import Checkpoint, Folder, Keys, held, plain_alone
from unknot.cli.screen import side, warn, warnings_told

if TYPE_CHECKING:
    from unknot.federation import History
    from unknot.report.progress import Live


@app.command(epilog=STATUSES)
def resume(
    folder: Folder,
    rounds: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="When it is over, so many more rounds.")
    ] = None,
    device: Device = None,
    engine: Engine = None,
    checkpoint: Checkpoint = None,
    keys: Keys = None,
    own_code: Annotated[
        bool,
        typer.Option(
            "--own-code", help='The run names code ("module:Thing"), and it is yours: it may be executed.'
        ),
    ] = False,
    json_: Json = False,
    plot: Plot = None,
    quiet: Quiet = False,
) -> None:
    """Go on with the run in a folder from its last checkpoint, to the bit, and serve what was asked since."""
    asked = Asked(json_, quiet, plot, folder, keep=True, keys=keys, checkpoint=checkpoint)
    history = _resume(folder, rounds, changes(None, None, device, engine), own_code, asked)
    raise typer.Exit(status_of(history))


def _resume(folder: Path, rounds: int | None, overrides: list[str], own_code: bool, asked: Asked) -> History:
    from unknot.experiments import kept
    from unknot.report import timeline
    from unknot.report.progress import Live
    from unknot.store.look import look
    from unknot.store.naming import one_line

    live: Live | None = None
    with errors_for_people(lambda: _kept(live, folder)):
        check_store()
        if asked.plot is not None:
            timeline.check(asked.plot)
        if look(folder, asked.keys).paused:
            _go(folder)
        for path in kept.reads(kept.experiment_of(folder, overrides, own_code)):
            side(asked.silent).print(Text(f"reads {one_line(path)}"))
        telling = _Later()
        with warnings_told():
            fed = kept.resume(
                folder,
                [telling],
                keys=asked.keys,
                every=asked.checkpoint,
                overrides=overrides,
                own_code=own_code,
            )
        with held(fed, folder):
            for text in getattr(fed.keeper, "said", ()):
                warn(text)
            live = telling.live = Live(side(asked.silent), kept.last_round(fed, rounds))
            with warnings_told(), live, plain_alone():
                history = kept.go_on(fed, rounds)
            leave(history, kept.to_leave(folder, overrides, own_code, asked.keys), asked)
        return history


class _Later:
    """An observer whose display is made when it is known how far the run is to go."""

    live: Live

    def begin(self, begun: object) -> None:
        self.live.begin(begun)  # type: ignore[arg-type]

    def __call__(self, event: object) -> None:
        self.live(event)  # type: ignore[arg-type]


def _go(folder: Path) -> None:
    """A process that is paused is told to go on; there is nothing else to do then."""
    from unknot.store.database import Database
    from unknot.store.inbox import asker
    from unknot.store.naming import database

    with Database.open(database(folder)) as db:
        db.ask("go", b"", asker())
    side().print(Text(f"{folder} was paused: its process goes on. See it with: unknot watch {folder}"))
    raise typer.Exit(0)


def _kept(live: Live | None, folder: Path) -> str:
    when = f"after round {live.rounds}; " if live is not None and live.rounds else ""
    return f"{when}the run is kept in {folder}. Go on with: unknot resume {folder}"
