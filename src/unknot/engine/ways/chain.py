"""Models that are one chain: convolutions (perhaps none), then linear layers, with ReLU between them.

For these, forward, backward and the step of plain SGD are written out by hand: see `fused`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from torch import nn

from unknot.engine.bits import stable
from unknot.engine.layers.program import Instruction, Program
from unknot.engine.layers.stage import Stage


@dataclass(frozen=True)
class Chain:
    """The stages of a convolutional part, then the linear layers: names, widths, activations."""

    stages: tuple[Stage, ...]
    weights: tuple[str, ...]
    biases: tuple[str | None, ...]
    widths: tuple[int, ...]
    activations: tuple[str | None, ...]
    flattens: bool

    def padded(self, batch: int, itemsize: int) -> list[int]:
        """The widths with which ``[batch, width]`` and each weight matrix fill whole lines."""
        unit = stable.LINE // itemsize
        widths = [w if batch * w % unit == 0 else stable.pad_up(w, unit) for w in self.widths]
        for layer in range(1, len(widths)):
            if widths[layer - 1] * widths[layer] % unit:
                widths[layer] = stable.pad_up(widths[layer], unit)
        return widths


def chain_of(model: nn.Module, program: Program) -> Chain | None:
    """The model as a chain; None if it is none, or if some of it is not to be trained."""
    names = {id(parameter): name for name, parameter in model.named_parameters()}
    if not all(parameter.requires_grad for parameter in model.parameters()):
        return None
    steps = _in_a_row(program)
    if steps is None:
        return None
    used: list[nn.Module] = []
    stages: list[Stage] = []
    while steps and steps[0].kind == "conv2d":
        stage = _stage(steps, names)
        if stage is None:
            return None
        used.append(stage[1])
        stages.append(stage[0])
    flattens = bool(steps) and steps[0].kind == "flatten"
    if flattens and not _flattens_all(steps.pop(0).module):
        return None
    if stages and not flattens:
        return None
    layers = _linear_layers(steps)
    if layers is None or any(id(module) in map(id, used) for module, _ in layers):
        return None
    modules = [module for module, _ in layers]
    weights = tuple(names[id(module.weight)] for module in modules)
    all_weights = [*weights, *(stage.weight for stage in stages)]
    if len(set(all_weights)) < len(all_weights):
        return None  # a layer is used twice: its gradient is a sum
    biases = tuple(None if module.bias is None else names[id(module.bias)] for module in modules)
    widths = (modules[0].in_features, *(module.out_features for module in modules))
    return Chain(tuple(stages), weights, biases, widths, tuple(act for _, act in layers), flattens)


def _in_a_row(program: Program) -> list[Instruction] | None:
    """The instructions, if each takes what the one before gives and nothing else."""
    steps: list[Instruction] = []
    before = program.source
    for step in program.instructions:
        if step.only != before or step.module is None:
            return None
        before = step.name
        if step.kind != "same":
            steps.append(step)
    return steps if before == program.result else None


def _flattens_all(module: nn.Module | None) -> bool:
    return isinstance(module, nn.Flatten) and module.start_dim == 1 and module.end_dim == -1


def _stage(steps: list[Instruction], names: dict[int, str]) -> tuple[Stage, nn.Module] | None:
    """Take a stage off the front of `steps`."""
    conv, pool, relu = steps.pop(0).module, None, False
    assert isinstance(conv, nn.Conv2d)
    if isinstance(conv.padding, str) or conv.kernel_size == (1, 1):
        return None  # see `layers`: such kernels go another way
    if steps and steps[0].kind == "max_pool2d":
        module: Any = steps.pop(0).module
        if module.ceil_mode:
            return None
        sizes = (module.kernel_size, module.stride, module.padding, module.dilation)
        pool = tuple((size, size) if isinstance(size, int) else tuple(size) for size in sizes)
    if steps and steps[0].kind == "relu":
        steps.pop(0)
        relu = True
    bias = None if conv.bias is None else names[id(conv.bias)]
    stride, padding, dilation = (tuple(v) for v in (conv.stride, conv.padding, conv.dilation))
    return Stage(names[id(conv.weight)], bias, stride, padding, dilation, conv.groups, pool, relu), conv  # type: ignore[arg-type]


def _linear_layers(steps: Sequence[Instruction]) -> list[tuple[nn.Linear, str | None]] | None:
    """Linear layers, each with the activation after it: "relu", "tanh", or None for the last."""
    layers: list[tuple[nn.Linear, str | None]] = []
    for step in steps:
        if step.kind == "linear" and isinstance(step.module, nn.Linear):
            if layers and layers[-1][1] is None:
                return None
            layers.append((step.module, None))
        elif step.kind in ("relu", "tanh") and layers and layers[-1][1] is None:
            layers[-1] = (layers[-1][0], step.kind)
        else:
            return None
    return layers if layers and layers[-1][1] is None else None
