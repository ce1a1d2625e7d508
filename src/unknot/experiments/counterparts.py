"""The models that an audit compares what is served with: the same run, but for what was in it.

Each is the experiment itself, with its method, its length and its requests, under another seed, on data in
which the erased samples never were: a *control*. So it is trained like the served model, and for as long,
whatever the method; what differs is the erased data alone. To be compared with, there are also models in
which all or some of it was left in, and shadow models, which hold other samples in its place. All of them
train as one cohort.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from unknot.core.data import FederatedData, Shard
from unknot.core.ensemble import Model
from unknot.core.errors import ConfigError, UnknotError
from unknot.core.jobs import Engine
from unknot.core.keys import Key
from unknot.core.requests import Erase, Join, Named, resolved
from unknot.experiments.config import Experiment
from unknot.experiments.simulate import assemble, going
from unknot.federation import Event, Federation, History
from unknot.federation.cohort import Running, run_together

Rows = NDArray[np.int64]
Tell = Callable[[str], None]
"""Is told what is being done."""
Look = Callable[["Counterpart", Federation, Event], None]
"""Sees what happens in whose federation."""
NONE = np.empty(0, dtype=np.int64)
KEPT = 3
"""Models that kept the erased data: two tell what to look for while the third is tested."""
APART = 10_000
"""Seeds of one kind of counterpart begin so far from those of the next."""


def check_requests(experiment: Experiment) -> None:
    """Whether its requests can be audited: asked before anything is loaded."""
    asked = experiment.requests
    if not asked or any(isinstance(r, Join) or (isinstance(r, Named) and r.kind == "join") for r in asked):
        raise ConfigError("an audit needs an experiment with erase requests, and with no others")


def erasures_of(experiment: Experiment, data: FederatedData) -> list[Erase]:
    """Its requests; `data` knows who is called how."""
    check_requests(experiment)
    return [request for request in resolved(experiment.requests, data) if isinstance(request, Erase)]


def named(experiment: Experiment, data: FederatedData) -> str:
    """What is erased, for people."""
    targets = [target for request in erasures_of(experiment, data) for target in request.targets]
    return ", ".join(target.told(data.label) for target in targets)


def parted(data: FederatedData, erasures: Sequence[Erase]) -> tuple[Rows, dict[int, Rows]]:
    """The rows that remain, and those that are erased, by client; what another client holds is no secret."""
    rest = data.lent()
    gone: dict[int, list[Rows]] = {}
    targets = [target for request in erasures for target in request.targets]
    for target in sorted(targets, key=lambda target: target.samples is None):  # requests are in any order
        shard = rest[target.client]
        rows = shard.rows if target.samples is None else shard.rows_of(np.sort(target.samples))
        gone.setdefault(target.client, []).append(rows)
        rest.erase(target.client, target.samples)
    if not sum(len(rest[client]) for client in rest):
        raise ConfigError("an audit needs a client that stays; here everybody is erased")
    left = np.concatenate([rest[client].rows for client in rest])
    erased = {client: np.setdiff1d(np.concatenate(rows), left) for client, rows in gone.items()}
    if not sum(map(len, erased.values())):
        raise ConfigError("nothing to audit: no sample is erased that nobody else holds")
    return left, erased


@dataclass(frozen=True, eq=False)
class Counterpart:
    """A model to be trained: its seed, and what is in the federation in place of the erased samples."""

    seed: int
    left: Mapping[int, Rows] = field(default_factory=dict)
    """Rows that a client holds though it was asked to forget them, or others in their place."""
    whole: bool = False
    """Whether it is the experiment as it is: everything was there, and is unlearned."""


def train(
    experiment: Experiment,
    data: FederatedData,
    engine: Engine,
    wanted: Sequence[Counterpart],
    look: Look | None = None,
) -> list[Model]:
    """The models of all of them; `data` is the experiment's own."""
    return [model for model, _ in train_all(experiment, data, engine, wanted, look)]


