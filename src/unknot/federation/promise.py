"""What a guarantee does not cover, in words: the same in a run's record, on the methods' pages, in tests."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from unknot.core.requests import Erase
from unknot.federation.desk import Desk
from unknot.federation.method import Method
from unknot.federation.pace import Synchronous

WHOM = "whom the selector asked, which it knew the erased client for"
WHEN = "when the others were asked, which depends on how long the erased client took"
HOW_MANY = "how many rounds came before and after a request, which the erased client had a part in"
STOPPED = "how long was trained before the request, which the erased data had a part in"


def qualified(promise: str, exact: bool, uncovered: Sequence[str]) -> str:
    """The promise, and what it does not cover; of an approximate one, what is approximate as well."""
    if not uncovered:
        return promise
    listed = " and ".join(uncovered)
    if not exact:
        return f"{promise}; so is {listed}"
    return f"{promise} and {listed}" if ", but for " in promise else f"{promise}, but for {listed}"


@dataclass
class Uncovered:
    """What the guarantee cannot cover of a federation's erasures, by how its runs and requests were timed."""

    by_seconds: bool = False
    """Whether a run went for so many seconds."""
    by_accuracy: bool = False
    """Whether a run has stopped at an accuracy."""
    noted: list[str] = field(default_factory=list)

    def note(self, request: Erase, method: Method) -> None:
        """An erasure is about to be served."""
        if request.at.time is not None or self.by_seconds:
            self.noted.append(HOW_MANY)
        if self.by_accuracy and method.keeps:
            self.noted.append(STOPPED)

    def promise(self, method: Method, desk: Desk) -> str:
        """What the method promises, and what that does not cover in this federation's runs."""
        found = []
        if method.keeps:  # models that go on were shaped by whom was asked, and when
            if desk.select.curious or desk.select.learns:
                found.append(WHOM)
            if not isinstance(desk.pace, Synchronous):
                found.append(WHEN)
        return qualified(method.promise, method.exact, [*found, *dict.fromkeys(self.noted)])
