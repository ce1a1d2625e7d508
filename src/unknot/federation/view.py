"""What a person may look at of a federation, by the names that its state has."""

from __future__ import annotations

from unknot.core.archive import Archive, Keepsakes, Memo
from unknot.core.data import FederatedData
from unknot.core.keys import Key
from unknot.core.lineage import Clients, Ledger
from unknot.core.training import Recipe
from unknot.core.weights import Weights
from unknot.federation.clock import Clock
from unknot.federation.desk import Desk
from unknot.federation.events import Costs
from unknot.federation.lanes import Lane
from unknot.federation.state import State


class View:
    """The state's things by the same names."""

    state: State

    @property
    def desk(self) -> Desk:
        """Where its method works."""
        return self.state.desk

    @property
    def initial(self) -> Weights:
        return self.state.initial

    @property
    def data(self) -> FederatedData:
        return self.state.data

    @property
    def ledger(self) -> Ledger:
        return self.state.ledger

    @property
    def archive(self) -> Archive:
        return self.state.archive

    @property
    def memo(self) -> Memo:
        return self.state.memo

    @property
    def keepsakes(self) -> Keepsakes:
        return self.state.keepsakes

    @property
    def lanes(self) -> dict[str, Lane]:
        return self.state.lanes

    @property
    def members(self) -> Clients:
        """The clients that take part now."""
        return Clients(self.state.members).called(self.data.names)

    @property
    def costs(self) -> Costs:
        return self.state.costs

    @property
    def clock(self) -> Clock:
        return self.state.clock

    @property
    def key(self) -> Key:
        return self.state.key

    @property
    def recipe(self) -> Recipe:
        return self.state.recipe

    @property
    def seed(self) -> int:
        return self.state.seed

    @property
    def now(self) -> int:
        """Simulated nanoseconds."""
        return self.state.now
