"""What a method works on: lanes and nodes, the ledger, the history that it keeps."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from unknot.core.archive import Archive, Keepsakes, Memo
from unknot.core.data import FederatedData
from unknot.core.errors import ConfigError, UnknotError
from unknot.core.jobs import Job
from unknot.core.keys import Key
from unknot.core.lineage import Ledger
from unknot.core.recipe import Recipe
from unknot.core.selection import WHEN, AtRandom, Selector
from unknot.core.store import MIB
from unknot.core.weights import Weights, weighted_sum
from unknot.federation.aggregate import Aggregate, FedAvg
from unknot.federation.history import Costs
from unknot.federation.lanes import Flight, Lane, Node
from unknot.federation.pace import Pace, Synchronous


class Bench:
    """The part of a federation that a method may touch.

    `initial` weights, `data` that is still there, `members`, `lanes`; `archive` and `memo` for what
    it keeps; `aggregate`, `select` and `pace` as the federation was set up; `key` for draws.
    """

    def __init__(
        self,
        initial: Weights,
        data: FederatedData,
        recipe: Recipe,
        pace: Pace | None,
        aggregate: Aggregate | None,
        select: Selector | None,
        select_when: str,
        seed: int,
    ) -> None:
        if select_when not in WHEN:
            raise ConfigError(f"select_when is 'always' or 'unlearning', not {select_when!r}")
        self.initial = initial
        self.data = data.fork()
        self.recipe = recipe
        self.pace = pace or Synchronous()
        self.aggregate = aggregate or FedAvg()
        self.select = select or AtRandom()
        self.select_when = select_when
        self.seed = seed
        self.key = Key.root(seed)
        self.ledger = Ledger()
        self.archive = Archive(self.ledger)
        self.memo = Memo(self.ledger)
        self.lanes: dict[str, Lane] = {}
        self.members: set[int] = set()
        self.costs = Costs()
        self._restarted: list[str] = []
        self._keepsakes: Keepsakes | None = None

    @property
    def keepsakes(self) -> Keepsakes:
        """For approximate methods alone: what is kept although erased data had a part in it."""
        if self._keepsakes is None:
            raise UnknotError("an exact method keeps nothing that erased data had a part in")
        return self._keepsakes

    def add_lane(self, name: str, members: Iterable[int]) -> Lane:
        late = self.select_when == "unlearning"
        lane = Lane(name, set(members), self.recipe, self.pace, AtRandom() if late else self.new_selector())
        self.lanes[name] = lane
        return lane

    def new_selector(self) -> Selector:
        """As the federation was given it; one that has seen nothing, if erased data had a part in that."""
        return self.select.fresh() if self.ledger.taint(self.select) else copy.deepcopy(self.select)

    def add_node(self, lane: Lane, name: str, members: Iterable[int], weights: Weights | None = None) -> Node:
        """A new model in a lane; it starts from the initial weights unless others are given."""
        node = Node(name, members, self.initial if weights is None else weights, self.ledger)
        lane.nodes[name] = node
        return node

    def begin_again(self, lane: Lane, name: str, members: Iterable[int], weights: Weights) -> Node:
        """A node in place of one that was spoilt: recorded with the request that is being served."""
        self._restarted.append(name)
        return self.add_node(lane, name, members, weights)

    def drop_node(self, lane: Lane, name: str) -> None:
        del lane.nodes[name]

    def limit_history(self, memory: float, disk: float) -> None:
        """Let the archive and the memo take so many MiB each in memory and on disk, and no more."""
        if not (memory >= 0 and disk >= 0):
            raise ConfigError(f"a history's memory and disk are MiB, not {memory} and {disk}")
        room = (int(memory * MIB), int(disk * MIB))
        self.archive, self.memo = Archive(self.ledger, *room), Memo(self.ledger, *room)

    def job(self, lane: Lane, node: Node, client: int) -> Job:
        """Train this node's model on this client, by the lane's recipe."""
        key = self.key.child("train", node.name, lane.version, client)
        return Job(self.ledger.unit(client), node.weights, key, lane.recipe, node.name, lane.version)

    def shares(self, models: Iterable[tuple[Iterable[int], Weights]]) -> list[tuple[float, Weights]]:
        """Models with their members, as each one's share of the data behind all of them.

        What nobody has trained yet, or nobody has data for, does not count.
        """
        held = [(sum(len(self.data[client]) for client in members), weights) for members, weights in models]
        trained = [(n, weights) for n, weights in held if n and weights.lineage]
        total = sum(n for n, _ in trained)
        return [(n / total, weights) for n, weights in trained]

    def mean(self, models: Iterable[tuple[Iterable[int], Weights]], action: str) -> Weights:
        """The mean of models, weighted by data as FedAvg is; the initial weights where there are none."""
        terms = self.shares(models)
        return weighted_sum(terms, self.ledger, action) if terms else self.initial

    def restart(self, lane: Lane, recipe: Recipe | None = None) -> None:
        """Begin a lane anew, from the initial weights, as if it had never run."""
        lane.sent.clear()
        lane.recipe = recipe or lane.recipe
        self.rewind(lane, 0, dict.fromkeys(lane.nodes, self.initial))

    def rewind(self, lane: Lane, version: int, weights: Mapping[str, Weights]) -> None:
        """Go back to a version that this lane has had: the nodes' models as they were then."""
        if version < lane.version or lane.flights:
            self._restarted.append(lane.name)
        self.cancel(lane, lane.flights)
        lane.selector, lane.meeting = self.new_selector(), False
        lane.version = version
        for name, old in weights.items():
            lane.nodes[name].weights = old

    def cancel(self, lane: Lane, flights: Iterable[Flight]) -> None:
        """Call clients back; what they would have sent is never trained."""
        gone = set(flights)
        lane.flights = [flight for flight in lane.flights if flight not in gone]
        self.costs = self.costs.plus(cancelled=len(gone))

    def count(self, jobs: Sequence[Job], set_aside: int) -> None:
        """Put what these jobs cost on the bill, and what is stored by now."""
        read = [job.samples_read(self.data) for job in jobs]
        held = [sum(len(self.data[client]) for client in job.clients) / len(job.clients) for job in jobs]
        epochs = sum(n / own for n, own in zip(read, held, strict=True))
        stored = (
            self.archive.nbytes
            + self.memo.nbytes
            + (self._keepsakes.nbytes if self._keepsakes else 0)
            + sum(node.weights.nbytes for lane in self.lanes.values() for node in lane.nodes.values())
        )
        size = sum(job.start.nbytes for job in jobs)
        self.costs = replace(
            self.costs.plus(
                jobs=len(jobs),
                client_epochs=epochs,
                samples_read=sum(read),
                bytes_down=size,
                bytes_up=size,
                set_aside=set_aside,
            ),
            bytes_stored=stored,
        )
