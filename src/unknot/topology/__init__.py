"""Who is trained together: clusters of clients, and influence trees with their scores and changes."""

from unknot.topology.assignment import Assignment, Bounds, assign
from unknot.topology.baselines import random_clusters, similar_clusters
from unknot.topology.change import keep, rebuild
from unknot.topology.kinds import KINDS, best_within, build
from unknot.topology.ratings import Anchors, anchors, ratings
from unknot.topology.reuse import rebuild_proven
from unknot.topology.shares import populations_by_size, share_clusters
from unknot.topology.table import Profiles, Table, read_profiles, read_table
from unknot.topology.tree import Tree, aggregated, parts, score

__all__ = [
    "KINDS",
    "Anchors",
    "Assignment",
    "Bounds",
    "Profiles",
    "Table",
    "Tree",
    "aggregated",
    "anchors",
    "assign",
    "best_within",
    "build",
    "keep",
    "parts",
    "populations_by_size",
    "random_clusters",
    "ratings",
    "read_profiles",
    "read_table",
    "rebuild",
    "rebuild_proven",
    "score",
    "share_clusters",
    "similar_clusters",
]
