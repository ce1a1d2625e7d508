"""Experiments whose runs outlive their process: begun in a folder, gone on with from it alone."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

from unknot.core.by_number import Numbers, by_name, by_number, numbers_in
from unknot.core.data import FederatedData
from unknot.core.errors import StoreError
from unknot.core.keys import Key
from unknot.core.registry import NotImported, Option, Registry, changed, nothing_imported
from unknot.data.corrupt import corrupt
from unknot.data.dataset import Dataset
from unknot.experiments.config import ERASED, Experiment
from unknot.experiments.files_read import FILES, digests_of, odd
from unknot.experiments.held import APART, Held, held_in, held_of
from unknot.experiments.simulate import assemble, dealt, read
from unknot.experiments.specs import FOLDER, TEXTS
from unknot.experiments.stored import Store
from unknot.experiments.tables import apply_overrides, each_section, from_anywhere, of_each_client, paths_in
from unknot.federation import Federation, History, Length, Observer

NAMING = ("data", "method", "select")
"""The sections whose settings may list clients by name."""


def keep(fed: Federation, store: Store) -> None:
    """Keep a federation in a folder: a new run, or the one that the folder has, which is gone on with.

    The folder is this federation's until it is gone, or ``fed.close()`` is called.
    """
    from unknot.store.folder import is_kept
    from unknot.store.keeper import EVERY, RunKeeper

    take = RunKeeper.go_on if is_kept(Path(store.folder)) else RunKeeper.create
    every = EVERY if store.checkpoint is None else float(store.checkpoint)
    take(fed, store.folder, keys=store.keys, every=every)


def begin(
    experiment: Experiment,
    folder: str | Path,
    observers: Sequence[Observer] = (),
    *,
    keys: str | Path | None = None,
    every: float | None = None,
    instead: bool = False,
    own: Collection[str] = (),
    command: bool = False,
) -> Federation:
    """The federation of an experiment, kept in a new folder from before its first step: see `go_on`.

    `instead` of a run that the folder holds, which is removed once this one is known to be possible. `own`
    are names of files that may lie in the folder already, for they are written by whoever begins this. A
    `command` goes on with it at once, and ends with it.
    """
    from unknot.store.erasing import EACH
    from unknot.store.keeper import EVERY, RunKeeper
    from unknot.store.sample_ids import counted

    source = read(experiment)
    fed = assemble(experiment, dealt(experiment, source), observers)
    table = table_of(experiment, fed.data)
    fed.experiment = counted(table)
    fed.begin(experiment.length, requests=experiment.requests)
    held = held_of(experiment, source, fed.data) if numbers_in(table.get("data")) else Held()
    RunKeeper.create(
        fed,
        folder,
        keys=keys,
        every=EVERY if every is None else every,
        table=table,
        also={APART: held.apart, EACH: of_each_client(table), FILES: digests_of(paths_in(table))},
        places=held.places,
        instead=instead,
        own=own,
        command=command,
    )
    return fed


def resume(
    folder: str | Path,
    observers: Sequence[Observer] = (),
    *,
    keys: str | Path | None = None,
    every: float | None = None,
    overrides: Iterable[str] = (),
    own_code: bool = False,
    command: bool = False,
) -> Federation:
    """The federation of the run in a folder, as it was at its last checkpoint.

    A folder is data, whoever made it: what it names of Python's (``"package.module:Thing"``) is imported only
    where `own_code` says that it may be, and what it names of files (`reads`) is opened once the folder is
    known to be whole. `overrides` are for what trains it: ``engine.device="cuda"``. `command`: see `begin`.
    """
    from unknot.store.keeper import EVERY, RunKeeper
    from unknot.store.own_keys import check_whole

    check_whole(folder, keys)
    RunKeeper.finish_erasure(folder, keys)
    noted, names = _noted(folder, keys)
    table = noted.get("table")
    # Data that names whom it is of cannot be read for nobody.
    if names == {} and isinstance(table, Mapping) and numbers_in(table.get("data")):
        raise StoreError(f"{folder}: no clients are left in this run: begin another one")
    _check_files(folder, noted, own_code)
    experiment = _experiment_of(folder, noted, names, overrides, own_code)
    if type(count := noted.get("clients")) is not int:
        raise StoreError(f"{folder}: the log does not say how many clients there were: it was changed")
    missing = set() if names is None else numbers_in(experiment.table.get("data")) - names.keys()
    held = held_in(folder, keys) if missing else None
    with _code_asked_for(folder, own_code):
        fed = assemble(experiment, _data_again(experiment, names, held), observers, clients=count)
    if names is not None:
        fed.data.called(names)  # the weights to start from may know more, of whom the run knows nothing now
    fed.experiment = experiment.table
    RunKeeper.go_on(fed, folder, keys=keys, every=EVERY if every is None else every, command=command)
    return fed


def _data_again(
    experiment: Experiment, names: Mapping[int, str] | None, held: Held | None = None
) -> FederatedData:
    """Who holds what of an experiment's data, by the numbers that a run in a folder knows.

    Numbers are in what was kept of the experiment: what it does to single clients comes after them. Where
    the data was read without somebody, the others hold what they `held`.
    """
    spec = experiment.data
    options = {name: value for name, value in spec.options.items() if name != "ids"}
    plain = replace(experiment, data=replace(spec, corrupt=(), options=options))
    source, rows = read(plain), None
    if names is not None and held is not None and isinstance(source, Dataset):
        rows = held.again(source, names)
    data = dealt(plain, source, rows)
    if names is not None:
        data = numbered_as(data, names)
    there = [client for client in spec.corrupt if client in data]
    return corrupt(data, there, spec.corruption, key=Key.root(experiment.seed)) if there else data


def numbered_as(data: FederatedData, names: Mapping[int, str]) -> FederatedData:
    """The same data, in which clients have the numbers that a run knows them by; others have no part in it.

    Where clients are files of a folder, their numbers come of the order of their names: once an erased
    client's file is gone, all after it would move up. As long as it is there, it is nobody's that the run
    knows, for the name went with the erasure.
    """
    known = {name: number for number, name in names.items()}
    strange = [client for client in data.clients if data.names.get(client) not in known]
    data = data.without(strange) if strange else data
    return data.renumbered({client: known[data.names[client]] for client in data.clients}, names)


def as_known(data: FederatedData, store: Store) -> FederatedData:
    """Data that was read anew, by the numbers that the run in a folder knows clients by, if there is one.

    They are others where clients come of files, and those of somebody who was erased are gone by now.
    """
    from unknot.store.folder import is_kept
    from unknot.store.naming import named_in
    from unknot.store.noted import begun

    folder = store.folder
    if not data.names or not is_kept(Path(folder)) or not begun(folder).get("named"):
        return data
    names = named_in(folder, store.keys)
    known = {name: number for number, name in names.items()}
    moved = any(known.get(name, number) != number for number, name in data.names.items())
    return numbered_as(data, names) if moved else data


def go_on(fed: Federation, rounds: int | None = None) -> History:
    """Go on with a run that is kept to its end, or for so many more rounds: see `Federation.resume`."""
    return fed.resume(rounds)


def not_given(fed: Federation) -> None:
    """Say that nobody has what came of what was last asked: asked for again, it is not done again."""
    if fed.stint is not None:
        fed.stint.answered = False


def owes(fed: Federation, rounds: int) -> bool:
    """Whether just so many more rounds were trained last, and nobody was given what came of them."""
    return fed.over and fed.stint is not None and fed.stint.is_more_by(Length(rounds))


def last_round(fed: Federation, rounds: int | None = None) -> int | None:
    """The round that `go_on` ends at; None where rounds are not what it goes by."""
    stint = fed.stint
    if stint is None:
        return rounds
    if stint.stopped:
        done = max((lane.rounds - lane.ahead for lane in fed.lanes.values()), default=0)
        owed = rounds is None or stint.is_more_by(Length(rounds))
        more = stint.rule.rounds if owed else rounds
        return None if more is None else done + more
    end = max(stint.goals.values(), default=stint.length.rounds)
    if end is None or rounds is None or stint.is_more_by(Length(rounds)):
        return end
    return end + rounds


def experiment_of(
    folder: str | Path,
    overrides: Iterable[str] = (),
    own_code: bool = False,
    keys: str | Path | None = None,
) -> Experiment:
    """The experiment that a run in a folder comes from; its table calls clients by number.

    Its settings have the names of who is still there. Its table has how many samples a request names; such
    requests themselves are the run's alone.
    """
    noted, names = _noted(folder, keys)
    return _experiment_of(folder, noted, names, overrides, own_code)


def _noted(folder: str | Path, keys: str | Path | None) -> tuple[Mapping[str, Any], dict[int, str] | None]:
    """What was noted when a run was begun, and what its clients are called; None where they have no names."""
    from unknot.store.naming import named_in
    from unknot.store.noted import begun

    noted = begun(folder)
    return noted, named_in(folder, keys) if noted.get("named") else None


def _experiment_of(
    folder: str | Path,
    noted: Mapping[str, Any],
    names: Mapping[int, str] | None,
    overrides: Iterable[str],
    own_code: bool,
) -> Experiment:
    """The same, by what was noted, and what clients are called."""
    from unknot.store.sample_ids import without

    table = noted.get("table")
    if not isinstance(table, Mapping):
        raise StoreError(
            f"the run in {Path(folder)} comes from Python, not from a file: build the same federation, "
            "unknot.simulate(..., store=folder), and call resume() on it"
        )
    said = apply_overrides(without(table), overrides)
    with _code_asked_for(folder, own_code):
        found = Experiment.of(said if names is None else _called(said, names))
    requests = {"request": table["request"]} if "request" in table else {}
    return _read_from(found, {**said, **requests})


@contextmanager
def _code_asked_for(folder: str | Path, own_code: bool) -> Iterator[None]:
    """Within: a run that names code is refused before any of it is imported, unless it is said to be ours."""
    if own_code:
        yield
        return
    try:
        with nothing_imported():
            yield
    except NotImported as error:
        raise StoreError(
            f"the run in {folder} names code, {str(error)!a}, which would be executed: look whether it is "
            "yours, and say so (--own-code; in Python, own_code=True)"
        ) from None


def reads(folder: str | Path, keys: str | Path | None = None, own_code: bool = False) -> list[str]:
    """The files and folders that a run's experiment names, which are read where it is gone on with.

    They are the values of options whose type names `Path`. None of them is opened here; and the folder is
    found whole first. What names code that may not be imported is refused later, with all that it names.
    """
    from unknot.store.noted import begun
    from unknot.store.own_keys import check_whole

    check_whole(folder, keys)
    return list(dict.fromkeys(path for paths in _named(begun(folder), own_code).values() for path in paths))


def _named(noted: Mapping[str, Any], own_code: bool) -> dict[str, list[str]]:
    """The same by section and option."""
    table = noted.get("table")
    with nullcontext() if own_code else nothing_imported():
        return paths_in(table) if isinstance(table, Mapping) else {}


def _check_files(folder: str | Path, noted: Mapping[str, Any], own_code: bool) -> None:
    """Refuse files that are not what they were when the run was begun: it would go on to other bits.

    Those of data are known by what clients and the server hold of them. A pipe or a device is never read: who
    made the folder may have named one that nobody writes to.
    """
    every = _named(noted, own_code)
    for place, paths in every.items():
        for path in paths:
            if found := odd(path):
                where, what = found
                raise StoreError(
                    f"{folder}: {where} ({place}) is {what}, and no file or folder: put the file there that "
                    "the run was begun with"
                )
    known = noted.get(FILES, {})
    if not isinstance(known, Mapping) or not all(isinstance(one, list) for one in known.values()):
        raise StoreError(f"{folder}: the log does not say which files were read: it was changed")
    named = {place: paths for place, paths in every.items() if place in known}
    for place, now in digests_of(named).items():
        for path, then, here in zip(named[place], known[place], now, strict=False):
            if then != here:
                what = "is not what it was when the run was begun" if here else "is not there any more"
                raise StoreError(
                    f"{folder}: {path} ({place}) {what}, and the run would go on to other bits: put the file "
                    "back that it was begun with"
                )


def to_leave(
    folder: str | Path,
    overrides: Iterable[str] = (),
    own_code: bool = False,
    keys: str | Path | None = None,
) -> Experiment:
    """The same as its results are left with: with the names and the ids of who is still there.

    Of samples whose client was erased there is how many a request named; where clients have names, a request
    says which numbers the erased ones had. Such a file is none to run again: a number may be another's now.
    """
    from unknot.store.database import Database
    from unknot.store.noted import database
    from unknot.store.own_keys import keyring_of
    from unknot.store.sample_ids import known, put_back

    noted, names = _noted(folder, keys)
    found = _experiment_of(folder, noted, names, overrides, own_code)
    with Database.open(database(folder), readonly=True) as db:
        table = put_back(found.table, known(db, keyring_of(folder, keys)))
    if names is not None:
        table = _by_name(_called(table, names), names)
    return _read_from(found, table)


def _called(table: Mapping[str, Any], names: Mapping[int, str]) -> dict[str, Any]:
    """An experiment whose settings list clients by name again, as far as they are still there."""
    return {key: by_name(value, names) if key in NAMING else value for key, value in table.items()}


def _by_name(table: Mapping[str, Any], names: Mapping[int, str]) -> dict[str, Any]:
    """An experiment that calls clients by name again, as far as they are still there."""
    found, data = dict(table), dict(table.get("data", {}))
    if "request" in table:
        found["request"] = [_request_by_name(one, names) for one in table["request"]]
    if "corrupt" in data:
        data["corrupt"] = [names[client] for client in data["corrupt"] if client in names]
    if "ids" in data:
        data["ids"] = {name: number for number, name in names.items()}
    return {**found, "data": data}


def _request_by_name(request: Mapping[str, Any], names: Mapping[int, str]) -> dict[str, Any]:
    kind = "erase" if "erase" in request else "join"
    who = request[kind] if isinstance(request[kind], list | tuple) else [request[kind]]
    there = [names[client] for client in who if client in names]
    gone = [client for client in who if client not in names]
    rest = {name: value for name, value in request.items() if name != kind}
    said = {kind: there[0] if len(there) == 1 else there} if there else {}
    return {**said, **({ERASED: gone} if gone else {}), **rest}


def _read_from(experiment: Experiment, table: Mapping[str, Any]) -> Experiment:
    """A copy whose table is this one: the same experiment, with more of it or less."""
    found = replace(experiment)
    object.__setattr__(found, "table", table)
    return found


def table_of(experiment: Experiment, data: FederatedData) -> dict[str, Any]:
    """What a folder keeps of an experiment: clients are numbers in it, for names go with them.

    What data looks like as a whole is noted, since it may no longer be seen once somebody has left.
    """
    table = from_anywhere(experiment.table)
    if "request" in table:
        table["request"] = [_by_number(one, data) for one in table["request"]]
    said = dict(table.get("data", {}))
    if "corrupt" in said:
        said["corrupt"] = [data.number(client) for client in said["corrupt"]]
    if "ids" in said:
        said["ids"] = {}
    seen = _seen(experiment, data)
    if said or seen:
        table["data"] = {**seen, **said}
    if not data.names:
        return table
    everybody, nobody = Numbers(data.names), Numbers({})

    def unnamed(
        section: str, values: Mapping[str, Any], options: Mapping[str, Option], registry: Registry[Any] | None
    ) -> Mapping[str, Any]:
        if section not in NAMING:
            return values
        # Own files say themselves who the clients are: what is listed beside them are columns and classes.
        files = section == "data" and experiment.data.name in (FOLDER, TEXTS)
        who = nobody if files else everybody
        return changed(options, values, lambda value, *_: by_number(value, who), registry)

    return each_section(table, unnamed)


def _seen(experiment: Experiment, data: FederatedData) -> dict[str, Any]:
    """What of the data's settings is found in all clients' data where a file does not say it."""
    options = experiment.data.options
    if experiment.data.name == FOLDER:
        from unknot.data.client_files import columns_of

        train = data.train
        tokens = not train.x.is_floating_point()
        seen: dict[str, Any] = {"kind": train.kind, "classes": train.classes, "tokens": tokens}
        if "target" in options:
            servers = {part: options.get(part) for part in ("test", "validation", "public")}
            seen["columns"] = list(columns_of(options["path"], options["target"], **servers))
        return seen
    if experiment.data.name == TEXTS and data.wording is not None and data.wording.classes:
        return {"classes": list(data.wording.classes)}
    return {}


def _by_number(request: Mapping[str, Any], data: FederatedData) -> dict[str, Any]:
    found = dict(request)
    for kind in {"erase", "join"} & found.keys():
        who = found[kind]
        found[kind] = [data.number(one) for one in who] if isinstance(who, list | tuple) else data.number(who)
    return found
