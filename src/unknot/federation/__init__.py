"""The federation: one loop over a simulated clock, in which requests are events."""

from unknot.core import registry
from unknot.federation.aggregators import (
    Aggregate,
    FedAdagrad,
    FedAdam,
    FedAvg,
    FedBuff,
    FedYogi,
    Median,
    NormClipping,
    TrimmedMean,
)
from unknot.federation.clock import Clock, Constant, Pareto, Slowness, Trace, Uniform
from unknot.federation.desk import Desk
from unknot.federation.events import (
    Begun,
    Costs,
    Ended,
    Event,
    Recovery,
    Round,
    Served,
    SetAside,
    Trip,
)
from unknot.federation.federation import Federation
from unknot.federation.history import History
from unknot.federation.lanes import Flight, Lane, Node
from unknot.federation.length import Length
from unknot.federation.method import Guarantee, Method
from unknot.federation.observers import Observer
from unknot.federation.pace import Buffered, Pace, Synchronous
from unknot.federation.setup import Setup, SetupParts
from unknot.federation.snapshot import Snapshot

PACES = registry.paces.open({"synchronous": Synchronous, "buffered": Buffered}, Pace)
AGGREGATES = registry.aggregators.open(
    {
        "fedavg": FedAvg,
        "fedbuff": FedBuff,
        "fedadam": FedAdam,
        "fedyogi": FedYogi,
        "fedadagrad": FedAdagrad,
        "median": Median,
        "trimmed-mean": TrimmedMean,
        "norm-clipping": NormClipping,
    },
    Aggregate,
)
SLOWNESS = registry.clocks.open(
    {"constant": Constant, "uniform": Uniform, "pareto": Pareto, "trace": Trace}, Slowness
)

__all__ = [
    "AGGREGATES",
    "PACES",
    "SLOWNESS",
    "Aggregate",
    "Begun",
    "Buffered",
    "Clock",
    "Constant",
    "Costs",
    "Desk",
    "Ended",
    "Event",
    "FedAdagrad",
    "FedAdam",
    "FedAvg",
    "FedBuff",
    "FedYogi",
    "Federation",
    "Flight",
    "Guarantee",
    "History",
    "Lane",
    "Length",
    "Median",
    "Method",
    "Node",
    "NormClipping",
    "Observer",
    "Pace",
    "Pareto",
    "Recovery",
    "Round",
    "Served",
    "SetAside",
    "Setup",
    "SetupParts",
    "Slowness",
    "Snapshot",
    "Synchronous",
    "Trace",
    "TrimmedMean",
    "Trip",
    "Uniform",
]
