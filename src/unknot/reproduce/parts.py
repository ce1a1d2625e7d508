"""The parts of a reproduction: panels, lines, scales, what the paper claims, who is drawn to leave."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from unknot.core.errors import ConfigError, nearest
from unknot.core.fields import choose
from unknot.core.keys import Key
from unknot.core.metrics import METRICS

MEASURES = {
    "before": "accuracy right before a client leaves",
    "recovering": "mean accuracy over the 20 rounds after a client has left",
    "recovered": "accuracy when these 20 rounds are over",
    "throughout": "mean accuracy from a leave until the next request, or the end of the run",
    "first": "accuracy in round 0 after a client has left",
    "drop": "accuracy right before a client leaves less that in round 0 after it",
    "end": "accuracy at the end of a phase after a client has left",
    "rounds": "rounds to the threshold after the first client has left",
    "rise": "accuracy at the end of a phase less that before the client left",
    "join_rise": "worst accuracy in the rounds after a client has joined less that right before",
    "ids": "mean number of models that a departure makes the server aggregate",
    "seconds": "simulated seconds from the first leave until the threshold is first reached",
    "total": "simulated seconds from the start until the threshold is reached, from the first leave on",
    "kept": "simulated seconds from the first leave until the threshold is reached for good",
    "stopped": "simulated seconds from the first leave until KNOT's stopping rule is met, on validation data",
    "finished": "simulated seconds from the start until KNOT's stopping rule is met, from the first leave on",
    "aggregated": "accuracy of what is served when it is met: with clusters, of their last aggregation",
    "earliest": "simulated seconds from the start until the threshold is first reached, before the leave too",
    "speedup": "the baseline's total, as a multiple of the line's",
    "final": "accuracy at the end of the run, on test data",
    "memory": "copies of the model that a client holds in training: weights, gradient, the optimiser's",
    "peak": "GiB of a GPU's memory that the run took at most; of runs on one",
    "f1_before": "F1 of the attack on the erased data, the model before the request",
    "f1_after": "F1 of the attack on the erased data, the model after the unlearning",
    "f1_control": "F1 of the attack on the erased data, the median of models that never had it",
    "f1_fall": "by which share the F1 falls from before the request to after the unlearning, seed by seed",
    "auc_before": "AUC of the attack on the erased data, the model before the request",
    "auc_after": "AUC of the attack on the erased data, the model after the unlearning",
    "auc_control": "AUC of the attack on the erased data, the median of models that never had it",
    "tpr_before": "TPR of the attack at 1 % of false alarms, the model before the request",
    "tpr_after": "TPR of the attack at 1 % of false alarms, the model after the unlearning",
    "tpr_control": "TPR of the attack at 1 % of false alarms, the median of models that never had the data",
    "asked": "in how many rounds the erased client took part before the request",
    "sees": "whether the model before the request stands out from its controls: the attack has power",
    "flagged": "whether the data still shows in the model after the unlearning, where the attack has power",
    "over_forgotten": "whether it knows less of the data than its controls do, where the attack has power",
    "p_before": "how often chance alone finds a model as odd as the one before the request",
    "p_after": "how often chance alone finds a model as odd as the one after the unlearning",
}
EXPOSURES = (
    *(f"{figure}_{of}" for figure in ("f1", "auc", "tpr") for of in ("before", "after", "control")),
    *("f1_fall", "asked", "sees", "flagged", "over_forgotten", "p_before", "p_after"),
)
"""Measures of an attack on what was erased: of runs with an audit only."""
BETRAYALS = tuple(name for name in EXPOSURES if name not in ("f1_fall", "asked", "p_before", "p_after"))
"""Those of how well the attack does: the less, the better."""
SHARES = (*BETRAYALS, "f1_fall", "p_before", "p_after")
"""Those between 0 and 1."""
ARRIVALS = ("rounds", "seconds", "total", "kept", "stopped", "finished", "earliest")
"""Measures of when a threshold is reached: the sooner, the better, and never is worst."""
WHOLE = ("total", "finished", "earliest")
"""Those that count from the start of the run."""
LOSSES = ("drop",)
"""Measures of how much a model loses: the less, the better."""
CHANGES = ("rise", "join_rise", *LOSSES)
"""Measures of how much a model changes, and not of how well it does at some moment."""
QUALITIES = (
    *("before", "recovering", "recovered", "throughout", "first", *LOSSES, "end", "rise", "join_rise"),
    *("final", "aggregated"),
)
"""Measures of how well a model does: in accuracy, or in the panel's metric."""

