"""How well a model does, in one number: by name, or a function of your own.

A model is measured slice by slice: a metric says what each slice adds (`tally`), and makes its number of
all of them (`value`). Only where that cannot be done are all outputs gathered.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from unknot.core import registry
from unknot.core.errors import ConfigError
from unknot.core.loss import as_answers, as_outputs
from unknot.core.samples import IGNORED

MetricFunction = Callable[[Tensor, Tensor], float]
"""A metric of your own: of all outputs and targets; its attributes `name` and `falls` say what it is."""
Floats = NDArray[np.float64]
LOST = 100.0
"""The loss of a model that has diverged: what is not a number cannot be compared, nor written as JSON."""


@dataclass(frozen=True, eq=False)
class Said:
    """What a model said of some samples: its outputs, or what several models answer together."""

    outputs: Tensor
    targets: Tensor
    kind: str
    losses: Tensor
    together: bool = False
    """Whether the outputs are answers already: shares of votes, means of probabilities or of values."""

    @cached_property
    def answers(self) -> Tensor:
        """Probabilities of classes or labels, or values; in double precision."""
        return self.outputs if self.together else as_answers(self.outputs, self.kind)

    @cached_property
    def said(self) -> Tensor:
        """The class that is named, or whether a label is: of the targets that are not masked.

        Where a model does not answer with numbers that is wrong: no class (-1), or what the label is not.
        """
        self.check_shape("accuracy")
        if self.kind == "classes":
            named = self.outputs.argmax(-1)  # of a row with a NaN, its place
            largest = self.outputs.gather(-1, named.unsqueeze(-1)).squeeze(-1)
            return self.unmasked(named.masked_fill(~largest.isfinite(), -1))
        named = self.outputs > (0.5 if self.together else 0.0)
        return torch.where(self.outputs.isnan(), ~self.truth, named)

    @cached_property
    def truth(self) -> Tensor:
        """The targets that are not masked."""
        return self.unmasked(self.targets) if self.kind == "classes" else self.targets > 0.5

    def copy(self) -> Said:
        """The same, to be written into."""
        outputs, targets, losses = self.outputs.clone(), self.targets.clone(), self.losses.clone()
        return Said(outputs, targets, self.kind, losses, self.together)

    def unmasked(self, values: Tensor) -> Tensor:
        """Of the positions of texts, those that count."""
        return values if self.targets.dim() == 1 else values[self.targets != IGNORED]

    def check_shape(self, metric: str) -> None:
        """A loss of one's own takes outputs of any shape; a metric does not."""
        if (self.outputs.shape[:-1] if self.kind == "classes" else self.outputs.shape) != self.targets.shape:
            raise ConfigError(
                f"the model gives outputs of shape {tuple(self.outputs.shape[1:])} for targets of shape "
                f"{tuple(self.targets.shape[1:])}: {metric} and its kin cannot be had of them; name metrics "
                'that can ("loss", or a function of your own)'
            )


