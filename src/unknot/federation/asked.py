"""Requests that wait, in written form: the ids of samples apart, for those are one client's alone."""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from unknot.core.requests import Erase, Request, Target
from unknot.core.written import Unreadable
from unknot.federation.inbox import Waiting

if TYPE_CHECKING:
    from unknot.federation.federation import Federation

Ids = tuple[int, tuple[int, ...]]
"""Some samples of a client: whose, and which."""
Known = tuple[int, tuple[int, ...] | None]


def written_of(waiting: Waiting) -> dict[str, object]:
    told: dict[str, object] = dict(vars(waiting))
    told["touched"] = [lane.name for lane in waiting.touched]
    told["request"] = _without_ids(waiting.request)
    return told


def _without_ids(request: Request) -> Request:
    """The same request, in the same words: as many samples, and not which."""
    if not isinstance(request, Erase):
        return request
    targets = [
        Target(one.client, tuple(range(len(one.samples)))) if one.samples else one for one in request.targets
    ]
    return Erase(tuple(targets), request.at)


def in_part(request: Request, erased: Container[int]) -> list[Target]:
    """The targets of a request that are samples of somebody who is there still."""
    targets = request.targets if isinstance(request, Erase) else ()
    return [one for one in targets if one.samples and one.client not in erased]


def _with_ids(request: Request, erased: Container[int], ids: Iterator[Known]) -> Request:
    """The same request, with the samples that it names; of who was erased since nobody knows them."""
    wanted = in_part(request, erased)
    found = {
        one.client: Target(one.client, next_ids(ids, one.client, len(one.samples or ()))) for one in wanted
    }
    known = {client: target for client, target in found.items() if target.samples}
    if not isinstance(request, Erase) or not known:
        return request
    return Erase(tuple(known.get(one.client, one) for one in request.targets), request.at)


def next_ids(ids: Iterator[Known], client: int, count: int) -> tuple[int, ...] | None:
    """The next ones, which must be so many of that client."""
    whose, found = next(ids, (None, None))
    if whose != client or (found is not None and len(found) != count):
        raise Unreadable(f"the ids of {count} samples of client {client} are not there")
    return found


def waiting_of(told: Mapping[str, Any], fed: Federation, ids: Iterator[Known]) -> Waiting:
    lanes, erased = fed.state.lanes, fed.state.data.erased
    touched = [lanes[name] for name in told["touched"] if name in lanes]
    return Waiting(**{**told, "touched": touched, "request": _with_ids(told["request"], erased, ids)})