def train_all(
    experiment: Experiment,
    data: FederatedData,
    engine: Engine,
    wanted: Sequence[Counterpart],
    look: Look | None = None,
) -> list[tuple[Model, History]]:
    """Train all of them as one cohort: each one's model, and the record of its run."""
    asked = quiet(experiment)
    own = data.lent()

    def run(one: Counterpart) -> Running[tuple[Model, History]]:
        held = own if one.whole else without(own, erasures_of(experiment, data), one.left)

        def watch(event: Event) -> None:
            assert look is not None
            look(one, fed, event)

        fed = assemble(asked, held, [watch] if look else [], seed=one.seed, engine=engine)
        history = yield from going(fed, asked)
        if history.set_aside_observers:
            raise UnknotError(f"a round went unseen: {'; '.join(map(str, history.set_aside_observers))}")
        if history.model is None or history.unserved:
            raise ConfigError("the run ended before the erasure: give it more rounds, or ask earlier")
        return history.model, history

    return run_together(list(map(run, wanted)))


def quiet(experiment: Experiment) -> Experiment:
    """The same without measurements on the way, unless its length depends on them."""
    if experiment.length.target is not None:
        return experiment
    return replace(experiment, setup=replace(experiment.setup, evaluate_every=0))


def without(
    data: FederatedData, erasures: Sequence[Erase], left: Mapping[int, Rows] | None = None
) -> FederatedData:
    """The same federation, but the samples to be erased never were in it; requests find what they ask for.

    Until then samples that stay stand in for them, the client's own if it has any: so training takes as long
    as it did, and there is as much to undo. What is `left` of a client that is erased whole is with a client
    of its own, which nobody asks to forget; where single samples are erased, it is the client's under other
    ids.
    """
    left = left or {}
    shards, bare = {client: data[client] for client in data}, data.fork()
    whole, gone = _named(data, erasures)
    stay = {
        client: shard.rows[~gone[client]] if client in gone else shard.rows
        for client, shard in shards.items()
    }
    anyones = np.concatenate(list(stay.values()))
    for place, (client, mine) in enumerate(sorted(gone.items())):
        shard, extra = shards[client], left.get(client, NONE)
        rows = shard.rows.copy()
        rows[mine] = _spread(stay[client] if len(stay[client]) else anyones, int(mine.sum()))
        shards[client] = Shard(rows, shard.ids)
        if client not in whole:
            shards[client] = _with(shards[client], extra)
            continue
        bare.drop_held_out(client)
        if len(extra):
            shards[max(data) + 1 + place] = Shard.of(extra)
    return bare.replaced(shards=shards)


def _spread(rows: Rows, count: int) -> Rows:
    """So many of the rows, from all over them; some more than once if they are too few."""
    return rows[np.arange(count) * len(rows) // count]


def _named(data: FederatedData, erasures: Sequence[Erase]) -> tuple[set[int], dict[int, NDArray[np.bool_]]]:
    """Who is erased whole; and for each client that is named, which of its samples go."""
    targets = [target for request in erasures for target in request.targets]
    whole = {target.client for target in targets if target.samples is None}
    gone = {target.client: np.full(len(data[target.client]), target.client in whole) for target in targets}
    for target in targets:
        gone[target.client] |= np.isin(data[target.client].ids, target.samples or ())
    return whole, gone


def _with(shard: Shard, rows: Rows) -> Shard:
    first = int(shard.ids[-1]) + 1 if len(shard) else 0
    ids = first + np.arange(len(rows))
    return Shard(np.concatenate([shard.rows, rows]), np.concatenate([shard.ids, ids]))


def some_of(erased: Mapping[int, Rows], share: float, key: Key) -> dict[int, Rows]:
    """A share of each client's erased rows, at least one of them."""
    return {
        client: key.child("left in", client).smallest(rows, max(1, round(share * len(rows))))
        for client, rows in erased.items()
        if len(rows)
    }
