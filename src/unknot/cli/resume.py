"""``unknot resume``: go on with a run that is kept."""

from __future__ import annotations

import json
import os
import tomllib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from unknot.cli.app import (
    STATUSES,
    Device,
    Engine,
    Json,
    Plot,
    Quiet,
    app,
    changes,
    errors_for_people,
)
from unknot.cli.ending import Asked, check_store, leave, status_of
from unknot.cli.holding import Checkpoint, Folder, Keys, held, kept_in, plain_alone
from unknot.cli.screen import Unwritten, side, warn, warnings_told
from unknot.cli.tracking import CSVFile, MLflowPlace, TensorBoardDir, Tracked, WandBProject

if TYPE_CHECKING:
    from unknot.report.progress import Live
    from unknot.store.lock import Holder

LONGEST = 1 << 30
"""Bytes of a result that is read: what is longer is written anew."""
NOTHING = "nothing was asked of it since"


@app.command(epilog=STATUSES)
def resume(
    folder: Folder,
    rounds: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            min=1,
            help="Train N more rounds after what was under way; if the run is over, N in place of what its "
            "stopping rule asks for. Said again after a crash, it ends those and adds none.",
        ),
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
    csv: CSVFile = None,
    tensorboard: TensorBoardDir = None,
    mlflow: MLflowPlace = None,
    wandb: WandBProject = None,
    quiet: Quiet = False,
) -> None:
    """Go on with the run in a folder from its last checkpoint, to the bit, and serve what was asked since."""
    tracked = Tracked(csv, tensorboard, mlflow, wandb)
    asked = Asked(json_, quiet, plot, folder, tracked=tracked, keep=True, keys=keys, checkpoint=checkpoint)
    overrides = changes(None, None, device, engine)
    for_training = {
        "--rounds": rounds,
        "--device": device,
        "--engine": engine,
        "--json": json_ or None,
        "--checkpoint": checkpoint,
        "--plot": plot,
        "--csv": csv,
        "--tensorboard": tensorboard,
        "--mlflow": mlflow,
        "--wandb": wandb,
    }
    given = [option for option, value in for_training.items() if value is not None]
    raise typer.Exit(_resume(folder, rounds, overrides, own_code, asked, given))


def _resume(
    folder: Path,
    rounds: int | None,
    overrides: list[str],
    own_code: bool,
    asked: Asked,
    given: Sequence[str],
) -> int:
    """Go on; what to exit with. `given` are the options that are for the process that trains."""
    from unknot.core.errors import StoreError
    from unknot.experiments import kept
    from unknot.federation.history import NOBODY_LEFT
    from unknot.report.progress import Live
    from unknot.store.look import FINISHED, look
    from unknot.store.noted import again_in, begun, broken_off, held_idle
    from unknot.store.shown import one_line

    live: Live | None = None
    before, same = 0, "" if rounds is None else f"--rounds {rounds}"
    with (
        errors_for_people(lambda: _kept(live, before, folder, asked.keys, same)),
        _in_words(folder, own_code),
    ):
        check_store()
        asked.check_beside()
        found = look(folder, asked.keys)
        if found.holder is not None and (found.paused or found.pausing):
            _go(folder, found.holder, given)
        if found.holder is not None and found.idle:
            raise StoreError(held_idle(found.holder.pid, folder, found.command))
        if found.kept is None and found.holder is None:
            raise StoreError(broken_off(begun(folder), folder))
        over = rounds is None and found.settled
        trackers = [] if over else asked.tracked.trackers(onto=True)
        for path in kept.reads(folder, asked.keys, own_code):
            side(asked.silent).print(Text(f"reads {one_line(_tidied(path))}"))
        telling = _Later()
        with warnings_told():
            fed = kept.resume(
                folder,
                [telling, *trackers],
                keys=asked.keys,
                every=asked.checkpoint,
                overrides=overrides,
                own_code=own_code,
                command=True,
            )
        with held(fed, folder, asked.keys, same) as keeper:
            for text in keeper.said:
                warn(text)
            steps, before = fed.steps, 0 if fed.history is None else len(fed.history.rounds)
            changed, has_record = _changed(folder, asked.keys), _of_its_end(folder, found.model, found.rounds)
            if not has_record:
                kept.not_given(fed)
            if rounds is not None and kept.owes(fed, rounds):
                text = f"the {rounds} more rounds were trained before, and are not trained again"
                side(asked.silent).print(Text(f"{text}: what they lead to is written now"))
            live = telling.live = Live(side(asked.silent or over), kept.last_round(fed, rounds))
            with warnings_told(), live, plain_alone():
                history = kept.go_on(fed, rounds)
            idle = rounds is None and found.state == FINISHED and fed.steps == steps
            if idle and has_record and not changed and _whole(folder):
                since = "what was asked of it was refused" if keeper.turned_away else NOTHING
                more = again_in(folder, asked.keys, "--rounds N") if history.stopped != NOBODY_LEFT else ""
                asked = _left_alone(asked, more, history.stopped, since)
                _note_results(folder, asked.keys)
            keeper.check()
            left = kept.to_leave(folder, overrides, own_code, asked.keys)
            leave(history, left, asked, trackers, keeper, again_in(folder, asked.keys, same))
        return status_of(history, keeper.turned_away)


