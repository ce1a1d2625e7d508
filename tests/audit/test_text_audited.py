"""Texts put to the question: losses with a reference, perplexity, canaries."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

import unknot
from support import Keeps
from text_worlds import speeches, spoken
from unknot.audit import Canaries, divergence, guessed, planted
from unknot.core.data import FederatedData, Samples, Shard
from unknot.core.keys import Key
from unknot.core.samples import IGNORED
from unknot.experiments.audited import audit
from unknot.experiments.case import Thorough
from unknot.experiments.planted import with_canaries

PLAIN = Thorough(level=0.1, controls=9, sensitivity=0, attacks=("loss",))
LONGER = ("federation.rounds=8", "request=[{erase=1, round=7}]", "train.batch_size=8")


@pytest.fixture(scope="module")
def play(tmp_path_factory):
    return speeches(tmp_path_factory.mktemp("play"), length=240)


@pytest.fixture(scope="module")
def fake(play):
    return audit(spoken(play, *LONGER, method=Keeps()), PLAIN)


def test_a_model_that_is_kept_as_it_is_is_found_by_its_losses_and_its_perplexity(fake):
    assert not fake.same
    assert fake.outcome == "still shows"
    assert {finding.attack: finding.outcome for finding in fake.verdict.findings}["loss"] == "still shows"
    assert fake.perplexity.outcome == "still shows"
    assert fake.perplexity.served.erased < min(both.erased for both in fake.perplexity.controls)


def test_the_record_of_texts_has_their_perplexity(fake):
    told = json.loads(json.dumps(fake.to_dict(), allow_nan=False))["perplexity"]
    assert told["outcome"] == "still shows"
    assert told["seen"] == [3, 3]
    assert len(told["controls"]) == 9


def test_the_losses_of_a_model_are_read_against_models_that_never_had_the_texts(fake):
    loss = next(finding for finding in fake.verdict.findings if finding.attack == "loss")
    assert loss.figures["kept"].auc.value > 0.7
    assert 0.4 < np.median([figures.auc.value for figures in loss.controls]) < 0.6


def test_an_exact_method_shows_nothing_in_its_losses_or_its_perplexity(play):
    found = audit(spoken(play, "federation.rounds=8", "request=[{erase=1, round=1}]"), PLAIN)
    assert found.same
    assert found.outcome == "no trace found"
    assert found.perplexity.served.erased > max(both.erased for both in found.perplexity.kept)
    assert found.divergence["served"].kl == 0


def test_images_have_losses_and_no_perplexity():
    from audit_worlds import experiment

    found = audit(experiment("federation.rounds=3"), replace(PLAIN, others=60))
    assert found.perplexity is None
    assert found.to_dict()["perplexity"] is None
    assert [finding.attack for finding in found.verdict.findings] == ["trace", "loss"]


def test_wrong_labels_of_texts_are_canaries_too(play):
    found = with_canaries(spoken(play, *LONGER), Canaries(20))
    assert found.same
    assert found.kept.right > 10


def test_what_is_masked_in_a_text_is_masked_in_its_canary():
    y = torch.tensor([[0, 1, IGNORED], [2, IGNORED, IGNORED]]).repeat(5, 1)
    texts = Samples(torch.zeros_like(y), y, 3)
    data = FederatedData(texts, {0: Shard.of(np.arange(4)), 1: Shard.of(np.arange(4, 10))}, texts)
    after, _, canaries = planted(data, 1, Canaries(6), Key.root(0))
    assert set((canaries.y == IGNORED).sum(1).tolist()) == {1, 2}
    assert set(canaries.y.unique().tolist()) <= {IGNORED, 0, 1, 2}
    assert not len(after.train.flawed)


class Bag(nn.Module):
    """A text classifier: the mean of its words' embeddings, and a hidden layer."""

    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(30, 16)
        self.hidden, self.head = nn.Linear(16, 32), nn.Linear(32, 3)

    def forward(self, tokens):
        return self.head(self.hidden(self.words(tokens).mean(1)).relu())


def test_canaries_of_classified_texts_are_known_until_they_are_forgotten():
    draw = np.random.default_rng(0)

    def some(number):
        words = torch.from_numpy(draw.integers(0, 30, (number, 6)))
        return Samples(words, words[:, 0] % 3, 3)

    train, test, canaries = some(90), some(60), Canaries(40)
    shards = {k: Shard.of(np.arange(30 * k, 30 * (k + 1))) for k in range(3)}
    data, inside, samples = planted(FederatedData(train, shards, test), 1, canaries, Key.root(1))
    fed = unknot.simulate(
        Bag,
        data,
        recipe=unknot.Recipe(unknot.Adam(0.02), epochs=5, batch_size=10),
        evaluate_every=0,
    )
    kept = fed.run(12).model
    forgot = fed.run(4, requests=[unknot.erase(1, round=12)]).model
    before, after = (guessed(fed.engine, model, samples, inside, canaries) for model in (kept, forgot))
    assert before.verdict() == "still shows"
    assert after.verdict(kept=before) == "no trace found"


def test_two_models_are_compared_where_a_text_counts():
    """Masked positions are neither right nor wrong, nor do they diverge."""

    class Tables:
        def predict(self, model, samples):
            return model.vector.double().reshape(3, 3)[samples.x].softmax(-1)

    class Table:
        def __init__(self, vector):
            self.vector = vector

    x = torch.tensor([[0, 1], [1, 2]])
    texts = Samples(x, torch.tensor([[0, IGNORED], [1, IGNORED]]), 3)
    mine, theirs = torch.eye(3).flatten(), torch.eye(3).flatten()
    theirs[6:] = torch.tensor([9.0, 0.0, 0.0])  # of token 2, which stands only where nothing counts
    found = divergence(Tables(), Table(mine), Table(theirs), texts, texts)
    assert (found.erased, found.test, found.kl, found.agreement) == (1.0, 1.0, 0.0, 1.0)