class Metric:
    """What models are compared by: its name, which way is up, and what it is for."""

    name: ClassVar[str]
    kinds: ClassVar[tuple[str, ...]]
    """The kinds of targets that it is for."""
    falls: ClassVar[bool] = False
    """Whether less is better."""
    share: ClassVar[bool] = False
    """Whether it lies between 0 and 1, and is shown in per cent."""

    def tally(self, said: Said) -> Any:
        """What one slice adds."""
        raise NotImplementedError

    def value(self, tallies: Sequence[Any]) -> float:
        """The number, of all slices together."""
        raise NotImplementedError

    def check(self, kind: str) -> None:
        """Raise `ConfigError` unless it can be had of targets of this kind."""
        if kind not in self.kinds:
            known = [name for name, metric in METRICS.items() if kind in metric.kinds]
            raise ConfigError(
                f"the metric {self.name!r} is for targets that are {' or '.join(self.kinds)}, and these are "
                f"{kind}; for those there are {', '.join(known)}"
            )

    def check_goal(self, goal: float, where: str) -> None:
        """Raise `ConfigError` for a number that it cannot reach."""
        if not math.isfinite(goal) or (self.share and not 0 < goal <= 1):
            right = "shares: above 0 and at most 1" if self.share else "finite"
            raise ConfigError(f"{where} by {self.name} are {right}, not {goal}")

    def reached(self, value: float | None, threshold: float) -> bool:
        """Whether a value is as good as this; what is not finite reaches nothing and is never reached."""
        if value is None or not math.isfinite(value) or not math.isfinite(threshold):
            return False
        return value <= threshold if self.falls else value >= threshold

    def regained(self, before: float, fraction: float) -> float:
        """What counts as having `fraction` of a value again.

        Of one that rises it is that share of it; one that falls may be so much larger. Below 0 it is the
        other way round: what is worse by as much of its size counts.
        """
        return before * fraction if (before >= 0) != self.falls else before / fraction

    def best(self, values: Iterable[float]) -> float:
        """Of those that are numbers; NaN if none is."""
        numbers = [value for value in values if not math.isnan(value)]
        return (min if self.falls else max)(numbers, default=math.nan)

    def merit(self, value: float) -> float:
        """The same, but more is better, and what is no number is worst: for whoever chooses by it."""
        if math.isnan(value):
            return -math.inf
        return -value if self.falls else value

    def spread(self, values: Sequence[float]) -> float:
        """Population deviation."""
        return statistics.pstdev(values)

    def shown(self, value: float | None) -> str:
        """For people: shares in per cent, everything else in four digits."""
        if value is None:
            return "–"
        return f"{value:.1%}" if self.share else f"{value:.4g}"

    @property
    def axis(self) -> str:
        """What is written beside an axis."""
        return f"{self.name} (%)" if self.share else self.name


@dataclass(frozen=True)
class Accuracy(Metric):
    """The share of targets that are named right: of samples, of a text's positions, of labels."""

    name: ClassVar[str] = "accuracy"
    kinds: ClassVar[tuple[str, ...]] = ("classes", "labels")
    share: ClassVar[bool] = True

    def tally(self, said: Said) -> tuple[int, int]:
        return int((said.said == said.truth).sum().item()), said.truth.numel()

    def value(self, tallies: Sequence[tuple[int, int]]) -> float:
        right, counted = (sum(part) for part in zip(*tallies, strict=True))
        return right / counted if counted else math.nan


class _ByClass(Metric):
    """From how often each class (or label) is named, is the truth, and is both: ``[3, classes]``."""

    kinds: ClassVar[tuple[str, ...]] = ("classes", "labels")
    share = True

    def tally(self, said: Said) -> Floats:
        named, truth = said.said, said.truth
        if said.kind == "labels":
            counts = [part.sum(0) for part in (named, truth, named & truth)]
        else:
            many = said.outputs.shape[-1]
            parts = named[named >= 0], truth, named[named == truth]
            counts = [torch.bincount(part, minlength=many) for part in parts]
        return torch.stack(counts).double().cpu().numpy()


@dataclass(frozen=True)
class BalancedAccuracy(_ByClass):
    """The mean over the classes of the share of each that is named right; of those that there are."""

    name: ClassVar[str] = "balanced-accuracy"
    kinds: ClassVar[tuple[str, ...]] = ("classes",)

    def value(self, tallies: Sequence[Floats]) -> float:
        _, truth, both = np.sum(tallies, axis=0)
        there = truth > 0
        return float(np.mean(both[there] / truth[there])) if there.any() else math.nan


@dataclass(frozen=True)
class F1(_ByClass):
    """The mean over classes of 2·both / (named + truth), of those that are named or are the truth.

    Of several labels it is the mean over all of them, 0 for one that is never either.
    """

    name: ClassVar[str] = "f1"

    def tally(self, said: Said) -> Floats:
        counts = super().tally(said)
        return counts if said.kind == "classes" else np.vstack([counts, np.ones(counts.shape[1])])

    def value(self, tallies: Sequence[Floats]) -> float:
        named, truth, both, *labels = np.sum(tallies, axis=0)
        there = named + truth > 0
        found = np.zeros(len(there))
        found[there] = 2 * both[there] / (named + truth)[there]
        return float(np.mean(found if labels else found[there])) if labels or there.any() else math.nan


