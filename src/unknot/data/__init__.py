"""Data sets by name, partitions by rule.

``federate(load("digits"), Dirichlet(clients=20, alpha=0.5), key=0)`` gives a federation's data.
"""

from unknot.data.dataset import Dataset
from unknot.data.partition import (
    PARTITIONS,
    ByOwner,
    Dirichlet,
    DominantClass,
    Iid,
    Labels,
    MajorityClass,
    Partition,
    federate,
    make_partition,
)
from unknot.data.registry import Check, Entry, catalogue, load, verify

__all__ = [
    "PARTITIONS",
    "ByOwner",
    "Check",
    "Dataset",
    "Dirichlet",
    "DominantClass",
    "Entry",
    "Iid",
    "Labels",
    "MajorityClass",
    "Partition",
    "catalogue",
    "federate",
    "load",
    "make_partition",
    "verify",
]
