"""How products are rounded: as the numbers are, to TF32 on a GPU, or to bfloat16.

Weights, optimiser states, losses and sums keep the precision of the numbers in either case.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from unknot.core.errors import ConfigError, nearest
from unknot.engine.layers.program import Forward
from unknot.engine.outputs import unwrapped

PRECISIONS = ("float32", "tf32", "bf16")


@dataclass(frozen=True)
class Precision:
    """How an engine's products are rounded, where it computes."""

    name: str
    device: torch.device

    @staticmethod
    def of(name: str, device: torch.device, dtype: torch.dtype) -> Precision:
        if name not in PRECISIONS:
            raise ConfigError(f"precision is {name!r}.{nearest(name, PRECISIONS)}")
        if name != "float32" and dtype != torch.float32:
            kept = str(dtype).removeprefix("torch.")
            raise ConfigError(
                f"precision is {name!r}, which rounds products of float32 numbers, and dtype is {kept!r}: "
                "leave one of them out"
            )
        return Precision(name, device)

    @property
    def lowered(self) -> bool:
        """Whether forward and backward compute products of bfloat16 numbers."""
        return self.name == "bf16"

    @property
    def tf32(self) -> bool:
        """Whether a GPU's libraries may round to TF32; a CPU has no such thing."""
        return self.name == "tf32" and self.device.type == "cuda"

    @property
    def said(self) -> str:
        """For `describe`, after the type of the numbers."""
        return ", products in bfloat16" if self.lowered else ", products in TF32" if self.tf32 else ""

    def products(self) -> AbstractContextManager[object]:
        """Within: a forward pass computes its products so, and so will its backward pass.

        Nothing is kept of what was rounded: a step that is captured rounds the weights of its own time.
        """
        if not self.lowered:
            return nullcontext()
        return torch.autocast(self.device.type, torch.bfloat16, cache_enabled=False)

    @contextmanager
    def explained(self) -> Iterator[None]:
        """Within: a model that cannot do with bfloat16 is refused in words."""
        try:
            yield
        except RuntimeError as error:
            if not self.lowered:
                raise
            what = (str(error) or type(error).__name__).splitlines()[0]
            raise ConfigError(
                f'precision is "bf16", and the model cannot be run with products in bfloat16 on '
                f"{self.device.type}: {what}"
            ) from error

    def outputs(self, model: Callable[..., Any], *given: Any) -> Tensor:
        """What a model gives, for a loss that is computed in full."""
        if not self.lowered:
            return unwrapped(model(*given))
        with self.products():
            outputs = unwrapped(model(*given))
        return outputs.float()

    def forward(self, forward: Forward) -> Forward:
        """The same for a stack of models."""
        return _Lowered(forward, self) if self.lowered else forward


class _Lowered:
    def __init__(self, forward: Forward, precision: Precision) -> None:
        self._forward, self._precision = forward, precision
        self.stored: Mapping[str, tuple[int, ...]] = forward.stored

    def __call__(self, parameters: Mapping[str, Tensor], x: Tensor) -> Tensor:
        return self._precision.outputs(self._forward, parameters, x)


FULL = Precision("float32", torch.device("cpu"))
