"""The desk at which a method works: what is on it is what a method may touch of a federation.

There is no engine on it, nobody's samples, and no book in which a method could write: whatever is trained is
checked, billed and takes its time; what is erased is not the method's to say.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from unknot.core.archive import Archive, Keepsakes
from unknot.core.jobs import Job, Update
from unknot.core.keys import Key
from unknot.core.lineage import Clients, LedgerView, Lineage
from unknot.core.training import Recipe
from unknot.core.weights import Weights
from unknot.federation.distil import check_distillable
from unknot.federation.lanes import Flight, Lane, Node
from unknot.federation.pace import Pace

if TYPE_CHECKING:
    from unknot.federation.state import State


class Desk:
    """What a method sees of a federation, and what it may do there. Lanes and nodes are its own."""

    __slots__ = ("__state",)

    def __init__(self, state: State) -> None:
        self.__state = state

    # What there is ---------------------------------------------------------------------------------

    @property
    def initial(self) -> Weights:
        """The weights that everything begins from."""
        return self.__state.initial

    @property
    def members(self) -> Clients:
        """The clients that take part now."""
        return Clients(self.__state.members).called(self.__state.data.names)

    @property
    def forgotten(self) -> frozenset[int]:
        """The clients that were erased whole."""
        return frozenset(self.__state.forgotten)

    @property
    def population(self) -> int:
        """How many clients there are in all: with those who left, and those who are still to join."""
        return len(self.__state.data) + len(self.__state.data.erased)

    @property
    def lanes(self) -> Mapping[str, Lane]:
        """By name; see `add_lane` and `drop_lane`."""
        return MappingProxyType(self.__state.lanes)

    @property
    def recipe(self) -> Recipe:
        """How clients train, as the federation was set up."""
        return self.__state.recipe

    @property
    def pace(self) -> Pace:
        """How long the server waits, as the federation was set up."""
        return self.__state.pace

    @property
    def key(self) -> Key:
        """For draws: take a child with names of your own."""
        return self.__state.key

    @property
    def now(self) -> int:
        """Simulated nanoseconds."""
        return self.__state.now

    @property
    def ledger(self) -> LedgerView:
        """Whose data is whose, and which of it is forbidden."""
        return LedgerView(self.__state.ledger)

    @property
    def validated(self) -> bool:
        """Whether there is validation data."""
        return bool(self.__state.data.validation)

    @property
    def validators(self) -> Lineage:
        """Whose data a choice by validation goes by: everybody's, where held-out rows have owners."""
        return self.__state.validators

    def size(self, client: int) -> int:
        """How many samples a client holds."""
        return len(self.__state.data[client])

    def ids(self, client: int) -> NDArray[np.int64]:
        """The ids of the samples that a client holds, ascending: a copy."""
        return self.__state.data[client].ids.copy()

    # What a method keeps -----------------------------------------------------------------------------

    @property
    def archive(self) -> Archive:
        """Weights by name; purged by every erasure."""
        return self.__state.archive

    @property
    def keepsakes(self) -> Keepsakes:
        """For approximate methods alone: what is kept although erased data had a part in it."""
        return self.__state.keepsakes

    def limit_history(self, memory: float) -> None:
        """Let the archive, and the answers to jobs, take so many MiB each, and no more."""
        self.__state.limit_history(memory)

    def remember(self, update: Update) -> None:
        """Keep the answer to a job that names its batches, by the bits that it starts from."""
        self.__state.memo.put(update)

    def remembered(self, job: Job) -> Update | None:
        """The update that training this job would give, if it is known."""
        return self.__state.memo.get(job, self.__state.data)

    # Lanes and nodes ---------------------------------------------------------------------------------

    def add_lane(self, name: str, members: Iterable[int]) -> Lane:
        """A part of the federation with a pace of its own."""
        return self.__state.add_lane(name, members)

    def drop_lane(self, name: str) -> None:
        """Give a lane up, with its nodes and who is out for it."""
        lane = self.__state.lanes[name]
        self.__state.cancel(lane, lane.flights)
        del self.__state.lanes[name]

    def add_node(self, lane: Lane, name: str, members: Iterable[int], weights: Weights | None = None) -> Node:
        """A new model in a lane; it starts from the initial weights unless others are given."""
        return self.__state.add_node(lane, name, members, weights)

    def keep_node(self, lane: Lane, node: Node, name: str, members: Iterable[int]) -> Node:
        """A model that goes on as it is, under this name and with these members."""
        return self.__state.keep_node(lane, node, name, members)

    def copy_node(self, lane: Lane, node: Node, name: str, members: Iterable[int]) -> Node:
        """A model that begins as another one is now, and goes its own way."""
        return self.__state.copy_node(lane, node, name, members)

    def begin_again(self, lane: Lane, name: str, members: Iterable[int], weights: Weights) -> Node:
        """A node in place of one that was spoilt: recorded with the request that is being served."""
        return self.__state.begin_again(lane, name, members, weights)

    def drop_node(self, lane: Lane, name: str) -> None:
        self.__state.drop_node(lane, name)

    def restart(self, lane: Lane, recipe: Recipe | None = None) -> None:
        """Begin a lane anew, from the initial weights, as if it had never run."""
        self.__state.restart(lane, recipe)

    def rewind(self, lane: Lane, version: int, weights: Mapping[str, Weights]) -> None:
        """Go back to a version that this lane has had: the nodes' models as they were then."""
        self.__state.rewind(lane, version, weights)

    def cancel(self, lane: Lane, flights: Iterable[Flight]) -> None:
        """Call clients back; what they would have sent is never trained."""
        self.__state.cancel(lane, flights)

    # Jobs and models ---------------------------------------------------------------------------------

    def job(self, lane: Lane, node: Node, client: int) -> Job:
        """Train this node's model on this client, by the lane's recipe."""
        return self.__state.job(lane, node, client)

    def combine(self, lane: Lane, node: Node, updates: Sequence[Update]) -> None:
        """Put updates, in the order of client ids, into a node's model, as the federation aggregates."""
        self.__state.combine(lane, node, updates)

    def check_additive(self, who: str) -> None:
        """Raise `ConfigError` unless the federation's aggregator can say what each update adds."""
        self.__state.check_additive(who)

    def terms(self, lane: Lane, node: Node, updates: Sequence[Update]) -> list[tuple[float, Weights]]:
        """What updates are about to add to a node's model: how much each counts, and the change."""
        return self.__state.terms(lane, node, updates)

    def trained(self, weights: Weights) -> bool:
        """Whether anybody in this federation has had a part in them."""
        return self.__state.trained(weights)

    def shares(self, models: Iterable[tuple[Iterable[int], Weights]]) -> list[tuple[float, Weights]]:
        """Models with their members, as each one's share of the data behind all of them."""
        return self.__state.shares(models)

    def mean(self, models: Iterable[tuple[Iterable[int], Weights]], action: str) -> Weights:
        """The mean of models, weighted by data as FedAvg is; the initial weights where there are none."""
        return self.__state.mean(models, action)

    # What takes time ---------------------------------------------------------------------------------

    def duration(self, client: int, samples_read: int) -> int:
        """How long a client takes to read so many samples, in simulated nanoseconds."""
        return self.__state.duration(client, samples_read)

    def train_apart(self, jobs: Sequence[Job]) -> list[Update]:
        """Train jobs that belong to no lane, at once, and wait for all of them.

        For profiling, and for a leaver's last visit.
        """
        return self.__state.train_apart(jobs)

    def train_alone(self, lane: Lane, rounds: int) -> None:
        """Train one lane for some rounds while the others stand still: for what comes after a run."""
        self.__state.train_alone(lane, rounds)

    def validate(self, model: Weights) -> float:
        """How a model does on the validation data, more is better: the main metric; 0 where none is left."""
        return self.__state.validate([model])[0]

    def best(self, models: Sequence[Weights]) -> Weights:
        """The model that does best on the validation data; the first, where two do as well."""
        merits = self.__state.validate(models)
        return models[merits.index(max(merits))]

    def check_distillable(self) -> None:
        """Raise `ConfigError` unless there are public samples to distil on."""
        check_distillable(self.__state.data)

    def distill(self, student: Weights, teacher: Weights, recipe: Recipe, key: Key) -> Weights:
        """Train a model on what another one says of the public samples: the server's own work.

        `recipe.loss` are `SoftTargets`. The result carries both lineages; should it be no numbers, it is
        the student as it was.
        """
        return self.__state.distill(student, teacher, recipe, key)
