"""Unlearning methods, one paper a file."""

from unknot.core.errors import ConfigError, nearest
from unknot.federation.method import Method
from unknot.unlearn.bmt_mmt import BMT, MMT
from unknot.unlearn.exact_fun import ExactFun
from unknot.unlearn.fats import FATS
from unknot.unlearn.fedcio import FedCIO
from unknot.unlearn.federaser import FedEraser
from unknot.unlearn.knot import KNOT
from unknot.unlearn.rapid import Rapid
from unknot.unlearn.rfs import RFS
from unknot.unlearn.sisa import SISA
from unknot.unlearn.standalone import Standalone

METHODS: dict[str, type[Method]] = {
    method.name: method
    for method in (RFS, Rapid, FedEraser, KNOT, BMT, MMT, SISA, FedCIO, ExactFun, FATS, Standalone)
}


def make_method(name: str, **options: object) -> Method:
    """A method by its name: ``make_method("rfs")``."""
    if name not in METHODS:
        raise ConfigError(f"unknown method {name!r}.{nearest(name, METHODS)}")
    return METHODS[name](**options)


__all__ = [
    "BMT",
    "FATS",
    "KNOT",
    "METHODS",
    "MMT",
    "RFS",
    "SISA",
    "ExactFun",
    "FedCIO",
    "FedEraser",
    "Rapid",
    "Standalone",
    "make_method",
]
