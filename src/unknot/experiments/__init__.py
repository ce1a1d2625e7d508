"""What is run: experiments as values, read from TOML, and the federation that each describes."""

from typing import TYPE_CHECKING

from unknot.core.lazy import names as _names
from unknot.experiments.config import Experiment
from unknot.experiments.simulate import prepare, prepare_without, run, simulate

_LATE = ("unknot.experiments.comparison:Comparison", "unknot.experiments.comparison:compare")

if TYPE_CHECKING:
    from unknot.experiments.comparison import Comparison, compare
else:
    __getattr__, __dir__ = _names(__name__, _LATE)

__all__ = ["Comparison", "Experiment", "compare", "prepare", "prepare_without", "run", "simulate"]
