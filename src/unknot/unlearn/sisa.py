"""SISA: one model a client, never averaged; their predictions are.

L. Bourtoule et al.: Machine Unlearning. IEEE S&P 2021, as paper E uses it: a client is a shard.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from unknot.core.ensemble import VOTES, Ensemble, Model
from unknot.core.errors import ConfigError
from unknot.core.requests import Erase
from unknot.federation import Desk, Guarantee, Lane, Method


@dataclass(frozen=True)
class SISA(Method):
    """A model a client, predictions aggregated; a leaver's model is dropped and nothing is retrained."""

    vote: str = "majority"
    """By "majority" (each model names a class, as the paper has it), or by the "mean" of probabilities."""

    name = "sisa"
    guarantee = Guarantee.EXACT

    def __post_init__(self) -> None:
        if self.vote not in VOTES:
            raise ConfigError(f"SISA: vote is {' or '.join(map(repr, VOTES))}, not {self.vote!r}")

    @property
    def keeps(self) -> bool:
        return True

    def open(self, desk: Desk) -> None:
        lane = desk.add_lane("shards", desk.members)
        self._add(desk, lane, sorted(desk.members))

    def forget(self, desk: Desk, request: Erase, touched: Sequence[Lane]) -> None:
        lane = desk.lanes["shards"]
        for target in request.targets:
            if str(target.client) not in lane.nodes:
                continue
            desk.drop_node(lane, str(target.client))
            if target.samples is not None:
                desk.begin_again(lane, str(target.client), [target.client], desk.initial)

    def admit(self, desk: Desk, clients: Sequence[int]) -> None:
        lane = desk.lanes["shards"]
        lane.members.update(clients)
        self._add(desk, lane, clients)

    def serve(self, desk: Desk) -> Model:
        nodes = desk.lanes["shards"].nodes
        trained = [nodes[str(client)].weights for client in sorted(map(int, nodes))]
        parts = tuple((1.0, weights) for weights in trained if desk.trained(weights))
        return Ensemble(parts, self.vote) if parts else desk.initial

    @staticmethod
    def _add(desk: Desk, lane: Lane, clients: Sequence[int]) -> None:
        for client in clients:
            desk.add_node(lane, str(client), [client])
