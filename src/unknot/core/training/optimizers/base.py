"""What an optimiser is: its settings, and the two forms of its step."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from unknot.core.errors import ConfigError

Tensors = list[Tensor] | tuple[Tensor, ...]

_FORMS = {
    "plain": "plain(self, parameters), a torch.optim.Optimizer for one model",
    "stacked": "stacked(self, step, rate, parameters, gradients, state, curvatures), "
    "the same step for a stack of models",
    "states": "states(self), how many numbers the stacked form keeps for each parameter",
}


@dataclass(frozen=True)
class Optimizer(ABC):
    """The settings of an optimiser, as a frozen dataclass, and its step in two forms that agree.

    The plain form is the oracle; the stacked form is the fast one, and is held to it. A class that lacks
    one of them is refused when it is written, not in a run.
    """

    lr: float
    """Learning rate, above 0; the schedule takes a share of it."""

    name: ClassVar[str]
    curvature: ClassVar[bool] = False
    """Whether it wants the Hessian's diagonal: `curvatures`, or the `diagonals` of a `Curved` plain form."""
    numbered: ClassVar[bool] = True
    """Whether the stacked form looks at a step's number; if not, a GPU needs one captured step for all."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        check_forms(cls)
        if "stacked" in vars(cls) and "numbered" not in vars(cls):
            cls.numbered = True  # what was said of the form that it changes does not hold for its own

    @abstractmethod
    def plain(self, parameters: Sequence[Tensor]) -> torch.optim.Optimizer:
        """The optimiser of one model. Its groups' "lr" is set before each step."""

    @abstractmethod
    def stacked(
        self,
        step: int,
        rate: float,
        parameters: Tensors,
        gradients: Tensors,
        state: Sequence[Tensors],
        curvatures: Tensors,
    ) -> None:
        """Step number `step` (from 1) of all rows of a stack, in place, at the learning rate `rate`.

        Tensors are ``[rows, ...]``, and no row may see another: operations on single numbers (see `steady`
        for which are safe as they are), or sums within a row. All rows are at the same step. `state` has
        `states()` lists of tensors like the parameters, which begin at 0. Gradients are only read: autograd
        may hand out one tensor for two parameters.
        """

    @abstractmethod
    def states(self) -> int:
        """How many numbers the stacked form keeps for each parameter."""


class Curved(torch.optim.Optimizer):
    """The plain form of an optimiser with curvature: `diagonals` are set before each step."""

    diagonals: list[Tensor]


def check_forms(kind: type[Optimizer]) -> None:
    """Raise unless the class has a name and both forms, each written beside the other."""
    where = f"the optimiser {kind.__module__}.{kind.__qualname__}"
    if not isinstance(getattr(kind, "name", None), str):
        raise ConfigError(f'{where} has no name: write name: ClassVar[str] = "..." in the class')
    for form, signature in _FORMS.items():
        if getattr(getattr(kind, form), "__isabstractmethod__", False):
            raise ConfigError(f"{where} has no {form!r}: write {signature}")
    written = [form for form in ("plain", "stacked") if form in vars(kind)]
    if len(written) == 1:
        (other,) = {"plain", "stacked"} - set(written)
        raise ConfigError(
            f"{where} changes its {written[0]} form and inherits the {other} one, so that they part: "
            f"write {_FORMS[other]}"
        )
