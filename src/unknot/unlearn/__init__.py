"""Unlearning methods, one paper a file."""

from collections.abc import Mapping

from unknot.core.registry import methods
from unknot.federation.method import Method, check_method
from unknot.unlearn.bmt_mmt import BMT, MMT
from unknot.unlearn.distillation import Distillation
from unknot.unlearn.exact_fun import ExactFun
from unknot.unlearn.fats import FATS
from unknot.unlearn.fedcio import FedCIO
from unknot.unlearn.federaser import FedEraser
from unknot.unlearn.knot import KNOT
from unknot.unlearn.pga import PGA
from unknot.unlearn.rapid import Rapid
from unknot.unlearn.rfs import RFS
from unknot.unlearn.sisa import SISA
from unknot.unlearn.standalone import Standalone

METHODS: Mapping[str, type[Method]] = methods.open(
    {
        method.name: method
        for method in (
            RFS,
            Rapid,
            FedEraser,
            KNOT,
            BMT,
            MMT,
            SISA,
            FedCIO,
            ExactFun,
            FATS,
            PGA,
            Distillation,
            Standalone,
        )
    },
    Method,
    check=check_method,
)


def make_method(name: str, **options: object) -> Method:
    """A method by its name: ``make_method("rfs")``."""
    made: Method = methods.make(name, options)
    return made


__all__ = [
    "BMT",
    "FATS",
    "KNOT",
    "METHODS",
    "MMT",
    "PGA",
    "RFS",
    "SISA",
    "Distillation",
    "ExactFun",
    "FedCIO",
    "FedEraser",
    "Rapid",
    "Standalone",
    "make_method",
]
