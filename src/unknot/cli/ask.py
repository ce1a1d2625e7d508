"""``unknot forget``, ``admit``, ``pause`` and ``stop``: ask a run from outside, by its folder alone."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from unknot.cli.app import PLAIN, app, errors_for_people
from unknot.cli.holding import Folder, Keys
from unknot.cli.screen import Unwritten, screen, side

if TYPE_CHECKING:
    from unknot.store.lock import Holder

NOT_SERVED = 3
STATUSES = (
    "Exit status: 0 all well; 2 an error; 3 with --wait: the run refused the request, or ended before it was "
    "served; 130 stopped by Ctrl-C (the request stays if its number was printed; unknot show says)."
)
LEFT = "the request stays if its number was printed; unknot show says whether it is there"
"""What is said after Ctrl-C, which may come early."""
Clients = Annotated[
    list[str],
    typer.Option(
        "--client",
        metavar="NAME|#NUMBER",
        help="Who: by name (one that begins with '#' with one more '#' in front), or by number ('#3'; where "
        "clients have no names, 3 will do). May be repeated: one request.",
    ),
]
Wait = Annotated[bool, typer.Option("--wait", help="Wait until it was served, and say what it came to.")]
Reason = Annotated[
    str,
    typer.Option(
        metavar="TEXT",
        help="Why; sealed under the key of one client that is named, and gone with the first of them.",
    ),
]


@app.command(epilog=STATUSES)
def forget(
    folder: Folder,
    client: Clients,
    samples: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Of one client, these samples alone: ids, one a line, or as JSON."),
    ] = None,
    reason: Reason = "",
    wait: Wait = False,
    keys: Keys = None,
) -> None:
    """Ask a run to forget clients, or samples of one: now if it runs, otherwise when it is gone on with."""
    with errors_for_people(lambda: LEFT):
        ids = None if samples is None else _ids(samples)
        _ask(folder, "erase", client, ids, reason, wait, keys)


@app.command(epilog=STATUSES)
def admit(
    folder: Folder, client: Clients, reason: Reason = "", wait: Wait = False, keys: Keys = None
) -> None:
    """Let clients of its data take part that do not yet, or were to join later."""
    with errors_for_people(lambda: LEFT):
        _ask(folder, "join", client, None, reason, wait, keys)


@app.command(epilog=PLAIN)
def pause(folder: Folder) -> None:
    """Have a run wait at its next step, kept, until unknot resume or unknot stop."""
    from unknot.core.commands import command

    _say(
        folder,
        "pause",
        "pauses after its current step; its process stays in memory. Go on with: "
        f"{command('resume', folder)}",
    )


@app.command(epilog=PLAIN)
def stop(folder: Folder) -> None:
    """Have a run end at its next step, kept, to be gone on with by unknot resume."""
    from unknot.store.noted import again_in

    with errors_for_people():
        again = again_in(folder)
    _say(folder, "stop", f"ends at its next step, and is kept. To go on: {again}")


def _say(folder: Path, word: str, so: str) -> None:
    from unknot.core.commands import command
    from unknot.core.errors import StoreError
    from unknot.store.database import Database
    from unknot.store.inbox import asker
    from unknot.store.lock import holder
    from unknot.store.noted import database, idle_in
    from unknot.store.words import rests

    with errors_for_people():
        path = database(folder)
        if (held := holder(folder)) is None:
            raise StoreError(f"nobody runs {folder}: there is nothing to {word}")
        with Database.open(path) as db, db.transaction():  # the run does not end in between
            if idle_in(db, folder):
                raise StoreError(
                    f"process {held.pid} holds {folder} and does nothing with it: there is nothing to {word}"
                )
            if word == "pause" and rests(db):
                so = f"is paused already; go on with: {command('resume', folder)}"
            else:
                db.ask(word, b"", asker())
        _tell(f"{folder} {so}")


def _ask(
    folder: Path,
    kind: str,
    clients: list[str],
    samples: list[int] | None,
    reason: str,
    wait: bool,
    keys: Path | None,
) -> None:
    from unknot.core.errors import StoreError
    from unknot.store import naming, noted, older, own_keys
    from unknot.store.database import Database
    from unknot.store.inbox import leave, request_for
    from unknot.store.lock import holder
    from unknot.store.look import nothing_kept
    from unknot.store.words import standing_of

    _check_text(reason)
    path = noted.database(folder)
    own_keys.check_asked(folder, keys)
    names = naming.shown_in(folder, keys)
    if reason and keys is None and noted.begun(folder).get("keys") is not None:
        raise StoreError(
            f"a reason is sealed, and the keys of {folder} are kept apart from it: add --keys FILE, or leave "
            "--reason out"
        )
    numbers = _numbers(folder, clients, keys, names, spare=kind == "erase" and samples is None)
    request = request_for(kind, numbers, samples)

    def label(one: int) -> str:
        return f"{names[one]} (client {one})" if one in names else f"client {one}"

    runner, again, lost = holder(folder), noted.again_in(folder, keys), ""
    with Database.open(path) as db:
        db.verify()  # what is asked of a run that is not gone on with would be lost with its database
        if runner is None:
            older.check_named(db, own_keys.keyring_of(folder, keys), folder)
            lost = nothing_kept(db, folder, noted.begun_in(db, folder)[0])
        idle, word, by_command = noted.idle_in(db, folder), standing_of(db), noted.by_command(db, folder)
        if wait and runner is None:
            raise StoreError(
                f"nobody runs {folder}, and nobody would serve it: leave --wait out, and then: "
                f"{lost or again}"
            )
        if wait and runner is not None and idle:
            raise StoreError(f"{_idle(runner, folder, again, by_command)}; leave --wait out")
        keyring = own_keys.keyring_of(folder, keys)
        number = leave(db, request, keyring, reason, label=label)
    told = request.told(label)
    when = (
        _idle(runner, folder, again, by_command)
        if runner and idle
        else _when(runner, folder, word, again, lost)
    )
    _tell(f"request {number}: {told}. {when[0].upper()}{when[1:]}")
    if samples is not None and not any(keyring.holds(one) or keyring.destroyed(one) for one in numbers):
        side().print(
            Text(
                f"there were no keys to seal the ids of these samples: they lie in the open in {folder} "
                "until the run takes the request up; add --keys FILE the next time to seal them at once"
            )
        )
    if wait:
        _wait(folder, number, keys)


def _tell(text: str) -> None:
    """Say what was asked; beside the result where that cannot be written, for it is asked all the same."""
    try:
        screen().print(Text(text), soft_wrap=True)
    except (Unwritten, BrokenPipeError):
        side().print(Text(text))
        raise


def _check_text(reason: str) -> None:
    """A terminal of another encoding may hand over bytes that are no text."""
    from unknot.core.errors import ConfigError

    try:
        reason.encode()
    except UnicodeEncodeError as error:
        raise ConfigError(
            f"--reason is no text in UTF-8, from character {error.start + 1} on ({reason!a}): write it again"
        ) from None


def _numbers(
    folder: Path, clients: list[str], keys: Path | None, names: Mapping[int, str], spare: bool
) -> list[int]:
    """Who is meant; nobody twice, which is a slip, as in a file.

    Of several, those are `spare` that were erased before: they are left out, and that is said.
    """
    from unknot.core.errors import RequestError
    from unknot.store.naming import AlreadyErased, number_of

    numbers: list[int] = []
    gone: list[AlreadyErased] = []
    for who in clients:
        try:
            number = number_of(folder, who, keys)
        except AlreadyErased as error:
            gone.append(error)
            continue
        if number in numbers:
            raise RequestError(
                f"{names.get(number, f'client {number}')} is named twice: name each client once"
            )
        numbers.append(number)
    if gone and not (spare and numbers):
        raise gone[0]
    for one in gone:
        side().print(Text(f"left out: {one}"))
    return numbers


def _idle(runner: Holder, folder: Path, again: str, by_command: bool) -> str:
    """Of a run that is held and rests: by a command that is at its end, or as by a notebook."""
    if by_command:
        return (
            f"process {runner.pid} has come to the end of {folder}, and writes its results. Once it has "
            f"ended, to have it served: {again}"
        )
    return (
        f"process {runner.pid} holds {folder} and is idle: it is served when that process goes on (fed.run "
        f"or fed.resume), or once it has let go (fed.close()), when you {again}"
    )


def _when(runner: Holder | None, folder: Path, word: str, again: str, lost: str) -> str:
    from unknot.core.commands import command

    if runner is not None and word:
        return (
            f"Process {runner.pid} runs {folder}, and is {word}: it takes it up once it goes on, "
            f"with {command('resume', folder)}"
        )
    if runner is not None:
        return f"Process {runner.pid} runs {folder}, and takes it up at its next step"
    if lost:
        return f"Nobody runs {folder}, and it cannot be gone on with as it is: {lost}"
    return f"Nobody runs {folder}. To have it served: {again}"


def _wait(folder: Path, number: int, keys: Path | None) -> None:
    """Until a request was served or refused, or nobody is left to do it; say what it came to."""
    from unknot.core.commands import command
    from unknot.report.runs import STILL_READ
    from unknot.store import inbox, noted
    from unknot.store.database import Database
    from unknot.store.lock import holder
    from unknot.store.wanted import outcome
    from unknot.store.words import standing_of

    path, word, console, looks = noted.database(folder), "", side(), 0
    with console.status("waiting until it is served"):
        while True:
            there = holder(folder) is not None  # before the look: what it did last is seen then
            with Database.open(path, readonly=True) as db:
                before, word = word, standing_of(db) if there else ""
                looks = (
                    looks + 1 if noted.idle_in(db, folder) else 0
                )  # once: it may be about to go on for this
            if word and not before:
                told = f"{folder} is {word}: it is served once you say {command('resume', folder)}"
                console.print(Text(told))
            asked = inbox.wait_for(path, number, timeout=1.0)
            if asked.state in ("served", "refused") or not there or looks > 1:
                break
    found = outcome(folder, asked, keys)
    if found.state == "served":
        place = "" if found.round is None else f" after round {found.round}, at {found.time:.1f} simulated s"
        gone = "; what was kept of it on the disk is gone" if asked.kind == "erase" else ""
        with Database.open(path, readonly=True) as db:
            if not noted.emptied(db, number):
                gone += f", but for old pages of run.db: {STILL_READ}"
        screen().print(Text(f"served{place}{gone}"), soft_wrap=True)
        return
    sealed = "why is sealed; name the keys with --keys" if asked.outcome else "why is not kept"
    why = f"refused: {found.refused or sealed}"
    if found.state != "refused":
        why = f"the run ended before it was served. To have it served: {noted.again_in(folder, keys)}"
    side().print(Text(why))
    raise typer.Exit(NOT_SERVED)


def _ids(file: Path) -> list[int]:
    """The ids of samples in a file: a line each, or a list in JSON; none twice."""
    from unknot.core.errors import ConfigError

    how = "one a line, or as [1, 2, 3]"
    if file.is_dir():
        raise ConfigError(f"--samples must name a file with the ids of samples, {how}: {file} is a folder")
    try:
        text = file.read_text(encoding="utf-8-sig")  # some editors begin a file by a mark
        found: list[tuple[str, object]] = []
        if text.lstrip().startswith("["):
            found = [(f"item {place}", item) for place, item in enumerate(json.loads(text), 1)]
        else:
            lines = enumerate(text.splitlines(), 1)
            found = [(f"line {place}", _whole(word)) for place, line in lines for word in line.split()]
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{file} must have the ids of samples, whole numbers: {how} ({error})") from None
    if not found:
        raise ConfigError(f"{file} is empty: it must have the ids of samples, {how}")
    ids: dict[int, str] = {}
    for where, item in found:
        if type(item) is not int or not 0 <= item < 1 << 63:
            raise ConfigError(
                f"{file}, {where}: {str(item)[:80]!r} is no id of a sample: those are whole numbers, 0 or "
                f"more and below 2^63, {how}"
            )
        if item in ids:
            raise ConfigError(f"{file}, {where}: {item} is there twice, first in {ids[item]}")
        ids[item] = where
    return list(ids)


def _whole(word: str) -> object:
    """A whole number, where it is one that is written plainly, and not too long to be one of ours."""
    return int(word) if re.fullmatch(r"[+-]?[0-9]{1,40}", word) else word
