"""Verdicts on hand-made scores: who may flag, and what each outcome needs."""

import json
from dataclasses import replace

import numpy as np
import pytest

from unknot.audit import Views, judged
from unknot.audit.ranks import rank_test
from unknot.audit.trace import contrasts, traces
from unknot.audit.verdict import GRID, TRACE
from unknot.core.errors import ConfigError

MEMBERS, OTHERS, CONTROLS, KEPT = 40, 80, 19, 3
CLASSES = np.concatenate([np.arange(MEMBERS), np.arange(OTHERS)]) % 4
INSIDE = np.arange(MEMBERS + OTHERS) < MEMBERS


def made(models, seed, shift=0.0):
    hard = np.random.default_rng(0).normal(2, 2, MEMBERS + OTHERS)
    return hard + np.random.default_rng(seed).normal(0, 0.5, (models, MEMBERS + OTHERS)) + shift * INSIDE


def views(served=0.0, kept=2.0, shares=(), seed=0, **options):
    """The members of the served model and of kept ones are shifted so far; of those left in, a share is."""
    left = made(len(shares), 40 + seed)
    for model, share in zip(left, shares, strict=True):
        model[: round(share * MEMBERS)] += kept
    return Views(
        served=made(1, 10 + seed, served)[0],
        controls=made(CONTROLS, 20 + seed),
        kept=made(KEPT, 30 + seed, kept),
        left=left,
        **options,
    )


def look(shares=(), level=0.05, **given):
    return judged(given, shares, CLASSES, MEMBERS, level)


def outcomes(verdict):
    return {finding.attack: finding.outcome for finding in verdict.findings}


@pytest.mark.parametrize(
    ("served", "outcome"), [(2.0, "still shows"), (0.0, "no trace found"), (-2.0, "over-forgotten")]
)
@pytest.mark.parametrize("name", [TRACE, "an attack"])
def test_what_stands_out_is_found_and_on_which_side(name, served, outcome):
    verdict = look(**{name: views(served)})
    assert verdict.outcome == outcome
    assert (verdict.p <= 0.05) == (outcome != "no trace found")
    (finding,) = verdict.findings
    assert finding.sees
    assert finding.seen == (3, 3)
    assert (abs(finding.deviation) > finding.critical) == (outcome != "no trace found")


@pytest.mark.parametrize("served", [2.0, 0.0, -2.0])
@pytest.mark.parametrize("name", [TRACE, "an attack"])
def test_an_attack_that_does_not_find_what_was_kept_says_nothing_however_odd_the_served_model_is(
    name, served
):
    verdict = look(**{name: views(served, kept=0.0)})
    assert verdict.outcome == "no power"
    assert outcomes(verdict) == {name: "no power"}
    assert not verdict.findings[0].sees
    assert verdict.sensitivity is None


def test_an_attack_without_power_cannot_flag_beside_one_that_has_power():
    verdict = look(trace=views(0.0), blind=views(2.0, kept=0.0, seed=1))
    assert outcomes(verdict) == {"trace": "no trace found", "blind": "no power"}
    assert verdict.outcome == "no trace found"
    assert verdict.p > 0.05


def test_one_attack_that_sees_something_decides():
    verdict = look(trace=views(0.0), sharp=views(2.0, seed=1), low=views(-2.0, seed=2))
    assert outcomes(verdict) == {"trace": "no trace found", "sharp": "still shows", "low": "over-forgotten"}
    assert verdict.outcome == "still shows"
    assert look(trace=views(0.0), low=views(-2.0, seed=2)).outcome == "over-forgotten"


def test_the_oddest_attack_is_one_with_power_where_there_is_any():
    blind, faint, clear = views(4.0, kept=0.0, seed=1), views(0.0), views(-2.0, seed=2)
    verdict = look(trace=faint, blind=blind, clear=clear)
    assert abs(verdict.findings[1].deviation) > abs(verdict.findings[2].deviation)
    assert verdict.oddest is verdict.findings[2]
    assert verdict.p == verdict.findings[2].p
    assert look(trace=faint, blind=blind).oddest.attack == "trace"
    alone = look(blind=blind, idle=views(0.0, kept=0.0, seed=3))
    assert (alone.oddest.attack, alone.outcome) == ("blind", "no power")


def test_two_of_three_kept_models_must_be_found():
    given = views(0.0)
    for shifts, expected in (((0, 3, 3), "no trace found"), ((0, 0, 3), "no power")):
        kept = made(KEPT, 30) + np.array(shifts)[:, None] * INSIDE
        found = judged({"x": replace(given, kept=kept)}, (), CLASSES, MEMBERS)
        assert found.findings[0].seen == (sum(map(bool, shifts)), 3)
        assert found.outcome == expected


