"""Runs that end in one process and go on in another: written, and read by a federation built anew."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from torch import Tensor

from unknot.audit import gap
from unknot.core.form import Numbers
from unknot.core.requests import Request
from unknot.federation import Federation
from unknot.federation.snapshot import dump, load
from unknot.testing.report import Checks

Build = Callable[[], Federation]
SAID = "a run that is written and read again at every step goes on as it would have"


def interrupted(build: Build, rounds: int, requests: Sequence[Request]) -> Federation:
    """The run, written after every step and gone on with by another federation."""
    fed = build()
    fed.begin(rounds, requests=requests)
    while not fed.over:
        fed.step()
        content, tensors, private = dump(fed)
        fed = build()
        fed.restore(load(fed, content, _copies(tensors), private))
    fed.resume()
    return fed


def _copies(tensors: Mapping[str, Numbers]) -> Callable[[str], Tensor]:
    return lambda digest: tensors[digest].tensor.clone()


def goes_on(checks: Checks, about: str, build: Build, rounds: int, requests: Sequence[Request]) -> None:
    """Hold that an interrupted run serves what one serves that never was."""
    check = f"{about}: {SAID}"
    with checks.during(check):
        whole = build()
        whole.run(rounds, requests=requests)
        found = gap(whole.model, interrupted(build, rounds, requests).model)
    checks.hold(
        check,
        found == 0.0,
        f"weights differ by up to {found:.3g}: something is remembered that is not written. What a method "
        "keeps belongs into lane.notes, desk.archive or desk.keepsakes, what a selector or an aggregator "
        "keeps into its attributes",
    )
