"""What a model gives, as the loss takes it: the one place where it is unwrapped, and its shape looked at."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import Tensor

from unknot.core.errors import ConfigError


def unwrapped(given: Any) -> Tensor:
    """The tensor that a model gives, or the `logits` of the object (or the mapping) that it gives."""
    found = given.get("logits") if isinstance(given, Mapping) else getattr(given, "logits", given)
    if not isinstance(found, Tensor):
        raise ConfigError(
            f"the model gives a {type(given).__name__}, not a tensor of logits nor an object that has them: "
            "let its forward give a tensor, or something with 'logits'"
        )
    return found


def fitted(outputs: Tensor, targets: Tensor, kind: str, lead: int, own: bool = False) -> Tensor:
    """Outputs as the targets are: one row of logits a class number, else one output a target.

    `lead` axes come before a sample's own. One output may have an axis to itself. With a loss of one's `own`
    it is for that to say what goes together.
    """
    if kind == "values" and outputs.shape == (*targets.shape, 1):
        return outputs.squeeze(-1)
    wanted = outputs.shape[:-1] if kind == "classes" else outputs.shape
    if wanted != targets.shape if not own else outputs.shape[:lead] != targets.shape[:lead]:
        what, each = ("logits", "row of logits") if kind == "classes" else ("outputs", "output")
        raise ConfigError(
            f"the model gives {what} of shape {tuple(outputs.shape[lead:])} a sample, "
            f"but the targets are of shape {tuple(targets.shape[lead:])}: "
            f"it must give one {each} a target"
        )
    return outputs
