"""Checks for what others write, the ones that ours pass: an `AssertionError` says in words what failed."""

from unknot.testing.aggregators import check_aggregator
from unknot.testing.data import check_data
from unknot.testing.losses import check_loss
from unknot.testing.methods import check_method
from unknot.testing.metrics import check_metric
from unknot.testing.models import check_model
from unknot.testing.optimizers import check_optimizer
from unknot.testing.partitions import check_partition, small_dataset
from unknot.testing.report import Report
from unknot.testing.selectors import check_selector
from unknot.testing.worlds import ToyEngine, small_data, toy_weights

__all__ = [
    "Report",
    "ToyEngine",
    "check_aggregator",
    "check_data",
    "check_loss",
    "check_method",
    "check_metric",
    "check_model",
    "check_optimizer",
    "check_partition",
    "check_selector",
    "small_data",
    "small_dataset",
    "toy_weights",
]
