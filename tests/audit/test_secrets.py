"""Secrets in texts: how they are planted, what exposure is, and how often chance alone shows some."""

import json
import math
from itertools import combinations

import numpy as np
import pytest
import torch

from unknot.audit import Exposures, Secrets, hidden
from unknot.audit.secrets import losses
from unknot.core.data import FederatedData, Samples, Shard
from unknot.core.errors import ConfigError
from unknot.core.keys import Key
from unknot.core.samples import IGNORED

KEY = Key.root(3)
FEW = Secrets(number=3, repeats=2, length=4, candidates=20)


def texts(clients=3, each=4, context=8, classes=12, test_owner=None):
    """Texts of tokens 0 to 6; what is tested with holds no token 0."""
    draw = np.random.default_rng(0)

    def some(number, least):
        x, y = (torch.from_numpy(draw.integers(least, 7, (number, context))) for _ in range(2))
        y[:, -2:] = IGNORED
        return Samples(x, y, classes)

    shards = {k: Shard.of(np.arange(k * each, (k + 1) * each)) for k in range(clients)}
    return FederatedData(some(clients * each, 0), shards, some(6, 1), test_owner=test_owner)


def test_the_erased_clients_texts_hold_each_planted_secret_so_often_and_nobody_elses_change():
    data = texts()
    after, drawn = hidden(data, 1, FEW, KEY)
    assert len(drawn.planted) == 3
    assert len(drawn.texts) == 23
    assert len(after[1]) == len(data[1]) + 6
    for other in (0, 2):
        assert after[other].rows.tolist() == data[other].rows.tolist()
    new = after.train.subset(after[1].rows[-6:])
    rows = torch.from_numpy(np.repeat(drawn.planted, 2))
    assert torch.equal(new.x, drawn.texts.x[rows])
    assert after.test is data.test


def test_only_the_secret_is_asked_for_and_all_of_the_text_is_learned():
    after, drawn = hidden(texts(), 1, FEW, KEY)
    asked, learned = drawn.texts.y[drawn.planted[0]], after.train.y[after[1].rows[-6]]
    # Three tokens, then a secret of four: six positions predict a token, the last four one of the secret.
    assert (asked != IGNORED).tolist() == [False, False, True, True, True, True, False, False]
    assert (learned != IGNORED).tolist() == [True] * 6 + [False] * 2
    assert torch.equal(learned[2:6], asked[2:6])
    assert torch.equal(drawn.texts.x[:, 3:6], drawn.texts.y[:, 2:5])
    assert len({tuple(row) for row in drawn.texts.x[:, :3].tolist()}) == 1


def test_secrets_are_of_tokens_that_others_are_tested_with_and_no_two_are_the_same():
    _, drawn = hidden(texts(), 1, FEW, KEY)
    found = drawn.texts.y[:, 2:6]
    assert drawn.tokens == 6
    assert set(found.flatten().tolist()) <= set(range(1, 7))
    assert len(found.unique(dim=0)) == 23
    owner = np.array([1, 1, 1, 1, 1, 0])
    _, others = hidden(texts(test_owner=owner), 1, FEW, KEY)
    assert others.tokens < 7


def test_tokens_and_prefix_may_be_given():
    given = Secrets(number=2, repeats=1, length=5, candidates=30, prefix=(9, 8), tokens=range(1, 5))
    after, drawn = hidden(texts(), 2, given, KEY)
    assert drawn.tokens == 4
    assert given.tokens == (1, 2, 3, 4)
    assert after.train.x[-1, :2].tolist() == [9, 8]
    assert set(drawn.texts.y[:, 1:6].flatten().tolist()) == {1, 2, 3, 4}


def test_which_are_planted_and_what_they_are_depends_on_the_key_alone():
    (_, one), (_, again), (_, other) = (hidden(texts(), 1, FEW, key) for key in (KEY, KEY, Key.root(4)))
    assert torch.equal(one.texts.x, again.texts.x)
    assert one.planted.tolist() == again.planted.tolist()
    assert not torch.equal(one.texts.x, other.texts.x)


def test_exposure_is_what_the_paper_says():
    """Of 7 candidates and itself: the first in rank shows 3 bits, the second 2, the last none."""
    values = np.array([0.5, 9.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0])
    found = Exposures.of(values, np.array([0, 1]))
    assert found.below == (0, 7)
    assert found.bits == pytest.approx((3.0, 0.0))
    assert (found.mean, found.most) == (1.5, 3.0)
    assert Exposures.of(values, np.array([3, 2])).bits == pytest.approx((2.0, 2.0))


def test_planted_secrets_do_not_stand_in_one_anothers_way():
    found = Exposures.of(np.arange(1024.0), np.arange(8))
    assert found.bits == pytest.approx((math.log2(1017),) * 8)


def test_the_chance_is_that_of_all_ways_to_plant():
    """Against every pair of places among 30."""
    found = Exposures((1, 3), 28)
    every = [Exposures((a, b - 1), 28).mean for a, b in combinations(range(30), 2)]
    exact = np.mean([value >= found.mean - 1e-9 for value in every])
    assert found.p == pytest.approx(exact, abs=1e-12)


