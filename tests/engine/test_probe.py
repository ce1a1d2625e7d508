"""Before anything is trained: a model with hidden state is refused by module and reason."""

from __future__ import annotations

import itertools
import random
import warnings
from functools import partial
from typing import ClassVar

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.utils import parametrizations

from engine_worlds import IMAGES, RECIPES, Layer, around, make_data, make_jobs, make_model, past_the_door
from unknot.core.data import Samples
from unknot.core.errors import ConfigError
from unknot.core.weights import Weights
from unknot.engine import LoopEngine, StackedEngine
from unknot.engine.bits import probe

BOTH = [LoopEngine, StackedEngine]
SHARED = np.random.default_rng(0)
SEEN = [0]


class RunningNorm(Layer):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(8))
        self.register_buffer("var", torch.ones(8))

    def forward(self, x: Tensor) -> Tensor:
        return F.batch_norm(x * self.scale, self.mean, self.var, training=self.training)


class MovingAverage(Layer):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("average", torch.zeros(8))

    def forward(self, x: Tensor) -> Tensor:
        self.average = 0.9 * self.average + 0.1 * x.detach()[0]
        return x * self.scale


class EvaluationCounter(Layer):
    """It counts when it is evaluated, not when it is trained."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("asked", torch.zeros(()))

    def forward(self, x: Tensor) -> Tensor:
        if not self.training:
            self.asked += 1
        return x * self.scale


class Counter(Layer):
    steps = 0

    def forward(self, x: Tensor) -> Tensor:
        self.steps += 1
        return x * self.scale


class ClassCounter(Layer):
    everybodys = 0

    def forward(self, x: Tensor) -> Tensor:
        type(self).everybodys += 1
        return x * self.scale


class GlobalCounter(Layer):
    def forward(self, x: Tensor) -> Tensor:
        SEEN[0] += 1
        return x * self.scale


class GrowingList(Layer):
    def __init__(self) -> None:
        super().__init__()
        self.history: list[float] = []

    def forward(self, x: Tensor) -> Tensor:
        self.history.append(1.0)
        return x * self.scale


class KeepsTheLast(Layer):
    def forward(self, x: Tensor) -> Tensor:
        self.last = x.detach()
        return x * self.scale


class ActNorm(Layer):
    """Its buffer is set by the first batch that it sees."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("loc", torch.zeros(8))
        self.ready = False

    def forward(self, x: Tensor) -> Tensor:
        if not self.ready:
            self.loc.copy_(x.detach()[0])
            self.ready = True
        return (x - self.loc) * self.scale


class FirstWeights(Layer):
    """It keeps the weights that it was first run with."""

    def __init__(self) -> None:
        super().__init__()
        self.kept: Tensor | None = None

    def forward(self, x: Tensor) -> Tensor:
        if self.kept is None:
            self.kept = self.scale.detach().clone()
        return x * self.scale + self.kept


class FirstIsSpecial(Layer):
    first = True

    def forward(self, x: Tensor) -> Tensor:
        x, self.first = (x * 0.5 if self.first else x), False
        return x * self.scale


class ChangesItsParameter(Layer):
    def forward(self, x: Tensor) -> Tensor:
        with torch.no_grad():
            self.scale.clamp_(-0.1, 0.1)
        return x * self.scale


class IteratorCounter(Layer):
    def __init__(self) -> None:
        super().__init__()
        self.numbers = itertools.count()

    def forward(self, x: Tensor) -> Tensor:
        return x * self.scale + next(self.numbers)


class Helper:
    """A plain object that a layer leaves its state with."""

    def __init__(self) -> None:
        self.seen = np.int64(0)


class WithHelper(Layer):
    def __init__(self) -> None:
        super().__init__()
        self.helper = Helper()

    def forward(self, x: Tensor) -> Tensor:
        self.helper.seen = self.helper.seen + 1
        return x * self.scale


class NumpyNoise(Layer):
    def __init__(self) -> None:
        super().__init__()
        self.rng = np.random.default_rng(0)

    def forward(self, x: Tensor) -> Tensor:
        return x * self.scale + self.rng.standard_normal()


class OldNumpyNoise(NumpyNoise):
    def __init__(self) -> None:
        super().__init__()
        self.rng = np.random.RandomState(0)


