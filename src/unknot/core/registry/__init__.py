"""Names from anywhere: one registry a kind, for whatever a configuration names.

A name is looked for among ours, then among what a program has added (`add`, or the decorator), then among
the entry points of installed packages; ``"package.module:Thing"`` is imported. What comes from outside passes
the same checks as ours, and its options are read by the same rules: see `options` for what an option is, and
`sections` for whose a key of a section is. Each room opens its own registry with what it brings.
"""

from __future__ import annotations

from typing import Any

from unknot.core.registry.imports import beside
from unknot.core.registry.names import Registry
from unknot.core.registry.options import Option, options_of
from unknot.core.registry.sections import filled, shared, taken

methods: Registry[Any] = Registry("method", "unknot.methods")
models: Registry[Any] = Registry("model", "unknot.models")
datasets: Registry[Any] = Registry("data set", "unknot.datasets")
partitions: Registry[Any] = Registry("partition", "unknot.partitions")
optimizers: Registry[Any] = Registry("optimiser", "unknot.optimizers")
losses: Registry[Any] = Registry("loss", "unknot.losses")
metrics: Registry[Any] = Registry("metric", "unknot.metrics")
schedules: Registry[Any] = Registry("schedule", "unknot.schedules")
selectors: Registry[Any] = Registry("selector", "unknot.selectors")
aggregators: Registry[Any] = Registry("aggregator", "unknot.aggregators")
paces: Registry[Any] = Registry("pace", "unknot.paces")
clocks: Registry[Any] = Registry("slowness", "unknot.clocks")
engines: Registry[Any] = Registry("engine", "unknot.engines")

__all__ = [
    "Option",
    "Registry",
    "aggregators",
    "beside",
    "clocks",
    "datasets",
    "engines",
    "filled",
    "losses",
    "methods",
    "metrics",
    "models",
    "optimizers",
    "options_of",
    "paces",
    "partitions",
    "schedules",
    "selectors",
    "shared",
    "taken",
]
