"""The published formulas, on cases that were computed by hand and beside plain loops."""

import math

import numpy as np
import pytest
import torch

from unknot.audit import RMIA, Curve, LiRA, Shadows, Shokri
from unknot.audit.shokri import logistic
from unknot.audit.signals import confidence, truth
from unknot.core.data import Samples
from unknot.core.errors import ConfigError


def two_classes(p):
    """Answers that give the first class, which is the true one, these probabilities."""
    p = torch.as_tensor(p, dtype=torch.float64)
    return torch.stack([p, 1 - p], -1)


def made(inside, p, members):
    points = len(p[0])
    samples = Samples(torch.zeros(points, 1), torch.zeros(points, dtype=torch.long), 2)
    return Shadows(samples, members, np.array(inside, dtype=bool), two_classes(p))


def by_confidence(inside, phi):
    return made(inside, torch.tensor(phi, dtype=torch.float64).sigmoid().tolist(), len(phi[0]))


def answer(*phi):
    return two_classes(torch.tensor(phi, dtype=torch.float64).sigmoid())


def test_signals_by_hand():
    answers = torch.tensor([[0.2, 0.5, 0.3], [0.1, 0.1, 0.8]], dtype=torch.float64)
    y = torch.tensor([1, 0])
    assert truth(answers, y).tolist() == pytest.approx([0.5, 0.1])
    assert confidence(answers, y).tolist() == pytest.approx([0.0, np.log(1 / 9)])


def test_the_signal_of_a_text_is_the_mean_over_its_positions():
    answers = two_classes([[[0.5, 0.8]], [[0.9, 0.1]]])  # two models, one text, two positions
    y = torch.tensor([[0, 0]])
    assert truth(answers, y).flatten().tolist() == pytest.approx([0.4**0.5, 0.3])
    assert confidence(answers, y).flatten().tolist() == pytest.approx([np.log(4) / 2, 0.0], abs=1e-12)


def test_a_model_that_is_all_but_sure_still_has_a_confidence():
    sure = torch.tensor([[0.0, -100.0]], dtype=torch.float64).softmax(-1)
    assert sure[0, 0] == 1
    assert confidence(sure, torch.tensor([0])).item() == pytest.approx(100)


INSIDE = [[1], [1], [0], [0]]


def test_lira_by_hand():
    """Inside φ is 2 and 4, outside −2 and 2: means 3 and 0, variances 2 and 8.

    φ* = 3: log Λ = −log √2 + log √8 + 3² / (2 · 8) = log 2 + 0.5625.
    """
    shadows = by_confidence(INSIDE, [[2.0], [4.0], [-2.0], [2.0]])
    assert LiRA().score(answer(3.0), shadows) == pytest.approx([np.log(2) + 0.5625])
    assert LiRA(offline=True).score(answer(3.0), shadows) == pytest.approx([3 / np.sqrt(8)])
    assert LiRA().score(answer(-1.0), shadows) == pytest.approx([np.log(2) + 1 / 16 - 16 / 4])


def test_few_shadows_share_one_variance_and_many_do_not():
    """Outside, the points' variances are 8 and 0: 4 when shared."""
    few = by_confidence([[1, 1], [1, 1], [0, 0], [0, 0]], [[2.0, 1.0], [4.0, 1.0], [-2.0, 0.0], [2.0, 0.0]])
    assert LiRA(offline=True).score(answer(3.0, 1.0), few) == pytest.approx([3 / 2, 1 / 2])
    wide = [[2.0, 1.0], [2.0, 1.0], [-2.0, 0.5], [2.0, -0.5]] * 16
    many = by_confidence([[1, 1], [1, 1], [0, 0], [0, 0]] * 16, wide)
    first, second = LiRA(offline=True).score(answer(3.0, 1.0), many)
    assert first == pytest.approx(3 / np.sqrt(4 * 32 / 31))
    assert second == pytest.approx(1 / np.sqrt(0.25 * 32 / 31))


def test_rmia_by_hand():
    """Pr(x): (0.8 + 0.4) / 2 = 0.6, and 0.5, 0.8 for the others; the ratios are 1.5, 1 and 0.5."""
    shadows = made([[1, 1, 1], [0, 0, 0]], [[0.8, 0.6, 0.9], [0.4, 0.4, 0.7]], members=1)
    answers = two_classes([0.9, 0.5, 0.4])
    assert RMIA(gamma=1).score(answers, shadows).tolist() == [1, 0.75, 0.25]
    assert RMIA(gamma=2).score(answers, shadows).tolist() == [0.5, 0.25, 0]
    assert RMIA(gamma=4).score(answers, shadows).tolist() == [0, 0, 0]


