"""While a command holds a run that is kept: signals, a stop that was asked for, what cannot be kept."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from unknot.cli.app import errors_for_people
from unknot.cli.screen import aside, side
from unknot.core.errors import StoreError

if TYPE_CHECKING:
    from unknot.federation import Federation
    from unknot.store.keeper import RunKeeper

Keep = Annotated[
    bool,
    typer.Option(
        "--keep/--no-keep",
        metavar="",
        help="Of --out: keep the run itself there, to go on with; or write only the results.",
    ),
]
Checkpoint = Annotated[
    float | None,
    typer.Option(metavar="SECONDS", min=0.0, help="Keep it every so many seconds; 5 if left out."),
]
NewKeys = Annotated[
    Path | None, typer.Option("--keys", metavar="FILE", help="Where the keys go, apart from the folder.")
]
Keys = Annotated[
    Path | None, typer.Option("--keys", metavar="FILE", help="Where the keys are, if apart from the folder.")
]


def _there(folder: Path) -> Path:
    """A folder that is not there is refused before all that is imported which reads one."""
    with errors_for_people():
        if not os.path.lexists(folder):
            raise StoreError(f"{folder} holds no run: name the folder of one (unknot runs shows them)")
        if folder.is_symlink():
            raise StoreError(
                f"{folder} is a symbolic link: name the folder itself, {os.path.realpath(folder)}"
            )
    return folder


Folder = Annotated[
    Path,
    typer.Argument(metavar="DIR", help="The folder of a run: --out of unknot run.", callback=_there),
]


def kept_in(folder: Path, rounds: int) -> str:
    """What a folder has of a run of so many rounds, in words; nothing where there is none to go on with."""
    from unknot.core.errors import UnknotError
    from unknot.report.words import counted
    from unknot.store.look import look

    try:
        found = look(folder)
    except (UnknotError, OSError):
        return ""
    if found.kept is None:
        return ""
    text = f"the run is kept in {folder}"
    if (lost := rounds - found.rounds) <= 0:
        return text
    since = (
        "the round since is computed again" if lost == 1 else f"the {lost} rounds since are computed again"
    )
    return f"{text} as of its last checkpoint ({counted(found.rounds, 'round')}); {since}"


@contextmanager
def held(fed: Federation, folder: Path, keys: Path | None = None, options: str = "") -> Iterator[RunKeeper]:
    """Within: the first Ctrl-C or SIGTERM ends the run after this step, kept; a second one at once.

    A stop that was asked for ends the command, and all is well; it is gone on with by the same `options`.
    The folder is let go of at the end.
    """
    from unknot.core.errors import RunStopped
    from unknot.store.keeper import keeper_of
    from unknot.store.noted import again_in

    keeper = keeper_of(fed)
    try:
        with _signals(keeper):
            yield keeper
    except RunStopped:
        side().print(Text(f"stopped, as it was asked to. Go on with: {again_in(folder, keys, options)}"))
        raise typer.Exit(0) from None
    finally:
        keeper.close()


@contextmanager
def _signals(keeper: RunKeeper) -> Iterator[None]:
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def asked(number: int, frame: object) -> None:
        if keeper.interrupted:
            raise KeyboardInterrupt
        keeper.interrupted = True
        again = "; Ctrl-C again ends it at once" if number == signal.SIGINT else ""
        aside(Text(f"ending after this step, so that nothing is lost{again}"))

    before = {number: signal.signal(number, asked) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def plain_alone() -> Iterator[None]:
    """Within: what has no written form is refused with the way around."""
    from unknot.core.errors import ConfigError
    from unknot.core.form import NotPlain

    try:
        yield
    except NotPlain as error:
        raise ConfigError(f"{error}; or write only the results, with --no-keep") from None
