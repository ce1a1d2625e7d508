"""PGA: at its last visit, the leaver climbs its own loss, within a ball about the mean of the others.

A. Halimi, S. Kadhe, A. Rawat, N. Baracaldo: Federated Unlearning: How to Efficiently Erase a Client in FL?
2022 (arXiv 2207.05521). The server keeps every client's last local model. The reference is the mean of the
others', w_ref = (N·w − wᵢ)/(N − 1). From there the leaver maximises its loss by gradient ascent with clipped
gradients, projected back into the ball of radius δ about w_ref after every step. The others train on from
what comes of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch

from unknot.core.errors import ConfigError
from unknot.core.jobs import Job, Update
from unknot.core.keys import Key
from unknot.core.requests import Erase, Target
from unknot.core.training import SGD, Recipe
from unknot.core.weights import Weights, weighted_sum
from unknot.federation import Desk, Guarantee, Lane, Method

RANDOM_MODELS = 10
"""How many random models the usual radius is measured by, as in the authors' code."""


@dataclass(frozen=True)
class PGA(Method):
    """The leaver unlearns: it climbs its loss near the mean of the others, who go on from there.

    `radius` is that of the ball; by default a third of the mean distance from the reference to random models.
    It climbs for `epochs` passes; with `stop`, only until its mean loss over one of them is as high as that.
    """

    radius: float | None = None
    epochs: int = 5
    batch_size: int = 128
    lr: float = 0.01
    momentum: float = 0.9
    clip: float = 5.0
    stop: float | None = None

    name = "pga"
    guarantee = Guarantee.APPROXIMATE

    def __post_init__(self) -> None:
        self._recipe(
            1.0 if self.radius is None else self.radius, self.epochs
        )  # which checks what it is given
        if self.stop is not None and not self.stop > 0:
            raise ConfigError(f"PGA: stop is a loss, above 0, not {self.stop}")

    @property
    def promise(self) -> str:
        return "approximate: the model that goes on was shaped by the erased client, and pushed away by it"

    def absorb(self, desk: Desk, lane: Lane, updates: Sequence[Update]) -> None:
        for update in updates:
            desk.keepsakes.put(_last(lane, update.client), update.job.unit, update.weights)
        super().absorb(desk, lane, updates)

    def farewell(self, desk: Desk, request: Erase) -> None:
        for lane in desk.lanes.values():
            last = {
                target: weights
                for target in request.targets
                if (weights := desk.keepsakes.get(_last(lane, target.client))) is not None
            }
            if last:
                reference = _without(desk, lane, {target.client: w for target, w in last.items()})
                unlearned = self._climbed(desk, lane, list(last), reference)
                desk.keepsakes.put(_unlearned(lane), None, unlearned)

    def forget(self, desk: Desk, request: Erase, touched: Sequence[Lane]) -> None:
        for lane in touched:
            unlearned = desk.keepsakes.take(_unlearned(lane))
            if unlearned is not None:
                desk.rewind(lane, lane.version, {"global": unlearned})
            elif desk.ledger.taint(lane.model):  # it never came with a model of its own: nothing to push
                desk.restart(lane)

    def _climbed(self, desk: Desk, lane: Lane, leavers: Sequence[Target], reference: Weights) -> Weights:
        """Where the leavers get to from the reference: of several, the mean, which is in the ball as well."""
        key = desk.key.child("farewell", lane.name, lane.rounds)
        radius = _third_of_the_way(desk, reference, key) if self.radius is None else self.radius
        models = dict.fromkeys(leavers, reference)
        climbing = [target for target in leavers if desk.size(target.client)]
        passes = 1 if self.stop is None else self.epochs  # one after the other, where it may stop
        recipe = replace(self._recipe(radius, self.epochs // passes), loss=lane.recipe.loss)
        for number in range(passes):
            jobs = {
                target.client: _job(desk, target, models[target], recipe, key.child(number))
                for target in climbing
            }
            done = {update.client: update for update in desk.train_apart(list(jobs.values()))} if jobs else {}
            climbing = [target for target in climbing if target.client in done]
            for target in climbing:
                models[target] = _within(done[target.client].weights, reference, radius)
            if self.stop is not None:
                climbing = [target for target in climbing if done[target.client].loss < self.stop]
        counts = {t: desk.size(t.client) if t.samples is None else len(t.samples) for t in leavers}
        total = sum(counts.values())
        terms = [(counts[t] / total if total else 1 / len(leavers), models[t]) for t in leavers]
        return weighted_sum(terms, desk.ledger, "join what leavers made")

    def _recipe(self, radius: float, epochs: int) -> Recipe:
        optimizer = SGD(self.lr, self.momentum)
        return Recipe(optimizer, epochs, self.batch_size, clip=self.clip, radius=radius, ascent=True)


def _last(lane: Lane, client: int) -> tuple[str, str, int]:
    return ("last", lane.name, client)


def _unlearned(lane: Lane) -> tuple[str, str]:
    return ("unlearned", lane.name)


def _without(desk: Desk, lane: Lane, last: dict[int, Weights]) -> Weights:
    """(w − Σ pᵢwᵢ)/(1 − Σ pᵢ), pᵢ a leaver's share of the data; (N·w − wᵢ)/(N − 1) if all hold as much."""
    held = {client: desk.size(client) for client in lane.members}
    everything, gone = sum(held.values()), sum(held[client] for client in last)
    if gone == everything:  # nobody else is there
        return desk.initial.carrying(lane.model.lineage)
    rest = everything - gone
    parts = [(-held[client] / rest, last[client]) for client in sorted(last)]
    return weighted_sum([(everything / rest, lane.model), *parts], desk.ledger, "take clients out")


def _third_of_the_way(desk: Desk, reference: Weights, key: Key) -> float:
    """A third of the mean distance to random models: the initial one, each layer's numbers shuffled."""
    layout = desk.initial.layout
    distances = []
    for number in range(RANDOM_MODELS):
        generator = key.child("random model", number).generator()
        parts = {
            name: tensor.reshape(-1)[
                torch.from_numpy(generator.permutation(tensor.numel())).to(tensor.device)
            ]
            for name, tensor in desk.initial.tensors.items()
        }
        random = layout.freeze(layout.join(parts), reference.vector)
        distances.append(float((reference.vector - random).double().norm()))
    return sum(distances) / len(distances) / 3


def _job(desk: Desk, target: Target, start: Weights, recipe: Recipe, key: Key) -> Job:
    """Climb on all that a leaver holds, or on those samples alone that are to be erased."""
    key = key.child(target.client)
    batches = None
    if target.samples is not None:
        ids, size = np.asarray(target.samples, dtype=np.int64), recipe.batch_size
        orders = [ids[key.child("epoch", epoch).order(ids)] for epoch in range(recipe.epochs)]
        batches = tuple(order[i : i + size] for order in orders for i in range(0, len(ids), size))
    return Job(desk.ledger.unit(target.client), start, key, recipe, "farewell", batches=batches)


def _within(weights: Weights, centre: Weights, radius: float) -> Weights:
    """Moved straight back into the ball, if it is outside."""
    step = weights - centre
    distance = float(step.vector.double().norm())
    return weights if distance <= radius else centre + step * (radius / distance)
