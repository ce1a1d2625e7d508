"""PGA: at its last visit, the leaver climbs its own loss, within a ball about the mean of the others.

A. Halimi, S. Kadhe, A. Rawat, N. Baracaldo: Federated Unlearning: How to Efficiently Erase a Client in FL?
2022 (arXiv 2207.05521). The reference is the mean of the others' local models, w_ref = (N·w − wᵢ)/(N − 1):
the last round without the leaver. From there the leaver maximises its loss by gradient ascent with clipped
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
from unknot.core.weights import Layout, Weights, weighted_sum
from unknot.federation import Desk, Guarantee, Lane, Method
from unknot.federation.course import keep_course, let_pass

RANDOM_MODELS = 10
"""How many random models the usual radius is measured by, as in the authors' code."""
SHARE = Layout(("share",), ((1,),))
"""How much a client counted in a round: made of what it holds, and so kept with what it sent."""


@dataclass(frozen=True)
class PGA(Method):
    """The leaver unlearns: it climbs its loss in a ball about the others' mean, and they go on from there."""

    radius: float | None = None
    """Of the ball, above 0; left out: a third of the mean distance from the reference to random models."""
    epochs: int = 5
    """Passes over its data in which the leaver climbs."""
    batch_size: int = 128
    """Samples a step of the climb."""
    lr: float = 0.01
    """Learning rate of the climb, above 0."""
    momentum: float = 0.9
    """Momentum of the climb."""
    clip: float = 5.0
    """Gradients longer than this are scaled down to it."""
    stop: float | None = None
    """Climb only until the mean loss over a pass is as high as this; left out: all passes."""

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

    def lay_out(self, desk: Desk, lane: Lane) -> None:
        desk.check_additive(self.name)
        super().lay_out(desk, lane)
        _end_round(desk, lane)

    def absorb(self, desk: Desk, lane: Lane, updates: Sequence[Update]) -> None:
        if updates:
            _end_round(desk, lane)
            desk.keepsakes.put(_before(lane), None, lane.model)
            terms = desk.terms(lane, lane.nodes["global"], updates)
            lane.notes["last"] = [update.client for update in updates]
            for update, (weight, change) in zip(updates, terms, strict=True):
                unit, share = update.job.unit, torch.tensor([weight], dtype=torch.float64)
                desk.keepsakes.put(_part(lane, update.client), unit, change * weight)
                desk.keepsakes.put(_share(lane, update.client), unit, Weights(share, SHARE, update.lineage))
        super().absorb(desk, lane, updates)

    def farewell(self, desk: Desk, request: Erase) -> None:
        leavers = {target.client for target in request.targets if target.samples is None}
        for lane in desk.lanes.values():
            known = lane.model.lineage
            shaped = [target for target in request.targets if desk.ledger.unit(target.client) in known]
            if lane.members - leavers:
                keep_course(desk, lane)
            if shaped and lane.members - leavers:
                reference = _without(desk, lane, {target.client for target in shaped})
                desk.keepsakes.put(_unlearned(lane), None, self._climbed(desk, lane, shaped, reference))

    def forget(self, desk: Desk, request: Erase, touched: Sequence[Lane]) -> None:
        for lane in touched:
            unlearned = desk.keepsakes.take(_unlearned(lane))
            if unlearned is not None:
                desk.rewind(lane, lane.version, {"global": unlearned.carrying(let_pass(desk, lane))})
                _end_round(desk, lane)
            elif desk.ledger.taint(lane.model):  # nobody is left to go on from it, or it was shaped elsewhere
                desk.restart(lane)
                _end_round(desk, lane)
            else:
                lane.nodes["global"].weights = lane.model.carrying(let_pass(desk, lane))

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


def _before(lane: Lane) -> tuple[str, str]:
    return ("before", lane.name)


def _part(lane: Lane, client: int) -> tuple[str, str, int]:
    return ("part", lane.name, client)


def _share(lane: Lane, client: int) -> tuple[str, str, int]:
    return ("share", lane.name, client)


def _unlearned(lane: Lane) -> tuple[str, str]:
    return ("unlearned", lane.name)


def _end_round(desk: Desk, lane: Lane) -> None:
    """Keep nothing of the last round any longer."""
    desk.keepsakes.drop(*_before(lane))
    desk.keepsakes.drop("part", lane.name)
    desk.keepsakes.drop("share", lane.name)
    lane.notes["last"] = []


def _without(desk: Desk, lane: Lane, leavers: set[int]) -> Weights:
    """The last round without the leavers: w₀ + Σ cⱼΔⱼ·C/(C − Σ cᵢ), w₀ the model before it, C = Σ c.

    Of FedAvg that is (w − Σ pᵢwᵢ)/(1 − Σ pᵢ), pᵢ a leaver's share of the samples; (N·w − wᵢ)/(N − 1) if
    everybody took part and holds as much. Who was not in it is not taken out.
    """
    found = {client: desk.keepsakes.get(_share(lane, client)) for client in lane.notes["last"]}
    weights = {client: float(share.vector[0]) for client, share in found.items() if share is not None}
    gone = sorted(leavers & weights.keys())
    before = desk.keepsakes.get(_before(lane))
    if not gone or before is None:
        return lane.model
    if set(gone) == weights.keys():  # nobody else was
        return before.carrying(lane.model.lineage)
    scale = sum(weights.values()) / sum(c for client, c in weights.items() if client not in gone)
    parts = [desk.keepsakes.get(_part(lane, client)) for client in gone]
    terms = [(scale, lane.model), (1 - scale, before), *((-scale, part) for part in parts if part)]
    return weighted_sum(terms, desk.ledger, "take clients out")


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
        random = layout.join(parts)
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
