"""Data sets by name, partitions by rule.

``federate(load("digits"), Dirichlet(clients=20, alpha=0.5), key=0)`` gives a federation's data, and so does
``clients({"Graz": (X, y), "Linz": (X2, y2)})`` of arrays of your own.
"""

from unknot.data.client_files import folder
from unknot.data.dataset import Dataset
from unknot.data.own import clients
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
from unknot.data.registry import Check, Entry, catalogue, load, verify

__all__ = [
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
    "verify",
]
