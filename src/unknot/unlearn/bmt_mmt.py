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
from typing import Annotated

from unknot.core.errors import ConfigError, nearest
from unknot.core.fields import EACH
from unknot.core.jobs import Job
from unknot.core.requests import Erase
from unknot.federation import Desk, Guarantee, Lane, Method, Node
from unknot.topology import KINDS, Tree, build, keep, parts, rebuild

Sets = Sequence[frozenset[int]]
Known = Mapping[frozenset[int], Node]
"""Models that go on, by the set of clients that shape them."""


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
    def regrow(self, tree: Tree, leave: Iterable[int], join: Iterable[int], trained: Sets) -> Tree:
        """The tree once some have left or joined; `trained` are the sets whose models survive."""

    def lay_out(self, desk: Desk, lane: Lane) -> None:
        _grow(desk, lane, self.plant(lane.members), {}, None)

    def jobs(self, desk: Desk, lane: Lane, client: int) -> list[Job]:
        """Every model between the root and the client's leaf."""
        return [desk.job(lane, lane.nodes[name], client) for name in lane.notes["paths"][client]]

    def forget(self, desk: Desk, request: Erase, touched: Sequence[Lane]) -> None:
        """Drop the models above the leaver's leaf; begin them again from the parts that survive."""
        named = {target.client for target in request.targets}
        gone = {target.client for target in request.targets if target.samples is None}
        for lane in desk.lanes.values():
            tree: Tree = lane.notes["tree"]
            if not tree.clients & named:
                continue
            spoilt = named if lane in touched else set()
            known = {m - gone: node for m, node in _models(lane).items() if not m & spoilt and m - gone}
            root = None if spoilt else lane.nodes["global"]
            if spoilt:
                desk.cancel(lane, lane.flights)  # whatever they left with, the root is no longer that
            leaving = gone & tree.clients
            if leaving:
                tree = self.regrow(tree, leaving, (), _trained(desk, known))
            _grow(desk, lane, tree, known, root)

    def welcome(self, desk: Desk, lane: Lane, clients: Sequence[int]) -> None:
        """A newcomer's local model starts from the initial one; the global model goes on with it."""
        known, root = _models(lane), lane.nodes["global"]
        lane.members.update(clients)
        tree = self.regrow(lane.notes["tree"], (), clients, _trained(desk, known))
        _grow(desk, lane, tree, known, root)


def _grow(desk: Desk, lane: Lane, tree: Tree, known: Known, root: Node | None) -> None:
    """Lay out the nodes of a tree: known models go on, the others begin as the mean of known parts."""
    sets = tree.sets() or [frozenset[int]()]
    paths: dict[int, list[str]] = {client: [] for client in sets[0]}
    lane.nodes.clear()
    for i, members in enumerate(sets):
        name = "global" if i == 0 else _name(members)
        goes_on = root if i == 0 else known.get(members)
        if goes_on is not None:
            place = desk.copy_node if i and goes_on is root else desk.keep_node
            place(lane, goes_on, name, members)
        else:
            survive = [(part, known[part].weights) for part in parts(members, known)]
            desk.begin_again(lane, name, members, desk.mean(survive, "start a model again"))
        for client in members:
            paths[client].append(name)
    lane.notes.update(tree=tree, paths=paths)


def _trained(desk: Desk, known: Known) -> list[frozenset[int]]:
    return [members for members, node in known.items() if desk.trained(node.weights)]


def _models(lane: Lane) -> dict[frozenset[int], Node]:
    """The models of the tree as it stands, by the clients that it names (leavers included)."""
    tree: Tree = lane.notes["tree"]
    return {
        members: lane.nodes["global" if i == 0 else _name(members)] for i, members in enumerate(tree.sets())
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

    def regrow(self, tree: Tree, leave: Iterable[int], join: Iterable[int], trained: Sets) -> Tree:
        return self.plant((tree.clients - set(leave)) | set(join))


@dataclass(frozen=True)
class MMT(InfluenceTree):
    """Multi-models training: a tree of sub-federations; the largest that survive are the new start."""

    tree: str = "huffman"
    """The kind of tree: "huffman", "shannon-fano", "balanced", "b-ary", "greedy", "budget" or "star"."""
    branching: int = 2
    """For b-ary: how many children a node has."""
    budget: int | None = None
    """For budget, which needs it: how many sub-federations at most."""
    probabilities: Annotated[tuple[float, ...], EACH] | None = None
    """How likely each client is to leave, by its number; left out: all alike."""
    expires: Annotated[tuple[float, ...], EACH] | None = None
    """For greedy, which needs it: when each client's data expires, by its number."""
    change: str = "keep"
    """After a leave or a join: "keep" the tree, or "rebuild" it, reusing models."""
    reuse: float = 0.0
    """When it is rebuilt: how much score a reused model is worth."""

    name = "mmt"

    def __post_init__(self) -> None:
        if self.tree not in KINDS:
            raise ConfigError(
                f"MMT: tree = {self.tree!r} is not one that there is.{nearest(self.tree, KINDS)}"
            )
        if self.change not in ("keep", "rebuild"):
            raise ConfigError(f"MMT: change is 'keep' or 'rebuild', not {self.change!r}")
        for client, probability in enumerate(self.probabilities or ()):
            if not 0 <= probability <= 1:
                raise ConfigError(f"MMT: probabilities[{client}] must be between 0 and 1, not {probability}")
        if self.probabilities is not None and not any(self.probabilities):
            raise ConfigError("MMT: probabilities are all zero: somebody must be able to leave")

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

    def regrow(self, tree: Tree, leave: Iterable[int], join: Iterable[int], trained: Sets) -> Tree:
        clients = (tree.clients - set(leave)) | set(join)
        if not tree:
            return self.plant(clients)
        if self.change == "keep":
            return keep(tree, leave, join)
        if self.tree in ("star", "b-ary", "greedy", "budget"):  # they have a shape of their own to keep to
            return self.plant(clients)
        ids = sorted(clients)
        return rebuild(ids, trained, _by_client("probabilities", self.probabilities, ids), reuse=self.reuse)


def _by_client(what: str, values: Sequence[float] | None, clients: Sequence[int]) -> dict[int, float] | None:
    if values is None:
        return None
    if clients and clients[-1] >= len(values):
        raise ConfigError(f"method.{what} has {len(values)} entries, but there is a client {clients[-1]}")
    return {client: values[client] for client in clients}
