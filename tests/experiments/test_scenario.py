import pytest

from unknot.core.errors import ConfigError
from unknot.core.jobs import Score
from unknot.experiments import Experiment
from unknot.experiments.scenario import LearningCurve, Rates, Reached, scenario
from unknot.federation.events import Begun, Costs, Round, Served
from unknot.federation.history import History


def score(accuracy: float | None, split: str = "test") -> dict[str, Score]:
    return {} if accuracy is None else {split: Score({"accuracy": accuracy}, 1.0, 100)}


def round_(number, accuracy, *, jobs, time=None, lane="global", split="test") -> Round:
    """One job is two client epochs, 10 bytes down and 5 up, here; stored is 7 bytes a round."""
    return Round(
        lane=lane,
        round=number,
        version=number,
        time=float(number if time is None else time),
        clients=(0,),
        staleness=0.0,
        train_loss=1.0,
        used=1,
        set_aside={},
        scores=score(accuracy, split),
        costs=Costs(jobs, 2.0 * jobs, bytes_down=10 * jobs, bytes_up=5 * jobs, bytes_stored=7 * number),
    )


def served(
    number, before, after, *, jobs, place=None, kind="erase", client=1, time=None, split="test"
) -> Served:
    return Served(
        kind=kind,
        asked=((client, None),),
        clients=(client,),
        time=float(number if time is None else time),
        round=number,
        place=number if place is None else place,
        restarted=(),
        cancelled=(),
        purged=0,
        before=score(before, split),
        after=score(after, split),
        costs=Costs(jobs, 2.0 * jobs),
    )


def history(rounds, requests) -> History:
    return History(Begun("rfs", "exact", 0), rounds, requests)


# Three rounds of 4 jobs, client 1 leaves, five rounds of 3 jobs; client 9 joins after round 6.
ONE = history(
    [
        round_(1, 0.3, jobs=4),
        round_(2, 0.5, jobs=8),
        round_(3, 0.8, jobs=12),
        round_(4, 0.2, jobs=15),
        round_(5, 0.6, jobs=18),
        round_(6, 0.7, jobs=21),
        round_(7, 0.9, jobs=24),
        round_(8, 0.95, jobs=27),
    ],
    [served(3, 0.8, 0.1, jobs=12), served(6, 0.7, 0.7, jobs=21, kind="join", client=9)],
)


def test_rounds_seconds_and_epochs_to_a_threshold():
    leave, join = scenario(ONE, [0.1, 0.6, 0.75]).outcomes
    assert (leave.before, leave.after, leave.end) == (0.8, 0.1, 0.7)
    # Round 0 reaches 0.1. 0.6 is reached in round 5: two rounds, 2 s, and 2 × (18 − 12) epochs after.
    assert leave.reached == (
        Reached(0.1, 0, 0.0, 0.0, kept=0.0),
        Reached(0.6, 2, 2.0, 12.0, kept=2.0),
        Reached(0.75),
    )
    assert (leave.time, join.time) == (3.0, 6.0)
    assert leave.recovering == pytest.approx((0.2 + 0.6 + 0.7) / 3)
    assert leave.recovered == 0.7
    # 0.9 in round 7 belongs to the join, not to the leave before it.
    assert join.kind == "join"
    assert join.reached == (
        Reached(0.1, 0, 0.0, 0.0, kept=0.0),
        Reached(0.6, 0, 0.0, 0.0, kept=0.0),
        Reached(0.75, 1, 1.0, 6.0, kept=1.0),
    )
    assert join.recovering == pytest.approx(0.925)


def test_the_window_bounds_the_mean():
    assert LearningCurve.of(ONE).outcomes(window=2)[0].recovering == pytest.approx(0.4)
    assert LearningCurve.of(ONE).outcomes(window=2)[0].recovered == 0.6
    assert LearningCurve.of(ONE).outcomes(window=2)[0].throughout == pytest.approx(0.5)  # of three rounds
    assert [outcome.worst for outcome in LearningCurve.of(ONE).outcomes()] == [0.2, 0.9]


def test_lanes_that_each_record_a_round_count_rounds_and_not_records():
    """Two clusters; after the request at round 2 each has its rounds 3 and 4: two rounds, four records."""
    lanes = [
        round_(1, 0.4, jobs=1, lane="a", time=1),
        round_(1, 0.5, jobs=2, lane="b", time=1),
        round_(2, 0.6, jobs=3, lane="a", time=2),
        round_(2, 0.7, jobs=4, lane="b", time=2),
        round_(3, 0.4, jobs=5, lane="a", time=3),
        round_(3, 0.5, jobs=6, lane="b", time=3),
        round_(4, 0.5, jobs=7, lane="a", time=4),
        round_(4, 0.6, jobs=8, lane="b", time=4),
    ]
    (outcome,) = scenario(history(lanes, [served(2, 0.7, 0.3, jobs=4, place=4)]), [0.6]).outcomes
    assert outcome.reached == (Reached(0.6, 2, 2.0, 8.0, kept=2.0),)
    trace = LearningCurve.of(history(lanes, [served(2, 0.7, 0.3, jobs=4, place=4)]))
    assert trace.curve() == {(1, 0): 0.5, (2, 0): 0.7, (2, 1): 0.3, (3, 0): 0.5, (4, 0): 0.6}


