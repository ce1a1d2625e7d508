"""The desk at which a method works: what is on it is what a method may touch of a federation.

There is no engine on it, nobody's samples, and no book in which a method could write: whatever is trained is
checked, billed and takes its time; what is erased is not the method's to say.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from unknot.core.lineage import Clients, LedgerView
from unknot.federation.lanes import Lane

if TYPE_CHECKING:
    from unknot.federation.state import State
    from unknot.federation.work import Work

    class _Typed(State, Work):
        """What is on the desk has the types that it has there."""
else:
    _Typed = object

VIEWS = frozenset({"members", "forgotten", "lanes", "ledger"})
# fmt: off
STATE = frozenset({
    "initial", "recipe", "pace", "key", "now", "population", "size", "ids", "validated", "validators",
    "archive", "keepsakes", "limit_history", "remember", "remembered", "add_lane", "drop_lane", "add_node",
    "keep_node", "copy_node", "begin_again", "drop_node", "restart", "rewind", "cancel", "job", "combine",
    "check_additive", "terms", "trained", "shares", "mean", "duration", "check_distillable",
})
# fmt: on
WORK = frozenset({"train_apart", "train_alone", "validate", "best", "distill"})


class Desk(_Typed):
    """Views of who and what there is, and by their names these things of `State` and of `Work`; no others.

    Lanes and nodes are the method's own.
    """

    __slots__ = ("__state", "__work")

    def __init__(self, state: State, work: Work) -> None:
        self.__state, self.__work = state, work

    @property
    def members(self) -> Clients:  # type: ignore[override]
        """The clients that take part now."""
        return Clients(self.__state.members).called(self.__state.data.names)

    @property
    def forgotten(self) -> frozenset[int]:  # type: ignore[override]
        """The clients that were erased whole."""
        return frozenset(self.__state.forgotten)

    @property
    def lanes(self) -> Mapping[str, Lane]:  # type: ignore[override]
        """By name; see `add_lane` and `drop_lane`."""
        return MappingProxyType(self.__state.lanes)

    @property
    def ledger(self) -> LedgerView:  # type: ignore[override]
        """Whose data is whose, and which of it is forbidden."""
        return LedgerView(self.__state.ledger)

    def __dir__(self) -> list[str]:
        return sorted(VIEWS | STATE | WORK)

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            if name in STATE:
                return getattr(self.__state, name)
            if name in WORK:
                return getattr(self.__work, name)
            raise AttributeError(f"a method has no {name!r} on its desk; it may use {', '.join(dir(self))}")