class TorchNoise(Layer):
    def __init__(self) -> None:
        super().__init__()
        self.rng = torch.Generator().manual_seed(0)

    def forward(self, x: Tensor) -> Tensor:
        return x * self.scale + torch.randn(1, generator=self.rng)


class PythonNoise(Layer):
    def __init__(self) -> None:
        super().__init__()
        self.rng = random.Random(0)

    def forward(self, x: Tensor) -> Tensor:
        return x * self.scale + self.rng.random()


class NoiseOfItsFile(Layer):
    def forward(self, x: Tensor) -> Tensor:
        return x * self.scale + SHARED.standard_normal()


class GlobalNoise(Layer):
    def __init__(self, draw) -> None:
        super().__init__()
        self.draw = draw

    def forward(self, x: Tensor) -> Tensor:
        return x * self.scale + self.draw()


class BatchMean(Layer):
    def forward(self, x: Tensor) -> Tensor:
        return (x - x.mean(0)) * self.scale


class BatchNormByHand(Layer):
    def forward(self, x: Tensor) -> Tensor:
        return F.batch_norm(x * self.scale, None, None, training=True)


class BatchSize(Layer):
    def forward(self, x: Tensor) -> Tensor:
        return x * self.scale / len(x)


def old_spectral_norm() -> nn.Module:
    return nn.utils.spectral_norm(nn.Linear(8, 8))


def instance_norm() -> nn.Module:
    norm = nn.InstanceNorm1d(2, track_running_stats=True)
    return nn.Sequential(nn.Unflatten(1, (2, 4)), norm, nn.Flatten())


def hooked() -> nn.Module:
    """A layer whose forward hook counts, in a closure."""
    calls: list[int] = []
    layer = nn.Linear(8, 8)
    layer.register_forward_hook(lambda module, args, out: calls.append(1))
    return layer


def closing_over() -> nn.Module:
    """A layer whose forward counts in a variable of the function that made its class."""
    seen = [0]

    class Closing(Layer):
        def forward(self, x: Tensor) -> Tensor:
            seen[0] += 1
            return x * self.scale

    return Closing()


class Slotted:
    """An object without a dictionary."""

    __slots__ = ("seen",)

    def __init__(self) -> None:
        self.seen = 0

    def count(self) -> None:
        self.seen += 1


class WithSlots(Layer):
    def __init__(self) -> None:
        super().__init__()
        self.helper = Slotted()

    def forward(self, x: Tensor) -> Tensor:
        self.helper.count()
        return x * self.scale


class Tells(Layer):
    """It calls what it was given: a method of some object, or a function with some of its arguments."""

    def __init__(self, tell) -> None:
        super().__init__()
        self.tell = tell

    def forward(self, x: Tensor) -> Tensor:
        self.tell()
        return x * self.scale


