from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support import ToyEngine, small_data, toy_federation
from unknot.core.errors import ConfigError
from unknot.federation import Buffered, Clock, FedBuff, Pareto, Synchronous
from unknot.federation.pace import by_members
from unknot.unlearn import KNOT, RFS


@dataclass
class F:
    due: int
    version: int = 0


def test_synchronous_waits_for_the_last():
    pace = Synchronous(per_round=2)
    assert pace.ready([F(5), F(9), F(2)], version=0) == 9
    assert pace.vacancies(in_flight=0, members=10) == 2
    assert pace.vacancies(in_flight=1, members=10) == 0
    assert Synchronous().vacancies(in_flight=0, members=10) == 10


def test_buffered_takes_the_first_few():
    pace = Buffered(per_round=4, minimum=2)
    assert pace.ready([F(5), F(9), F(2), F(7)], version=0) == 5
    assert pace.vacancies(in_flight=3, members=10) == 1
    assert pace.ready([F(5)], version=0) == 5  # fewer than the minimum are left: take them


def test_buffered_waits_for_the_stale():
    """At version 3 a client that started from 1 has staleness 2: with bound 2 it is waited for."""
    flights = [F(5, 3), F(6, 3), F(90, 1), F(80, 2)]
    assert Buffered(4, 2, staleness_bound=2).ready(flights, version=3) == 90
    assert Buffered(4, 2, staleness_bound=1).ready(flights, version=3) == 90
    assert Buffered(4, 2, staleness_bound=3).ready(flights, version=3) == 6
    assert Buffered(4, 2).ready(flights, version=3) == 6


@given(
    per_round=st.integers(1, 6), minimum=st.integers(1, 6), bound=st.integers(0, 4), seed=st.integers(0, 99)
)
def test_no_update_is_ever_staler_than_the_bound(per_round, minimum, bound, seed):
    pace = Buffered(per_round, min(minimum, per_round), bound)
    engine = ToyEngine()
    fed = toy_federation(
        RFS(), engine=engine, pace=pace, aggregate=FedBuff(), clock=Clock(Pareto()), seed=seed
    )
    history = fed.run(12)
    for version, jobs in enumerate(engine.calls):
        assert all(0 <= version - job.version <= bound for job in jobs)
        assert len(jobs) >= min(pace.minimum, 6)
    assert max(record.staleness for record in history.rounds) <= bound


def test_the_flight_is_topped_up_and_nobody_flies_twice():
    fed = toy_federation(
        RFS(),
        small_data([4] * 20),
        pace=Buffered(8, 3),
        aggregate=FedBuff(),
        clock=Clock(Pareto()),
    )
    sizes = []
    launch = fed.work.launch

    def watch(lane):
        launch(lane)
        sizes.append(len(lane.flights))
        assert len(lane.flying) == len(lane.flights)

    fed.work.launch = watch
    fed.run(15)
    assert set(sizes) == {8}


@pytest.mark.parametrize(
    "make",
    [
        lambda: Synchronous(0),
        lambda: Buffered(3, 4),
        lambda: Buffered(3, 0),
        lambda: Buffered(3, 2, staleness_bound=-1),
    ],
)
def test_impossible_paces_are_refused(make):
    with pytest.raises(ConfigError):
        make()


def test_a_share_of_a_pace_is_rounded_up_and_never_nothing():
    assert Buffered(30, 15, 4).share(5) == Buffered(6, 3, 4)
    assert Buffered(7, 3).share(5) == Buffered(2, 1)
    assert Synchronous(10).share(3) == Synchronous(4)
    assert Synchronous().share(3) == Synchronous()


def test_seats_by_members_add_up_whoever_is_where():
    """10 seats: 36, 36 and 18 of 90 are 4, 4 and 2; 0, 36 and 54 are 4 and 6, and one for whoever comes."""

    def seats(*members):
        return [pace.per_round for pace in by_members(Synchronous(10), members)]

    assert seats(36, 36, 18) == [4, 4, 2]
    assert seats(0, 36, 54) == [1, 4, 6]
    assert seats(30, 30, 30) == [4, 3, 3]
    assert seats(88, 1, 1) == [8, 1, 1]  # with members, one at least
    assert by_members(Buffered(10, 5, 3), [72, 18]) == [Buffered(8, 4, 3), Buffered(2, 1, 3)]
    assert by_members(Synchronous(), [3, 1]) == [Synchronous()] * 2


def test_a_cluster_by_members_has_as_many_seats_as_it_has_of_the_clients():
    data = small_data((5, 8, 3, 6, 7, 4, 9, 2, 6, 5))
    counts = {}
    for seats in ("even", "members"):
        method = KNOT(by="shares", shares=((0.6, 0.4, 0.0),), seats=seats)
        fed = toy_federation(method, data, pace=Synchronous(5))
        fed.run(2)
        counts[seats] = sorted(len(call) for call in fed.engine.calls)
    assert counts == {"even": [2, 2, 2, 2], "members": [2, 2, 3, 3]}
    with pytest.raises(ConfigError, match="seats"):
        KNOT(seats="all")