@pytest.mark.parametrize("gamma", [1, 1.5, 2, 4])
def test_equal_ratios_have_equal_scores(gamma):
    """Members and others in pairs: no attack tells them apart, and no area but a half says so."""
    ratios = np.tile(np.random.default_rng(0).lognormal(0, 0.7, 50), 2)
    scores = RMIA(gamma=gamma).dominated(ratios, np.arange(100) >= 50)
    assert scores[:50].tolist() == scores[50:].tolist()
    assert Curve.of(scores[:50], scores[50:]).auc().value == pytest.approx(0.5)


def test_with_gamma_1_the_scores_order_points_as_their_ratios_do():
    ratios = np.random.default_rng(1).lognormal(size=80)
    scores = RMIA().dominated(ratios, np.arange(80) >= 40)
    areas = [Curve.of(each[:40], each[40:]).auc().value for each in (ratios, scores)]
    assert areas[0] == pytest.approx(areas[1])


@pytest.mark.parametrize("offline", [None, 0.3])
def test_a_greater_gamma_finds_about_as_much(offline):
    """Normal confidences, 100 members that the model learned from and 100 others, among 8 shadows."""
    draw, points = np.random.default_rng(2), 200
    hard = draw.normal(0, 2, points)
    inside = draw.permuted(np.arange(8)[:, None].repeat(points, 1) < 4, axis=0)
    phi = hard + 2 * inside + draw.normal(0, 1, (8, points))
    shadows = made(inside, 1 / (1 + np.exp(-phi)), members=100)
    seen = answer(*(hard + 2 * (np.arange(points) < 100) + draw.normal(0, 1, points)))
    one, two = (RMIA(gamma=gamma, a=offline).score(seen, shadows) for gamma in (1, 2))
    areas = [Curve.of(scores[:100], scores[100:]).auc().value for scores in (one, two)]
    assert areas[0] > 0.7
    assert areas[1] == pytest.approx(areas[0], abs=0.05)


def test_where_nearly_all_are_easy_a_greater_gamma_finds_less_and_never_the_opposite():
    """Ratios close to 1 but for a few of the population: with γ = 2 all others dominate just these."""
    draw = np.random.default_rng(3)
    ratios = np.concatenate(
        [draw.normal(1.05, 0.05, 100), draw.normal(1, 0.05, 90), draw.uniform(0, 0.4, 10)]
    )
    scores = RMIA(gamma=2).dominated(ratios, np.arange(200) >= 100)
    assert Curve.of(scores[:100], scores[100:]).auc().value == pytest.approx(0.55)


def test_rmia_offline_by_hand():
    """With a = 0.5, Pr(x) = ½ (1.5 · 0.4 + 0.5) = 0.55 for all but the last, 0.775; ratios 1.1, 0.8, 0.9."""
    shadows = made([[1, 1, 1], [0, 0, 0]], [[0.0, 1.0, 0.0], [0.4, 0.4, 0.7]], members=1)
    answers = two_classes([0.605, 0.44, 0.6975])
    assert RMIA(gamma=1, a=0.5).score(answers, shadows).tolist() == [1, 0.25, 0.75]


def test_options_that_make_no_sense_are_refused():
    with pytest.raises(ConfigError, match="gamma"):
        RMIA(gamma=0.5)
    with pytest.raises(ConfigError, match="a must be"):
        RMIA(a=2)


def test_the_logistic_regression_by_hand():
    """With the feature 3 of 4 are inside, without it 1 of 4: log-odds log 3 and −log 3."""
    x = np.array([[1.0, 1.0]] * 4 + [[0.0, 1.0]] * 4)
    inside = np.array([1, 1, 1, 0, 1, 0, 0, 0], dtype=bool)
    assert logistic(x, inside, decay=1e-12) == pytest.approx([2 * np.log(3), -np.log(3)])


@pytest.mark.parametrize("decay", [1e-12, 1e-3, 1.0])
def test_members_and_others_count_as_much_in_all_however_many_there_are(decay):
    draw = np.random.default_rng(0)
    x = np.hstack([draw.normal(size=(40, 3)), np.ones((40, 1))])
    inside = np.arange(40) < 20
    x[inside] += [0.5, -0.3, 0.0, 0.0]
    again = np.concatenate([np.flatnonzero(inside), *[np.flatnonzero(~inside)] * 5])
    assert logistic(x[again], inside[again], decay) == pytest.approx(logistic(x, inside, decay))


