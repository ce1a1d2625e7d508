"""The perplexity of the erased texts, among that of models that never had them."""

import json
import math

import numpy as np
import pytest

from unknot.audit import perplexity

TOKENS = np.array([1, 3, 2, 2])
DRAW = np.random.default_rng(0)


def logs(models, shift=0.0):
    """Log-probabilities of two erased texts and two others; the erased ones are likelier by `shift`."""
    return DRAW.normal(-3.0, 0.05, size=(models, 4)) + shift * np.array([1, 1, 0, 0])


CONTROLS, KEPT = logs(19), logs(3, 1.0)


def test_a_perplexity_counts_every_token_once():
    """Texts of one and three tokens: exp((1 · 4 + 3 · 2) / 4) = exp(2.5)."""
    found = perplexity(np.array([-4.0, -2.0, -1.0, -2.0]), CONTROLS, KEPT, TOKENS, 2)
    assert found.served.erased == pytest.approx(math.exp(2.5))
    assert found.served.others == pytest.approx(math.exp(1.5))


@pytest.mark.parametrize(
    ("shift", "outcome", "p"), [(1.0, "still shows", 0.05), (-1.0, "over-forgotten", 0.05)]
)
def test_what_is_too_low_still_shows_and_what_is_too_high_was_over_forgotten(shift, outcome, p):
    found = perplexity(logs(1, shift)[0], CONTROLS, KEPT, TOKENS, 2)
    assert (found.outcome, found.p, found.seen) == (outcome, pytest.approx(p), (3, 3))
    assert (found.served.erased < min(both.erased for both in found.controls)) == (shift > 0)


def test_a_control_in_its_place_is_one_of_many():
    found = perplexity(CONTROLS[0], CONTROLS[1:], KEPT, TOKENS, 2, level=0.1)
    assert found.outcome == "no trace found"


def test_where_kept_models_do_not_stand_out_nothing_is_said():
    found = perplexity(logs(1, 1.0)[0], CONTROLS, logs(3), TOKENS, 2)
    assert found.outcome == "no power"
    told = json.loads(json.dumps(found.to_dict()))
    assert told["p"] is None
    assert (len(told["controls"]), len(told["kept"])) == (19, 3)
