"""The published formulas, on cases that were computed by hand."""

import numpy as np
import pytest
import torch

from unknot.audit import RMIA, LiRA, Shadows, Shokri
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
    assert RMIA(gamma=1).score(answers, shadows).tolist() == [1, 1, 0]
    assert RMIA(gamma=2).score(answers, shadows).tolist() == [0.5, 1, 0]
    assert RMIA(gamma=4).score(answers, shadows).tolist() == [0, 0, 0]


def test_rmia_offline_by_hand():
    """With a = 0.5, Pr(x) = ½ (1.5 · 0.4 + 0.5) = 0.55 for all but the last, 0.775; ratios 1.1, 0.8, 0.9."""
    shadows = made([[1, 1, 1], [0, 0, 0]], [[0.0, 1.0, 0.0], [0.4, 0.4, 0.7]], members=1)
    answers = two_classes([0.605, 0.44, 0.6975])
    assert RMIA(gamma=1, a=0.5).score(answers, shadows).tolist() == [1, 0, 1]


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
