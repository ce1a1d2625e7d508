"""What a run is to show and to leave, and how its command ends: ``unknot run``, ``demo``, ``resume``."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.text import Text

from unknot.cli.app import NOT_TRACKED, NOT_WELL, PENDING
from unknot.cli.screen import screen, warn
from unknot.cli.tracking import Tracked, lost

if TYPE_CHECKING:
    from unknot.experiments import Experiment
    from unknot.federation import History
    from unknot.store.keeper import RunKeeper
    from unknot.track import Tracker


@dataclass(frozen=True)
class Asked:
    """What a run is to show and to leave."""

    as_json: bool
    quiet: bool
    plot: Path | None
    out: Path | None
    force: bool = False
    tracked: Tracked = field(default_factory=Tracked)
    keep: bool = False
    """Whether the run itself is kept in the folder, and not only what it leaves."""
    keys: Path | None = None
    checkpoint: float | None = None
    results: bool = True
    """Whether its results are to be left in the folder, or stay there as they are."""

    @property
    def silent(self) -> bool:
        """Whether there are neither progress nor tables."""
        return self.as_json or self.quiet

    def check(self) -> None:
        """What cannot be written is found before a long run rather than after it."""
        from unknot.core.commands import command
        from unknot.core.errors import ConfigError, StoreError
        from unknot.experiments.results import check_folder
        from unknot.store.database import Database
        from unknot.store.files import check_ours
        from unknot.store.lock import holder
        from unknot.store.noted import DATABASE, again_in, by_command, idle_in
        from unknot.store.own_keys import check_new
        from unknot.store.taking import check_free, holds_run

        self.check_beside()
        for option, given in {
            "--force": self.force and self.out is None,
            "--keys": self.keys,
            "--checkpoint": self.checkpoint,
        }.items():
            if given and self.out is None:
                raise ConfigError(f"{option} is for a folder of --out: name it, or leave {option} out")
            if given and not self.keep:
                raise ConfigError(f"{option} is for a run that is kept: leave it out, or --no-keep")
        if self.out is None:
            return
        there = holds_run(self.out)
        if there and (held := holder(self.out)):
            with Database.open(self.out / DATABASE, readonly=True) as db:
                idle, command_ = idle_in(db, self.out), by_command(db, self.out)
            does, first = "runs", f"stop it first: {command('stop', self.out)}"
            if idle and command_:
                does, first = "has come to the end of", "try again in a moment"
            elif idle:
                does, first = "holds", "let go of it there first (fed.close())"
            raise StoreError(
                f"{self.out} holds a run that process {held.pid} on {held.host} {does}: name another folder, "
                f"or {first}"
            )
        if self.keep:
            check_ours(self.out)
            own = self.pictures if self.force else ()
            check_free(self.out, results=True, own=own)  # of results `check_folder` tells
        again = self.keep and not self.force and there and _half_begun(self.out)
        if there and not (self.force or again):
            how = ""
            with suppress(StoreError):  # damaged: there may be no going on with it
                how = f"; to go on with it: {again_in(self.out, self.keys)}"
            raise ConfigError(
                f"{self.out} holds a run already: name another folder, or write over it with --force{how}"
            )
        if self.force and there:
            _check_asked(self.out, self.keys)
        check_folder(self.out, self.force)
        if self.keep:
            check_store("--no-keep writes only its results, into a folder that cannot be gone on with")
        if self.keep or self.force:
            check_new(self.out, self.keys, instead=self.force)

    def check_beside(self) -> None:
        """The same of what is written beside the results.

        In the folder of a kept run nothing may lie that knows a client and that an erasure does not reach.
        """
        from unknot.core.errors import ConfigError
        from unknot.core.outside import check_outside, within
        from unknot.report import timeline

        if self.plot is not None:
            timeline.check(self.plot, made=self.out)
        if self.keys is not None:
            named = {**self.tracked.places(), "--plot": self.plot}
            for option, given in named.items():
                if given is not None and given.resolve() == self.keys.resolve():
                    raise ConfigError(f"{option} and --keys name the same file, {given}: name another")
        if not self.keep or self.out is None:
            return
        for option, given in self.tracked.places().items():
            check_outside(option, given, self.out)
        if self.plot is not None and within(self.out, self.plot) and not self._own_picture:
            raise ConfigError(
                f"--plot {self.plot} lies below {self.out}, the folder of the run, where an erasure does not "
                f"reach it: name a file in that folder itself, such as {self.out / self.plot.name}, or "
                "outside of it"
            )

    @property
    def _own_picture(self) -> bool:
        """Whether the picture lies in the folder of a run that is kept; what lies there now leads nowhere."""
        beside = self.keep and self.out is not None and self.plot is not None
        return beside and self.plot.parent.resolve() == self.out.resolve()  # type: ignore[union-attr]

    @property
    def pictures(self) -> tuple[str, ...]:
        """What is drawn in the folder of a run that is kept, by name."""
        return (self.plot.name,) if self.plot is not None and self._own_picture else ()

    def write(self, history: History, experiment: Experiment, outside: Mapping[str, Any]) -> list[Path]:
        """The picture and the folder, and where they are."""
        from unknot.experiments.results import write_files, write_results
        from unknot.report import timeline
        from unknot.report.page import page
        from unknot.store.database import Database
        from unknot.store.folder import discard
        from unknot.store.noted import DATABASE
        from unknot.store.results import note_left

        written = []
        if self.plot is not None:
            if self._own_picture:
                with Database.open(self.plot.parent / DATABASE) as db:
                    note_left(db, self.plot.name)
                drawn = {self.plot.name: lambda draft: timeline.draw_run(history, draft)}
                write_files(self.plot.parent, drawn, private=True)
            else:
                if self.out is not None and self.plot.resolve().parent == self.out.resolve():
                    self.out.mkdir(parents=True, exist_ok=True)
                timeline.draw_run(history, self.plot)
            written.append(self.plot)
        if self.out is not None and self.results:
            if self.force and not self.keep:
                discard(self.out)
            with self._noting() as note:
                left = write_results(history, experiment, self.out, page, self.keep, outside)
                note([path.name for path in left])
            written += left
        return written

    @contextmanager
    def _noting(self) -> Iterator[Callable[[Sequence[str]], None]]:
        """Within: the log of a run that is kept knows of no results, and then of those that it is told."""
        from unknot.store import results
        from unknot.store.database import Database
        from unknot.store.noted import DATABASE
        from unknot.store.own_keys import keyring_of

        if not self.keep or self.out is None:
            yield lambda names: None
            return
        place, keyring = self.out, keyring_of(self.out, self.keys)
        with Database.open(place / DATABASE) as db:
            results.note_results(db, keyring, place)
            yield lambda names: results.note_results(db, keyring, place, names)


def leave(
    history: History,
    experiment: Experiment,
    asked: Asked,
    trackers: Sequence[Tracker] = (),
    keeper: RunKeeper | None = None,
    again: str = "",
) -> None:
    """Show what there is to show, write what is to be written, and say where that is.

    Nothing is written where the folder is not what its `keeper` took. What cannot be written of a run that is
    kept is written by going on with it: `again` says how.
    """
    from unknot.core.commands import command
    from unknot.core.errors import ConfigError, UnknotError

    outside = _outside(keeper)
    try:
        _show(history, experiment, asked, outside)
    finally:  # it is left as well where nobody reads what is shown
        if keeper is not None:
            keeper.check()
        try:
            written = [f"written: {path}" for path in asked.write(history, experiment, outside)]
        except UnknotError as error:
            if not again:
                raise
            later = "The run is over, and kept: once that can be written, this writes its results"
            raise ConfigError(f"{error}. {later}: {again}") from None
    gone = {aside.observer for aside in lost(history)}
    for tracker in trackers:
        kept = "written" if type(tracker).__name__ not in gone else "incomplete"
        written.append(f"{kept}: {tracker.where}")
    if keeper is not None:
        written.append(f"kept: {asked.out}. To look at it: {command('show', asked.out or keeper.folder)}")
    if not asked.silent:
        sys.stdout.writelines(f"{line}\n" for line in written)


def _outside(keeper: RunKeeper | None) -> dict[str, Any]:
    """What was asked of a run that is kept from outside, by number: what was served, and what was refused."""
    from unknot.store.database import Database
    from unknot.store.noted import DATABASE
    from unknot.store.wanted import from_outside

    if keeper is None:
        return {}
    with Database.open(keeper.folder / DATABASE, readonly=True) as db:
        return from_outside(db)


def _show(history: History, experiment: Experiment, asked: Asked, outside: Mapping[str, Any]) -> None:
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
        sys.stdout.write(json.dumps(record_of(history, experiment, outside)) + "\n")
    elif not asked.quiet:
        what = f": {history.setup['data']['name']}, {experiment.model.name}"
        screen().print(Text.assemble((experiment.name, "bold"), what))
        screen().print(summary(history))
        if experiment.thresholds and history.served:
            screen().print(scenario_table(scenario(history, experiment.thresholds).to_dict()))


def status_of(history: History, refused: Sequence[int] = ()) -> int:
    """What the command exits with; a request that was not served, or was refused, comes first."""
    if history.unserved or refused:
        return PENDING
    if history.warnings:
        return NOT_WELL
    return NOT_TRACKED if lost(history) else 0


def check_store(otherwise: str = "") -> None:
    """What a run is kept with must be there before it begins; if not, there may be something else to do."""
    from unknot.core.errors import StoreError
    from unknot.store.keyring import check_installed

    try:
        check_installed()
    except StoreError as error:
        raise StoreError(f"{error}; {otherwise}" if otherwise else str(error)) from None


def _check_asked(folder: Path, keys: Path | None) -> None:
    """A run is not written over as long as somebody waits for what was asked of it.

    Keys that lie apart and are not named stay behind: that is said, and so is who was erased, for whose data
    may still be there.
    """
    from unknot.core.errors import ConfigError, UnknotError
    from unknot.store.look import look
    from unknot.store.noted import begun
    from unknot.store.older import listed
    from unknot.store.shown import one_line

    try:
        found, apart = look(folder, keys), begun(folder).get("keys")
    except UnknotError:  # no run, or a damaged one: there is nobody to serve anything
        return
    if waiting := [f"request {one.number}: {one.request}" for one in found.unserved]:
        more = f" and {len(waiting) - 3} more" if len(waiting) > 3 else ""
        first = f"have it served first ({found.again})" if found.again else found.keys_wrong
        raise ConfigError(
            f"{folder} holds a run that is still to serve what was asked of it ({'; '.join(waiting[:3])}"
            f"{more}): {first}, or remove the folder yourself, and the requests "
            "with it"
        )
    gone = {client for one in found.erased for client in one["whole"]}
    parts = {client for one in found.erased for client in one["parts"]} - gone
    if who := [*([listed(gone)] if gone else []), *([f"samples of {listed(parts)}"] if parts else [])]:
        were = "was" if not parts and len(gone) == 1 else "were"
        told = f"from the run that is written over, {' and '.join(who)} {were} erased: the new one trains on "
        warn(f"{told}whatever data is there now")
    if keys is None and isinstance(apart, str) and os.path.lexists(apart):
        warn(f"the keys of the run that is written over lie apart, and stay: {one_line(apart)}; remove them")


def _half_begun(folder: Path) -> bool:
    """Whether a run was begun there and broken off before anything was kept: it may be begun again."""
    from unknot.core.errors import StoreError
    from unknot.store.folder import is_kept

    try:
        return not is_kept(folder)
    except StoreError:  # damaged: not ours to judge
        return False
