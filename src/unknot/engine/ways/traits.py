"""What a model is, as far as ways to train it go by."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import nn

from unknot.core.weights import Layout
from unknot.engine.layers.forms import Unsupported
from unknot.engine.layers.program import Program, has_hooks, trace
from unknot.engine.precision import FULL, Precision
from unknot.engine.ways.chain import Chain, chain_of


@dataclass(frozen=True, eq=False)
class Traits:
    """A model on a device: the programs and the chain that it is, if it is one."""

    device: torch.device
    dtype: torch.dtype
    program: Program | None
    twice: Program | None  # the same, to be differentiated twice
    chain: Chain | None
    why_not_batched: str  # where there is no program
    convolutions: bool
    layout: Layout
    kernels: int  # in its largest convolution: pairs of an input channel and an output channel
    precision: Precision
    hooked: bool  # a hook of its own has a say in the backward pass

    @staticmethod
    def of(model: nn.Module, device: torch.device, dtype: torch.dtype, precision: Precision = FULL) -> Traits:
        program, twice, chain, why_not = None, None, None, ""
        try:
            program, twice = trace(model), trace(model, twice=True)
            chain = chain_of(model, program)
        except Unsupported as error:
            why_not = str(error)
        convolutions = [m for m in model.modules() if isinstance(m, nn.modules.conv._ConvNd)]
        kernels = max((m.weight.shape[0] * m.weight.shape[1] for m in convolutions), default=0)
        layout = Layout.of(model)
        kinds = ("_backward_hooks", "_backward_pre_hooks")
        hooked = any(has_hooks(m, kinds) for m in model.modules())
        if hooked:
            program, twice, chain, why_not = None, None, None, "it has backward hooks"
        found = bool(convolutions), layout, kernels, precision, hooked
        return Traits(device, dtype, program, twice, chain, why_not, *found)

    @property
    def on_cpu(self) -> bool:
        return self.device.type == "cpu"
