"""What the parts of a federation that may be of somebody's own remember, and what they were given.

A selector and an aggregator remember in their attributes, or say what they remember (`remembered`) and take
it back (`recall`). A method remembers in `lane.notes` and `desk.archive`, and has settings alone, as
a pace and a clock have: these parts are built anew when a run is resumed, and must not have changed.
"""

from __future__ import annotations

import copy
import functools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from unknot.core.fingerprint import fingerprint
from unknot.core.form import NotPlain, Unreadable, at, attributes_of, plain_data, write
from unknot.core.own import is_own
from unknot.core.registry import options_of

if TYPE_CHECKING:
    from unknot.federation.federation import Federation

SAY = (
    "; or have it say itself what it remembers, as plain data: remembered() gives that, recall(remembered) "
    "takes it back"
)
_INSTEAD = {
    "method": "what a method remembers belongs into lane.notes (structure) or desk.archive (weights)",
    "pace": "a pace has settings alone: let it go by what it is asked",
    "slowness": "it has settings alone: let it go by what it is asked",
    "aggregator": "every node has one of its own: keep its state in attributes that fresh() gives anew",
    "selector": "every lane has a copy of it: keep its state in attributes, which copies do not share",
}


@runtime_checkable
class Remembers(Protocol):
    """A selector or an aggregator that says itself what it remembers: plain data."""

    def remembered(self) -> object: ...

    def recall(self, remembered: Any) -> None: ...


@plain_data
@dataclass(frozen=True)
class Memory:
    """What a selector or an aggregator holds that is not as it was given, by attribute; or what it says."""

    attributes: dict[str, Any] = field(default_factory=dict)
    gone: tuple[str, ...] = ()
    """Attributes that it was given and has no more."""
    said: Any = None


NOTHING = Memory()


def memory_of(part: Any, given: Any) -> Memory:
    """What a part remembers that was made of `given`; raises `NotPlain` for what cannot be written."""
    if type(part) is not type(given):
        raise NotPlain(f"is a {type(part).__name__} in the place of a {type(given).__name__}")
    if isinstance(part, Remembers):
        return _said(part, given)
    before, now = attributes_of(given), attributes_of(part)
    if not before and not now:  # thousands of models, with an aggregator each that has no state
        return NOTHING
    try:
        changed = {n: value for n, value in now.items() if n not in before or not _alike(value, before[n])}
        if changed:  # what it shares with others that are as they were is one thing afterwards, too
            changed = {n: value for n, value in now.items() if n in changed or _is_plain(value)}
        write(changed)
    except NotPlain as error:
        raise NotPlain(error.why + SAY, type(part).__name__ + error.place) from None
    return Memory(changed, tuple(name for name in before if name not in now))


def _is_plain(value: object) -> bool:
    try:
        write(value)
    except NotPlain:
        return False
    return True


def _alike(value: object, given: object) -> bool:
    """Whether two things hold the same, in every process; raises `NotPlain` where that cannot be told."""
    return fingerprint(value, strict=True) == fingerprint(given, strict=True)


def _said(part: Remembers, given: Any) -> Memory:
    """What it says; somebody's own must say the same once it was told that."""
    said = part.remembered()
    if is_own(part):
        twin = copy.deepcopy(given)
        twin.recall(copy.deepcopy(said))
        if write(twin.remembered()).content != write(said).content:
            raise NotPlain("is not the same once it was recalled", f"{type(part).__name__}.remembered()")
    else:
        with at(f"{type(part).__name__}.remembered()"):
            write(said)
    return Memory(said=said)


def recalled(part: Any, memory: Memory) -> Any:
    """A part that was built anew, as the one was that remembered this."""
    if isinstance(part, Remembers):
        part.recall(memory.said)
    for name in memory.gone:
        object.__delattr__(part, name)
    for name, value in memory.attributes.items():
        object.__setattr__(part, name, value)
    return part


class Unchanged:
    """Parts that have settings alone, so that they can be looked at again."""

    def __init__(self, parts: Mapping[str, object]) -> None:
        self._parts = dict(parts)
        self._before = {name: _looks(part) for name, part in self._parts.items()}

    def check(self) -> None:
        """Raise `NotPlain`, by its name, if one of them is not what it was."""
        for name, part in self._parts.items():
            before, now = self._before[name], _looks(part)
            for attribute in {**before, **now}:
                if before.get(attribute) != now.get(attribute):
                    raise NotPlain(
                        "is not what it was when the federation was built, and would be lost when the run is "
                        f"resumed: {_INSTEAD[name]}",
                        f"the {name}'s {type(part).__name__}.{attribute}",
                    )


def _looks(part: object) -> dict[str, bytes]:
    return {name: fingerprint(value) for name, value in attributes_of(part).items()}


# What parts were given ---------------------------------------------------------------------------------


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


def settings_of(parts: Mapping[str, object]) -> dict[str, Any]:
    """The numbers and truth values that parts were given, by place: to compare with those of another process.

    Texts are left out: one may be a client's name. So are the fields of dataclasses, which the record has,
    but for what was learned, of which there is a digest: it is no setting, and another gives other bits.
    """
    found: dict[str, Any] = {}
    for name, part in parts.items():
        held = dict(part.keywords) if isinstance(part, functools.partial) else attributes_of(part)
        known = {field.name for field in fields(part)} if is_dataclass(part) else set()
        for attribute, value in held.items():
            place = f"{name} {type(part).__name__}.{attribute}"
            if attribute in known and hasattr(value, "lineage") and not hasattr(value, "fresh"):
                found[place] = _digest(value)
            elif attribute not in known and not attribute.startswith("_"):
                found |= {place: value} if type(value) in (bool, int, float, type(None)) else {}
    return found


def _digest(learned: Any) -> str:
    """Of the numbers of something that was learned."""
    held: Any = learned.remembered() if isinstance(learned, Remembers) else attributes_of(learned)
    return fingerprint({name: value for name, value in held.items() if name != "lineage"}).hex()


def check_settings(before: Mapping[str, object], now: Mapping[str, object]) -> None:
    """Raise `Unreadable` for a setting that was another one when a run was begun."""
    for place in {**before, **now}:
        told = [repr(numbers.get(place, "nothing")) for numbers in (before, now)]
        if told[0] != told[1]:
            raise Unreadable(f"the run was begun with {place} {told[0]}, and this federation has {told[1]}")


def of_each_client(fed: Federation) -> list[str]:
    """The settings of a federation's parts that have a value for each client (`EACH`), by part and name."""
    return [place for name, part in parts_of(fed).items() for place in _of_each(part, name)]


def _of_each(part: object, where: str) -> Iterator[str]:
    for option in options_of(type(part)).values() if is_dataclass(part) else ():
        place, value = f"{where}.{option.name}", getattr(part, option.name, None)
        if option.each and value:
            yield place
        yield from _of_each(value, place)
