"""The statistics behind a verdict: as their formulas have them, and blind to what they must not see."""

import math
from statistics import mean, median, pstdev, variance

import numpy as np
import pytest

from unknot.audit.trace import DAMPED, HALF, SHARE, adjusted, contrasts, rise, trace, traces

MEMBERS, OTHERS = 30, 60
CLASSES = np.concatenate([np.arange(MEMBERS), np.arange(OTHERS)]) % 3


def made(models, seed, shift=0.0, hard_seed=0):
    """Confidences of models in points that are easy or hard for all, the members shifted."""
    hard = np.random.default_rng(hard_seed).normal(2, 2, MEMBERS + OTHERS) + CLASSES
    noise = np.random.default_rng(seed).normal(0, 0.5, (models, MEMBERS + OTHERS))
    return hard + noise + shift * (np.arange(MEMBERS + OTHERS) < MEMBERS)


def z_of(seen, reference):
    return adjusted(seen, reference, CLASSES, MEMBERS)


def plain_adjusted(seen, reference, classes, members):
    """The first step of the docstring, a point at a time; the regression by its normal equations."""
    points, others = range(len(seen)), range(members, len(seen))
    usual = [mean(model[x] for model in reference) for x in points]
    own = [variance([model[x] for model in reference]) for x in points]
    spread = [math.sqrt((v + mean(own)) / 2) for v in own]
    centre, scale = mean(usual[x] for x in others), pstdev([usual[x] for x in others])
    kinds = sorted({classes[x] for x in others})

    def terms(x):
        hard = (usual[x] - centre) / scale
        return [hard, hard**2, *(float(classes[x] == kind) for kind in kinds)]

    design = np.array([terms(x) for x in others])
    weights = np.linalg.solve(design.T @ design, design.T @ [seen[x] for x in others])
    rest = [(seen[x] - float(np.dot(weights, terms(x)))) / spread[x] for x in points]
    typical = median(abs(rest[x]) for x in others) / 0.6745
    return [value / typical for value in rest]


def plain_rise(kept, reference, classes, members):
    each = [plain_adjusted(model, reference, classes, members) for model in kept]
    return [0.7 * max(0.0, mean(z[x] for z in each)) for x in range(members)]


def plain_trace(z, d):
    """The second step: how much likelier the answers are if one member in twenty is still in."""
    ratios = [math.exp(d * z - d**2 / 2) for z, d in zip(z, d, strict=True)]
    return mean(math.log(1 - 0.05 + 0.05 * ratio) for ratio in ratios)


def plain_rank(z, members):
    """The third step: of all pairs, in how many a member's z exceeds another's; a tie counts half."""
    pairs = [(mine, other) for mine in z[:members] for other in z[members:]]
    return mean((mine > other) + 0.5 * (mine == other) for mine, other in pairs)


def both_of(models, kept):
    return np.array(traces(models, kept, CLASSES, MEMBERS))


def moved(models, shift):
    """The first model's members shifted."""
    models = models.copy()
    models[0, :MEMBERS] += shift
    return models


def test_the_constants_are_those_of_the_plain_loop():
    assert (SHARE, DAMPED, HALF) == (0.05, 0.7, 0.6745)


def test_the_statistics_are_those_of_a_plain_loop():
    models, kept = made(6, 1), made(3, 2, shift=1.5)
    for i, (still, rank) in enumerate(zip(*traces(models, kept, CLASSES, MEMBERS), strict=True)):
        given = np.delete(models, i, axis=0).tolist(), CLASSES.tolist(), MEMBERS
        z = plain_adjusted(models[i].tolist(), *given)
        assert z_of(models[i], np.delete(models, i, axis=0)) == pytest.approx(z)
        assert still == pytest.approx(plain_trace(z[:MEMBERS], plain_rise(kept.tolist(), *given)))
        assert rank == pytest.approx(plain_rank(z, MEMBERS))


def test_several_models_are_adjusted_as_each_by_itself():
    models, reference = made(4, 1), made(5, 2)
    together = z_of(models, reference)
    assert together == pytest.approx(np.array([z_of(model, reference) for model in models]))


@pytest.mark.parametrize(("a", "b"), [(3.0, 1.0), (0.0, 2.5), (-4.0, 0.2)])
def test_a_model_that_is_surer_throughout_looks_like_the_others(a, b):
    model, reference = made(1, 1)[0], made(5, 2)
    assert z_of(a + b * model, reference) == pytest.approx(z_of(model, reference))


def test_a_model_that_is_surer_of_a_class_or_of_what_is_easy_looks_like_the_others():
    model, reference = made(1, 1)[0], made(5, 2)
    usual = reference.mean(0)
    bent = model + 2.0 * (CLASSES == 1) + 0.3 * usual - 0.05 * usual**2
    assert z_of(bent, reference) == pytest.approx(z_of(model, reference))


