"""Who is trained together: influence trees, their scores, their changes."""

from unknot.topology.change import keep, rebuild
from unknot.topology.kinds import KINDS, best_within, build
from unknot.topology.reuse import rebuild_proven
from unknot.topology.table import Table, read_table
from unknot.topology.tree import Tree, aggregated, parts, score

__all__ = [
    "KINDS",
    "Table",
    "Tree",
    "aggregated",
    "best_within",
    "build",
    "keep",
    "parts",
    "read_table",
    "rebuild",
    "rebuild_proven",
    "score",
]
