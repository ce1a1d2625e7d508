"""Convolutions over the tiles of their pools: what autograd gives, and what the loop gives; their buffers."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from engine_worlds import make_data, make_jobs, make_model, own_start, same
from unknot.core.data import FederatedData, Samples, Shard
from unknot.core.keys import Key
from unknot.core.training import SGD, Recipe
from unknot.core.weights import Layout, Weights
from unknot.engine import LoopEngine, StackedEngine
from unknot.engine.layers.stage import Stage
from unknot.engine.ways import fused_images
from unknot.engine.ways.shelf import Shelf
from unknot.engine.ways.tiles import FEW_SAMPLES, TiledConvolution, Tiling, tilings_of
from unknot.engine.workers import Stopped

ROWS, BATCH = 3, 5


def pool(high: int, wide: int) -> tuple[tuple[int, int], ...]:
    return (high, wide), (high, wide), (0, 0), (1, 1)


def stage(**changes: object) -> Stage:
    plain = {"stride": (1, 1), "padding": (0, 0), "dilation": (1, 1), "groups": 1, "pool": pool(2, 2)}
    return Stage(**{"weight": "w", "bias": "b", "relu": True, **plain, **changes})  # type: ignore[arg-type]


def drawn(*shape: int, name: str) -> Tensor:
    return torch.from_numpy(Key.root(11).child(name).generator().standard_normal(shape))


def by_autograd(
    s: Stage, x: Tensor, w: Tensor, b: Tensor | None, error: Tensor
) -> tuple[Tensor, tuple[Tensor, ...]]:
    """One row's outputs, and the gradients of input, kernels and bias."""
    inputs = [t.clone().requires_grad_() for t in (x, w, b) if t is not None]
    out = F.conv2d(
        inputs[0], inputs[1], inputs[2] if b is not None else None, s.stride, s.padding, s.dilation, s.groups
    )
    assert s.pool is not None
    out = F.max_pool2d(out, *s.pool)
    out = out.relu() if s.relu else out
    return out.detach(), torch.autograd.grad(out, inputs, error)


@pytest.mark.parametrize(
    ("changes", "weight", "image"),
    [
        ({"padding": (2, 2)}, (6, 1, 5, 5), (1, 28, 28)),  # LeNet-5's first
        ({}, (4, 3, 5, 5), (3, 14, 14)),  # and second
        ({}, (4, 2, 3, 3), (2, 9, 10)),  # an output that no pool takes
        ({"padding": (1, 1)}, (4, 2, 3, 3), (2, 7, 6)),  # a border of less than a step
        ({"bias": None, "relu": False}, (2, 2, 2, 4), (2, 8, 9)),  # windows that are no whole steps
        ({"pool": pool(3, 2)}, (2, 1, 3, 2), (1, 11, 8)),
        ({"pool": pool(1, 2)}, (2, 1, 3, 3), (1, 9, 8)),
        ({"groups": 2}, (4, 1, 3, 3), (2, 8, 8)),
    ],
)
def test_a_step_is_autograds(changes, weight, image):
    s = stage(**changes)
    tiling = Tiling.of(s, weight, image)
    assert tiling is not None
    w, b = drawn(ROWS, *weight, name="w"), drawn(ROWS, weight[0], name="b")
    parts = {"w": w, "b": b} if s.bias else {"w": w}
    x = drawn(ROWS, BATCH, *image, name="x")
    layer = TiledConvolution(tiling, w, BATCH, further=True)
    layer.load(parts)
    layer.narrow(ROWS)
    out = layer.forward(x.permute(0, 2, 3, 4, 1)).clone()
    error = drawn(*out.shape, name="error")
    below = layer.backward(error, 0.5, -0.1).reshape(ROWS, *image, BATCH)
    for row in range(ROWS):
        bias = b[row] if s.bias else None
        expected, gradients = by_autograd(s, x[row], w[row], bias, error[row].permute(3, 0, 1, 2))
        torch.testing.assert_close(out[row].permute(3, 0, 1, 2), expected)
        torch.testing.assert_close(below[row].permute(3, 0, 1, 2), gradients[0])
        after = layer.parts(row)
        torch.testing.assert_close(after["w"], 0.5 * w[row] - 0.1 * gradients[1])
        if bias is not None:
            torch.testing.assert_close(after["b"], 0.5 * bias - 0.1 * gradients[2])


