"""Llama: what it computes; stacks of adapters over it are as each alone, in full and in half precision."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import unknot
from exactness import FIVE, assert_no_interference
from support import grid
from unknot.core.data import FederatedData, Samples, Shard
from unknot.core.jobs import Job
from unknot.core.keys import Key
from unknot.core.lineage import Unit
from unknot.core.training import AdaHessian, AdamW, Recipe
from unknot.core.weights import Weights
from unknot.engine import LoopEngine, StackedEngine
from unknot.models.llama import Llama, LlamaConfig
from unknot.models.transformer import LastToken, RotaryAttention, rotated, rotations

SMALL = LlamaConfig(vocabulary=40, width=32, layers=2, heads=4, kv_heads=2, hidden=48, head_width=16)
SHALLOW = replace(SMALL, layers=1)
PAD, LENGTH = 0, 11
DRAWN = np.random.default_rng(0)
GPU = pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU here")
DEVICES = ["cpu", pytest.param("cuda", marks=GPU)]


def texts(count: int = 60, classes: int = 3) -> Samples:
    """Texts of unequal length, filled up on the right, each with a class."""
    x = DRAWN.integers(1, SMALL.vocabulary, (count, LENGTH))
    x[np.arange(LENGTH) >= DRAWN.integers(3, LENGTH + 1, count)[:, None]] = PAD
    return Samples(torch.from_numpy(x), torch.from_numpy(DRAWN.integers(0, classes, count)), classes)


CLASSIFIED = texts()
NEXT = Samples(
    CLASSIFIED.x, torch.where(CLASSIFIED.x == PAD, -100, CLASSIFIED.x).roll(-1, 1), SMALL.vocabulary
)
SHARDS = {c: Shard.of(range(12 * c, 12 * c + 7 + c)) for c in range(4)}


def data(samples: Samples) -> FederatedData:
    return FederatedData(samples, SHARDS, samples)


def llama(
    head: str = "answers", dtype: torch.dtype = torch.float32, config: LlamaConfig = SMALL
) -> nn.Module:
    """A small one with adapters, which do not begin at zero."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = Llama(config)
        for parameter in model.parameters():
            parameter.data.mul_(10 if parameter.dim() > 1 else 1)
        if head == "answers":
            model.answering([3, 5, 7], PAD)
        elif head == "score":
            model.scoring(3, PAD)
        model.to(dtype)
        unknot.lora(model, 4, targets=["q_proj", "v_proj", "down_proj"])
        for name, parameter in model.named_parameters():
            if parameter.requires_grad:
                parameter.data = parameter.data.float()
            if "lora_B" in name:
                nn.init.normal_(parameter, std=0.1)
    return model


def jobs(model: nn.Module, dtype: torch.dtype, recipe: Recipe, device: str = "cpu") -> list[Job]:
    start = Weights.of(model).to(device=device, dtype=dtype)
    return [Job(Unit(c), start, Key.root(c), recipe) for c in SHARDS]


RECIPES = {"adamw": Recipe(AdamW(0.01), 2, 4), "adahessian": Recipe(AdaHessian(0.05), 1, 4)}


@pytest.mark.parametrize(("head", "recipe"), grid(["answers", "score", "next"], RECIPES))
def test_stacked_adapters_are_those_of_the_loop(head: str, recipe: str) -> None:
    model, world = llama(head), data(NEXT if head == "next" else CLASSIFIED)
    engine = StackedEngine(model, dtype=torch.float64)
    given = jobs(model, torch.float64, RECIPES[recipe])
    plain = LoopEngine(model, dtype=torch.float64).train(given, world)
    for a, b in zip(engine.train(given, world), plain, strict=True):
        torch.testing.assert_close(a.weights.vector, b.weights.vector, rtol=1e-9, atol=1e-9)
    assert engine.describe()["path"] == "batched"


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(("head", "dtype"), grid(["answers", "next"], [torch.float32, torch.bfloat16]))
def test_company_changes_no_bit(head: str, dtype: torch.dtype, device: str) -> None:
    model, world = llama(head, dtype), data(NEXT if head == "next" else CLASSIFIED)
    engine = StackedEngine(model, device=device)
    given = jobs(model, torch.float32, RECIPES["adamw"], device)
    together = engine.train(given, world)
    lonely = StackedEngine(model, device=device)
    for job, update in zip(given, together, strict=True):
        (alone,) = lonely.train([job], world)
        assert alone.weights.equal(update.weights)
        (again,) = engine.train([job], world)
        assert again.weights.equal(update.weights)
    assert engine.describe()["path"] == "batched"


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("head", ["answers", "score", "next"])
def test_a_base_in_half_precision_gives_the_loops_gradients_within_rounding(head: str, device: str) -> None:
    """One step of plain SGD: the weights have moved by the gradient."""
    model, world = llama(head, torch.bfloat16), data(NEXT if head == "next" else CLASSIFIED)
    recipe = Recipe(unknot.SGD(1.0), batch_size=16, max_steps=1)
    given = jobs(model, torch.float32, recipe, device)
    ours = StackedEngine(model, device=device).train(given, world)
    halves = LoopEngine(model, device=device).train(given, world)
    full = llama(head)
    for mine, other in zip(full.parameters(), model.parameters(), strict=True):
        mine.data = other.data.float()
    wanted = LoopEngine(full).train(jobs(full, torch.float32, recipe), world)
    for a, b, c in zip(ours, halves, wanted, strict=True):
        start = c.job.start.vector
        moved, plain, true = (u.weights.vector.cpu() - start for u in (a, b, c))
        noise = float((plain - true).norm() / true.norm())
        assert float((moved - true).norm() / true.norm()) < 2 * noise + 0.01 < 0.2