def test_all_attacks_together_are_one_test():
    """Controls are odd in one attack or the other: p is by the oddest of each model."""
    given = {"trace": views(0.6), "a": views(0.6, seed=1), "b": views(0.6, seed=2)}
    verdict = look(**given)
    columns = [
        traces(np.vstack([v.served[None], v.controls]), v.kept, CLASSES, MEMBERS)
        if name == "trace"
        else (contrasts(np.vstack([v.served[None], v.controls]), CLASSES, MEMBERS),) * 2
        for name, v in given.items()
    ]
    high, low = (np.stack([column[side] for column in columns], axis=-1) for side in (0, 1))
    expected = rank_test(high[0], high[1:], both=(low[0], low[1:]))
    assert [finding.p for finding in verdict.findings] == list(expected.p)
    assert {finding.critical for finding in verdict.findings} == {expected.critical}
    assert verdict.p == min(expected.p)
    for place, finding in enumerate(verdict.findings):
        assert finding.statistics["served"] == [finding.deviation]
        assert finding.statistics["controls"] == expected.deviations[1:, place].tolist()
        assert len(finding.statistics["kept"]) == 3


def test_of_20_models_without_a_trace_one_at_most_is_found_by_all_attacks_together():
    models = [np.vstack([made(CONTROLS, 20 + k), made(1, 60 + k)]) for k in range(2)]
    found = 0
    for i in range(CONTROLS + 1):
        given = {
            name: replace(
                views(seed=k), served=each[i], controls=np.delete(each, i, axis=0), kept=made(1, 30, 2.0)
            )
            for k, (name, each) in enumerate(zip(("a", "b"), models, strict=True))
        }
        found += look(**given).outcome != "no trace found"
    assert found <= 1


def test_a_kept_model_is_no_witness_in_its_own_case():
    """Its deviation is by what the others tell to look for: were its own view used, it would find itself."""
    given = views(0.0)
    (finding,) = look(trace=given).findings
    for i in range(KEPT):
        models = np.vstack([given.kept[i][None], given.controls])
        high, low = traces(models, np.delete(given.kept, i, axis=0), CLASSES, MEMBERS)
        expected = rank_test(high[0], high[1:], both=(low[0], low[1:])).deviations[0, 0]
        assert finding.statistics["kept"][i] == pytest.approx(expected)


def test_kept_models_that_have_nothing_in_common_are_not_found():
    """Each is odd in members of its own, where the others are not: nobody told to look there."""
    kept = made(KEPT, 30)
    for i, model in enumerate(kept):
        model[10 * i : 10 * i + 10] += 6
        model[:MEMBERS] -= 6 * 10 / MEMBERS
    verdict = judged({TRACE: replace(views(0.0), kept=kept)}, (), CLASSES, MEMBERS)
    assert verdict.outcome == "no power"


def test_the_served_model_does_not_change_what_is_found_of_others():
    odd, plain = look(trace=views(2.0)), look(trace=views(0.0))
    assert odd.findings[0].statistics["kept"] == plain.findings[0].statistics["kept"]
    assert odd.findings[0].controls[0].auc == plain.findings[0].controls[0].auc


SHARES = (0.4, 0.2, 0.1, 0.05) * 2


def test_the_sensitivity_is_by_models_with_a_share_left_in():
    found = look(SHARES, trace=views(0.0, kept=4.0, shares=SHARES)).sensitivity
    assert list(found.found) == [0.05, 0.1, 0.2, 0.4, 1.0]
    assert [count for _, count in found.found.values()] == [2, 2, 2, 2, 3]
    assert found.found[1.0] == (3, 3)
    assert 0.05 <= found.share < 0.4
    assert look(trace=views(0.0)).sensitivity is None


def test_an_attack_without_power_does_not_count_for_the_sensitivity():
    """However far the models with a share left in stand out in it."""
    blind = replace(views(0.0, kept=0.0, seed=1), left=made(8, 41, shift=5.0))
    given = views(0.0, kept=4.0, shares=SHARES)
    beside, alone = look(SHARES, trace=given, blind=blind), look(SHARES, trace=given)
    assert beside.findings[1].outcome == "no power"
    assert beside.sensitivity.found[0.05] <= alone.sensitivity.found[0.05]


