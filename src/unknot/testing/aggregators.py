"""Does an aggregator give what it should, read only what it is given, and begin again when it must?"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import torch

from unknot.audit import interference
from unknot.core.data import FederatedData
from unknot.core.ensemble import Model
from unknot.core.jobs import Job, Update
from unknot.core.keys import Key
from unknot.core.lineage import Ledger, LedgerView, Lineage, Unit
from unknot.core.registry import aggregators
from unknot.core.requests import erase
from unknot.core.training import Recipe
from unknot.core.weights import Weights
from unknot.federation import Aggregate, Federation, Synchronous
from unknot.federation.aggregators import Additive, new_aggregator
from unknot.federation.aggregators import check_aggregator as check_state
from unknot.testing.interrupted import goes_on
from unknot.testing.report import Checks, Report, named
from unknot.testing.worlds import ToyEngine, paces, small_data, toy_weights
from unknot.unlearn.rfs import RFS
from unknot.unlearn.sisa import SISA

KEY = Key.root(6).child("check aggregator")


def check_aggregator(aggregate: Aggregate | str, data: FederatedData | None = None) -> Report:
    """Give it updates: one, many, old ones; in another order; and have federations forget with it.

    The model that it gives is of the same kind and finite, what it is given is only read, the order in which
    clients come matters for nothing but rounding, and one that is made anew has seen nothing. If it says what
    each update adds (`terms`), that adds up. What is served
    after an erasure does not depend on what was erased, and is what a federation serves that never had it.
    """
    given: Any = aggregators.make(aggregate) if isinstance(aggregate, str) else aggregate
    checks = Checks(f"aggregator {named(given)}")
    current = toy_weights()
    with checks.during("it aggregates"):
        for about, updates, version in (
            ("one update", _updates(current, [3]), 0),
            ("many updates", _updates(current, range(6)), 0),
            ("updates that started from an older model", _updates(current, range(4), versions=3), 3),
        ):
            _aggregates(checks, given, current, updates, version, about)
        _begins_again(checks, given, current)
    with checks.during("a fresh one has seen nothing"):
        check_state(given, current)
    _forgets(checks, given, data or small_data())
    return checks.report()


def _aggregates(
    checks: Checks, given: Aggregate, current: Weights, updates: list[Update], version: int, about: str
) -> None:
    before = [
        w.vector.clone() for w in (current, *(u.weights for u in updates), *(u.job.start for u in updates))
    ]
    made = new_aggregator(given)(current, updates, version, LedgerView(Ledger()))
    after = [w.vector for w in (current, *(u.weights for u in updates), *(u.job.start for u in updates))]
    checks.hold(
        "what it is given is only read",
        all(torch.equal(a, b) for a, b in zip(before, after, strict=True)),
        f"with {about}, it changes the model or the updates in place",
    )
    alike = isinstance(made, Weights) and made.layout == current.layout
    checks.hold("it gives a model of the same kind", alike, f"with {about}, it gives {made!r}"[:200])
    same = made.vector.dtype == current.vector.dtype
    checks.hold("in the same precision", same, f"with {about}, it gives {made.vector.dtype}")
    finite = bool(made.vector.isfinite().all())
    checks.hold("its numbers are finite", finite, f"with {about}, there are some that are not")
    again = new_aggregator(given)(current, updates, version, LedgerView(Ledger()))
    checks.hold(
        "the same updates give the same bits",
        made.equal(again),
        f"with {about}, two that are made anew give different models: it draws without a key, or remembers",
    )
    turned = new_aggregator(given)(current, updates[::-1], version, LedgerView(Ledger()))
    far = float((turned.vector - made.vector).abs().max())
    checks.hold(
        "who comes first matters for nothing but rounding",
        far <= 1e-5 * max(1.0, float(made.vector.abs().max())),
        f"with {about} in another order, the model differs by up to {far:.3g}",
    )
    if isinstance(given, Additive):
        added = current.vector.clone()
        for weight, change in given.terms(current, updates, version):
            added += change.vector * weight
        far = float((added - made.vector).abs().max())
        checks.hold(
            "what each update adds is what it says",
            far <= 1e-5 * max(1.0, float(made.vector.abs().max())),
            f"with {about}, its terms(...) miss the new model by up to {far:.3g}",
        )
    checks.notes["carries its updates' lineage"] = all(u.lineage & made.lineage == u.lineage for u in updates)


def _begins_again(checks: Checks, given: Aggregate, current: Weights) -> None:
    """What one node's aggregator has seen, another node's has not."""
    first = new_aggregator(given)
    first(current, _updates(current, range(5)), 0, LedgerView(Ledger()))
    seen = new_aggregator(given)(current, _updates(current, [6, 7]), 0, LedgerView(Ledger()))
    alone = new_aggregator(given)(current, _updates(current, [6, 7]), 0, LedgerView(Ledger()))
    checks.hold(
        "nodes do not notice each other",
        seen.equal(alone),
        "what the aggregator of another node was given shows: keep its state in attributes, and give it a "
        "method fresh() that returns one without any",
    )


def _forgets(checks: Checks, given: Aggregate, data: FederatedData) -> None:
    requests = [erase(1, round=3), erase(4, round=5)]
    targets = [target for request in requests for target in request.targets]
    for method in (RFS(), SISA()):
        for pace, parts in paces(steady=True).items():

            def opened(variant: FederatedData, method: Any = method, parts: Any = parts) -> Federation:
                return Federation(
                    ToyEngine(),
                    toy_weights(),
                    variant,
                    method,
                    **{**parts, "aggregate": given, "evaluate_every": 0},
                )

            def served(variant: FederatedData, opened: Any = opened) -> Model:
                fed = opened(variant)
                fed.run(8, requests=requests)
                model: Model = fed.model
                return model

            check = f"what is served does not depend on what was erased, {method.name}, {pace}"
            with checks.during(check):
                found = interference(served, data, targets)
            largest = max(found.gaps.values())
            checks.hold(check, found.none, f"weights differ by up to {largest:.3g}")
            goes_on(checks, f"{method.name}, {pace}", partial(opened, data), 8, requests)
    fed = Federation(ToyEngine(), toy_weights(), data, RFS(), aggregate=given, pace=Synchronous(3))
    fed.run(6, requests=[erase(1, round=3)])
    rest = data.fork()
    rest.erase(1)
    twin = Federation(ToyEngine(), toy_weights(), rest, RFS(), aggregate=given, pace=Synchronous(3))
    twin.run(3)
    checks.hold(
        "as if the erased client had never been there",
        fed.model.equal(twin.model),
        "after retraining, the model is not that of a federation that never had the client",
    )


def _updates(current: Weights, clients: Sequence[int], versions: int = 0) -> list[Update]:
    """An update of each client, in the order of ids, from this model or from older ones."""
    found = []
    for client in clients:
        drawn = KEY.child("update", client).generator().standard_normal(current.layout.size)
        start = current if not versions else current.like(current.vector + 0.01 * client)
        start = start.carrying(Lineage([Unit(client)]))
        job = Job(Unit(client), start, KEY, Recipe(), version=client % (versions + 1))
        found.append(job.done(start.vector + 0.1 * torch.from_numpy(drawn).float(), 2 + client, 0.5))
    return found