RULED = ("stopped", "finished")
"""Those by KNOT's stopping rule, which takes validation data: older records have none."""
FOOTPRINTS = ("memory", "peak")
"""Measures of how much memory training takes: the less, the better; older records have none."""

SCALES = ("small", "paper")

Table = Mapping[str, Any]


def convert_table(value: object, where: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ConfigError(f"{where} must be a section, not {value!r}")
    return value


def convert_tables(value: object, where: str) -> list[dict[str, Any]]:
    """Of a key that comes several times: ``[[panel]]``."""
    if not isinstance(value, list):
        raise ConfigError(f"{where} must be a list of sections, not {value!r}: [[{where}]]")
    return [convert_table(item, f"{where}[{i}]") for i, item in enumerate(value)]


def check_named(says: str, what: str, names: Iterable[str], known: Iterable[str]) -> None:
    """Raise `ConfigError` where a claim names a line or a panel that there is not."""
    options = list(known)
    for name in names:
        if name not in options:
            raise ConfigError(
                f"the claim {says!r} names {what} {name!r}, which there is not.{nearest(name, options)}"
            )


def no_scale(name: str, scale: str, known: Iterable[str]) -> ConfigError:
    """That a reproduction has no such scale, and what to write if it is one that there may be."""
    add = f": write [scale.{scale}] into its file, with what is different there" if scale in SCALES else ""
    return ConfigError(f"{name} has no scale {scale!r}{add}.{nearest(scale, known)}")


def check_seeds(seeds: Sequence[int], where: str) -> None:
    """Raise `ConfigError` unless they are some, none of them below 0 or named twice."""
    if not seeds:
        raise ConfigError(f"{where} is empty: name a seed, or leave it out")
    if min(seeds) < 0:
        raise ConfigError(f"{where} has {min(seeds)}: a seed is 0 or more")
    if twice := [seed for seed, times in Counter(seeds).items() if times > 1]:
        raise ConfigError(f"{where} has {twice[0]} twice")


@dataclass(frozen=True)
class Panel:
    """A data set or a setting. `published` has the paper's figure for the first threshold, by line.

    Where that is of another target, data set or model, `published_for` says of which.

    Thresholds are accuracies or, with `metric` so, perplexities.

    A panel with `at` belongs to that scale alone; one that is `off` is run only when it is named;
    one with `not_run` is never run, and says why. `without` names lines that it does without; `lines`
    has what is different for a line in this panel: sections of an experiment, by line. `drops` are
    settings of the layers below that it has no use for: ``model.hidden``. Its figure ends at `until`,
    where the rest of a run is of no interest. `seeds` are its own, where it is dearer than the others;
    `fewer` has, by line, to which of them one that is dearer still is held.
    """

    name: str
    title: str
    at: str | None = None
    thresholds: tuple[float, ...] = ()
    metric: str = "accuracy"
    published: Mapping[str, int | float | str] = field(default_factory=dict)
    published_for: str = ""
    without: tuple[str, ...] = ()
    drops: tuple[str, ...] = ()
    not_run: str | None = None
    lines: Mapping[str, Table] = field(default_factory=dict)
    off: bool = False
    until: float | None = None
    seeds: tuple[int, ...] | None = None
    fewer: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    note: str = ""
    layer: Table = field(default_factory=dict)

    def __post_init__(self) -> None:
        metric = choose(METRICS, self.metric, f"panel {self.name}'s metric")()
        for threshold in self.thresholds:
            metric.check_goal(threshold, f"panel {self.name}'s thresholds")
        if self.seeds is not None:
            check_seeds(self.seeds, f"panel {self.name}'s seeds")
        for line, seeds in self.fewer.items():
            check_seeds(seeds, f"panel {self.name}'s fewer.{line}")


@dataclass(frozen=True)
class Line:
    """A method, or a variant of one; one that is `off` is run only when it is named.

    `drops` are settings of the layers below that it has no use for: ``federation.minimum``. Where a `policy`
    of the game divides the clients among servers, its shares become ``method.shares``.
    """

    name: str
    label: str
    drops: tuple[str, ...] = ()
    off: bool = False
    policy: str | None = None
    note: str = ""
    layer: Table = field(default_factory=dict)


@dataclass(frozen=True)
class Claim:
    """What the paper says, in a form that can be put to the question.

    `order` names lines, best first (a list in it: these alike); `above` is a bound that each of
    `lines` exceeds, `below` one that each stays under, `never` says that none of them gets to the
    threshold; `gap` is two lines whose distance shrinks from panel to panel in their order; `less` is the
    share of what the line `than` takes that each of `lines` saves at least; `alike` is the most by which
    `lines` differ. `published` is the paper's figure of it, in words, where the panels' are of something
    else: it is shown, and not judged.
    With `ours`, the paper's text does not say it: its drawings may, or it is a comparison of our own.
    """

    says: str
    measure: str = "recovering"
    order: tuple[tuple[str, ...], ...] = ()
    above: float | None = None
    below: float | None = None
    never: bool = False
    lines: tuple[str, ...] = ()
    gap: tuple[str, ...] = ()
    less: float | None = None
    than: str | None = None
    alike: float | None = None
    panels: tuple[str, ...] = ()
    published: str = ""
    ours: bool = False

    def __post_init__(self) -> None:
        choose(dict.fromkeys(MEASURES), self.measure, "claim.measure")
        bounds = (bound is not None for bound in (self.above, self.below, self.less, self.alike))
        if sum(map(bool, (self.order, self.never, self.gap, *bounds))) != 1:
            raise ConfigError(
                f"a claim has one of order, above, below, never, gap, less and alike: {self.says!r}"
            )
        if not self.names or not all(self.order):
            raise ConfigError(f"a claim is about lines: name some, and leave no group empty: {self.says!r}")
        named = [name for group in self.order for name in group]
        if len(self.order) == 1 or len(named) != len(set(named)):
            raise ConfigError(
                f"claim.order names a line before another one, best first, and each once: {self.says!r}"
            )
        if self.alike is not None and (len(set(self.lines)) < 2 or not 0 <= self.alike < math.inf):
            raise ConfigError(
                "claim.alike is by how much two lines or more differ at most, 0 or above, not "
                f"{self.alike:g} of {len(set(self.lines))}: {self.says!r}"
            )
        if self.less is not None and not 0 < self.less <= 1:
            raise ConfigError(
                f"claim.less is a share, above 0 and at most 1 (0.45 for 45 %), not {self.less:g}: "
                f"{self.says!r}"
            )
        if self.never and self.measure not in ARRIVALS:
            raise ConfigError(f"claim.never is about {', '.join(ARRIVALS)}, not {self.measure!r}")
        if self.less is not None and self.measure not in (*ARRIVALS, "ids"):
            raise ConfigError(f"claim.less is about what takes time, not {self.measure!r}")
        if (self.less is None) != (self.than is None) or (self.than is not None and not self.lines):
            raise ConfigError(
                f"a claim with less names lines, and the one that they take less than: {self.says!r}"
            )
        if self.gap and len(self.gap) != 2:
            raise ConfigError(f"claim.gap names two lines, not {len(self.gap)}")

    def check_bounds(self, metric: str) -> None:
        """Raise `ConfigError` where a bound is beyond what can be of a share: per cent were meant."""
        share = METRICS[metric].share if self.measure in QUALITIES else self.measure in SHARES
        for name in ("above", "below", "alike"):
            bound = getattr(self, name)
            if share and bound is not None and abs(bound) > 1:
                raise ConfigError(
                    f"claim.{name} is a share here, at most 1 (0.05 for 5 %), not {bound:g}: {self.says!r}"
                )

    @property
    def names(self) -> set[str]:
        than = () if self.than is None else (self.than,)
        return {*self.lines, *self.gap, *than, *(name for group in self.order for name in group)}


@dataclass(frozen=True)
class Draws:
    """Who leaves is drawn `count` times by these probabilities; each leaver counts as often as drawn."""

    probabilities: tuple[float, ...]
    count: int = 100

    def __post_init__(self) -> None:
        if not all(0 <= each <= 1 for each in self.probabilities) or not any(self.probabilities):
            raise ConfigError("draws.probabilities must be numbers between 0 and 1, and not all 0")
        if self.count < 1:
            raise ConfigError(f"draws.count must be at least 1, not {self.count}")

    def leavers(self, seed: int) -> dict[int, int]:
        """Each client that is drawn, and how often."""
        bounds = np.cumsum(self.probabilities) / np.sum(self.probabilities)
        drawn = Key.root(seed).child("reproduce", "leaver").uniform(np.arange(self.count))
        clients = np.minimum(np.searchsorted(bounds, drawn, side="right"), len(bounds) - 1)
        ids, counts = np.unique(clients, return_counts=True)
        return {int(client): int(count) for client, count in zip(ids, counts, strict=True)}


@dataclass(frozen=True)
class Scale:
    """A size at which a reproduction can be run, and roughly how long that takes."""

    takes: str = ""
    seeds: tuple[int, ...] | None = None
    layer: Table = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.seeds is not None:
            check_seeds(self.seeds, "seeds")
