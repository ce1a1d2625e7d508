"""Convolution stages of many small models at once on a GPU: forward, and the gradients.

Row r of a stack is model r, with weights and a batch of its own. The kernels (`convolution.cu`) are compiled
at run time for the sizes at hand and kept. They go to the current stream, wait for nothing and allocate
nothing but results that are not given, so that CUDA graphs can record them (after a first launch, which
compiles them).

The bits of a row depend on its inputs and on the sizes, never on how many rows there are: a `Plan`, which
says how the work is shared out, is chosen from the sizes alone. Zeros count, errors of 0 and the zeros around
an image alike: times an infinite weight or input they give NaN (PyTorch leaves some of these out).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from functools import cache
from itertools import chain, product
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor

from unknot.engine.cuda.kernels import MEMORY, missing
from unknot.engine.cuda.kernels import TYPES as _TYPES
from unknot.engine.cuda.kernels import compile_text as _compile
from unknot.engine.cuda.kernels import cost as _cost
from unknot.engine.cuda.kernels import cycles as _cycles
from unknot.engine.cuda.kernels import parts as _parts
from unknot.engine.cuda.kernels import shares as _shares
from unknot.engine.cuda.kernels import up as _up
from unknot.engine.layers.stage import Stage

Kernel = Literal["forward", "input_gradient", "weight_gradient"]
THREADS = 256


@dataclass(frozen=True)
class Sizes:
    """A stage with all its sizes: what a kernel is compiled for."""

    batch: int
    channels: int
    height: int
    width: int
    outputs: int
    kernel: int
    padding: int
    pool: bool
    relu: bool
    bias: bool
    dtype: torch.dtype = torch.float32

    @property
    def raw(self) -> tuple[int, int]:
        """Height and width of what the convolution gives."""
        grows = 2 * self.padding - self.kernel + 1
        return self.height + grows, self.width + grows

    @property
    def result(self) -> tuple[int, int, int]:
        """Channels, height and width of what the stage gives."""
        cell = 2 if self.pool else 1
        return self.outputs, self.raw[0] // cell, self.raw[1] // cell

    @property
    def itemsize(self) -> int:
        return _TYPES[self.dtype][1]

    @property
    def pack(self) -> int:
        """How many numbers one load takes."""
        return 16 // self.itemsize


@dataclass(frozen=True)
class Correlation:
    """How `forward` and `input_gradient` share out the work; it has no influence on bits.

    A thread has `oc` channels of `px` quads (2x2 positions); a block `n` samples, `qr` rows of quads and `ch`
    chunks of `oc` channels, and takes `ic` incoming channels at a time. Lines of images are `stride` numbers
    long and samples `gap` apart, so that threads of a warp read from different banks.
    """

    threads: int
    stride: int
    gap: int
    n: int
    qr: int
    px: int
    oc: int
    ch: int
    ic: int
    memory: int
    blocks: int  # of a row
    cost: float


@dataclass(frozen=True)
class Lines:
    """How `weight_gradient` shares out the work: the order of its sums follows from this.

    A thread has one line of taps of `oc` outputs and every `sp`-th line of the errors; a block has `ic`
    channels and takes `n` samples and `rb` lines of errors at a time.
    """

    threads: int
    stride: int
    n: int
    rb: int
    oc: int
    ic: int
    sp: int
    memory: int
    blocks: int
    cost: float


Plan = Correlation | Lines


def sizes_of(stage: Stage, x: tuple[int, ...], weight: tuple[int, ...], dtype: torch.dtype) -> Sizes | str:
    """A stage's sizes for images ``[..., batch, C, H, W]`` and weights ``[..., O, C, K, K]``; or why not."""
    batch, channels, height, width = x[-4:]
    outputs, inputs, kernel, other = weight[-4:]
    if dtype not in _TYPES:
        return f"numbers are {dtype}, not float32 or float64"
    if stage.groups != 1 or inputs != channels:
        return "a convolution has groups"
    if stage.stride != (1, 1) or stage.dilation != (1, 1):
        return "a convolution has a stride or a dilation"
    if kernel != other or not 2 <= kernel <= 7:
        return f"a kernel is {kernel}x{other}, not square of 2 to 7"
    if stage.padding[0] != stage.padding[1] or not 0 <= stage.padding[0] < kernel:
        return f"a padding is {stage.padding}, not the same both ways and below the kernel's size"
    if stage.pool is not None and stage.pool != ((2, 2), (2, 2), (0, 0), (1, 1)):
        return "a pool is not 2x2 with stride 2"
    sizes = Sizes(
        batch,
        channels,
        height,
        width,
        outputs,
        kernel,
        stage.padding[0],
        stage.pool is not None,
        stage.relu,
        stage.bias is not None,
        dtype,
    )
    if min(sizes.result) < 1:
        return "nothing is left of the image"
    if not all(plans(sizes, name) for name in ("forward", "input_gradient", "weight_gradient")):
        return f"a line of an image of {height}x{width} does not fit in a block's memory"
    return sizes


