"""Partitions by the names that a configuration uses."""

from __future__ import annotations

from collections.abc import Mapping

from unknot.core.errors import ConfigError
from unknot.core.registry import partitions
from unknot.data.partition.dirichlet import Dirichlet
from unknot.data.partition.dominance import DominantClass, MajorityClass
from unknot.data.partition.iid import Iid
from unknot.data.partition.labels import Labels
from unknot.data.partition.owners import ByOwner
from unknot.data.partition.pool import Partition


def _check(said: str, thing: object) -> None:
    if isinstance(thing, type | Partition) and not isinstance(getattr(thing, "kind", None), str):
        raise ConfigError(f"{said} does not say its kind: a word that its draws are keyed by")


PARTITIONS: Mapping[str, type[Partition]] = partitions.open(
    {kind.kind: kind for kind in (Iid, Dirichlet, DominantClass, MajorityClass, Labels, ByOwner)},
    Partition,
    check=_check,
)


def make_partition(kind: str, **options: object) -> Partition:
    """``make_partition("dirichlet", clients=100, alpha=5)``, for a configuration to name."""
    made: Partition = partitions.make(kind, options)
    return made