class _Gathered(Metric):
    """Of the answers and targets of all samples at once."""

    def tally(self, said: Said) -> tuple[Tensor, Tensor]:
        return said.answers.cpu(), said.targets.cpu()

    def value(self, tallies: Sequence[tuple[Tensor, Tensor]]) -> float:
        answers, targets = (torch.cat(part) for part in zip(*tallies, strict=True))
        return self.of(answers, targets)

    def of(self, answers: Tensor, targets: Tensor) -> float:
        raise NotImplementedError


@dataclass(frozen=True)
class AUC(_Gathered):
    """The mean over classes (one against the rest) or labels of the area under the ROC curve.

    A class is left out that there is nothing of, or nothing else; answers that are no numbers have no rank,
    and there is no area. What is ranked are outputs, or follows
    from them without rounding to 0 or 1: large ones would be ties as probabilities.
    """

    name: ClassVar[str] = "auc"
    kinds: ClassVar[tuple[str, ...]] = ("classes", "labels")
    share: ClassVar[bool] = True

    def tally(self, said: Said) -> tuple[Tensor, Tensor]:
        said.check_shape(self.name)
        outputs = said.outputs.double()
        if said.kind == "labels":
            return outputs.cpu(), said.truth.cpu()
        scores = said.unmasked(outputs if said.together else _ranked(outputs))
        return scores.cpu(), torch.nn.functional.one_hot(said.truth, scores.shape[-1]).bool().cpu()

    def of(self, answers: Tensor, targets: Tensor) -> float:
        if answers.isnan().any():
            return math.nan
        columns = zip(answers.numpy().T, targets.numpy().T, strict=True)
        areas = [_area(scores, truth) for scores, truth in columns if 0 < truth.sum() < len(truth)]
        return float(np.mean(areas)) if areas else math.nan


@dataclass(frozen=True)
class R2(Metric):
    """1 − (sum of squared errors) / (sum of squares about the mean), the mean over outputs.

    Where the targets do not vary it is 1 for no error at all, and 0 otherwise; where errors are not finite
    there is none.
    """

    name: ClassVar[str] = "r2"
    kinds: ClassVar[tuple[str, ...]] = ("values",)

    def tally(self, said: Said) -> Floats:
        """Count, least, greatest, mean, squares about it, squared errors: ``[6, outputs]``."""
        targets, errors = _columns(said)
        mean = targets.mean(0)
        count = np.full(len(mean), float(len(targets)))
        about, wrong = np.square(targets - mean).sum(0), np.square(errors).sum(0)
        return np.stack([count, targets.min(0), targets.max(0), mean, about, wrong])

    def value(self, tallies: Sequence[Floats]) -> float:
        counts, least, greatest, means, squares, errors = (
            np.stack(part) for part in zip(*tallies, strict=True)
        )
        mean = (counts * means).sum(0) / counts.sum(0)
        # Squares about the mean of all: those about each slice's own, and the slices' about it.
        total = squares.sum(0) + (counts * np.square(means - mean)).sum(0)
        wrong = errors.sum(0)
        # Rounding makes squares of numbers that are all the same: whether they vary is asked of them.
        varies = (least.min(0) < greatest.max(0)) & (total > 0)
        with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
            found = np.where(varies, 1 - wrong / total, np.where(wrong == 0, 1.0, 0.0))
        return float(np.where(np.isfinite(wrong), found, np.nan).mean())


class _MeanError(Metric):
    """The mean of a function of the errors, over samples and outputs."""

    kinds = ("values",)
    falls = True

    def tally(self, said: Said) -> tuple[float, int]:
        errors = self.of(_columns(said)[1])
        return float(errors.sum()), errors.size

    def value(self, tallies: Sequence[tuple[float, int]]) -> float:
        total, count = (sum(part) for part in zip(*tallies, strict=True))
        return float(total / count)

    def of(self, errors: Floats) -> Floats:
        return np.square(errors)


