"""What a line's runs measured: of the leaves of a run, and of its joins."""

from types import SimpleNamespace

import pytest

from unknot.core.metrics import ACCURACY
from unknot.experiments.scenario import Outcome
from unknot.reproduce.measured import measured
from unknot.reproduce.parts import MEASURES


def outcome(kind, before, after, end, worst=None):
    return Outcome(
        request="x",
        kind=kind,
        clients=(1,),
        round=1,
        at=1,
        time=1.0,
        before=before,
        after=after,
        recovering=end,
        recovered=end,
        throughout=(after + end) / 2,
        worst=end if worst is None else worst,
        end=end,
        reached=(),
    )


def test_leaves_and_joins_are_measured_apart():
    run = SimpleNamespace(key="a", seed=0)
    nothing = SimpleNamespace(final=None, of_metric=lambda metric, value, loss: value)
    record = SimpleNamespace(extra={}, trace=nothing, history=SimpleNamespace(scores={}))
    told = [
        outcome("erase", 0.9, 0.2, 0.8),
        outcome("join", 0.8, 0.8, 0.9, worst=0.75),
        outcome("erase", 0.9, 0.4, 0.8),
    ]
    values = measured([(run, record)], {"a": told}, ACCURACY)
    assert set(values) == set(MEASURES) - {"speedup"}
    assert values["drop"]["a"] == pytest.approx((0.7 + 0.5) / 2)
    assert values["throughout"]["a"] == pytest.approx((0.5 + 0.6) / 2)
    assert values["join_rise"]["a"] == pytest.approx(-0.05)
    alone = measured([(run, record)], {"a": told[:1]}, ACCURACY)
    assert alone["join_rise"]["a"] is None
