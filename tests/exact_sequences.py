"""Sequences of leaves, sample erasures and joins, drawn for property-based tests of exact methods."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from hypothesis import strategies as st

from support import small_data
from unknot.audit import Interference, interference
from unknot.core.data import FederatedData
from unknot.core.ensemble import Model
from unknot.core.requests import Erase, Join, Request, Target, erase, join
from unknot.federation import Federation

SIZES = (5, 8, 3, 6, 7, 4, 9, 2)
DATA = small_data(SIZES)
NEWCOMERS = (6, 7)


@dataclass(frozen=True)
class Sequence:
    """Requests at rounds, and how long to train: always some rounds after the last request."""

    requests: tuple[Request, ...]
    rounds: int

    @property
    def erased(self) -> list[Target]:
        """What is erased in all; a client that leaves after some of its samples is erased whole."""
        targets = [t for r in self.requests if isinstance(r, Erase) for t in r.targets]
        whole = {t.client for t in targets if t.samples is None}
        samples: dict[int, list[int]] = {}
        for target in targets:
            if target.client not in whole:
                samples.setdefault(target.client, []).extend(target.samples or ())
        return [Target(c) for c in sorted(whole)] + [Target(c, tuple(ids)) for c, ids in samples.items()]

    @property
    def altered(self) -> list[Target]:
        """The same, for variants: who asks for samples to be erased must hold them in every variant."""
        targets = [t for r in self.requests if isinstance(r, Erase) for t in r.targets]
        named = {t.client for t in targets if t.samples is not None}
        everything = {t.client: tuple(range(SIZES[t.client])) for t in self.erased}
        return [
            Target(t.client, everything[t.client]) if t.samples is None and t.client in named else t
            for t in self.erased
        ]

    @property
    def leavers(self) -> set[int]:
        return {target.client for target in self.erased if target.samples is None}

    @property
    def joins(self) -> list[Join]:
        return [request for request in self.requests if isinstance(request, Join)]


@st.composite
def sequences(draw, joins: bool = True, samples: bool = True, most: int = 4) -> Sequence:
    """Any order of events that a federation of clients 0 to 7 can serve; 6 and 7 may come later."""
    present, waiting = set(range(6)), list(NEWCOMERS)
    held = {client: set(range(size)) for client, size in enumerate(SIZES)}
    kinds = ["leave", "leave", "batch"] + ["samples"] * samples + ["join"] * joins
    requests: list[Request] = []
    at = 0
    for _ in range(draw(st.integers(1, most))):
        at += draw(st.integers(0, 4))
        kind = draw(st.sampled_from(kinds))
        if kind == "join" and waiting:
            requests.append(join(waiting[0], round=at))
            present.add(waiting.pop(0))
        elif kind == "samples":
            client = draw(st.sampled_from(sorted(present)))
            ids = sorted(draw(st.sets(st.sampled_from(sorted(held[client])), min_size=1, max_size=2)))
            if len(ids) < len(held[client]):
                held[client] -= set(ids)
                requests.append(erase({client: ids}, round=at))
        else:
            number = 1 if kind == "leave" else draw(st.integers(1, 3))
            gone = sorted(present)[:: draw(st.integers(1, 3))][:number]
            if len(gone) < len(present):
                present -= set(gone)
                requests.append(erase(gone, round=at))
    return Sequence(tuple(requests), at + draw(st.integers(1, 4)))


def serve_all(fed: Federation, sequence: Sequence) -> Federation:
    """Run the sequence, and on until every lane that goes back has caught up with its rounds."""
    fed.run(sequence.rounds, requests=sequence.requests)
    return fed


def catch_up(fed: Federation, version: int) -> Federation:
    """Train until the one lane is at this version again: methods that go back do so by different ways."""
    lane = fed.lanes["global"]
    if lane.version < version:
        fed.run(version - lane.version)
    return fed


def interference_of(
    open: Callable[[FederatedData], Federation], sequence: Sequence, until: int | None = None
) -> Interference:
    """Do runs that differ in the erased data alone serve the same bits in the end?"""

    def served(data: FederatedData) -> Model:
        fed = serve_all(open(data), sequence)
        return (fed if until is None else catch_up(fed, until)).model

    return interference(served, DATA, sequence.altered)


def without_leavers(sequence: Sequence) -> FederatedData:
    """The data of a federation that never had what the sequence erases."""
    rest = DATA.fork()
    for target in sequence.erased:
        rest.erase(target.client, target.samples)
    return rest
