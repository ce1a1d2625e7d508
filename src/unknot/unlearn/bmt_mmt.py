"""BMT and MMT: exact unlearning from models that the leaver never touched.

Achieving Exact Federated Unlearning with Improved Post-Unlearning Performance (2025). Besides the
global model, clients train models of their own (BMT) and models of some of them (MMT), laid out as
an influence tree: the root is the global model, leaves are local models, inner nodes are
sub-federations. When a client leaves, every model above its leaf is dropped and begins again as the
data-weighted mean of the largest models below it that the client had no part in.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b

from unknot.core.errors import ConfigError, nearest
from unknot.core.jobs import Job
from unknot.core.requests import Erase
from unknot.core.weights import Weights
from unknot.federation import Federation, Guarantee, Lane, Method
from unknot.topology import KINDS, Tree, build, keep, parts, rebuild

Known = Mapping[frozenset[int], Weights]
"""Trained models by the set of clients that shaped them."""


class InfluenceTree(Method):
    """What BMT and MMT have in common: a tree of models, all trained in every round."""

    guarantee = Guarantee.EXACT

    @property
    def keeps(self) -> bool:
        return True

    @abstractmethod
    def plant(self, clients: Iterable[int]) -> Tree:
        """The tree for the first clients."""

    @abstractmethod
    def regrow(self, tree: Tree, leave: Iterable[int], join: Iterable[int], known: Known) -> Tree:
        """The tree once some have left or joined; `known` are the models that survive."""

    def lay_out(self, fed: Federation, lane: Lane) -> None:
        _grow(fed, lane, self.plant(lane.members), {}, fed.initial)

    def jobs(self, fed: Federation, lane: Lane, client: int) -> list[Job]:
        """Every model between the root and the client's leaf."""
        return [fed.job(lane, lane.nodes[name], client) for name in lane.notes["paths"][client]]

    def forget(self, fed: Federation, request: Erase, touched: Sequence[Lane]) -> None:
        """Drop the models above the leaver's leaf; begin them again from the parts that survive."""
        named = {target.client for target in request.targets}
        gone = {target.client for target in request.targets if target.samples is None}
        for lane in fed.lanes.values():
            tree: Tree = lane.notes["tree"]
            if not tree.clients & named:
                continue
            spoilt = named if lane in touched else set()
            known = {m - gone: w for m, w in _models(lane).items() if not m & spoilt and m - gone}
            root = None if spoilt else lane.nodes["global"].weights
            if spoilt:
                fed.cancel(lane, lane.flights)  # whatever they left with, the root is no longer that
            leaving = gone & tree.clients
            _grow(fed, lane, self.regrow(tree, leaving, (), known) if leaving else tree, known, root)

    def welcome(self, fed: Federation, lane: Lane, clients: Sequence[int]) -> None:
        """A newcomer's local model starts from the initial one; the global model goes on with it."""
        known, root = _models(lane), lane.nodes["global"].weights
        lane.members.update(clients)
        _grow(fed, lane, self.regrow(lane.notes["tree"], (), clients, known), known, root)


def _grow(fed: Federation, lane: Lane, tree: Tree, known: Known, root: Weights | None) -> None:
    """Lay out the nodes of a tree: known models go on, the others begin as the mean of known parts."""
    sets = tree.sets() or [frozenset[int]()]
    paths: dict[int, list[str]] = {client: [] for client in sets[0]}
    lane.nodes.clear()
    for i, members in enumerate(sets):
        name = "global" if i == 0 else _name(members)
        weights = root if i == 0 else known.get(members)
        if weights is not None:
            fed.add_node(lane, name, members, weights)
        else:
            survive = [(part, known[part]) for part in parts(members, known)]
            fed.begin_again(lane, name, members, fed.mean(survive, "start a model again"))
        for client in members:
            paths[client].append(name)
    lane.notes.update(tree=tree, paths=paths)


def _models(lane: Lane) -> dict[frozenset[int], Weights]:
    """The models of the tree as it stands, by the clients that it names (leavers included)."""
    tree: Tree = lane.notes["tree"]
    return {
        members: lane.nodes["global" if i == 0 else _name(members)].weights
        for i, members in enumerate(tree.sets())
    }


def _name(members: frozenset[int]) -> str:
    """Names are of the members alone, so that draws keyed by them do not depend on anybody else."""
    text = "+".join(map(str, sorted(members)))
    if len(text) <= 40:
        return text
    return f"{len(members)} clients {blake2b(text.encode(), digest_size=8).hexdigest()}"


@dataclass(frozen=True)
class BMT(InfluenceTree):
    """Bi-models training: every client also trains a model alone; their mean is the new start."""

    name = "bmt"

    def plant(self, clients: Iterable[int]) -> Tree:
        return build("star", clients)

    def regrow(self, tree: Tree, leave: Iterable[int], join: Iterable[int], known: Known) -> Tree:
        return self.plant((tree.clients - set(leave)) | set(join))


@dataclass(frozen=True)
class MMT(InfluenceTree):
    """Multi-models training: a tree of sub-federations; the largest that survive are the new start.

    `tree` is a kind of `unknot.topology.build`, with its `branching`, `budget`, and `probabilities`
    and `expires` by client id. `change`: after a leave or a join, "keep" the tree, or "rebuild" it,
    reusing models; `reuse` is how much score a reused model is worth then.
    """

    tree: str = "huffman"
    branching: int = 2
    budget: int | None = None
    probabilities: tuple[float, ...] | None = None
    expires: tuple[float, ...] | None = None
    change: str = "keep"
    reuse: float = 0.0

    name = "mmt"

    def __post_init__(self) -> None:
        if self.tree not in KINDS:
            raise ConfigError(f"unknown kind of tree {self.tree!r}.{nearest(self.tree, KINDS)}")
        if self.change not in ("keep", "rebuild"):
            raise ConfigError(f"after a leave, MMT can 'keep' or 'rebuild' its tree, not {self.change!r}")

    def plant(self, clients: Iterable[int]) -> Tree:
        ids = sorted(clients)
        return build(
            self.tree,
            ids,
            probabilities=_by_client("probabilities", self.probabilities, ids),
            expires=_by_client("expires", self.expires, ids),
            branching=self.branching,
            budget=self.budget,
        )

    def regrow(self, tree: Tree, leave: Iterable[int], join: Iterable[int], known: Known) -> Tree:
        clients = (tree.clients - set(leave)) | set(join)
        if not tree:
            return self.plant(clients)
        if self.change == "keep":
            return keep(tree, leave, join)
        if self.tree in ("star", "b-ary", "greedy", "budget"):  # they have a shape of their own to keep to
            return self.plant(clients)
        trained = [members for members, weights in known.items() if weights.lineage]
        ids = sorted(clients)
        return rebuild(ids, trained, _by_client("probabilities", self.probabilities, ids), reuse=self.reuse)


def _by_client(what: str, values: Sequence[float] | None, clients: Sequence[int]) -> dict[int, float] | None:
    if values is None:
        return None
    if clients and clients[-1] >= len(values):
        raise ConfigError(f"method.{what} has {len(values)} entries, but there is a client {clients[-1]}")
    return {client: values[client] for client in clients}