@dataclass(frozen=True)
class MeanSquaredError(_MeanError):
    """The mean of the squared errors."""

    name: ClassVar[str] = "mse"


@dataclass(frozen=True)
class RootMeanSquaredError(_MeanError):
    """The root of the mean squared error, in the units of the targets."""

    name: ClassVar[str] = "rmse"

    def value(self, tallies: Sequence[tuple[float, int]]) -> float:
        return math.sqrt(super().value(tallies))


@dataclass(frozen=True)
class MeanAbsoluteError(_MeanError):
    """The mean of the errors' sizes."""

    name: ClassVar[str] = "mae"

    def of(self, errors: Floats) -> Floats:
        return np.abs(errors)


@dataclass(frozen=True)
class Perplexity(Metric):
    """exp of the mean of −log p over the targets that are not masked."""

    name: ClassVar[str] = "perplexity"
    kinds: ClassVar[tuple[str, ...]] = ("classes",)
    falls: ClassVar[bool] = True

    def tally(self, said: Said) -> tuple[float, int]:
        said.check_shape(self.name)
        logs = as_outputs(said.answers, said.kind) if said.together else said.outputs
        mine = said.unmasked(logs.double().log_softmax(-1)).gather(-1, said.truth.unsqueeze(-1))
        return -float(mine.sum()), mine.numel()

    def value(self, tallies: Sequence[tuple[float, int]]) -> float:
        total, count = (sum(part) for part in zip(*tallies, strict=True))
        return perplexity(total / count) if count else math.nan

    def spread(self, values: Sequence[float]) -> float:
        """That of the logarithms, so that 0.01 is 1 %."""
        if min(values) <= 0:  # exp of a loss that is far below 0
            return math.inf
        return statistics.pstdev(map(math.log, values))


@dataclass(frozen=True)
class MeanLoss(Metric):
    """The mean over samples of the loss that is trained by."""

    name: ClassVar[str] = "loss"
    kinds: ClassVar[tuple[str, ...]] = ("classes", "labels", "values")
    falls: ClassVar[bool] = True

    def tally(self, said: Said) -> tuple[float, int]:
        return float(said.losses.sum()), len(said.losses)

    def value(self, tallies: Sequence[tuple[float, int]]) -> float:
        total, count = (sum(part) for part in zip(*tallies, strict=True))
        return float(total / count)


@dataclass(frozen=True)
class OwnMetric(Metric):
    """A function of your own, of the outputs and targets of all samples.

    Outputs are what the model gives: logits, or values; for several models that answer together the
    logarithms of their probabilities.
    """

    function: MetricFunction
    """What gives the number: ``function(outputs, targets)`` of all samples."""
    name: str  # type: ignore[misc]
    """What it is called in records and tables."""
    falls: bool = False  # type: ignore[misc]
    """Whether less is better."""
    share: bool = False  # type: ignore[misc]
    """Whether it lies between 0 and 1, and is shown in per cent."""
    kinds: ClassVar[tuple[str, ...]] = ("classes", "labels", "values")

    def tally(self, said: Said) -> tuple[Tensor, Tensor]:
        outputs = as_outputs(said.outputs, said.kind) if said.together else said.outputs
        return outputs.cpu(), said.targets.cpu()

    def value(self, tallies: Sequence[tuple[Tensor, Tensor]]) -> float:
        outputs, targets = (torch.cat(part) for part in zip(*tallies, strict=True))
        try:
            return float(self.function(outputs, targets))
        except Exception as error:  # whatever a function of the user's does
            what = (str(error) or type(error).__name__).splitlines()[0]
            raise ConfigError(
                f"the metric {self.name!r} cannot be computed for outputs of shape {tuple(outputs.shape)} "
                f"and targets of shape {tuple(targets.shape)}: {what}"
            ) from error


