"""Distillation: take the leaver's updates out of the model, and let the old model teach what that broke.

C. Wu, S. Zhu, P. Mitra: Federated Unlearning with Knowledge Distillation. 2022 (arXiv 2201.09441). The server
keeps the sum of what every client has changed of the global model. On a request the leaver's sum is
subtracted; the damaged model is then taught by the old one, by what that says of unlabelled samples of the
server's own. The leaver is not asked for anything, and training goes on.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from unknot.core.jobs import Update
from unknot.core.loss import SoftTargets
from unknot.core.requests import Erase
from unknot.core.training import SGD, Recipe
from unknot.core.weights import weighted_sum
from unknot.federation import Desk, Guarantee, Lane, Method
from unknot.federation.course import keep_course, let_pass


@dataclass(frozen=True)
class Distillation(Method):
    """Subtract all that the leaver ever changed, then learn from the old model on unlabelled samples."""

    epochs: int = 5
    """How often the student goes through the public samples."""
    batch_size: int = 32
    """Public samples a step."""
    lr: float = 0.01
    """The student's learning rate, above 0."""
    momentum: float = 0.9
    """The student's momentum."""
    temperature: float = 3.0
    """Softens both models' answers; above 0."""

    name = "distillation"
    guarantee = Guarantee.APPROXIMATE

    def __post_init__(self) -> None:
        self._recipe()  # which checks what it is given

    @property
    def promise(self) -> str:
        return "approximate: the old model, which the erased client had a part in, teaches the new one"

    def lay_out(self, desk: Desk, lane: Lane) -> None:
        desk.check_distillable()
        desk.check_additive(self.name)
        super().lay_out(desk, lane)
        desk.keepsakes.drop("sum", lane.name)  # of what was here before

    def absorb(self, desk: Desk, lane: Lane, updates: Sequence[Update]) -> None:
        terms = desk.terms(lane, lane.nodes["global"], updates)
        for update, (weight, change) in zip(updates, terms, strict=True):
            old = desk.keepsakes.get(_sum(lane, update.client))
            new = change * weight if old is None else old + change * weight
            desk.keepsakes.put(_sum(lane, update.client), update.job.unit, new)
        super().absorb(desk, lane, updates)

    def farewell(self, desk: Desk, request: Erase) -> None:
        """Take the leavers' sums out while they are still there: they go with their clients."""
        leavers = {target.client for target in request.targets if target.samples is None}
        for lane in desk.lanes.values():
            found = [desk.keepsakes.get(_sum(lane, target.client)) for target in request.targets]
            sums = [(-1.0, changed) for changed in found if changed is not None]
            if lane.members - leavers:
                keep_course(desk, lane)
            if sums and lane.members - leavers:
                student = weighted_sum([(1.0, lane.model), *sums], desk.ledger, "take clients out")
                desk.keepsakes.put(("student", lane.name), None, student)
                desk.keepsakes.put(("teacher", lane.name), None, lane.model)

    def forget(self, desk: Desk, request: Erase, touched: Sequence[Lane]) -> None:
        for lane in touched:
            student = desk.keepsakes.take(("student", lane.name))
            teacher = desk.keepsakes.take(("teacher", lane.name))
            if student is not None and teacher is not None:
                key = desk.key.child("distil", lane.name, lane.rounds)
                taught = desk.distill(student, teacher, self._recipe(), key)
                desk.rewind(lane, lane.version, {"global": taught.carrying(let_pass(desk, lane))})
            elif desk.ledger.taint(lane.model):  # nobody is left to go on from it, or there is no sum
                desk.restart(lane)
                desk.keepsakes.drop("sum", lane.name)
            else:
                lane.nodes["global"].weights = lane.model.carrying(let_pass(desk, lane))

    def _recipe(self) -> Recipe:
        optimizer = SGD(self.lr, self.momentum)
        return Recipe(optimizer, self.epochs, self.batch_size, loss=SoftTargets(self.temperature))


def _sum(lane: Lane, client: int) -> tuple[str, str, int]:
    return ("sum", lane.name, client)