def test_a_lane_that_lags_is_part_of_the_first_round_after_a_request():
    """The fast lane has done 5 rounds when the request comes; the slow one ends its 2nd after it."""
    rounds = [
        round_(5, 0.7, jobs=5, lane="fast", time=5),
        round_(2, 0.65, jobs=6, lane="slow", time=6),
        round_(6, 0.8, jobs=7, lane="fast", time=7),
    ]
    trace = LearningCurve.of(history(rounds, [served(5, 0.7, 0.5, jobs=5, place=1)]))
    (outcome,) = trace.outcomes([0.6, 0.8])
    assert [reached.rounds for reached in outcome.reached] == [1, 1]
    assert [reached.seconds for reached in outcome.reached] == [1.0, 2.0]
    assert trace.curve() == {(5, 0): 0.7, (5, 1): 0.5, (6, 0): 0.8}


def test_a_request_of_a_slow_lane_lies_where_the_federation_was():
    """The slow lane has had one round when it is asked, the fast one five; then both have two more."""
    rounds = [
        *(round_(n, 0.5 + n / 100, jobs=n, lane="fast", time=n) for n in range(1, 6)),
        round_(1, 0.6, jobs=6, lane="slow", time=5.5),
        round_(6, 0.4, jobs=7, lane="fast", time=7),
        round_(2, 0.5, jobs=8, lane="slow", time=8),
        round_(7, 0.55, jobs=9, lane="fast", time=8.5),
        round_(3, 0.7, jobs=10, lane="slow", time=9),
    ]
    trace = LearningCurve.of(history(rounds, [served(1, 0.6, 0.3, jobs=6, place=6, time=6)]))
    (outcome,) = trace.outcomes([0.7, 0.9])
    assert (outcome.round, outcome.at) == (1, 5)
    assert outcome.reached[0] == Reached(0.7, 2, 3.0, 8.0, kept=3.0)
    assert [reached.rounds for reached in outcome.reached] == [2, None]
    assert [accuracy for place, accuracy in trace.curve().items() if place[0] in (5, 6)] == [0.6, 0.3, 0.5]


def test_a_lane_behind_the_others_time_takes_no_negative_seconds():
    """One lane had gone on to 20 s in an earlier run; the request finds the other at 8 s."""
    rounds = [
        round_(1, 0.6, jobs=1, lane="a", time=20),
        round_(1, 0.6, jobs=2, lane="b", time=8),
        round_(2, 0.5, jobs=3, lane="b", time=16),
        round_(2, 0.7, jobs=4, lane="a", time=22),
        round_(3, 0.8, jobs=5, lane="b", time=21),
    ]
    made = history(rounds, [served(1, 0.6, 0.3, jobs=2, place=2, time=20)])
    (outcome,) = LearningCurve.of(made).outcomes([0.5, 0.7, 0.8])
    assert [reached.seconds for reached in outcome.reached] == [0.0, 2.0, 2.0]
    assert made.recovery(made.served[0], 0.8).seconds == 0.0
    assert made.recovery(made.served[0], 1.1).seconds == 2.0


def test_a_round_without_work_still_comes_after_the_request():
    rounds = [round_(1, 0.5, jobs=3), round_(2, 0.6, jobs=3)]
    (outcome,) = scenario(history(rounds, [served(1, 0.5, 0.5, jobs=3)]), [0.6]).outcomes
    assert outcome.reached[0].rounds == 1


def test_the_split_is_test_where_it_was_looked_at_and_else_what_was():
    assert LearningCurve.of(ONE).split == "test"
    other = history(
        [round_(1, 0.5, jobs=1, split="validation")], [served(1, 0.5, 0.4, jobs=1, split="validation")]
    )
    assert LearningCurve.of(other).split == "validation"
    assert scenario(other).outcomes[0].after == 0.4
    unseen = scenario(history([round_(1, None, jobs=1)], [served(0, None, None, jobs=0)]), [0.5])
    assert unseen.outcomes[0].reached == (Reached(0.5),)
    assert unseen.outcomes[0].recovering is None


def test_costs_a_round_and_as_multiples_of_plain_training():
    whole, before = Rates.of(ONE), Rates.of(ONE, until_request=True)
    # 27 jobs in 8 rounds; before the request 12 jobs in 3. 15 bytes a job, 7 bytes a round stored.
    assert whole == Rates(54 / 8, 1.0, 27 * 15 / 8, 56.0)
    assert before == Rates(8.0, 1.0, 60.0, 21.0)
    assert whole.over(before).bytes_stored == pytest.approx(56 / 21)
    assert whole.over(before).client_epochs == pytest.approx(27 / 32)
    assert Rates.of(history([], [])) is None


def test_an_experiment_names_its_thresholds():
    assert Experiment.of({"scenario": {"thresholds": [0.75, 1]}}).thresholds == (0.75, 1.0)
    for table, message in (
        ({"threshold": [0.5]}, "Did you mean 'thresholds'"),
        ({"thresholds": [75]}, "shares"),
        ({"thresholds": 0.75}, "a list"),
    ):
        with pytest.raises(ConfigError, match=message):
            Experiment.of({"scenario": table})
