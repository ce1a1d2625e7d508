"""FedEraser: the old rounds again, with fewer local epochs and steps as long as they were.

G. Liu, X. Ma, Y. Yang, C. Wang, J. Liu: FedEraser: Enabling Efficient Client-Level Data Removal from
Federated Learning Models. IWQoS 2021. While training, the size of every client's update is kept, every
few rounds. On a request the model begins again; in each kept round the remaining clients train for a
fraction of the epochs, and each layer of what they bring is stretched to the size it had then.

*Incentive and Dynamic Client Selection for Federated Unlearning* (sections 3.2 and 5) has it begin from "the
most recent global model without the updates from" the leaver, and take a plain mean: ``start = "remaining"``,
``mean = "plain"``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial

import numpy as np
import torch
from numpy.typing import NDArray

from unknot.core.archive import MIB
from unknot.core.errors import ConfigError, nearest
from unknot.core.jobs import Job, Update
from unknot.core.requests import Erase
from unknot.core.weights import Layout, Weights, weighted_sum
from unknot.federation import Desk, Guarantee, Lane, Method
from unknot.federation.course import course

CHOICES = {
    "calibrate": ("kept", "selected", "all"),
    "start": ("initial", "remaining"),
    "mean": ("weighted", "plain"),
}


@dataclass(frozen=True)
class FedEraser(Method):
    """Begin again, and calibrate: new directions, each layer as long as the old update was.

    The old sizes, and who took part in a kept round, were shaped by everybody, the erased client included:
    that is why this is approximate.
    """

    interval: int = 2
    """Every so-manieth round is kept and calibrated, at least 1."""
    ratio: float = 0.5
    """The share of the local epochs that calibrating takes, in (0, 1]."""
    memory: float = 64.0
    """MiB for what is kept; beyond that, training stops with an error."""
    calibrate: str = "kept"
    """Who calibrates a kept round: who took part in it ("kept"), who is "selected" now, or "all" who remain.

    Who took no part then steps as far as the others did on average.
    """
    calibrators: int | None = None
    """How many are asked to calibrate a round, where they are "selected"; left out: as many as train."""
    start: str = "initial"
    """Where it begins again: from the "initial" model, or from what the "remaining" clients last made of it.

    That is the latest aggregation once more, without the leaver's update, as a `mean` whatever the
    federation's aggregator is. Its earlier ones shaped the model that everybody was sent, and stay in it: on
    record.
    """
    mean: str = "weighted"
    """How steps are averaged: "weighted" by samples, or "plain", the 1/(N − 1) of the incentive paper."""

    name = "federaser"
    guarantee = Guarantee.APPROXIMATE

    def __post_init__(self) -> None:
        if self.interval < 1:
            raise ConfigError(f"FedEraser: interval must be at least 1, not {self.interval}")
        if not 0 < self.ratio <= 1:
            raise ConfigError(f"FedEraser: ratio is a share of the local epochs, not {self.ratio}")
        for what, known in CHOICES.items():
            if (said := getattr(self, what)) not in known:
                raise ConfigError(
                    f"FedEraser: {what} = {said!r} is not one that there is.{nearest(said, known)}"
                )
        if self.calibrators is not None and self.calibrate != "selected":
            raise ConfigError(
                f'FedEraser: calibrators = {self.calibrators} goes with calibrate = "selected", not '
                f'"{self.calibrate}": leave it out, or choose that'
            )
        if self.calibrators is not None and self.calibrators < 1:
            raise ConfigError(f"FedEraser: calibrators must be at least 1, not {self.calibrators}")
        if not self.memory > 0:
            raise ConfigError(f"FedEraser: memory is MiB, above 0, not {self.memory}")

    @property
    def promise(self) -> str:
        if self.start == "remaining":
            return (
                "approximate: the latest model, which the erased client's earlier updates are in, and the "
                "sizes of old updates, which it had a part in, are used"
            )
        return "approximate: the sizes of old updates, which the erased client had a part in, are used"

    def lay_out(self, desk: Desk, lane: Lane) -> None:
        super().lay_out(desk, lane)
        desk.keepsakes.limit = int(self.memory * MIB)
        lane.notes.update(kept=[], calibrating=False, last=[])

    def choose(self, desk: Desk, lane: Lane, idle: NDArray[np.int64], room: int) -> Iterable[int]:
        """Who took part in the kept round that is gone through again, or everybody; otherwise as ever."""
        if not lane.notes["calibrating"]:
            return super().choose(desk, lane, idle, room)
        if self.calibrate == "selected":
            return super().choose(desk, lane, idle, min(room, self.calibrators or room))
        if self.calibrate == "all":
            return [int(client) for client in idle]
        _, clients = lane.notes["kept"][lane.version]
        return sorted(clients & {int(client) for client in idle})

    def jobs(self, desk: Desk, lane: Lane, client: int) -> list[Job]:
        jobs = super().jobs(desk, lane, client)
        if not lane.notes["calibrating"]:
            return jobs
        epochs = max(1, round(lane.recipe.epochs * self.ratio))
        recipe = replace(lane.recipe, epochs=epochs)
        return [replace(job, key=job.key.child("calibrate"), recipe=recipe) for job in jobs]

    def absorb(self, desk: Desk, lane: Lane, updates: Sequence[Update]) -> None:
        kept: list[tuple[int, set[int]]] = lane.notes["kept"]
        if lane.notes["calibrating"]:
            self._calibrate(desk, lane, updates)
            lane.notes["calibrating"] = lane.version + 1 < len(kept)
            return
        if lane.version % self.interval == 0:
            for update in updates:
                desk.keepsakes.put((lane.name, lane.rounds, update.client), update.job.unit, _sizes(update))
            desk.keepsakes.put((lane.name, lane.rounds), None, course(desk, lane))
            kept.append((lane.rounds, {update.client for update in updates}))
        self._keep_last(desk, lane, updates, lambda update: update.step)
        super().absorb(desk, lane, updates)

    def forget(self, desk: Desk, request: Erase, touched: Sequence[Lane]) -> None:
        gone = {target.client for target in request.targets if target.samples is None}
        for lane in touched:
            for number, _ in lane.notes["kept"]:
                desk.keepsakes.get((lane.name, number))  # who took part is about to be used: on record
            kept = [(number, clients - gone) for number, clients in lane.notes["kept"] if clients - gone]
            start = self._without_the_leaver(desk, lane)
            desk.restart(lane)
            if start is not None:
                lane.nodes["global"].weights = start
            lane.notes.update(kept=kept, calibrating=bool(kept))

    def _keep_last(
        self, desk: Desk, lane: Lane, updates: Sequence[Update], step: Callable[[Update], Weights]
    ) -> None:
        """Keep the model that a round is about to change, and each client's step, of that round alone."""
        if self.start == "initial" or not updates:
            return
        before = lane.nodes["global"].weights.carrying(course(desk, lane).lineage)
        desk.keepsakes.drop("last", lane.name)
        desk.keepsakes.put(("last", lane.name), None, before)
        for update in updates:
            desk.keepsakes.put(("last", lane.name, update.client), update.job.unit, step(update))
        lane.notes["last"] = [update.client for update in updates]

    def _without_the_leaver(self, desk: Desk, lane: Lane) -> Weights | None:
        """The latest aggregation once more, of the steps that are left; None where there was none."""
        if not lane.notes["last"] or (before := desk.keepsakes.get(("last", lane.name))) is None:
            return None
        found = {client: desk.keepsakes.get(("last", lane.name, client)) for client in lane.notes["last"]}
        steps = {client: step for client, step in found.items() if step is not None}
        shares = self._shares([desk.size(client) for client in steps])
        terms = [(1.0, before), *zip(shares, steps.values(), strict=True)]
        return weighted_sum(terms, desk.ledger, "begin again from what remains")

    def _shares(self, samples: Sequence[int]) -> list[float]:
        """How much each step counts."""
        if self.mean == "plain":
            return [1 / len(samples) for _ in samples]
        total = sum(samples)
        return [count / total for count in samples]

    def _calibrate(self, desk: Desk, lane: Lane, updates: Sequence[Update]) -> None:
        """w ← w + Σ (nₖ/n) ‖old‖ · new/‖new‖, layer by layer; 1/(N − 1) for nₖ/n where the mean is plain."""
        node = lane.nodes["global"]
        usual = cache(partial(self._usual_sizes, desk, lane))
        stretched = {u.client: self._stretched(desk, lane, u, usual) for u in updates}
        self._keep_last(desk, lane, updates, lambda update: stretched[update.client])
        steps = list(zip(self._shares([u.samples for u in updates]), stretched.values(), strict=True))
        number, _ = lane.notes["kept"][lane.version]
        attendance = desk.keepsakes.get((lane.name, number))
        if steps and attendance is not None:
            moved = weighted_sum([(1.0, node.weights), *steps], desk.ledger, "calibrate an update")
            node.weights = moved.carrying(attendance.lineage)

    @staticmethod
    def _stretched(desk: Desk, lane: Lane, update: Update, usual: Callable[[int], Weights | None]) -> Weights:
        """As long as its own old step; where it has none (not asked, or samples erased), as is `usual`."""
        step, new = update.step, _sizes(update)
        number, _ = lane.notes["kept"][update.job.version]
        old = desk.keepsakes.get((lane.name, number, update.client))
        if old is None and (old := usual(update.job.version)) is None:
            return step
        factors = torch.where(new.vector > 0, old.vector / new.vector, torch.zeros_like(new.vector))
        lengths = torch.tensor(step.layout.sizes, device=factors.device)
        return step.like(step.vector * factors.repeat_interleave(lengths), old)

    @staticmethod
    def _usual_sizes(desk: Desk, lane: Lane, version: int) -> Weights | None:
        """The mean over those who took part in a kept round."""
        number, clients = lane.notes["kept"][version]
        found = (desk.keepsakes.get((lane.name, number, client)) for client in sorted(clients))
        others = [sizes for sizes in found if sizes is not None]
        terms = [(1 / len(others), sizes) for sizes in others]
        return weighted_sum(terms, desk.ledger, "average old sizes") if terms else None


def _sizes(update: Update) -> Weights:
    """The length of each layer of what the client changed: all that calibrating reads of it."""
    step = update.step
    lengths = torch.stack([part.norm() for part in step.tensors.values()])
    layout = Layout(step.layout.names, ((),) * len(step.layout.names))
    return Weights(lengths, layout, update.lineage)
