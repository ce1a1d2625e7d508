"""Two questions that every exact method must answer with "none" and "yes", bit for bit."""

from __future__ import annotations

from collections.abc import Callable

from unknot.audit import interference
from unknot.core.data import FederatedData
from unknot.core.requests import Erase
from unknot.federation import Federation
from unknot.unlearn import BMT, FATS, KNOT, MMT, RFS

FIVE = {
    "rfs": RFS(),
    "bmt": BMT(),
    "mmt": MMT(),
    "knot": KNOT(2, by="random"),
    "fats": FATS(rho_client=5, rounds=20, local_steps=2, clients=4),
}
"""Exact methods of every kind, for four clients."""

Open = Callable[[FederatedData], Federation]


def forget_and_go_on(fed: Federation, request: Erase, rounds: int) -> Federation:
    """Train until the request, have it served, and train for `rounds` more."""
    if request.at.round is not None:
        fed.run(request.at.round + rounds, requests=[request])
    else:
        fed.run(seconds=request.at.time + 1e-9, requests=[request])
        fed.run(rounds)
    return fed


def assert_no_interference(open: Open, data: FederatedData, request: Erase, rounds: int) -> None:
    """What is served after an erasure does not depend on what was erased."""
    report = interference(
        lambda variant: forget_and_go_on(open(variant), request, rounds).model, data, request.targets
    )
    assert report.none, report.gaps


def never_had(data: FederatedData, request: Erase) -> FederatedData:
    """The data of a federation that the erased clients or samples were never part of."""
    rest = data.fork()
    for target in request.targets:
        rest.erase(target.client, target.samples)
    return rest


def assert_as_if_never_there(
    open: Open, data: FederatedData, request: Erase, rounds: int, open_without: Open | None = None
) -> None:
    """It is what a federation serves that never had the erased data and trained for as long."""
    fed = forget_and_go_on(open(data), request, rounds)
    twin = (open_without or open)(never_had(data, request))
    twin.run(max(lane.version for lane in fed.lanes.values()))
    assert fed.model.equal(twin.model)