def _tidied(path: str) -> str:
    """Where a path leads that goes up and down; others as they were given."""
    return os.path.realpath(path) if ".." in Path(path).parts else path


@contextmanager
def _in_words(folder: Path, own_code: bool) -> Iterator[None]:
    """What a folder says may lead to any error, if somebody made it up: a line, and where on demand.

    With code of one's own in it, an error is most likely there, and is shown where it is.
    """
    from unknot.core.errors import StoreError, UnknotError

    try:
        yield
    except (UnknotError, OSError, Unwritten, typer.Exit):
        raise
    except Exception as error:
        if own_code or os.environ.get("UNKNOT_TRACEBACK"):
            raise
        raise StoreError(
            f"{folder} cannot be gone on with ({type(error).__name__}: {str(error)[:300]!a}): what it keeps "
            "was changed, or unknot has an error here; with UNKNOT_TRACEBACK=1 it says where"
        ) from None


def _whole(folder: Path) -> bool:
    """Whether all is there that the end of a run leaves, and can be read."""
    from unknot.core.errors import UnknotError
    from unknot.core.saved import load_model
    from unknot.experiments.results import CONFIG, MODEL, RECORD, REPORT

    try:
        load_model(folder / MODEL)
        json.loads(_text(folder / RECORD))
        tomllib.loads(_text(folder / CONFIG))
        return _text(folder / REPORT).rstrip().endswith("</html>")
    except (UnknotError, OSError, ValueError):
        return False


def _changed(folder: Path, keys: Path | None) -> bool:
    """Whether one of the results is not as the run left it; that is said."""
    from unknot.store.database import Database
    from unknot.store.noted import DATABASE
    from unknot.store.own_keys import keyring_of
    from unknot.store.results import changed_in

    keyring = keyring_of(folder, keys)
    with Database.open(folder / DATABASE, readonly=True) as db:
        found = changed_in(db, keyring, folder)
    for name in found:
        warn(f"{folder / name} is not as the run left it, and is written again")
    return bool(found)


def _note_results(folder: Path, keys: Path | None) -> None:
    """Note results that are left as they are, where who wrote them was gone before it had."""
    from unknot.experiments.results import FILES
    from unknot.store.database import Database
    from unknot.store.noted import DATABASE
    from unknot.store.own_keys import keyring_of
    from unknot.store.results import are_noted, note_results

    keyring = keyring_of(folder, keys)
    with Database.open(folder / DATABASE) as db:
        if keyring.code() is not None and not are_noted(db):
            note_results(db, keyring, folder, FILES)


def _of_its_end(folder: Path, model: str | None, rounds: int) -> bool:
    """Whether the record there, which is written last, is of the end that the run has come to."""
    from unknot.core.errors import UnknotError
    from unknot.experiments.results import RECORD

    try:
        found = json.loads(_text(folder / RECORD))
        return bool(found["model"] == model and len(found["rounds"]) == rounds)
    except (UnknotError, OSError, ValueError, LookupError, TypeError):
        return False


def _text(path: Path) -> str:
    """What a result says; somebody else may have put anything there."""
    from unknot.store.files import read_whole

    return read_whole(path, LONGEST).decode()


def _left_alone(asked: Asked, more: str, stopped: str, since: str) -> Asked:
    """A run that is over, and has nothing to do: that is said, and its results stay as they are."""
    text = f"{asked.out} is over ({stopped}), and {since}: its results stay as they are"
    side(asked.silent).print(Text(f"{text}. More of it: {more}" if more else text))
    return replace(asked, results=False, quiet=True)


class _Later:
    """An observer whose display is made when it is known how far the run is to go."""

    live: Live

    def begin(self, begun: object) -> None:
        self.live.begin(begun)  # type: ignore[arg-type]

    def __call__(self, event: object) -> None:
        self.live(event)  # type: ignore[arg-type]


def _go(folder: Path, runner: Holder, given: Sequence[str]) -> None:
    """A process that is paused is told to go on; there is nothing else to do then.

    It has options of its own; those that are `given` here would be dropped unsaid.
    """
    from unknot.core.commands import command
    from unknot.core.errors import StoreError
    from unknot.store.database import Database
    from unknot.store.inbox import asker
    from unknot.store.noted import database

    if given:
        raise StoreError(
            f"{folder} is paused, and process {runner.pid} holds it, which cannot be given "
            f"{', '.join(given)}: {command('resume', folder)} without options lets it go on; options "
            f"are for a run that nobody runs ({command('stop', folder)} ends it, kept)"
        )
    with Database.open(database(folder)) as db:
        db.ask("go", b"", asker())
    side().print(
        Text(
            f"{folder} was paused; process {runner.pid} goes on now. See it with: {command('watch', folder)}"
        )
    )
    raise typer.Exit(0)


def _kept(live: Live | None, before: int, folder: Path, keys: Path | None, options: str) -> str:
    """What there is of a run that was stopped, which had so many rounds before, and how to go on."""
    from unknot.store.noted import again_in

    when, rounds = "", 0
    if live is not None and live.rounds:
        when, rounds = f"after round {live.rounds}; ", before + live.seen
    there = kept_in(folder, rounds) or f"the run is kept in {folder}"
    return f"{when}{there}. Go on with: {again_in(folder, keys, options)}"
