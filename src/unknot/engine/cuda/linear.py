"""Linear layers of many small models at once on a GPU: forward, cross-entropy, backward with the step.

Row r of a stack is model r, with weights and a batch of its own; the step is that of plain SGD, and no
gradient is ever stored. The kernels (`linear.cu`) are compiled at run time for the sizes at hand and kept.
They go to the current stream, wait for nothing and allocate nothing but results that are not given, so that
CUDA graphs can record them (after a first launch, which compiles them).

The bits of a row depend on its inputs and on the sizes, never on how many rows there are: a `Plan`, which
says how the work is shared out, is chosen from the sizes alone, and no plan changes the order of a sum.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from functools import cache
from itertools import chain, product
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor

from unknot.engine.cuda.kernels import MEMORY, TYPES, compile_text, cost, cycles, missing, parts, ready, up

Kernel = Literal["forward", "head", "last", "backward"]
THREADS = 320  # at most, of a block
SAMPLES = 256  # at most, of a batch
CLASSES = 128  # at most, for `last`


@dataclass(frozen=True)
class Layer:
    """A layer with all its sizes: what kernels are compiled for.

    `activation` is applied to what the layer gives, `before` was applied to what it takes; `further` says
    whether the error for what it takes is asked for.
    """

    batch: int
    inputs: int
    outputs: int
    bias: bool = True
    activation: str | None = None
    before: str | None = None
    further: bool = True
    dtype: torch.dtype = torch.float32

    @property
    def itemsize(self) -> int:
        return TYPES[self.dtype][1]

    @property
    def pack(self) -> int:
        """How many numbers one load takes."""
        return 16 // self.itemsize


@dataclass(frozen=True)
class Forward:
    """A thread has `to` outputs of `tb` samples; a block `ot` by `bt` threads, and `kt` inputs at a time."""

    threads: int
    tb: int
    to: int
    bt: int
    ot: int
    kt: int
    stages: int
    memory: int
    blocks: int  # of a row
    cost: float


@dataclass(frozen=True)
class Head:
    """A block has so many threads, of which some have a sample: see `_lanes`."""

    threads: int
    memory: int
    blocks: int
    cost: float


@dataclass(frozen=True)
class Backward:
    """A block has `ic` inputs and takes `ot` outputs at a time, a thread `oc` of them and `tb` samples."""

    threads: int
    ic: int
    oc: int
    ot: int
    tb: int
    stages: int
    memory: int
    blocks: int
    cost: float


Plan = Forward | Head | Backward


def refused(layer: Layer) -> str | None:
    """Why the kernels cannot take a layer of these sizes; None if they can."""
    if layer.dtype not in TYPES:
        return f"numbers are {layer.dtype}, not float32 or float64"
    for activation in (layer.activation, layer.before):
        if activation not in (None, "relu", "tanh"):
            return f"an activation is {activation}, not relu or tanh"
    if layer.batch > SAMPLES:
        return f"a batch has {layer.batch} samples, more than {SAMPLES}"
    if layer.inputs * layer.outputs >= 2**31 // layer.itemsize:
        return f"a layer has {layer.inputs}x{layer.outputs} weights"
    return None


@cache
def plans(layer: Layer, kernel: Kernel) -> tuple[Plan, ...]:
    """Ways to share out the work that fit in a block, the cheapest by a rough count of cycles first."""
    if kernel == "head":
        return tuple(_head_plans(layer))
    found: Iterator[Forward] | Iterator[Backward]
    found = _backward_plans(layer) if kernel == "backward" else _forward_plans(layer, kernel == "last")
    kinds: dict[tuple[int, int], list[Plan]] = {}
    for plan in sorted(found, key=_order):
        kind = kinds.setdefault((plan.tb, plan.to if isinstance(plan, Forward) else plan.oc), [])
        if len(kind) < 4:
            kind.append(plan)
    return tuple(sorted(chain.from_iterable(kinds.values()), key=_order))


def _order(plan: Plan) -> tuple[float, int]:
    return plan.cost, plan.memory


def _few(n: int, most: int) -> list[int]:
    """Some sizes of equal parts of `n`, each at most `most`."""
    limits = [limit for limit in (1, 2, 3, 4, 6, 8, 10, 12, 16, 20, 24, 32, 48, 64) if limit <= most]
    return sorted({parts(n, parts(n, limit)) for limit in limits})


def _traffic(size: float) -> float:
    """Cycles that a multiprocessor waits for so many bytes, if all ask for as many; partly hidden."""
    return size / 17 / 2


def _forward_plans(layer: Layer, last: bool) -> Iterator[Forward]:
    """If it is the last, a block must have all outputs of its samples, and room for them."""
    pack, size = layer.pack, layer.itemsize
    words = size // 4
    for tb, to in product((1, 2, 4, 8), range(1, 9)):
        if tb * to * words > 64 or tb > layer.batch or to > layer.outputs:
            continue
        registers = words * (tb * to + pack * (tb + to)) + 36
        products = cycles(pack * tb * to + tb + to + 4, 16 * to + 8 * tb)
        chunks, groups = parts(layer.outputs, to), parts(layer.batch, tb)
        for ot, bt, kp, stages in product(_few(chunks, 64), _few(groups, 32), (4, 8), (2, 3)):
            threads = up(bt * ot, 32)
            lines = bt * tb + ot * to
            memory = stages * lines * (kp + 1) * 16
            if last:
                memory = max(memory, bt * tb * layer.outputs * size)
            memory += bt * tb * 8
            if threads > THREADS or memory > MEMORY or (last and ot * to < layer.outputs):
                continue
            blocks = parts(layer.batch, bt * tb) * parts(layer.outputs, ot * to)
            packs = parts(layer.inputs, pack)
            tiles = parts(packs, kp)
            fill = 8 * lines * kp / threads
            wait = 300 / stages
            work = packs * products + tiles * (fill + 40 + wait) + 1200 + 10 * tb * to
            spent = cost(blocks, threads, work, memory, registers)
            spent += _traffic(blocks * lines * layer.inputs * size)
            yield Forward(threads, tb, to, bt, ot, kp * pack, stages, memory, blocks, spent)


def _head_plans(layer: Layer) -> Iterator[Head]:
    lanes = _lanes(layer)
    threads = min(up(layer.batch * lanes, 32), 256)
    yield Head(threads, 0, parts(layer.batch, threads // lanes), 0.0)


def _lanes(layer: Layer) -> int:
    """How many threads have a sample's classes: about four each. The order of sums over them follows."""
    lanes = 1
    while lanes < 32 and 4 * lanes < layer.outputs:
        lanes *= 2
    return lanes


