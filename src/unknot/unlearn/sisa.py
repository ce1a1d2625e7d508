"""SISA: one model a client, never averaged; their predictions are.

L. Bourtoule et al.: Machine Unlearning. IEEE S&P 2021, as paper E uses it: a client is a shard.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from unknot.core.ensemble import VOTES, Ensemble, Model
from unknot.core.errors import ConfigError
from unknot.core.requests import Erase
from unknot.federation import Federation, Guarantee, Lane, Method


@dataclass(frozen=True)
class SISA(Method):
    """A model a client, predictions aggregated; a leaver's model is dropped and nothing is retrained.

    `vote`: "majority" (each model names a class, as the paper has it) or "mean" (of probabilities).
    """

    vote: str = "majority"

    name = "sisa"
    guarantee = Guarantee.EXACT

    def __post_init__(self) -> None:
        if self.vote not in VOTES:
            raise ConfigError(f"SISA votes by {' or '.join(map(repr, VOTES))}, not {self.vote!r}")

    @property
    def keeps(self) -> bool:
        return True

    def open(self, fed: Federation) -> None:
        lane = fed.add_lane("shards", fed.members)
        self._add(fed, lane, sorted(fed.members))

    def forget(self, fed: Federation, request: Erase, touched: Sequence[Lane]) -> None:
        lane = fed.lanes["shards"]
        for target in request.targets:
            fed.drop_node(lane, str(target.client))
            if target.samples is not None:
                fed.begin_again(lane, str(target.client), [target.client], fed.initial)

    def admit(self, fed: Federation, clients: Sequence[int]) -> None:
        lane = fed.lanes["shards"]
        lane.members.update(clients)
        self._add(fed, lane, clients)

    def serve(self, fed: Federation) -> Model:
        nodes = fed.lanes["shards"].nodes
        trained = [nodes[str(client)].weights for client in sorted(map(int, nodes))]
        parts = tuple((1.0, weights) for weights in trained if weights.lineage)
        return Ensemble(parts, self.vote) if parts else fed.initial

    @staticmethod
    def _add(fed: Federation, lane: Lane, clients: Sequence[int]) -> None:
        for client in clients:
            fed.add_node(lane, str(client), [client])
