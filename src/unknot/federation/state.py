"""A federation's state: its books, its lanes, what is kept, what it costs. A method sees it from its desk."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from unknot.core.archive import MIB, Archive, Keepsakes, Memo
from unknot.core.data import FederatedData
from unknot.core.errors import ConfigError, UnknotError
from unknot.core.jobs import Job, Update
from unknot.core.keys import Key
from unknot.core.lineage import NOBODY, Ledger, LedgerView, Lineage, Unit
from unknot.core.own import Watch, copied, handed, is_own
from unknot.core.selection import AtRandom
from unknot.core.training import Recipe
from unknot.core.weights import Weights, weighted_sum
from unknot.federation.aggregators import Additive, check_aggregator, new_aggregator
from unknot.federation.desk import Desk
from unknot.federation.distil import check_distillable
from unknot.federation.events import Costs
from unknot.federation.lanes import Changes, Flight, Lane, Node
from unknot.federation.setup import Setup


class State:
    """All of a federation but its engine: `now` is in simulated nanoseconds."""

    desk: Desk
    """Where its method works."""

    def __init__(
        self,
        initial: Weights,
        data: FederatedData,
        setup: Setup,
    ) -> None:
        self.data = data.fork()
        self.ledger = Ledger(self.data.label)
        # Who had left before is forgotten here too: what comes from another run may know them.
        for client in sorted(self.data.erased):
            self.ledger.forbid(client)
        for client, samples in sorted(self.data.reduced.items()):
            self.ledger.forbid(client, samples)
        base = replace(initial.layout.base, lineage=self.data.known(initial.layout.base.lineage))
        layout = replace(initial.layout, base=base)
        self.initial = replace(initial, layout=layout, lineage=self._found(initial.lineage))
        self.ledger.check(self.initial, "start from these weights")
        self.recipe = setup.recipe
        self.pace = setup.pace
        self.aggregate = setup.aggregate
        check_aggregator(self.aggregate, self.initial)
        self.clock = setup.clock
        self.select = setup.select
        self.select_knows = self.select.lineage.inherited()
        self.ledger.check(_Known(self.select_knows), "select clients by what was learned before")
        self.select_when = setup.select_when
        self.seed = setup.seed
        self.key = Key.root(setup.seed)
        self._slowness = self.key.child("slowness")
        self.archive = Archive(self.ledger)
        self.memo = Memo(self.ledger)
        self.lanes: dict[str, Lane] = {}
        self.members: set[int] = set()
        self.forgotten = set(self.data.erased)
        self.costs = Costs()
        self.now = 0
        self.restarted: list[str] = []
        self.whole = True
        """Whether what fails now leaves what was before; see `midst`."""
        self._kept = Keepsakes(self.ledger)
        self._keeps = False
        self._changes = Changes()

    @property
    def population(self) -> int:
        """How many clients there are in all: with those who left, and those who are still to join."""
        return len(self.data) + len(self.data.erased)

    def size(self, client: int) -> int:
        """How many samples a client holds."""
        return len(self.data[client])

    def ids(self, client: int) -> NDArray[np.int64]:
        """The ids of the samples that a client holds, ascending: a copy."""
        return self.data[client].ids.copy()

    def check_untouched(self, by: Watch) -> None:
        """Raise where a part wrote into the initial weights, or into the model of a node."""
        nodes = [node for lane in self.lanes.values() for node in lane.nodes.values()]
        models = [(f"the model of node {node.name!r}", node.weights) for node in nodes]
        by.check([("the initial weights", self.initial), *models])

    @contextmanager
    def midst(self) -> Iterator[None]:
        """Within: whoever fails leaves what is neither before nor after, and cannot be gone on from."""
        before, self.whole = self.whole, False
        yield
        self.whole = before

    def _found(self, lineage: Lineage) -> Lineage:
        """Whose data shaped a start from another run, as it is to be taken here.

        Whom that run let pass counts again, so that it can be erased; who has left before stays let pass.
        """
        known = self.data.known(lineage)
        again = Lineage(map(Unit, known.waived))
        return known | Lineage(unit for unit in again if unit not in self.ledger.forbidden)

    # What a method keeps -------------------------------------------------------------------------

    @property
    def keepsakes(self) -> Keepsakes:
        """For approximate methods alone: what is kept although erased data had a part in it."""
        if not self._keeps:
            raise UnknotError("an exact method keeps nothing that erased data had a part in")
        return self._kept

    @property
    def keepsakes_if_any(self) -> Keepsakes | None:
        """The same, where the method is approximate."""
        return self._kept if self._keeps else None

    def allow_keepsakes(self) -> None:
        self._keeps = True

    @property
    def waived(self) -> Lineage:
        """The erased units that keepsakes, or the start, had been shaped by, and that were let pass."""
        return self._kept.waived | Lineage(map(Unit, self.initial.lineage.waived))

    @property
    def kept_of(self) -> Lineage:
        """The same, with the erased units that what is kept was shaped by and that is yet to be read."""
        return self.waived | self._kept.tainted

    @contextmanager
    def keeping(self) -> Iterator[None]:
        """Within: should anything fail, the keepsakes are what they were."""
        with self._kept.attempt():
            yield

    @contextmanager
    def unrecorded(self) -> Iterator[None]:
        """Within: what is read, drawn or trained for a look leaves no record, and is on nobody's bill."""
        costs, now = self.costs, self.now
        try:
            with self.ledger.unrecorded(), self.memo.unrecorded(), self._kept.unrecorded():
                yield
        finally:
            self.costs, self.now = costs, now

    def limit_history(self, memory: float) -> None:
        """Let the archive and the memo take so many MiB each, and no more."""
        if not memory >= 0:
            raise ConfigError(f"a history's memory is MiB, not {memory}")
        self.archive.limit = self.memo.limit = int(memory * MIB)

    def remember(self, update: Update) -> None:
        """Keep the answer to a job that names its batches, by the bits that it starts from."""
        self.memo.put(update)

    def remembered(self, job: Job) -> Update | None:
        """The update that training this job would give, if it is known."""
        return self.memo.get(job, self.data)

    def purge(self) -> int:
        """Drop what is kept and carries a forbidden unit, before the method repairs the rest."""
        return len(self.archive.purge()) + self._kept.purge()

    def clear(self) -> None:
        """Keep nothing: no lane, no model, no history."""
        self.lanes.clear()
        for name in self.archive:
            del self.archive[name]
        self.memo.clear()
        self._kept.clear()

    # Lanes and nodes -----------------------------------------------------------------------------

    def add_lane(self, name: str, members: Iterable[int]) -> Lane:
        """A part of the federation with a pace of its own."""
        lane = Lane(name, set(members), self.recipe, self.pace, AtRandom(), at=self.now)
        if self.select_when == "always":
            self.appoint(lane)
        self.lanes[name] = lane
        return lane

    def drop_lane(self, name: str) -> None:
        """Give a lane up, with its nodes and who is out for it."""
        lane = self.lanes[name]
        self.cancel(lane, lane.flights)
        del self.lanes[name]

    def appoint(self, lane: Lane) -> None:
        """Give a lane a selector as the federation was given it."""
        try:
            mine = copy.deepcopy(self.select)
        except Exception as error:  # of what it holds, such as a lock
            raise ConfigError(
                f"every lane has a selector of its own, and {type(self.select).__name__} cannot be copied: "
                f"{error}"
            ) from error
        lane.appoint(mine, self.select_knows)

    def add_node(self, lane: Lane, name: str, members: Iterable[int], weights: Weights | None = None) -> Node:
        """A new model in a lane; it starts from the initial weights unless others are given."""
        start = self.initial if weights is None else weights
        node = Node(name, members, start, new_aggregator(self.aggregate), self.ledger, self._changes)
        lane.nodes[name] = node
        return node

    def keep_node(self, lane: Lane, node: Node, name: str, members: Iterable[int]) -> Node:
        """A model that goes on as it is, under this name and with these members."""
        self.ledger.check(node.weights, f"keep the model of node {name!r}")
        node.name, node.members = name, set(members)
        lane.nodes[name] = node
        return node

    def copy_node(self, lane: Lane, node: Node, name: str, members: Iterable[int]) -> Node:
        """A model that begins as another one is now, and goes its own way."""
        twin = self.add_node(lane, name, members, node.weights)
        twin.aggregate = copy.deepcopy(node.aggregate)
        return twin

    def begin_again(self, lane: Lane, name: str, members: Iterable[int], weights: Weights) -> Node:
        """A node in place of one that was spoilt: recorded with the request that is being served."""
        self.restarted.append(name)
        return self.add_node(lane, name, members, weights)

    def drop_node(self, lane: Lane, name: str) -> None:
        del lane.nodes[name]

    def restart(self, lane: Lane, recipe: Recipe | None = None) -> None:
        """Begin a lane anew, from the initial weights, as if it had never run."""
        lane.sent.clear()
        lane.recipe = recipe or lane.recipe
        self.rewind(lane, 0, dict.fromkeys(lane.nodes, self.initial))

    def rewind(self, lane: Lane, version: int, weights: Mapping[str, Weights]) -> None:
        """Go back to a version that this lane has had: the nodes' models as they were then."""
        if version < lane.version or lane.flights:
            self.restarted.append(lane.name)
        self.cancel(lane, lane.flights)
        lane.at = max(lane.at, self.now)
        self.appoint(lane)
        lane.meeting = False
        lane.version = version
        for name, old in weights.items():
            lane.nodes[name].begin(old, new_aggregator(self.aggregate))

    def cancel(self, lane: Lane, flights: Iterable[Flight]) -> None:
        """Call clients back; what they would have sent is never trained."""
        gone = set(flights)
        if gone:  # there is room from now on
            lane.at = max(lane.at, self.now)
        lane.flights = [flight for flight in lane.flights if flight not in gone]
        self.costs = self.costs.plus(cancelled=len(gone))

    # Jobs and models -----------------------------------------------------------------------------

    def job(self, lane: Lane, node: Node, client: int) -> Job:
        """Train this node's model on this client, by the lane's recipe."""
        key = self.key.child("train", node.name, lane.version, client)
        return Job(self.ledger.unit(client), node.weights, key, lane.recipe, node.name, lane.version)

    def check_job(self, job: Job, action: str) -> None:
        """Raise for what may not be trained: erased data, who takes no part, units that nobody gave out.

        `action` and the client complete "refused to ...".
        """
        self.check_clean(job, action)
        for unit in (job.unit, *job.others) if job.others else (job.unit,):
            if unit.client not in self.members:
                who = self.data.label(job.client)
                raise UnknotError(
                    f"refused to {action} {who}: {self.data.label(unit.client)} does not take part"
                )
            self.ledger.check_given(unit, job.batches)

    def check_clean(self, job: Job, action: str) -> None:
        """Raise for a job that carries erased data; words are found for those alone."""
        if self.ledger.forbidden and self.ledger.taint(job):
            self.ledger.check(job, f"{action} {self.data.label(job.client)}")

    def combine(self, lane: Lane, node: Node, updates: Sequence[Update]) -> None:
        """Put updates, in the order of client ids, into a node's model, as the federation aggregates."""
        for update in updates:
            self.ledger.check(update, "aggregate an update")
        old = node.weights
        given = handed(node.aggregate, old, updates)
        new = node.aggregate(*given, lane.version, LedgerView(self.ledger))
        if new.layout != old.layout or new.vector.dtype != old.vector.dtype:
            raise UnknotError(f"the aggregator {type(node.aggregate).__name__} gave a model of another kind")
        node.weights = copied(new) if is_own(node.aggregate) else new
        node.hold(old, updates)

    def check_additive(self, who: str) -> None:
        """Raise `ConfigError` unless it can be said what each update adds to a model."""
        if not isinstance(self.aggregate, Additive):
            given = getattr(self.aggregate, "__name__", type(self.aggregate).__name__)
            raise ConfigError(
                f"{who} takes out what a client added, and {given} cannot say what that was: "
                "aggregate by FedAvg, FedBuff or NormClipping, or by one of your own with a method "
                "terms(current, updates, version)"
            )

    def terms(self, lane: Lane, node: Node, updates: Sequence[Update]) -> list[tuple[float, Weights]]:
        """What these updates are about to add to a node's model: how much each counts, and the change."""
        assert isinstance(node.aggregate, Additive)
        given = handed(node.aggregate, node.weights, updates)
        return list(node.aggregate.terms(*given, lane.version))

    @contextmanager
    def absorbing(self, updates: Sequence[Update]) -> Iterator[None]:
        """Within: a node whose model is replaced carries, in the end, what it did and what went into it."""
        by_node: dict[str, list[Update]] = {}
        for update in updates:
            by_node.setdefault(update.job.node, []).append(update)
        with self._changes.noting() as changed:
            yield
        for node, old in changed.items():
            node.hold(old, by_node.get(node.name, updates))

    def trained(self, weights: Weights) -> bool:
        """Whether anybody in this federation has had a part in them."""
        return weights is not self.initial

    def shares(self, models: Iterable[tuple[Iterable[int], Weights]]) -> list[tuple[float, Weights]]:
        """Models with their members, as each one's share of the data behind all of them.

        What nobody has trained yet, or nobody has data for, does not count. How much a member holds has a
        part in the shares, whether it was ever asked or not: they carry everybody.
        """
        given = [(set(members), weights) for members, weights in models]
        everybody = self.ledger.units(set().union(*(members for members, _ in given)))
        held = [(sum(len(self.data[client]) for client in members), weights) for members, weights in given]
        trained = [(n, weights) for n, weights in held if n and self.trained(weights)]
        total = sum(n for n, _ in trained)
        return [(n / total, weights.carrying(everybody)) for n, weights in trained]

    def mean(self, models: Iterable[tuple[Iterable[int], Weights]], action: str) -> Weights:
        """The mean of models, weighted by data as FedAvg is; the initial weights where there are none."""
        terms = self.shares(models)
        return weighted_sum(terms, self.ledger, action) if terms else self.initial

    # What takes time -----------------------------------------------------------------------------

    def duration(self, client: int, samples_read: int) -> int:
        """How long a client takes to read so many samples, in simulated nanoseconds."""
        return self.clock.duration(client, samples_read, self._slowness)

    @property
    def validated(self) -> bool:
        """Whether there is validation data."""
        return bool(self.data.validation)

    @property
    def validators(self) -> Lineage:
        """Whose data a choice by validation goes by.

        Where held-out rows have owners, that is everybody: nobody is told from the others by having none.
        """
        if self.data.validation_owner is None:
            return NOBODY
        return self.ledger.units(self.data.clients)

    def check_distillable(self) -> None:
        """Raise `ConfigError` unless there are public samples to distil on."""
        check_distillable(self.data)

    # What it costs -------------------------------------------------------------------------------

    def count(self, jobs: Sequence[Job], set_aside: int) -> None:
        """Put what these jobs cost on the bill, and what is stored by now."""
        read = [job.samples_read(self.data) for job in jobs]
        epochs = sum(n / self._held(job) for n, job in zip(read, jobs, strict=True))
        stored = (
            self.archive.nbytes
            + self.memo.nbytes
            + self._kept.nbytes
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

    def _held(self, job: Job) -> float:
        """How many samples those that it reads hold, on average."""
        if not job.others:
            return len(self.data[job.unit.client])
        return sum(len(self.data[client]) for client in job.clients) / len(job.clients)


@dataclass(frozen=True)
class _Known:
    """What a selector was given, for the ledger to look at."""

    lineage: Lineage