class KeepsAMaximum(nn.Module):
    """As quantisation does: inputs within 0..1 do not move it."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("most", torch.tensor(1.0))

    def forward(self, x):
        self.most.copy_(torch.maximum(self.most, x.abs().max().detach()))
        return x / self.most


STATEFUL = {
    "maximum": (
        lambda: nn.Sequential(nn.Linear(8, 8), KeepsAMaximum()),
        "'middle.1' is a KeepsAMaximum .* 'most'",
    ),
    "closure": (closing_over, "'middle' is a Closing .* 'seen', which its class"),
    "slots": (WithSlots, "'middle' is a WithSlots .* attribute 'helper'"),
    "bound method": (lambda: Tells(Slotted().count), "'middle' is a Tells .* attribute 'tell'"),
    "partial": (lambda: Tells(partial(Slotted.count, Slotted())), "'middle' is a Tells .* attribute 'tell'"),
    "a list's method": (lambda: Tells(partial([].append, 1)), "'middle' is a Tells .* attribute 'tell'"),
    "spectral norm": (
        lambda: parametrizations.spectral_norm(nn.Linear(8, 8)),
        "weight.0' is a .* buffer '_[uv]'",
    ),
    "old spectral norm": (old_spectral_norm, "'middle' is a Linear .* 'weight_[uv]'"),
    "instance norm": (instance_norm, "'middle.1' is a InstanceNorm1d .* buffer 'running_mean'"),
    "running norm": (RunningNorm, "'middle' is a RunningNorm .* buffer 'mean'"),
    "moving average": (MovingAverage, "'middle' is a MovingAverage .* buffer 'average'"),
    "in evaluation": (EvaluationCounter, "'middle' is a EvaluationCounter .* buffer 'asked'"),
    "counter": (Counter, "'middle' is a Counter .* attribute 'steps'"),
    "class counter": (ClassCounter, "'middle' is a ClassCounter .* 'everybodys', which its class"),
    "global counter": (GlobalCounter, "'middle' is a GlobalCounter .* 'SEEN', which its class"),
    "iterator": (IteratorCounter, "'middle' is a IteratorCounter .* attribute 'numbers'"),
    "helper": (WithHelper, "'middle' is a WithHelper .* attribute 'helper'"),
    "growing list": (GrowingList, "'middle' is a GrowingList .* attribute 'history'"),
    "cached tensor": (KeepsTheLast, "'middle' is a KeepsTheLast .* attribute 'last'"),
    "first batch": (ActNorm, "'middle' is a ActNorm .* buffer 'loc'"),
    "first weights": (FirstWeights, "'middle' is a FirstWeights .* attribute 'kept'"),
    "first pass": (FirstIsSpecial, "'middle' is a FirstIsSpecial .* attribute 'first'"),
    "parameter": (ChangesItsParameter, "'middle' is a ChangesItsParameter .* parameter 'scale'"),
    "hook": (hooked, "'middle' is a Linear .* attribute '_forward_hooks'"),
    "numpy": (NumpyNoise, "'middle' is a NumpyNoise .* generator of its own, 'rng'"),
    "old numpy": (OldNumpyNoise, "'middle' is a OldNumpyNoise .* generator of its own, 'rng'"),
    "torch": (TorchNoise, "'middle' is a TorchNoise .* generator of its own, 'rng'"),
    "python": (PythonNoise, "'middle' is a PythonNoise .* generator of its own, 'rng'"),
    "of its file": (NoiseOfItsFile, "'middle' is a NoiseOfItsFile .* generator of its own, 'SHARED'"),
    "global torch": (lambda: GlobalNoise(lambda: torch.randn(1)), "'middle' .* PyTorch's global generator"),
    "global numpy": (lambda: GlobalNoise(lambda: np.random.rand()), "'middle' .* NumPy's global generator"),
    "global python": (lambda: GlobalNoise(random.random), "'middle' .* Python's global generator"),
    "batch mean": (BatchMean, "'middle' is a BatchMean that mixes the samples"),
    "batch statistics": (BatchNormByHand, "'middle' is a BatchNormByHand that mixes the samples"),
    "batch size": (BatchSize, "'middle' is a BatchSize that mixes the samples"),
}


@pytest.mark.parametrize("name", STATEFUL)
def test_a_model_with_hidden_state_is_refused_by_module_and_reason(name):
    make, said = STATEFUL[name]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # some are deprecated
        network = around(make())
    with pytest.raises(ConfigError, match=said):
        LoopEngine(network).examine(IMAGES)


def remembering():
    seen: list[Tensor] = []

    def previous(x: Tensor) -> Tensor:
        before = seen[-1] if seen else x.detach()
        seen[:] = [x.detach()]
        return before

    return previous


PREVIOUS = remembering()


class TakesFromTheLast(Layer):
    """What a batch gives depends on the one before it, which a function of its file remembers."""

    def forward(self, x: Tensor) -> Tensor:
        return (x - PREVIOUS(x)[0]) * self.scale


def test_a_state_that_cannot_be_read_shows_in_the_result_after_another_batch():
    """The same batch twice in a row gives the same."""
    with pytest.raises(ConfigError, match="gives another result the second time"):
        LoopEngine(around(TakesFromTheLast())).examine(IMAGES)


class SlowsDown(torch.autograd.Function):
    times: ClassVar[list[int]] = []

    @staticmethod
    def forward(ctx, x: Tensor) -> Tensor:
        return x.clone()

    @staticmethod
    def backward(ctx, grad: Tensor) -> Tensor:
        SlowsDown.times.append(1)
        return grad / len(SlowsDown.times)


class GradientOfItsAge(Layer):
    def forward(self, x: Tensor) -> Tensor:
        return SlowsDown.apply(x * self.scale)


def test_a_state_that_shows_in_gradients_alone_is_found():
    with pytest.raises(ConfigError, match="gives another result the second time"):
        LoopEngine(around(GradientOfItsAge())).examine(IMAGES)


@pytest.mark.parametrize("engine", BOTH)
def test_training_itself_refuses_it_too(engine):
    data = past_the_door(make_data("mlp"), Samples(torch.rand(100, 1, 6, 6), torch.zeros(100).long(), 3))
    network = around(Counter())
    with pytest.raises(ConfigError, match="'middle' is a Counter"):
        engine(network).train(make_jobs(network, RECIPES["sgd"], [0]), data)


def test_the_model_and_all_generators_are_left_as_they_were():
    own = np.random.default_rng(1)
    network = around(GlobalNoise(lambda: torch.randn(1).item() + np.random.rand() + random.random()))
    network.first.add_module("more", nn.Sequential(NoiseOfItsFile(), GlobalNoise(lambda: own.random())))
    before = Weights.of(network)
    torch_state, numpy_state, python_state = torch.get_rng_state(), np.random.get_state(), random.getstate()
    file_state, own_state = SHARED.bit_generator.state, own.bit_generator.state
    with pytest.raises(ConfigError):
        LoopEngine(network).examine(IMAGES)
    assert Weights.of(network).equal(before)
    assert torch.equal(torch.get_rng_state(), torch_state)
    assert all(map(np.array_equal, np.random.get_state(), numpy_state))
    assert random.getstate() == python_state
    assert SHARED.bit_generator.state == file_state
    assert own.bit_generator.state == own_state


def test_a_shape_of_samples_is_examined_once(monkeypatch):
    calls = []
    real = probe.examine
    monkeypatch.setattr(probe, "examine", lambda *args: calls.append(1) or real(*args))
    network, data = make_model("mlp"), make_data("mlp")
    engine = StackedEngine(network, threads=1)
    engine.examine(data.train)
    engine.train(make_jobs(network, RECIPES["sgd"], [0]), data)
    engine.wipe()
    engine.train(make_jobs(network, RECIPES["sgd"], [1]), data)
    assert len(calls) == 1


@pytest.mark.parametrize("engine", BOTH)
def test_too_few_logits_are_refused(engine):
    ten = Samples(IMAGES.x, IMAGES.y, 10)
    with pytest.raises(ConfigError, match="gives 3 logits a sample, but there are 10 classes"):
        engine(around(nn.Tanh())).examine(ten)


@pytest.mark.parametrize("engine", BOTH)
def test_a_row_of_logits_a_target_is_needed(engine):
    texts = Samples(IMAGES.x, torch.zeros(4, 5).long(), 3)
    with pytest.raises(ConfigError, match="one row of logits a target"):
        engine(around(nn.Tanh())).examine(texts)


def test_samples_that_do_not_fit_are_refused_with_their_shape():
    with pytest.raises(ConfigError, match=r"samples of shape \(1, 5, 5\).*shapes cannot be multiplied"):
        LoopEngine(around(nn.Tanh())).examine(Samples(torch.rand(4, 1, 5, 5), IMAGES.y, 3))


def test_a_batch_size_that_is_written_into_the_model_is_refused():
    class OfThree(Layer):
        def forward(self, x: Tensor) -> Tensor:
            return x.view(3, 8) * self.scale

    with pytest.raises(ConfigError, match="cannot be trained on samples of shape"):
        LoopEngine(around(OfThree())).examine(IMAGES)


@pytest.mark.parametrize("engine", BOTH)
def test_a_norm_that_cannot_take_a_single_sample_is_refused_by_name(engine: type) -> None:
    """A channel a group on an image of one pixel is one value to go by, where a batch has one sample."""
    pooled = nn.Sequential(nn.Conv2d(1, 4, 3), nn.AdaptiveAvgPool2d(1), nn.GroupNorm(4, 4), nn.Flatten())
    network = nn.Sequential(pooled, nn.Linear(4, 3))
    with pytest.raises(
        ConfigError, match=r"'0\.2' is a GroupNorm that cannot take a batch of one sample \(Exp"
    ):
        engine(network).examine(IMAGES)
    jobs, data = make_jobs(network, RECIPES["sgd"], [1]), make_data("norm")
    with pytest.raises(ConfigError, match="give it fewer groups"):
        engine(network).train(jobs, data)
    pooled[2] = nn.GroupNorm(2, 4)
    engine(network).examine(IMAGES)
