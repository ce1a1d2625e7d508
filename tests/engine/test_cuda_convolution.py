"""The kernels for convolution stages against PyTorch: on the CPU through a shim, and on a GPU if any."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from unknot.engine.cuda import convolution as cuda
from unknot.engine.cuda.convolution import Kernel, Plan, Sizes
from unknot.engine.layers.stage import Stage

POOL = ((2, 2), (2, 2), (0, 0), (1, 1))
KERNELS: tuple[Kernel, ...] = ("forward", "input_gradient", "weight_gradient")
CASES = {
    "lenet1": Sizes(3, 1, 28, 28, 6, 5, 2, True, True, True, torch.float64),
    "lenet2": Sizes(5, 6, 14, 14, 16, 5, 0, True, True, True, torch.float64),
    "odd, no relu": Sizes(3, 2, 11, 13, 3, 3, 1, True, False, True, torch.float64),
    "no pool, no bias": Sizes(5, 3, 9, 7, 9, 3, 1, False, True, False, torch.float64),
    "plain, even kernel": Sizes(2, 4, 6, 9, 5, 4, 3, False, False, True, torch.float64),
    "large kernel": Sizes(2, 1, 12, 12, 2, 7, 1, True, True, True, torch.float64),
    "float32": Sizes(4, 2, 10, 10, 5, 2, 0, True, True, True, torch.float32),
}


@dataclass
class World:
    """Inputs of a stack, and what PyTorch makes of them row by row."""

    sizes: Sizes
    samples: Tensor
    reads: Tensor
    weight: Tensor
    bias: Tensor
    g: Tensor

    @property
    def x(self) -> Tensor:
        return self.samples[self.reads]

    def expected(self) -> dict[str, Tensor]:
        sizes, results = self.sizes, []
        for row in range(len(self.weight)):
            leaves = [t[row].double().requires_grad_() for t in (self.x, self.weight, self.bias)]
            x, weight, bias = leaves
            y = F.conv2d(x, weight, bias if sizes.bias else None, padding=sizes.padding)
            y = F.max_pool2d(y, 2) if sizes.pool else y
            y = y.relu() if sizes.relu else y
            y.backward(self.g[row].double())
            gradients = [torch.zeros_like(leaf) if leaf.grad is None else leaf.grad for leaf in leaves]
            results.append([y.detach(), *gradients])
        names = ("out", "below", "gradient", "bias_gradient")
        return {name: torch.stack([result[i] for result in results]) for i, name in enumerate(names)}


def world(sizes: Sizes, rows: int = 3, device: str = "cpu") -> World:
    generator = torch.Generator().manual_seed(7)

    def draw(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator, dtype=torch.float64).to(sizes.dtype).to(device)

    k, many = sizes.kernel, 2 * sizes.batch
    reads = torch.randint(0, many, (rows, sizes.batch), generator=generator).to(device)
    return World(
        sizes,
        draw(many, sizes.channels, sizes.height, sizes.width),
        reads,
        draw(rows, sizes.outputs, sizes.channels, k, k),
        draw(rows, sizes.outputs),
        draw(rows, sizes.batch, *sizes.result),
    )


Compute = Callable[[World], dict[str, Tensor]]


def check(world: World, compute: Compute) -> None:
    tolerance = 1e-12 if world.sizes.dtype == torch.float64 else 2e-5
    found, expected = compute(world), world.expected()
    for name in found:
        scale = expected[name].abs().nan_to_num().max().clamp(min=1)
        torch.testing.assert_close(
            found[name].double() / scale, expected[name] / scale, rtol=0, atol=tolerance, equal_nan=True
        )


# On the CPU

_KINDS: dict[Kernel, str] = {
    "forward": "T* Reads* T* T* T* Places*",
    "input_gradient": "T* T* Places* T* T*",
    "weight_gradient": "T* Reads* T* T* Places* T* T*",
}


def _variants(sizes: Sizes, kernel: Kernel) -> list[Plan]:
    """The first plan, and one that shares out in another way: small tiles, few channels at a time."""
    all_plans = cuda.plans(sizes, kernel)
    return [all_plans[0], max(all_plans, key=lambda plan: (plan.blocks, -plan.ic, plan.n))]


@dataclass
class Shim:
    library: ctypes.CDLL
    plans: dict[tuple[str, Kernel, int], Plan]

    def compute(self, case: str, variant: int) -> Compute:
        def run(world: World) -> dict[str, Tensor]:
            sizes, rows = world.sizes, len(world.weight)
            out = torch.empty(rows, sizes.batch, *sizes.result, dtype=sizes.dtype)
            places = torch.empty(out.shape, dtype=torch.uint8)
            below = torch.empty_like(world.x)
            gradient, bias = torch.empty_like(world.weight), torch.zeros_like(world.bias)
            results = {"out": out, "below": below, "gradient": gradient, "bias_gradient": bias}
            arguments: dict[Kernel, list[Tensor]] = {
                "forward": [world.samples, world.reads, world.weight, world.bias, out, places],
                "input_gradient": [world.g, out, places, world.weight, below],
                "weight_gradient": [world.samples, world.reads, world.g, out, places, gradient, bias],
            }
            for kernel in KERNELS:
                plan = self.plans[case, kernel, variant]
                pointers = [tensor.data_ptr() for tensor in arguments[kernel]]
                function = self.library[_name(case, kernel, variant)]
                function(rows * plan.blocks, (ctypes.c_void_p * len(pointers))(*pointers))
            return results

        return run


def _name(case: str, kernel: Kernel, variant: int) -> str:
    return f"run_{kernel}_{list(CASES).index(case)}_{variant}"


@pytest.fixture(scope="module")
def shim(tmp_path_factory: pytest.TempPathFactory) -> Shim:
    if shutil.which("g++") is None:
        pytest.skip("there is no g++")
    folder = tmp_path_factory.mktemp("shim")
    plans: dict[tuple[str, Kernel, int], Plan] = {}
    text = [f'#include "{Path(__file__).with_name("cuda_on_cpu.h")}"']
    for case, sizes in CASES.items():
        for kernel in KERNELS:
            for variant, plan in enumerate(_variants(sizes, kernel)):
                plans[case, kernel, variant] = plan
                name = _name(case, kernel, variant)
                source = cuda.source(sizes, kernel, plan, kernel != "input_gradient")
                given = ", ".join(f"({kind})p[{i}]" for i, kind in enumerate(_KINDS[kernel].split()))
                text += [f"namespace in_{name} {{", source.replace('extern "C" {}', "")]
                text += [f"void body(void** p) {{ {kernel}({given}); }}", "}", f"#undef {kernel.upper()}"]
                text += [f'extern "C" void {name}(int blocks, void** p) {{']
                text += [f"    launch(blocks, in_{name}::THREADS, in_{name}::body, p);", "}"]
    (folder / "all.cpp").write_text("\n".join(text))
    command = ["g++", "-std=c++20", "-O0", "-w", "-shared", "-fPIC", "-o", "all.so", "all.cpp"]
    subprocess.run(command, cwd=folder, check=True)
    return Shim(ctypes.CDLL(str(folder / "all.so")), plans)


@pytest.mark.parametrize("variant", [0, 1])
@pytest.mark.parametrize("case", CASES)
def test_equals_pytorch(shim: Shim, case: str, variant: int) -> None:
    check(world(CASES[case]), shim.compute(case, variant))


def test_a_row_keeps_its_bits_whatever_rows_are_beside_it(shim: Shim) -> None:
    compute = shim.compute("lenet2", 0)
    all_rows = world(CASES["lenet2"])
    alone = replace(all_rows, reads=all_rows.reads[:1], weight=all_rows.weight[:1], g=all_rows.g[:1])
    sick = replace(all_rows, weight=all_rows.weight.clone())
    sick.weight[2] = torch.nan
    whole = compute(all_rows)
    for name, tensor in compute(replace(alone, bias=all_rows.bias[:1])).items():
        assert torch.equal(tensor, whole[name][:1])
    for name, tensor in compute(sick).items():
        assert torch.equal(tensor[:2], whole[name][:2])


def test_nan_goes_through_pool_and_relu_as_in_pytorch(shim: Shim) -> None:
    one = world(CASES["lenet1"])
    one.samples[one.reads[1, 0], 0, 9, 9] = torch.nan
    found, expected = shim.compute("lenet1", 0)(one)["out"], one.expected()["out"]
    assert torch.equal(found.isnan(), expected.isnan())
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-12, equal_nan=True)


def test_how_work_is_shared_out_changes_no_bit_but_in_sums_over_samples(shim: Shim) -> None:
    one = world(CASES["odd, no relu"])
    first, second = (shim.compute("odd, no relu", variant)(one) for variant in (0, 1))
    for name in ("out", "below"):
        assert torch.equal(first[name], second[name])


# What is taken

STAGE = Stage("w", "b", (1, 1), (2, 2), (1, 1), 1, POOL, True)


@pytest.mark.parametrize(
    ("changes", "weight", "words"),
    [
        ({"stride": (2, 2)}, (6, 1, 5, 5), "stride"),
        ({"groups": 2}, (6, 1, 5, 5), "groups"),
        ({"padding": (2, 1)}, (6, 1, 5, 5), "padding"),
        ({}, (6, 1, 2, 2), "padding"),
        ({}, (6, 1, 5, 3), "square"),
        ({}, (6, 1, 9, 9), "square"),
        ({"pool": ((3, 3), (2, 2), (0, 0), (1, 1))}, (6, 1, 5, 5), "pool"),
    ],
)
def test_says_why_a_stage_is_not_taken(changes: dict[str, Any], weight: tuple[int, ...], words: str) -> None:
    found = cuda.sizes_of(replace(STAGE, **changes), (8, 1, 28, 28), weight, torch.float32)
    assert isinstance(found, str)
    assert words in found


def test_sizes_that_do_not_fit_are_not_taken() -> None:
    found = cuda.sizes_of(STAGE, (8, 1, 28, 5000), (6, 1, 5, 5), torch.float32)
    assert isinstance(found, str)
    assert "memory" in found
    assert "nothing is left" in str(cuda.sizes_of(STAGE, (8, 1, 1, 1), (6, 1, 5, 5), torch.float32))
    assert "float16" in str(cuda.sizes_of(STAGE, (8, 1, 28, 28), (6, 1, 5, 5), torch.float16))


def test_says_that_there_is_no_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(cuda, "missing", cuda.missing.__wrapped__)  # what was found before is kept
    assert "GPU" in (cuda.supported(STAGE, (8, 1, 28, 28), (6, 1, 5, 5), torch.float32) or "")


# On a GPU


def on_gpu(world: World) -> dict[str, Tensor]:
    sizes = world.sizes
    bias = world.bias if sizes.bias else None
    out, places = cuda.forward(sizes, world.samples, world.weight, bias, world.reads)
    below = cuda.input_gradient(sizes, world.g, out, places, world.weight)
    gradient, biases = cuda.weight_gradient(sizes, world.samples, world.g, out, places, world.reads)
    found = {"out": out, "below": below, "gradient": gradient}
    return found if biases is None else found | {"bias_gradient": biases}


gpu = pytest.mark.skipif(cuda.missing() is not None, reason=f"{cuda.missing()}")


@gpu
@pytest.mark.parametrize("case", CASES)
def test_equals_pytorch_on_a_gpu(case: str) -> None:
    check(world(CASES[case], device="cuda"), on_gpu)


@gpu
def test_a_row_keeps_its_bits_among_any_number_of_rows_on_a_gpu() -> None:
    many = world(replace(CASES["lenet2"], dtype=torch.float32), 300, "cuda")
    whole = on_gpu(many)
    few = World(many.sizes, many.samples, many.reads[:7], many.weight[:7], many.bias[:7], many.g[:7])
    for name, tensor in on_gpu(few).items():
        assert torch.equal(tensor, whole[name][:7])


@gpu
def test_a_graph_records_the_kernels() -> None:
    one = world(CASES["lenet1"], device="cuda")
    expected = on_gpu(one)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        found = on_gpu(one)
    graph.replay()
    for name in expected:
        assert torch.equal(found[name], expected[name])


@gpu
def test_autograd_goes_through_the_kernels() -> None:
    one = world(CASES["lenet2"], device="cuda")
    x, weight, bias = (t.clone().requires_grad_() for t in (one.x, one.weight, one.bias))
    cuda.Convolution.apply(x, weight, bias, one.sizes).backward(one.g)
    expected = one.expected()
    for leaf, name in ((x, "below"), (weight, "gradient"), (bias, "bias_gradient")):
        torch.testing.assert_close(leaf.grad, expected[name], rtol=0, atol=1e-10)
