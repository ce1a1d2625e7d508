"""The federation: one loop over a simulated clock, in which requests are events."""

from unknot.federation.aggregate import Aggregate, FedAvg, FedBuff
from unknot.federation.clock import Clock, Constant, Pareto, Slowness, Trace, Uniform
from unknot.federation.desk import Desk
from unknot.federation.federation import Federation
from unknot.federation.history import Costs, Event, History, Recovery, Round, Served, Trip
from unknot.federation.lanes import Flight, Lane, Node
from unknot.federation.length import Length
from unknot.federation.method import Guarantee, Method
from unknot.federation.pace import Buffered, Pace, Synchronous
from unknot.federation.setup import Setup, SetupParts

__all__ = [
    "Aggregate",
    "Buffered",
    "Clock",
    "Constant",
    "Costs",
    "Desk",
    "Event",
    "FedAvg",
    "FedBuff",
    "Federation",
    "Flight",
    "Guarantee",
    "History",
    "Lane",
    "Length",
    "Method",
    "Node",
    "Pace",
    "Pareto",
    "Recovery",
    "Round",
    "Served",
    "Setup",
    "SetupParts",
    "Slowness",
    "Synchronous",
    "Trace",
    "Trip",
    "Uniform",
]
