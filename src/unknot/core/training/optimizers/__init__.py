"""Optimisers, one class a file: its plain form and its stacked form side by side."""

from unknot.core.registry import optimizers
from unknot.core.training.optimizers.adagrad import Adagrad
from unknot.core.training.optimizers.adahessian import AdaHessian
from unknot.core.training.optimizers.adam import Adam, AdamW
from unknot.core.training.optimizers.base import Curved, Optimizer, Tensors
from unknot.core.training.optimizers.rmsprop import RMSprop
from unknot.core.training.optimizers.sgd import SGD

OPTIMIZERS = optimizers.open(
    {kind.name: kind for kind in (SGD, Adam, AdamW, AdaHessian, Adagrad, RMSprop)}, Optimizer
)

__all__ = [
    "OPTIMIZERS",
    "SGD",
    "AdaHessian",
    "Adagrad",
    "Adam",
    "AdamW",
    "Curved",
    "Optimizer",
    "RMSprop",
    "Tensors",
]
