"""What the parts of a federation that may be of somebody's own remember, in written form.

Of a selector or an aggregator that is what of its attributes is not as it was given; one whose attributes are
more than plain data says what it remembers itself (`remembered`), and takes it back (`recall`). Of all parts,
the numbers that they were given: another one at a resumption is found.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping
from dataclasses import is_dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable
from weakref import WeakKeyDictionary

from unknot.core.registry import options_of
from unknot.core.written import NotPlain, Reader, Unreadable, Writer, attributes_of
from unknot.federation.aggregators import Aggregate, new_aggregator
from unknot.federation.settings import alike

if TYPE_CHECKING:
    from unknot.federation.federation import Federation


@runtime_checkable
class Remembers(Protocol):
    """A selector or an aggregator that says itself what it remembers: plain data."""

    def remembered(self) -> object: ...

    def recall(self, remembered: Any) -> None: ...


def put_part(out: Writer, fed: Federation, part: object, like: object) -> None:
    """What of a part is not as it was given."""
    if type(part) is not type(like):
        raise NotPlain(f"a {type(part).__name__} in the place of a {type(like).__name__} cannot be written")
    if isinstance(part, Remembers):
        with out.at(f"{type(part).__name__}.remembered()"):
            remembered = part.remembered()
            prove(out, fed, type(part), remembered, partial(_recalled, like))
            out.put(remembered)
        return
    told: dict[str, object] = {}
    given, held = attributes_of(like), attributes_of(part)
    if not given and not held:  # thousands of models, with an aggregator each that has no state
        out.put(None)
        out.put(told)
        return
    with out.at(type(part).__name__), out.part(f"part {id(part)}"):
        seen = _TOLD.setdefault(fed, set())
        for name, value in held.items():
            like_it, about = given.get(name, _NOTHING), (type(part), name)
            if value is like_it and about in seen:
                continue
            with out.at(f".{name}"):
                if _as_given(out, value, like_it, about in seen):
                    seen.add(about)
                else:
                    told[name] = value
        prove(out, fed, type(part), told)
        out.put([name for name in given if name not in held] or None)
        out.put(told)


def _as_given(out: Writer, value: object, given: object, seen: bool) -> bool:
    """Whether an attribute need not be written: one built anew has it.

    Parts are copied here and there, so that what has no written form goes by what it holds. Where that cannot
    be told of a copy, it is refused at once, and not only by a process that has one: `NotPlain`.
    """
    try:
        out.trial().put(value)
    except NotPlain as error:
        if alike(value, given) and (seen or _like_its_copy(given)):
            return True
        raise NotPlain(
            f"{error}; or have it say itself what it remembers, as plain data: remembered() gives that, "
            "recall(remembered) takes it back"
        ) from None
    return value is given


_NOTHING = object()


def _like_its_copy(given: object) -> bool:
    try:
        return alike(given, copy.deepcopy(given))
    except Exception:  # there is none of it
        return False


def _recalled(like: Any, remembered: object) -> object:
    """What one that was built anew remembers, once it is told."""
    part = copy.deepcopy(like)
    part.recall(remembered)
    return part.remembered()


def prove(
    out: Writer,
    fed: Federation,
    about: object,
    value: object,
    taken: Callable[[object], object] = lambda read: read,
) -> None:
    """See that what is written here is the same when it is read, before a run relies on it.

    That is seen once in a process, and again when there is more of it: under names that were not there.
    """
    names = frozenset(value) if isinstance(value, dict) else frozenset()
    seen = _PROVED.setdefault(fed, set())
    if (about, names) in seen:
        return
    first, second = out.trial(), out.trial()
    first.put(value)
    written = first.written()
    read = Reader(written.content, lambda d: written.tensors[d].load().clone(), out.known, home=out.home)
    try:
        second.put(taken(read.read()))
        same = second.written().content == written.content
    except Unreadable as error:
        raise NotPlain(f"{out.place} could not be read again: {error}") from None
    if not same:
        raise NotPlain(f"{out.place} would not be the same once it was written and read again")
    seen.add((about, names))


_TOLD: WeakKeyDictionary[Federation, set[tuple[type, str]]] = WeakKeyDictionary()
_PROVED: WeakKeyDictionary[Federation, set[tuple[object, frozenset[str]]]] = WeakKeyDictionary()


def take_part(read: Reader, part: Any) -> Any:
    """A part that was built anew, as the one was that was written."""
    remembered = read.read()
    if isinstance(part, Remembers):
        part.recall(remembered)
        return part
    told = read.read()
    for name in [*(remembered or ()), *told]:
        if not isinstance(name, str) or name.startswith("__"):
            raise Unreadable("an attribute without a name, or one of Python's own")
    for name in remembered or ():
        object.__delattr__(part, name)
    for name, value in told.items():
        object.__setattr__(part, name, value)
    return part


def put_aggregate(out: Writer, fed: Federation, aggregate: Aggregate | None) -> None:
    out.put(aggregate is not None)
    if aggregate is not None:
        with out.at(" aggregator "):
            put_part(out, fed, aggregate, new_aggregator(fed.state.aggregate))


def take_aggregate(read: Reader, fed: Federation) -> Any:
    return take_part(read, new_aggregator(fed.state.aggregate)) if read.read() else None


def parts_of(fed: Federation) -> dict[str, object]:
    """What a federation is given, and may be of somebody's own."""
    setup = fed.given
    metrics = {f"metric {number}": metric for number, metric in enumerate(fed.metrics)}
    return {
        "method": fed.method,
        "pace": setup.pace,
        "aggregate": setup.aggregate,
        "select": setup.select,
        "clock": setup.clock.slowness,
        "loss": setup.recipe.loss,
        "optimizer": setup.recipe.optimizer,
        "schedule": setup.recipe.schedule,
        **metrics,
    }


def of_each_client(fed: Federation) -> list[str]:
    """The settings of a federation's parts that have a value for each client (`EACH`), by part and name."""
    return [place for name, part in parts_of(fed).items() for place in _of_each(part, name)]


def _of_each(part: object, where: str) -> Iterator[str]:
    for option in options_of(type(part)).values() if is_dataclass(part) else ():
        place, value = f"{where}.{option.name}", getattr(part, option.name, None)
        if option.each and value:
            yield place
        yield from _of_each(value, place)


def check_numbers(before: Mapping[str, object], now: Mapping[str, object]) -> None:
    """Raise `Unreadable` for a setting that was another one when this was written."""
    for place in {**before, **now}:
        told = [repr(numbers.get(place, "nothing")) for numbers in (before, now)]
        if told[0] != told[1]:
            raise Unreadable(f"the run was begun with {place} {told[0]}, and this federation has {told[1]}")
