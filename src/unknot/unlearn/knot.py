"""KNOT: clusters that train apart at an asynchronous pace, so that a request disturbs one of them.

N. Su, B. Li: Asynchronous Federated Unlearning. INFOCOM 2023. Clients are profiled once, for how long
they train and how far their updates point from the mean, and assigned to clusters so that the worst
match is as good as can be. A request retrains the clusters that the client is in, by any method; the
others do not notice. What is served comes from the clusters' models.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

import torch

from unknot.core.ensemble import Model
from unknot.core.errors import ConfigError, nearest
from unknot.core.jobs import Job
from unknot.core.requests import Erase
from unknot.core.training import Recipe
from unknot.core.weights import Weights, weighted_sum
from unknot.federation import Desk, Guarantee, Lane, Method
from unknot.federation.clock import SECOND
from unknot.federation.clustered import (
    JOINT,
    Clustered,
    best_cluster,
    count_clusters,
    ensemble_of_clusters,
    join_clusters,
    joint_model,
    mean_of_clusters,
)
from unknot.federation.pace import Pace, by_members
from unknot.federation.promise import qualified
from unknot.federation.versions import forget_versions, go_back, keep_version
from unknot.topology import (
    Assignment,
    assign,
    populations_by_size,
    random_clusters,
    ratings,
    share_clusters,
    similar_clusters,
)

USUAL = 5
"""Clusters, where nobody says how many."""
SERVED = {
    "mean": mean_of_clusters,
    "best": best_cluster,
    "ensemble": ensemble_of_clusters,
    "joint": joint_model,
}
CLUSTERED = ("knot", "random", "similar", "shares")
RESTARTS = ("initial", "before")


@dataclass(frozen=True)
class KNOT(Clustered):
    """Isolated clusters by speed and similarity; a request retrains its own, the others go on.

    What is served comes from the clusters' models. When clients are assigned anew, clusters that change begin
    again.
    """

    clusters: int | None = None
    """How many clusters; left out: 5, or one for each client where they are fewer."""
    by: str = "knot"
    """How clients are assigned: "knot" (by speed and similarity), "random", "similar" or "shares"."""
    a: float | None = None
    """For knot: the weight of training times; left out: 1 / their range."""
    b: float | None = None
    """For knot: the weight of disparities; left out: 1."""
    c1: int = 1
    """For knot: how many clusters a client may be in."""
    c2: int | None = None
    """For knot: the least clients of a cluster; left out: K/2N, of K clients in N clusters."""
    c3: int | None = None
    """For knot: the most clients of a cluster; left out: K/2."""
    shares: tuple[tuple[float, ...], ...] = ()
    """For shares: a row a population, by how much data its clients hold, with a share a cluster."""
    seats: str = "even"
    """How those who are asked at a time divide among the clusters: an "even" number each, or by "members"."""
    retrain: Method | None = None
    """The method that rules in each cluster; left out: it begins again from scratch."""
    served: str = "mean"
    """The data-weighted "mean" (the paper's), the "best" cluster by validation, the "ensemble" or "joint"."""
    joint_rounds: int = 3
    """For joint: rounds of all clients from the mean, when a run is over."""
    profile_epochs: int = 1
    """Epochs of training that a client's profile takes."""
    restart: str = "initial"
    """Where a hit cluster goes back to: the "initial" model, or "before" it first sent the client one.

    For that, the models that clients were first sent are kept. Not with `retrain`, which says it itself.
    """
    reassign: str = "keep"
    """What the assignment learned from an erased client: "keep" it, or assign all anew "without" it."""

    name = "knot"
    guarantee = Guarantee.EXACT

    def __post_init__(self) -> None:
        if self.clusters is not None and self.clusters < 1:
            raise ConfigError(f"KNOT: clusters must be at least 1, not {self.clusters}")
        if bool(self.shares) != (self.by == "shares"):
            raise ConfigError('KNOT: shares go with by = "shares", and it with them')
        if self.by not in CLUSTERED:
            raise ConfigError(
                f"KNOT: by = {self.by!r} is not one that there is.{nearest(self.by, CLUSTERED)}"
            )
        if self.served not in SERVED:
            raise ConfigError(
                f"KNOT: served = {self.served!r} is not one that there is.{nearest(self.served, SERVED)}"
            )
        for what in ("joint_rounds", "profile_epochs"):
            if getattr(self, what) < 1:
                raise ConfigError(f"KNOT: {what} must be at least 1, not {getattr(self, what)}")
        if self.restart not in RESTARTS:
            raise ConfigError(
                f"KNOT: restart = {self.restart!r} is not one that there is.{nearest(self.restart, RESTARTS)}"
            )
        if self.restart != "initial" and self.retrain is not None:
            raise ConfigError(
                f'KNOT: restart = "{self.restart}" is for clusters that just train on: leave retrain out'
            )
        if self.retrain is not None and type(self.retrain).open is not Method.open:
            raise ConfigError(
                f"KNOT: retrain = {self.retrain.name!r} lays out a whole federation, and cannot rule in one "
                "cluster of it: take one that trains one model, such as rfs, rapid, bmt, mmt or federaser"
            )
        if self.seats not in ("even", "members"):
            raise ConfigError(f"KNOT: seats is 'even' or 'members', not {self.seats!r}")
        if self.reassign not in ("keep", "without"):
            raise ConfigError(f"reassign is 'keep' or 'without', not {self.reassign!r}")

    @property
    def exact(self) -> bool:
        return self.retrain is None or self.retrain.exact

    @property
    def promise(self) -> str:
        """Exact in the weights; a clustering made of profiles knows of the erased client's, if it is kept.

        Assigned anew, each cluster is one of a federation without the client; when it began tells of it.
        """
        inner = self.guarantee.value if self.retrain is None else self.retrain.promise
        if self.by != "random":
            learned = "what the clustering learned from the erased client's profile"
            if self.by == "shares":
                learned = "how much data the erased client held, which the clustering goes by"
            if self.reassign == "without":
                learned = "which clusters had to begin again"
            inner = qualified(inner, self.exact, [learned])
        if self.served == "joint":
            inner += "; joint rounds join the clusters' lineages, and a later request undoes them"
        return inner

    @property
    def inner(self) -> Method:
        return super().inner if self.retrain is None else self.retrain

    def open(self, desk: Desk) -> None:
        if self.served == "best" and not desk.validated:
            raise ConfigError('served = "best" needs validation data')
        super().open(desk)
        if self.reassign == "keep":  # what nobody will read again is not kept
            desk.archive.drop("profile")

    def send_out(self, desk: Desk, lane: Lane, clients: Sequence[int]) -> None:
        if self.restart == "before" and lane.name != JOINT:
            keep_version(desk, lane, clients)
        super().send_out(desk, lane, clients)

    def paces(self, desk: Desk, dealt: Sequence[Sequence[int]]) -> Sequence[Pace]:
        if self.seats == "even":
            return super().paces(desk, dealt)
        return by_members(desk.pace, [len(members) for members in dealt])

    def forget(self, desk: Desk, request: Erase, touched: Sequence[Lane]) -> None:
        if self.retrain is not None:
            self.retrain.forget(desk, request, touched)
        else:
            for lane in touched:
                if self.restart == "before":
                    go_back(desk, lane, [target.client for target in request.targets])
                else:
                    desk.restart(lane)
        if self.by != "random" and self.reassign == "without" and desk.members:
            self._assign_anew(desk)

    def serve(self, desk: Desk) -> Model:
        return SERVED[self.served](desk)

    def conclude(self, desk: Desk) -> None:
        if self.served == "joint":
            join_clusters(desk, self.joint_rounds)

    def choices(self, desk: Desk) -> dict[str, Model]:
        """Every way to serve that needs no further training, and that has what it needs."""
        there = {"joint": self.served == "joint", "best": desk.validated}
        return {name: serve(desk) for name, serve in SERVED.items() if there.get(name, True)}

    def deal(self, desk: Desk) -> list[list[int]]:
        """Newcomers have no profile: they are where the fewest were, in the order in which they came."""
        wanted = self._count(desk)
        newcomers = [client for lane in desk.lanes.values() for client in lane.joined]
        first = sorted(desk.members - set(newcomers))
        dealt = [list(members) for members in self._clusters(desk, first)] if first else []
        dealt += [[] for _ in range(wanted - len(dealt))]
        for client in sorted(set(newcomers) & desk.members, key=lambda c: _came(desk, c)):
            min(dealt, key=len).append(client)
        return dealt

    def _count(self, desk: Desk) -> int:
        return len(self.shares[0]) if self.shares else count_clusters(desk, self.clusters, USUAL)

    def _clusters(self, desk: Desk, clients: Sequence[int]) -> Sequence[Sequence[int]]:
        if self.by == "random":
            return random_clusters(clients, min(self._count(desk), len(clients)), desk.key)
        if self.by == "shares":
            sizes = {client: desk.size(client) for client in clients}
            return share_clusters(self.shares, populations_by_size(sizes, len(self.shares)), desk.key)
        recipe = replace(desk.recipe, epochs=self.profile_epochs)
        profiles = _profiles(desk, clients, recipe)
        if self.by == "similar":
            away = {client: (desk.initial - w).vector.cpu().numpy() for client, w in profiles.items()}
            return similar_clusters(away, min(self._count(desk), len(clients)), desk.key)
        times = [_seconds(desk, client, recipe) for client in clients]
        rated = ratings(times, _disparities(desk, profiles), self._count(desk), self.a, self.b)
        assigned = Assignment(rated, assign(rated, self.c1, self.c2, self.c3))
        return [[clients[place] for place in members] for members in assigned.clusters]

    def _assign_anew(self, desk: Desk) -> None:
        """As if the erased data had never been profiled; clusters that stay as they are go on.

        Seats go by the members of the start, as they did there.
        """
        dealt = self.deal(desk)
        newcomers = {client for lane in desk.lanes.values() for client in lane.joined}
        paces = self.paces(desk, [[c for c in members if c not in newcomers] for members in dealt])
        for lane, members, pace in zip(desk.lanes.values(), dealt, paces, strict=True):
            reseated = self.seats == "members" and pace != lane.pace
            if set(members) != lane.members or reseated:
                lane.members = set(members)
                lane.pace = pace
                lane.nodes.clear()
                lane.sent.clear()
                forget_versions(desk, lane)
                self.inner.lay_out(desk, lane)
                desk.rewind(lane, 0, {})


def _profiles(desk: Desk, clients: Sequence[int], recipe: Recipe) -> dict[int, Weights]:
    """One round from the initial model, each client alone; kept, since each is of that client only."""
    absent = [c for c in clients if ("profile", c) not in desk.archive and desk.size(c)]
    jobs = [
        Job(desk.ledger.unit(c), desk.initial, desk.key.child("profile", c), recipe, "profile")
        for c in absent
    ]
    for update in desk.train_apart(jobs) if jobs else ():
        desk.archive["profile", update.client] = update.weights
    known = [c for c in clients if ("profile", c) in desk.archive]
    return {c: desk.archive["profile", c] for c in known} | {
        c: desk.initial for c in clients if c not in known
    }


def _disparities(desk: Desk, profiles: dict[int, Weights]) -> list[float]:
    """S = (1 − cos(ω₀ − ω₁, ω₀ − ωₖ))/2, ω₁ the data-weighted mean; a half where there is no direction."""
    clients = sorted(profiles)
    sizes = {client: desk.size(client) for client in clients}
    total = sum(sizes.values()) or 1
    mean = weighted_sum([(sizes[c] / total, profiles[c]) for c in clients], desk.ledger, "profile clients")
    centre = (desk.initial - mean).vector.double()
    cosine = partial(torch.nn.functional.cosine_similarity, dim=0, eps=1e-30)
    away = [(desk.initial - profiles[client]).vector.double() for client in clients]
    return [min(1.0, max(0.0, (1.0 - float(cosine(centre, vector))) / 2)) for vector in away]


def _seconds(desk: Desk, client: int, recipe: Recipe) -> float:
    read = recipe.samples_seen(desk.size(client))
    return desk.duration(client, read) / SECOND


def _came(desk: Desk, client: int) -> tuple[int, int]:
    return min((lane.joined[client], client) for lane in desk.lanes.values() if client in lane.joined)