def test_figures_are_of_a_kept_model_of_the_served_one_and_of_every_control():
    given = views(2.0, cut=0.5)
    (finding,) = look(attack=given).findings
    assert set(finding.figures) == {"kept", "served"}
    assert finding.figures["served"].curve.members.tolist() == given.served[:MEMBERS].tolist()
    assert finding.figures["kept"].curve.others.tolist() == given.kept[0, MEMBERS:].tolist()
    assert len(finding.controls) == CONTROLS
    assert set(finding.figures["served"].decided) == {"precision", "recall", "f1"}
    (trace,) = look(trace=views(2.0)).findings
    assert (
        trace.figures["served"].auc.value > 0.8
    )  # of z, in which points that are easy anyhow are no members
    assert np.median([figures.auc.value for figures in trace.controls]) == pytest.approx(0.5, abs=0.1)


def test_a_finding_is_plain_values():
    (finding,) = look(attack=views(2.0, cut=0.5)).findings
    record = json.loads(json.dumps(finding.to_dict(), allow_nan=False))
    assert record["attack"] == "attack"
    assert record["seen"] == [3, 3]
    assert record["served"]["auc"]["value"] == finding.figures["served"].auc.value
    band = record["controls"]["roc"]
    assert len(band["fpr"]) == len(band["low"]) == len(band["high"]) == len(GRID)
    assert all(low <= high for low, high in zip(band["low"], band["high"], strict=True))
    assert band["high"] == sorted(band["high"])
    areas = [figures.auc.value for figures in finding.controls]
    assert record["controls"]["auc"] == {
        "value": float(np.median(areas)),
        "low": min(areas),
        "high": max(areas),
    }
    assert record["controls"]["tpr"] == {"0.01": None, "0.001": None}
    assert set(record["controls"]["f1"]) == {"value", "low", "high"}


def test_a_level_for_which_there_are_too_few_controls_is_refused():
    with pytest.raises(ConfigError, match="at least 99 controls, not 19"):
        look(level=0.01, trace=views())


def test_scores_that_are_no_numbers_are_refused():
    given = views()
    broken = replace(given, served=np.where(INSIDE, np.nan, given.served))
    with pytest.raises(ConfigError, match="not a number"):
        look(attack=broken)


def even(models, seed, shift):
    hard = np.random.default_rng(0).normal(0, 2, 1100)
    return hard + np.random.default_rng(seed).normal(size=(models, 1100)) + shift * (np.arange(1100) < 100)


@pytest.mark.parametrize(
    ("shift", "outcome"), [(0.6, "still shows"), (-0.6, "over-forgotten"), (0.0, "no trace found")]
)
def test_a_faint_trace_of_everything_is_found_either_way(shift, outcome):
    """Each member a little surer, none of them as sure as if it had been learned."""
    given = Views(even(1, 1, shift)[0], even(19, 2, 0.0), even(3, 3, 2.0), even(0, 4, 0.0))
    verdict = judged({"trace": given}, [], np.zeros(1100, dtype=np.int64), 100)
    assert verdict.outcome == outcome
    assert verdict.unlike == pytest.approx(1, abs=0.2)


def test_a_model_that_answers_everything_otherwise_is_said_to_be_unlike_its_controls():
    given = Views(
        even(1, 1, 0.0)[0] + 5 * (even(1, 7, 0.0) - even(1, 8, 0.0))[0],
        even(19, 2, 0.0),
        even(3, 3, 2.0),
        even(0, 4, 0.0),
    )
    verdict = judged({"trace": given}, [], np.zeros(1100, dtype=np.int64), 100)
    assert verdict.unlike > 3


def test_scores_that_are_read_against_the_controls_have_their_figures_of_the_difference():
    """What is easy for every model is no sign of membership; the test itself is the same."""
    easy = np.linspace(-50, 50, MEMBERS + OTHERS)
    given = views(2.0)
    shifted = replace(given, **{kind: getattr(given, kind) + easy for kind in ("served", "controls", "kept")})
    (raw,) = look(attack=shifted).findings
    (found,) = look(attack=replace(shifted, referred=True)).findings
    assert raw.p == found.p
    assert found.figures["served"].auc.value > 0.8 > raw.figures["served"].auc.value
    expected = (shifted.served - shifted.controls.mean(0))[:MEMBERS]
    assert found.figures["served"].curve.members == pytest.approx(expected)
    others = np.delete(shifted.controls, 0, 0).mean(0)
    assert found.controls[0].curve.members == pytest.approx((shifted.controls[0] - others)[:MEMBERS])