def test_with_few_members_among_many_the_cut_still_stands_between_them():
    """One in nine is inside, and nothing tells who: the chance is a half, not a ninth."""
    x, inside = np.ones((90, 1)), np.arange(90) < 10
    assert logistic(x, inside, decay=1e-3) == pytest.approx([0], abs=1e-9)


def test_where_all_are_inside_there_is_an_answer():
    weights = logistic(np.ones((4, 1)), np.ones(4, dtype=bool), decay=1e-3)
    assert np.isfinite(weights).all()


def test_shokri_learns_a_threshold_for_each_class():
    """Members of class 0 are surer, members of class 1 are less sure: only attack models apart tell both."""
    y = torch.tensor([0, 0, 1, 1])
    inside = np.array([[1, 0, 1, 0], [0, 1, 0, 1]] * 4, dtype=bool)
    high = torch.from_numpy(inside == np.array([True, True, False, False]))
    spread = torch.linspace(0, 0.04, 8, dtype=torch.float64)[:, None]
    right = torch.where(high, 0.9, 0.6) + spread
    answers = torch.where(y[None, :, None] == torch.arange(2), right[..., None], 1 - right[..., None])
    shadows = Shadows(Samples(torch.zeros(4, 1), y, 2), 2, inside, answers)
    found = Shokri().score(answers[0], shadows) > Shokri.cut
    assert found.tolist() == inside[0].tolist()


def test_shokri_is_not_for_text():
    text = Samples(torch.zeros(1, 2), torch.zeros(1, 2, dtype=torch.long), 2)
    shadows = Shadows(text, 1, np.array([[True], [False]]), torch.full((2, 1, 2, 2), 0.5).double())
    with pytest.raises(ConfigError, match="not for text"):
        Shokri().score(shadows.answers[0], shadows)


def test_shokri_learns_from_some_points_and_is_asked_about_others():
    """Shadows are sure of what they learned from: who is answered so is a member, whichever point it is."""
    shadows = made([[1, 1, 0, 0], [0, 0, 1, 1]], [[0.99, 0.98, 0.6, 0.55], [0.6, 0.5, 0.97, 0.99]], 4)
    asked, labels = two_classes([0.99, 0.5, 0.98]), torch.zeros(3, dtype=torch.long)
    found = Shokri().score_others(asked, labels, shadows) > Shokri.cut
    assert found.tolist() == [True, False, True]
    same = Shokri().score_others(shadows.answers[0], shadows.points.y, shadows)
    assert np.array_equal(same, Shokri().score(shadows.answers[0], shadows))
    with pytest.raises(ConfigError, match="class 1"):
        Shokri().score_others(asked, labels + 1, shadows)


# Beside plain loops, straight from the papers: 20 points, of three classes, that 8 or 64 shadows answer for.