ACCURACY = Accuracy()
USUAL: dict[str, Metric] = {"classes": ACCURACY, "labels": F1(), "values": R2()}
"""What models are compared by where nobody says otherwise, by the kind of the targets."""


def as_metric(given: Metric | MetricFunction | str, where: str = "metrics") -> Metric:
    """A metric from a name, from "package.module:function", or from a function of your own."""
    if isinstance(given, str):
        registry.metrics.get(given, where)
        made: Metric = registry.metrics.make(given)
        return made
    if isinstance(given, type) and issubclass(given, Metric):
        return given()
    if isinstance(given, Metric):
        return given
    if not callable(given) or isinstance(given, type):
        raise ConfigError(f"{where} are names, metrics, or functions of outputs and targets, not {given!r}")
    known = registry.metrics.name_of(
        getattr(given, "__wrapped__", given)
    )  # with options filled in, or as it is
    own = getattr(given, "__name__", type(given).__name__) if ":" in known else known
    name = getattr(given, "name", own)
    return OwnMetric(given, str(name), *(bool(getattr(given, flag, False)) for flag in ("falls", "share")))


METRICS: Mapping[str, type[Metric]] = registry.metrics.open(
    {
        kind.name: kind
        for kind in (
            Accuracy,
            BalancedAccuracy,
            F1,
            AUC,
            R2,
            MeanSquaredError,
            RootMeanSquaredError,
            MeanAbsoluteError,
            Perplexity,
            MeanLoss,
        )
    },
    Metric,
    wrap=as_metric,
)


def as_metrics(given: Iterable[Metric | MetricFunction | str], where: str = "metrics") -> tuple[Metric, ...]:
    """Metrics, the main one first; no two of one name."""
    if isinstance(given, str):
        given = [given]
    metrics = tuple(as_metric(one, where) for one in given)
    names = [metric.name for metric in metrics]
    for name in names:
        if names.count(name) > 1:
            raise ConfigError(f"{where}: {name!r} is there twice")
        if name == "samples" or (
            name in METRICS and not isinstance(metrics[names.index(name)], METRICS[name])
        ):
            raise ConfigError(f"{where}: {name!r} is the name of something else; give yours another")
    return metrics


def finite(loss: float) -> float:
    return min(loss, LOST) if math.isfinite(loss) else LOST


def perplexity(loss: float) -> float:
    """From a mean of −log p."""
    return math.exp(loss) if loss < 700 else math.inf


def _columns(said: Said) -> tuple[Floats, Floats]:
    """Targets and errors in double precision, ``[n, outputs]``."""
    said.check_shape("r2")
    targets = said.targets.double().reshape(len(said.targets), -1)
    errors = said.answers.reshape(targets.shape) - targets
    return targets.cpu().numpy(), errors.cpu().numpy()


def _ranked(outputs: Tensor) -> Tensor:
    """Numbers that rise with the probabilities of classes and do not round to those of certainty.

    They are log p, and of the one class that is likelier than all others together log p / (1 − p). Classes
    are summed in the order of their outputs, so that the same ones give the same bits in any order.
    """
    ordered = outputs.sort(-1).values
    rest = torch.nn.functional.pad(ordered[..., :-1], (1, 0), value=-math.inf)
    first, second = ordered[..., -1:], rest[..., -1:]
    logs = outputs - first + ordered.log_softmax(-1)[..., -1:]
    odds = first - second + rest.log_softmax(-1)[..., -1:]
    return torch.where((outputs == first) & (odds > 0), odds, logs)


def _area(scores: Floats, truth: NDArray[np.bool_]) -> float:
    """The share of pairs of one that is and one that is not in which the first has the higher score."""
    _, places, counts = np.unique(scores, return_inverse=True, return_counts=True)
    ranks = (np.cumsum(counts) - (counts - 1) / 2)[places]  # ties share their mean rank
    mine = int(truth.sum())
    below = ranks[truth].sum() - mine * (mine + 1) / 2
    return float(below / (mine * (len(truth) - mine)))
