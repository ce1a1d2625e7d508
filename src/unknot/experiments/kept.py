"""Experiments whose runs outlive their process: begun in a folder, gone on with from it alone."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from unknot.core.data import FederatedData
from unknot.core.errors import StoreError
from unknot.experiments.config import Experiment, from_anywhere
from unknot.experiments.simulate import assemble, data_of, prepare
from unknot.federation import Federation, History, Observer

_CODE = re.compile(r"[^\W\d][\w.]*:[^\W\d][\w.]*")


def keep(
    fed: Federation, folder: str | Path, keys: str | Path | None = None, every: float | None = None
) -> None:
    """Keep a federation in a folder: a new run, or the one that the folder has, which is gone on with.

    The folder is this federation's until it is gone, or ``fed.keeper.close()`` is called.
    """
    from unknot.store.keeper import EVERY, RunKeeper, begun

    take = RunKeeper.go_on if begun(Path(folder)) else RunKeeper.create
    take(fed, folder, keys=keys, every=EVERY if every is None else every)


def begin(
    experiment: Experiment,
    folder: str | Path,
    observers: Sequence[Observer] = (),
    *,
    keys: str | Path | None = None,
    every: float | None = None,
    instead: bool = False,
) -> Federation:
    """The federation of an experiment, kept in a new folder from before its first step: see `go_on`.

    `instead` of a run that the folder holds, which is removed once this one is known to be possible.
    """
    from unknot.store.keeper import EVERY, RunKeeper
    from unknot.store.look import discard

    fed = prepare(experiment, observers)
    table = table_of(experiment, fed.data)
    fed.experiment = table
    fed.begin(experiment.length, requests=experiment.requests)
    if instead:
        discard(folder, keys)
    RunKeeper.create(fed, folder, keys=keys, every=EVERY if every is None else every, table=table)
    return fed


def resume(
    folder: str | Path,
    observers: Sequence[Observer] = (),
    *,
    keys: str | Path | None = None,
    every: float | None = None,
    overrides: Iterable[str] = (),
    own_code: bool = False,
) -> Federation:
    """The federation of the run in a folder, as it was at its last checkpoint.

    A folder is data, whoever made it: what it names of Python's (``"package.module:Thing"``) is imported only
    where `own_code` says that it may be. `overrides` are for what trains it: ``engine.device="cuda"``.
    """
    from unknot.store.keeper import EVERY, RunKeeper
    from unknot.store.naming import check_keys, named_in

    experiment = experiment_of(folder, overrides, own_code)
    check_keys(folder, keys)
    data = numbered_as(data_of(experiment), named_in(folder, keys))
    fed = assemble(experiment, data, observers)
    fed.experiment = experiment.table
    RunKeeper.go_on(fed, folder, keys=keys, every=EVERY if every is None else every)
    return fed


def numbered_as(data: FederatedData, names: Mapping[int, str]) -> FederatedData:
    """The same data, in which clients have the numbers that a run knows them by.

    Where clients are files of a folder, their numbers come of the order of their names: once an erased
    client's file is gone, all after it would move up.
    """
    if not names or not data.names:
        return data
    known = {name: number for number, name in names.items()}
    moved = {client: known[name] for client, name in data.names.items() if name in known}
    taken = set(moved.values())
    free = (number for number in itertools.count() if number not in taken)
    for client in data.clients:
        if client not in moved:  # erased since, and its file is still there: any number that nobody has
            moved[client] = client if client not in taken else next(free)
            taken.add(moved[client])
    if all(client == number for client, number in moved.items()):
        return data
    return data.renumbered(moved)


def go_on(fed: Federation, rounds: int | None = None) -> History:
    """Go on with a run that is kept until its stopping rule holds; then for so many more rounds, if wanted.

    What came in while nobody ran it is served; a run that was over goes on as long as it was to go at first.
    """
    history = fed.resume()
    while fed.keeper is not None and fed.keeper.asked():
        history = fed.run(fed.length)
    return history if rounds is None else fed.run(rounds)


def last_round(fed: Federation, rounds: int | None = None) -> int | None:
    """The round that a run goes on to, with so many more; None where rounds are not what it goes by."""
    goals = fed._stint.goals if fed._stint is not None else {}
    furthest = max(goals.values(), default=fed.length.rounds)
    return None if furthest is None else furthest + (rounds or 0)


def experiment_of(folder: str | Path, overrides: Iterable[str] = (), own_code: bool = False) -> Experiment:
    """The experiment that a run in a folder comes from; its requests call clients by number."""
    from unknot.store.naming import begun

    place = Path(folder)
    table = begun(place).get("table")
    if not isinstance(table, Mapping):
        raise StoreError(
            f"the run in {place} comes from Python, not from a file: build the same federation, "
            "unknot.simulate(..., store=folder), and call resume() on it"
        )
    if not own_code and (named := next(_code_in(table), None)):
        raise StoreError(
            f"the run in {place} names code, {named!a}, which would be executed: look whether it is yours, "
            "and say so (--own-code; in Python, own_code=True)"
        )
    return Experiment.of(table, overrides)


def _code_in(part: object, name: str = "") -> Iterator[str]:
    """What a table names of Python's, to be imported."""
    if isinstance(part, Mapping):
        for key, value in part.items():
            yield from _code_in(value, str(key))
    elif isinstance(part, list | tuple):
        for value in part:
            yield from _code_in(value)
    elif isinstance(part, str) and part and (name == "modules" or _CODE.fullmatch(part)):
        yield part


def table_of(experiment: Experiment, data: FederatedData) -> dict[str, Any]:
    """What a folder keeps of an experiment: clients are numbers in its requests, for names go with them."""
    table = from_anywhere(experiment.table)
    if "request" in table:
        table["request"] = [_by_number(one, data) for one in table["request"]]
    return table


def _by_number(request: Mapping[str, Any], data: FederatedData) -> dict[str, Any]:
    found = dict(request)
    for kind in {"erase", "join"} & found.keys():
        who = found[kind]
        found[kind] = [data.number(one) for one in who] if isinstance(who, list | tuple) else data.number(who)
    return found