@cache
def engine_of(device: str) -> StackedEngine:
    return StackedEngine(llama(dtype=torch.bfloat16, config=SHALLOW), device=device)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", FIVE)
def test_adapters_over_half_precision_do_not_show_what_was_erased(name: str, device: str) -> None:
    model, recipe = llama(dtype=torch.bfloat16, config=SHALLOW), Recipe(AdamW(0.01), 1, 4)
    engine = engine_of(device)

    def open(given: FederatedData) -> unknot.Federation:
        return unknot.simulate(model, given, FIVE[name], recipe, engine=engine, evaluate_every=0)

    assert_no_interference(open, data(CLASSIFIED), unknot.erase(1, round=2), 1)


def test_a_new_head_is_trained_beside_adapters_without_being_named() -> None:
    assert [name for name, p in llama("score").named_parameters() if p.requires_grad][-1] == "score.weight"
    assert all("lora" in name for name, p in llama("answers").named_parameters() if p.requires_grad)


def test_adapters_are_put_on_all_layers_but_the_head() -> None:
    for model in (Llama(SMALL), Llama(SMALL).scoring(3, PAD), Llama(SMALL).answering([1, 2], PAD)):
        names = [name for name, p in unknot.lora(model, 2).named_parameters() if p.requires_grad]
        assert len([name for name in names if "lora_A" in name]) == 7 * SMALL.layers
        assert not [name for name in names if name.startswith("lm_head")]
    named = unknot.lora(Llama(SMALL), 2, targets=["lm_head"])
    assert named.lm_head.lora_A.weight.requires_grad


def test_adapters_belong_to_the_answers_and_positions_of_their_base() -> None:
    weights = Weights.of(llama())
    for config, answers, pad in [
        (SMALL, [5, 3, 7], PAD),
        (SMALL, [3, 5, 7], 1),
        (replace(SMALL, rope_base=1.0), [3, 5, 7], PAD),
        (replace(SMALL, eps=0.5), [3, 5, 7], PAD),
    ]:
        with torch.random.fork_rng():
            torch.manual_seed(0)
            other = Llama(config)
        for parameter in other.parameters():
            parameter.data.mul_(10 if parameter.dim() > 1 else 1)
        unknot.lora(other.answering(answers, pad), 4, targets=["q_proj", "v_proj", "down_proj"])
        with pytest.raises(ValueError, match="base"):
            weights.load_into(other)


def test_a_model_that_was_asked_in_inference_mode_can_be_trained() -> None:
    text = torch.ones(2, 31, dtype=torch.int64)  # of a length that nobody else asks for
    with torch.inference_mode():
        llama()(text)
    llama()(text).sum().backward()


def test_what_fills_up_a_text_changes_nothing() -> None:
    model, text = llama(), CLASSIFIED.x[:5, :6].clone().clamp_min(1)
    longer = torch.cat([text, torch.full((5, 5), PAD)], 1)
    torch.testing.assert_close(model(text), model(longer), rtol=1e-5, atol=1e-6)


def test_the_last_token_is_the_last_that_is_not_filled_up() -> None:
    tokens = torch.tensor([[4, 0, 9, 0, 0], [1, 2, 3, 4, 5], [0, 0, 0, 0, 0]])
    x = torch.arange(15.0).view(3, 5, 1)
    assert LastToken(0)(x, tokens).view(-1).tolist() == [2.0, 9.0, 10.0]


def test_rotation_turns_pairs_of_numbers_by_the_position() -> None:
    """By hand: a head of four numbers, base 100: angles p and p/10 for the pairs (0, 2) and (1, 3)."""
    x = torch.tensor([[1.0, 0.0, 0.0, 1.0]] * 3, dtype=torch.float64)
    turned = rotated(x, *rotations(3, 4, 100.0, None, "cpu"))
    for p in range(3):
        a, b = float(p), p / 10
        expected = [math.cos(a), -math.sin(b), math.sin(a), math.cos(b)]
        torch.testing.assert_close(
            turned[p], torch.tensor(expected, dtype=torch.float64), rtol=1e-6, atol=1e-6
        )


