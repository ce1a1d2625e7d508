"""The record of a run, read back from plain values: what `History.to_dict` gave, and JSON kept."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from unknot.core.jobs import Score
from unknot.core.metrics import METRICS, Metric, OwnMetric
from unknot.federation import History, Round, Served, Trip
from unknot.federation.events import Costs, value_of
from unknot.federation.history import SetAside
from unknot.federation.recovery import Recovery

Record = Mapping[str, Any]


def history_of(record: Record) -> History:
    """Everything but the model."""
    names = {int(client): str(name) for client, name in record["names"].items()}
    reader = _Reader(str(record["metric"]), {name: client for client, name in names.items()})
    return History(
        method=record["method"],
        guarantee=record["guarantee"],
        seed=record["seed"],
        metric=_metric(record),
        environment=record["environment"],
        setup=record["setup"],
        experiment=record["experiment"],
        members=reader.members(record["members"]),
        nodes={lane: [reader.clients(one) for one in nodes] for lane, nodes in record["nodes"].items()},
        names=names,
        rounds=[reader.round(one) for one in record["rounds"]],
        served=[reader.served(one) for one in record["requests"]],
        apart=reader.trips(record["apart"]),
        scores=reader.scores(record["scores"]),
        initial=reader.scores(record.get("initial", {})),
        seconds=record["seconds"],
        stopped=record["stopped"],
        unserved=list(record["unserved"]),
        waived=list(record["waived"]),
        set_aside_observers=[SetAside(**aside) for aside in record["set_aside_observers"]],
        choices={name: reader.scores(scores) for name, scores in record["choices"].items()},
    )


def recoveries_of(record: Record, history: History) -> list[Recovery | None]:
    """One for each request, None where there was nothing to regain or nothing was measured."""
    told = iter(record["recoveries"])
    return [
        _recovery(next(told)) if served.kind == "erase" and value_of(served.before) is not None else None
        for served in history.served
    ]


def _recovery(told: Record) -> Recovery:
    return Recovery(**{**told, "target": _number(told["target"])})


def _metric(record: Record) -> Metric:
    name = record["metric"]
    if name in METRICS:
        return METRICS[name]()
    return OwnMetric(_gone, name, record["metric_falls"], record["metric_share"])


def _gone(*_: object) -> float:
    raise NotImplementedError("a record has a metric's values, not the metric")


@dataclass(frozen=True)
class _Reader:
    """Reads the parts of a record of which `metric` is the main one, and in which clients go by names."""

    metric: str
    numbers: Mapping[str, int]

    def round(self, one: Record) -> Round:
        known = {**one, "train_loss": _number(one["train_loss"]), "staleness": _number(one["staleness"])}
        known |= {"clients": self.clients(one["clients"]), "costs": Costs(**one["costs"])}
        known |= {"trips": tuple(self.trips(one["trips"]))}
        return Round(**{**known, **{part: self.scores(one[part]) for part in ("scores", "own")}})

    def served(self, one: Record) -> Served:
        known = {**one, "costs": Costs(**one["costs"])}
        known |= {name: tuple(one[name]) for name in ("restarted", "lanes", "samples")}
        known |= {name: self.clients(one[name]) for name in ("clients", "cancelled")}
        known |= {name: tuple(self.trips(one[name])) for name in ("trips", "visits")}
        known |= {name: self.members(one[name]) for name in ("entered", "left")}
        return Served(**{**known, **{part: self.scores(one[part]) for part in ("before", "after")}})

    def trips(self, trips: Iterable[Record]) -> list[Trip]:
        return [Trip(**{**trip, "client": self.client(trip["client"])}) for trip in trips]

    def members(self, members: Mapping[str, Iterable[int | str]]) -> dict[str, tuple[int, ...]]:
        return {lane: self.clients(clients) for lane, clients in members.items()}

    def clients(self, clients: Iterable[int | str]) -> tuple[int, ...]:
        return tuple(map(self.client, clients))

    def client(self, client: int | str) -> int:
        return self.numbers[client] if isinstance(client, str) else client

    def scores(self, scores: Mapping[str, Record]) -> dict[str, Score]:
        """Metrics stand beside the loss and the number of samples; the loss may be a metric, too."""
        return {
            split: Score(
                {n: _number(v) for n, v in told.items() if n not in ("loss", "samples") or n == self.metric},
                _number(told["loss"]),
                told["samples"],
            )
            for split, told in scores.items()
        }


def _number(value: float | None) -> float:
    """JSON knows no NaN."""
    return math.nan if value is None else value
