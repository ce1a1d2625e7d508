"""Data sets by name, partitions by rule.

``federate(load("digits"), Dirichlet(clients=20, alpha=0.5), key=0)`` gives a federation's data, and so does
``clients({"Graz": (X, y), "Linz": (X2, y2)})`` of arrays of your own.
"""

from typing import TYPE_CHECKING

from unknot.core.lazy import names as _names
from unknot.data.dataset import Dataset
from unknot.data.partition import (
    PARTITIONS,
    ByOwner,
    Deal,
    Dirichlet,
    DominantClass,
    Iid,
    Labels,
    MajorityClass,
    Partition,
    Pool,
    federate,
    make_partition,
)

_LATE = (
    "unknot.data.client_files:folder",
    "unknot.data.own:clients",
    "unknot.data.readers.languages:LANGUAGES",
    *(f"unknot.data.registry:{name}" for name in ("Check", "Entry", "catalogue", "load", "verify")),
    "unknot.data.own_texts:texts",
)

if TYPE_CHECKING:
    from unknot.data.client_files import folder
    from unknot.data.own import clients
    from unknot.data.own_texts import texts
    from unknot.data.readers.languages import LANGUAGES
    from unknot.data.registry import Check, Entry, catalogue, load, verify
else:
    __getattr__, __dir__ = _names(__name__, _LATE)

__all__ = [
    "LANGUAGES",
    "PARTITIONS",
    "ByOwner",
    "Check",
    "Dataset",
    "Deal",
    "Dirichlet",
    "DominantClass",
    "Entry",
    "Iid",
    "Labels",
    "MajorityClass",
    "Partition",
    "Pool",
    "catalogue",
    "clients",
    "federate",
    "folder",
    "load",
    "make_partition",
    "texts",
    "verify",
]
