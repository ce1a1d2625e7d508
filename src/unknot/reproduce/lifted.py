"""Records of docs/results as they were kept once, by columns, as records of today."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from unknot.core.jobs import Score
from unknot.core.metrics import ACCURACY, METRICS
from unknot.federation import Begun, Costs, Ended, History, Round, Served

CHANGED = " with changes"  # behind the commit, in records from before `clean` was one of their fields


def _without_files(config: Mapping[str, Any]) -> Mapping[str, Any]:
    """Some were run when a history could lie in files (`disk`), which changed nothing of what came of it."""
    method = config.get("method", {})
    if method.get("name") not in ("exact-fun", "fats"):
        return config
    return {**config, "method": {name: value for name, value in method.items() if name != "disk"}}


def lifted(record: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a record; what it never had stays empty. It goes with the last of these records."""
    trace, extra = record["trace"], dict(record["extra"])
    split, main = trace["split"], METRICS[trace.get("metric", ACCURACY.name)]
    columns = {name: column for name, column in trace.items() if isinstance(column, list)}
    requests = columns.pop("requests")
    rows = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]

    def scores(on: str, value: float | None, loss: float | None) -> dict[str, Score]:
        return {} if value is None else {on: Score({main.name: value}, math.nan if loss is None else loss, 0)}

    def costs(place: int, client_epochs: float) -> Costs:
        """What was sent and stored is known a round: up to the first request, and of the whole run."""
        early = requests and place < requests[0]["place"]
        rates, some = (record["plain"], rows[: requests[0]["place"]]) if early else (record["rates"], rows)
        sent = rates["bytes_sent"] * max(row["round"] for row in some)
        return Costs(place + 1, client_epochs, bytes_down=sent, bytes_stored=rates["bytes_stored"])

    rounds = []
    for place, row in enumerate(rows):
        own = scores(split, row.get("own"), row.get("own_loss"))
        judged = scores("validation", row.get("judged"), row.get("judged_loss"))
        rounds.append(
            Round(
                lane=row.get("lane") or "global",
                round=row["round"],
                version=row["round"],
                time=row["time"],
                clients=(),
                staleness=math.nan,
                train_loss=math.nan,
                used=0,
                set_aside={},
                scores=scores(split, row.get(main.name), row.get("loss")) | ({} if own else judged),
                costs=costs(place, row["client_epochs"]),
                own=own and judged | own,
            )
        )
    served = [
        Served(
            kind=one["kind"],
            asked=tuple((client, None) for client in one["clients"]),
            clients=tuple(one["clients"]),
            time=one["time"],
            round=one["round"],
            place=one["place"],
            restarted=tuple(one.get("restarted", ())),
            cancelled=(),
            purged=0,
            before=scores(split, one["before"], one.get("before_loss")),
            after=scores(split, one["after"], one.get("after_loss")),
            costs=Costs(client_epochs=one["client_epochs"]),
        )
        for one in requests
    ]
    losses = {name: extra.pop(f"{name} loss", None) for name in [*extra] if not name.endswith(" loss")}
    final = {name: extra.pop(name) for name in losses if name.startswith("final")}
    ends = {name.removeprefix("final").strip(): scores("test", v, losses[name]) for name, v in final.items()}
    begun = Begun(
        record["method"], record["guarantee"], record["config"]["seed"], main.name, main.falls, main.share
    )
    ended = Ended(
        scores=ends.pop("", {}), choices=ends, seconds={"total": record["seconds"]}, model=record["model"]
    )
    commit, clean = record["commit"], record.get("clean")
    if commit is not None and "clean" not in record:
        commit, clean = commit.removesuffix(CHANGED), not commit.endswith(CHANGED)
    kept = {"key": record["key"], "config": _without_files(record["config"]), "machine": record["machine"]}
    made = {"commit": commit, "clean": clean, "made": record.get("made")}
    return {**kept, **made, "history": History(begun, rounds, served, ended), "extra": extra}