def supported(stage: Stage, x: tuple[int, ...], weight: tuple[int, ...], dtype: torch.dtype) -> str | None:
    """Why the kernels cannot take a stage; None if they can."""
    sizes = sizes_of(stage, x, weight, dtype)
    return sizes if isinstance(sizes, str) else missing()


@cache
def plans(sizes: Sizes, kernel: Kernel) -> tuple[Plan, ...]:
    """Ways to share out the work that fit in a block, the cheapest by a rough count of cycles first."""
    if kernel == "weight_gradient":
        return tuple(sorted(_line_plans(sizes), key=_order))
    forward = kernel == "forward"
    kinds: dict[tuple[int, int], list[Correlation]] = {}
    for plan in sorted(_correlation_plans(sizes, forward), key=_order):
        kind = kinds.setdefault((plan.px, plan.oc), [])
        if len(kind) < 3:
            kind.append(_spread(plan, sizes, forward))
    return tuple(sorted(chain.from_iterable(kinds.values()), key=_order))


def _order(plan: Plan) -> tuple[float, int]:
    return plan.cost, plan.memory


def _channel_shares(n: int, most: int) -> list[int]:
    return sorted({_shares(n, limit)[0] for limit in (2, 4, 8, 16) if limit <= most})


def _correlation_plans(sizes: Sizes, forward: bool) -> Iterator[Correlation]:
    """As if half of the loads met another in their bank: see `_spread`."""
    come, go, quads = _roles(sizes, forward)
    k, words = sizes.kernel, sizes.itemsize // 4
    for px, oc in product(_shares(quads[1], 7), _channel_shares(go, 16)):
        if 4 * px * oc * words > 84:
            continue
        chunks, groups = _parts(go, oc), _parts(quads[1], px)
        stride = 2 * px * (groups - 1) + _up(2 * px + k - 1, 2)
        for n, qr, ch in product((1, 2, 4, 8, 16, 32), _shares(quads[0], 32), _shares(chunks, 8)):
            used = n * qr * groups * ch
            if used > THREADS or n > sizes.batch:
                continue
            threads = _up(used, 32)
            blocks = _parts(sizes.batch, n) * _parts(quads[0], qr) * _parts(chunks, ch)
            fitting = 0
            for ic in _shares(come, threads):
                plan = Correlation(threads, stride, 0, n, qr, px, oc, ch, ic, 0, blocks, 0.0)
                plan = _weighed(plan, sizes, forward, 1.5)
                if plan.memory <= MEMORY:
                    yield plan
                    fitting += 1
                if fitting == 3:
                    break


