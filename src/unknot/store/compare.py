"""Is a federation that was built anew the one that was kept, and what is other than it was?"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from unknot.core.by_number import without
from unknot.core.errors import StoreError
from unknot.federation.describe import plain as settings
from unknot.federation.environment import environment
from unknot.store.checkpoint import STATE, Checkpoint, Named
from unknot.store.database import Database
from unknot.store.entries import read_begun
from unknot.store.files import told
from unknot.store.noted import begun_in
from unknot.store.shown import one_line

if TYPE_CHECKING:
    from unknot.federation import Federation


SETTINGS = ("method", "recipe", "pace", "aggregate", "clock", "select", "seed", "metrics")
"""What is the same in the record of a run from its first moment on, as the model is."""
Checked = Callable[[Mapping[str, Any]], None]
WATCHED = ("unknot", "torch", "numpy", "cpu", "engine")
"""What bits may depend on."""
ENGINE = ("engine", "device", "dtype")
"""What of an engine: how it goes about its work is not known before it does."""
FEW = 200
"""So many letters of a setting are shown."""


def noted(fed: Federation) -> dict[str, Any]:
    """What is put down when a run is begun, to be compared when it is gone on with."""
    measured = [fed.given.evaluate_every, list(fed.given.evaluate_on)]
    here = {**settings(environment(fed.engine)), "architecture": fed.architecture}
    return {"environment": here, "evaluate": measured, "method": fed.method.name}


def check_setup(fed: Federation, now: Mapping[str, Any], db: Database, folder: Path) -> Checked:
    """What raises `StoreError` if the federation was built otherwise than the one whose setup it is given.

    The model is for later: where it is another one, that may come of other data, which is told better.
    """
    measured = noted(fed)["evaluate"]
    was = begun_in(db, folder)[0].get("evaluate")
    if not isinstance(was, list) or len(was) != len(measured):
        raise StoreError(f"{folder}: the log does not say how the run is measured: it was changed")

    def check(before: Mapping[str, Any]) -> None:
        gone = fed.data.erased  # who was listed, and has left, may be listed or not
        pairs = [(part, without(before.get(part), gone), without(now[part], gone)) for part in SETTINGS]
        pairs += zip(("evaluate_every", "evaluate_on"), was, measured, strict=True)
        _check_same(pairs, folder)

    return check


def check_model(before: Mapping[str, Any], now: Mapping[str, Any], folder: Path) -> None:
    """Raise `StoreError` if the model is another one than that of the run, whose setup was `before`."""
    _check_same([("model", before.get("model"), now["model"])], folder)


def _check_same(pairs: Iterable[tuple[str, Any, Any]], folder: Path) -> None:
    for part, then, here in pairs:
        if then != here:
            setting, was, is_now = _first_other(part, then, here)
            raise StoreError(
                f"{setting} is {_value(is_now)}, the run in {folder} has {_value(was)}: build the federation "
                "as it was"
            )


def _first_other(part: str, then: Any, here: Any) -> tuple[str, Any, Any]:
    """The first setting that is another one in two descriptions that differ; what names them comes first."""
    if not isinstance(then, Mapping) or not isinstance(here, Mapping):
        return part, then, here
    for name in ("name", "kind"):
        if then.get(name) != here.get(name):
            return part, then.get(name), here.get(name)
    names = {**then, **here}  # one that has nothing is another than one that is not there
    other = next((n for n in names if then.get(n) != here.get(n) or (n in then) != (n in here)), None)
    if other is None:
        return part, then, here
    return _first_other(f"{part}.{other}", then.get(other), here.get(other))


def _value(value: object) -> str:
    """A setting as a person writes it; whoever wrote it, in a line, and a short one."""
    if isinstance(value, Mapping) and ("name" in value or "kind" in value):
        value = value.get("name", value.get("kind"))
    return one_line("nothing" if value is None else repr(value), FEW)


def differences(fed: Federation, db: Database, folder: Path) -> list[str]:
    """What bits may depend on and is other than when the run was last gone on with, in words."""
    resumed = db.last("resumed")
    last = begun_in(db, folder)[0] if resumed is None else read_begun(resumed.body)
    before, now = last.get("environment"), noted(fed)["environment"]
    if not isinstance(before, dict):
        raise StoreError(f"{folder}: the log does not say where the run was begun")
    pairs = [(name, _told(before.get(name)), _told(now[name])) for name in WATCHED]
    said = [f"{name} is {here}, and was {then}" for name, then, here in pairs if then != here]
    if before.get("architecture") != now["architecture"]:
        said.append("the model is built otherwise than it was, with parameters of the same shapes")
    return [f"{text}: bits may differ from here on" for text in said]


def lost_end(db: Database, folder: Path, named: Iterable[Named]) -> list[str]:
    """Whether the log has lost its end: then a checkpoint is there that was written after later entries.

    One that the log names came before its entry there; so only those are read that it does not name.
    """
    known, last = {f"{one.state}.state" for one in named}, db.head()[0]
    with told("look through", folder / STATE):
        others = [name for name in sorted(os.listdir(folder / STATE)) if name not in known]
    for name in others:
        with suppress(StoreError):  # half written, or none of ours
            number, found = Checkpoint.read(folder, name.removesuffix(".state")).head
            there = next(iter(db.entries(number - 1)), None) if number else None
            if number and (there is None or (there.number, there.hash) != (number, found)):
                return [
                    f"{folder}: the log has lost its end (it was written up to entry {number} at least, and "
                    f"ends at {last}): what happened since is computed again; a request that unknot show "
                    "does not show must be asked again"
                ]
    return []


def lost_requests(db: Database) -> list[str]:
    """Requests that the log knows of, and the inbox has no more."""
    there = [asked.number for asked in db.asked()]
    found = []
    for entry in db.entries(kind="asked"):
        told = read_begun(entry.body)
        if (number := told.get("request")) not in there:
            found.append(
                f"request {_told(number)} ({_told(told.get('kind'))}, asked by {_told(told.get('by'))} at "
                f"{_told(entry.at)}) is not in the inbox any more: it must be asked again"
            )
    return found


def _told(value: object) -> str:
    """In a line, without what would steer a terminal; of an engine, what decides bits."""
    if isinstance(value, Mapping):
        value = ", ".join(str(value[name]) for name in ENGINE if name in value)
    return one_line("unknown" if value is None else value, FEW)