def test_of_equal_outputs_the_first_has_the_error():
    """A black image: all outputs of a tile are the bias. One of four counts, so the bias goes by 9 tiles."""
    layer = TiledConvolution(Tiling.of(stage(), (1, 1, 3, 3), (1, 8, 8)), torch.empty(1, 0), 1, further=True)
    layer.load({"w": torch.ones(1, 1, 1, 3, 3), "b": torch.ones(1, 1)})
    layer.narrow(1)
    assert torch.equal(layer.forward(torch.zeros(1, 1, 8, 8, 1)), torch.ones(1, 1, 3, 3, 1))
    below = layer.backward(torch.ones(1, 1, 3, 3, 1), 1.0, 1.0).view(8, 8)
    assert layer.parts(0)["b"].item() == 1 + 9
    # The first of a tile reads the 3×3 pixels from its corner: what is read by tiles at 0, 2 and 4.
    reads = [1, 1, 2, 1, 2, 1, 1, 0]
    assert below.tolist() == [[a * b for b in reads] for a in reads]


def test_nothing_of_the_last_stack_is_left():
    tiling = Tiling.of(stage(padding=(1, 1)), (2, 1, 3, 3), (1, 6, 6))
    assert tiling is not None
    parts = {"w": drawn(2, 2, 1, 3, 3, name="w"), "b": drawn(2, 2, name="b")}
    x = drawn(2, 1, 6, 6, BATCH, name="x")

    def step(layer: TiledConvolution, parts: dict[str, Tensor], x: Tensor) -> list[Tensor]:
        layer.load(parts)
        layer.narrow(2)
        error = torch.ones_like(layer.forward(x))
        below = layer.backward(error, 1.0, -0.1).clone()
        return [below, *(layer.parts(1)[name].clone() for name in "wb")]

    used = TiledConvolution(tiling, x, BATCH, further=True)
    step(used, {name: part * math.nan for name, part in parts.items()}, x * math.inf)
    fresh = TiledConvolution(tiling, x, BATCH, further=True)
    assert all(map(torch.equal, step(used, parts, x), step(fresh, parts, x)))


@pytest.mark.parametrize(
    "changes",
    [
        *({"pool": None}, {"pool": pool(1, 1)}, {"pool": ((3, 3), (2, 2), (0, 0), (1, 1))}),
        *({"stride": (2, 1)}, {"dilation": (1, 2)}, {"pool": pool(4, 4)}),
    ],
)
def test_without_pools_of_their_own_outputs_or_where_kernels_skip_pixels_there_are_no_tiles(changes):
    assert Tiling.of(stage(**changes), (4, 2, 3, 3), (2, 9, 9)) is None


def test_small_batches_and_wide_convolutions_go_another_way():
    layout = Layout(("w", "b"), (torch.Size((6, 1, 5, 5)), torch.Size((6,))))
    assert tilings_of([stage()], layout, (1, 28, 28), FEW_SAMPLES, 2**31)
    assert tilings_of([stage()], layout, (1, 28, 28), FEW_SAMPLES - 1, 2**31) is None
    assert Tiling.of(stage(), (64, 32, 5, 5), (32, 14, 14)) is None


@pytest.fixture
def taken(monkeypatch):
    """The buffers that stacks begin with."""
    taken: list[object] = []

    class Seen(fused_images.Tiled):
        def load(self, parts):
            taken.append(self)
            super().load(parts)

    monkeypatch.setattr(fused_images, "Tiled", Seen)
    return taken


RECIPE = Recipe(SGD(0.1, weight_decay=0.01), epochs=2, batch_size=FEW_SAMPLES)


def test_tiles_end_where_the_loop_ends(taken):
    network, data = make_model("lenet"), make_data("lenet", (40, 16, 23))
    start = Weights.of(network).to(dtype=torch.float64)
    slow = LoopEngine(network, dtype=torch.float64, threads=1).train(
        make_jobs(network, RECIPE, data.clients, start=start), data
    )
    fast = StackedEngine(network, threads=1).train(make_jobs(network, RECIPE, data.clients), data)
    assert taken
    for a, b in zip(slow, fast, strict=True):
        torch.testing.assert_close(b.weights.vector.double(), a.weights.vector, rtol=1e-4, atol=1e-5)
        assert b.loss == pytest.approx(a.loss, rel=1e-4)


