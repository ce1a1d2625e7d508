"""Unlearning methods, one paper a file; each is imported when it is first asked for."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from unknot.core.lazy import names as _names
from unknot.core.registry import methods
from unknot.federation.method import Method, check_method

_PATHS = {
    "rfs": "unknot.unlearn.rfs:RFS",
    "rapid": "unknot.unlearn.rapid:Rapid",
    "federaser": "unknot.unlearn.federaser:FedEraser",
    "knot": "unknot.unlearn.knot:KNOT",
    "bmt": "unknot.unlearn.bmt_mmt:BMT",
    "mmt": "unknot.unlearn.bmt_mmt:MMT",
    "sisa": "unknot.unlearn.sisa:SISA",
    "fedcio": "unknot.unlearn.fedcio:FedCIO",
    "exact-fun": "unknot.unlearn.exact_fun:ExactFun",
    "fats": "unknot.unlearn.fats:FATS",
    "pga": "unknot.unlearn.pga:PGA",
    "distillation": "unknot.unlearn.distillation:Distillation",
    "standalone": "unknot.unlearn.standalone:Standalone",
}
METHODS: Mapping[str, type[Method]] = methods.open(_PATHS, Method, check=check_method)

if TYPE_CHECKING:
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
else:
    __getattr__, __dir__ = _names(__name__, _PATHS.values())


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
