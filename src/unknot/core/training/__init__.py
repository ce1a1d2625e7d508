"""How a client trains: the recipe and its step rule, optimisers, schedules of the learning rate."""

from unknot.core.training.optimizers import (
    SGD,
    Adagrad,
    AdaHessian,
    Adam,
    AdamW,
    Curved,
    NAdam,
    Optimizer,
    RAdam,
    RMSprop,
    Tensors,
    numbers_kept,
)
from unknot.core.training.recipe import Recipe, StepRule, only_adds
from unknot.core.training.schedules import SCHEDULES, ConstantRate, Cosine, Schedule, StepDecay, WarmUp
from unknot.core.training.steady import pointwise, row_norms

__all__ = [
    "SCHEDULES",
    "SGD",
    "AdaHessian",
    "Adagrad",
    "Adam",
    "AdamW",
    "ConstantRate",
    "Cosine",
    "Curved",
    "NAdam",
    "Optimizer",
    "RAdam",
    "RMSprop",
    "Recipe",
    "Schedule",
    "StepDecay",
    "StepRule",
    "Tensors",
    "WarmUp",
    "numbers_kept",
    "only_adds",
    "pointwise",
    "row_norms",
]
