"""Steady is the best lane, over its own last reports."""

import math
import re

import pytest

from support import toy_federation
from unknot.core.errors import ConfigError
from unknot.core.metrics import ACCURACY, METRICS
from unknot.experiments import Experiment
from unknot.federation import Buffered, Length
from unknot.federation.steady import settled
from unknot.unlearn import KNOT, RFS


def test_the_best_lane_is_steady_by_its_own_last_reports():
    reports = {"a": [0.2, 0.60, 0.61, 0.60], "b": [0.9, 0.1, 0.5]}
    assert settled(reports, ACCURACY, 3, 0.01) == 0.60
    assert settled(reports, ACCURACY, 4, 0.01) is None  # 0.2 is one of them
    assert settled(reports, ACCURACY, 4, None) == 0.60
    assert settled(reports, ACCURACY, 5, None) is None
    better = {**reports, "b": [0.62]}
    assert settled(better, ACCURACY, 3, 0.01) is None  # whoever is best has reported once
    tie = {**reports, "b": [0.60]}
    assert settled(tie, ACCURACY, 3, 0.01) == 0.60
    assert settled({}, ACCURACY, 1, None) is None


def test_less_may_be_better_and_what_is_no_number_is_neither_best_nor_steady():
    perplexity = METRICS["perplexity"]()
    reports = {"a": [50.0, 50.2, 50.1], "b": [60.0] * 3, "c": [math.nan]}
    assert settled(reports, perplexity, 3, 0.01) == 50.1
    assert settled({"a": [math.inf, 50.0, 50.0]}, perplexity, 3, None) is None
    assert settled({"c": [math.nan] * 3}, perplexity, 3, None) is None


def test_a_run_ends_when_its_best_cluster_has_been_steady_for_as_many_reports_of_its_own():
    fed = toy_federation(KNOT(3, by="random"), pace=Buffered(4, 2), evaluate_on=("validation", "test"))
    history = fed.run(200, accuracy=0.5, judge="best", window=4, deviation=0.1)
    assert history.stopped == "accuracy"
    own = {}
    for record in history.rounds:
        own.setdefault(record.lane, []).append(record.own["validation"].value)
    best = max(values[-1] for values in own.values())
    steady = [values for values in own.values() if values[-1] == best and len(values) >= 4]
    assert best >= 0.5
    assert any(ACCURACY.spread(values[-4:]) <= 0.1 for values in steady)


@pytest.mark.parametrize(
    ("idle", "said"),
    [
        ({"judge": "best"}, "judge = 'best' is"),
        ({"window": 5}, "window = 5 is"),
        ({"deviation": 0.0}, "deviation = 0.0 is"),
        (
            {"judge": "best", "window": 5, "deviation": 0.01},
            "window = 5, deviation = 0.01, judge = 'best' are",
        ),
    ],
)
def test_how_a_goal_is_judged_is_refused_where_there_is_none(idle, said):
    told = re.escape(f"{said} for a run that stops at a goal: give accuracy, or goal, as well, or leave")
    with pytest.raises(ConfigError, match=told):
        Length(5, **idle)
    with pytest.raises(ConfigError, match=told):
        Experiment.of({"federation": {"rounds": 5, **idle}})
    with pytest.raises(ConfigError, match=told):
        toy_federation(RFS()).run(5, **idle)
    for goal in ("accuracy", "goal"):
        assert Length(5, **idle, **{goal: 0.5}).target == 0.5
