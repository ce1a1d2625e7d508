"""What is worth writing down of a run, by names that are the same wherever it is written."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from typing import Any

from unknot.core.jobs import Score
from unknot.federation import Begun, Costs, Ended, Round, Served

Figures = dict[str, float]
Setting = str | int | float | bool
SECONDS = "simulated_seconds"


def served_in(record: Round) -> Figures:
    """The model that is served after a round, ``test/accuracy``; the costs so far, and the simulated time."""
    return finite({**_scores(record.scores), **_costs(record.costs), SECONDS: record.time})


def lane_in(record: Round) -> Figures:
    """What is the lane's own: ``lane/cluster 2/train_loss``; where there are several, how its model does."""
    own = {
        "train_loss": record.train_loss,
        "staleness": record.staleness,
        "clients": len(record.clients),
        "used": record.used,
        "set_aside": sum(record.set_aside.values()),
        **_scores(record.own),
    }
    return finite({f"lane/{record.lane}/{name}": value for name, value in own.items()})


def around(served: Served) -> Figures:
    """The model before a request and right after it, and what serving it cost."""
    return finite({**_scores(served.before, "before/"), **_scores(served.after), **_costs(served.costs)})


def beside(served: Served) -> Figures:
    """The main metric before a request and right after it: ``requests/test/accuracy before``."""
    sides = {"before": served.before, "after": served.after}
    return finite(
        {
            f"requests/{split}/{score.name} {side}": score.value
            for side, scores in sides.items()
            for split, score in scores.items()
        }
    )


def request(begun: Begun, served: Served) -> str:
    """A request in a line: ``erase client 3, at round 5 and 70.0 s; begins again: global``."""
    parts = [f"{begun.told(served)}, at round {served.round} and {served.time:.1f} s"]
    for split in served.after:
        if split in served.before:
            before, after = served.before[split], served.after[split]
            parts.append(f"{split} {after.name} {before.value:.4g} before, {after.value:.4g} right after")
    if served.restarted:
        parts.append(f"begins again: {', '.join(served.restarted)}")
    if served.cancelled:
        parts.append(f"{len(served.cancelled)} called back")
    return "; ".join(parts)


def settings(begun: Begun) -> dict[str, Setting]:
    """What a federation is made of: ``recipe.optimizer.lr``. The model's layout is too long for a setting."""
    setup = {**begun.setup, "guarantee": begun.guarantee, "lanes": len(begun.members)}
    return {name: value for name, value in _flat(setup) if not name.startswith("model.layout.")}


def name_of(begun: Begun) -> str:
    """What a run is called: as its file is, or by its method and data."""
    named = begun.experiment.get("name") or f"{begun.method} on {begun.setup['data']['name']}"
    return f"{named}, seed {begun.seed}" + (
        f", from round {begun.rounds_before}" if begun.rounds_before else ""
    )


def outcome(ended: Ended) -> Figures:
    """The end in numbers: the served model on all data, and what each erasure took to be got over."""
    found = {**_scores(ended.scores, "final/"), f"final/{SECONDS}": ended.time}
    for i, recovery in enumerate(ended.recoveries, start=1):
        found |= {
            f"recovery/{i}/reached": recovery.reached,
            f"recovery/{i}/rounds": recovery.rounds,
            f"recovery/{i}/{SECONDS}": recovery.seconds,
            f"recovery/{i}/client_epochs": recovery.client_epochs,
        }
    return finite(found)


def words(ended: Ended) -> dict[str, str]:
    """The end in words; what there is nothing to say of is left out."""
    found = {
        "guarantee": ended.guarantee,
        "stopped": ended.error or ended.stopped,
        "model": ended.model or "",
        "warnings": "; ".join(ended.warnings),
        "still pending": "; ".join(ended.unserved),
        "waived": "; ".join(ended.waived),
    }
    return {name: text for name, text in found.items() if text}


def finite(figures: Mapping[str, float]) -> Figures:
    """A model that has diverged has no figures, and no curve has a place for them."""
    return {name: value for name, value in figures.items() if math.isfinite(value)}


def _scores(scores: Mapping[str, Score], before: str = "") -> Figures:
    return {
        f"{before}{split}/{name}": value
        for split, score in scores.items()
        for name, value in {"loss": score.loss, **score.metrics}.items()
    }


def _costs(costs: Costs) -> Figures:
    return {f"costs/{name}": value for name, value in asdict(costs).items()}


def _flat(value: Any, name: str = "") -> Iterator[tuple[str, Setting]]:
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield from _flat(item, f"{name}.{key}" if name else key)
    elif isinstance(value, str | int | float):
        yield name, value
    else:
        yield name, json.dumps(value)
