"""Metrics by numbers worked out by hand; by slices as by all at once."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from unknot.core import registry
from unknot.core.errors import ConfigError
from unknot.core.metrics import METRICS, OwnMetric, Said, as_metric, as_metrics
from unknot.core.samples import IGNORED

# Six samples of three classes. Named: 0 0 1 1 2 0; the truth: 0 1 1 1 2 2.
LOGITS = torch.tensor([[3, 1, 0], [2, 1, 0], [0, 2, 1], [1, 2, 0], [0, 1, 4], [3, 0, 1]]).double()
CLASSES = torch.tensor([0, 1, 1, 1, 2, 2])
# Four samples of two labels.
LABELS = torch.tensor([[1, 0], [1, 1], [0, 0], [0, 1]]).double()
SCORES = torch.tensor([[2.0, -1.0], [-1.0, 1.0], [1.0, 2.0], [-2.0, 3.0]]).double()
VALUES = torch.tensor([1.0, 2.0, 3.0, 6.0]).double()
GUESSES = torch.tensor([1.0, 3.0, 3.0, 4.0]).double()


def value(name, outputs, targets, kind, slices=1, together=False):
    metric = as_metric(name)
    losses = torch.arange(len(targets)).double()
    parts = zip(outputs.chunk(slices), targets.chunk(slices), losses.chunk(slices), strict=True)
    return metric.value([metric.tally(Said(o, t, kind, part, together)) for o, t, part in parts])


@pytest.mark.parametrize("slices", [1, 2, 4])
@pytest.mark.parametrize(
    ("name", "outputs", "targets", "kind", "expected"),
    [
        ("accuracy", LOGITS, CLASSES, "classes", 4 / 6),
        ("accuracy", SCORES, LABELS, "labels", 5 / 8),  # said: 10 01 11 01
        # Of class 0 one of one, of class 1 two of three, of class 2 one of two.
        ("balanced-accuracy", LOGITS, CLASSES, "classes", (1 + 2 / 3 + 1 / 2) / 3),
        # 2·1/(3 + 1), 2·2/(2 + 3), 2·1/(1 + 2).
        ("f1", LOGITS, CLASSES, "classes", (1 / 2 + 4 / 5 + 2 / 3) / 3),
        # The first label: named twice, true twice, both once; the second: three times, twice, twice.
        ("f1", SCORES, LABELS, "labels", (2 / 4 + 4 / 5) / 2),
        # First: of the 4 pairs (2, −1) against (1, −2), 3 in order. Second: (1, 3) against (−1, 2), 3.
        ("auc", SCORES, LABELS, "labels", 3 / 4),
        # Errors 0, 1, 0, −2: 5 of the 14 squares about the mean of 3.
        ("r2", GUESSES, VALUES, "values", 1 - 5 / 14),
        ("mse", GUESSES, VALUES, "values", 5 / 4),
        ("rmse", GUESSES, VALUES, "values", math.sqrt(5 / 4)),
        ("mae", GUESSES, VALUES, "values", 3 / 4),
        ("loss", GUESSES, VALUES, "values", 1.5),  # the losses are 0, 1, 2, 3
    ],
)
def test_by_hand_and_by_slices(name, outputs, targets, kind, expected, slices):
    assert value(name, outputs, targets, kind, slices) == pytest.approx(expected, abs=1e-12)


NAN, INF = math.nan, math.inf


@pytest.mark.parametrize("together", [False, True], ids=["one model", "several"])
@pytest.mark.parametrize("slices", [1, 3])
@pytest.mark.parametrize("bad", [[NAN] * 3, [3.0, NAN, 0.0], [INF] * 3, [-INF] * 3], ids=str)
def test_a_sample_that_a_model_has_no_number_for_is_wrong(bad, slices, together):
    """All are of class 0, which is where the greatest of such a row is found."""
    truth = torch.zeros(3, dtype=torch.int64)
    right = [0.8, 0.1, 0.1] if together else [3.0, 1.0, 0.0]
    outputs = torch.tensor([right, bad, bad]).double()
    for name in ("accuracy", "balanced-accuracy"):
        assert value(name, outputs, truth, "classes", slices, together) == pytest.approx(1 / 3)
    assert value("f1", outputs, truth, "classes", slices, together) == pytest.approx(2 / 4)
    lost = torch.tensor([bad] * 3).double()
    assert [value(n, lost, truth, "classes", slices) for n in ("accuracy", "f1", "balanced-accuracy")] == [
        0
    ] * 3


@pytest.mark.parametrize("slices", [1, 2])
def test_so_is_a_label(slices):
    """Neither there nor not there: both would be right half of the time."""
    outputs = torch.full((4, 2), NAN).double()
    for together in (False, True):
        assert value("accuracy", outputs, LABELS, "labels", slices, together) == 0
        assert value("f1", outputs, LABELS, "labels", slices, together) == 0
    outputs = SCORES.clone()
    outputs[0] = NAN
    assert value("accuracy", outputs, LABELS, "labels", slices) == 3 / 8  # without it, 3 of 6


@pytest.mark.parametrize("slices", [1, 2])
def test_where_ranks_or_errors_are_no_numbers_there_is_no_value(slices):
    logits, guesses = LOGITS.clone(), GUESSES.clone()
    logits[2, 1], guesses[0] = NAN, NAN
    assert math.isnan(value("auc", logits, CLASSES, "classes", slices))
    assert math.isnan(value("auc", torch.full((4, 2), NAN).double(), LABELS, "labels", slices))
    for name in ("r2", "mse", "rmse", "mae"):
        assert math.isnan(value(name, guesses, VALUES, "values", slices))
        assert not value(name, guesses.nan_to_num(INF), VALUES, "values", slices) < INF
    for off in (NAN, INF):
        assert math.isnan(
            value("r2", torch.full((4,), off).double(), torch.ones(4).double(), "values", slices)
        )


@pytest.mark.parametrize("slices", [1, 3])
@pytest.mark.parametrize("at", [0.1, 1 / 3, 1e6 + 0.1, 1e-20, 7.0])
@pytest.mark.parametrize("count", [3, 7, 10, 100])
def test_targets_that_are_all_the_same_do_not_vary_whatever_their_mean_is_rounded_to(count, at, slices):
    """The mean of seven times 0.1 is not 0.1 in double precision."""
    truth = torch.full((count,), at, dtype=torch.float64)
    assert value("r2", truth + 0.5, truth, "values", slices) == 0.0
    assert value("r2", truth.clone(), truth, "values", slices) == 1.0


def test_the_area_of_classes_is_the_mean_of_each_against_the_rest():
    """By counting pairs of probabilities; but for rounding, two of class 0 are equal."""
    answers = LOGITS.softmax(-1).numpy().round(12)
    areas = []
    for c in range(3):
        mine, rest = answers[c == CLASSES, c], answers[c != CLASSES, c]
        areas.append(np.mean([(a > b) + 0.5 * (a == b) for a in mine for b in rest]))
    assert value("auc", LOGITS, CLASSES, "classes", 3) == pytest.approx(np.mean(areas))
    two = LOGITS[CLASSES < 2], CLASSES[CLASSES < 2]  # there is nothing of class 2: it is left out
    assert 0 <= value("auc", *two, "classes") <= 1
    assert math.isnan(value("auc", LOGITS[:1], CLASSES[:1], "classes"))


def test_ties_count_half():
    assert value("auc", torch.zeros(4, 2), LABELS, "labels") == 0.5


@pytest.mark.parametrize("far", [1.0, 50.0, 1000.0])
def test_the_area_goes_by_outputs_that_are_too_large_for_probabilities(far):
    rising = far + torch.arange(4.0)[:, None]
    truth = torch.tensor([[0.0], [0.0], [1.0], [1.0]])
    assert value("auc", rising, truth, "labels", 2) == 1
    assert value("auc", -rising, truth, "labels", 2) == 0
    classes = torch.cat([torch.zeros(4, 2), rising], 1)
    assert value("auc", classes, 2 * truth[:, 0].long(), "classes", 2) == 1
    assert value("auc", classes.flip(0), 2 * truth[:, 0].long(), "classes", 2) == 0


@pytest.mark.parametrize("count", [7, 33, 101])
def test_equal_outputs_are_ties_wherever_they_lie(count):
    truth = torch.arange(count) < count // 2
    for output in (0.1, 0.7, 3.3):
        labels = torch.full((count, 1), output)
        assert value("auc", labels, truth[:, None].double(), "labels", 2) == 0.5
        classes = torch.tensor([output, 0.2, -0.4]).expand(count, 3)
        assert value("auc", classes, truth.long(), "classes", 2) == 0.5


def test_several_outputs_are_averaged():
    targets = torch.stack([VALUES, VALUES * 10], 1)
    guesses = torch.stack([GUESSES, VALUES * 10], 1)
    assert value("r2", guesses, targets, "values", 2) == pytest.approx((1 - 5 / 14 + 1) / 2)
    assert value("mse", guesses, targets, "values", 2) == pytest.approx(5 / 8)


def test_where_targets_do_not_vary_r2_is_one_or_nothing():
    flat = torch.ones(3).double()
    assert value("r2", flat, flat, "values") == 1.0
    assert value("r2", flat + 1, flat, "values") == 0.0


def test_r2_does_not_lose_its_digits_far_from_zero():
    assert value("r2", GUESSES + 1e8, VALUES + 1e8, "values", 2) == pytest.approx(1 - 5 / 14, abs=1e-6)


def test_perplexity_and_accuracy_leave_masked_positions_out():
    logits = torch.zeros(2, 3, 4).double()
    logits[0, 0, 1] = math.log(3)  # then class 1 has half of it
    y = torch.tensor([[1, IGNORED, 2], [IGNORED, IGNORED, 0]])
    expected = math.exp((math.log(2) + 2 * math.log(4)) / 3)
    assert value("perplexity", logits, y, "classes", 2) == pytest.approx(expected)
    assert value("accuracy", logits, y, "classes", 2) == pytest.approx(2 / 3)  # a tie is class 0
    assert value("perplexity", logits.softmax(-1), y, "classes", 2, together=True) == pytest.approx(expected)


def test_what_several_models_answer_is_judged_as_it_is():
    """A share above a half names a label; outputs do above 0."""
    answers = SCORES.sigmoid()
    for name in ("accuracy", "f1", "auc"):
        assert value(name, answers, LABELS, "labels", together=True) == value(name, SCORES, LABELS, "labels")


def test_a_metric_of_ones_own():
    def worst(outputs, targets):
        return (outputs - targets).abs().max()

    worst.falls = True
    metric = as_metric(worst)
    assert (metric.name, metric.falls, metric.share) == ("worst", True, False)
    assert value(worst, GUESSES, VALUES, "values", 4) == 2.0
    named = OwnMetric(worst, "gap", falls=True)
    assert as_metrics([named, "r2"])[0] is named
    with pytest.raises(ConfigError, match=r"'broken' cannot be computed .* shape \(4,\)"):
        value(OwnMetric(lambda o, t: o.no_such(), "broken"), GUESSES, VALUES, "values")


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (["acuracy"], "Did you mean 'accuracy'"),
        (["accuracy", "accuracy"], "'accuracy' is there twice"),
        ([3], "names, metrics, or functions"),
        ([OwnMetric(max, "samples")], "the name of something else"),
        ([OwnMetric(max, "r2")], "the name of something else"),
        (["no.such.package:thing"], "no module no is installed"),
        (["math:no_such"], "math has no 'no_such'"),
    ],
)
def test_metrics_that_are_none_are_refused(given, said):
    with pytest.raises(ConfigError, match=said):
        as_metrics(given)


def test_a_metric_for_other_targets_is_refused():
    with pytest.raises(ConfigError, match=r"'r2' is for targets that are values, and these are classes.*f1"):
        METRICS["r2"]().check("classes")


@pytest.mark.parametrize(
    ("name", "before", "target"),
    [
        ("accuracy", 0.8, 0.99 * 0.8),
        ("mse", 0.5, 0.5 / 0.99),
        ("r2", -2.0, -2.0 / 0.99),
        ("r2", 0.0, 0.0),
    ],
)
def test_what_counts_as_regained(name, before, target):
    metric = METRICS[name]()
    assert metric.regained(before, 0.99) == pytest.approx(target)
    assert metric.reached(before, metric.regained(before, 0.99))


@pytest.mark.parametrize("name", ["perplexity", "accuracy", "mse"])
@pytest.mark.parametrize("none", [math.inf, -math.inf, math.nan])
def test_what_is_not_finite_reaches_nothing_and_is_never_reached(name, none):
    metric = as_metric(name)
    assert not metric.reached(none, 0.5)
    assert not metric.reached(0.5, none)
    assert not metric.reached(none, metric.regained(none, 0.9))


def test_who_chooses_by_a_metric_that_falls_chooses_the_least_and_never_what_is_no_number():
    mse = METRICS["mse"]()
    assert max([3.0, 1.0, math.nan, 2.0], key=mse.merit) == 1.0
    assert mse.best([3.0, 1.0]) == 1.0


def test_shares_are_shown_in_per_cent():
    assert METRICS["f1"]().shown(0.8126) == "81.3%"
    assert METRICS["mse"]().shown(0.81264) == "0.8126"
    assert METRICS["r2"]().shown(None) == "–"


def test_a_metric_of_ones_own_is_called_as_it_is_registered():
    @registry.metrics("top-k")
    def topk(outputs, targets, *, k: int = 2):
        return 0.5

    try:
        assert as_metric("top-k").name == "top-k"
        assert as_metric(topk).name == "top-k"
        assert registry.metrics.make("top-k", {"k": 3}).name == "top-k"
    finally:
        registry.metrics._added.pop("top-k")
    assert as_metric(topk).name == "topk"
