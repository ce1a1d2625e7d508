"""What a guarantee does not cover, in words: the same in a run's record, on the methods' pages, in tests."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from unknot.core.requests import Label
from unknot.core.selection import Selector, goes_by_clients
from unknot.federation.method import Method
from unknot.federation.pace import Pace, Synchronous
from unknot.federation.state import State

WHOM = "whom the selector asked, which it knew the erased client for"
WHEN = "when the others were asked, which depends on how long the erased client took"
HOW_MANY = "how many rounds came before and after a request, which the erased client had a part in"


BUT_FOR, SO_IS = ", but for ", "; so is "
"""Before what an exact guarantee does not cover, and before what an approximate one does not either."""


def inherited(clients: Sequence[str]) -> str:
    return f"what the initial model keeps of {', '.join(clients)}, let pass by the run that it comes from"


def stopped(metric: str = "accuracy") -> str:
    return f"when training stopped at its {metric}, which the erased data had a part in"


def qualified(promise: str, exact: bool, uncovered: Sequence[str]) -> str:
    """The promise, and what it does not cover; of an approximate one, what is approximate as well."""
    if not uncovered:
        return promise
    listed = " and ".join(uncovered)
    said, more, rest = promise.partition(";")
    if not exact:
        return f"{promise}{SO_IS}{listed}"
    said += f" and {listed}" if BUT_FOR in said else f"{BUT_FOR}{listed}"
    return said + more + rest


@dataclass
class Uncovered:
    """What the guarantee cannot cover of a federation's erasures, by how its runs and requests were timed."""

    erased: bool = False
    """Whether anything was erased at all."""
    timed: bool = False
    """Whether a run went for so many seconds, or a request came at a time."""
    judged: str = ""
    """The metric at which a run was to stop, if at one."""

    def promise(self, method: Method, state: State, label: Label | None = None) -> str:
        """What the method promises, and what that does not cover in this federation's runs.

        With clients called by `label`, or by their names.
        """
        let_pass = sorted(state.initial.lineage.waived)
        return self.of(method, state.select, state.pace, list(map(label or state.data.label, let_pass)))

    def of(self, method: Method, select: Selector, pace: Pace, let_pass: Sequence[str] = ()) -> str:
        """The same from what it takes, before there is a federation."""
        found = []
        if method.keeps:  # models that go on were shaped by whom was asked, and when
            if goes_by_clients(select):
                found.append(WHOM)
            if not isinstance(pace, Synchronous):
                found.append(WHEN)
        if let_pass:
            found.append(inherited(let_pass))
        if self.erased:
            found += [HOW_MANY] * self.timed + [stopped(self.judged)] * bool(self.judged)
        return qualified(method.promise, method.exact, found)