def _roles(sizes: Sizes, forward: bool) -> tuple[int, int, tuple[int, int]]:
    """Channels that come, channels that go, and the quads (2x2 positions) that go, down and across."""
    if forward:
        odd = 0 if sizes.pool else 1
        high, wide = sizes.raw
        return sizes.channels, sizes.outputs, ((high + odd) // 2, (wide + odd) // 2)
    return sizes.outputs, sizes.channels, ((sizes.height + 1) // 2, (sizes.width + 1) // 2)


def _weighed(plan: Correlation, sizes: Sizes, forward: bool, conflicts: float) -> Correlation:
    """The plan with its memory and its cost, if loads of images take `conflicts` times as long as need be."""
    come, _, _ = _roles(sizes, forward)
    k, pack, words = sizes.kernel, sizes.pack, sizes.itemsize // 4
    sums, packs, wide = 4 * plan.px * plan.oc, _parts(plan.oc, pack), 2 * plan.px + k - 1
    tap = pack * (plan.ch * packs + 1 - plan.ch * packs % 2)
    lines = 2 * plan.qr + k - 1
    memory = _up(plan.n * (plan.ic * lines * plan.stride + plan.gap), pack) + plan.ic * k * k * tap
    pooled = forward and sizes.pool
    share = plan.qr * sizes.result[2] if pooled else 2 * plan.qr * (sizes.raw[1] if forward else sizes.width)
    given = plan.n * plan.ch * plan.oc * share
    memory = max(memory, given + (_parts(given, sizes.itemsize) if pooled else 0))
    registers = words * (sums + 2 * (wide + 1) + 2 * plan.oc) + 30
    pairs = (k + 1) * _parts(wide, 2)
    fill = (12 * plan.n * lines * plan.stride + 25 * plan.ch * plan.oc * k * k) / plan.threads
    channel = _cycles(k * k * (sums + packs) + pairs, 16 * k * k * packs + 8 * words * conflicts * pairs)
    work = come * (channel + fill) + 400 * (2 + _parts(come, plan.ic)) + 20 * given / plan.threads
    cost = _cost(plan.blocks, plan.threads, work, memory * sizes.itemsize, registers)
    return replace(plan, memory=memory * sizes.itemsize, cost=cost)


def _spread(plan: Correlation, sizes: Sizes, forward: bool) -> Correlation:
    """The plan with the stride and the gap at which threads of a warp meet in the fewest banks."""
    _, _, quads = _roles(sizes, forward)
    groups, lines = _parts(quads[1], plan.px), plan.ic * (2 * plan.qr + sizes.kernel - 1)
    banks = 64 // sizes.itemsize  # of two numbers each; so many threads are served at once
    threads = [(t // (groups * plan.qr) % plan.n, t // groups % plan.qr, t % groups) for t in range(32)]

    def conflicts(stride: int, gap: int) -> float:
        pairs = [n * (lines * stride + gap) // 2 + qr * stride + plan.px * qg for n, qr, qg in threads]
        turns = [Counter(pair % banks for pair in set(pairs[t : t + banks])) for t in range(0, 32, banks)]
        return sum(max(turn.values()) for turn in turns) / len(turns)

    ways = product((0, 2, 4, 6), range(0, 2 * banks, 2) if plan.n > 1 else (0,))
    found = [(conflicts(plan.stride + wider, gap), wider, gap) for wider, gap in ways]
    spread = [
        _weighed(replace(plan, stride=plan.stride + wider, gap=gap), sizes, forward, often)
        for often, wider, gap in [*sorted(found)[:3], found[0]]
    ]
    return min((one for one in spread if one.memory <= MEMORY), key=_order)


def _line_plans(sizes: Sizes) -> Iterator[Lines]:
    k, pack, size = sizes.kernel, sizes.pack, sizes.itemsize
    words = size // 4
    cell = 2 if sizes.pool else 1
    _, high, wide = sizes.result
    rows, columns = cell * high, cell * wide
    stride = (columns + k - 1) | 1
    line = _up(columns, pack)
    for ic, oc in product(_shares(sizes.channels, THREADS // k), _channel_shares(sizes.outputs, 8)):
        if oc * k * words > 64:
            continue
        registers = words * (oc * k + 2 * oc + k + 8) + 30
        items = ic * k
        blocks = _parts(sizes.channels, ic) * _parts(sizes.outputs, oc)
        for n, bands in product((1, 2, 4, 8), _shares(high, high)):
            rb = bands * cell
            held = n * (oc * rb * line + ic * (rb + k - 1) * stride)
            if held * size > MEMORY or n > sizes.batch:
                continue
            passes = _parts(sizes.batch, n) * _parts(rows, rb)
            for lines in sorted({_parts(n * rb, sp) for sp in range(1, THREADS // items + 1)}):
                sp = _parts(n * rb, lines)
                threads = _up(items * sp, 32)
                space = max(held, threads * k)
                if space * size > MEMORY or threads < oc:
                    continue
                vectors = line // pack
                products = _cycles(
                    columns * (oc * k + 1) + vectors * (oc + k), 8 * columns + 16 * vectors * oc
                )
                fill = (12 * n * ic * (rb + k - 1) * stride + 40 * n * oc * (rb // cell) * wide) / threads
                work = passes * (lines * (products + 40) + fill + 400) + oc * (sp * 8 + 100)
                cost = _cost(blocks, threads, work, space * size, registers)
                yield Lines(threads, stride, n, rb, oc, ic, sp, space * size, blocks, cost)


def source(sizes: Sizes, kernel: Kernel, plan: Plan, gather: bool) -> str:
    """The text of a kernel for these sizes."""
    whole: dict[str, Any] = {
        "BATCH": sizes.batch,
        "C": sizes.channels,
        "H": sizes.height,
        "W": sizes.width,
        "O": sizes.outputs,
        "K": sizes.kernel,
        "PAD": sizes.padding,
    }
    known = {field.name.upper(): getattr(plan, field.name) for field in fields(plan)}
    whole |= {name: known[name] for name in known if name not in ("MEMORY", "BLOCKS", "COST")}
    flags = {"POOL": sizes.pool, "RELU": sizes.relu, "BIAS": sizes.bias, "GATHER": gather}
    lines = [
        'extern "C" {}',  # some versions of PyTorch put this in front of a text that does not begin with it
        f"#define {kernel.upper()}",
        f"using T = {_TYPES[sizes.dtype][0]};",
        *(f"constexpr int {name} = {value};" for name, value in whole.items()),
        *(f"constexpr bool {name} = {str(value).lower()};" for name, value in flags.items()),
    ]
    return "\n".join([*lines, _text()])


@cache
def _text() -> str:
    return Path(__file__).with_suffix(".cu").read_text(encoding="utf-8")


@cache
def _compiled(sizes: Sizes, kernel: Kernel, plan: Plan, gather: bool, device: int) -> Any:
    with torch.cuda.device(device):
        return _compile(source(sizes, kernel, plan, gather), kernel)


def _launch(
    sizes: Sizes, kernel: Kernel, plan: Plan | None, gather: bool, rows: int, args: list[Tensor]
) -> None:
    assert all(tensor.is_contiguous() for tensor in args), "a tensor does not lie in one piece"
    assert args[0].data_ptr() % 16 == 0, "the images do not begin at a multiple of 16 bytes"
    plan = plan or plans(sizes, kernel)[0]
    device = args[0].device
    run = _compiled(sizes, kernel, plan, gather, device.index)
    with torch.cuda.device(device):
        run(grid=(rows * plan.blocks, 1, 1), block=(plan.threads, 1, 1), args=args)


def forward(
    sizes: Sizes,
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    reads: Tensor | None = None,
    *,
    out: Tensor | None = None,
    places: Tensor | None = None,
    plan: Plan | None = None,
) -> tuple[Tensor, Tensor]:
    """A stage's results ``[rows, batch, O, PH, PW]`` and the places of the maxima (uint8, like the results).

    `x` are images ``[rows, batch, C, H, W]``; or with `reads` (int64 ``[rows, batch]``) samples
    ``[n, C, H, W]``, of which those are taken; they begin at a multiple of 16 bytes. Without a pool there are
    no places: what is given for them is left alone.
    """
    assert sizes.bias == (bias is not None)
    rows = weight.shape[0]
    if out is None:
        out = x.new_empty(rows, sizes.batch, *sizes.result)
    if places is None:
        places = torch.empty(out.shape if sizes.pool else 0, dtype=torch.uint8, device=x.device)
    args = [x, weight if reads is None else reads, weight, weight if bias is None else bias, out, places]
    _launch(sizes, "forward", plan, reads is not None, rows, args)
    return out, places


def input_gradient(
    sizes: Sizes,
    g: Tensor,
    out: Tensor,
    places: Tensor,
    weight: Tensor,
    *,
    below: Tensor | None = None,
    plan: Plan | None = None,
) -> Tensor:
    """The gradient for the images, ``[rows, batch, C, H, W]``, from `g`, that for the results `out`."""
    rows = weight.shape[0]
    if below is None:
        below = g.new_empty(rows, sizes.batch, sizes.channels, sizes.height, sizes.width)
    _launch(sizes, "input_gradient", plan, False, rows, [g, out, places, weight, below])
    return below


def weight_gradient(
    sizes: Sizes,
    x: Tensor,
    g: Tensor,
    out: Tensor,
    places: Tensor,
    reads: Tensor | None = None,
    *,
    gradient: Tensor | None = None,
    bias_gradient: Tensor | None = None,
    plan: Plan | None = None,
) -> tuple[Tensor, Tensor | None]:
    """The gradients for the weights ``[rows, O, C, K, K]`` and, if there is a bias, for it ``[rows, O]``."""
    rows, k = g.shape[0], sizes.kernel
    if gradient is None:
        gradient = g.new_empty(rows, sizes.outputs, sizes.channels, k, k)
    if bias_gradient is None and sizes.bias:
        bias_gradient = g.new_empty(rows, sizes.outputs)
    last = gradient if bias_gradient is None else bias_gradient
    args = [x, g if reads is None else reads, g, out, places, gradient, last]
    _launch(sizes, "weight_gradient", plan, reads is not None, rows, args)
    return gradient, bias_gradient


def _whole(tensor: Tensor) -> Tensor:
    """The tensor in one piece that begins where kernels may begin to read."""
    tensor = tensor.contiguous()
    return tensor if tensor.data_ptr() % 16 == 0 else tensor.clone()


class Convolution(torch.autograd.Function):
    """A stage for autograd, once differentiable: ``Convolution.apply(x, weight, bias, sizes)``, stacked."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None, sizes: Sizes) -> Tensor:
        x, weight = _whole(x), _whole(weight)
        out, places = forward(sizes, x, weight, None if bias is None else _whole(bias))
        ctx.save_for_backward(x, weight, out, places)
        ctx.sizes = sizes
        return out

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor | None, Tensor | None, Tensor | None, None]:
        x, weight, out, places = ctx.saved_tensors
        g = _whole(g)
        below = kernels = biases = None
        if ctx.needs_input_grad[0]:
            below = input_gradient(ctx.sizes, g, out, places, weight)
        if ctx.needs_input_grad[1] or ctx.needs_input_grad[2]:
            kernels, biases = weight_gradient(ctx.sizes, x, g, out, places)
        return below, kernels, biases, None
