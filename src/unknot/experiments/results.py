"""What a run leaves in a folder: what was run, what happened, the model, and a page to look at."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import unknot
from unknot.core.errors import ConfigError, StoreError, UnknotError
from unknot.core.saved import save_model
from unknot.core.toml import to_toml
from unknot.experiments.comparison import Comparison
from unknot.experiments.config import Experiment
from unknot.experiments.scenario import scenario
from unknot.experiments.tables import from_anywhere
from unknot.federation import History
from unknot.store import files
from unknot.store.files import check_name

CONFIG, MODEL, REPORT, RECORD = "config.toml", "model.safetensors", "report.html", "record.json"
FILES = (CONFIG, MODEL, REPORT, RECORD)
"""In the order in which they come to be: where there is a record, all of it is there."""
PICTURE, PAGE, FIGURES = "comparison.png", "comparison.html", "comparison.json"
COMPARED = (CONFIG, PICTURE, PAGE, FIGURES)
"""What a comparison leaves, in the same order."""
PRIVATE = 0o600
"""The rights of what a run that is kept leaves: its folder is its owner's alone."""
Page = Callable[[Mapping[str, Any]], str]


def record_of(
    history: History, experiment: Experiment, outside: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """A run as plain values, with how it did at the experiment's thresholds where it has some.

    Of one that is kept, with what was asked of it from `outside`: see `unknot.store.wanted.from_outside`.

    What was run is what a configuration says of it: a kept run's history has clients by number, and a number
    may be another's once somebody was erased.
    """
    record = history.to_dict()
    if experiment.table:
        record["experiment"] = dict(experiment.table)
    if experiment.thresholds:
        record["scenario"] = scenario(history, experiment.thresholds).to_dict()
    return record | dict(outside or {})


def check_folder(folder: str | Path, force: bool = False, files: Sequence[str] = FILES) -> None:
    """Whether a run can be left there: asked before a long run rather than after it. Nothing is made yet.

    `files` are those that it leaves; those of another run are written over only by `force`.
    """
    place = Path(folder)
    check_name(place)
    held = [name for name in files if (place / name).exists()]
    if held and not force:
        raise ConfigError(
            f"{place} holds a run already ({', '.join(held)}): name another folder, or write over it "
            "with --force"
        )
    there = next(path for path in (place, *place.absolute().parents) if path.exists())
    if not there.is_dir():
        raise ConfigError(f"cannot write into {place}: {there} is a file, not a folder")
    closed = f"cannot write into {place}: you may not write into {there}"
    if not os.access(there, os.W_OK | os.X_OK):
        raise ConfigError(closed)
    try:  # rights are not all: nobody writes into /sys, whoever it is
        with tempfile.TemporaryFile(dir=there):
            pass
    except PermissionError:
        raise ConfigError(closed) from None
    except OSError as error:
        raise ConfigError(f"cannot write into {place}: {error.strerror or error}") from None


def write_results(
    history: History,
    experiment: Experiment,
    folder: str | Path,
    page: Page,
    private: bool = False,
    outside: Mapping[str, Any] | None = None,
) -> list[Path]:
    """Write everything into the folder, each file whole or not at all; returns the files.

    `page` makes the report of a record: `unknot.report.page.page`. Without a file or table that the
    experiment was read from there is no configuration to write. `private`: for their owner alone. `outside`:
    see `record_of`.
    """
    record, model = record_of(history, experiment, outside), history.model
    drafts = {}
    if experiment.table:
        drafts[CONFIG] = _text(configuration(experiment))
    if model is not None:
        drafts[MODEL] = lambda draft: save_model(model, draft)
    drafts |= {REPORT: _text(page(record)), RECORD: _text(_lines(record))}
    return write_files(Path(folder), drafts, private)


def write_comparison(found: Comparison, folder: str | Path, page: Page, again: str) -> list[Path]:
    """Write a comparison into the folder, as a run is: settings, picture, page, and last all its figures.

    `page` makes the page of it: `unknot.report.comparison_page.page`. `again` is the command that gives the
    same. Without matplotlib, or where no method could run, there is no picture.
    """
    shown = found.to_dict()
    drafts = {}
    if found.experiment.table:
        drafts[CONFIG] = _text(configuration(found.experiment, again))
    if found.histories and find_spec("matplotlib"):
        drafts[PICTURE] = found.plot
    return write_files(Path(folder), {**drafts, PAGE: _text(page(shown)), FIGURES: _text(_lines(shown))})


def write_files(
    place: Path, write: Mapping[str, Callable[[Path], None]], private: bool = False
) -> list[Path]:
    """Files, made by what is given for each; the last of them is there only where all others are.

    They take the places of what has their names, and nothing is written through that: it may be anything.
    """
    drafts: dict[Path, Path] = {}
    try:
        place.mkdir(parents=True, exist_ok=True)
        home = place.resolve()
        with files.drafting(home, write.keys()):
            for name in write:
                draft = drafts[home / name] = files.begin(home / name, PRIVATE if private else 0o666)
                with _told_by(place / name, draft):
                    write[name](draft)
            if private:
                _make_way(drafts)
            (home / [*write][-1]).unlink(missing_ok=True)
            for path in [*drafts]:
                with _told_by(place / path.name, drafts[path]):
                    files.put_in_place(drafts[path], path)
                del drafts[path]
    except OSError as error:
        raise ConfigError(f"cannot write into {place}: {error.strerror or error}") from None
    finally:
        for draft in drafts.values():
            with suppress(StoreError):
                files.remove(draft)
    return [place / name for name in write]


@contextmanager
def _told_by(path: Path, draft: Path) -> Iterator[None]:
    """Within: what cannot be written is told by its place, and not by what is begun beside it."""
    try:
        yield
    except OSError as error:
        raise ConfigError(f"cannot write {path}: {error.strerror or error}") from None
    except UnknotError as error:
        raise ConfigError(str(error).replace(str(draft), str(path))) from None


def _make_way(drafts: dict[Path, Path]) -> None:
    """New files are on the disk, and then old ones are overwritten: they may know who is erased one day."""
    for path, draft in drafts.items():
        with _told_by(path, draft):
            files.sync(draft)
    for path in reversed(drafts):
        if os.path.lexists(path):
            files.remove(path)


def _text(text: str) -> Callable[[Path], None]:
    def write(draft: Path) -> None:
        draft.write_text(text, encoding="utf-8")

    return write


def _lines(record: Mapping[str, Any]) -> str:
    """JSON, a line for each of its parts."""
    lines = ",\n".join(f"{json.dumps(key)}: {json.dumps(value)}" for key, value in record.items())
    return f"{{\n{lines}\n}}\n"


def configuration(experiment: Experiment, again: str = f"unknot run {CONFIG}") -> str:
    """A file that gives this run again, from wherever it is run on this machine."""
    head = f"# What was run, by unknot {unknot.__version__}. Again: {again}\n"
    return head + to_toml(from_anywhere(experiment.table))