def _backward_plans(layer: Layer) -> Iterator[Backward]:
    pack, size, batch = layer.pack, layer.itemsize, layer.batch
    words = size // 4
    packs = parts(layer.inputs, pack)
    samples = [tb for tb in (1, 2, 4, 8) if tb <= batch] if layer.further else [1]
    for oc, tb in product((pack, 2 * pack, 3 * pack, 4 * pack), samples):
        if oc * pack * words > 64 or (oc > pack and oc - pack >= layer.outputs):
            continue
        registers = words * (oc * pack + oc + pack) + 36
        if layer.further:
            registers = words * (tb * pack + max(oc * pack + oc + pack, pack * (tb + pack))) + 36
        else:
            registers += words * oc * pack
        groups = parts(batch, tb) if layer.further else 1
        gradient = batch * cycles(oc * pack + oc // pack + 2, 8 * oc / pack + 16) + 12 * oc
        for ig, go, stages in product(_widths(packs), _few(parts(layer.outputs, oc), 64), (1, 2)):
            ot, threads = go * oc, up(ig * max(go, groups), 32)
            tiles = parts(layer.outputs, ot)
            errors = (groups * tb if layer.further else batch) * ot
            stage = errors + (ot * ig * pack if layer.further else 0)
            memory = (batch * ig * pack + stages * stage) * size + batch * 8
            if threads > THREADS or memory > MEMORY or (stages == 2 and tiles == 1):
                continue
            blocks, warps = parts(packs, ig), threads / 32
            work = tiles * parts(ig * go, 32) / warps * gradient
            if layer.further:
                products = cycles(pack * tb * pack + tb + pack + 4, 8 * tb + 16 * pack)
                work += tiles * parts(ig * groups, 32) / warps * ot / pack * products
            copied = batch * ig + tiles * (batch * ot / pack + (ot * ig if layer.further else 0))
            work += 15 * copied / threads + 1500 + tiles * (500 / stages + 100)
            spent = cost(blocks, threads, work, memory, registers)
            sectors = up(ig * 16, 32) + (32 if ig % 2 and blocks > 1 else 0)
            spent += _traffic(blocks * (3 * layer.outputs * sectors + batch * layer.outputs * size / 3))
            yield Backward(threads, ig * pack, oc, ot, tb, stages, memory, blocks, spent)


def _widths(packs: int) -> list[int]:
    """How many packs of inputs a block may have: few parts of about equal size, even if possible."""
    wide = {parts(packs, parts(packs, limit)) for limit in (1, 2, 4, *range(8, 68, 4))}
    return sorted(wide | {min(up(w, 2), packs) for w in wide})


def source(layer: Layer, kernel: Kernel, plan: Plan, gather: bool = False) -> str:
    """The text of a kernel for these sizes."""
    whole = {"BATCH": layer.batch, "IN": layer.inputs, "OUT": layer.outputs, "LANES": _lanes(layer)}
    known = {field.name.upper(): getattr(plan, field.name) for field in fields(plan)}
    whole |= {name: known[name] for name in known if name not in ("MEMORY", "BLOCKS", "COST")}
    activation = layer.before if kernel == "backward" else layer.activation
    flags = {
        "RELU": activation == "relu",
        "TANH": activation == "tanh",
        "BIAS": layer.bias,
        "GATHER": gather,
        "BELOW": layer.further,
    }
    lines = [
        'extern "C" {}',  # some versions of PyTorch put this in front of a text that does not begin with it
        f"#define {kernel.upper()}",
        f"using T = {TYPES[layer.dtype][0]};",
        *(f"constexpr int {name} = {value};" for name, value in whole.items()),
        *(f"constexpr bool {name} = {str(value).lower()};" for name, value in flags.items()),
    ]
    return "\n".join([*lines, _text()])


@cache
def _text() -> str:
    return Path(__file__).with_suffix(".cu").read_text(encoding="utf-8")


@cache
def _compiled(layer: Layer, kernel: Kernel, plan: Plan, gather: bool, device: int) -> Any:
    with torch.cuda.device(device):
        return compile_text(source(layer, kernel, plan, gather), kernel)


def _launch(
    layer: Layer, kernel: Kernel, plan: Plan | None, gather: bool, rows: int, args: Sequence[Tensor | int]
) -> None:
    tensors = [arg for arg in args if isinstance(arg, Tensor)]
    assert all(tensor.is_contiguous() for tensor in tensors), "a tensor does not lie in one piece"
    plan = plan or plans(layer, kernel)[0]
    device = tensors[0].device
    run = _compiled(layer, kernel, plan, gather, device.index)
    with torch.cuda.device(device):
        run(grid=(rows * plan.blocks, 1, 1), block=(plan.threads, 1, 1), args=list(args))


def _aligned(*tensors: Tensor) -> bool:
    return all(tensor.data_ptr() % 16 == 0 for tensor in tensors)


def forward(
    layer: Layer,
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    reads: Tensor | None = None,
    *,
    out: Tensor | None = None,
    plan: Plan | None = None,
) -> Tensor:
    """What a layer gives, ``[rows, batch, outputs]``.

    `x` are values ``[rows, batch, inputs]``; or with `reads` (int64 ``[rows, batch]``) samples
    ``[n, inputs]``, of which those are taken. `weight` is ``[rows, outputs, inputs]``, `bias`
    ``[rows, outputs]``.
    """
    assert layer.bias == (bias is not None)
    assert _aligned(x, weight), "values or weights do not begin at a multiple of 16 bytes"
    rows = weight.shape[0]
    if out is None:
        out = x.new_empty(rows, layer.batch, layer.outputs)
    args = [x, weight if reads is None else reads, weight, weight if bias is None else bias, out]
    _launch(layer, "forward", plan, reads is not None, rows, args)
    return out


def head(
    layer: Layer,
    logits: Tensor,
    reads: Tensor,
    targets: Tensor,
    weights: Tensor,
    *,
    losses: Tensor | None = None,
    error: Tensor | None = None,
    plan: Plan | None = None,
) -> tuple[Tensor, Tensor]:
    """Cross-entropies ``[rows, batch]`` of the logits that `layer` gave, and errors, each times its weight.

    The class of a sample is ``targets[reads]`` (both int64); `weights` are ``[rows, batch]``.
    """
    losses = torch.empty_like(weights) if losses is None else losses
    error = torch.empty_like(logits) if error is None else error
    args = [logits, reads, targets, weights, losses, error]
    _launch(layer, "head", plan, False, logits.shape[0], args)
    return losses, error


def last(
    layer: Layer,
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    reads: Tensor,
    targets: Tensor,
    weights: Tensor,
    *,
    losses: Tensor | None = None,
    error: Tensor | None = None,
    plan: Plan | None = None,
) -> tuple[Tensor, Tensor]:
    """`forward` and `head` in one, with the same bits, for at most `CLASSES` outputs.

    `x` are samples, of which `reads` are taken, if it has two dimensions.
    """
    assert layer.bias == (bias is not None)
    assert _aligned(x, weight), "values or weights do not begin at a multiple of 16 bytes"
    rows = weight.shape[0]
    losses = torch.empty_like(weights) if losses is None else losses
    error = x.new_empty(rows, layer.batch, layer.outputs) if error is None else error
    args = [x, reads, weight, weight if bias is None else bias, targets, weights, losses, error]
    _launch(layer, "last", plan, x.dim() == 2, rows, args)
    return losses, error


def backward(
    layer: Layer,
    error: Tensor,
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    keep: float,
    rate: float,
    reads: Tensor | None = None,
    *,
    below: Tensor | None = None,
    plan: Plan | None = None,
) -> Tensor | None:
    """The step: weights times `keep` plus gradient times `rate`; and the error below, if it is to go further.

    `error` is for what the layer gave before its activation, and so is the error ``[rows, batch, inputs]``
    that comes out for the layer below; it is made of the weights as they were.
    """
    assert layer.bias == (bias is not None)
    assert _aligned(x, weight, error), "values, weights or errors do not begin at a multiple of 16 bytes"
    rows = weight.shape[0]
    if below is None and layer.further:
        below = error.new_empty(rows, layer.batch, layer.inputs)
    args: list[Tensor | int] = [
        x,
        error if reads is None else reads,
        error,
        weight,
        weight if bias is None else bias,
        error if below is None else below,
        *_halves(keep),
        *_halves(rate),
    ]
    _launch(layer, "backward", plan, reads is not None, rows, args)
    return below


class Linear(torch.autograd.Function):
    """A layer without activation for autograd, once differentiable: ``Linear.apply(x, weight, bias)``."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        x, weight = _in_place(x), _in_place(weight)
        ctx.save_for_backward(x, weight)
        ctx.biased = bias is not None
        return forward(_plain(x, weight, ctx.biased), x, weight, None if bias is None else bias.contiguous())

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, error: Tensor) -> tuple[Tensor | None, Tensor, Tensor | None]:
        x, weight = ctx.saved_tensors
        layer = _plain(x, weight, ctx.biased, ctx.needs_input_grad[0])
        # The kernel steps from the weights: it keeps nothing of them, and goes all the way.
        gradient = weight.clone()
        biases = weight.new_zeros(weight.shape[:2]) if ctx.biased else None
        below = backward(layer, _in_place(error), x, gradient, biases, 0.0, 1.0)
        return below, gradient, biases


def taken(x: Tensor, weight: Tensor) -> bool:
    """Whether the kernels can take values ``[rows, batch, in]`` and weights ``[rows, out, in]``."""
    return ready(x) and refused(_plain(x, weight, False)) is None


def _plain(x: Tensor, weight: Tensor, bias: bool, further: bool = True) -> Layer:
    return Layer(x.shape[1], x.shape[2], weight.shape[1], bias, further=further, dtype=x.dtype)


def _in_place(tensor: Tensor) -> Tensor:
    """In one piece, and begun where the kernels want it."""
    tensor = tensor.contiguous()
    return tensor if _aligned(tensor) else tensor.clone()


def _halves(number: float) -> tuple[int, int]:
    """A number's bits as two integers: PyTorch hands these on alike in all its versions."""
    high, low = struct.unpack(">ii", struct.pack(">d", number))
    return high, low


@dataclass(frozen=True)
class LinearChain:
    """The linear layers of a chain, with ReLU or tanh between them, and cross-entropy at the end."""

    layers: tuple[Layer, ...]

    @classmethod
    def of(
        cls,
        batch: int,
        widths: Sequence[int],
        biased: Sequence[bool],
        activations: Sequence[str | None],
        further: bool = False,
        dtype: torch.dtype = torch.float32,
    ) -> LinearChain:
        """Of these widths; an activation for each place between two layers (any further ones are not used).

        `further` says whether the error for what the first layer takes is asked for.
        """
        between = [None, *activations[: len(widths) - 2], None]
        layers = [
            Layer(
                batch,
                widths[i],
                widths[i + 1],
                biased[i],
                between[i + 1],
                between[i],
                further or i > 0,
                dtype,
            )
            for i in range(len(widths) - 1)
        ]
        return cls(tuple(layers))

    def refused(self) -> str | None:
        """Why the kernels cannot take the chain; None if they can."""
        return next((why for why in map(refused, self.layers) if why is not None), missing())

    def step(
        self,
        x: Tensor,
        reads: Tensor,
        targets: Tensor,
        weights: Tensor,
        w: Sequence[Tensor],
        b: Sequence[Tensor | None],
        keep: float,
        rate: float,
        *,
        losses: Tensor | None = None,
    ) -> tuple[Tensor, Tensor | None]:
        """One step of plain SGD; changes `w` and `b`. Gives the losses and, if further, the error for `x`.

        `x` are values ``[rows, batch, inputs]``, or samples ``[n, inputs]`` of which `reads` are taken. The
        classes are ``targets[reads]`` in either case.
        """
        taken = reads if x.dim() == 2 else None
        values, end = [x], self.layers[-1]
        fused = end.outputs <= CLASSES
        for i, layer in enumerate(self.layers[:-1] if fused else self.layers):
            values.append(forward(layer, values[-1], w[i], b[i], taken if i == 0 else None))
        if fused:
            losses, error = last(end, values[-1], w[-1], b[-1], reads, targets, weights, losses=losses)
        else:
            losses, error = head(end, values.pop(), reads, targets, weights, losses=losses)
        down: Tensor | None = error
        for i in reversed(range(len(self.layers))):
            assert down is not None
            gather = taken if i == 0 else None
            down = backward(self.layers[i], down, values[i], w[i], b[i], keep, rate, gather)
        return losses, down