def test_buffers_are_used_again_and_company_changes_no_bit(taken):
    network, data = make_model("lenet"), make_data("lenet", (40, 16, 23))
    jobs = [own_start(job) for job in make_jobs(network, RECIPE, data.clients)]
    engine = StackedEngine(network, threads=1)
    alone = [engine.train([job], data)[0] for job in jobs]
    assert taken[-1] is taken[-2]
    assert all(map(same, engine.train(jobs, data), alone))


def test_a_shelf_lends_one_thing_to_one_user_and_keeps_the_latest_within_its_memory():
    shelf = Shelf(memory=50)
    with shelf.lent(list, 1, 10, list) as first, shelf.lent(list, 1, 10, list) as second:
        assert first is not second
    with shelf.lent(list, 2, 10, list) as other, shelf.lent(list, 1, 10, list) as again:
        assert all(other is not thing for thing in (first, second))
        assert any(again is thing for thing in (first, second))
    for size in range(10, 15):
        with shelf.lent(list, size, 10, list):
            assert shelf._lent + sum(taken for _, taken, _ in shelf._waiting) <= 50
    with shelf.lent(list, 1, 10, list) as fresh:
        assert all(fresh is not thing for thing in (first, second))
    with shelf.lent(list, 3, 60, list):  # more than there is: nothing waits beside it
        assert not shelf._waiting
    assert (shelf._lent, shelf._waiting) == (0, [])


def test_what_fails_is_not_lent_again_and_a_cleared_shelf_is_empty():
    shelf = Shelf(memory=50)
    with pytest.raises(Stopped), shelf.lent(list, 1, 10, list) as broken:
        raise Stopped
    with shelf.lent(list, 1, 10, list) as whole:
        assert whole is not broken
    shelf.clear()
    with shelf.lent(list, 1, 10, list) as fresh:
        assert fresh is not whole
    assert shelf._lent == 0


@pytest.mark.parametrize(
    ("changes", "weight", "image"),
    [
        ({}, (4, 1, 5, 5), (1, 28, 28)),
        ({"padding": (1, 1)}, (4, 3, 3, 3), (3, 17, 11)),
        ({"groups": 2}, (4, 1, 3, 3), (2, 9, 9)),
    ],
)
def test_what_a_row_takes_is_known(changes, weight, image):
    tiling = Tiling.of(stage(**changes), weight, image)
    for further in (False, True):
        made = TiledConvolution(tiling, torch.empty(3, 0), 16, further=further)
        held = [value for name, value in vars(made).items() if name.startswith("all_")]
        tensors = [t for value in held for t in (value if isinstance(value, list) else [value])]
        taken = sum(t.untyped_storage().nbytes() // 4 for t in tensors)
        assert taken / 3 <= 1.05 * tiling.numbers(16, further)
        assert taken / 3 >= 0.9 * tiling.numbers(16, further)


def test_what_takes_more_than_a_row_may_is_left_to_the_others():
    layout = Layout(("w", "b"), ((4, 1, 5, 5), (4,)))
    needed = Tiling.of(stage(), (4, 1, 5, 5), (1, 28, 28)).numbers(16, further=False)
    assert tilings_of([stage()], layout, (1, 28, 28), 16, needed)
    assert tilings_of([stage()], layout, (1, 28, 28), 16, needed - 1) is None


def test_numbers_that_no_kernel_reads_are_not_read():
    """A pixel that overflowed, which the stride of the next layer skips: finite by the loop, and here."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        network = nn.Sequential(
            *(nn.Conv2d(1, 1, (2, 1)), nn.MaxPool2d((1, 2)), nn.Conv2d(1, 2, (2, 1), stride=(1, 2))),
            *(nn.MaxPool2d((2, 1)), nn.Flatten(), nn.Linear(8, 3)),
        )
    x = torch.rand(16, 1, 6, 6, generator=torch.Generator().manual_seed(0))
    x[3, 0, 1, 2] = 3e38
    samples = Samples(x, torch.arange(16) % 3, 3)
    data = FederatedData(samples, {0: Shard.of(range(16))}, samples)
    jobs = make_jobs(network, Recipe(SGD(0.01), batch_size=16), [0])
    (plain,), (ours,) = LoopEngine(network).train(jobs, data), StackedEngine(network).train(jobs, data)
    assert ours.weights.vector.isfinite().all() == plain.weights.vector.isfinite().all()