def test_the_chance_of_one_secret_is_its_rank_over_all():
    assert Exposures((0,), 1023).p == pytest.approx(1 / 1024, abs=1e-15)
    assert Exposures((0,), 1023).two_sided == pytest.approx(2 / 1024, abs=1e-15)
    assert Exposures((4,), 1023).p == pytest.approx(5 / 1024, abs=1e-15)
    assert Exposures((1023,), 1023).p == 1.0
    assert Exposures((0,) * 8, 1023).p == pytest.approx(1 / math.comb(1031, 8), rel=1e-9)


def test_of_models_that_know_nothing_one_in_twenty_is_flagged():
    draw = np.random.default_rng(1)
    found = [Exposures.of(draw.normal(size=263), draw.permutation(263)[:8]).verdict() for _ in range(1500)]
    assert 0.03 < np.mean([one != "no trace found" for one in found]) < 0.07
    assert {"still shows", "over-forgotten"} <= set(found)


def test_a_model_that_cannot_tell_secrets_apart_exposes_none():
    draw = np.random.default_rng(2)
    shown = [Exposures.of(np.zeros(263), draw.permutation(263)[:8]).verdict() for _ in range(300)]
    assert np.mean([one != "no trace found" for one in shown]) < 0.1


def test_the_verdict_has_two_sides_and_needs_power():
    known, unknown, unliked = (
        Exposures((0, 0, 2), 999),
        Exposures((200, 500, 700), 999),
        Exposures((999,) * 3, 999),
    )
    assert known.verdict() == "still shows"
    assert unknown.verdict() == "no trace found"
    assert unliked.verdict() == "over-forgotten"
    assert [found.verdict(before=known) for found in (known, unknown, unliked)] == [
        "still shows",
        "no trace found",
        "over-forgotten",
    ]
    assert {found.verdict(before=unknown) for found in (known, unknown, unliked)} == {"no power"}


def test_what_is_found_is_told_in_plain_values():
    told = json.loads(json.dumps(Exposures((0, 5), 15).to_dict()))
    assert set(told) == {"bits", "mean", "most", "p", "two_sided"}
    assert told["most"] == 4.0


class Fixed:
    """A model is a tensor of logits, the same for every text."""

    def predict(self, model, samples):
        return model.softmax(-1).expand(*samples.y.shape, -1)


def test_a_loss_is_the_mean_over_a_secrets_own_tokens():
    y = torch.tensor([[IGNORED, 0, 1], [IGNORED, IGNORED, 1]])
    logits = torch.tensor([1.0, 0.0], dtype=torch.float64)
    (found,) = losses(Fixed(), [logits], Samples(torch.zeros(2, 3, dtype=torch.int64), y, 2))
    first, second = -logits.log_softmax(-1)
    assert found == pytest.approx([float(first + second) / 2, float(second)])
    with pytest.raises(ConfigError, match="diverged"):
        losses(Fixed(), [logits / 0], Samples(torch.zeros(2, 3, dtype=torch.int64), y, 2))


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"number": 0}, "number must be at least 1, not 0"),
        ({"repeats": 0}, "repeats must be at least 1"),
        ({"candidates": 0}, "candidates must be at least 1"),
        ({"prefix": 0}, "at least one token"),
        ({"prefix": ()}, "at least one token"),
    ],
)
def test_what_makes_no_sense_is_refused_at_once(options, sentence):
    with pytest.raises(ConfigError, match=sentence):
        Secrets(**options)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"length": 7}, "a prefix of 3 tokens and a secret of 7 do not fit texts of 8 tokens"),
        ({"length": 2, "candidates": 50}, "6 tokens make too few secrets of length 2 to draw 58"),
        ({"tokens": (1, 2, 12), "candidates": 5}, "numbers from 0 to 11"),
        ({"prefix": (12,), "candidates": 5}, "numbers from 0 to 11"),
    ],
)
def test_secrets_that_do_not_fit_the_texts_are_refused(options, sentence):
    with pytest.raises(ConfigError, match=sentence):
        hidden(texts(), 1, Secrets(**{"length": 4, **options}), KEY)


def test_what_is_no_text_has_no_secrets():
    labelled = Samples(torch.zeros(4, 3), torch.zeros(4, dtype=torch.int64), 2)
    data = FederatedData(labelled, {0: Shard.of(np.arange(4))}, labelled)
    with pytest.raises(ConfigError, match="plant canaries instead"):
        hidden(data, 0, Secrets(), KEY)
    with pytest.raises(ConfigError, match="ranks of planted secrets"):
        Exposures((3,), 2)


def test_the_chance_of_many_secrets_is_a_number(monkeypatch):
    """There are more ways to plant so many than a float can count."""
    monkeypatch.setattr("unknot.audit.secrets.WORK", 310**2 * 1023 * 12)  # whole bits: quicker
    drawn = np.random.default_rng(0).standard_normal(310 + 1023)
    planted = np.arange(310)
    nothing = Exposures.of(drawn, planted)
    assert 0.05 < nothing.p < 0.95
    assert nothing.verdict() == "no trace found"
    drawn[planted] -= 1
    assert Exposures.of(drawn, planted).verdict() == "still shows"
    assert 0 < Exposures((0,) * 310, 1023).p < 1e-200


def test_more_secrets_than_can_be_judged_are_refused_at_once():
    with pytest.raises(ConfigError, match=r"100000 of them .* takes too long: plant at most 6\d\d, or"):
        Secrets(number=100_000)
    Secrets(number=600)