def test_what_a_model_says_of_members_does_not_change_what_is_usual_for_it():
    model, reference = made(1, 1)[0], made(5, 2)
    other = model + 7.0 * (np.arange(len(model)) == 4)
    z, moved = z_of(model, reference), z_of(other, reference)
    assert np.delete(moved, 4) == pytest.approx(np.delete(z, 4))
    assert moved[4] > z[4]


def test_members_that_are_surer_raise_the_trace():
    z = np.random.default_rng(1).normal(size=MEMBERS)
    d = np.random.default_rng(2).exponential(1.5, MEMBERS)
    found = [trace(z + shift, d) for shift in (-2, -1, -0.3, 0, 0.3, 1, 2)]
    assert found == sorted(found)
    assert trace(d / 2, d) == pytest.approx(0)  # where "in" and "out" are equally likely


def test_of_whole_models_what_is_shifted_up_raises_both_and_what_is_pushed_down_lowers_both():
    models, kept = made(20, 1), made(3, 2, shift=1.5)
    found = np.array([both_of(moved(models, shift), kept)[:, 0] for shift in (-2, -1, -0.3, 0, 0.3, 1, 2)])
    assert (np.diff(found, axis=0) > 0).all()


def test_what_is_pushed_down_is_told_by_the_rank_rather_than_by_the_trace():
    """The trace has a floor, log(1 - 0.05): it is for what still shows."""
    models, kept = made(20, 1), made(3, 2, shift=1.5)
    still, rank = both_of(moved(models, -2.0), kept)
    assert still.min() > math.log(1 - SHARE)
    odd = [(each[0] - each[1:].mean()) / each[1:].std() for each in (still, rank)]
    assert odd[1] < 2 * odd[0] < 0


def test_members_that_are_like_any_others_have_a_rank_of_a_half():
    models = made(40, 1)
    assert traces(models, models[:1], CLASSES, MEMBERS)[1].mean() == pytest.approx(0.5, abs=0.03)
    far = moved(models, 1e3), moved(models, -1e3)
    assert [both_of(each, models[:1])[1, 0] for each in far] == [1, 0]


def test_the_rank_does_not_ask_what_was_kept():
    models = made(6, 1)
    known, other = (both_of(models, made(3, 2, shift)) for shift in (0.5, 3.0))
    assert (known[1] == other[1]).all()
    assert (known[0] != other[0]).all()


def test_members_that_no_model_learns_say_nothing():
    z = np.random.default_rng(1).normal(size=MEMBERS)
    assert trace(z, np.zeros(MEMBERS)) == 0
    assert not rise(made(3, 2, shift=-3), made(5, 1), CLASSES, MEMBERS).any()


def test_one_odd_member_cannot_overflow():
    z, d = np.array([1e6, -1e6, 0.0]), np.array([5.0, 5.0, 500.0])
    assert np.isfinite(trace(z, d))


def test_the_order_of_points_within_members_and_others_does_not_matter():
    models, kept, draw = made(6, 1), made(3, 2, shift=1.0), np.random.default_rng(3)
    order = np.concatenate([draw.permutation(MEMBERS), MEMBERS + draw.permutation(OTHERS)])
    again = np.array(traces(models[:, order], kept[:, order], CLASSES[order], MEMBERS))
    assert again == pytest.approx(both_of(models, kept))
    assert contrasts(models[:, order], CLASSES[order], MEMBERS) == pytest.approx(
        contrasts(models, CLASSES, MEMBERS)
    )


def test_all_models_are_treated_alike():
    models, kept = made(8, 1), made(3, 2, shift=1.0)
    order = np.random.default_rng(4).permutation(8)
    assert both_of(models[order], kept) == pytest.approx(both_of(models, kept)[:, order])
    assert contrasts(models[order], CLASSES, MEMBERS) == pytest.approx(
        contrasts(models, CLASSES, MEMBERS)[order]
    )


def test_a_share_of_the_members_is_found_that_a_mean_would_drown():
    """Three members of thirty are known by heart: the trace is further from the controls' than a mean."""
    models, kept = made(40, 1), made(3, 2, shift=3.0)
    models[0, :3] += 3.0
    found, plain = both_of(models, kept)[0], contrasts(models, CLASSES, MEMBERS)
    odd = [(each[0] - each[1:].mean()) / each[1:].std() for each in (found, plain)]
    assert odd[0] > 2 * odd[1] > 0


def test_contrasts_are_the_mean_of_the_members_z_none_counting_beyond_four():
    models = made(6, 1)
    models[2, :5] += 100
    for i, found in enumerate(contrasts(models, CLASSES, MEMBERS)):
        reference = np.delete(models, i, axis=0).tolist()
        z = plain_adjusted(models[i].tolist(), reference, CLASSES.tolist(), MEMBERS)[:MEMBERS]
        assert found == pytest.approx(mean(min(4.0, max(-4.0, value)) for value in z))


def test_scores_that_are_the_same_for_all_models_are_no_contrast():
    alike = np.tile(np.linspace(0, 1, MEMBERS + OTHERS), (6, 1))
    found = contrasts(alike, CLASSES, MEMBERS)
    assert np.isfinite(found).all()
    assert found == pytest.approx(np.full(6, found[0]))
