"""Unlearned models against retrained ones, on hand-made confidences."""

import json
import math
from itertools import combinations

import numpy as np
import pytest

from unknot.audit.epsilon import Counts, lower_bound
from unknot.audit.ulira import check_models, told_apart, ulira_scores
from unknot.core.errors import ConfigError


def made(models, samples, seed, shift=0.0):
    draw = np.random.default_rng(seed)
    hard = np.linspace(-1, 3, samples)
    return hard + shift + draw.normal(0, 1 + 0.1 * np.arange(samples), (models, samples))


def mean(values):
    return sum(values) / len(values)


def plain_scores(seen, unlearned, retrained):
    """Straight from the formula, a sample and a model at a time."""

    def fits(known):
        columns = list(zip(*known, strict=True))
        means = [mean(column) for column in columns]
        variances = [
            sum((value - m) ** 2 for value in column) / (len(column) - 1)
            for column, m in zip(columns, means, strict=True)
        ]
        return means, variances

    def log_normal(x, m, variance):
        return -math.log(math.sqrt(2 * math.pi * variance)) - (x - m) ** 2 / (2 * variance)

    (u_means, u_variances), (r_means, r_variances) = fits(unlearned), fits(retrained)
    scores = []
    for i, x in enumerate(seen):
        few = len(unlearned) < 32 or len(retrained) < 32
        u_variance, r_variance = (mean(v) if few else v[i] for v in (u_variances, r_variances))
        scores.append(log_normal(x, u_means[i], u_variance) - log_normal(x, r_means[i], r_variance))
    return scores


def plain_told_apart(unlearned, retrained):
    """The second half of both, scored by the first."""
    known = [each[: (len(each) + 1) // 2] for each in (unlearned, retrained)]
    return [
        [mean(plain_scores(model, *known)) for model in each[(len(each) + 1) // 2 :]]
        for each in (unlearned, retrained)
    ]


def plain_p(members, others):
    """Of all ways to deal these scores out, how many leave the members' ranks as far from the middle."""
    both = members + others
    ranks = [sum(b < a for b in both) + sum(b == a for b in both) / 2 for a in both]
    middle = len(members) * len(both) / 2

    def far(drawn):
        return abs(sum(ranks[i] for i in drawn) - middle)

    mine = far(range(len(members)))
    draws = list(combinations(range(len(both)), len(members)))
    return sum(far(drawn) >= mine - 1e-9 for drawn in draws) / len(draws)


@pytest.mark.parametrize(("unlearned", "retrained"), [(8, 8), (5, 40), (32, 32), (40, 36)])
def test_scores_are_those_of_a_plain_loop(unlearned, retrained):
    ours, theirs, seen = made(unlearned, 20, 1, 0.5), made(retrained, 20, 2), made(1, 20, 3)[0]
    expected = plain_scores(seen.tolist(), ours.tolist(), theirs.tolist())
    assert ulira_scores(seen, ours, theirs) == pytest.approx(expected)


@pytest.mark.parametrize(("ours", "theirs"), [(12, 12), (11, 8)])
def test_models_told_apart_are_those_of_a_plain_loop(ours, theirs):
    unlearned, retrained = made(ours, 20, 1, 0.2), made(theirs, 20, 2)
    members, others = plain_told_apart(unlearned.tolist(), retrained.tolist())
    found = told_apart(unlearned, retrained)
    assert found.curve.members == pytest.approx(members)
    assert found.curve.others == pytest.approx(others)
    assert found.p == pytest.approx(plain_p(members, others))
    hits, alarms = (sum(score > 0 for score in scores) for scores in (members, others))
    assert found.bound == lower_bound(Counts(hits, len(members), alarms, len(others)), level=0.95)


def test_p_is_that_of_the_rank_sum_test():
    stats = pytest.importorskip("scipy.stats")
    for seed in range(5):
        found = told_apart(made(16, 20, seed, 0.1), made(16, 20, 99 - seed))
        test = stats.mannwhitneyu(found.curve.members, found.curve.others, method="exact")
        assert found.p == pytest.approx(test.pvalue)
    many = told_apart(made(60, 20, 1, 0.03), made(60, 20, 2))
    test = stats.mannwhitneyu(many.curve.members, many.curve.others)
    assert many.p == pytest.approx(test.pvalue, abs=0.02)


def test_no_model_is_scored_by_a_fit_to_itself():
    """However odd one of the second half is, the others' scores are as they were."""
    ours, theirs = made(8, 5, 1), made(8, 5, 2)
    before = told_apart(ours, theirs).curve
    ours[-1] -= 100
    after = told_apart(ours, theirs).curve
    assert np.array_equal(before.members[:-1], after.members[:-1])
    assert np.array_equal(before.others, after.others)


@pytest.mark.parametrize("models", [16, 40, 80])
def test_what_is_apart_is_told_apart(models):
    found = told_apart(made(models, 20, 1, 3.0), made(models, 20, 2))
    assert found.curve.auc().value == 1
    assert found.outcome == "told apart"
    assert found.p < 0.001
    assert found.bound.epsilon > 0


def test_what_is_alike_is_told_apart_no_oftener_than_the_level_says():
    found = [told_apart(made(16, 20, 2 * k), made(16, 20, 2 * k + 1), level=0.1) for k in range(150)]
    assert sum(each.outcome == "told apart" for each in found) <= 24  # 15 are due; 25 are not by chance
    assert np.mean([each.curve.auc().value for each in found]) == pytest.approx(0.5, abs=0.04)
    assert np.mean([each.p for each in found]) == pytest.approx(0.5, abs=0.08)


def test_models_that_are_all_the_same_are_not_told_apart():
    """Votes may be: what is tied has no order, whichever kind is named first."""
    same = np.tile(np.linspace(-40, 40, 6), (10, 1))
    found = told_apart(same, same.copy())
    assert found.p == 1
    assert found.outcome == "not told apart"


def test_a_method_that_only_spreads_is_told_apart_with_models_enough():
    """The same mean, three times the deviation: a threshold on the confidence would see nothing."""
    ours, theirs = 3 * made(80, 20, 1) - 2 * np.linspace(-1, 3, 20), made(80, 20, 2)
    assert told_apart(ours, theirs).curve.auc().low > 0.8


def test_it_is_plain_values():
    found = told_apart(made(10, 5, 1, 2.0), made(8, 5, 2))
    record = json.loads(json.dumps(found.to_dict(), allow_nan=False))
    assert (record["unlearned"], record["retrained"]) == (5, 4)
    assert record["p"] == found.p
    assert record["outcome"] == found.outcome
    assert set(record) == {"unlearned", "retrained", "auc", "p", "outcome", "epsilon"}


def test_too_few_models_and_other_samples_are_refused():
    with pytest.raises(ConfigError, match="at least 2 unlearned models, not 1"):
        ulira_scores(np.zeros(4), made(1, 4, 1), made(4, 4, 2))
    with pytest.raises(ConfigError, match="at least 4 retrained models, not 2"):
        told_apart(made(4, 4, 1), made(2, 4, 2))
    with pytest.raises(ConfigError, match="same samples"):
        told_apart(made(4, 4, 1), made(4, 5, 2))
    with pytest.raises(ConfigError, match="at least 8 models of each kind, not 7"):
        check_models(7)
    check_models(8)
