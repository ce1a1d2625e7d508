"""Requests that wait, in written form: the ids of samples apart, for those are one client's alone."""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

from unknot.core.requests import Erase, Request, Target
from unknot.core.written import Unreadable
from unknot.federation.inbox import Waiting

if TYPE_CHECKING:
    from unknot.federation.federation import Federation

R = TypeVar("R", bound=Request)
Ids = tuple[int, tuple[int, ...]]
"""Some samples of a client: whose, and which."""
Known = tuple[int, tuple[int, ...] | None]


def written_of(waiting: Waiting) -> dict[str, object]:
    told: dict[str, object] = dict(vars(waiting))
    told["touched"] = [lane.name for lane in waiting.touched]
    told["request"] = _without_ids(waiting.request)
    told["left"] = None if waiting.left is None else _without_ids(waiting.left)
    return told


def named_in(waiting: Waiting, erased: Container[int]) -> list[Target]:
    """Whose samples a request that waits names, in the order in which their ids are written apart."""
    both = (waiting.request, *(() if waiting.left is None else (waiting.left,)))
    return [target for request in both for target in _in_part(request, erased)]


def _without_ids(request: R) -> R:
    """The same request, in the same words: as many samples, and not which."""
    if not isinstance(request, Erase):
        return request
    targets = [
        Target(one.client, tuple(range(len(one.samples)))) if one.samples else one for one in request.targets
    ]
    return replace(request, targets=tuple(targets))


def _in_part(request: Request, erased: Container[int]) -> list[Target]:
    """The targets of a request that are samples of somebody who is there still."""
    targets = request.targets if isinstance(request, Erase) else ()
    return [one for one in targets if one.samples and one.client not in erased]


def _with_ids(request: R, erased: Container[int], ids: Iterator[Known]) -> R:
    """The same request, with the samples that it names; of who was erased since nobody knows them."""
    wanted = _in_part(request, erased)
    found = {
        one.client: Target(one.client, next_ids(ids, one.client, len(one.samples or ()))) for one in wanted
    }
    known = {client: target for client, target in found.items() if target.samples}
    if not isinstance(request, Erase) or not known:
        return request
    return replace(request, targets=tuple(known.get(one.client, one) for one in request.targets))


def next_ids(ids: Iterator[Known], client: int, count: int) -> tuple[int, ...] | None:
    """The next ones, which must be so many of that client."""
    whose, found = next(ids, (None, None))
    if whose != client or (found is not None and len(found) != count):
        raise Unreadable(f"the ids of {count} samples of client {client} are not there")
    return found


def waiting_of(told: Mapping[str, Any], fed: Federation, ids: Iterator[Known]) -> Waiting:
    lanes, erased = fed.state.lanes, fed.state.data.erased
    touched = [lanes[name] for name in told["touched"] if name in lanes]
    request = _with_ids(told["request"], erased, ids)
    left = None if told["left"] is None else _with_ids(told["left"], erased, ids)
    return Waiting(**{**told, "touched": touched, "request": request, "left": left})
