"""Partitions by the names that a configuration uses."""

from __future__ import annotations

import dataclasses

from unknot.core.errors import ConfigError, nearest
from unknot.data.partition.dirichlet import Dirichlet
from unknot.data.partition.dominance import DominantClass, MajorityClass
from unknot.data.partition.iid import Iid
from unknot.data.partition.labels import Labels
from unknot.data.partition.owners import ByOwner
from unknot.data.partition.pool import Partition

PARTITIONS: dict[str, type[Partition]] = {
    kind.kind: kind for kind in (Iid, Dirichlet, DominantClass, MajorityClass, Labels, ByOwner)
}


def make_partition(kind: str, **options: object) -> Partition:
    """``make_partition("dirichlet", clients=100, alpha=5)``, for a configuration to name."""
    if kind not in PARTITIONS:
        raise ConfigError(f"there is no partition {kind!r}.{nearest(kind, PARTITIONS)}")
    made = PARTITIONS[kind]
    fields = {field.name: field for field in dataclasses.fields(made)}  # type: ignore[arg-type]
    for option in options:
        if option not in fields:
            raise ConfigError(f"partition {kind}: there is no option {option!r}.{nearest(option, fields)}")
    for name, field in fields.items():
        if field.default is dataclasses.MISSING and name not in options:
            raise ConfigError(f"partition {kind}: the option {name!r} is missing")
    return made(**options)