def random_shadows(number, seed):
    """Answers of shadows that know better what they learned from, and those of a model under attack."""
    draw, points = np.random.default_rng(seed), 20
    y = torch.from_numpy(draw.integers(0, 3, points))
    inside = draw.permuted(np.arange(number)[:, None].repeat(points, 1) < number // 2, axis=0)

    def answers(knows):
        right = np.eye(3)[y] * (1 + knows)[..., None]
        return torch.from_numpy(right + draw.normal(0, 1, right.shape)).softmax(-1)

    shadows = Shadows(Samples(torch.zeros(points, 1), y, 3), 12, inside, answers(inside.astype(float)))
    return shadows, answers((np.arange(points) < 12).astype(float))


def mean(values):
    values = list(values)
    return sum(values) / len(values)


def plain_rmia(shadows, seen, gamma, a):
    """Zarifzadeh et al., 2024, equations for LR, Pr(x) and the offline Pr(x); a tie counts half."""
    y, points = shadows.points.y.tolist(), range(len(shadows.points))

    def probability(answers, x):
        return answers[x][y[x]].item()

    def ratio(x):
        with_x = [probability(shadows.answers[k], x) for k in range(len(shadows)) if shadows.inside[k][x]]
        without = [
            probability(shadows.answers[k], x) for k in range(len(shadows)) if not shadows.inside[k][x]
        ]
        if a is None:
            usual = 0.5 * (mean(with_x) + mean(without))
        else:
            usual = 0.5 * ((1 + a) * mean(without) + (1 - a))
        return probability(seen, x) / usual

    ratios = [ratio(x) for x in points]
    population = [z for z in points if z >= shadows.members]

    def dominates(x, z):
        likelihood = 1.0 if x == z else ratios[x] / ratios[z]
        return 0.5 if likelihood == gamma else float(likelihood > gamma)

    return [mean(dominates(x, z) for z in population) for x in points]


def plain_lira(shadows, seen, offline):
    """Carlini et al., 2022, algorithm 1; for the variance of few shadows see the module."""
    y, points = shadows.points.y.tolist(), range(len(shadows.points))

    def phi(answers, x):
        p = answers[x][y[x]].item()
        return math.log(p / (1 - p))

    def fits(side):
        known = [
            [phi(shadows.answers[k], x) for k in range(len(shadows)) if shadows.inside[k][x] == side]
            for x in points
        ]
        means = [mean(values) for values in known]
        squares = [sum((value - m) ** 2 for value in values) for values, m in zip(known, means, strict=True)]
        if len(shadows) < 64:
            return means, [sum(squares) / sum(len(values) - 1 for values in known)] * len(points)
        return means, [square / (len(values) - 1) for square, values in zip(squares, known, strict=True)]

    def density(value, m, variance):
        return math.exp(-((value - m) ** 2) / (2 * variance)) / math.sqrt(2 * math.pi * variance)

    (mean_in, variance_in), (mean_out, variance_out) = fits(True), fits(False)
    if offline:
        return [(phi(seen, x) - mean_out[x]) / math.sqrt(variance_out[x]) for x in points]
    return [
        math.log(
            density(phi(seen, x), mean_in[x], variance_in[x])
            / density(phi(seen, x), mean_out[x], variance_out[x])
        )
        for x in points
    ]


def plain_shokri(shadows, seen, decay):
    """Shokri et al., 2017: for each class a set of answers, in and out, and an attack model on it.

    Here a logistic regression, by small steps down its loss rather than by Newton's.
    """
    y = shadows.points.y.tolist()
    chances = [0.0] * len(y)
    for label in set(y):
        rows = [
            ([math.log(p) for p in shadows.answers[k][x].tolist()], bool(shadows.inside[k][x]))
            for k in range(len(shadows))
            for x in range(len(y))
            if y[x] == label
        ]
        columns = list(zip(*(row for row, _ in rows), strict=True))
        centres = [mean(column) for column in columns]
        scales = [
            math.sqrt(mean((v - c) ** 2 for v in column)) for column, c in zip(columns, centres, strict=True)
        ]

        def scaled(row, centres=centres, scales=scales):
            return np.array([*((v - c) / s for v, c, s in zip(row, centres, scales, strict=True)), 1.0])

        xs, inside = np.array([scaled(row) for row, _ in rows]), np.array([learned for _, learned in rows])
        weights, held = np.zeros(4), decay * np.array([1, 1, 1, 1e-6])
        for _ in range(4000):
            missed = 1 / (1 + np.exp(-xs @ weights)) - inside
            weights = weights - (xs.T @ missed / len(xs) + held * weights)
        for x in range(len(y)):
            if y[x] == label:
                chances[x] = 1 / (1 + math.exp(-scaled([math.log(p) for p in seen[x].tolist()]) @ weights))
    return chances


def plain_f1(members, others):
    """By counts, with as many others as there are members."""
    caught = mean(chance > 0.5 for chance in members)
    alarmed = mean(chance > 0.5 for chance in others)
    precision = caught / (caught + alarmed)
    return 2 * precision * caught / (precision + caught)


@pytest.mark.parametrize("number", [8, 64, 66])
@pytest.mark.parametrize("a", [None, 0.3])
@pytest.mark.parametrize("gamma", [1, 2])
def test_rmia_is_that_of_a_plain_loop(number, a, gamma):
    shadows, seen = random_shadows(number, seed=number)
    assert RMIA(gamma=gamma, a=a).score(seen, shadows) == pytest.approx(plain_rmia(shadows, seen, gamma, a))


@pytest.mark.parametrize("number", [8, 62, 64])
@pytest.mark.parametrize("offline", [False, True])
def test_lira_is_that_of_a_plain_loop(number, offline):
    shadows, seen = random_shadows(number, seed=number)
    assert LiRA(offline=offline).score(seen, shadows) == pytest.approx(plain_lira(shadows, seen, offline))


@pytest.mark.parametrize("number", [8, 64])
def test_shokri_and_its_f1_are_those_of_a_plain_loop(number):
    shadows, seen = random_shadows(number, seed=number)
    expected = plain_shokri(shadows, seen, decay=Shokri().decay)
    found = Shokri().score(seen, shadows)
    assert found == pytest.approx(expected, abs=1e-4)
    f1 = Curve.of(found[:12], found[12:]).decided(Shokri.cut)["f1"].value
    assert f1 == pytest.approx(plain_f1(expected[:12], expected[12:]))
