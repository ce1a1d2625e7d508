"""What a person may look at of a federation's desk without reaching onto it."""

from __future__ import annotations

from unknot.core.archive import Archive, Keepsakes, Memo
from unknot.core.data import FederatedData
from unknot.core.keys import Key
from unknot.core.lineage import Ledger
from unknot.core.recipe import Recipe
from unknot.core.weights import Weights
from unknot.federation.clock import Clock
from unknot.federation.desk import Desk
from unknot.federation.history import Costs
from unknot.federation.lanes import Lane


class View:
    """The desk's things by the same names."""

    desk: Desk

    @property
    def initial(self) -> Weights:
        return self.desk.initial

    @property
    def data(self) -> FederatedData:
        return self.desk.data

    @property
    def ledger(self) -> Ledger:
        return self.desk.ledger

    @property
    def archive(self) -> Archive:
        return self.desk.archive

    @property
    def memo(self) -> Memo:
        return self.desk.memo

    @property
    def keepsakes(self) -> Keepsakes:
        return self.desk.keepsakes

    @property
    def lanes(self) -> dict[str, Lane]:
        return self.desk.lanes

    @property
    def members(self) -> set[int]:
        return self.desk.members

    @property
    def costs(self) -> Costs:
        return self.desk.costs

    @property
    def clock(self) -> Clock:
        return self.desk.clock

    @property
    def key(self) -> Key:
        return self.desk.key

    @property
    def recipe(self) -> Recipe:
        return self.desk.recipe

    @property
    def seed(self) -> int:
        return self.desk.seed

    @property
    def now(self) -> int:
        """Simulated nanoseconds."""
        return self.desk.now
