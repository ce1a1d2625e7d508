"""From updates to a new model: means, server optimisers, and what bounds a single client's say."""

from unknot.federation.aggregators.base import Additive, Aggregate, check_aggregator, new_aggregator
from unknot.federation.aggregators.mean import FedAvg, FedBuff
from unknot.federation.aggregators.robust import Median, NormClipping, TrimmedMean
from unknot.federation.aggregators.server_optimizers import FedAdagrad, FedAdam, FedYogi

__all__ = [
    "Additive",
    "Aggregate",
    "FedAdagrad",
    "FedAdam",
    "FedAvg",
    "FedBuff",
    "FedYogi",
    "Median",
    "NormClipping",
    "TrimmedMean",
    "check_aggregator",
    "new_aggregator",
]
