"""Names from anywhere: one registry a kind, for whatever a configuration names.

A name is looked for among ours, then among what a program has added (`add`, or the decorator), then among
the entry points of installed packages; ``"package.module:Thing"`` is imported. What comes from outside passes
the same checks as ours, and its options are read by the same rules: see `options` for what an option is, and
`sections` for whose a key of a section is. Each room opens its own registry with what it brings, and
is imported for that when the registry is first asked.
"""

from __future__ import annotations

from typing import Any

from unknot.core.registry.imports import NotImported, beside, names_code, nothing_imported
from unknot.core.registry.names import Registry
from unknot.core.registry.options import REQUIRED, Option, options_of
from unknot.core.registry.sections import (
    as_written,
    changed,
    filled,
    named_paths,
    registry_of,
    shared,
    taken,
    whole_paths,
)

methods: Registry[Any] = Registry(
    "method", "unknot.methods", home="unknot.unlearn", of="unknot.federation.method:Method"
)
models: Registry[Any] = Registry(
    "model", "unknot.models", home="unknot.models", of="torch.nn.modules.module:Module"
)
datasets: Registry[Any] = Registry("data set", "unknot.datasets", home="unknot.data.sources")
partitions: Registry[Any] = Registry("partition", "unknot.partitions", home="unknot.data.partition")
optimizers: Registry[Any] = Registry("optimiser", "unknot.optimizers", home="unknot.core.training")
losses: Registry[Any] = Registry("loss", "unknot.losses", home="unknot.core.loss")
metrics: Registry[Any] = Registry("metric", "unknot.metrics", home="unknot.core.metrics")
schedules: Registry[Any] = Registry("schedule", "unknot.schedules", home="unknot.core.training")
selectors: Registry[Any] = Registry(
    "selector", "unknot.selectors", home="unknot.select", of="unknot.core.selection:Selector"
)
aggregators: Registry[Any] = Registry("aggregator", "unknot.aggregators", home="unknot.federation")
paces: Registry[Any] = Registry("pace", "unknot.paces", home="unknot.federation")
clocks: Registry[Any] = Registry("slowness", "unknot.clocks", home="unknot.federation")
engines: Registry[Any] = Registry(
    "engine", "unknot.engines", home="unknot.engine", of="unknot.core.jobs:Engine"
)

__all__ = [
    "REQUIRED",
    "NotImported",
    "Option",
    "Registry",
    "aggregators",
    "as_written",
    "beside",
    "changed",
    "clocks",
    "datasets",
    "engines",
    "filled",
    "losses",
    "methods",
    "metrics",
    "models",
    "named_paths",
    "names_code",
    "nothing_imported",
    "optimizers",
    "options_of",
    "paces",
    "partitions",
    "registry_of",
    "schedules",
    "selectors",
    "shared",
    "taken",
    "whole_paths",
]
