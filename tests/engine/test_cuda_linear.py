"""The kernels for linear layers against PyTorch: on the CPU through a shim, and on a GPU if any."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from unknot.engine.cuda import kernels
from unknot.engine.cuda import linear as cuda
from unknot.engine.cuda.linear import Kernel, Layer, LinearChain, Plan

KEEP, RATE = 0.97, -0.3
D = torch.float64
CASES = {
    "mlp": LinearChain.of(4, [20, 12, 5], [True, True], ["relu"], False, D),
    "odd widths": LinearChain.of(5, [13, 7, 9, 3], [True, False, True], ["tanh", "relu"], True, D),
    "many tiles": LinearChain.of(33, [70, 37, 11], [True, True], ["relu"], True, D),
    "ones": LinearChain.of(1, [1, 1, 1], [True, True], ["tanh"], True, D),
    "one layer, many classes": LinearChain.of(3, [6, 150], [False], [], False, D),
    "float32": LinearChain.of(6, [24, 18, 10], [True, True], ["relu"], True),
    "float32, odd widths": LinearChain.of(6, [27, 11, 6], [True, True], ["tanh"], True),
}
VARIANTS = 3
_KINDS: dict[Kernel, str] = {
    "forward": "T* Reads* T* T* T*",
    "head": "T* Reads* Reads* T* T* T*",
    "last": "T* Reads* T* T* Reads* T* T* T*",
    "backward": "T* Reads* T* T* T* T* int int int int",
}


@dataclass
class World:
    """Inputs of a stack for one step."""

    chain: LinearChain
    samples: Tensor
    reads: Tensor
    targets: Tensor
    weights: Tensor
    w: list[Tensor]
    b: list[Tensor | None]

    def rows(self, many: int) -> World:
        """The first rows alone."""
        b = [t if t is None else t[:many].clone() for t in self.b]
        w = [t[:many].clone() for t in self.w]
        return replace(self, reads=self.reads[:many], weights=self.weights[:many], w=w, b=b)

    def step(self, gather: bool = True) -> dict[str, Tensor]:
        """What the kernels make of it; leaves the world as it is."""
        w, b = [t.clone() for t in self.w], [t if t is None else t.clone() for t in self.b]
        x = self.samples if gather else self.samples[self.reads]
        losses, down = self.chain.step(x, self.reads, self.targets, self.weights, w, b, KEEP, RATE)
        return _named(losses, down, w, b)

    def expected(self) -> dict[str, Tensor]:
        """What PyTorch makes of it, in float64."""
        x = self.samples[self.reads].double().requires_grad_()
        w = [t.double().requires_grad_() for t in self.w]
        b = [t if t is None else t.double().requires_grad_() for t in self.b]
        value = x
        for layer, weight, bias in zip(self.chain.layers, w, b, strict=True):
            value = value @ weight.transpose(1, 2)
            value = value if bias is None else value + bias.unsqueeze(1)
            value = {None: lambda v: v, "relu": torch.relu, "tanh": torch.tanh}[layer.activation](value)
        losses = F.cross_entropy(value.transpose(1, 2), self.targets[self.reads], reduction="none")
        (losses * self.weights.double()).sum().backward()
        after = [_stepped(t) for t in w], [t if t is None else _stepped(t) for t in b]
        return _named(losses.detach(), x.grad if self.chain.layers[0].further else None, *after)


def _stepped(leaf: Tensor) -> Tensor:
    assert leaf.grad is not None
    return (KEEP * leaf + RATE * leaf.grad).detach()


def _named(
    losses: Tensor, down: Tensor | None, w: Sequence[Tensor], b: Sequence[Tensor | None]
) -> dict[str, Tensor]:
    found = {"losses": losses, "down": down}
    found |= {f"w{i}": t for i, t in enumerate(w)} | {f"b{i}": t for i, t in enumerate(b)}
    return {name: tensor for name, tensor in found.items() if tensor is not None}


def world(chain: LinearChain, rows: int = 3, device: str = "cpu") -> World:
    generator = torch.Generator().manual_seed(7)
    layers, batch, dtype = chain.layers, chain.layers[0].batch, chain.layers[0].dtype

    def draw(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator, dtype=torch.float64).to(dtype).to(device)

    many = 2 * batch
    reads = torch.randint(0, many, (rows, batch), generator=generator).to(device)
    targets = torch.randint(0, layers[-1].outputs, (many,), generator=generator).to(device)
    weights = draw(rows, batch).abs()
    weights[:, batch // 2 + 1 :] = 0  # as where a client's last batch is short
    w = [draw(rows, layer.outputs, layer.inputs) / layer.inputs**0.5 for layer in layers]
    b = [draw(rows, layer.outputs) if layer.bias else None for layer in layers]
    return World(chain, draw(many, layers[0].inputs), reads, targets, weights, w, b)


def check(one: World, gather: bool = True) -> None:
    tolerance = 1e-12 if one.samples.dtype == torch.float64 else 2e-5
    found, expected = one.step(gather), one.expected()
    assert found.keys() == expected.keys()
    for name in found:
        scale = expected[name].abs().nan_to_num().max().clamp(min=1)
        torch.testing.assert_close(
            found[name].double() / scale, expected[name] / scale, rtol=0, atol=tolerance, equal_nan=True
        )


# On the CPU


def _variants(layer: Layer, kernel: Kernel) -> list[Plan]:
    """The first plan, one of small blocks, and the one that is held for the worst."""
    every = cuda.plans(layer, kernel)
    return [every[0], max(every, key=lambda plan: (plan.blocks, plan.memory)), every[-1]]


def _jobs() -> list[tuple[Layer, Kernel, Plan, bool]]:
    """What steps of the cases may launch; without gathering, and with the head apart, for one case each."""
    jobs: list[tuple[Layer, Kernel, Plan, bool]] = []
    for name, chain in CASES.items():
        apart = chain.layers[-1].outputs > cuda.CLASSES or name == "float32"
        for i, layer in enumerate(chain.layers):
            used: list[Kernel] = ["forward", "backward"]
            if i == len(chain.layers) - 1:
                used = ["last", "backward"] if not apart else ["forward", "head", "backward"]
                used += ["last"] if name == "float32" else []
            for kernel in used:
                gather = i == 0 and kernel != "head"
                gathers = {gather, gather and name != "odd widths"}
                jobs += [
                    (layer, kernel, plan, gather) for plan in _variants(layer, kernel) for gather in gathers
                ]
    return list(dict.fromkeys(jobs))


Choose = Callable[[int], None]


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    if shutil.which("g++") is None:
        pytest.skip("there is no g++")
    folder = tmp_path_factory.mktemp("shim")
    text = [f'#include "{Path(__file__).with_name("cuda_on_cpu.h")}"']
    for i, (layer, kernel, plan, gather) in enumerate(_jobs()):
        source = cuda.source(layer, kernel, plan, gather).replace('extern "C" {}', "")
        given = ", ".join(
            f"*(int*)p[{j}]" if kind == "int" else f"({kind})p[{j}]"
            for j, kind in enumerate(_KINDS[kernel].split())
        )
        text += [f"namespace in_{i} {{", source, f"void body(void** p) {{ {kernel}({given}); }}", "}"]
        text += [f"#undef {kernel.upper()}", f'extern "C" void run_{i}(int blocks, void** p) {{']
        text += [f"    launch(blocks, in_{i}::THREADS, in_{i}::body, p);", "}"]
    (folder / "all.cpp").write_text("\n".join(text))
    command = ["g++", "-std=c++20", "-O0", "-w", "-shared", "-fPIC", "-o", "all.so", "all.cpp"]
    subprocess.run(command, cwd=folder, check=True)
    return ctypes.CDLL(str(folder / "all.so"))


@pytest.fixture
def variant(library: ctypes.CDLL, monkeypatch: pytest.MonkeyPatch) -> Choose:
    """Has the kernels run on the CPU, shared out in the chosen way."""
    jobs = _jobs()

    def choose(variant: int) -> None:
        def launch(
            layer: Layer,
            kernel: Kernel,
            plan: Plan | None,
            gather: bool,
            rows: int,
            args: Sequence[Tensor | int],
        ) -> None:
            assert plan is None
            every = _variants(layer, kernel)
            function = library[f"run_{jobs.index((layer, kernel, every[variant], gather))}"]
            numbers = [ctypes.c_int(arg) for arg in args if isinstance(arg, int)]
            pointers = [arg.data_ptr() for arg in args if isinstance(arg, Tensor)]
            pointers += [ctypes.addressof(number) for number in numbers]
            function(rows * every[variant].blocks, (ctypes.c_void_p * len(pointers))(*pointers))

        monkeypatch.setattr(cuda, "_launch", launch)

    choose(0)
    return choose


@pytest.mark.parametrize("which", range(VARIANTS))
@pytest.mark.parametrize("case", CASES)
def test_a_step_equals_pytorch(variant: Choose, case: str, which: int) -> None:
    variant(which)
    check(world(CASES[case]))


def test_values_need_not_be_gathered(variant: Choose) -> None:
    one = world(CASES["odd widths"])
    gathered = one.step()
    for name, tensor in one.step(gather=False).items():
        assert torch.equal(tensor, gathered[name])


def test_how_work_is_shared_out_changes_no_bit(variant: Choose) -> None:
    one = world(CASES["many tiles"])
    first = one.step()
    for which in range(1, VARIANTS):
        variant(which)
        for name, tensor in one.step().items():
            assert torch.equal(tensor, first[name])


def test_forward_and_head_give_the_bits_of_both_in_one(
    variant: Choose, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = world(CASES["float32"])
    at_once = one.step()
    monkeypatch.setattr(cuda, "CLASSES", 0)
    for name, tensor in one.step().items():
        assert torch.equal(tensor, at_once[name])


def test_a_row_keeps_its_bits_whatever_rows_are_beside_it(variant: Choose) -> None:
    all_rows = world(CASES["many tiles"])
    whole = all_rows.step()
    for name, tensor in all_rows.rows(1).step().items():
        assert torch.equal(tensor, whole[name][:1])
    sick = all_rows.rows(3)
    sick.w[0][2, 1, 1] = torch.nan
    sick.w[1][2, 0, 0] = torch.inf
    found = sick.step()
    assert found["losses"][2].isnan().all()
    for name, tensor in found.items():
        assert torch.equal(tensor[:2], whole[name][:2])


@pytest.mark.parametrize("case", ["odd widths", "mlp"])
def test_nan_goes_the_ways_that_it_goes_in_pytorch(variant: Choose, case: str) -> None:
    one = world(CASES[case])
    one.samples[one.reads[1, 0], 3] = torch.nan
    check(one)
    one = world(CASES[case])
    one.w[0][1, 0] = torch.nan
    check(one)


def test_huge_logits_overflow_nothing(variant: Choose) -> None:
    one = world(CASES["one layer, many classes"])
    one.w[0] *= 1e4
    check(one)
    assert one.step()["losses"].isfinite().all()


# What is taken


@pytest.mark.parametrize(
    ("layer", "words"),
    [
        (Layer(32, 10, 10, dtype=torch.float16), "float16"),
        (Layer(300, 10, 10), "300 samples"),
        (Layer(32, 10, 10, activation="gelu"), "gelu"),
        (Layer(32, 60_000, 60_000), "60000x60000"),
    ],
)
def test_says_why_a_layer_is_not_taken(layer: Layer, words: str) -> None:
    assert words in (cuda.refused(layer) or "")


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("further", [False, True])
@pytest.mark.parametrize(
    "sizes", [(1, 1, 1), (256, 3000, 4001), (256, 1, 2048), (7, 2049, 1), (256, 784, 128)]
)
def test_there_is_a_plan_for_whatever_is_taken(
    sizes: tuple[int, int, int], further: bool, dtype: torch.dtype
) -> None:
    layer = Layer(*sizes, further=further, dtype=dtype)
    assert cuda.refused(layer) is None
    for kernel in [kernel for kernel in _KINDS if kernel != "last" or sizes[2] <= cuda.CLASSES]:
        plan = cuda.plans(layer, kernel)[0]
        assert plan.memory <= kernels.MEMORY
        assert plan.threads <= cuda.THREADS


# On a GPU

gpu = pytest.mark.skipif(kernels.missing() is not None, reason=f"{kernels.missing()}")


@gpu
@pytest.mark.parametrize("gather", [False, True])
@pytest.mark.parametrize("case", CASES)
def test_a_step_equals_pytorch_on_a_gpu(case: str, gather: bool) -> None:
    check(world(CASES[case], device="cuda"), gather)


@gpu
def test_a_row_keeps_its_bits_among_any_number_of_rows_on_a_gpu() -> None:
    many = world(LinearChain.of(32, [784, 80, 10], [True, True], ["relu"]), 300, "cuda")
    whole = many.step()
    for name, tensor in many.rows(7).step().items():
        assert torch.equal(tensor, whole[name][:7])


@gpu
def test_a_graph_records_a_step() -> None:
    one = world(CASES["float32"], device="cuda")
    expected = one.step()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        found = one.step()
    graph.replay()
    for name in expected:
        assert torch.equal(found[name], expected[name])