def test_long_waves_are_stretched_as_llama_3_has_it() -> None:
    """Wave lengths 2π (short), 2π·10^3 and 2π·10^6 (long) against a text of 8192, factors 8, 1, 4."""
    scaling = (8.0, 1.0, 4.0, 8192)
    plain, stretched = (rotations(2, 6, 1e9, s, "cpu")[1][1].double().asin() for s in (None, scaling))
    ratio = stretched / plain
    smooth = (8192 / (2000 * math.pi) - 1) / 3
    torch.testing.assert_close(
        ratio,
        torch.tensor([1.0, (1 - smooth) / 8 + smooth, 1 / 8], dtype=torch.float64),
        rtol=1e-4,
        atol=1e-4,
    )


def test_several_heads_of_queries_share_one_of_keys() -> None:
    torch.manual_seed(0)
    few = RotaryAttention(32, 4, 2, 8, 1e4)
    many = RotaryAttention(32, 4, 4, 8, 1e4)
    many.load_state_dict(
        {
            name: w if name[0] in "qo" else w.view(2, 8, 32).repeat_interleave(2, 0).reshape(32, 32)
            for name, w in few.state_dict().items()
        }
    )
    x = torch.randn(2, 7, 32)
    torch.testing.assert_close(few(x), many(x))


@pytest.mark.parametrize("tied", [True, False])
def test_all_of_it_can_be_trained(tied: bool) -> None:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = Llama(replace(SMALL, tied=tied))
    given = jobs(model, torch.float64, Recipe(AdamW(0.001), 1, 4))
    engine = StackedEngine(model, dtype=torch.float64)
    ours, ours_by = engine.train(given, data(NEXT)), engine.describe()["path"]
    plain = LoopEngine(model, dtype=torch.float64).train(given, data(NEXT))
    for a, b in zip(ours, plain, strict=True):
        torch.testing.assert_close(a.weights.vector, b.weights.vector, rtol=1e-8, atol=1e-8)
    assert ours_by == "batched"


def own(x: Tensor) -> Tensor:
    return x.detach().requires_grad_()


@GPU
@pytest.mark.parametrize(
    ("length", "heads", "fewer", "width"),
    [(56, 9, 3, 64), (64, 4, 4, 16), (5, 2, 1, 32), (100, 6, 2, 64), (40, 2, 1, 128)],
)
def test_attention_on_a_gpu_is_that_of_the_layer(length: int, heads: int, fewer: int, width: int) -> None:
    from unknot.engine.cuda.attention import attended

    torch.manual_seed(0)
    layer = RotaryAttention(8, heads, fewer, width, 1e4)
    shapes = [(3, length, many, width) for many in (heads, fewer, fewer)]
    given = [torch.randn(shape, device="cuda").to(torch.bfloat16) for shape in shapes]
    error = torch.randn(shapes[0], device="cuda").to(torch.bfloat16)
    angles = layer.angles(length, torch.device("cuda:0"))
    mine = [own(part) for part in given]
    out = attended(*mine, *angles)
    out.backward(error)
    plain = [own(part.double().transpose(1, 2)) for part in given]
    q, k = (rotated(part, *angles) for part in plain[:2])
    k, v = (part.repeat_interleave(heads // fewer, 1) for part in (k, plain[2]))
    wanted = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2)
    wanted.backward(error.double())
    pairs = [
        (out.detach(), wanted.detach()),
        *((a.grad, b.grad.transpose(1, 2)) for a, b in zip(mine, plain, strict=True)),
    ]
    for ours, theirs in pairs:
        assert float((ours.double() - theirs).norm() / theirs.norm()) < 0.01
    few = [own(part[1:2]) for part in given]
    alone = attended(*few, *angles)
    alone.backward(error[1:2])
    assert torch.equal(alone, out[1:2])
    assert all(torch.equal(a.grad, b.grad[1:2]) for a, b in zip(few, mine, strict=True))


@GPU
@pytest.mark.parametrize("width", [8, 64, 576, 1000])
def test_norms_and_gates_on_a_gpu_are_those_of_the_layers(width: int) -> None:
    from unknot.engine.cuda.language import Gate, RMSNorm

    torch.manual_seed(0)
    x, up, error = (torch.randn(33, width, device="cuda").to(torch.bfloat16) for _ in range(3))
    weight = torch.rand(width, device="cuda").to(torch.bfloat16)
    a, b = own(x), own(x.double())
    ours = RMSNorm.apply(a, weight, 1e-5)
    wanted = b * torch.rsqrt(b.square().mean(-1, keepdim=True) + 1e-5) * weight.double()
    ours.backward(error)
    wanted.backward(error.double())
    c, d, e, f = own(x), own(up), own(x.double()), own(up.double())
    gated, plain = Gate.apply(c, d), nn.functional.silu(e) * f
    gated.backward(error)
    plain.backward(error.double())
    for mine, other in [(ours, wanted), (a.grad, b.grad), (gated, plain), (c.grad, e.grad), (d.grad, f.grad)]:
        torch.testing.assert_close(mine.double(), other.double(), rtol=0.01, atol=0.01)
