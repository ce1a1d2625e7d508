"""How a data set is dealt out to clients; each kind says its rule in its docstring."""

from unknot.data.partition.dirichlet import Dirichlet
from unknot.data.partition.dominance import DominantClass, MajorityClass
from unknot.data.partition.federate import federate
from unknot.data.partition.iid import Iid
from unknot.data.partition.kinds import PARTITIONS, make_partition
from unknot.data.partition.labels import Labels
from unknot.data.partition.owners import ByOwner
from unknot.data.partition.pool import Deal, Partition, Pool

__all__ = [
    "PARTITIONS",
    "ByOwner",
    "Deal",
    "Dirichlet",
    "DominantClass",
    "Iid",
    "Labels",
    "MajorityClass",
    "Partition",
    "Pool",
    "federate",
    "make_partition",
]
