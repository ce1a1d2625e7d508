"""unknot: federated learning that can forget, and can prove it.

>>> import unknot
>>> data = unknot.federate(unknot.load("digits"), unknot.Dirichlet(clients=20, alpha=0.5))
>>> fed = unknot.simulate("mlp", data, method="rfs", recipe=unknot.Recipe(unknot.SGD(0.05), epochs=2))
>>> history = fed.run(rounds=30, requests=[unknot.erase(3, round=15)])
"""

__version__ = "0.1.0"

from unknot.core.errors import (
    ConfigError,
    DataError,
    ErasedDataError,
    ForbiddenLineageError,
    RequestError,
    UnknotError,
)
from unknot.core.recipe import SGD, AdaHessian, Adam, AdamW, Recipe
from unknot.core.requests import erase, join
from unknot.core.saved import load_model, save_model
from unknot.data import ByOwner, Dirichlet, DominantClass, Iid, Labels, MajorityClass, federate, load
from unknot.experiments import Experiment, prepare, run, simulate
from unknot.federation import (
    Buffered,
    Clock,
    Constant,
    FedAvg,
    FedBuff,
    Federation,
    Guarantee,
    History,
    Method,
    Pareto,
    Synchronous,
    Trace,
    Uniform,
)
from unknot.select import DQN, Balanced, KCenter
from unknot.unlearn import BMT, FATS, KNOT, MMT, RFS, SISA, ExactFun, FedCIO, FedEraser, Rapid, Standalone

__all__ = [
    "BMT",
    "DQN",
    "FATS",
    "KNOT",
    "MMT",
    "RFS",
    "SGD",
    "SISA",
    "AdaHessian",
    "Adam",
    "AdamW",
    "Balanced",
    "Buffered",
    "ByOwner",
    "Clock",
    "ConfigError",
    "Constant",
    "DataError",
    "Dirichlet",
    "DominantClass",
    "ErasedDataError",
    "ExactFun",
    "Experiment",
    "FedAvg",
    "FedBuff",
    "FedCIO",
    "FedEraser",
    "Federation",
    "ForbiddenLineageError",
    "Guarantee",
    "History",
    "Iid",
    "KCenter",
    "Labels",
    "MajorityClass",
    "Method",
    "Pareto",
    "Rapid",
    "Recipe",
    "RequestError",
    "Standalone",
    "Synchronous",
    "Trace",
    "Uniform",
    "UnknotError",
    "erase",
    "federate",
    "join",
    "load",
    "load_model",
    "prepare",
    "run",
    "save_model",
    "simulate",
]
