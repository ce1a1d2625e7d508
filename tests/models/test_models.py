"""Models: sizes known by hand, one sample apart from another, traceable, errors that help."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, fx, nn

from unknot.core.errors import ConfigError
from unknot.models import build, names
from unknot.models.transformer import CausalSelfAttention

# name, shape, classes, options, parameters.
# mlp: 784·80+80 + 80·10+10
# KNOT's mlp: 600·1024+1024 + 1024·512+512 + 512·256+256 + 256·128+128 + 128·100+100
# lenet5: 25·6+6 + 6·25·16+16 + 400·120+120 + 120·84+84 + 84·10+10, and 3·25·6+6 for three channels
# cnn-exact: 75·32+32 + 32·25·64+64 + (64·5·5)·32+32 + 32·32+32 + 32·10+10
# cnn-incentive: 25·20+20 + 20·25·50+50 + (50·4·4)·500+500 + 500·10+10, and LeNet-5's for three
# vgg16: convolutions 9·(3·64 + 64·64 + 64·128 + 128² + 128·256 + 2·256² + 256·512 + 5·512²) = 14,710,464,
#   their biases 2·64+2·128+3·256+6·512 = 4,224, group norm twice that, head 512·10+10
# gpt: tokens 65·128, positions 64·128; 4 blocks of 2·256 (norms) + 128·384+384 + 128²+128
#   + 128·512+512 + 512·128+128 = 198,272; last norm 256, head 65·128
# gpt2: the published 124,439,808: tokens 50257·768, positions 1024·768; 12 blocks of 2·1536 (norms)
#   + 768·2304+2304 + 768²+768 + 768·3072+3072 + 3072·768+768 = 7,087,872; last norm 1536, no head of its own
CASES: list[tuple[str, tuple[int, ...], int, dict[str, Any], int]] = [
    ("mlp", (1, 28, 28), 10, {}, 63_610),
    ("mlp", (600,), 100, {"hidden": [1024, 512, 256, 128], "activation": "tanh"}, 1_317_348),
    ("lenet5", (1, 28, 28), 10, {}, 61_706),
    ("lenet5", (3, 32, 32), 10, {}, 62_006),
    ("cnn-exact", (3, 32, 32), 10, {}, 106_314),
    ("cnn-incentive", (1, 28, 28), 10, {}, 431_080),
    ("cnn-incentive", (3, 32, 32), 10, {}, 62_006),
    ("vgg16", (3, 32, 32), 10, {}, 14_728_266),
    ("vgg16", (3, 32, 32), 100, {"norm": "none"}, 14_765_988),
    ("gpt", (64,), 65, {}, 818_176),
    ("gpt2", (1024,), 50257, {}, 124_439_808),
]
# The same with sizes that a test can afford to run.
TINY: dict[str, Any] = {"layers": 2, "heads": 2, "width": 16}
SMALL = [
    ("gpt2", (12,), 20, TINY)
    if name == "gpt2"
    else (name, shape, classes, {**options, "width": 8, "groups": 4} if name == "vgg16" else options)
    for name, shape, classes, options, _ in CASES
]
TEXT = ("gpt", "gpt2")
IDS = [f"{case[0]}-{'x'.join(map(str, case[1]))}" for case in CASES]
small = pytest.mark.parametrize(("name", "shape", "classes", "options"), SMALL, ids=IDS)


def model_of(name: str, shape: tuple[int, ...], classes: int, options: dict[str, Any]) -> nn.Module:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return build(name, shape, classes, **options)


def inputs(name: str, shape: tuple[int, ...], classes: int, count: int = 3) -> Tensor:
    generator = torch.Generator().manual_seed(1)
    if name in TEXT:
        return torch.randint(classes, (count, *shape), generator=generator)
    return torch.randn(count, *shape, generator=generator)


class Layers(fx.Tracer):
    """Of layers that have a rule of their own, it does not look inside."""

    def is_leaf_module(self, m: nn.Module, module_qualified_name: str) -> bool:
        return hasattr(m, "batched_kind") or super().is_leaf_module(m, module_qualified_name)


def test_names_are_those_that_build_knows() -> None:
    assert names() == ("mlp", "lenet5", "cnn-exact", "cnn-incentive", "vgg16", "gpt", "gpt2", "pretrained")
    assert {case[0] for case in CASES} == set(names()) - {"pretrained"}  # which has its own tests


@pytest.mark.parametrize(("name", "shape", "classes", "options", "parameters"), CASES, ids=IDS)
def test_the_number_of_parameters(
    name: str, shape: tuple[int, ...], classes: int, options: dict[str, Any], parameters: int
) -> None:
    with torch.device("meta"):
        model = build(name, shape, classes, **options)
    assert sum(p.numel() for p in model.parameters()) == parameters


@small
def test_outputs_have_one_logit_a_class(
    name: str, shape: tuple[int, ...], classes: int, options: dict[str, Any]
) -> None:
    logits = model_of(name, shape, classes, options)(inputs(name, shape, classes))
    assert logits.shape == ((3, *shape, classes) if name in TEXT else (3, classes))
    assert logits.isfinite().all()


@small
def test_a_sample_does_not_depend_on_its_batch(
    name: str, shape: tuple[int, ...], classes: int, options: dict[str, Any]
) -> None:
    model = model_of(name, shape, classes, options).train()
    assert not list(model.buffers())
    x = inputs(name, shape, classes)
    others = x.clone()
    others[1:] = others[1:].flip(0) if name in TEXT else 100 * others[1:] + 7
    # Not only close: a batch of the same size goes through the same kernels.
    assert torch.equal(model(x)[0], model(others)[0])
    torch.testing.assert_close(model(x)[:1], model(x[:1]), rtol=1e-4, atol=1e-5)


@small
def test_forward_is_a_straight_line_that_fx_can_trace(
    name: str, shape: tuple[int, ...], classes: int, options: dict[str, Any]
) -> None:
    model = model_of(name, shape, classes, options)
    x = inputs(name, shape, classes)
    traced = fx.GraphModule(model, Layers().trace(model))
    assert torch.equal(traced(x), model(x))


@small
def test_every_parameter_gets_a_gradient(
    name: str, shape: tuple[int, ...], classes: int, options: dict[str, Any]
) -> None:
    model = model_of(name, shape, classes, options)
    model(inputs(name, shape, classes)).square().sum().backward()
    for name_of, parameter in model.named_parameters():
        assert parameter.grad is not None, name_of
        assert parameter.grad.abs().sum() > 0, name_of


def test_the_start_is_drawn_from_the_global_generator() -> None:
    first, again = (model_of("mlp", (4,), 3, {"hidden": (5,)}) for _ in range(2))
    for a, b in zip(first.parameters(), again.parameters(), strict=True):
        assert torch.equal(a, b)


def test_vgg_lets_the_signal_through_at_the_start() -> None:
    # Without a care for the start, 13 layers leave logits that do not depend on the image.
    for norm in ("group", "none"):
        model = model_of("vgg16", (3, 32, 32), 10, {"norm": norm, "width": 8, "groups": 4})
        logits = model(inputs("vgg16", (3, 32, 32), 10, count=8))
        assert logits.std(dim=0).mean() > 0.01, norm


@pytest.mark.parametrize("name", TEXT)
def test_gpt_is_causal(name: str) -> None:
    model = model_of(name, (12,), 20, TINY)
    tokens = inputs("gpt", (12,), 20)
    before = model(tokens)
    for t in (0, 5, 11):
        changed = tokens.clone()
        changed[:, t] = (changed[:, t] + 1) % 20
        after = model(changed)
        assert torch.equal(after[:, :t], before[:, :t])
        assert (after[:, t:] != before[:, t:]).any(dim=-1).all()


@pytest.mark.parametrize("name", TEXT)
def test_gpt_reads_shorter_texts_than_its_context(name: str) -> None:
    model = model_of(name, (12,), 20, {**TINY, "context": 30})
    tokens = inputs("gpt", (12,), 20)
    torch.testing.assert_close(model(tokens[:, :7]), model(tokens)[:, :7])


def test_attention_equals_the_formula_written_out() -> None:
    torch.manual_seed(3)
    layer = CausalSelfAttention(width=6, heads=2)
    x = torch.randn(1, 4, 6)
    q, k, v = (layer.qkv(x)[0, :, part * 6 : part * 6 + 6] for part in range(3))
    heads = []
    for h in range(2):
        columns = slice(3 * h, 3 * h + 3)
        rows = []
        for t in range(4):
            scores = torch.stack([q[t, columns] @ k[s, columns] for s in range(t + 1)]) / 3**0.5
            rows.append(torch.softmax(scores, dim=0) @ v[: t + 1, columns])
        heads.append(torch.stack(rows))
    expected = layer.out(torch.cat(heads, dim=1))
    torch.testing.assert_close(layer(x)[0], expected)
    # An engine batches this layer by its name and these attributes.
    assert (layer.batched_kind, layer.heads) == ("causal_self_attention", 2)


@pytest.mark.parametrize(
    ("name", "shape", "classes", "options", "words"),
    [
        ("lenet", (1, 28, 28), 10, {}, "there is no model 'lenet'. Did you mean 'lenet5'?"),
        (
            "xyz",
            (1, 28, 28),
            10,
            {},
            "Known: cnn-exact, cnn-incentive, gpt, gpt2, lenet5, mlp, pretrained, vgg16",
        ),
        ("mlp", (4,), 2, {"hiden": (3,)}, "no option 'hiden'. Did you mean 'hidden'?"),
        ("lenet5", (1, 28, 28), 10, {"hidden": (3,)}, "It has no options"),
        ("mlp", (4,), 2, {"hidden": 80}, "must be a list of whole numbers, not 80"),
        ("mlp", (4,), 2, {"hidden": (80, 0)}, "must be a whole number above 0, not 0"),
        ("mlp", (4,), 2, {"activation": "rely"}, "Did you mean 'relu'?"),
        ("mlp", (4,), 0, {}, "classes must be a whole number above 0"),
        ("mlp", (), 2, {}, "shape () has no dimension"),
        ("lenet5", (600,), 100, {}, "use model 'mlp'"),
        ("lenet5", (1, 8, 8), 10, {}, "at least 12×12"),
        ("cnn-exact", (1, 15, 15), 10, {}, "at least 16×16"),
        ("cnn-exact", (1, 28, 28), 10, {"channels": []}, "channels"),
        ("cnn-incentive", (1, 28, 28), 10, {"padding": 3}, "padding is 0, 1 or 2"),
        ("vgg16", (1, 28, 28), 10, {}, "at least 32×32"),
        ("vgg16", (3, 32, 32), 10, {"width": 48}, "give groups that divide the width"),
        ("vgg16", (3, 32, 32), 10, {"norm": "batch"}, "Known: group, none"),
        ("gpt", (1, 28, 28), 10, {}, "takes texts of shape (tokens,)"),
        ("gpt", (64,), 65, {"heads": 3}, "give heads that divide it"),
        ("gpt", (64,), 65, {"context": 32}, "set context to at least 64"),
        ("gpt2", (1, 28, 28), 10, {}, "takes texts of shape (tokens,)"),
        ("gpt2", (64,), 65, {"heads": 5}, "give heads that divide it"),
        ("gpt2", (64,), 65, {"context": 32}, "set context to at least 64"),
    ],
)
def test_errors_say_what_to_change(
    name: str, shape: tuple[int, ...], classes: int, options: dict[str, Any], words: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        build(name, shape, classes, **options)
    assert words in str(caught.value)


@pytest.mark.parametrize(("side", "flat"), [(12, 16), (28, 400), (31, 400), (32, 400), (64, 2704)])
def test_lenet_follows_the_size_of_the_image(side: int, flat: int) -> None:
    # 12 padded: 12→6→2→1; 28 padded: 28→14→10→5; 31 padded: 31→15→11→5; 32: 28→14→10→5; 64: 60→30→26→13.
    model = build("lenet5", (1, side, side), 10)
    linear = next(layer for layer in model.modules() if isinstance(layer, nn.Linear))
    assert linear.in_features == flat
    assert model(torch.zeros(2, 1, side, side)).shape == (2, 10)
