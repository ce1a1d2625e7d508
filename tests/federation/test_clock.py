import numpy as np
import pytest

from unknot.core.errors import ConfigError
from unknot.core.keys import Key
from unknot.core.training import ConstantRate
from unknot.federation.clock import SECOND, Clock, Constant, Pareto, Trace, Uniform

KEY = Key.root(0).child("slowness")


def test_a_duration_by_hand():
    """0.5 s latency + 0.01 s × 100 samples × slowness 3 = 3.5 s."""
    clock = Clock(Trace((1.0, 3.0)), seconds_per_sample=0.01, latency=0.5)
    assert clock.duration(1, 100, KEY) == 3.5 * SECOND
    assert clock.duration(3, 100, KEY) == 3.5 * SECOND
    assert clock.duration(0, 100, KEY) == 1.5 * SECOND
    assert clock.duration(0, 0, KEY) == clock.duration(0, 1, KEY) == 0.51 * SECOND


def test_time_always_passes():
    assert Clock(seconds_per_sample=1e-12).duration(0, 1, KEY) == 1


def test_a_pareto_tail_by_its_quantiles():
    """P(slowness > s) = 1/s for alpha = 1: half above 2, a tenth above 10, capped at 20."""
    slowness = Pareto(alpha=1.0, cap=20.0).of(np.arange(100_000), KEY)
    assert slowness.min() >= 1
    assert slowness.max() == 20
    assert abs((slowness > 2).mean() - 1 / 2) < 0.01
    assert abs((slowness > 10).mean() - 1 / 10) < 0.01


def test_uniform_and_constant_slowness():
    slowness = Uniform(2.0, 4.0).of(np.arange(10_000), KEY)
    assert 2 <= slowness.min() < 2.01
    assert 3.99 < slowness.max() < 4
    assert Constant(2.5).of([1, 2], KEY).tolist() == [2.5, 2.5]


def test_a_slowness_may_be_named():
    assert Clock("pareto") == Clock(Pareto())


def test_slowness_belongs_to_the_client():
    """It does not depend on who else there is."""
    many = Pareto().of(np.arange(50), KEY)
    assert Pareto().of([7], KEY)[0] == many[7]


@pytest.mark.parametrize(
    "make",
    [
        lambda: Constant(0),
        lambda: Uniform(3, 2),
        lambda: Uniform(0, 2),
        lambda: Pareto(alpha=0),
        lambda: Pareto(cap=0.5),
        lambda: Trace(()),
        lambda: Trace((1.0, -1.0)),
        lambda: Clock(seconds_per_sample=0),
        lambda: Clock(latency=-1),
        lambda: Clock(2.0),
        lambda: Clock(Pareto),
        lambda: Clock(ConstantRate()),
        lambda: Clock("paretto"),
    ],
)
def test_impossible_clocks_are_refused(make):
    with pytest.raises(ConfigError):
        make()
