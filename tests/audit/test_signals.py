"""What is read off answers to texts: piece by piece, and of the right token against all others alone."""

import numpy as np
import pytest
import torch

from unknot.audit import signals
from unknot.audit.signals import confidence, pieces, told, truth
from unknot.core.samples import IGNORED, Samples

CLASSES = 7
DRAW = torch.Generator().manual_seed(0)
X = torch.randint(0, CLASSES, (10, 4), generator=DRAW)
Y = torch.randint(0, CLASSES, (10, 4), generator=DRAW)
Y[3:6, 2:] = IGNORED
TEXTS = Samples(X, Y, CLASSES)


class Tables:
    """A model is a table: a token's row has the logits of the next."""

    def __init__(self):
        self.asked = []

    def predict(self, model, samples):
        self.asked.append(len(samples))
        return model[samples.x].softmax(-1)


MODELS = [torch.randn(CLASSES, CLASSES, generator=DRAW, dtype=torch.float64) for _ in range(3)]


def test_the_right_token_against_the_rest_is_all_that_is_read():
    answers, points = told(Tables(), MODELS, TEXTS)
    for said, model in zip(answers, MODELS, strict=True):
        whole = Tables().predict(model, TEXTS)
        assert said.shape == (10, 4, 2)
        assert torch.equal(confidence(said, points.y), confidence(whole, Y))
        assert torch.equal(truth(said, points.y), truth(whole, Y))
    assert torch.equal(points.y == IGNORED, Y == IGNORED)


@pytest.mark.parametrize(("room", "rows"), [(3 * 4 * CLASSES, [3, 3, 3, 1]), (1, [1] * 10)])
def test_answers_that_take_much_room_are_had_piece_by_piece(monkeypatch, room, rows):
    plain, _ = told(Tables(), MODELS, TEXTS)
    monkeypatch.setattr(signals, "ROOM", room)
    engine = Tables()
    found, _ = told(engine, MODELS, TEXTS)
    assert all(map(torch.equal, found, plain))
    assert sorted(engine.asked) == sorted(3 * rows)


def test_where_there_is_room_models_are_asked_at_once():
    assert [len(part) for part in pieces(TEXTS)] == [10]
    assert next(iter(pieces(TEXTS))) is TEXTS


def test_samples_with_one_label_each_are_answered_as_they_are():
    labelled = Samples(X[:, 0], Y[:, 0], CLASSES)
    (said,), points = told(Tables(), MODELS[:1], labelled)
    assert torch.equal(said, Tables().predict(MODELS[0], labelled))
    assert points is labelled


def test_what_softens_answers_has_all_classes_before_it():
    seen = []

    def soften(answers, model):
        seen.append(answers.shape[-1])
        return answers * 0 + 1 / CLASSES

    (said,), points = told(Tables(), MODELS[:1], TEXTS, soften)
    assert seen == [CLASSES]
    assert np.allclose(truth(said, points.y), 1 / CLASSES)
