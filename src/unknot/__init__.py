"""unknot: federated learning that can forget, and can prove it.

>>> import unknot
>>> data = unknot.federate(unknot.load("digits"), unknot.Dirichlet(clients=20, alpha=0.5))
>>> fed = unknot.simulate("mlp", data, method="rfs", recipe=unknot.Recipe(unknot.SGD(0.05), epochs=2))
>>> history = fed.run(rounds=30, requests=[unknot.erase(3, round=15)])
"""

from typing import TYPE_CHECKING

from unknot.core.lazy import names as _names

__version__ = "0.1.0"

_HOMES = {
    "unknot": "track",
    "unknot.core.data": "FederatedData Samples Shard",
    "unknot.core.ensemble": "Ensemble",
    "unknot.core.errors": (
        "ConfigError DataError ErasedDataError ForbiddenLineageError RequestError RunStopped StoreError "
        "UnknotError"
    ),
    "unknot.core.loss": "BinaryCrossEntropy CrossEntropy Huber NextToken SoftTargets SquaredError",
    "unknot.core.metrics": "OwnMetric",
    "unknot.core": "registry",
    "unknot.core.requests": "Erase Join erase join",
    "unknot.core.saved": "load_model save_model",
    "unknot.core.training": (
        "SGD Adagrad AdaHessian Adam AdamW Cosine NAdam RAdam Recipe RMSprop StepDecay WarmUp"
    ),
    "unknot.core.weights": "Weights",
    "unknot.core.form": "plain_data",
    "unknot.data": (
        "ByOwner Dataset Dirichlet DominantClass Iid Labels MajorityClass clients federate folder load texts"
    ),
    "unknot.experiments.comparison": "Comparison compare",
    "unknot.experiments.config": "Experiment",
    "unknot.experiments.simulate": "prepare run simulate",
    "unknot.experiments.stored": "Store",
    "unknot.models.lora": "lora",
    "unknot.models.peft": "load_adapter save_adapter",
    "unknot.models.pretrained": "pretrained",
    "unknot.federation": (
        "Begun Buffered Clock Constant Ended FedAdagrad FedAdam FedAvg FedBuff Federation FedYogi "
        "Guarantee History Length Median Method NormClipping Pareto Round Served Setup Synchronous "
        "Trace TrimmedMean Uniform"
    ),
    "unknot.text.tokenizer": "Tokenizer tokenizer",
    "unknot.select": "DQN Balanced KCenter",
    "unknot.unlearn": (
        "BMT FATS KNOT MMT PGA RFS SISA Distillation ExactFun FedCIO FedEraser Rapid Standalone"
    ),
}
"""What is exported, by where it lies: it is imported when it is first asked for."""

if TYPE_CHECKING:
    from unknot import track
    from unknot.core import registry
    from unknot.core.data import FederatedData, Samples, Shard
    from unknot.core.ensemble import Ensemble
    from unknot.core.errors import (
        ConfigError,
        DataError,
        ErasedDataError,
        ForbiddenLineageError,
        RequestError,
        RunStopped,
        StoreError,
        UnknotError,
    )
    from unknot.core.form import plain_data
    from unknot.core.loss import (
        BinaryCrossEntropy,
        CrossEntropy,
        Huber,
        NextToken,
        SoftTargets,
        SquaredError,
    )
    from unknot.core.metrics import OwnMetric
    from unknot.core.requests import Erase, Join, erase, join
    from unknot.core.saved import load_model, save_model
    from unknot.core.training import (
        SGD,
        Adagrad,
        AdaHessian,
        Adam,
        AdamW,
        Cosine,
        NAdam,
        RAdam,
        Recipe,
        RMSprop,
        StepDecay,
        WarmUp,
    )
    from unknot.core.weights import Weights
    from unknot.data import (
        ByOwner,
        Dataset,
        Dirichlet,
        DominantClass,
        Iid,
        Labels,
        MajorityClass,
        clients,
        federate,
        folder,
        load,
        texts,
    )
    from unknot.experiments.comparison import Comparison, compare
    from unknot.experiments.config import Experiment
    from unknot.experiments.simulate import prepare, run, simulate
    from unknot.experiments.stored import Store
    from unknot.federation import (
        Begun,
        Buffered,
        Clock,
        Constant,
        Ended,
        FedAdagrad,
        FedAdam,
        FedAvg,
        FedBuff,
        Federation,
        FedYogi,
        Guarantee,
        History,
        Length,
        Median,
        Method,
        NormClipping,
        Pareto,
        Round,
        Served,
        Setup,
        Synchronous,
        Trace,
        TrimmedMean,
        Uniform,
    )
    from unknot.models.lora import lora
    from unknot.models.peft import load_adapter, save_adapter
    from unknot.models.pretrained import pretrained
    from unknot.select import DQN, Balanced, KCenter
    from unknot.text.tokenizer import Tokenizer, tokenizer
    from unknot.unlearn import (
        BMT,
        FATS,
        KNOT,
        MMT,
        PGA,
        RFS,
        SISA,
        Distillation,
        ExactFun,
        FedCIO,
        FedEraser,
        Rapid,
        Standalone,
    )
else:
    __getattr__, __dir__ = _names(
        __name__, (f"{home}:{name}" for home, names in _HOMES.items() for name in names.split())
    )

__all__ = [
    "BMT",
    "DQN",
    "FATS",
    "KNOT",
    "MMT",
    "PGA",
    "RFS",
    "SGD",
    "SISA",
    "AdaHessian",
    "Adagrad",
    "Adam",
    "AdamW",
    "Balanced",
    "Begun",
    "BinaryCrossEntropy",
    "Buffered",
    "ByOwner",
    "Clock",
    "Comparison",
    "ConfigError",
    "Constant",
    "Cosine",
    "CrossEntropy",
    "DataError",
    "Dataset",
    "Dirichlet",
    "Distillation",
    "DominantClass",
    "Ended",
    "Ensemble",
    "Erase",
    "ErasedDataError",
    "ExactFun",
    "Experiment",
    "FedAdagrad",
    "FedAdam",
    "FedAvg",
    "FedBuff",
    "FedCIO",
    "FedEraser",
    "FedYogi",
    "FederatedData",
    "Federation",
    "ForbiddenLineageError",
    "Guarantee",
    "History",
    "Huber",
    "Iid",
    "Join",
    "KCenter",
    "Labels",
    "Length",
    "MajorityClass",
    "Median",
    "Method",
    "NAdam",
    "NextToken",
    "NormClipping",
    "OwnMetric",
    "Pareto",
    "RAdam",
    "RMSprop",
    "Rapid",
    "Recipe",
    "RequestError",
    "Round",
    "RunStopped",
    "Samples",
    "Served",
    "Setup",
    "Shard",
    "SoftTargets",
    "SquaredError",
    "Standalone",
    "StepDecay",
    "Store",
    "StoreError",
    "Synchronous",
    "Tokenizer",
    "Trace",
    "TrimmedMean",
    "Uniform",
    "UnknotError",
    "WarmUp",
    "Weights",
    "clients",
    "compare",
    "erase",
    "federate",
    "folder",
    "join",
    "load",
    "load_adapter",
    "load_model",
    "lora",
    "plain_data",
    "prepare",
    "pretrained",
    "registry",
    "run",
    "save_adapter",
    "save_model",
    "simulate",
    "texts",
    "tokenizer",
    "track",
]
