"""What a run leaves in a folder: what was run, what happened, the model, and a page to look at."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import unknot
from unknot.core.errors import ConfigError
from unknot.core.saved import save_model
from unknot.core.toml import to_toml
from unknot.experiments.config import Experiment
from unknot.experiments.scenario import scenario
from unknot.federation import History

CONFIG, MODEL, REPORT, RECORD = "config.toml", "model.safetensors", "report.html", "record.json"
FILES = (CONFIG, MODEL, REPORT, RECORD)
"""In the order in which they come to be: where there is a record, all of it is there."""
PATHS = (("data", "root"), ("data", "path"), ("model", "initial"), ("select", "policy"))
"""Settings that name a file or folder, from the working directory."""
Page = Callable[[dict[str, Any]], str]


def record_of(history: History, experiment: Experiment) -> dict[str, Any]:
    """A run as plain values, with how it did at the experiment's thresholds where it has some."""
    record = history.to_dict()
    if experiment.thresholds:
        record["scenario"] = scenario(history, experiment.thresholds).to_dict()
    return record


def check_folder(folder: str | Path, force: bool = False) -> None:
    """Whether a run can be left there: asked before a long run rather than after it. Nothing is made yet.

    Files of another run are written over only by `force`.
    """
    place = Path(folder)
    held = [name for name in FILES if (place / name).exists()]
    if held and not force:
        raise ConfigError(
            f"{place} holds a run already ({', '.join(held)}): name another folder, or write over it "
            "with --force"
        )
    there = next(path for path in (place, *place.absolute().parents) if path.exists())
    if not there.is_dir():
        raise ConfigError(f"cannot write into {place}: {there} is a file, not a folder")
    if not os.access(there, os.W_OK | os.X_OK):
        raise ConfigError(f"cannot write into {place}: you may not write into {there}")


def write_results(history: History, experiment: Experiment, folder: str | Path, page: Page) -> list[Path]:
    """Write everything into the folder, each file whole or not at all; returns the files.

    `page` makes the report of a record: `unknot.report.page.page`. Without a file or table that the
    experiment was read from there is no configuration to write.
    """
    place = Path(folder)
    record = record_of(history, experiment)
    lines = ",\n".join(f"{json.dumps(key)}: {json.dumps(value)}" for key, value in record.items())
    texts = {REPORT: page(record), RECORD: f"{{\n{lines}\n}}\n"}
    if experiment.table:
        texts[CONFIG] = configuration(experiment)
    drafts = {name: place / f".{name}.part" for name in FILES if name in texts or name == MODEL}
    try:
        place.mkdir(parents=True, exist_ok=True)
        for name, draft in drafts.items():
            if name in texts:
                draft.write_text(texts[name], encoding="utf-8")
            elif history.model is not None:
                save_model(history.model, draft)
        (place / RECORD).unlink(missing_ok=True)
        return [draft.replace(place / name) for name, draft in drafts.items() if draft.exists()]
    except OSError as error:
        raise ConfigError(f"cannot write into {place}: {error.strerror or error}") from None
    finally:
        for draft in drafts.values():
            with suppress(OSError):
                draft.unlink()


def configuration(experiment: Experiment) -> str:
    """A file that gives this run again, from wherever it is run on this machine."""
    table = {
        key: dict(value) if isinstance(value, dict) else value for key, value in experiment.table.items()
    }
    for section, key in PATHS:
        said = table.get(section, {}).get(key)
        if isinstance(said, str):
            table[section][key] = str(Path(said).absolute())
    head = f"# What was run, by unknot {unknot.__version__}. Again: unknot run {CONFIG}\n"
    return head + to_toml(table)
