"""What a model is trained by: a loss gives one number a sample, and a step descends their mean.

Each has two forms side by side. Called, it is plain PyTorch on a batch: the oracle. `error` is for a stack of
models: the losses and, written out, their gradient with respect to the outputs, so that nothing of the loss
has to be recorded. A loss without it goes by autograd.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, ClassVar, TypeVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from unknot.core import registry
from unknot.core.errors import ConfigError
from unknot.core.samples import IGNORED, Samples

LossFunction = Callable[[Tensor, Tensor], Tensor]
"""A loss of your own: outputs and targets of some samples to one number each, or to their mean."""
Self = TypeVar("Self", bound="Loss")
_TINY = 1e-12  # the least share of a vote that a loss is taken of


class Loss:
    """Outputs ``[n, ...]`` and targets ``[n, ...]`` to losses ``[n]``, each of one sample alone."""

    name: ClassVar[str]
    kinds: ClassVar[tuple[str, ...]]
    """The kinds of targets that it is for."""
    guarded: ClassVar[bool] = False
    """Whether a stack must be computed with care, for its functions round differently at a tensor's end."""
    weights: tuple[float, ...] | None = None
    """One a class or a label, where they do not all count alike."""

    def __call__(self, outputs: Tensor, targets: Tensor) -> Tensor:
        raise NotImplementedError

    def stacked(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """The losses ``[rows, batch]`` of a stack; can be differentiated, and twice."""
        return self(outputs.flatten(0, 1), targets.flatten(0, 1)).view(targets.shape[:2])

    def error(self, outputs: Tensor, targets: Tensor, weights: Tensor) -> tuple[Tensor, Tensor]:
        """The losses of a stack, and the gradient of ``(losses * weights).sum()`` for the outputs."""
        with torch.enable_grad():
            leaf = outputs.detach().requires_grad_()
            losses = self.stacked(leaf, targets)
            (gradient,) = torch.autograd.grad((losses * weights).sum(), leaf)
        return losses.detach(), gradient

    def of_answers(self, answers: Tensor, targets: Tensor, kind: str) -> Tensor:
        """The losses of what several models say together: probabilities, or values."""
        return self(as_outputs(answers, kind), targets)

    @property
    def own(self) -> bool:
        """Whether it is the user's, who may give its outputs any shape."""
        return False

    @property
    def plain(self) -> bool:
        """Whether it is cross-entropy and nothing else, which the fused way to train has written out."""
        return False

    def on(self: Self, device: torch.device, dtype: torch.dtype) -> Self:
        """The same where an engine computes."""
        return self

    def check(self, kind: str, classes: int) -> None:
        """Raise `ConfigError` unless it can be had of targets of this kind."""
        if kind not in self.kinds:
            usual = usual_loss(kind).name
            raise ConfigError(
                f"the loss {self.name!r} is for targets that are {' or '.join(self.kinds)}, and these are "
                f"{kind}; for those there is {usual!r}"
            )
        if self.weights is not None and len(self.weights) != classes:
            raise ConfigError(f"{self.name}: {len(self.weights)} weights, but there are {classes} {kind}")

    def _weights(self, like: Tensor) -> Tensor | None:
        return None if self.weights is None else _tensor(self.weights, like.device, like.dtype)


class _Entropy(Loss):
    """−Σ q log p: of class numbers, with weights for the classes and smoothed labels or without."""

    kinds = ("classes",)
    smoothing: float = 0.0

    def __call__(self, outputs: Tensor, targets: Tensor) -> Tensor:
        flat = F.cross_entropy(
            outputs.flatten(0, -2),
            targets.flatten(),
            weight=self._weights(outputs),
            ignore_index=IGNORED,
            reduction="none",
            label_smoothing=self.smoothing,
        )
        mean = flat.view(len(targets), -1).mean(1)
        return mean if targets.dim() == 1 else mean * _of_all(targets, mean.dtype)

    def stacked(self, outputs: Tensor, targets: Tensor) -> Tensor:
        return self._of_logs(outputs.log_softmax(-1), targets)

    def error(self, outputs: Tensor, targets: Tensor, weights: Tensor) -> tuple[Tensor, Tensor]:
        """The gradient of a sample's cross-entropy: its probabilities, less one for its class."""
        logs = outputs.log_softmax(-1)
        losses = self._of_logs(logs, targets)
        if targets.dim() > 2:
            kept = (targets != IGNORED).to(weights.dtype)
            weights = (weights / targets.shape[-1] * _of_all(targets, weights.dtype)).unsqueeze(-1) * kept
            targets = targets.clamp_min(0)
        error = logs.exp_()
        each, places, hit = self._weights(logs), targets.unsqueeze(-1), logs.new_full((1,), -1.0)
        if each is not None or self.smoothing:
            each = logs.new_ones(logs.shape[-1]) if each is None else each
            spread = each * (self.smoothing / logs.shape[-1])
            hit = -(1 - self.smoothing) * each[places]
            error = error.mul_(spread.sum() - hit).sub_(spread)
        error.scatter_add_(-1, places, hit.expand(places.shape))
        return losses, error.mul_(weights.unsqueeze(-1))

    def of_answers(self, answers: Tensor, targets: Tensor, kind: str) -> Tensor:
        return self._of_logs(answers.clamp_min(_TINY).log().unsqueeze(0), targets.unsqueeze(0)).squeeze(0)

    @property
    def plain(self) -> bool:
        return self.weights is None and not self.smoothing

    def _of_logs(self, logs: Tensor, targets: Tensor) -> Tensor:
        """From log-probabilities ``[rows, batch, ...]``: the losses ``[rows, batch]``."""
        text = targets.dim() > 2
        places = targets.clamp_min(0) if text else targets
        chosen = logs.gather(-1, places.unsqueeze(-1)).squeeze(-1)
        each = self._weights(logs)
        if each is not None:
            chosen = chosen * each[places]
        if self.smoothing:
            spread = (logs if each is None else logs * each).sum(-1)
            chosen = (1 - self.smoothing) * chosen + (self.smoothing / logs.shape[-1]) * spread
        if not text:
            return -chosen
        chosen = chosen.masked_fill(targets == IGNORED, 0.0)
        return -(chosen.mean(2) * _of_all(targets, chosen.dtype))


@dataclass(frozen=True)
class CrossEntropy(_Entropy):
    """Cross-entropy of class numbers; for text the mean over a sample's positions, masked ones left out.

    A batch's loss is the mean over its samples, with weights for the classes as well (PyTorch divides by the
    sum of their weights, which would tie a sample to its company).
    """

    weights: tuple[float, ...] | None = None
    """One a class: a sample's loss is multiplied by that of its class."""
    smoothing: float = 0.0
    """This share of the truth is spread over all classes; in [0, 1)."""
    name: ClassVar[str] = "cross-entropy"

    def __post_init__(self) -> None:
        _set_weights(self)
        if not 0 <= self.smoothing < 1:
            raise ConfigError(f"cross-entropy: smoothing must be in [0, 1), not {self.smoothing}")


@dataclass(frozen=True)
class NextToken(_Entropy):
    """Cross-entropy of text, the mean over a sample's positions that are not masked; 0 where all are."""

    name: ClassVar[str] = "next-token"


@dataclass(frozen=True)
class BinaryCrossEntropy(Loss):
    """Cross-entropy of several labels at once, the mean over them."""

    weights: tuple[float, ...] | None = None
    """One a label: what multiplies the loss where the label is 1."""
    name: ClassVar[str] = "binary-cross-entropy"
    kinds: ClassVar[tuple[str, ...]] = ("labels",)
    guarded: ClassVar[bool] = True

    def __post_init__(self) -> None:
        _set_weights(self)

    def __call__(self, outputs: Tensor, targets: Tensor) -> Tensor:
        losses = F.binary_cross_entropy_with_logits(
            outputs, targets.to(outputs.dtype), reduction="none", pos_weight=self._weights(outputs)
        )
        return losses.mean(1)

    def stacked(self, outputs: Tensor, targets: Tensor) -> Tensor:
        low = F.softplus(-outputs, threshold=40.0)  # beyond it, it is −outputs to the last bit
        each = self._weights(outputs)
        factor = 1.0 if each is None else 1 + (each - 1) * targets
        return ((1 - targets) * outputs + factor * low).mean(2)

    def error(self, outputs: Tensor, targets: Tensor, weights: Tensor) -> tuple[Tensor, Tensor]:
        each = self._weights(outputs)
        ones = targets if each is None else targets * each
        error = (ones + 1 - targets) * torch.sigmoid(outputs) - ones
        return self.stacked(outputs, targets), error * (weights / targets.shape[-1]).unsqueeze(-1)


class _OfDifference(Loss):
    """A function of output less target, the mean over a sample's outputs."""

    kinds = ("values",)

    def __call__(self, outputs: Tensor, targets: Tensor) -> Tensor:
        return self.of(outputs - targets).view(len(targets), -1).mean(1)

    def error(self, outputs: Tensor, targets: Tensor, weights: Tensor) -> tuple[Tensor, Tensor]:
        difference = outputs - targets
        if targets.dim() == 2:
            return self.of(difference), self.slope(difference) * weights
        error = self.slope(difference) * (weights / targets.shape[-1]).unsqueeze(-1)
        return self.of(difference).mean(2), error

    def of(self, difference: Tensor) -> Tensor:
        raise NotImplementedError

    def slope(self, difference: Tensor) -> Tensor:
        """The derivative of `of`."""
        raise NotImplementedError


@dataclass(frozen=True)
class SquaredError(_OfDifference):
    """(output − target)², the mean over a sample's outputs."""

    name: ClassVar[str] = "squared-error"

    def of(self, difference: Tensor) -> Tensor:
        return difference.square()

    def slope(self, difference: Tensor) -> Tensor:
        return 2 * difference


@dataclass(frozen=True)
class Huber(_OfDifference):
    """As `torch.nn.HuberLoss`: half the square of small differences, linear beyond."""

    delta: float = 1.0
    """Up to this difference it is half the square, beyond it linear; above 0."""
    name: ClassVar[str] = "huber"

    def __post_init__(self) -> None:
        if not self.delta > 0:
            raise ConfigError(f"huber: delta must be positive, not {self.delta}")

    def of(self, difference: Tensor) -> Tensor:
        far = difference.abs()
        return torch.where(
            far <= self.delta, 0.5 * difference.square(), self.delta * (far - 0.5 * self.delta)
        )

    def slope(self, difference: Tensor) -> Tensor:
        return difference.clamp(-self.delta, self.delta)


@dataclass(frozen=True)
class SoftTargets(Loss):
    """Cross-entropy with probabilities ``[n, classes]`` for targets, as a teacher gives them.

    Both sides are softened: outputs here, the targets by whoever made them. The loss is multiplied by the
    temperature's square, so that the gradient keeps its size (Hinton et al. 2015).
    """

    temperature: float = 1.0
    """Outputs are divided by this, which softens them; above 0."""
    name: ClassVar[str] = "soft-targets"
    kinds: ClassVar[tuple[str, ...]] = ("values",)

    def __post_init__(self) -> None:
        if not self.temperature > 0:
            raise ConfigError(f"soft-targets: temperature must be positive, not {self.temperature}")

    def __call__(self, outputs: Tensor, targets: Tensor) -> Tensor:
        logs = (outputs / self.temperature).log_softmax(-1)
        return -(targets * logs).sum(-1) * self.temperature**2

    def error(self, outputs: Tensor, targets: Tensor, weights: Tensor) -> tuple[Tensor, Tensor]:
        logs = (outputs / self.temperature).log_softmax(-1)
        losses = -(targets * logs).sum(-1) * self.temperature**2
        error = logs.exp_() * targets.sum(-1, keepdim=True) - targets
        return losses, error * (weights * self.temperature).unsqueeze(-1)


@dataclass(frozen=True)
class OwnLoss(Loss):
    """A function of your own: ``function(outputs [n, ...], targets [n, ...])`` gives ``[n]``, or their mean.

    What gives more than one number a sample is averaged over them. What gives the mean is computed for one
    sample at a time, by `torch.vmap` where that can run it. `way` is how it is computed: "batch", "vmap" or
    "loop"; an engine finds out, and says in `why` what keeps it from vmap.
    """

    function: LossFunction
    way: str | None = None
    why: str = ""
    kinds: ClassVar[tuple[str, ...]] = ("classes", "labels", "values")

    def __post_init__(self) -> None:
        if isinstance(self.function, nn.Module) and any(True for _ in self.function.parameters()):
            raise ConfigError(
                f"the loss {self.name!r} has parameters of its own, which nobody would train: put them into "
                "the model"
            )

    def __eq__(self, other: object) -> bool:
        return isinstance(other, OwnLoss) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def _key(self) -> tuple[object, ...]:
        """What it is known by: of a callable without a hash of its own, which one it is."""
        hashable = type(self.function).__hash__ is not None
        return self.function if hashable else id(self.function), self.way, self.why

    @property
    def name(self) -> str:  # type: ignore[override]
        return str(getattr(self.function, "__name__", type(self.function).__name__))

    @property
    def own(self) -> bool:
        return True

    @property
    def guarded(self) -> bool:  # type: ignore[override]
        return self.way == "vmap"

    def on(self, device: torch.device, dtype: torch.dtype) -> OwnLoss:
        if not isinstance(self.function, nn.Module):
            return self
        return replace(self, function=copy.deepcopy(self.function).to(device=device, dtype=dtype))

    def __call__(self, outputs: Tensor, targets: Tensor) -> Tensor:
        if self.way in (None, "batch"):
            given = self.function(outputs, targets)
            if self.way == "batch" and not given.dim():
                return given.unsqueeze(0)  # of one sample: a function that ends in squeeze()
            if given.dim():
                return given if given.dim() == 1 else given.flatten(1).mean(1)
        return self.one_by_one(outputs, targets, by_vmap=self.way != "loop")

    def stacked(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """A row at a time: whatever the function does with a batch, clients do not meet in it."""
        if self.way in (None, "batch"):
            rows = (row.clone(memory_format=torch.contiguous_format) for row in outputs)
            return torch.stack([self(*pair) for pair in zip(rows, targets, strict=True)])
        return super().stacked(outputs, targets)

    def one_by_one(self, outputs: Tensor, targets: Tensor, by_vmap: bool) -> Tensor:
        """What it gives for each sample alone."""
        if by_vmap:
            return torch.vmap(self._alone, randomness="error")(outputs, targets)
        return torch.stack([self._alone(*pair) for pair in zip(outputs, targets, strict=True)])

    def _alone(self, output: Tensor, target: Tensor) -> Tensor:
        return self.function(output.unsqueeze(0), target.unsqueeze(0)).mean()

    def said(self) -> str:
        """How it is computed, for the record of a run."""
        how = {
            "batch": "for one job after the other",
            "vmap": "sample by sample, by vmap",
            "loop": f"one sample after the other, for vmap cannot run it ({self.why})",
        }
        return f"the loss is your own, {self.name}, computed {how[self.way or 'batch']}"


def as_answers(outputs: Tensor, kind: str) -> Tensor:
    """What a model says of samples, in double precision: probabilities of classes or labels, or values."""
    outputs = outputs.double()
    if kind == "values":
        return outputs
    return outputs.softmax(-1) if kind == "classes" else outputs.sigmoid()


def as_outputs(answers: Tensor, kind: str) -> Tensor:
    """Outputs that would give these answers."""
    if kind == "values":
        return answers
    return answers.clamp_min(_TINY).log() if kind == "classes" else answers.logit(_TINY)


def usual_loss(kind: str, text: bool = False) -> Loss:
    """What is trained by where nobody says otherwise."""
    if kind == "classes":
        return NextToken() if text else CrossEntropy()
    return BinaryCrossEntropy() if kind == "labels" else SquaredError()


def loss_for(samples: Samples) -> Loss:
    """The usual loss for samples of this kind."""
    return usual_loss(samples.kind, samples.y.ndim > 1)


def as_loss(given: Loss | LossFunction | str, where: str = "loss") -> Loss:
    """A loss from a name, from "package.module:function", or from a function of your own."""
    if isinstance(given, str):
        registry.losses.get(given, where)
        made: Loss = registry.losses.make(given)
        return made
    if isinstance(given, type) and issubclass(given, Loss):
        return given()
    if isinstance(given, Loss):
        return given
    if not callable(given) or isinstance(given, type):
        raise ConfigError(f"{where} is a name, a loss, or a function of outputs and targets, not {given!r}")
    return OwnLoss(given)


LOSSES: Mapping[str, type[Loss]] = registry.losses.open(
    {
        kind.name: kind
        for kind in (CrossEntropy, BinaryCrossEntropy, SquaredError, Huber, NextToken, SoftTargets)
    },
    Loss,
    wrap=as_loss,
)


def _set_weights(loss: Any) -> None:
    if loss.weights is None:
        return
    weights = tuple(float(weight) for weight in loss.weights)
    if not weights or not all(0 <= weight < float("inf") for weight in weights):
        raise ConfigError(f"{loss.name}: weights must be finite and not negative, not {loss.weights!r}")
    object.__setattr__(loss, "weights", weights)


def _of_all(targets: Tensor, dtype: torch.dtype) -> Tensor:
    """By how much a mean over all positions of a text falls short of that over those that are not masked.

    Exactly 1 where none is masked.
    """
    counted = (targets != IGNORED).sum(-1).clamp_min(1)
    return targets.shape[-1] / counted.to(dtype)


@lru_cache(maxsize=64)
def _tensor(values: tuple[float, ...], device: torch.device, dtype: torch.dtype) -> Tensor:
    return torch.tensor(values, device=device, dtype=dtype)
