"""Does a selector keep to its protocol, and does it forget?"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
import torch

from unknot.audit import interference
from unknot.core.data import FederatedData
from unknot.core.ensemble import Model
from unknot.core.jobs import Job, Update
from unknot.core.keys import Key
from unknot.core.lineage import NOBODY, Unit
from unknot.core.registry import selectors
from unknot.core.requests import erase
from unknot.core.selection import Ids, Selector
from unknot.core.training import Recipe
from unknot.federation import Federation
from unknot.federation.own_parts import check_met
from unknot.federation.promise import WHOM
from unknot.testing.interrupted import goes_on
from unknot.testing.report import Checks, Report, named
from unknot.testing.worlds import ToyEngine, paces, small_data, toy_weights
from unknot.unlearn.bmt_mmt import MMT
from unknot.unlearn.rfs import RFS

KEY = Key.root(4).child("check selector")
CLIENTS = np.arange(8)
SAID = "where models are kept through a request, the run says that the selector knew the erased client"
REQUESTS = (erase(1, round=3), erase(4, round=6))


def check_selector(selector: Selector | str, data: FederatedData | None = None) -> Report:
    """Ask it for clients, before and after it has met them; and have a federation forget with it.

    It gives k of those who are idle (all, if there are fewer), each once, in the order of their ids, the
    same by the same key; newcomers are no trouble; what it has seen is in its lineage, and `fresh()` has
    seen nothing. In a federation that begins again on an erasure, what is served does not depend on what
    was erased; nor in one that keeps models, unless the run's guarantee says that it does.
    """
    given: Selector = selectors.make(selector) if isinstance(selector, str) else selector
    checks = Checks(f"selector {named(given)}")
    with checks.during("it keeps to the protocol"):
        _chooses(checks, given.fresh(), "before it has met anybody")
        met, _ = _acquainted(given.fresh())
        _chooses(checks, met, "after it has met everybody")
        _knows_whom_it_knows(checks, given)
    for pace, parts in paces(steady=False).items():

        def served(variant: FederatedData, parts: Any = parts) -> Model:
            fed = _opened(given, variant, parts)
            fed.run(8, requests=REQUESTS)
            return fed.model

        targets = [target for request in REQUESTS for target in request.targets]
        check = f"what is served does not depend on what was erased, {pace}"
        with checks.during(check):
            found = interference(served, data or small_data(), targets)
        checks.hold(
            check,
            found.none,
            f"weights differ by up to {max(found.gaps.values()):.3g}: fresh() must give one that has seen "
            "nothing, and nothing may be kept elsewhere (in the class, in the module)",
        )
        goes_on(checks, pace, partial(_opened, given, data or small_data(), parts), 8, REQUESTS)
    with checks.during(SAID):
        _says_what_it_goes_by(checks, given, data or small_data())
    return checks.report()


def _opened(given: Selector, data: FederatedData, parts: dict[str, Any]) -> Federation:
    return Federation(ToyEngine(), toy_weights(), data, RFS(), select=given, **parts)


def _says_what_it_goes_by(checks: Checks, given: Selector, data: FederatedData) -> None:
    """MMT keeps models through a request: who was asked for them by what was known must be in its words."""
    said = set[str]()

    def served(variant: FederatedData) -> Model:
        parts = paces(steady=False)["synchronous"]
        fed = Federation(ToyEngine(), toy_weights(), variant, MMT(), select=given, **parts)
        said.add(fed.run(8, requests=REQUESTS).guarantee)
        return fed.model

    found = interference(served, data, [target for request in REQUESTS for target in request.targets])
    checks.hold(
        SAID,
        found.none or all(WHOM in words for words in said),
        f"weights differ by up to {max(found.gaps.values()):.3g}, and the run says {sorted(said)}: it is to "
        "know clients by meet and observe alone, and to say so (curious, learns)",
    )


def _chooses(checks: Checks, selector: Selector, when: str) -> None:
    if selector.curious:
        return  # it is introduced to everybody before it is asked
    for turn, (idle, k) in enumerate(
        [(CLIENTS, 3), (CLIENTS, 8), (CLIENTS[[0, 2, 5]], 5), (CLIENTS[::2], 1), (np.arange(4, 12), 4)]
    ):
        kept, twin, key = idle.copy(), copy.deepcopy(selector), KEY.child("choose", turn)
        chosen = np.asarray(selector.choose(idle, k, key))
        what = f"of {idle.tolist()}, {k} are asked for, {when}, and {chosen.tolist()} chosen"
        right = len(chosen) == min(k, len(idle)) and not len(np.setdiff1d(chosen, idle))
        checks.hold("it chooses k of those who are idle", right, what)
        ordered = bool((np.diff(chosen) > 0).all())
        checks.hold("each once, in the order of their ids", ordered, what)
        checks.hold(
            "the idle are only read", np.array_equal(idle, kept), "it changes the array that it is given"
        )
        again = np.asarray(twin.choose(kept, k, key))
        checks.hold(
            "the same key chooses the same",
            np.array_equal(chosen, again),
            f"{what}; a copy of it chose {again.tolist()}: all draws must come from the key",
        )


def _acquainted(selector: Selector) -> tuple[Selector, set[int]]:
    """One that has met everybody, and has seen what came of a choice; and whose updates it was shown."""
    model, updates, seen = toy_weights(), _updates(CLIENTS), set[int]()
    if selector.curious:
        selector.meet(model, updates, KEY.child("meet"))
        seen |= set(CLIENTS.tolist())
    if selector.learns:
        for turn in range(3):
            chosen: Ids = np.asarray(selector.choose(CLIENTS, 3, KEY.child("learn", turn)))
            updates = _updates(chosen)
            selector.observe(model, updates, 0.5 + 0.1 * turn, KEY.child("observe", turn))
            seen |= set(chosen.tolist())
    return selector, seen


def _knows_whom_it_knows(checks: Checks, given: Selector) -> None:
    met, seen = _acquainted(given.fresh())
    unknown = sorted(seen - met.lineage.clients)
    checks.hold(
        "whose updates it has seen is in its lineage",
        not unknown,
        f"it was shown updates of {sorted(seen)}, but its lineage lacks {unknown}",
    )
    if given.fresh().curious:
        with checks.during("it meets everybody once"):
            check_met(met)
    fresh = met.fresh()
    checks.hold("a fresh one has seen nothing", fresh.lineage == NOBODY, f"its lineage is {fresh.lineage}")
    (one, _), (other, _) = _acquainted(fresh), _acquainted(given.fresh())
    for turn in range(3):
        key = KEY.child("fresh", turn)
        checks.hold(
            "a fresh one chooses like a new one",
            np.array_equal(one.choose(CLIENTS, 3, key), other.choose(CLIENTS, 3, key)),
            "what another one has seen shows in whom it chooses",
        )


def _updates(clients: Sequence[int] | Ids) -> list[Update]:
    found = []
    for client in np.asarray(clients).tolist():
        job = Job(Unit(client), toy_weights(), KEY, Recipe())
        drawn = KEY.child("update", client).generator().standard_normal(job.start.layout.size)
        vector = job.start.vector + 0.1 * torch.from_numpy(drawn).float()
        found.append(job.done(vector, 3 + client % 4, 0.5))
    return found
